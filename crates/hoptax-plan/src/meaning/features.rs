//! Reads the features of a gateway. Adds the features that they imply, and expands `each` and `all-pairs`
//! into sets of features.

use super::reader::Reader;
use super::running;
use crate::de::one_of;
use crate::error::Place;
use crate::raw::{Placed, RawFeature, RawFeatures, RawGateway, Short, SteadyRate};
use crate::units::nearest;
use crate::{
    Feature, Gateway, GatewayKind, JwtAlgorithm, MOST_CONSUMERS, MOST_ROUTES, PackInfo, RoutePosition,
    Running, Upstream, units,
};
use hoptax_format::spec::ProxyProtocol;

/// Longest accepted time for caching token reviews, in seconds. It is one day.
const LONGEST_CACHE_S: u64 = 86_400;

/// A matrix of feature sets. Each set is measured as a separate gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matrix {
    /// The gateway without features, and with each feature alone.
    Each,
    /// The gateway without features, with each feature alone, and with every pair of features.
    AllPairs,
}

/// The matrix, if the value of `features` is `each` or `all-pairs`.
pub(super) fn matrix(typed: &Placed<RawFeatures>) -> Option<Matrix> {
    match &typed.value {
        Short::Word(word) if word.0 == "each" => Some(Matrix::Each),
        Short::Word(word) if word.0 == "all-pairs" => Some(Matrix::AllPairs),
        _ => None,
    }
}

pub(super) fn first_place(typed: &RawGateway) -> Option<Place> {
    let features = typed.features.as_ref()?;
    match &features.value {
        Short::Word(_) => Some(features.place),
        Short::Full(list) => list.first().map(|feature| feature.place),
    }
}

/// The features that a gateway of this pack has in every plan.
fn always(pack: Option<&PackInfo>) -> &'static [Feature] {
    if pack.is_some_and(|pack| pack.always_tls) { &[Feature::Tls] } else { &[] }
}

/// Reads the plan's features, and adds the features that they or the pack imply.
pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: &RawGateway,
    pack: Option<&PackInfo>,
    upstream: &Upstream,
) -> Vec<Feature> {
    let always = always(pack);
    let Some(all) = &typed.features else { return always.to_vec() };
    let list = match &all.value {
        Short::Full(list) => list,
        Short::Word(_) if matrix(all).is_some() => return always.to_vec(),
        Short::Word(word) => {
            let message = format!("`features: {}` is not a list, `each` or `all-pairs`", word.0);
            reader.fault(all.place, message, format!("write features: [{}]", word.0));
            return Vec::new();
        }
    };
    let mut features: Vec<(Place, Feature)> = Vec::new();
    for Placed { place, value } in list {
        let (at, name, feature) = match value {
            Short::Word(word) => (*place, word.0.as_str(), by_name(&word.0)),
            Short::Full(raw) => match with_settings(reader, *place, raw) {
                Some((at, feature)) => (at, feature.name(), Some(feature)),
                None => continue,
            },
        };
        if !offered(reader, pack, at, name, feature) {
            continue;
        }
        let Some(feature) = feature else { continue };
        if features.iter().any(|(_, earlier)| earlier.name() == feature.name()) {
            reader.fault(
                at,
                format!("the feature `{}` appears twice", feature.name()),
                "remove one of the two",
            );
            continue;
        }
        let mut conflicts = features.iter().filter_map(|(_, one)| Some((one.name(), one.conflict(feature)?)));
        if let Some((earlier, reason)) = conflicts.next() {
            let message = format!("`{earlier}` and `{}` {reason}", feature.name());
            reader.fault(at, message, "remove one of the two");
        }
        if feature.translates_calls() {
            reader.translations.push((at, feature));
        }
        check_instances(reader, at, feature, upstream);
        if let Upstream::Running(running) = upstream {
            check_running_upstream(reader, at, feature, running, pack);
        }
        features.push((at, feature));
    }
    with_implied(reader, pack, features)
}

/// The feature with this name and its default settings. `jwt` means `jwt-hs256`.
fn by_name(name: &str) -> Option<Feature> {
    if name == "jwt" { Some(Feature::Jwt(JwtAlgorithm::Hs256)) } else { Feature::with_defaults(name) }
}

