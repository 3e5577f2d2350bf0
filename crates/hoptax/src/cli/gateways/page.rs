//! The Markdown page of a pack, and the index page. All information on these pages comes from the packs.

use hoptax_lab::docker::how_to_get;
use hoptax_lab::packs::Pack;
use hoptax_lab::packs::manifest::SettingText;
use hoptax_plan::{ClientHttp2, Feature};
use std::fmt::Write as _;

pub(super) fn page(pack: &Pack) -> String {
    let manifest = pack.manifest();
    let mut page = format!("# {}\n\n{}.", pack.name(), manifest.summary);
    if let Some(homepage) = &manifest.homepage {
        let _ = write!(page, " See <{homepage}>.");
    }
    let _ = writeln!(page, " {}\n", last_run_sentence(pack));
    starts(&mut page, pack);
    features(&mut page, pack);
    settings(&mut page, "equalised", &manifest.settings.equalised, &[]);
    settings(&mut page, "stock", &manifest.settings.stock, &manifest.settings.equalised);
    if let Ok(readme) = pack.template("README.md") {
        page.push_str("## Notes\n\n");
        // The first sentence of the page already says this.
        let known = readme_line(pack).map_or_else(String::new, |line| line + "\n\n");
        page.push_str(&demoted(&readme.replacen(&known, "", 1)));
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

/// The index page: a table with one row per pack. Packs that nobody has run have a table of their own.
pub(super) fn index<'a>(packs: impl Iterator<Item = &'a Pack>) -> String {
    let (run, never_run): (Vec<&Pack>, Vec<&Pack>) =
        packs.partition(|pack| pack.manifest().last_run_for_real.is_some());
    let mut page = String::from(
        "# Gateways\n\nThe gateways that hoptax has packs for. `make docs` generates this page from the \
         packs. A page's notes say where the pack configures features. Users also configure them elsewhere. \
         Whether the place changes the price was measured only for APISIX.\n\nThese settings are equal for \
         all gateways that have them: workers, version and cipher of TLS, types, level and least size of \
         gzip, access logs, and connections that stay open.\n\n",
    );
    index_table(&mut page, &run);
    if !never_run.is_empty() {
        page.push_str(
            "\n## Never run\n\nThese packs are written from the product's documentation. Nobody has started \
            their gateways.\n\n",
        );
        index_table(&mut page, &never_run);
    }
    page
}

fn index_table(page: &mut String, packs: &[&Pack]) {
    page.push_str("| gateway | | last real run | features | starts as |\n| --- | --- | --- | --- | --- |\n");
    for pack in packs {
        let manifest = pack.manifest();
        let name = pack.name();
        let _ = writeln!(
            page,
            "| [{name}]({name}.md) | {} | {} | {} of {} | {} |",
            cell(&manifest.summary),
            last_run(pack),
            manifest.features.len(),
            Feature::NAMES.len(),
            starts_as(pack)
        );
    }
}

/// Version and date of the last run with the real gateway, from the manifest of the pack.
pub(super) fn last_run(pack: &Pack) -> String {
    match &pack.manifest().last_run_for_real {
        Some(last) => format!("{} on {}", last.version, last.date),
        None => "never".to_owned(),
    }
}

pub(super) fn starts_as(pack: &Pack) -> &'static str {
    if pack.manifest().docker.is_some() { "process, docker" } else { "process" }
}

fn last_run_sentence(pack: &Pack) -> String {
    let manifest = pack.manifest();
    let Some(last) = &manifest.last_run_for_real else {
        return "*Never run*: this pack is written from the product's documentation.".to_owned();
    };
    let run = format!("Last run with the real gateway: version {} on {}.", last.version, last.date);
    if manifest.features.is_empty() {
        return run;
    }
    let proved = manifest.features.len() - last.unproved.len();
    let mut sentence = format!("{run} Features proved: {proved} of {}.", manifest.features.len());
    for (name, reason) in &last.unproved {
        let _ = write!(sentence, " Not proved: `{name}`, because {reason}.");
    }
    sentence
}

