//! `hoptax profile` with the real nginx and the real `perf`.

use crate::run::{report, run_directory, text};
use crate::support::{Json, PATIENCE, Scratch, hoptax, retry_if_disturbed, skip, wait_until};
use hoptax_host::profile::Profiler;
use std::path::Path;
use std::process::{Output, Stdio};

/// nginx without and with gzip, and bodies that take long to compress.
const PLAN: &str = "name: gzip
upstream: { body: 64KiB }
gateways:
  - nginx
  - { name: nginx, label: gzip, features: [gzip] }
load: [{ loop: open, rate: 250/s, connections: 4, duration: 300ms }]
trials: 4
warmup: 50ms
";

/// True if this machine cannot record the kernel's part of stacks. The calling test must then be skipped.
#[track_caller]
pub(crate) fn cannot_profile() -> bool {
    let reason = match Profiler::find() {
        Err(error) => error.to_string(),
        Ok(profiler) if !profiler.sees_kernel() => {
            "this user may not see the kernel's part of a profile".to_owned()
        }
        Ok(_) => return false,
    };
    skip(format!("no profile: {reason}"));
    true
}

fn profile(scratch: &Scratch, arguments: &[&str]) -> Output {
    let path = scratch.file("plan.yaml", PLAN);
    let out = scratch.path();
    let mut hoptax = hoptax();
    hoptax.arg("profile").arg(path).arg("--out").arg(out).args(arguments);
    // The recorded stacks are in a temporary directory.
    hoptax.env("TMPDIR", out).output().expect("hoptax runs")
}

/// A figure with its interval.
#[derive(Debug, Clone, Copy)]
struct Figure {
    estimate: f64,
    low: f64,
    high: f64,
}

impl Figure {
    fn read(value: &Json) -> Result<Self, String> {
        let number = |name: &str| value[name].as_f64().ok_or_else(|| format!("no {name} in {value}"));
        Ok(Self { estimate: number("estimate")?, low: number("low")?, high: number("high")? })
    }

    fn overlaps(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

fn list<'j>(value: &'j Json, name: &str) -> &'j [Json] {
    value[name].as_array().map_or(&[][..], Vec::as_slice)
}

/// The price of gzip that the rounds measured, µs of CPU time per request.
fn measured(report: &Json) -> Result<Figure, String> {
    let row = list(&report["prices"], "rows").first().ok_or("no price")?;
    Figure::read(&row["cpu_us_per_request"])
}

/// Checks that zlib's functions cause the difference, and that their time is the price of gzip.
fn check(report: &Json) -> Result<(), String> {
    let difference = list(report, "profile_differences").first().ok_or("no difference")?;
    let whole = Figure::read(&difference["us_per_request"])?;
    let price = measured(report)?;
    let is_zlib = |change: &&Json| change["module"].as_str().is_some_and(|name| name.starts_with("libz.so"));
    let zlib = list(difference, "modules").iter().find(is_zlib).ok_or("no module of zlib")?;
    let zlib = Figure::read(&zlib["own_us"])?;
    let deflate = list(difference, "frames")
        .iter()
        .find(|change| change["frame"] == "deflate")
        .ok_or_else(|| format!("no deflate in {}", difference["frames"]))?;
    let with_callees = Figure::read(&deflate["total_us"])?;
    let figures =
        format!("zlib {zlib:?}, deflate {with_callees:?}, all frames {whole:?}, measured {price:?}");
    if !whole.overlaps(price) {
        return Err(format!("frames do not add up to the measured difference: {figures}"));
    }
    // The rest is nginx's own work for the filter, minus the kernel's time that shorter responses save. It is
    // at most a third of zlib's time.
    if zlib.estimate < 0.6 * price.estimate {
        return Err(format!("zlib is not most of the difference: {figures}"));
    }
    let own = list(difference, "modules").iter().map(|change| Figure::read(&change["own_us"]));
    let sum = own.map(|own| own.map(|own| own.estimate)).sum::<Result<f64, String>>()?;
    if (sum - whole.estimate).abs() > 0.01 * whole.estimate {
        return Err(format!("the modules add up to {sum} µs: {figures}"));
    }
    if with_callees.low <= 0.5 * zlib.estimate {
        return Err(format!("deflate calls most of zlib: {figures}"));
    }
    Ok(())
}