fn offered(
    reader: &mut Reader<'_>,
    pack: Option<&PackInfo>,
    place: Place,
    name: &str,
    feature: Option<Feature>,
) -> bool {
    let Some(pack) = pack else { return true };
    let called = feature.map_or(name, |feature| feature.name());
    if feature.is_some_and(|feature| feature.is_cached_review())
        && let Some(reason) = pack.unsupported.get(Feature::REVIEW_CACHE)
    {
        let message = format!("the pack `{}` cannot cache token reviews: {reason}", pack.name);
        reader.fault(place, message, "write token-review: 0s");
        return false;
    }
    if pack.features.iter().any(|offered| offered == called) {
        return true;
    }
    let offered: Vec<_> = pack.features.iter().map(String::as_str).collect();
    if let Some(reason) = pack.unsupported.get(called) {
        let message = format!("the pack `{}` does not support `{called}`: {reason}", pack.name);
        let help = if offered.is_empty() {
            "remove `features`".to_owned()
        } else {
            format!("use {}", one_of(&offered))
        };
        reader.fault(place, message, help);
        return false;
    }
    let help = match nearest(name, offered.iter().copied()) {
        Some(near) if feature.is_none() => format!("did you mean `{near}`?"),
        _ if offered.is_empty() => "the pack has no features; remove `features`".to_owned(),
        _ => format!("use {}", one_of(&offered)),
    };
    reader.fault(place, format!("the pack `{}` has no feature `{name}`", pack.name), help);
    false
}

fn with_settings(reader: &mut Reader<'_>, place: Place, raw: &RawFeature) -> Option<(Place, Feature)> {
    let mut found: Vec<(Place, Feature)> = Vec::new();
    if let Some(jwt) = &raw.jwt {
        let algorithm = match jwt.value.0.as_str() {
            "RS256" => JwtAlgorithm::Rs256,
            "HS256" => JwtAlgorithm::Hs256,
            other => {
                reader.fault(
                    jwt.place,
                    format!("unknown signature algorithm `{other}`"),
                    "write HS256 or RS256",
                );
                JwtAlgorithm::Hs256
            }
        };
        found.push((jwt.place, Feature::Jwt(algorithm)));
    }
    if let Some(limit) = &raw.rate_limit {
        let per_second = per_second(reader, limit);
        found.push((limit.place, Feature::RateLimit { per_second }));
    }
    if let Some(routes) = &raw.routes {
        let count = reader.count(Some(routes), "routes", 1, MOST_ROUTES);
        let ask = match raw.ask.as_ref().map(|ask| ask.value.0.as_str()) {
            Some("first") => RoutePosition::First,
            Some("last") => RoutePosition::Last,
            _ => RoutePosition::Middle,
        };
        found.push((routes.place, Feature::Routes { count, ask }));
    }
    if let Some(ask) = &raw.ask {
        if raw.routes.is_none() {
            reader.fault(ask.place, "`ask` needs `routes`", "write { routes: 1000, ask: last }");
        }
        if !["first", "middle", "last"].contains(&ask.value.0.as_str()) {
            let message = format!("unknown route `{}` in `ask`", ask.value.0);
            reader.fault(ask.place, message, "write first, middle or last");
        }
    }
    if let Some(consumers) = &raw.consumers {
        let count = reader.count(Some(consumers), "consumers", 1, MOST_CONSUMERS);
        found.push((consumers.place, Feature::Consumers { count }));
    }
    if let Some(typed) = &raw.proxy_protocol {
        let version = running::proxy_protocol(reader, typed).unwrap_or(ProxyProtocol::V2);
        found.push((typed.place, Feature::ProxyProtocol(version)));
    }
    if let Some(instances) = &raw.round_robin {
        let instances = reader.count(Some(instances), "round-robin", 2, MOST_ROUTES);
        found.push((
            raw.round_robin.as_ref().map_or(place, |typed| typed.place),
            Feature::RoundRobin { instances: Some(instances) },
        ));
    }
    if let Some(cache) = &raw.token_review {
        let time = reader
            .time(Some(Placed { place: cache.place, value: cache.value.clone() }), std::time::Duration::ZERO);
        let cache_s = time.as_secs().min(LONGEST_CACHE_S);
        if time.subsec_nanos() > 0 || time.as_secs() > LONGEST_CACHE_S {
            reader.fault(
                cache.place,
                "token reviews are cached for whole seconds, at most a day (86400s)",
                "write for example 600s, or 0s for no cache",
            );
        }
        found.push((cache.place, Feature::TokenReview { cache_s: cache_s as u32 }));
    }
    match found.as_slice() {
        [one] => Some(*one),
        [] => {
            if raw.ask.is_none() {
                reader.fault(
                    place,
                    "this entry names no feature",
                    "write the name of a feature, or a feature with settings such as { routes: 1000, ask: \
                    last }",
                );
            }
            None
        }
        [_, (second, feature), ..] => {
            let message = format!("this entry has a second feature, `{}`", feature.name());
            reader.fault(*second, message, "write a list entry for each feature");
            None
        }
    }
}

