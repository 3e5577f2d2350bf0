//! Driver `docker`: a real gateway in a real container. The tests build the image from the installed gateway
//! and its libraries, so no image is pulled. If no docker engine answers, the tests are skipped.

use crate::support::refusals::refused_plans;
use crate::support::{PATIENCE, Scratch, hoptax, skip, succeed, wait_until};
use crate::world::{exe, get, http_upstream, is_missing, running_plan, started};
use hoptax_host::tree::descendants;
use hoptax_lab::Driver as _;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_plan::{Gateway, GatewayKind, PackDriver};
use hoptax_record::Stage;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const IMAGE: &str = "hoptax-tests/nginx:local";

fn docker(words: &[&str]) -> Option<String> {
    let output = Command::new("docker").args(words).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether a docker engine answers. If not, notes a skip.
fn engine() -> bool {
    let answers = docker(&["version", "--format", "{{.Server.Version}}"]).is_some();
    if !answers {
        skip("no docker engine answers");
    }
    answers
}

/// A directory with the pack nginx. The pack starts nginx in a container, from an image that is built here.
fn world() -> Option<Scratch> {
    if is_missing("nginx") || !engine() {
        return None;
    }
    let scratch = Scratch::new();
    build_image(&scratch.path().join("image"));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../gateways/nginx");
    let to = scratch.path().join("packs/nginx");
    std::fs::create_dir_all(&to).expect("made");
    for file in std::fs::read_dir(from).expect("the pack").flatten() {
        std::fs::copy(file.path(), to.join(file.file_name())).expect("copied");
    }
    let manifest = to.join("gateway.yaml");
    let text = std::fs::read_to_string(&manifest).expect("text");
    let own: Vec<&str> = text.lines().filter(|line| !line.starts_with("docker:")).collect();
    let text = own.join("\n") + &format!("\ndocker: {{ image: \"{IMAGE}\", program: /usr/sbin/nginx }}\n");
    std::fs::write(manifest, text).expect("written");
    Some(scratch)
}

/// Builds an image with nginx, its libraries, and a user database.
fn build_image(context: &Path) {
    let ldd = Command::new("ldd").arg("/usr/sbin/nginx").output().expect("ldd runs");
    let reported = String::from_utf8(ldd.stdout).expect("text");
    let libraries = reported.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    for file in libraries.chain(["/usr/sbin/nginx", "/etc/passwd", "/etc/group"].map(PathBuf::from)) {
        let to = context.join("root").join(file.strip_prefix("/").expect("absolute"));
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        std::fs::copy(&file, to).expect("copied");
    }
    std::fs::write(context.join("Dockerfile"), "FROM scratch\nCOPY root /\n").expect("written");
    let built = Command::new("docker").args(["build", "--quiet", "--tag", IMAGE]).arg(context).output();
    let built = built.expect("docker runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// Names of the containers that the hoptax process with this pid started.
fn containers(pid: u32) -> String {
    let filter = format!("label=hoptax.pid={pid}");
    docker(&["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"]).expect("docker answers")
}

#[test]
fn a_gateway_runs_in_a_container_is_sampled_and_is_removed_afterwards() {
    let Some(world) = world() else { return };
    let kind = GatewayKind::Pack {
        pack: "nginx".into(),
        workers: 2,
        features: vec![],
        instances: None,
        driver: PackDriver::Docker { image: None },
        upstream_http2: false,
    };
    let plan = running_plan(vec![Gateway { label: "contained".into(), kind }]);
    let packs = PackSet::load(Some(&world.path().join("packs"))).expect("nothing wrong");
    let run = world.path().join("run");
    let mut driver = ProcessDriver::new(&plan, packs, &run).expect("a driver").with_exe(exe());
    let upstream = http_upstream("through a container");

    let mut service = started(driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]));

    assert_eq!(get(service.0.addresses()[0], "/").body, "through a container");
    let watched = service.0.process().expect("it is watched");
    let inside = descendants(watched.pid);
    let names: Vec<String> = inside
        .iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect();
    assert_eq!(names, ["nginx", "nginx", "nginx"], "a master and two workers");
    let own = descendants(std::process::id());
    assert!(inside.is_disjoint(&own), "they belong to the engine");
    let facts = service.0.facts();
    assert!(facts.version.as_deref().is_some_and(|version| version.starts_with('1')), "{facts:?}");
    assert!(
        facts.settings.iter().any(|one| one.setting.starts_with(&format!("docker, {IMAGE} (sha256:"))),
        "{facts:?}"
    );
    let names: Vec<String> = containers(std::process::id()).lines().map(str::to_owned).collect();
    let name = names.iter().find(|name| name.starts_with("hoptax-contained-")).expect("it runs").clone();

    service.0.stop();

    assert!(!containers(std::process::id()).contains(&name), "it is removed");
    assert!(descendants(watched.pid).is_empty());
}

#[test]
fn a_killed_hoptax_leaves_no_container() {
    let Some(world) = world() else { return };
    let plan = world.file(
        "plan.yaml",
        "name: killed\ngateways: [{ name: nginx, driver: docker }]\nwarmup: 0s\ntrials: 1\n\
         load: [{ loop: closed, connections: 2, duration: 10m }]\n",
    );
    let mut command = hoptax();
    command.arg("run").arg(plan).arg("--packs").arg(world.path().join("packs")).arg("--out");
    command.arg(world.path().join("results")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().expect("it starts");
    let pid = run.id();
    wait_until("the gateway's container appears", PATIENCE * 3, || containers(pid).contains("hoptax-nginx-"));
    run.kill().expect("ours to kill");
    run.wait().expect("ours to reap");
    wait_until("nothing of it is left", PATIENCE * 3, || containers(pid).is_empty());
}

#[test]
fn a_run_measures_a_container_and_its_ledger_agrees() {
    let Some(world) = world() else { return };
    let plan = world.file(
        "plan.yaml",
        "name: contained\ngateways: [{ name: nginx, label: boxed, driver: docker }]\nwarmup: 100ms\ntrials: \
         2\n\
         load: [{ loop: closed, connections: 2, duration: 1s }]\n",
    );
    let out = world.path().join("results");
    let mut command = hoptax();
    command.arg("run").arg(plan).arg("--packs").arg(world.path().join("packs")).arg("--out").arg(&out);
    succeed(command.arg("--accept-void"));
    let directory = std::fs::read_dir(out).expect("results").flatten().next().expect("one run").path();
    let report = crate::support::json(hoptax().arg("report").arg(directory).args(["--format", "json"]));
    let boxed = crate::run::case(&report, "boxed");
    assert_eq!(boxed["ledger"]["requests_per_request"].as_f64(), Some(1.0), "{boxed}");
    let cpu = boxed["cpu"]["gateway_us_per_request"].as_f64();
    assert!(cpu.is_some_and(|cpu| cpu > 0.0), "the processes in the container are counted: {boxed}");
}

#[test]
fn a_missing_image_is_reported_before_anything_starts() {
    let Some(world) = world() else { return };
    let kind = |image: &str| GatewayKind::Pack {
        pack: "nginx".into(),
        workers: 1,
        features: vec![],
        instances: None,
        driver: PackDriver::Docker { image: Some(image.into()) },
        upstream_http2: false,
    };
    let image = "hoptax-tests/nobody-has-this:1";
    let plan = running_plan(vec![Gateway { label: "absent".into(), kind: kind(image) }]);
    let packs = PackSet::load(Some(&world.path().join("packs"))).expect("nothing wrong");
    let run = world.path().join("run");
    let mut driver = ProcessDriver::new(&plan, packs, &run).expect("a driver").with_exe(exe());
    let upstream = http_upstream("never asked");
    let failure =
        driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]).err().expect("no image");
    assert_eq!(failure.stage, Stage::Missing);
    assert!(failure.message.contains(&format!("docker pull {image}")), "not pulled unasked: {failure:?}");
}

