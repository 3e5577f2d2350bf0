//! Finds the gateways of a plan that differ only in their features.

use hoptax_plan::{Feature, Gateway, GatewayKind, PackDriver, Plan};

/// A gateway with features, and the gateways that it is compared with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family<'p> {
    pub(super) gateway: &'p str,
    /// Label of the same gateway without features.
    pub(super) bare: &'p str,
    pub(super) features: Vec<Feature>,
    /// Labels of two gateways. Each of the two gateways has a part of this gateway's features. Each feature
    /// belongs to exactly one of them.
    pub(super) parts: Option<[&'p str; 2]>,
}

/// Finds the gateways that the plan contains both with and without features. Results are in the plan's order.
pub(super) fn families(plan: &Plan) -> Vec<Family<'_>> {
    let mut all: Vec<PackGateway<'_>> = plan.gateways.iter().filter_map(PackGateway::of).collect();
    without_common_tls(&mut all);
    all.iter().filter(|one| !one.features.is_empty()).filter_map(|one| one.family(&all)).collect()
}

/// Leaves `tls` out of the features of a gateway that the plan contains only with `tls`. Some gateways cannot
/// run without TLS. Their other variants are then compared with the gateway that has `tls` alone.
fn without_common_tls(all: &mut [PackGateway<'_>]) {
    let has_tls = |one: &PackGateway<'_>| one.features.contains(&Feature::Tls);
    let is_common = |one: &PackGateway<'_>| all.iter().filter(|other| one.is_sibling(other)).all(has_tls);
    let common: Vec<bool> = all.iter().map(is_common).collect();
    for (one, _) in all.iter_mut().zip(common).filter(|(_, is_common)| *is_common) {
        one.features.retain(|feature| *feature != Feature::Tls);
    }
}

/// A gateway started from a pack.
#[derive(Debug, Clone, PartialEq)]
struct PackGateway<'p> {
    label: &'p str,
    pack: &'p str,
    workers: u32,
    features: Vec<Feature>,
    instances: Option<u32>,
    driver: &'p PackDriver,
    upstream_http2: bool,
}

impl<'p> PackGateway<'p> {
    fn of(gateway: &'p Gateway) -> Option<Self> {
        let GatewayKind::Pack { pack, workers, features, instances, driver, upstream_http2 } = &gateway.kind
        else {
            return None;
        };
        Some(Self {
            label: &gateway.label,
            pack,
            workers: *workers,
            features: features.clone(),
            instances: *instances,
            driver,
            upstream_http2: *upstream_http2,
        })
    }

    fn family(&self, all: &[Self]) -> Option<Family<'p>> {
        let bare = self.bare(all)?;
        let parts = parts(self, bare, all);
        Some(Family { gateway: self.label, bare: bare.label, features: self.features.clone(), parts })
    }

    /// The same gateway without features. If the plan has several such gateways, the first choice is a
    /// gateway whose label is a prefix of this gateway's label (as in a matrix). The second choice is a
    /// gateway with the same number of upstream instances.
    fn bare<'a>(&self, all: &'a [Self]) -> Option<&'a Self> {
        let siblings = all.iter().filter(|one| one.features.is_empty() && one.is_sibling(self));
        siblings.min_by_key(|one| {
            let named = self.label.strip_prefix(one.label).is_some_and(|rest| rest.starts_with('.'));
            (!named, one.instances != self.instances)
        })
    }

    fn is_sibling(&self, other: &Self) -> bool {
        (self.pack, self.workers, self.driver, self.upstream_http2)
            == (other.pack, other.workers, other.driver, other.upstream_http2)
    }
}