/// A rate limit: a whole number of requests per second.
pub(super) fn per_second(reader: &mut Reader<'_>, limit: &Placed<SteadyRate>) -> u32 {
    let Some(rate) = reader.unit(limit, units::rate) else { return 1 };
    if rate >= 1.0 && rate.fract() == 0.0 && rate <= f64::from(u32::MAX) {
        return rate as u32;
    }
    let message = format!("the rate limit {} is not a whole number of requests per second", limit.value.0);
    reader.fault(limit.place, message, "write a whole number, at least 1/s, such as 1000/s");
    1
}

fn check_instances(reader: &mut Reader<'_>, place: Place, feature: Feature, upstream: &Upstream) {
    let Feature::RoundRobin { instances } = feature else { return };
    let there = instances_of(upstream);
    let wanted = instances.unwrap_or(2);
    if there < wanted {
        let message = format!("`round-robin` needs {wanted} instances of the upstream, which has {there}");
        reader.fault(place, message, format!("write upstream: {{ instances: {wanted} }}"));
    }
}

/// Checks features if the upstream already runs. Some features work only with the built-in upstream. Other
/// features need more details about the upstream.
fn check_running_upstream(
    reader: &mut Reader<'_>,
    place: Place,
    feature: Feature,
    upstream: &Running,
    pack: Option<&PackInfo>,
) {
    let with_token = upstream.access.token_file.is_some();
    let unsupported = pack.and_then(|pack| pack.unsupported.get(Feature::REVIEW_ELSEWHERE));
    let (message, help) = match (feature, unsupported) {
        (Feature::UpstreamTls, _) => (
            "for an upstream with `url`, the URL says whether to use TLS".to_owned(),
            "remove `upstream-tls` and write upstream: { url: https://… }",
        ),
        (Feature::TokenReview { .. }, _) if !with_token => (
            "`token-review` needs a token that the running upstream knows".to_owned(),
            "add token_file to `upstream`: a file with such a token on one line",
        ),
        (Feature::TokenReview { .. }, Some(reason)) => (
            format!("only the built-in upstream can answer this pack's token reviews: {reason}"),
            "remove `token-review`, or remove `upstream.url` to start the built-in upstream",
        ),
        (Feature::BasicAuth | Feature::Jwt(_), _) if with_token => (
            format!(
                "`{}` uses the authorization header, which carries the token of `upstream.token_file`",
                feature.name()
            ),
            "remove one of the two",
        ),
        _ => return,
    };
    reader.fault(place, message, help);
}

fn is_measurable(feature: Feature, upstream: &Upstream, pack: Option<&PackInfo>) -> bool {
    let Upstream::Running(running) = upstream else { return true };
    match feature {
        Feature::UpstreamTls => false,
        Feature::TokenReview { .. } => {
            running.access.token_file.is_some()
                && !pack.is_some_and(|pack| pack.unsupported.contains_key(Feature::REVIEW_ELSEWHERE))
        }
        Feature::BasicAuth | Feature::Jwt(_) => running.access.token_file.is_none(),
        _ => true,
    }
}

fn instances_of(upstream: &Upstream) -> u32 {
    match upstream {
        Upstream::BuiltIn(upstream) => upstream.instances,
        Upstream::Running(_) => 1,
    }
}