/// The line in a README that repeats the last real run of its pack; `None` if there was no such run.
fn readme_line(pack: &Pack) -> Option<String> {
    let manifest = pack.manifest();
    let last = manifest.last_run_for_real.as_ref()?;
    let mut line = format!("Last run: version {} on {}", last.version, last.date);
    let offered = manifest.features.len();
    if offered > 0 {
        let _ = write!(line, "; {} of {offered} features proved", offered - last.unproved.len());
    }
    if !last.unproved.is_empty() {
        let names: Vec<_> = last.unproved.keys().map(|name| format!("`{name}`")).collect();
        let _ = write!(line, " (not {})", names.join(", "));
    }
    Some(line + ".")
}

fn starts(page: &mut String, pack: &Pack) {
    let manifest = pack.manifest();
    page.push_str("## How to start it\n\n");
    let ways: Vec<String> =
        manifest.install.iter().map(|(with, how)| format!("{with}: {}", code(how, with))).collect();
    let ways = if ways.is_empty() { "the pack does not say how".to_owned() } else { ways.join("; ") };
    let _ = writeln!(
        page,
        "- `process`: `{}` on PATH or in the tools directory. {}",
        manifest.binary,
        line(&ways)
    );
    if let Some(docker) = &manifest.docker {
        let get = how_to_get(pack, &docker.image);
        let _ = writeln!(page, "- `docker`: the image `{}`. Get it: `{}`", docker.image, line(&get));
    }
    page.push('\n');
}

/// The features that the pack offers, with their settings, and the reasons why it lacks the others.
fn features(page: &mut String, pack: &Pack) {
    let manifest = pack.manifest();
    let mut missing: Vec<(String, String)> = Vec::new();
    let mut offered = String::new();
    for name in Feature::NAMES {
        if manifest.features.iter().any(|offered| offered == name) {
            let _ = writeln!(offered, "- `{name}`");
            for one in manifest.settings.features.get(name).into_iter().flatten() {
                let _ = writeln!(offered, "  - {}: {}", line(&plain(&one.setting)), line(&one.reason));
            }
            if let Some(refusal) = manifest.refusals.get(name) {
                let _ = writeln!(offered, "  - refusals: {}", line(&refusal.reason));
            }
        } else {
            let reason =
                manifest.unsupported.get(name).map_or("the pack does not support it", String::as_str);
            missing.push((format!("`{name}`"), line(reason)));
        }
    }
    let has_grpc = manifest.grpc || manifest.upstream_http2 && !manifest.unsupported.contains_key("grpc");
    for (passes, what) in [
        (manifest.http2 != ClientHttp2::No, "HTTP/2 with clients"),
        (manifest.upstream_http2, "HTTP/2 to upstreams"),
        (has_grpc, "gRPC calls"),
        (manifest.websocket, "WebSocket"),
        (manifest.sse, "server-sent events"),
    ] {
        if passes {
            let _ = writeln!(offered, "- {what}");
        }
    }
    let of_variants = manifest.llm_variants.iter().map(|(name, llm)| (format!("variant `{name}`: "), llm));
    for (variant, llm) in manifest.llm.iter().map(|llm| (String::new(), llm)).chain(of_variants) {
        let apis: Vec<String> = llm.apis.iter().map(|api| format!("`{}`", api.name())).collect();
        let model = llm.model.as_ref().map_or_else(String::new, |model| format!(", model `{model}`"));
        let _ = writeln!(offered, "- {variant}only requests to language models: {}{model}", apis.join(", "));
    }
    if manifest.unix_upstream {
        offered.push_str("- upstream on a Unix socket\n");
    }
    if !manifest.proxy.is_empty() {
        let variants: Vec<String> = manifest.proxy.keys().map(|variant| format!("`{variant}`")).collect();
        let _ = writeln!(offered, "- forward proxy: variant {}", variants.join(" or "));
    }
    let others = manifest.unsupported.iter().filter(|(what, _)| !Feature::NAMES.contains(&what.as_str()));
    let named = |what: &str| match what {
        "upstream_http2" => "HTTP/2 to upstreams".to_owned(),
        "grpc" => "gRPC calls".to_owned(),
        "websocket" => "WebSocket".to_owned(),
        "sse" => "server-sent events".to_owned(),
        what => what.replace('_', " "),
    };
    missing.extend(others.map(|(what, reason)| (named(what), line(reason))));
    if !offered.is_empty() {
        let _ = writeln!(page, "## Features\n\n{offered}");
    }
    if missing.is_empty() {
        return;
    }
    page.push_str("## Not supported\n\n");
    while let Some((_, reason)) = missing.first().cloned() {
        let (alike, others): (Vec<_>, Vec<_>) = missing.into_iter().partition(|(_, own)| *own == reason);
        let names: Vec<&str> = alike.iter().map(|(name, _)| name.as_str()).collect();
        let _ = writeln!(page, "- {}: {reason}", names.join(", "));
        missing = others;
    }
    page.push('\n');
}

