//! The example for pull requests and our action, step by step: the real hoptax and nginx, and a stand-in for
//! `gh`.

mod runner;

use crate::guides::shortened;
use crate::support::Json;
use crate::workflows::{parsed, root};
use crate::world::exe;
use runner::{Runner, copy};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const GH: &str = include_str!("gh.py");
const BUILD: &str = r#"#!/bin/sh
set -e
target=$(echo "$*" | sed 's/.*--target-dir //')
mkdir -p "$target/demo"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$HOPTAX_PROGRAM" > "$target/demo/hoptax"
chmod +x "$target/demo/hoptax"
"#;
/// The pull request's commit, and the newest commit of main.
const HEAD: &str = "aaaa";
const BASE: &str = "bbbb";

/// A text of the example's gateway, and the text that replaces it in a pull request. With the new text, the
/// service gets each request twice.
const ROUTE: &str = "        location / {\n";
const MIRRORED: &str = "        location = /again { internal; proxy_pass http://service/; }\n        \
    location / {\n            mirror /again;\n";

fn job(workflow: &str, name: &str) -> Json {
    parsed(&root().join("examples/pull-request/.github/workflows").join(workflow))["jobs"][name].clone()
}

/// A repository with the example on both branches, a pull request from a fork, and a runner. The plan is
/// short, has only the closed loop, and only has budgets of counts, because a busy machine changes times. A
/// slow upstream leaves the CPUs mostly idle.
fn repository() -> Runner {
    let runner = Runner::new(&[
        ("github.repository", "acme/proxy"),
        ("github.token", "secret-token"),
        ("github.event.pull_request.number", "7"),
        ("github.event.pull_request.base.sha", BASE),
        ("github.event.pull_request.head.repo.full_name", "fork/proxy"),
        ("github.event.workflow_run.id", "99"),
        ("github.event.workflow_run.event", "pull_request"),
        ("github.event.workflow_run.conclusion", "success"),
        ("github.event.workflow_run.head_repository.owner.login", "fork"),
        ("github.event.workflow_run.head_branch", "faster"),
        ("github.event.workflow_run.head_sha", HEAD),
    ]);
    for branch in ["main", "pr"] {
        copy(&root().join("examples/pull-request"), &runner.path(branch));
    }
    edit(&runner.path("pr/tax/plan.yaml"), |plan| {
        let unneeded = ["against: main", "error_share", "loop: open"];
        let is_kept = |line: &&str| !unneeded.iter().any(|part| line.contains(part));
        let plan = shortened(&plan).replace("body: 1KiB", "body: 1KiB, delay: 5ms");
        plan.replace("duration: 300ms", "duration: 200ms")
            .lines()
            .filter(is_kept)
            .map(|line| format!("{line}\n"))
            .collect()
    });
    runner.program("gh", GH);
    runner.program("sudo", "#!/bin/sh\nexit 0\n");
    // `install: source` would compile hoptax, which takes minutes. What this `cargo` builds starts the binary
    // under test.
    runner.program("cargo", BUILD);
    let mut runner = runner;
    runner.environment.insert("HOPTAX_PROGRAM".into(), exe().display().to_string());
    runner.environment.insert("GH_STATE".into(), runner.path("github.json").display().to_string());
    let pull = |number: u64, owner: &str, sha: &str| json!({ "number": number, "state": "open", "owner": owner, "branch": "faster", "head": { "sha": sha } });
    let state = json!({ "may_comment": true, "calls": [], "pulls": [pull(6, "acme", HEAD), pull(7, "fork", HEAD)],
        "comments": [comment(1, "User", "<!-- hoptax tax -->\nforged"), comment(2, "Bot", "another bot")] });
    fs::write(runner.path("github.json"), state.to_string()).expect("written");
    runner
}

fn comment(id: u64, kind: &str, body: &str) -> Json {
    json!({ "id": id, "pull": 7, "user": { "login": "somebody", "type": kind }, "body": body })
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).expect("readable");
    let changed = change(text.clone());
    assert_ne!(text, changed, "{path:?}");
    fs::write(path, changed).expect("written");
}

fn github(runner: &Runner) -> Json {
    serde_json::from_str(&fs::read_to_string(runner.path("github.json")).expect("readable")).expect("JSON")
}