fn check_files(directory: &Path) {
    let read =
        |name: &str| std::fs::read(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let folded = String::from_utf8(read("profile-gzip-1-cpu.folded")).expect("text");
    assert!(folded.lines().any(|line| line.contains(";deflate")), "{folded}");
    assert!(folded.lines().all(|line| line.rsplit(' ').next().is_some_and(|ns| ns.parse::<u64>().is_ok())));
    assert!(read("profile-gzip-1-cpu.pb").len() > 500);
    let waiting = String::from_utf8(read("profile-nginx-1-waiting.folded")).expect("text");
    assert!(waiting.contains("epoll"), "an idle nginx waits for events: {waiting}");
    let page = String::from_utf8(read("report.html")).expect("text");
    assert!(page.contains("data-chart=\"flame\"") && page.contains("deflate"));
}

#[test]
fn the_functions_of_zlib_are_what_gzip_costs() {
    needs!("nginx");
    skip_if!(cannot_profile());
    retry_if_disturbed(|| {
        let scratch = Scratch::new();
        let output = profile(&scratch, &["--passes", "4", "--for", "500ms"]);
        // A void finding about this machine does not matter here.
        let is_measured = matches!(output.status.code(), Some(0 | 4));
        assert!(is_measured, "{}\n{}", text(&output.stdout), text(&output.stderr));
        let directory = run_directory(&scratch);
        check_files(&directory);
        let report = report(&directory);
        let profiles = list(&report, "profiles");
        assert_eq!(profiles.len(), 4, "{profiles:#?}");
        assert!(profiles.iter().all(|one| one["failed"] == 0 && one["sees_kernel"] == true), "{profiles:#?}");
        let shown = text(&output.stdout);
        assert!(shown.contains("gzip compared with nginx"), "{shown}");
        check(&report)
    });
}

#[test]
fn no_measured_trial_is_profiled() {
    needs!("nginx");
    skip_if!(cannot_profile());
    let scratch = Scratch::new();
    let short = ["--set", "trials=2", "--passes", "1", "--for", "500ms"];
    let output = profile(&scratch, &[&["--gateway", "nginx"][..], &short].concat());
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", text(&output.stderr));
    let shown = text(&output.stderr);
    let last_trial = shown.rfind("round 2/2 ·").unwrap_or_else(|| panic!("no trial: {shown}"));
    let first_pass = shown.find("profile round 1 ·").unwrap_or_else(|| panic!("no pass: {shown}"));
    assert!(last_trial < first_pass, "{shown}");
    let directory = run_directory(&scratch);
    assert!(crate::run::trials(&directory).iter().all(|trial| trial["contender"] != "gzip"));
    let lines = std::fs::read_to_string(directory.join("profiles.jsonl")).expect("passes");
    assert_eq!(lines.lines().count(), 2, "one of CPU time, one of waiting");
    let names = names_in(scratch.path());
    assert!(
        !names.iter().any(|name| name.starts_with("hoptax-profile-")),
        "copies of stacks are removed: {names:?}"
    );
}

/// Names in a directory.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("there").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn copies_of_stacks_are_removed_even_if_hoptax_is_killed() {
    needs!("nginx");
    skip_if!(cannot_profile());
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml", PLAN);
    let temporary = scratch.path().join("temporary");
    std::fs::create_dir(&temporary).expect("created");
    let mut hoptax = hoptax();
    hoptax.arg("profile").arg(plan).args(["--gateway", "nginx", "--passes", "1", "--for", "60s"]);
    hoptax.args(["--set", "trials=1", "--out"]).arg(scratch.path()).env("TMPDIR", &temporary);
    let mut child = hoptax.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("hoptax starts");
    let private = || {
        let is_ours = |name: &String| name.starts_with("hoptax-profile-");
        names_in(&temporary).into_iter().find(is_ours).map(|name| temporary.join(name))
    };
    let records = || private().is_some_and(|one| one.join("perf/perf.data").exists());
    wait_until("perf records", PATIENCE, records);
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    wait_until("the guard removes the stacks", PATIENCE, || private().is_none());
}

/// The plan for a gateway with and without a feature.
fn plan_of(pack: &str, feature: &str) -> String {
    format!(
        "gateways:
  - {pack}
  - {{ name: {pack}, label: with, features: [{feature}] }}
load: [{{ loop: closed, connections: 4, duration: 300ms }}]
trials: 1
warmup: 300ms
"
    )
}

/// A profile of a gateway with a feature.
struct Profiled {
    /// The functions with the most CPU time of their own, at most 200.
    frames: Vec<Json>,
    /// Every stack.
    folded: String,
}

