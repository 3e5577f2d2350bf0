//! Layers: each crate may use only certain other crates. Within a crate, modules and files must not use each
//! other in cycles.

mod graph;

use graph::Graph;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates from the lowest layer up, each with the crates that it may use. ARCHITECTURE.md describes them.
const LAYERS: [(&str, &[&str]); 18] = [
    ("pages", &[]),
    ("testing", &[]),
    ("wire", &[]),
    ("format", &["wire"]),
    ("load", &["format", "wire"]),
    ("stats", &["format"]),
    ("record", &["format", "stats"]),
    ("plan", &["format", "record"]),
    ("import", &["plan"]),
    ("host", &["format", "record"]),
    ("servers", &["format", "host", "load", "plan", "record", "wire"]),
    ("lab", &["format", "host", "load", "plan", "record", "servers", "wire"]),
    ("analysis", &["format", "plan", "record", "stats"]),
    ("report", &["analysis", "format", "plan", "record", "stats"]),
    ("history", &["analysis", "format", "host", "plan", "record", "report", "stats"]),
    ("run", &["analysis", "format", "history", "host", "lab", "load", "plan", "record", "servers", "stats"]),
    ("remote", &["analysis", "format", "host", "lab", "plan", "record", "run", "servers"]),
    (
        "hoptax",
        &[
            "analysis", "format", "history", "host", "import", "lab", "load", "plan", "record", "remote",
            "report", "run", "servers", "stats",
        ],
    ),
];

/// Crates of pure numbers and texts, which must compile no TLS and no command line.
const PURE: [&str; 6] = ["format", "stats", "record", "plan", "analysis", "report"];
const HEAVY: [&str; 4] = ["rustls", "clap", "tokio", "anyhow"];

/// Permitted cycles, with the reason. A cycle must match one of these exactly.
const KNOWN: [(&str, &[&str], &str); 4] = [
    ("load", &["target/mix", "target/mod"], "a target alone is sent as a mix of one"),
    (
        "plan",
        &["meaning/body", "meaning/templates"],
        "a body may hold templates, and a template may name a file as a body does",
    ),
    (
        "hoptax",
        &[
            "cli/load/to_spec/llm",
            "cli/load/to_spec/mod",
            "cli/load/to_spec/request",
            "cli/load/to_spec/targets",
            "cli/load/to_spec/tls",
        ],
        "reading of files that flags name",
    ),
    (
        "hoptax",
        &["cli/load/doubts/failing", "cli/load/doubts/lateness", "cli/load/doubts/mod"],
        "each kind of doubt looks for its cause in a file of its own, and may give way to another kind",
    ),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn folder(name: &str) -> PathBuf {
    crates().join(if name == "hoptax" { name.to_owned() } else { format!("hoptax-{name}") })
}

/// The names in a manifest's sections of dependencies, on all systems, without those of tests.
fn dependencies(manifest: &str) -> Vec<&str> {
    let sections = manifest.split("\n[").filter_map(|section| section.split_once("]\n"));
    let counted = sections.filter(|(name, _)| *name == "dependencies" || name.ends_with("'.dependencies"));
    let lines = counted.flat_map(|(_, text)| text.lines());
    lines.filter_map(|line| line.split(['.', ' ']).next()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_crate_has_its_layer_and_uses_only_lower_ones() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(crates()).expect("the workspace").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        found.insert(name.strip_prefix("hoptax-").unwrap_or(&name).to_owned());
    }
    assert_eq!(found, LAYERS.iter().map(|(name, _)| (*name).to_owned()).collect());
    for (at, (name, allowed)) in LAYERS.iter().enumerate() {
        let text = fs::read_to_string(folder(name).join("Cargo.toml")).expect("a manifest");
        let dependencies = dependencies(&text);
        let used: Vec<&str> = dependencies.iter().filter_map(|one| one.strip_prefix("hoptax-")).collect();
        println!("{name:9} -> {}", used.join(", "));
        let lower = |one: &&&str| LAYERS[..at].iter().any(|(other, _)| *other == **one);
        assert!(
            used.iter().all(|one| allowed.contains(one)),
            "{name} uses {used:?}, and may use {allowed:?}"
        );
        assert!(
            allowed.iter().all(|one| lower(&one)),
            "{name} may use {allowed:?}: not all of these are lower"
        );
    }
}

#[test]
fn crates_of_pure_numbers_compile_no_tls_and_no_command_line() {
    for name in PURE {
        let text = fs::read_to_string(folder(name).join("Cargo.toml")).expect("a manifest");
        for dependency in dependencies(&text) {
            assert!(!HEAVY.contains(&dependency), "{name} depends on {dependency}");
        }
    }
}

#[test]
fn no_module_or_file_is_part_of_a_cycle() {
    let mut known: BTreeSet<usize> = (0..KNOWN.len()).collect();
    for (name, _) in LAYERS {
        let graph = Graph::read(&folder(name).join("src"));
        let modules = graph.module_cycles();
        assert!(modules.is_empty(), "top-level modules of {name} use each other: {modules:?}");
        for cycle in graph.file_cycles() {
            let of = |(crate_, files, _): &(&str, &[&str], &str)| {
                *crate_ == name && files.iter().map(|file| (*file).to_owned()).eq(cycle.iter().cloned())
            };
            let index = KNOWN.iter().position(of);
            let uses: Vec<_> = cycle
                .iter()
                .flat_map(|from| graph.uses[from].iter().map(move |(to, what)| (from, to, what)))
                .filter(|(_, to, _)| cycle.contains(*to))
                .collect();
            assert!(index.is_some(), "files of {name} use each other: {uses:#?}");
            index.map(|index| known.remove(&index));
        }
    }
    assert!(
        known.is_empty(),
        "no cycle any more: {:?}",
        known.iter().map(|index| KNOWN[*index]).collect::<Vec<_>>()
    );
}

#[test]
fn planted_cycles_are_found() {
    let scratch = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        fs::create_dir_all(path.parent().expect("below it")).expect("made");
        fs::write(path, text).expect("written");
    };
    write("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n");
    write("a.rs", "use crate::b::inner::B;\npub struct A(B);\n");
    write("b/mod.rs", "pub mod inner;\n");
    write("b/inner.rs", "pub struct B;\nfn show() { println!(\"{:?}\", crate::A::new()); }\n");
    write("c.rs", "use crate::A;\n#[cfg(test)]\nmod tests { use super::super::b::inner::B; }\n");
    let graph = Graph::read(scratch.path());
    let names = |all: &[&str]| vec![all.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>()];
    assert_eq!(graph.file_cycles(), names(&["a", "b/inner"]));
    assert_eq!(graph.module_cycles(), names(&["a", "b"]));
}