/// Texts of the comments after the two that were there before.
fn new_comments(runner: &Runner) -> Vec<String> {
    let state = github(runner);
    let comments = state["comments"].as_array().expect("a list");
    assert_eq!(comments[0]["body"], "<!-- hoptax tax -->\nforged", "another user's comment is left alone");
    assert_eq!(comments[1]["body"], "another bot");
    comments[2..].iter().map(|one| one["body"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_change_that_costs_nothing_passes_and_is_commented_once() {
    needs!("nginx");
    let mut runner = repository();
    assert_eq!(runner.job(&job("tax.yml", "tax")), Some(true), "{}", runner.printed);
    let report = runner.path("artifacts/tax/run-1");
    let run = fs::read_dir(&report).expect("there").flatten().next().expect("a run").path();
    assert!(run.join("report.html").exists() && runner.path("artifacts/tax/gate.xml").exists());
    assert_eq!(github(&runner)["calls"], json!([]), "the measuring job does not write to GitHub");

    let write = job("tax-comment.yml", "comment");
    for _ in 0..2 {
        assert_eq!(runner.job(&write), Some(true), "{}", runner.printed);
    }
    let [text] = &new_comments(&runner)[..] else { panic!("one comment: {:?}", github(&runner)) };
    assert!(text.starts_with("<!-- hoptax tax -->\n**tax: "), "{text}");
    assert!(text.contains("| kept | pr, ") && text.contains("main → pr"), "{text}");
    assert!(text.contains("(https://github.com/acme/proxy/actions/runs/99#artifacts)"), "{text}");

    // After a newer push, the figures are no longer those of the pull request.
    runner.context.insert("github.event.workflow_run.head_sha".into(), "cccc".into());
    assert_eq!(runner.job(&write), Some(true), "{}", runner.printed);
    assert!(runner.printed.contains("no longer the head"), "{}", runner.printed);
    runner.context.insert("github.event.workflow_run.event".into(), "push".into());
    assert_eq!(runner.job(&write), None, "a push has no pull request");
}

#[test]
fn a_change_that_asks_the_service_twice_fails_and_the_comment_says_so() {
    needs!("nginx");
    let mut runner = repository();
    edit(&runner.path("pr/my-gateway.sh"), |text| text.replace(ROUTE, MIRRORED));
    assert_eq!(runner.job(&job("tax.yml", "tax")), Some(false), "{}", runner.printed);
    assert!(runner.printed.ends_with("hoptax: exceeded\n"), "{}", runner.printed);
    runner.context.insert("github.event.workflow_run.conclusion".into(), "failure".into());
    assert_eq!(runner.job(&job("tax-comment.yml", "comment")), Some(true), "{}", runner.printed);
    let text = new_comments(&runner).pop().expect("a comment");
    assert!(text.contains("extra upstream requests") && !text.contains("| kept |"), "{text}");
}

/// Runs hoptax. During its first run, the gateway of the pull request refuses most requests, so that this run
/// is void.
const VOID_FIRST: &str = r#"#!/bin/sh
set -e
if [ "$1" = run ] && mkdir "$HOME/first" 2>/dev/null; then
    cp pr/bin/my-gateway "$HOME/kept"
    sed -i -e 's|    upstream service|    limit_req_zone \\$server_port zone=all:1m rate=20r/s;\n&|' \
        -e 's|proxy_pass|limit_req zone=all burst=50 nodelay; &|' pr/bin/my-gateway
    status=0
    "$REAL" "$@" || status=$?
    cp "$HOME/kept" pr/bin/my-gateway
    exit "$status"
fi
exec "$REAL" "$@"
"#;

#[test]
fn a_void_run_is_measured_again_and_its_success_counts() {
    needs!("nginx");
    let mut runner = repository();
    runner.program("void-first", VOID_FIRST);
    let wrapper = runner.path("bin/void-first").display().to_string();
    runner.environment.insert("HOPTAX_PROGRAM".into(), wrapper);
    runner.environment.insert("REAL".into(), exe().display().to_string());
    assert_eq!(runner.job(&job("tax.yml", "tax")), Some(true), "{}", runner.printed);
    assert!(runner.printed.contains("run 1 of at most 2 "), "{}", runner.printed);
    assert!(runner.printed.ends_with("hoptax: kept\n"), "{}", runner.printed);
    let text = fs::read_to_string(runner.path("artifacts/tax/comment.md")).expect("a comment");
    assert!(text.contains("Measured 2 times"), "{text}");
    assert!(runner.path("artifacts/tax/run-1").exists(), "the void run is kept too");

    // With one attempt, the same run fails.
    fs::remove_dir(runner.path("first")).expect("there");
    let mut once = job("tax.yml", "tax");
    let steps = once["steps"].as_array_mut().expect("steps");
    steps.last_mut().expect("the action")["with"]["attempts"] = "1".into();
    assert_eq!(runner.job(&once), Some(false), "{}", runner.printed);
    assert!(runner.printed.ends_with("hoptax: void\n"), "{}", runner.printed);
}

/// A share of errors below one in a million cannot be shown with a few thousand requests, however fast the
/// machine is.
#[test]
fn an_inconclusive_budget_fails_unless_it_may_pass() {
    needs!("nginx");
    let mut runner = repository();
    edit(&runner.path("pr/tax/plan.yaml"), |plan| {
        format!("{plan}  - {{ gateway: pr, metric: error_share, max: 0.0001% }}\n")
    });
    let mut workflow = job("tax.yml", "tax");
    for (inconclusive, passes) in [("fail", false), ("pass", true)] {
        let action = workflow["steps"].as_array_mut().expect("steps").last_mut().expect("the action");
        action["with"]["inconclusive"] = inconclusive.into();
        assert_eq!(runner.job(&workflow), Some(passes), "{}", runner.printed);
        assert!(runner.printed.ends_with("hoptax: inconclusive\n"), "{}", runner.printed);
    }
    assert_eq!(runner.job(&job("tax-comment.yml", "comment")), Some(true), "{}", runner.printed);
    let text = new_comments(&runner).pop().expect("a comment");
    assert!(text.contains("| inconclusive | pr, "), "{text}");
}

#[test]
fn a_build_that_fails_leaves_no_comment_and_no_second_failure() {
    let mut runner = repository();
    edit(&runner.path("pr/Makefile"), |text| text.replace("install -D", "false"));
    assert_eq!(runner.job(&job("tax.yml", "tax")), Some(false), "{}", runner.printed);
    assert_eq!(runner.job(&job("tax-comment.yml", "comment")), Some(true), "{}", runner.printed);
    assert!(runner.printed.contains("nothing was measured"), "{}", runner.printed);
    assert_eq!(new_comments(&runner), [""; 0]);
}

/// If a plan is wrong, the log of the run is kept, and the job says why it failed.
#[test]
fn a_wrong_plan_fails_with_its_own_message() {
    let mut runner = repository();
    edit(&runner.path("pr/tax/plan.yaml"), |text| text.replace("trials:", "trails:"));
    assert_eq!(runner.job(&job("tax.yml", "tax")), Some(false), "{}", runner.printed);
    assert!(
        runner.printed.contains("trails") && runner.printed.contains("ended with 2"),
        "{}",
        runner.printed
    );
}

/// Runs only the job that comments, with `text` as the comment in the artifact. Returns whether the job
/// succeeded.
fn commented(runner: &mut Runner, text: &str) -> bool {
    fs::create_dir_all(runner.path("artifacts/tax")).expect("made");
    fs::write(runner.path("artifacts/tax/comment.md"), text).expect("written");
    runner.job(&job("tax-comment.yml", "comment")).expect("it holds")
}

#[test]
fn a_comment_mentions_nobody_forges_no_mark_and_is_bounded() {
    let mut runner = repository();
    let long = format!("<!-- hoptax other -->@everyone {}", "é".repeat(70_000));
    assert!(commented(&mut runner, &long), "{}", runner.printed);
    let text = new_comments(&runner).pop().expect("a comment");
    let body = text.strip_prefix("<!-- hoptax tax -->\n").expect("our mark");
    assert!(
        !body.contains("<!--") && !body.contains("@everyone") && body.contains("everyone"),
        "{body:.100}"
    );
    assert!(body.chars().count() < 65_000 && body.ends_with(" in the report."));
}

#[test]
fn an_artifact_cannot_name_a_file_of_the_runner() {
    let mut runner = repository();
    let secret = runner.scratch.file("secret", "the runner's own");
    let step = &parsed(&root().join(".github/actions/comment/action.yml"))["runs"]["steps"][1];
    let folder = runner.path("link");
    fs::create_dir(&folder).expect("made");
    std::os::unix::fs::symlink(secret, folder.join("comment.md")).expect("linked");
    let script = root().join("scripts/action/comment.py");
    let mut step = step.clone();
    step["run"] = script.display().to_string().into();
    step["env"]["FILE"] = folder.join("comment.md").display().to_string().into();
    step["env"]["GH_TOKEN"] = "t".into();
    step["env"]["NAME"] = "tax".into();
    assert_eq!(runner.job(&json!({ "steps": [step] })), Some(true), "{}", runner.printed);
    assert_eq!(new_comments(&runner), [""; 0]);
}

#[test]
fn a_token_without_the_right_to_comment_is_an_error_that_says_so() {
    let mut runner = repository();
    let mut state = github(&runner);
    state["may_comment"] = false.into();
    fs::write(runner.path("github.json"), state.to_string()).expect("written");
    assert!(!commented(&mut runner, "text"));
    assert!(runner.printed.contains("cannot comment: POST"), "{}", runner.printed);
    assert!(!runner.printed.contains("secret-token"), "{}", runner.printed);
}

/// The action's step that installs hoptax, with these inputs.
fn installed(runner: &mut Runner, install: &str, version: &str) -> bool {
    let mut step = parsed(&root().join("action.yml"))["runs"]["steps"][0].clone();
    step["env"] = json!({ "INSTALL": install, "VERSION": version });
    step["run"] = root().join("scripts/action/install.sh").display().to_string().into();
    let check = json!({ "run": "hoptax --version" });
    runner.job(&json!({ "steps": [step, check] })).expect("it holds")
}

#[test]
fn a_release_is_installed_only_with_its_checksum() {
    let mut runner = repository();
    let release = runner.path("releases/v1.2.3");
    let name = format!("hoptax-1.2.3-{}-unknown-linux-musl", std::env::consts::ARCH);
    fs::create_dir_all(release.join(&name)).expect("made");
    let program = release.join(&name).join("hoptax");
    fs::write(&program, "#!/bin/sh\necho hoptax 1.2.3\n").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    let pack = format!(
        "cd '{}' && tar -czf {name}.tar.gz {name} && sha256sum {name}.tar.gz > SHA256SUMS",
        release.display()
    );
    assert!(std::process::Command::new("sh").args(["-c", &pack]).status().expect("sh").success());
    runner
        .environment
        .insert("HOPTAX_RELEASES".into(), format!("file://{}", runner.path("releases").display()));
    let before = runner.environment["PATH"].clone();
    assert!(installed(&mut runner, "release", "1.2.3"), "{}", runner.printed);

    runner.environment.insert("PATH".into(), before);
    edit(&release.join("SHA256SUMS"), |text| {
        format!("{}{}", if text.starts_with('0') { '1' } else { '0' }, &text[1..])
    });
    assert!(!installed(&mut runner, "release", "1.2.3"));
    assert!(runner.printed.contains("checksum"), "{}", runner.printed);
    for (install, version, said) in [
        ("release", "9.9.9", "cannot download"),
        ("release", "../../evil", "needs a version such as"),
        ("pypi", "", "needs a version such as"),
        ("npm", "1.2.3", "source, release, pypi or path"),
    ] {
        assert!(!installed(&mut runner, install, version), "{install} {version}");
        assert!(runner.printed.contains(said), "{install} {version}: {}", runner.printed);
    }
    runner.program("hoptax", &format!("#!/bin/sh\nexec {} \"$@\"\n", exe().display()));
    assert!(installed(&mut runner, "path", ""), "{}", runner.printed);
}

/// The guide shows the example, and nothing else.
#[test]
fn the_guide_quotes_the_example() {
    let guide = fs::read_to_string(root().join("docs/guides/guard-a-pull-request.md")).expect("a guide");
    let mut seen = 0;
    for part in guide.split("\n```yaml title=").skip(1) {
        let (name, rest) = part.split_once('\n').expect("a name");
        let block = rest.split_once("\n```").expect("it ends").0;
        let file = fs::read_to_string(root().join("examples/pull-request").join(name)).expect(name);
        assert!(file.contains(block), "{name} does not contain:\n{block}");
        seen += 1;
    }
    assert!(seen >= 3, "{seen} files");
}
