//! The guide and the reference of packs, held to what they say.

use crate::support::hoptax;
use crate::world::{Running, exe, get, http_upstream, is_missing, running_plan};
use hoptax::lab::Driver as _;
use hoptax::lab::packs::PackSet;
use hoptax::lab::process::ProcessDriver;
use hoptax::lab::render::Variables;
use hoptax::plan::{AccessLog, Gateway, GatewayKind, Profile};
use std::path::Path;

const GUIDE: &str = include_str!("../../../../docs/guides/write-a-pack.md");
const REFERENCE: &str = include_str!("../../../../docs/reference/packs.md");
const MANIFEST: &str = include_str!("../../src/lab/packs/manifest.rs");

/// Fenced blocks that directly follow the comment `<!-- MARK… -->`, each with what else the comment says.
fn blocks(mark: &str) -> Vec<(&'static str, &'static str)> {
    let start = format!("<!-- {mark}");
    let parts = GUIDE.split(start.as_str()).skip(1);
    parts
        .map(|part| {
            let (rest, block) = part.split_once(" -->\n```").expect("a fenced block follows");
            let block = block.split_once('\n').expect("a language").1;
            (rest.trim_start_matches(": "), block.split_once("```\n").expect("the block ends").0)
        })
        .collect()
}

/// The directory that a reader of the guide has made.
fn followed() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let files = blocks("file");
    assert_eq!(files.len(), 3, "pack, template and plan");
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("below the directory")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    directory
}

#[test]
fn the_guides_commands_do_what_it_says() {
    let directory = followed();
    let commands = blocks("command");
    assert_eq!(commands.len(), 2, "gateways and render");
    let mut told = Vec::new();
    for (_, command) in commands {
        let words: Vec<_> = command.split_whitespace().collect();
        assert_eq!(words[0], "hoptax");
        let output = hoptax().args(&words[1..]).current_dir(directory.path()).output().expect("it runs");
        assert!(output.status.success(), "{command}{}", String::from_utf8_lossy(&output.stderr));
        told.push(String::from_utf8(output.stdout).expect("text"));
    }
    assert!(told[0].contains("nginx-buffered"), "{}", told[0]);
    assert!(told[1].contains("short buffer=64k;"), "{}", told[1]);
}

#[test]
fn the_guides_pack_starts_and_answers_in_both_profiles() {
    if is_missing("nginx") {
        return;
    }
    let directory = followed();
    for (profile, access_log) in [(Profile::Stock, AccessLog::Off), (Profile::Equalised, AccessLog::File)] {
        let packs = PackSet::load(Some(&directory.path().join("my-packs"))).expect("nothing wrong");
        let kind = GatewayKind::Pack {
            pack: "nginx-buffered".into(),
            workers: 1,
            features: vec![],
            instances: None,
        };
        let mut plan = running_plan(vec![Gateway { label: "guide".into(), kind }]);
        (plan.profile, plan.access_log) = (profile, access_log);
        let run = tempfile::tempdir().expect("a directory");
        let mut driver = ProcessDriver::new(&plan, packs, run.path()).expect("a driver").with_exe(exe());
        let upstream = http_upstream("through the guide's gateway");
        let service = driver.start_gateway(&plan.gateways[0], &[upstream.address]);
        let mut service = Running(service.unwrap_or_else(|failure| panic!("{failure:#?}")));
        assert_eq!(get(service.0.addresses()[0], "/").body, "through the guide's gateway");
        service.0.stop();
        let log = run.path().join("logs/guide/access.log");
        let logged = std::fs::read_to_string(log).map(|text| text.starts_with("127.0.0.1 200 "));
        assert_eq!(
            logged.ok(),
            (access_log == AccessLog::File).then_some(true),
            "the buffer is written at the end"
        );
    }
}

#[test]
fn the_reference_has_every_key_and_every_variable() {
    let mut keys = 0;
    for line in MANIFEST.lines().filter_map(|line| line.trim().strip_prefix("pub ")) {
        let Some((key, _)) = line.split_once(": ") else { continue };
        let mentioned = [
            format!("`{key}`"),
            format!("`{key}."),
            format!(".{key}`"),
            format!(" {key} "),
            format!(" {key},"),
        ];
        assert!(
            mentioned.iter().any(|form| REFERENCE.contains(form)),
            "docs/reference/packs.md lacks `{key}`"
        );
        keys += 1;
    }
    assert!(keys > 25, "the keys were found: {keys}");
    for name in Variables::names() {
        assert!(REFERENCE.contains(&format!("| `{name}` |")), "docs/reference/packs.md lacks `{name}`");
    }
    assert!(Path::new("../../docs/guides/write-a-pack.md").exists(), "what the reference links to");
}
