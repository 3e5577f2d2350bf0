//! Checks of a pack that do not need its gateway to run.

use crate::legs::Legs;
use crate::pack::manifest::{CounterFrom, ReadyPort, TlsUse};
use crate::pack::{Pack, PackError, list};
use crate::render::{self, GrpcVariables, UpstreamAddress, Variables, stays_below};
use crate::{conformance, counters};
use hoptax_format::Address;
use hoptax_format::spec::HttpVersion;
use hoptax_host::guard::StopSignal;
use hoptax_host::logs::ACCESS_LOG;
use hoptax_plan::units::nearest;
use hoptax_plan::{ClientHttp2, Feature, Profile, check_image, units, variant_name};

/// Name of the script that builds the gateway from a project in the pack. The argument of the script is the
/// target directory.
pub const BUILD_SCRIPT: &str = "build.sh";

/// Names that packs cannot have, because these names have another meaning in plans.
const RESERVED: [&str; 5] = ["direct", "external", "hop-l4", "hop-l7", "hop-h2"];

/// Checks the rules that the types do not enforce. Also renders the pack with sample values, so that errors
/// in templates are found before anything starts.
pub(super) fn check(pack: &Pack) -> Result<(), PackError> {
    check_name(pack)?;
    check_version(pack)?;
    check_files(pack)?;
    check_build(pack)?;
    check_start(pack)?;
    check_docker(pack)?;
    check_reload(pack)?;
    check_metrics(pack)?;
    check_unsupported(pack)?;
    check_last_run(pack)?;
    check_refusals(pack)?;
    check_counters(pack)?;
    check_differences(pack)?;
    check_needs(pack)?;
    check_variants(pack)?;
    check_proxy(pack)?;
    let offered = check_features(pack)?;
    check_unix_upstream(pack, &offered)?;
    check_http2(pack)?;
    check_upstream_http2(pack)?;
    check_grpc(pack, &offered)?;
    check_messages(pack, &offered)?;
    check_llm(pack)?;
    for profile in [Profile::Stock, Profile::Equalised] {
        let log = pack.manifest().access_log.map(|_| format!("/run-directory/logs/{ACCESS_LOG}"));
        for access_log in [None, log] {
            let bare = std::iter::once(Vec::new());
            for mut features in bare.chain(offered.iter().map(|feature| feature.to_vec())) {
                // In a container, only the start command is different. So it is enough to check the container
                // once, without features.
                let special = pack.manifest().docker.is_some() && features.is_empty();
                if pack.manifest().tls == TlsUse::Always && !features.contains(&Feature::Tls) {
                    features.push(Feature::Tls);
                }
                let ways = || [false, true].into_iter().take(1 + usize::from(special));
                for (variant, container) in variants(pack)
                    .into_iter()
                    .flat_map(|one| ways().map(move |container| (one.clone(), container)))
                {
                    let sample = Variables::sample(profile, access_log.clone()).of(pack.manifest());
                    let variables =
                        Variables { variant, container, ..sample }.with_sample_features(features.clone());
                    let rendered = render::render(pack, &variables)?;
                    render::profiling_environment(pack, &variables)?;
                    if rendered.start.is_empty() {
                        return Err(pack.refuse("start:", "`start` renders to nothing".into(), None));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Renders the pack with an upstream on Unix sockets: one instance, and two.
fn check_unix_upstream(pack: &Pack, offered: &[Vec<Feature>]) -> Result<(), PackError> {
    if !pack.manifest().unix_upstream {
        return Ok(());
    }
    let at = |path: &str| UpstreamAddress::new(&Address::Unix(path.into()));
    let upstreams = [at("/run/sample-1.sock"), at("/run/sample-2.sock")];
    for features in std::iter::once(Vec::new()).chain(offered.iter().cloned()) {
        for count in [1, 2] {
            // A forward proxy finds the upstream by the address in the request.
            let is_forward = |variant: &Option<String>| {
                variant.as_ref().is_some_and(|variant| pack.manifest().proxy.contains_key(variant))
            };
            for variant in variants(pack).into_iter().filter(|variant| !is_forward(variant)) {
                let sample = Variables::sample(Profile::Equalised, None).of(pack.manifest());
                let variables = Variables { variant, upstreams: upstreams[..count].to_vec(), ..sample };
                let rendered = render::render(pack, &variables.with_sample_features(features.clone()))?;
                if let Some(unused) = upstreams[..count]
                    .iter()
                    .flat_map(|one| &one.socket)
                    .find(|path| !rendered.mentions(path))
                {
                    let message =
                        format!("`unix_upstream` is set, but the configuration does not mention {unused}");
                    let help = "use `upstream.socket` in the template, or remove `unix_upstream`";
                    return Err(pack.refuse("unix_upstream", message, Some(help.into())));
                }
            }
        }
    }
    Ok(())
}

/// Renders the pack with each profile and variant, without features and with each of these sets of features.
/// `change` says what the plan has.
fn render_each(
    pack: &Pack,
    profiles: &[Profile],
    offered: &[Vec<Feature>],
    change: impl Fn(Variables) -> Variables,
) -> Result<(), PackError> {
    for profile in profiles {
        for features in std::iter::once(Vec::new()).chain(offered.iter().cloned()) {
            for variant in variants(pack) {
                let sample = Variables::sample(*profile, None).of(pack.manifest());
                let variables = change(Variables { variant, ..sample });
                render::render(pack, &variables.with_sample_features(features.clone()))?;
            }
        }
    }
    Ok(())
}

/// Renders the pack for a load over HTTP/2, with and without TLS.
fn check_http2(pack: &Pack) -> Result<(), PackError> {
    if pack.manifest().http2 == ClientHttp2::No {
        return Ok(());
    }
    let offers_tls = pack.manifest().features.iter().any(|name| name == Feature::Tls.name());
    let tls: Vec<Vec<Feature>> = offers_tls.then(|| vec![Feature::Tls]).into_iter().collect();
    let over_http2 = |sample| Variables { http2: true, streams: 10, ..sample };
    render_each(pack, &[Profile::Equalised], &tls, over_http2)
}

/// Renders the pack with HTTP/2 to upstreams: with one instance and two, with and without TLS to them, and on
/// Unix sockets if it can forward to these. Refuses a pack that then renders the same as without HTTP/2.
fn check_upstream_http2(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    if !manifest.upstream_http2 {
        return Ok(());
    }
    let offers_tls = manifest.features.iter().any(|name| name == Feature::UpstreamTls.name());
    let sets = [Some(Vec::new()), offers_tls.then(|| vec![Feature::UpstreamTls])];
    let at = |path: &str| UpstreamAddress::new(&Address::Unix(path.into()));
    let sockets = manifest.unix_upstream.then(|| vec![at("/run/sample-1.sock"), at("/run/sample-2.sock")]);
    let is_forward = |variant: &Option<String>| {
        variant.as_ref().is_some_and(|variant| manifest.proxy.contains_key(variant))
    };
    for profile in [Profile::Stock, Profile::Equalised] {
        for variant in variants(pack).into_iter().filter(|variant| !is_forward(variant)) {
            let sample = Variables::sample(profile, None).of(manifest);
            let port = sample.upstreams[0].clone();
            let ports = vec![port.clone(), port];
            for upstreams in [Some(ports[..1].to_vec()), Some(ports), sockets.clone()].into_iter().flatten() {
                for features in sets.iter().flatten() {
                    let rendered = |upstream_http2| {
                        let (variant, upstreams) = (variant.clone(), upstreams.clone());
                        let sample = Variables { variant, upstreams, upstream_http2, ..sample.clone() };
                        render::render(pack, &sample.with_sample_features(features.clone()))
                    };
                    if rendered(true)? == rendered(false)? {
                        let message = "`upstream_http2` is set, but the configuration is the same without it";
                        let help = "use `upstream_http2` in the template, or remove the key";
                        return Err(pack.refuse("upstream_http2:", message.into(), Some(help.into())));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Renders the pack for a plan with calls, and for a plan that also has other requests, without features and
/// with each feature.
fn check_grpc(pack: &Pack, offered: &[Vec<Feature>]) -> Result<(), PackError> {
    if !pack.manifest().grpc {
        return Ok(());
    }
    for is_mixed in [false, true] {
        let with_calls = |sample| {
            let grpc = Some(GrpcVariables { paths: vec!["/echo.Echo/Say".into()], is_mixed });
            Variables { grpc, http2: true, ..sample }
        };
        render_each(pack, &[Profile::Equalised], offered, with_calls)?;
    }
    Ok(())
}

/// Renders the pack for a plan with WebSockets and for a plan with server-sent events, without features and
/// with each feature.
fn check_messages(pack: &Pack, offered: &[Vec<Feature>]) -> Result<(), PackError> {
    let manifest = pack.manifest();
    for (websocket, sse) in [(manifest.websocket, false), (false, manifest.sse)] {
        if websocket || sse {
            let profiles = [Profile::Stock, Profile::Equalised];
            render_each(pack, &profiles, offered, |sample| Variables { websocket, sse, ..sample })?;
        }
    }
    Ok(())
}

/// The templates of the headers are checked when the pack is rendered.
fn check_llm(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    if let Some(variant) = manifest.llm_variants.keys().find(|variant| !manifest.variants.contains(variant)) {
        let message = format!("`llm_variants` names `{variant}`, which is not a variant");
        let help = "add it to `variants`, or remove it here".to_owned();
        return Err(pack.refuse("llm_variants:", message, Some(help)));
    }
    let mut all = manifest.llm.iter().chain(manifest.llm_variants.values());
    if all.clone().any(|llm| llm.apis.is_empty()) {
        let help = "list openai, responses or anthropic".to_owned();
        let near = if manifest.llm.is_some() { "llm:" } else { "llm_variants:" };
        return Err(pack.refuse(near, "`llm.apis` lists no API".to_owned(), Some(help)));
    }
    match all.find_map(|llm| llm.headers.keys().find(|name| !is_name(name))) {
        None => Ok(()),
        Some(name) => {
            let message = format!("`{name}` is not a valid name for a header");
            let help = "use letters, digits, `-`, `_` and `.`".to_owned();
            Err(pack.refuse(name, message, Some(help)))
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

fn variants(pack: &Pack) -> Vec<Option<String>> {
    match pack.manifest().variants.as_slice() {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    }
}

fn check_variants(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    for (index, variant) in manifest.variants.iter().enumerate() {
        if !is_name(variant) {
            let help = "use letters, digits, `-`, `_` and `.`";
            let message = format!("`{variant}` is not a valid name for a variant");
            return Err(pack.refuse("variants:", message, Some(help.into())));
        }
        if manifest.variants[..index].contains(variant) {
            let message = format!("the variant {} is listed twice", variant_name(pack.name(), variant));
            return Err(pack.refuse("variants:", message, Some("keep one".into())));
        }
    }
    Ok(())
}

fn check_proxy(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    match manifest.proxy.keys().find(|variant| !manifest.variants.contains(variant)) {
        None => Ok(()),
        Some(variant) => {
            let message = format!("`proxy` names `{variant}`, which is not a variant");
            Err(pack.refuse("proxy:", message, Some("add it to `variants`, or remove it here".into())))
        }
    }
}

/// The sets of features to render in the check. There is one set for each supported feature. It contains this
/// feature and the features that it requires.
fn check_features(pack: &Pack) -> Result<Vec<Vec<Feature>>, PackError> {
    let feature = |name: &String| match Feature::with_defaults(name) {
        Some(Feature::Mtls) => Ok(vec![Feature::Tls, Feature::Mtls]),
        // Two consumers are enough, because more consumers would test nothing new.
        Some(Feature::Consumers { .. }) => Ok(vec![Feature::KeyAuth, Feature::Consumers { count: 2 }]),
        Some(Feature::Routes { ask, .. }) => Ok(vec![Feature::Routes { count: 3, ask }]),
        Some(feature) => Ok(vec![feature]),
        None => {
            let help = match nearest(name, Feature::NAMES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("features are {}", list(&Feature::NAMES)),
            };
            Err(pack.refuse(name, format!("there is no feature `{name}`"), Some(help)))
        }
    };
    let manifest = pack.manifest();
    for named in manifest.settings.features.keys() {
        must_be_feature(pack, "settings.features", named)?;
    }
    if manifest.tls == TlsUse::Always && !manifest.features.iter().any(|name| name == Feature::Tls.name()) {
        let message = "`tls: always` needs the feature `tls`".to_owned();
        return Err(pack.refuse("tls: always", message, Some("add it to `features`".into())));
    }
    manifest.features.iter().map(feature).collect()
}

fn check_needs(pack: &Pack) -> Result<(), PackError> {
    for (name, places) in &pack.manifest().needs {
        let help = "list its possible absolute paths, as in [/usr/lib/nginx/modules/some.so]";
        if places.is_empty() {
            let message = format!("`needs.{name}` lists no path");
            return Err(pack.refuse(name, message, Some(help.into())));
        }
        if let Some(place) = places.iter().find(|place| !place.starts_with('/')) {
            let message = format!("`needs.{name}`: `{place}` is not an absolute path");
            return Err(pack.refuse(place, message, Some(help.into())));
        }
    }
    Ok(())
}

fn check_name(pack: &Pack) -> Result<(), PackError> {
    let name = pack.name();
    let folder = pack.path_of("");
    let folder = folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if RESERVED.contains(&name) {
        let help = format!("{} have another meaning in plans", list(&RESERVED));
        return Err(pack.refuse("name:", format!("a pack cannot be named `{name}`"), Some(help)));
    }
    if name != folder {
        let message = format!("the name is `{name}`, the folder is `{folder}`");
        return Err(pack.refuse("name:", message, Some("use the same name for both".into())));
    }
    if !is_name(name) {
        let help = "use letters, digits, `-`, `_` and `.`: the name is used for directories";
        return Err(pack.refuse(
            "name:",
            format!("`{name}` is not a valid name for a pack"),
            Some(help.into()),
        ));
    }
    Ok(())
}

fn check_version(pack: &Pack) -> Result<(), PackError> {
    let version = &pack.manifest().version;
    let refuse = |message: String, help: &str| pack.refuse(&version.pattern, message, Some(help.to_owned()));
    let pattern = regex_lite::Regex::new(&version.pattern).map_err(|error| {
        refuse(
            format!("`version.pattern` is not a valid regular expression: {error}"),
            "see docs/reference/packs.md",
        )
    })?;
    if pattern.captures_len() < 2 {
        let message = "`version.pattern` has no group".to_owned();
        return Err(refuse(message, "put parentheses around the version"));
    }
    if version.command.is_empty() {
        return Err(pack.refuse("command:", "`version.command` is empty".into(), None));
    }
    render::version_command(pack, std::path::Path::new("/usr/bin/gateway")).map(drop)
}

fn check_files(pack: &Pack) -> Result<(), PackError> {
    for file in &pack.manifest().files {
        pack.template(&file.template)?;
        if !stays_below(&file.to) {
            let message = format!("`to: {}` leaves the gateway's directory", file.to);
            let help = "give a path relative to that directory, without `..`";
            return Err(pack.refuse(&file.to, message, Some(help.into())));
        }
    }
    Ok(())
}

fn check_build(pack: &Pack) -> Result<(), PackError> {
    let Some(build) = &pack.manifest().build else { return Ok(()) };
    // The folder and the program names become words in a shell script.
    let is_word = |text: &str| {
        !text.is_empty()
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.+".contains(letter))
    };
    let near = format!("folder: {}", build.folder);
    if !is_word(&build.folder) || !stays_below(&build.folder) {
        let message = format!("`build.folder: {}` is not a folder of the pack", build.folder);
        return Err(pack.refuse(&near, message, Some("give a folder's name, such as `project`".into())));
    }
    if !pack.files.contains_key(&format!("{}/{BUILD_SCRIPT}", build.folder)) {
        let message = format!("there is no `{}/{BUILD_SCRIPT}` in the pack", build.folder);
        let help = format!("{BUILD_SCRIPT} builds the gateway into the directory given as its argument");
        return Err(pack.refuse(&near, message, Some(help)));
    }
    match build.needs.iter().find(|program| !is_word(program)) {
        Some(wrong) => {
            let help = "give the names of programs on PATH".to_owned();
            Err(pack.refuse(
                "needs:",
                format!("`build.needs`: `{wrong}` is not a valid program name"),
                Some(help),
            ))
        }
        None => Ok(()),
    }
}

fn check_start(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    if manifest.start.is_empty() {
        let help = "give the command and its arguments, e.g. [\"{{ binary }}\", --foreground]";
        return Err(pack.refuse("start:", "`start` is empty".into(), Some(help.into())));
    }
    manifest
        .stop
        .signal
        .parse::<StopSignal>()
        .map_err(|message| pack.refuse(&manifest.stop.signal, message, None))?;
    for (key, text) in [("stop.grace", &manifest.stop.grace), ("ready.timeout", &manifest.ready.timeout)] {
        units::duration(text)
            .map_err(|error| pack.refuse(text, format!("`{key}`: {}", error.message), Some(error.help)))?;
    }
    if !manifest.ready.path.starts_with('/') {
        let message = format!("`ready.path: {}` does not begin with `/`", manifest.ready.path);
        return Err(pack.refuse(&manifest.ready.path, message, None));
    }
    const PROXIED: &str = "proxy-protocol";
    if manifest.ready.port == ReadyPort::Main && manifest.features.iter().any(|feature| feature == PROXIED) {
        let message = format!("requests for readiness have no header of `{PROXIED}`");
        let help = "write `port: admin` in `ready`, or remove the feature";
        return Err(pack.refuse("ready:", message, Some(help.to_owned())));
    }
    Ok(())
}

fn check_docker(pack: &Pack) -> Result<(), PackError> {
    let Some(docker) = &pack.manifest().docker else { return Ok(()) };
    check_image(&docker.image).map_err(|help| {
        pack.refuse(&docker.image, format!("`{}` is not a valid image", docker.image), Some(help))
    })?;
    if docker.start.as_ref().is_some_and(Vec::is_empty) {
        return Err(pack.refuse("docker:", "`docker.start` is empty".into(), None));
    }
    docker.dockerfile.iter().try_for_each(|file| pack.template(file).map(drop))
}

fn check_reload(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    let Some(reload) = &manifest.reload else { return Ok(()) };
    let refuse =
        |near: &str, message: String, help: &str| Err(pack.refuse(near, message, Some(help.to_owned())));
    const WAYS: &str = "write one of { signal: HUP }, { command: […] }, { request: { method: POST, path: \
                        /reload } } and { watched: true }";
    let given = [
        reload.signal.is_some(),
        reload.command.is_some(),
        reload.request.is_some(),
        reload.watched == Some(true),
    ];
    if given.iter().filter(|given| **given).count() != 1 || reload.watched == Some(false) {
        return refuse("reload:", "`reload` must have exactly one key".into(), WAYS);
    }
    if let Some(signal) = &reload.signal
        && let Err(message) = signal.parse::<StopSignal>()
    {
        return Err(pack.refuse(&format!("reload: {{ signal: {signal}"), message, None));
    }
    if let Some(request) = &reload.request
        && !request.path.starts_with('/')
    {
        let message = format!("`reload.request.path: {}` does not begin with `/`", request.path);
        return refuse(&request.path, message, "give a path on the admin port");
    }
    if reload.command.as_ref().is_some_and(Vec::is_empty) {
        return refuse("reload:", "`reload.command` is empty".into(), "give the command and its arguments");
    }
    let variables = Variables { reloadable: true, ..Variables::sample(Profile::Equalised, None) };
    render::reload(pack, &variables)?;
    render::render(pack, &variables).map(drop)
}

fn check_metrics(pack: &Pack) -> Result<(), PackError> {
    match &pack.manifest().metrics {
        Some(path) if !path.starts_with('/') => {
            let message = format!("`metrics: {path}` does not begin with `/`");
            Err(pack.refuse("metrics:", message, Some("give a path on the admin port".to_owned())))
        }
        _ => Ok(()),
    }
}

fn check_counters(pack: &Pack) -> Result<(), PackError> {
    let mut names = std::collections::BTreeSet::new();
    for counter in &pack.manifest().counters {
        // A short text, such as a path, may occur several times. So search for the text together with its
        // key.
        let refuse = |key: &str, value: &str, message: String, help: String| {
            let near = format!("{key}: {value}");
            let near = if pack.find(&near).is_some() { near } else { value.to_owned() };
            Err(pack.refuse(&near, message, Some(help)))
        };
        if !names.insert(&counter.name) {
            let message = format!("there are two counters `{}`", counter.name);
            return refuse("name", &counter.name, message, "give each counter its own name".into());
        }
        match counter.from {
            CounterFrom::Admin if !counter.path.starts_with('/') => {
                let message =
                    format!("`path: {}` of counter `{}` does not begin with `/`", counter.path, counter.name);
                return refuse(
                    "path",
                    &counter.path,
                    message,
                    "give a path on the admin port, or set `from: log`".into(),
                );
            }
            CounterFrom::Log if !stays_below(&counter.path) => {
                let message = format!("`path: {}` leaves the log directory", counter.path);
                return refuse("path", &counter.path, message, "give a file name, such as error.log".into());
            }
            _ => {}
        }
        if let Err(help) = counters::check(counter) {
            return refuse(
                "select",
                &counter.select,
                format!("cannot read counter `{}`", counter.name),
                help,
            );
        }
    }
    Ok(())
}

fn check_differences(pack: &Pack) -> Result<(), PackError> {
    let mut cases = std::collections::BTreeSet::new();
    for difference in &pack.manifest().differences {
        if let Some(header) = &difference.header {
            let near = format!("header: {header}");
            let near = if pack.find(&near).is_some() { near } else { header.clone() };
            if !difference.case.is_empty() || !difference.what.is_empty() {
                let message = format!("the difference in the header `{header}` also has a `case` or `what`");
                return Err(pack.refuse(&near, message, Some("write two differences".into())));
            }
            if difference.reason.trim().is_empty() {
                let message = format!("the difference in the header `{header}` has no reason");
                return Err(pack.refuse(&near, message, Some("write why the gateway differs".into())));
            }
            continue;
        }
        let near = format!("case: {}", difference.case);
        let near = if pack.find(&near).is_some() { near } else { difference.case.clone() };
        let names: Vec<&str> = conformance::names().collect();
        if !names.contains(&difference.case.as_str()) {
            let help = match nearest(&difference.case, names.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("cases are {}", list(&names)),
            };
            return Err(pack.refuse(&near, format!("there is no case `{}`", difference.case), Some(help)));
        }
        let versions = [HttpVersion::Http11, HttpVersion::Http2];
        let legs =
            versions.into_iter().flat_map(|clients| versions.map(|upstream| Legs { clients, upstream }));
        let mut listed = legs.enumerate().filter(|(_, legs)| difference.is_over(*legs));
        if !listed.all(|(index, _)| cases.insert((&difference.case, index))) {
            let message = format!("there are two differences for case `{}`", difference.case);
            let help = "list at most one difference per case, `http` and `upstream_http`";
            return Err(pack.refuse(&near, message, Some(help.into())));
        }
        if difference.what.trim().is_empty() {
            let message = format!("the difference for case `{}` has no `what`", difference.case);
            return Err(pack.refuse(&near, message, Some("copy it from the output of hoptax lint".into())));
        }
        if difference.reason.trim().is_empty() {
            let message = format!("the difference for case `{}` has no reason", difference.case);
            return Err(pack.refuse(&near, message, Some("write why the gateway differs".into())));
        }
    }
    Ok(())
}

fn check_last_run(pack: &Pack) -> Result<(), PackError> {
    let Some(last) = &pack.manifest().last_run_for_real else { return Ok(()) };
    for (name, reason) in &last.unproved {
        must_be_feature(pack, "last_run_for_real.unproved", name)?;
        if reason.trim().is_empty() {
            let message = format!("`last_run_for_real.unproved` gives no reason for `{name}`");
            return Err(pack.refuse("unproved:", message, Some("write why it was not proved".into())));
        }
    }
    Ok(())
}

fn check_refusals(pack: &Pack) -> Result<(), PackError> {
    for (name, refusal) in &pack.manifest().refusals {
        must_be_feature(pack, "refusals", name)?;
        let refuse = |message: String, help: &str| Err(pack.refuse("refusals:", message, Some(help.into())));
        if refusal.reason.trim().is_empty() {
            return refuse(
                format!("the refusal of `{name}` has no reason"),
                "write why it does not answer 401",
            );
        }
        let statuses = [refusal.without, refusal.wrong];
        if let Some(status) = statuses.into_iter().flatten().find(|status| !(400..600).contains(status)) {
            let message = format!("{status} in the refusal of `{name}` does not refuse a request");
            return refuse(message, "give a status from 400 to 599, or `passes_anonymous: true`");
        }
        if refusal.passes_anonymous && refusal.without.is_some() {
            let message = format!("the refusal of `{name}` has both `passes_anonymous` and `without`");
            return refuse(message, "remove one of the two");
        }
    }
    Ok(())
}

/// Refuses a pack whose key `key` names a feature that the pack does not list under `features`.
fn must_be_feature(pack: &Pack, key: &str, name: &str) -> Result<(), PackError> {
    let features = &pack.manifest().features;
    if features.iter().any(|feature| feature == name) {
        return Ok(());
    }
    let message = format!("`{key}` lists `{name}`, but `features` does not list it");
    let help = match nearest(name, features.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "add it to `features`, or remove it here".to_owned(),
    };
    let near = format!("{name}:");
    let near = if pack.find(&near).is_some() { near } else { name.to_owned() };
    Err(pack.refuse(&near, message, Some(help)))
}

fn check_unsupported(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    let lacks = |what: &str| manifest.unsupported.contains_key(what);
    if manifest.access_log.is_none() && !lacks("access_log") {
        let help = "say `access_log: file` or `access_log: stdout`, or give the reason as `unsupported: { \
                    access_log: … }`";
        return Err(pack.refuse("access_log", "`access_log` is missing".into(), Some(help.into())));
    }
    let settings = [
        ("access_log", manifest.access_log.is_some()),
        ("reload", manifest.reload.is_some()),
        ("upstream_http2", manifest.upstream_http2),
        ("grpc", manifest.grpc),
        ("websocket", manifest.websocket),
        ("sse", manifest.sse),
    ];
    let features = manifest.features.iter().map(|feature| (feature.as_str(), true));
    match settings.into_iter().chain(features).find(|(what, has)| *has && lacks(what)) {
        Some((what, _)) => {
            let message = format!("`{what}` is both supported and listed as unsupported");
            Err(pack.refuse("unsupported:", message, Some("remove one of the two".into())))
        }
        None => Ok(()),
    }
}
