//! Versions of a gateway that are built from commits: runs, kept builds, and the search for the commit that
//! made it slower.
//!
//! The gateway is a script that starts `hoptax hop l7`, or `hop h2`. Its commits differ in the delay that
//! they plant.

use crate::run::{report, run_directory, text};
use crate::support::{PATIENCE, Scratch, hoptax, json, refusals, retry_if_disturbed, succeed, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const MANIFEST: &str = "name: proxy
summary: the built-in hop, behind a script
binary: no-such-proxy
version: { command: [\"{{ binary }}\", --version], pattern: '([0-9][0-9.]*)' }
start: [\"{{ binary }}\", --listen, \"127.0.0.1:{{ port }}\", --upstream, \"{{ upstreams[0].host }}:{{ upstreams[0].port }}\"]
ready: { path: / }
unsupported: { access_log: it has none }
";

/// The commits: name, options of the hop, and whether it builds. `slower` makes responses 10 ms later.
const COMMITS: [(&str, &str, bool); 6] = [
    ("first", "", true),
    ("words", "", true),
    ("broken", "", false),
    ("more-words", "", true),
    ("slower", "--delay-out 10ms", true),
    ("last", "--delay-out 10ms", true),
];

/// Times that agree with the planted delay, µs. On a busy machine, requests wait longer.
const PLANTED_US: std::ops::Range<f64> = 8500.0..26_000.0;

/// A run of the plan of a [`Lab`].
const RUN: [&str; 7] = ["run", "plan.yaml", "--packs", "packs", "--out", ".", "--accept-void"];

fn git(directory: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(["-c", "user.name=Test", "-c", "user.email=test@example.com"]);
    succeed(command.args(["-c", "commit.gpgsign=false"]).args(words)).trim().to_owned()
}

/// A laboratory: a repository, a pack, and a plan with these refs.
struct Lab {
    scratch: Scratch,
}

impl Lab {
    fn new(refs: &str) -> Self {
        Self::with_hop("l7", MANIFEST, refs, "connections: 4")
    }

    /// A laboratory with this hop. `load` has the keys that say how the load is sent.
    fn with_hop(hop: &str, manifest: &str, refs: &str, load: &str) -> Self {
        let lab = Self { scratch: Scratch::new() };
        let repository = lab.path("proxy");
        fs::create_dir_all(&repository).expect("made");
        fs::create_dir_all(lab.path("packs/proxy")).expect("made");
        fs::write(lab.path("packs/proxy/gateway.yaml"), manifest).expect("written");
        git(&repository, &["init", "--quiet", "--initial-branch=main"]);
        for (name, options, builds) in COMMITS {
            let program = env!("CARGO_BIN_EXE_hoptax");
            let script = format!("#!/bin/sh\n# {name}\nexec \"{program}\" hop {hop} \"$@\" {options}\n");
            let build =
                if builds { "cp proxy.sh proxy && chmod +x proxy" } else { "no-such-compiler proxy.sh" };
            fs::write(repository.join("proxy.sh"), script).expect("written");
            let build = format!("test -z \"$GIT_DIR\" && {build}\n");
            fs::write(repository.join("build.sh"), build).expect("written");
            git(&repository, &["add", "."]);
            git(&repository, &["commit", "--quiet", "-m", &format!("Add {name}")]);
            git(&repository, &["tag", name]);
        }
        let plan = format!(
            "name: proxy
gateways:
  - {{ name: proxy, git: {{ repository: proxy, refs: [{refs}], build: sh build.sh, binary: proxy }} }}
load:
  - {{ loop: open, rate: 200/s, {load}, duration: 300ms }}
trials: 3
warmup: 50ms
"
        );
        lab.scratch.file("plan.yaml", &plan);
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn hoptax(&self, arguments: &[&str]) -> Command {
        let mut command = hoptax();
        command.current_dir(self.scratch.path()).env("HOPTAX_HOME", self.path("home")).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.hoptax(&[&RUN[..], arguments].concat()).output().expect("it runs")
    }

    fn bisect(&self, arguments: &[&str]) -> Command {
        let fixed = "bisect plan.yaml --packs packs --good first --bad last --out . --accept-void --set \
                     load.0.duration=200ms";
        self.hoptax(&fixed.split(' ').chain(arguments.iter().copied()).collect::<Vec<_>>())
    }

    fn commit(&self, name: &str) -> String {
        git(&self.path("proxy"), &["rev-parse", name])
    }
}

#[test]
fn refs_are_built_once_and_measured_in_the_same_rounds() {
    let lab = Lab::new("first, more-words, slower");
    // As in a git hook. The build command must not see the hook's repository.
    let mut first = lab.hoptax(&[&RUN[..], &["--set", "trials=1"]].concat());
    let first = first.env("GIT_DIR", "/nowhere").output().expect("it runs");
    assert!(first.status.success(), "{}\n{}", text(&first.stdout), text(&first.stderr));
    assert_eq!(text(&first.stderr).matches("building commit ").count(), 3, "{}", text(&first.stderr));
    // With three rounds, one disturbed trial can hide the difference.
    retry_if_disturbed(|| {
        let again = lab.run(&[]);
        let printed = text(&again.stderr);
        assert!(again.status.success() && !printed.contains("building"), "the builds were kept: {printed}");
        let document = report(&run_directory(&lab.scratch));
        let versions = &document["versions"][0];
        assert_eq!(versions["versions"][2]["gateway"], "proxy-slower");
        assert_eq!(versions["versions"][2]["commit"], lab.commit("slower").as_str());
        let mut changes = versions["changes"].as_array().expect("changes").iter();
        let slower = changes.find(|one| one["metric"] == "added_p50" && one["second"] == "proxy-slower");
        let slower = slower.expect("compared");
        let added = slower["difference"]["estimate"].as_f64().expect("a number");
        if slower["verdict"] != "distinguishable" || !PLANTED_US.contains(&added) {
            return Err(slower.to_string());
        }
        let shown = text(&again.stdout);
        assert!(shown.contains("proxy-slower against proxy-more-words"), "{shown}");
        Ok(())
    });

    let builds = json(&mut lab.hoptax(&["builds", "--json"]));
    assert_eq!(builds.as_array().expect("a list").len(), 3);
    assert!(builds[0]["bytes"].as_u64() > Some(0) && builds[0]["used"].is_string(), "{builds}");
    let listed = succeed(&mut lab.hoptax(&["builds"]));
    assert!(listed.contains("slower") && listed.contains("in 3 builds"), "{listed}");
    let commit = lab.commit("slower");
    succeed(&mut lab.hoptax(&["builds", "rm", &commit[..8]]));
    assert_eq!(json(&mut lab.hoptax(&["builds", "--json"])).as_array().map(Vec::len), Some(2));
    refusals::refused(&mut lab.hoptax(&["builds", "rm", "00000000"]));
    succeed(&mut lab.hoptax(&["builds", "rm", "--all"]));
    assert_eq!(json(&mut lab.hoptax(&["builds", "--json"])).as_array().map(Vec::len), Some(0));
}

#[test]
fn a_commit_that_does_not_build_is_an_error_that_quotes_its_log() {
    let lab = Lab::new("first, broken");
    let output = lab.run(&[]);
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    for words in
        ["proxy-broken: commit ", "does not build: `sh build.sh` exited with code 127", "no-such-compiler"]
    {
        assert!(printed.contains(words), "`{words}`: {printed}");
    }
    let output = lab.run(&["--skip-missing", "--set", "trials=1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = report(&run_directory(&lab.scratch));
    let failed = &document["contenders"][2];
    assert_eq!(failed["label"], "proxy-broken");
    assert!(failed["failed"]["detail"].as_str().expect("a log").contains("no-such-compiler"), "{failed}");

    let lab = Lab::new("nowhere");
    let output = lab.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`nowhere`"), "{}", text(&output.stderr));
}

/// The build starts a process that would run for a long time, and waits for this process.
#[test]
fn a_build_that_is_interrupted_leaves_no_process() {
    let lab = Lab::new("first");
    let script = "(sleep 600 & echo $! > \"$OUT\"; wait) & wait\n";
    fs::write(lab.path("proxy/build.sh"), script).expect("written");
    git(&lab.path("proxy"), &["commit", "--quiet", "--all", "-m", "Build for ever"]);
    git(&lab.path("proxy"), &["tag", "--force", "first"]);
    for signal in [Signal::TERM, Signal::KILL] {
        let file = lab.path("sleeper");
        let _ = fs::remove_file(&file);
        let mut run = lab.hoptax(&RUN).env("OUT", &file).stderr(Stdio::piped()).spawn().expect("it starts");
        let sleeper = || fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
        wait_until("the build's process", PATIENCE, || sleeper().is_some());
        let running = json(&mut lab.hoptax(&["builds", "--json"]));
        assert_eq!(running[0]["state"], "running", "{running}");
        let refused = lab.hoptax(&["builds", "rm", "--all"]).output().expect("it runs");
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));

        let pid = Pid::from_raw(run.id().cast_signed()).expect("a pid above zero");
        kill_process(pid, signal).expect("not waited for yet");
        let status = run.wait().expect("it ends");
        assert!(signal == Signal::KILL || status.code() == Some(1), "{status:?}");
        let sleeper = sleeper().expect("written");
        wait_until("the end of the build's process", PATIENCE, || !hoptax_host::tree::is_alive(sleeper));
    }
    let interrupted = || {
        let builds = json(&mut lab.hoptax(&["builds", "--json"]));
        builds[0]["state"] == "interrupted"
            && builds[0]["bytes"].as_u64() > Some(0)
            && builds[0]["commit"] == lab.commit("first")
    };
    // The lock of the build is released when the guard ends.
    wait_until("an interrupted build", PATIENCE, interrupted);
    succeed(&mut lab.hoptax(&["builds", "rm", "--all"]));
    assert_eq!(json(&mut lab.hoptax(&["builds", "--json"])).as_array().map(Vec::len), Some(0));
}

/// Number of measurements in the state of the search.
fn measurements(lab: &Lab) -> usize {
    let entries = fs::read_dir(lab.scratch.path()).expect("there").flatten();
    let states = entries.map(|entry| entry.path().join("bisect.json"));
    let read = states.filter_map(|path| fs::read(path).ok());
    let state = read.filter_map(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok()).next();
    state.and_then(|state| Some(state["measurements"].as_array()?.len())).unwrap_or(0)
}

#[test]
fn a_search_finds_the_commit_even_after_an_interruption() {
    let lab = Lab::new("HEAD");
    let first = lab.bisect(&[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_until("a measurement", PATIENCE, || measurements(&lab) > 0);
    let pid = Pid::from_raw(first.id().cast_signed()).expect("a pid above zero");
    kill_process(pid, Signal::INT).expect("not waited for yet");
    let output = first.wait_with_output().expect("it ends");
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    insta::assert_snapshot!(printed.lines().next_back().expect("a line"));
    let before = measurements(&lab);
    assert!(before >= 1);

    let output = lab.bisect(&["--json"]).output().expect("it runs");
    let printed = text(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains(&format!("{before} measurements so far")), "{printed}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&found["outcome"], &found["commits"][0]["subject"]), (&"found".into(), &"Add slower".into()));
    assert_eq!(found["commits"][0]["commit"], lab.commit("slower").as_str());
    assert_eq!(found["commits"].as_array().map(Vec::len), Some(1));
    assert!(found["probability"].as_f64() >= Some(0.95), "{found}");
    let change = found["change"]["estimate"].as_f64().expect("a number");
    assert!(PLANTED_US.contains(&change), "{found}");

    // The search has its answer, so the same command only prints the answer.
    let began = Instant::now();
    let output = lab.bisect(&[]).output().expect("it runs");
    assert!(output.status.success() && began.elapsed() < Duration::from_secs(20));
    let printed = text(&output.stdout);
    assert!(printed.contains("Add slower") && printed.contains("% certain after"), "{printed}");
}

/// `hop h2` accepts nothing but HTTP/2.
#[test]
fn a_search_finds_the_commit_over_http2() {
    let manifest = MANIFEST.replace("ready:", "http2: exclusive\nready:");
    let lab = Lab::with_hop("h2", &manifest, "HEAD", "connections: 1, http: 2, streams: 4");
    let found = json(&mut lab.bisect(&["--json"]));
    assert_eq!((&found["outcome"], &found["commits"][0]["subject"]), (&"found".into(), &"Add slower".into()));
    let change = found["change"]["estimate"].as_f64().expect("a number");
    assert!(PLANTED_US.contains(&change), "{found}");
}

#[test]
fn mistakes_of_a_search_say_what_to_do() {
    let lab = Lab::new("HEAD");
    for (arguments, message) in [
        (&["--good", "slower", "--bad", "first"][..], "is not an ancestor"),
        (&["--good", "first", "--bad", "first"], "are the same commit"),
        (&["--good", "first", "--bad", "nowhere"], "has no commit `nowhere`"),
        (&["--good", "first", "--bad", "last", "--metric", "memory"], "use one of added_p50"),
        (&["--good", "first", "--bad", "last", "--gateway", "nginx"], "those that have it: proxy"),
        (&["--good", "first", "--bad", "last", "--set", "load.0.connections=[1,2]"], "one load point"),
        (
            &["--good", "first", "--bad", "last", "--metric", "throughput_ratio", "--min", "20us"],
            "throughput_ratio is a ratio",
        ),
        (&["--good", "first", "--bad", "last", "--set", "trials=1"], "one round gives no interval"),
        (&["--good", "first", "--bad", "last", "--set", "time=1s"], "two rounds take at least 1.8s"),
    ] {
        let fixed = ["bisect", "plan.yaml", "--packs", "packs", "--out", "."];
        let printed = refusals::refused(&mut lab.hoptax(&[&fixed[..], arguments].concat()));
        assert!(printed.contains(message), "{arguments:?}: {printed}");
    }
}