fn parts<'p>(
    whole: &PackGateway<'p>,
    bare: &PackGateway<'p>,
    all: &[PackGateway<'p>],
) -> Option<[&'p str; 2]> {
    let is_part = |one: &&PackGateway<'p>| {
        !one.features.is_empty()
            && one.features.len() < whole.features.len()
            && one.features.iter().all(|feature| whole.features.contains(feature))
            && one.is_sibling(whole)
            && one.bare(all).is_some_and(|of_part| of_part.label == bare.label)
    };
    let parts: Vec<&PackGateway<'p>> = all.iter().filter(is_part).collect();
    parts.iter().enumerate().find_map(|(index, one)| {
        let other = parts[index + 1..].iter().find(|other| {
            one.features.len() + other.features.len() == whole.features.len()
                && one.features.iter().all(|feature| !other.features.contains(feature))
        })?;
        Some([one.label, other.label])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, features};

    fn found(gateways: &[(&str, u32, &[Feature], Option<u32>)]) -> Vec<(String, String, Option<String>)> {
        let mut plan = Run::closed(1).record.plan;
        plan.gateways = gateways
            .iter()
            .map(|(label, workers, features, instances)| Gateway {
                label: (*label).into(),
                kind: GatewayKind::Pack {
                    pack: label.split(['.', '-']).next().expect("a word").into(),
                    workers: *workers,
                    features: features.to_vec(),
                    instances: *instances,
                    driver: PackDriver::Process,
                    upstream_http2: false,
                },
            })
            .collect();
        let found = families(&plan);
        let parts = |family: &Family<'_>| family.parts.map(|parts| parts.join(" and "));
        found.iter().map(|one| (one.gateway.into(), one.bare.into(), parts(one))).collect()
    }

    const KEY: &[Feature] = &[Feature::KeyAuth];
    const TLS: &[Feature] = &[Feature::Tls];

    #[test]
    fn gateways_with_another_version_to_upstreams_are_not_compared() {
        let mut plan = Run::closed(1).record.plan;
        plan.gateways = vec![features::with_http2_upstream("other"), features::gateway("keyed", KEY)];
        assert!(families(&plan).is_empty());
        plan.gateways.push(features::gateway("bare", &[]));
        assert_eq!(families(&plan).iter().map(|one| one.bare).collect::<Vec<_>>(), ["bare"]);
    }

    #[test]
    fn a_pair_knows_its_parts_and_its_bare_sibling() {
        let both = [Feature::KeyAuth, Feature::Tls];
        let found = found(&[
            ("nginx", 1, &[], Some(1)),
            ("nginx.key-auth", 1, KEY, Some(1)),
            ("nginx.tls", 1, TLS, Some(1)),
            ("nginx.key-auth.tls", 1, &both, Some(1)),
        ]);
        let one = |label: &str, parts: Option<&str>| (label.into(), "nginx".into(), parts.map(Into::into));
        assert_eq!(
            found,
            [
                one("nginx.key-auth", None),
                one("nginx.tls", None),
                one("nginx.key-auth.tls", Some("nginx.key-auth and nginx.tls"))
            ]
        );
    }

    #[test]
    fn a_feature_and_its_prerequisite_are_one_part() {
        let both = [Feature::KeyAuth, Feature::Tls, Feature::Mtls];
        let found = found(&[
            ("nginx", 1, &[], None),
            ("nginx-key", 1, KEY, None),
            ("nginx-mtls", 1, &[Feature::Tls, Feature::Mtls], None),
            ("nginx-all", 1, &both, None),
        ]);
        assert_eq!(found[2].2.as_deref(), Some("nginx-key and nginx-mtls"));
        assert_eq!(found[1].2, None, "its parts are not in the plan");
    }

    #[test]
    fn a_gateway_that_only_has_tls_is_bare_if_all_have_it() {
        let both = [Feature::KeyAuth, Feature::Tls];
        let certificates = [Feature::Tls, Feature::Mtls];
        let found = found(&[
            ("secure", 1, TLS, None),
            ("secure.key-auth", 1, &both, None),
            ("secure.mtls", 1, &certificates, None),
            ("nginx.tls", 1, TLS, None),
        ]);
        let one = |label: &str| (label.to_owned(), "secure".to_owned(), None);
        assert_eq!(found, [one("secure.key-auth"), one("secure.mtls")]);
    }

    #[test]
    fn siblings_have_the_same_pack_workers_and_matrix() {
        assert_eq!(
            found(&[("nginx", 2, &[], None), ("nginx-key", 1, KEY, None), ("envoy", 1, &[], None)]),
            []
        );
        let found = found(&[
            ("nginx-a", 1, &[], None),
            ("nginx-b", 1, &[], Some(1)),
            ("nginx-b.key-auth", 1, KEY, Some(1)),
            ("nginx-a.round-robin", 1, &[Feature::RoundRobin { instances: None }], None),
            ("nginx-tls", 1, TLS, Some(1)),
        ]);
        let bare: Vec<&str> = found.iter().map(|(_, bare, _)| bare.as_str()).collect();
        assert_eq!(bare, ["nginx-b", "nginx-a", "nginx-b"]);
    }
}