/// Adds implied features: `mtls` implies `tls`, `consumers` implies an authentication feature, and a pack may
/// imply `tls`.
fn with_implied(
    reader: &mut Reader<'_>,
    pack: Option<&PackInfo>,
    typed: Vec<(Place, Feature)>,
) -> Vec<Feature> {
    let mut features: Vec<Feature> = typed.iter().map(|(_, feature)| *feature).collect();
    for (place, feature) in typed {
        let Some(implied) = implied(feature, &features) else { continue };
        if offered(reader, pack, place, implied.name(), Some(implied)) {
            features.push(implied);
        }
    }
    features.extend(always(pack));
    features.sort_unstable();
    features.dedup();
    features
}

fn implied(feature: Feature, beside: &[Feature]) -> Option<Feature> {
    match feature {
        Feature::Mtls if !beside.contains(&Feature::Tls) => Some(Feature::Tls),
        Feature::Consumers { .. } if !beside.iter().any(|one| one.is_authentication()) => {
            Some(Feature::KeyAuth)
        }
        _ => None,
    }
}

/// Number of upstream instances that receive requests. `None` means all instances.
pub(super) fn instances(features: &[Feature]) -> Option<u32> {
    features.iter().find_map(|feature| match feature {
        Feature::RoundRobin { instances } => *instances,
        _ => None,
    })
}

/// The gateways of a matrix. The gateway without features comes first, and then one gateway for each set of
/// features. Features that the gateway always has are part of each, and have no price. Gateways without
/// `round-robin` use only one instance of the upstream, so that the comparison shows the cost of
/// `round-robin`.
pub(super) fn expand(
    reader: &mut Reader<'_>,
    typed: &RawGateway,
    bare: &Gateway,
    which: Matrix,
    upstream: &Upstream,
) -> Vec<Gateway> {
    let GatewayKind::Pack { pack, workers, driver, upstream_http2, .. } = &bare.kind else {
        return vec![bare.clone()];
    };
    let known = reader.context.known.iter().find(|known| known.name == typed.name.value);
    let offered: Vec<Feature> = Feature::NAMES
        .iter()
        .filter(|name| known.is_some_and(|known| known.features.iter().any(|one| one == *name)))
        .filter_map(|name| Feature::with_defaults(name))
        .filter(|feature| !matches!(feature, Feature::RoundRobin { .. }) || instances_of(upstream) > 1)
        .filter(|feature| is_measurable(*feature, upstream, known) && !always(known).contains(feature))
        .collect();
    if offered.is_empty()
        && known.is_some()
        && let Some(features) = &typed.features
    {
        let message = format!("the pack `{pack}` has no features to measure");
        reader.fault(features.place, message, "remove `features`");
    }
    let mut sets: Vec<Vec<Feature>> = vec![Vec::new()];
    sets.extend(offered.iter().map(|feature| vec![*feature]));
    if which == Matrix::AllPairs {
        for (index, one) in offered.iter().enumerate() {
            let others = offered[index + 1..].iter();
            // Two features are not a pair if one implies the other.
            let apart = others.filter(|other| {
                !one.excludes(**other)
                    && implied(*one, &[]) != Some(**other)
                    && implied(**other, &[]) != Some(*one)
            });
            sets.extend(apart.map(|other| vec![*one, *other]));
        }
    }
    let gateway = |set: Vec<Feature>| {
        let names: Vec<_> = set.iter().map(|feature| feature.name()).collect();
        let label = std::iter::once(bare.label.as_str()).chain(names).collect::<Vec<_>>().join(".");
        let brought: Vec<_> = set.iter().filter_map(|feature| implied(*feature, &set)).collect();
        let mut features = set;
        features.extend(brought);
        features.extend(always(known));
        features.sort_unstable();
        features.dedup();
        let balanced = features.iter().any(|feature| matches!(feature, Feature::RoundRobin { .. }));
        let instances = if balanced { instances(&features) } else { Some(1) };
        Gateway {
            label,
            kind: GatewayKind::Pack {
                pack: pack.clone(),
                workers: *workers,
                features,
                instances,
                driver: driver.clone(),
                upstream_http2: *upstream_http2,
            },
        }
    };
    sets.into_iter().map(gateway).collect()
}
