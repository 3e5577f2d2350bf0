//! Tests that the commands in the guide to packs work, and that the reference of packs is complete.

use crate::support::refusals::refusals;
use crate::support::{hoptax, succeed};
use crate::world::{exe, get, http_upstream, pack_gateway, running_plan, started};
use hoptax_lab::Driver as _;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::render::Variables;
use hoptax_plan::{AccessLog, Profile};
use std::path::Path;

const GUIDE: &str = include_str!("../../../../docs/guides/write-a-pack.md");
const REFERENCE: &str = include_str!("../../../../docs/reference/packs.md");
const MANIFEST: &str = include_str!("../../../hoptax-lab/src/pack/manifest.rs");

/// Code blocks that follow a comment `<!-- MARK… -->`, as pairs: the rest of the comment after the mark, and
/// the block.
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

/// The directory that a reader of the guide would create.
fn directory_of_the_guide() -> tempfile::TempDir {
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
fn the_guides_commands_work() {
    let directory = directory_of_the_guide();
    let commands = blocks("command");
    assert_eq!(commands.len(), 2, "gateways and render");
    let mut reported = Vec::new();
    for (_, command) in commands {
        let words: Vec<_> = command.split_whitespace().collect();
        assert_eq!(words[0], "hoptax");
        reported.push(succeed(hoptax().args(&words[1..]).current_dir(directory.path())));
    }
    assert!(reported[0].contains("nginx-buffered"), "{}", reported[0]);
    assert!(reported[1].contains("short buffer=64k;"), "{}", reported[1]);
}

#[test]
fn the_guides_pack_starts_and_answers_in_both_profiles() {
    needs!("nginx");
    let directory = directory_of_the_guide();
    for (profile, access_log) in [(Profile::Stock, AccessLog::Off), (Profile::Equalised, AccessLog::File)] {
        let packs = PackSet::load(Some(&directory.path().join("my-packs"))).expect("nothing wrong");
        let mut plan = running_plan(vec![pack_gateway("guide", "nginx-buffered", 1, &[])]);
        (plan.profile, plan.access_log) = (profile, access_log);
        let run = tempfile::tempdir().expect("a directory");
        let mut driver = ProcessDriver::new(&plan, packs, run.path()).expect("a driver").with_exe(exe());
        let upstream = http_upstream("through the guide's gateway");
        let mut service = started(driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]));
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
    let public = MANIFEST.lines().filter_map(|line| line.trim().strip_prefix("pub "));
    for line in public.filter(|line| !line.starts_with("fn ")) {
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
    assert!(
        Path::new("../../docs/guides/write-a-pack.md").exists(),
        "the schemas that the reference links to"
    );
}

/// `make docs` generates the pages of the packs and their index.
#[test]
fn the_pages_of_gateways_are_up_to_date() {
    let made = tempfile::tempdir().expect("a directory");
    succeed(hoptax().args(["gateways", "--pages"]).arg(made.path()));
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gateways");
    let names = |directory: &Path| {
        let entries =
            std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(
        names(made.path()),
        names(&kept),
        "run `make docs` to regenerate the pages, and delete those of removed packs"
    );
    for name in names(&kept) {
        let text = |directory: &Path| std::fs::read_to_string(directory.join(&name)).expect("text");
        assert!(
            text(made.path()) == text(&kept),
            "docs/gateways/{} is not what `make docs` makes",
            name.display()
        );
    }
}

#[test]
fn one_pack_is_shown_whole_and_written_out() {
    let shown = hoptax().args(["gateways", "kong"]).output().expect("it runs");
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(text.starts_with("On this machine\n") && text.contains("version 3.9.3 on 2026-11-23"), "{text}");
    let directory = tempfile::tempdir().expect("a directory");
    let written =
        hoptax().args(["gateways", "tyk", "--write"]).arg(directory.path()).output().expect("it runs");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    assert!(directory.path().join("tyk/Dockerfile").is_file(), "files of the image");
    let nested =
        hoptax().args(["gateways", "traefik", "--write"]).arg(directory.path()).output().expect("it runs");
    assert!(nested.status.success(), "{}", String::from_utf8_lossy(&nested.stderr));
    assert!(directory.path().join("traefik/project/build.sh").is_file(), "files of the project");
    let again = PackSet::load(Some(directory.path())).expect("the written files are a pack");
    let shipped = PackSet::load(None).expect("right");
    for (name, heading) in [("tyk", "# Tyk\n\n## "), ("traefik", "# Traefik\n\n## ")] {
        let [mut copy, shipped] =
            [&again, &shipped].map(|packs| packs.get(name).expect("a pack").manifest().clone());
        assert!(shipped.last_run_for_real.is_some() && copy.last_run_for_real.is_none(), "{name}");
        copy.last_run_for_real = shipped.last_run_for_real.clone();
        assert_eq!(copy, shipped);
        let readme =
            std::fs::read_to_string(directory.path().join(name).join("README.md")).expect("a README");
        assert!(readme.starts_with(heading), "{readme}");
    }
    insta::assert_snapshot!(refusals(&["gateways"], &[&["kongg"]]));
}

#[test]
fn the_table_of_gateways_fits_a_screen() {
    let output = hoptax().arg("gateways").output().expect("it runs");
    let table = String::from_utf8(output.stdout).expect("text");
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let kong = table.lines().find(|line| line.trim_start().starts_with("kong ")).expect("a row");
    assert!(kong.contains("3.9.3 on 2026-11-23") && kong.contains("process, docker"), "{kong}");
}