/// The settings of a profile that differ from the default. Settings that are also in `above` are only named.
fn settings(page: &mut String, profile: &str, settings: &[SettingText], above: &[SettingText]) {
    let _ = writeln!(page, "## Settings that differ from the default: {profile}\n");
    if settings.is_empty() {
        page.push_str("None.\n\n");
        return;
    }
    let is_above = |one: &&SettingText| {
        above.iter().any(|other| (&other.setting, &other.reason) == (&one.setting, &one.reason))
    };
    let (known, own): (Vec<_>, Vec<_>) = settings.iter().partition(is_above);
    for one in own {
        let _ = writeln!(page, "- {}: {}", line(&plain(&one.setting)), line(&one.reason));
    }
    if !known.is_empty() {
        let names: Vec<String> = known.iter().map(|one| line(&plain(&one.setting))).collect();
        let _ = writeln!(page, "- As equalised: {}", names.join("; "));
    }
    page.push('\n');
}

/// Makes a template readable: replaces each variable by its name, and removes the `{% … %}` statements.
fn plain(template: &str) -> String {
    let variable = regex_lite::Regex::new(r"\{\{\s*(.*?)\s*\}\}").expect("a constant");
    let statement = regex_lite::Regex::new(r"\{%.*?%\}").expect("a constant");
    statement.replace_all(&variable.replace_all(template, "$1"), "").into_owned()
}

/// Formats `how` as code if `how` is a command. Prose is unchanged.
fn code(how: &str, with: &str) -> String {
    let is_prose = with == "note" || with == "binary" || with == "source" || how.contains(", ");
    if is_prose { how.to_owned() } else { format!("`{how}`") }
}

fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

fn line(text: &str) -> String {
    text.replace('\n', " ")
}

/// A README without its title. Each heading moves down by one level.
fn demoted(readme: &str) -> String {
    let mut text = String::new();
    let mut in_code = false;
    for line in readme.lines().skip_while(|line| line.starts_with("# ") || line.is_empty()) {
        in_code ^= line.trim_start().starts_with("```");
        if line.starts_with("##") && !in_code {
            text.push('#');
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_lab::packs::PackSet;

    #[test]
    fn readmes_repeat_the_last_real_run() {
        let packs = PackSet::load(None).expect("nothing wrong");
        for pack in packs.iter() {
            let Some(line) = readme_line(pack) else { continue };
            let readme = pack.template("README.md").expect("a README");
            assert!(readme.contains(&format!("\n\n{line}\n\n")), "{}: the README needs: {line}", pack.name());
            assert!(!page(pack).contains(&line), "{}", pack.name());
        }
    }

    #[test]
    fn packs_that_nobody_has_run_are_listed_apart() {
        let text = "name: mine\nsummary: A test\nbinary: mine\n\
                    version: { command: [\"{{ binary }}\", -v], pattern: 'v(.+)' }\n\
                    start: [\"{{ binary }}\"]\nready: { path: / }\naccess_log: file\n";
        let mine = hoptax_lab::packs::parse("packs/mine", text.into(), Default::default()).expect("a pack");
        assert!(page(&mine).contains("*Never run*"), "{}", page(&mine));
        let packs = PackSet::load(None).expect("nothing wrong");
        let index = index(packs.iter().chain([&mine]));
        let (run, never_run) = index.split_once("## Never run").expect("two tables");
        assert!(run.contains("| [nginx](nginx.md) |") && !run.contains("[mine]"), "{index}");
        assert!(never_run.contains("| [mine](mine.md) | A test | never | 0 of "), "{index}");
    }

    #[test]
    fn comments_in_code_are_not_headings() {
        assert_eq!(demoted("# x\n\n## a\n```\n## no\n```\n"), "### a\n```\n## no\n```\n");
        assert_eq!(plain("worker_processes {{ workers }};"), "worker_processes workers;");
        assert_eq!(cell("a | b"), "a \\| b");
    }
}
