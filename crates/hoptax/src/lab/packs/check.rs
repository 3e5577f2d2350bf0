//! What must hold of a pack before it is used: everything that can be told without starting its gateway.

use super::manifest::{CounterFrom, Manifest};
use super::{Pack, PackError, RESERVED, list};
use crate::lab::counters;
use crate::lab::guard::StopSignal;
use crate::lab::render::{self, ACCESS_LOG, Variables, stays_below};
use crate::plan::de::from_node;
use crate::plan::error::Sources;
use crate::plan::units::nearest;
use crate::plan::{Feature, Profile};
use crate::plan::{node, units};

/// Reads `gateway.yaml`, as plans are read: every mistake with its line, column and a caret.
pub(super) fn parse(file: &str, text: &str) -> Result<Manifest, PackError> {
    let sources = Sources { file, text, sets: &[] };
    let outcome = match node::read(text, 0, 0) {
        Ok(root) => from_node(&root),
        Err(fault) => Err(vec![fault]),
    };
    outcome.map_err(|faults| PackError {
        // The rendered mistakes say where themselves.
        file: String::new(),
        line: None,
        message: sources.errors(faults).to_string(),
        help: None,
    })
}

/// Looks at everything that the type alone does not hold, and renders the pack with sample values, so that a wrong
/// template is found before anything starts.
pub(super) fn check(pack: &Pack) -> Result<(), PackError> {
    check_name(pack)?;
    check_version(pack)?;
    check_files(pack)?;
    check_start(pack)?;
    check_reload(pack)?;
    check_unsupported(pack)?;
    check_counters(pack)?;
    let offered = check_features(pack)?;
    for profile in [Profile::Stock, Profile::Equalised] {
        let log = pack.manifest().access_log.map(|_| format!("/run-directory/logs/{ACCESS_LOG}"));
        for access_log in [None, log] {
            let bare = std::iter::once(Vec::new());
            for features in bare.chain(offered.iter().map(|feature| feature.to_vec())) {
                let variables = Variables::sample(profile, access_log.clone()).with_sample_features(features);
                let rendered = render::render(pack, &variables)?;
                if rendered.start.is_empty() {
                    return Err(pack.refuse("start:", "`start` renders to nothing".into(), None));
                }
            }
        }
    }
    Ok(())
}

/// Each feature that the pack offers, with what it brings, as it is rendered to look at the pack.
fn check_features(pack: &Pack) -> Result<Vec<Vec<Feature>>, PackError> {
    let feature = |name: &String| match Feature::plausible(name) {
        Some(Feature::Mtls) => Ok(vec![Feature::Tls, Feature::Mtls]),
        // A few show as much as a thousand do.
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
    pack.manifest().features.iter().map(feature).collect()
}

fn check_name(pack: &Pack) -> Result<(), PackError> {
    let name = pack.name();
    let folder = pack.path_of("");
    let folder = folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if RESERVED.contains(&name) {
        let help = format!("{} mean something else in a plan", list(&RESERVED));
        return Err(pack.refuse("name:", format!("a pack cannot be called `{name}`"), Some(help)));
    }
    if name != folder {
        let message = format!("the name is `{name}`, the folder is `{folder}`");
        return Err(pack.refuse("name:", message, Some("call both the same".into())));
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || !name.chars().all(allowed) {
        let help = "names are of letters, digits, `-`, `_` and `.`: they name directories";
        return Err(pack.refuse("name:", format!("`{name}` is no name for a pack"), Some(help.into())));
    }
    Ok(())
}

fn check_version(pack: &Pack) -> Result<(), PackError> {
    let version = &pack.manifest().version;
    let refuse = |message: String, help: &str| pack.refuse(&version.pattern, message, Some(help.to_owned()));
    let pattern = regex_lite::Regex::new(&version.pattern).map_err(|error| {
        refuse(format!("`version.pattern` is no regular expression: {error}"), "see docs/reference/packs.md")
    })?;
    if pattern.captures_len() < 2 {
        let message = "`version.pattern` has no group".to_owned();
        return Err(refuse(message, "put the part that is the version in parentheses"));
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
    Ok(())
}

fn check_reload(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    let Some(reload) = &manifest.reload else { return Ok(()) };
    let refuse =
        |near: &str, message: String, help: &str| Err(pack.refuse(near, message, Some(help.to_owned())));
    const WAYS: &str = "write one of { signal: HUP }, { command: […] }, { request: { method: POST, path: /reload } } and \
                        { watched: true }";
    let given = [
        reload.signal.is_some(),
        reload.command.is_some(),
        reload.request.is_some(),
        reload.watched == Some(true),
    ];
    if given.iter().filter(|given| **given).count() != 1 || reload.watched == Some(false) {
        return refuse("reload:", "`reload` must say one way to reload".into(), WAYS);
    }
    if manifest.unsupported.contains_key("reload") {
        return refuse(
            "unsupported:",
            "`reload` is both given and unsupported".into(),
            "keep one of the two",
        );
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

fn check_counters(pack: &Pack) -> Result<(), PackError> {
    let mut names = std::collections::BTreeSet::new();
    for counter in &pack.manifest().counters {
        // Short texts such as a path stand in many places: with their key in front they are found where they were meant.
        let refuse = |key: &str, value: &str, message: String, help: String| {
            let near = format!("{key}: {value}");
            let near = if pack.find(&near).is_some() { near } else { value.to_owned() };
            Err(pack.refuse(&near, message, Some(help)))
        };
        if !names.insert(&counter.name) {
            let message = format!("there are two counters `{}`", counter.name);
            return refuse("name", &counter.name, message, "give each a name of its own".into());
        }
        match counter.from {
            CounterFrom::Admin if !counter.path.starts_with('/') => {
                let message =
                    format!("`path: {}` of counter `{}` does not begin with `/`", counter.path, counter.name);
                return refuse(
                    "path",
                    &counter.path,
                    message,
                    "give a path on the admin port, or say `from: log`".into(),
                );
            }
            CounterFrom::Log if !stays_below(&counter.path) => {
                let message = format!("`path: {}` leaves the directory of logs", counter.path);
                return refuse(
                    "path",
                    &counter.path,
                    message,
                    "give a file's name, such as error.log".into(),
                );
            }
            _ => {}
        }
        if let Err(help) = counters::check(counter) {
            return refuse(
                "select",
                &counter.select,
                format!("counter `{}` cannot be read so", counter.name),
                help,
            );
        }
    }
    Ok(())
}

fn check_unsupported(pack: &Pack) -> Result<(), PackError> {
    let manifest = pack.manifest();
    let lacks = |what: &str| manifest.unsupported.contains_key(what);
    match (manifest.access_log.is_some(), lacks("access_log")) {
        (false, false) => {
            let help = "say `access_log: file` or `access_log: stdout`, or give the reason as `unsupported: \
                        { access_log: … }`";
            Err(pack.refuse(
                "access_log",
                "it is not said how an access log is written".into(),
                Some(help.into()),
            ))
        }
        (true, true) => {
            Err(pack.refuse("unsupported:", "`access_log` is both given and unsupported".into(), None))
        }
        _ => Ok(()),
    }?;
    match manifest.features.iter().find(|feature| lacks(feature)) {
        Some(both) => Err(pack.refuse(
            "unsupported:",
            format!("feature `{both}` is both offered and unsupported"),
            None,
        )),
        None => Ok(()),
    }
}