#[test]
fn wrong_container_settings_are_refused_with_their_place() {
    insta::assert_snapshot!(refused_plans(
        &[
            "{ name: hop-l4, driver: docker }",
            "{ name: krakend, image: x }",
            "{ name: krakend, driver: docker, image: \"--rm\" }",
            "{ name: krakend, driver: podman }",
        ]
        .map(|gateway| format!("gateways: [{gateway}]\n"))
    ));
}

#[test]
fn a_plan_says_what_its_gateways_run_in() {
    let scratch = Scratch::new();
    let plan = scratch.file(
        "plan.yaml",
        "gateways: [{ name: kong, driver: docker, image: \"kong:3.8\" }, { name: kong, label: here }]\n\
         load: [{ loop: closed, connections: 1 }]\n",
    );
    let output = hoptax().args(["check", "--json"]).arg(&plan).output().expect("it runs");
    let outlook: crate::support::Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let what = |index: usize| outlook["contenders"][index]["what"].as_str().expect("present").to_owned();
    insta::assert_snapshot!([what(1), what(2)].join("\n"));
    let shown = hoptax().arg("render").arg(&plan).args(["--gateway", "kong"]).output().expect("it runs");
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(text.contains("docker run --rm --init --pull never --network host"), "{text}");
    assert!(text.contains("--entrypoint=sh kong:3.8 "), "{text}");
    let here = hoptax().arg("render").arg(&plan).args(["--gateway", "here"]).output().expect("it runs");
    let text = String::from_utf8(here.stdout).expect("text");
    assert!(!text.contains("docker"), "{text}");
}

#[test]
fn a_guard_runs_its_last_command_at_the_end() {
    let scratch = Scratch::new();
    for (name, command) in [("ended-by-itself", &["true"][..]), ("lost-its-lifeline", &["sleep", "600"])] {
        let file = scratch.path().join(name);
        let mut guard = hoptax();
        guard.args(["guard", "--finally=touch", &format!("--finally={}", file.display()), "--"]);
        let mut guard = guard.args(command).stdin(Stdio::piped()).spawn().expect("it starts");
        if name == "ended-by-itself" {
            let lifeline = guard.stdin.take();
            guard.wait().expect("ends");
            drop(lifeline);
        } else {
            drop(guard.stdin.take());
            guard.wait().expect("ends");
        }
        assert!(file.exists(), "{name}");
    }
}
