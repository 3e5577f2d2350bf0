//! The workflows in `.github` and in the examples: pinned actions, few rights, time limits, and commands that
//! exist. The linters of `make check` look at the same files, but they are not installed everywhere.

use crate::support::{Json, yaml};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

pub(crate) fn parsed(path: &Path) -> Json {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    yaml::read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files_below(folder: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root().join(folder)) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some()).collect()
}

fn workflows() -> Vec<PathBuf> {
    let mut files = files_below(".github/workflows");
    for example in std::fs::read_dir(root().join("examples")).into_iter().flatten().flatten() {
        files.extend(files_below(&format!(
            "examples/{}/.github/workflows",
            example.file_name().to_string_lossy()
        )));
    }
    files
}

fn jobs(workflow: &Json) -> impl Iterator<Item = (&String, &Json)> {
    workflow["jobs"].as_object().expect("jobs").iter()
}

fn steps(job: &Json) -> &[Json] {
    job["steps"].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[test]
fn every_action_is_pinned_by_commit_and_named_by_version() {
    let mut seen = 0;
    let files = workflows().into_iter().chain(actions());
    for path in files {
        let text = std::fs::read_to_string(&path).expect("readable");
        for line in text.lines() {
            let Some((_, used)) = line.split_once("uses: ") else { continue };
            if used.starts_with("./") {
                continue;
            }
            let (action, version) =
                used.split_once(" # v").unwrap_or_else(|| panic!("{path:?}: no version: {line}"));
            let commit = action.split_once('@').expect("a commit").1;
            let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            // Our own action has no release yet, so no commit of it can be named.
            assert!(
                is_commit || commit == "COMMIT" && action.starts_with("hoptax/hoptax"),
                "{path:?}: {line}"
            );
            assert!(
                version.starts_with(|first: char| first.is_ascii_digit()) || commit == "COMMIT",
                "{line}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen} actions");
}

/// The actions of this repository.
fn actions() -> Vec<PathBuf> {
    let nested = std::fs::read_dir(root().join(".github/actions")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = nested.map(|entry| entry.path().join("action.yml")).collect();
    files.push(root().join("action.yml"));
    files.retain(|path| path.exists());
    files
}

#[test]
fn every_workflow_has_few_rights_and_every_job_a_time_limit() {
    for path in workflows() {
        let workflow = parsed(&path);
        let rights =
            workflow["permissions"].as_object().unwrap_or_else(|| panic!("{path:?}: no permissions"));
        assert!(rights.values().all(|right| right == "read"), "{path:?}: {rights:?}");
        assert!(!workflow["concurrency"].is_null(), "{path:?}: no concurrency");
        for (name, job) in jobs(&workflow).filter(|(_, job)| job["uses"].is_null()) {
            assert!(job["timeout-minutes"].is_i64(), "{path:?}: {name} has no time limit");
            for step in steps(job) {
                if step["uses"].as_str().is_some_and(|used| used.starts_with("actions/checkout@")) {
                    assert_eq!(
                        step["with"]["persist-credentials"], false,
                        "{path:?}: {name} keeps its token"
                    );
                }
            }
        }
    }
}

/// A text from outside, such as the title of a pull request, must never become part of a script.
#[test]
fn no_shell_step_contains_an_expression() {
    let mut seen = 0;
    let of_jobs = workflows().into_iter().flat_map(|path| {
        let workflow = parsed(&path);
        jobs(&workflow).flat_map(|(_, job)| steps(job).to_vec()).collect::<Vec<_>>()
    });
    let of_actions = actions().into_iter().flat_map(|path| steps(&parsed(&path)["runs"]).to_vec());
    for step in of_jobs.chain(of_actions) {
        if let Some(script) = step["run"].as_str() {
            assert!(!script.contains("${{"), "{script}");
            seen += 1;
        }
    }
    assert!(seen >= 15, "{seen} steps");
}

#[test]
fn every_target_and_script_of_a_workflow_exists() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let mut found = BTreeSet::new();
    for path in files_below(".github/workflows") {
        let workflow = parsed(&path);
        for step in jobs(&workflow).flat_map(|(_, job)| steps(job)) {
            for line in step["run"].as_str().unwrap_or_default().lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                if words.first() == Some(&"make") {
                    let target = words[1..].iter().find(|word| !word.starts_with("--")).expect("a target");
                    assert!(makefile.contains(&format!("\n{target}:")), "{path:?}: make {target}");
                    found.insert((*target).to_owned());
                }
                for script in
                    words.iter().filter_map(|word| word.split_once("scripts/")).map(|(_, rest)| rest)
                {
                    let script = script.trim_matches(|other: char| !other.is_alphanumeric());
                    assert!(root().join("scripts").join(script).exists(), "{path:?}: scripts/{script}");
                }
            }
        }
    }
    for target in ["check", "test", "site", "fuzz", "miri", "packages-check"] {
        assert!(found.contains(target), "no workflow runs `make {target}`");
    }
}

/// The weekly workflow proves each kind that `scripts/setup.sh` names, and each script that builds gateways
/// or clusters.
#[test]
fn every_set_up_is_proved_on_a_clean_machine() {
    let weekly = parsed(&root().join(".github/workflows/weekly.yml"));
    let matrix = &weekly["jobs"]["set-up"]["strategy"]["matrix"];
    let included = matrix["include"].as_array().expect("a list").iter().map(|one| &one["what"]);
    let proved = matrix["what"].as_array().expect("a list").iter().chain(included);
    let proved: BTreeSet<&str> = proved.filter_map(Json::as_str).collect();
    let script = std::fs::read_to_string(root().join("scripts/setup.sh")).expect("setup.sh");
    let kinds = script.lines().filter_map(|line| line.strip_prefix("#   scripts/setup.sh "));
    let kinds: BTreeSet<&str> = kinds.filter_map(|rest| rest.split_whitespace().next()).collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    let others = ["gateways-extra", "kubernetes-lab", "kubernetes-cluster"];
    assert_eq!(proved, kinds.into_iter().chain(others).collect());
}