impl Profiled {
    /// Records a pass of this length.
    fn new(pack: &str, feature: &str, length: &str) -> Self {
        let scratch = Scratch::new();
        let plan = scratch.file("plan.yaml", &plan_of(pack, feature));
        let mut hoptax = hoptax();
        hoptax.arg("profile").arg(plan).args(["--gateway", "with", "--passes", "1"]);
        hoptax.args(["--for", length, "--out"]);
        let output = hoptax.arg(scratch.path()).output().expect("hoptax runs");
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", text(&output.stderr));
        let directory = run_directory(&scratch);
        let report = report(&directory);
        let is_cpu = |one: &&Json| one["kind"] == "cpu" && one["failed"] == 0;
        let profile = list(&report, "profiles").iter().find(is_cpu);
        let profile = profile.unwrap_or_else(|| panic!("no profile: {}", report["profiles"]));
        let folded = std::fs::read_to_string(directory.join("profile-with-1-cpu.folded")).expect("stacks");
        Self { frames: list(profile, "frames").to_vec(), folded }
    }

    /// Names of functions of one module, those with most CPU time first.
    fn names_of(&self, module: &str) -> Vec<&str> {
        let of = |frame: &&Json| frame["module"].as_str().is_some_and(|name| name.starts_with(module));
        let names = self.frames.iter().filter(of).filter_map(|frame| frame["frame"].as_str());
        names.filter(|name| !name.starts_with('[')).collect()
    }

    /// Whether a stack contains a function whose name contains `part`.
    fn passes(&self, part: &str) -> bool {
        self.folded.lines().any(|line| line.contains(part))
    }
}

#[test]
fn c_functions_of_luajit_have_names() {
    needs!("nginx-lua");
    skip_if!(cannot_profile());
    // A tenth of this feature's stacks contain functions of Lua's C interface. Stacks of other features
    // rarely do.
    let profiled = Profiled::new("nginx-lua", "jwt-hs256", "1s");
    let stacks = profiled.folded.lines().count();
    assert!(
        profiled.passes(";lua_"),
        "none of {stacks} stacks; libluajit has {:?}",
        profiled.names_of("libluajit")
    );
}

#[test]
fn functions_that_a_runtime_compiles_have_names() {
    // The third text is a part of the names of functions that every request calls.
    let gateways = [
        ("express-gateway", "cors", "/express/lib/router/"),
        ("spring-cloud-gateway", "header-rewrite", "reactor."),
    ];
    for (pack, feature, passed) in gateways {
        let packs = crate::world::packs();
        if hoptax_lab::packs::binary::find(packs.get(pack).expect("a pack")).is_none() {
            skip(format!("{pack} is not built; `make gateways-extra` builds it"));
            continue;
        }
        skip_if!(cannot_profile());
        let before = names_in(Path::new("/tmp"));
        let profiled = Profiled::new(pack, feature, "3s");
        let names = profiled.names_of("generated code");
        assert!(profiled.passes(passed), "{pack}: no stack has {passed}; generated code has {names:?}");
        // Node runs the body of a module only once, at the start. It then reuses the memory of this code for
        // other functions, so the name of the body must not appear.
        let body = names.iter().find(|name| name.ends_with(".js:1:1"));
        assert_eq!(body, None, "{pack}: no request passes it: {names:?}");
        let is_new_map = |name: &String| name.starts_with("perf-") && !before.contains(name);
        let left: Vec<_> = names_in(Path::new("/tmp")).into_iter().filter(is_new_map).collect();
        // Other tests may run gateways with maps at the same time.
        let is_left = |name: &String| {
            let pid = name.trim_start_matches("perf-").trim_end_matches(".map");
            !Path::new("/proc").join(pid).exists()
        };
        assert!(!left.iter().any(is_left), "maps are removed: {left:?}");
    }
}

#[test]
fn a_missing_profiler_is_an_error_before_the_run() {
    // Some systems have perf in a directory for daemons, which hoptax always searches.
    if ["/usr/local/sbin/perf", "/usr/sbin/perf", "/sbin/perf"].iter().any(|perf| Path::new(perf).exists()) {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch
        .file("plan.yaml", "gateways: [hop-l7]\nload: [{ loop: closed, connections: 1 }]\ntrials: 1\n");
    let mut command = hoptax();
    command.arg("profile").arg(path).arg("--out").arg(scratch.path()).env("PATH", "/nowhere");
    let output = command.env("HOPTAX_HOME", "/nowhere").output().expect("hoptax runs");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stderr);
    assert!(shown.contains("`perf`") && shown.contains("linux-perf"), "{shown}");
    assert!(std::fs::read_dir(scratch.path()).expect("there").count() == 1, "no run directory is created");
}
