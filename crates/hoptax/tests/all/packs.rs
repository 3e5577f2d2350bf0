//! Every built-in pack with its real gateway, and error messages for wrong packs.

use crate::documented_packs::{DOCUMENTED, NEVER_RUN};
use crate::support::{PATIENCE, hoptax, json, planted_pack, succeed, wait_for};
use crate::world::{
    Running, driver_for, exe, get, http_upstream, is_missing, keep, pack_gateway, running_plan, started,
};
use hoptax_lab::Driver as _;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_plan::{AccessLog, Feature, Gateway, GatewayKind, Profile};
use hoptax_record::Stage;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) fn gateway(pack: &str, workers: u32) -> Gateway {
    pack_gateway(&format!("{pack}-under-test"), pack, workers, &[])
}

/// Starts the real gateway in front of two upstreams, in both profiles, with and without an access log.
fn answers_through_real_upstreams(pack: &str) {
    needs!(pack);
    let upstreams = [http_upstream("one"), http_upstream("two")];
    let addresses: Vec<_> = upstreams.iter().map(|upstream| upstream.address.into()).collect();
    for (profile, workers, access_log) in [
        (Profile::Stock, 1, AccessLog::Off),
        (Profile::Equalised, 1, AccessLog::Off),
        (Profile::Equalised, 2, AccessLog::File),
        (Profile::Stock, 1, AccessLog::File),
    ] {
        let run = tempfile::tempdir().expect("a directory");
        let mut plan = running_plan(vec![gateway(pack, workers)]);
        (plan.profile, plan.access_log) = (profile, access_log);
        let mut driver = driver_for(&plan, run.path());

        let mut service = started(driver.start_gateway(&plan.gateways[0], &addresses));

        let what = format!("{pack} {profile:?} {access_log:?}");
        let answers: Vec<_> = (0..4).map(|_| get(service.0.addresses()[0], "/some/path")).collect();
        assert!(answers.iter().all(|answer| answer.status == 200), "{what}: {answers:?}");
        // The order of instances is exact only with one worker, because each worker takes turns
        // independently. The stock profile may have several workers.
        if (profile, workers) == (Profile::Equalised, 1) {
            let ones = answers.iter().filter(|answer| answer.body == "one").count();
            assert_eq!(ones, 2, "{what}: in turn: {answers:?}");
        }
        assert_eq!(service.0.check(), Ok(()), "{what}");
        let facts = service.0.facts().clone();
        assert!(facts.version.is_some_and(|version| version.contains('.')), "{what}");
        assert!(!facts.settings.is_empty() && !facts.rendered.is_empty(), "{what}");
        assert_eq!(facts.workers, (profile == Profile::Equalised).then_some(workers), "{what}");
        check_access_log(run.path(), &what, access_log);

        let root = service.0.process().expect("watched").pid;
        assert!(!hoptax_host::tree::descendants(root).is_empty(), "{what}");
        service.0.stop();
        assert!(hoptax_host::tree::descendants(root).is_empty(), "{what}");
        assert!(service.0.check().is_err(), "{what}: it is gone");
    }
}

fn check_access_log(run: &Path, what: &str, access_log: AccessLog) {
    let log =
        run.join("logs").join(format!("{}-under-test/access.log", what.split(' ').next().expect("a pack")));
    match access_log {
        AccessLog::Off => assert!(!log.exists(), "{what}: {}", log.display()),
        // The file must exist, but it may be empty, because a gateway may buffer lines.
        AccessLog::File => assert!(log.exists(), "{what}: {}", log.display()),
    }
}

#[test]
fn caddy_answers_in_both_profiles() {
    answers_through_real_upstreams("caddy");
}

#[test]
fn apache_answers_in_both_profiles() {
    answers_through_real_upstreams("apache");
}

#[test]
fn nginx_answers_in_both_profiles() {
    answers_through_real_upstreams("nginx");
}

#[test]
fn nginx_lua_answers_in_both_profiles() {
    answers_through_real_upstreams("nginx-lua");
}

#[test]
fn haproxy_answers_in_both_profiles() {
    answers_through_real_upstreams("haproxy");
}

#[test]
fn envoy_answers_in_both_profiles() {
    answers_through_real_upstreams("envoy");
}

#[test]
fn nghttpx_answers_in_both_profiles() {
    answers_through_real_upstreams("nghttpx");
}

#[test]
fn equalised_gateways_keep_their_upstream_connections() {
    // Clients close their connections here. Then nghttpx closes the one to the upstream too.
    for pack in ["nginx", "nginx-lua", "haproxy", "envoy", "h2o"] {
        if is_missing(pack) {
            continue;
        }
        let upstream = http_upstream("kept");
        let run = tempfile::tempdir().expect("a directory");
        let plan = running_plan(vec![gateway(pack, 1)]);
        let mut driver = driver_for(&plan, run.path());
        let service = started(driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]));
        // A connection returns to the pool shortly after its response was forwarded. So a few more
        // connections than necessary may open.
        let asked = 50;
        (0..asked).for_each(|_| assert_eq!(get(service.0.addresses()[0], "/").status, 200, "{pack}"));
        let requests = upstream.requests();
        assert_eq!(requests.len(), asked, "{pack}");
        let pooled = upstream.connections();
        assert!(
            pooled <= asked / 5,
            "{pack}: {pooled} connections for {asked} requests, one after the other"
        );
        assert_eq!(requests[0].header("host"), Some("echo.com"), "{pack}: Host passes unchanged");
        // Many client connections must not turn off pooling. For example, HAProxy as shipped stops pooling
        // when a fifth of its descriptors is in use.
        let clients: Vec<_> = (0..900).map(|_| keep(service.0.addresses()[0])).collect();
        assert_eq!(upstream.requests().len(), asked + 900, "{pack}");
        let more = upstream.connections() - pooled;
        assert!(more <= 20, "{pack}: {more} more upstream connections");
        drop(clients);
    }
}

#[test]
fn nginx_counts_its_own_requests_on_the_admin_port() {
    needs!("nginx");
    let upstream = http_upstream("counted");
    let run = tempfile::tempdir().expect("a directory");
    let plan = running_plan(vec![gateway("nginx", 1)]);
    let mut driver = driver_for(&plan, run.path());
    let service = started(driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]));
    let rendered = run.path().join("rendered/nginx-under-test/nginx.conf");
    let text = std::fs::read_to_string(rendered).expect("rendered");
    let admin = text.lines().filter_map(|line| line.trim().strip_prefix("listen ")).next_back();
    let admin = admin.and_then(|listen| listen.trim_end_matches(';').parse().ok()).expect("an admin port");
    let count = || {
        let answer = get(admin, "/stub_status");
        let numbers = answer.body.lines().nth(2).expect("three numbers").split_whitespace();
        numbers.map(|number| number.parse::<u64>().expect("a number")).nth(2).expect("requests")
    };
    let before = count();
    for _ in 0..5 {
        get(service.0.addresses()[0], "/");
    }
    assert_eq!(count() - before, 5 + 1, "five, and the request itself");

    let before = count();
    let url = format!("http://{}/", service.0.addresses()[0]);
    let case = json(hoptax().args(["load", &url, "-c", "8", "-n", "2000", "--json"]));
    assert_eq!(case["counts"]["completed"], 2000, "{case}");
    assert_eq!(count() - before, 2000 + 1, "the generator and nginx agree");
}

fn pack_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let packs = tempfile::tempdir().expect("a directory");
    let folder = packs.path().join("wrong");
    std::fs::create_dir(&folder).expect("made");
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("written");
    }
    packs
}

/// Start timeout for a gateway that must fail before the timeout expires.
pub(crate) const AMPLE: &str = "60s";
/// Start timeouts for a gateway that never becomes ready. The test tries them in turn, because a busy machine
/// may need longer to start the process.
const IN_VAIN: [&str; 3] = ["300ms", "3s", "30s"];

/// A pack that runs a shell script as its gateway. The gateway must be ready within `timeout`.
pub(crate) fn scripted(script: &str, timeout: &str) -> tempfile::TempDir {
    let manifest = "name: wrong\nsummary: a script\nbinary: sh\n\
                    version: { command: [\"{{ binary }}\", -c, echo version 1.0], pattern: 'version (\\S+)' \
                    }\n\
                    files: [{ template: script.j2, to: script }]\n\
                    start: [\"{{ binary }}\", \"{{ dir }}/script\"]\n\
                    ready: { path: /, timeout: TIMEOUT }\n\
                    access_log: stdout\n";
    pack_of(&[("gateway.yaml", &manifest.replace("TIMEOUT", timeout)), ("script.j2", script)])
}

fn start_failure(packs: &Path) -> hoptax_record::Failure {
    let run = tempfile::tempdir().expect("a directory");
    let plan = running_plan(vec![gateway("wrong", 1)]);
    let packs = PackSet::load(Some(packs)).expect("nothing wrong with its words");
    let mut driver = ProcessDriver::new(&plan, packs, run.path()).expect("a driver").with_exe(exe());
    let upstream = http_upstream("never asked");
    match driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]) {
        Ok(_) => panic!("it cannot have started"),
        Err(failure) => failure,
    }
}

#[test]
fn a_taken_port_is_retried_with_other_ports() {
    let packs = scripted("echo bind {{ port }}: Address already in use >&2\nexit 1\n", AMPLE);
    let failure = start_failure(packs.path());
    let ports: std::collections::BTreeSet<_> =
        failure.detail.lines().filter(|line| line.ends_with("Address already in use")).collect();
    assert_eq!(ports.len(), 3, "{failure:?}");
}

/// The gateway only writes down its port, and this test answers there.
#[test]
fn a_process_that_answers_in_the_gateways_place_is_named() {
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("port");
    let script = format!("echo {{{{ port }}}} >{0}.new\nmv {0}.new {0}\nexec sleep 600\n", file.display());
    let packs = scripted(&script, AMPLE);
    std::thread::spawn(move || {
        let port: u16 = wait_for("the gateway has a port", PATIENCE, || {
            std::fs::read_to_string(&file).ok()?.trim().parse().ok()
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("nobody has it");
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let failure = start_failure(packs.path());
    assert_eq!(failure.stage, Stage::Start);
    let stranger = format!("(process {}) listens on 127.0.0.1:", std::process::id());
    assert!(failure.message.contains("another process answers: `"), "{failure:?}");
    assert!(failure.message.contains(&stranger), "{failure:?}");
    assert!(failure.message.contains("`sleep` (process "), "{failure:?}");
}

/// A gateway that accepts only TLS may accept connections before it can answer. It is ready only when the
/// request that its pack names gets the right status. Here, a request gets this status only with the
/// certificate's name as Host, and with a client certificate.
#[test]
fn a_gateway_that_accepts_tls_alone_is_asked_over_tls_whether_it_is_ready() {
    needs!("nginx");
    let start = |status: &str, timeout: &str| {
        let packs = planted_pack::with_tls_alone();
        let ready = format!("ready: {{ path: /up, tls: true, timeout: {timeout} }}");
        planted_pack::change(&packs, "gateway.yaml", "ready: { path: /ready, port: admin }", &ready);
        let up = format!(
            "location = /up {{ if ($host != hoptax.test) {{ return 421; }} return {status}; }}\n        \
            location / {{"
        );
        planted_pack::change(&packs, "nginx.conf.j2", "location / {", &up);
        let run = tempfile::tempdir().expect("a directory");
        let mut plan = running_plan(vec![gateway("planted", 1)]);
        let GatewayKind::Pack { features, .. } = &mut plan.gateways[0].kind else { panic!("a pack") };
        *features = vec![Feature::Tls, Feature::Mtls];
        let packs = PackSet::load(Some(packs.path())).expect("the pack is right");
        let mut driver = ProcessDriver::new(&plan, packs, run.path()).expect("a driver").with_exe(exe());
        let upstream = http_upstream("one");
        driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]).map(Running).map(drop)
    };
    assert_eq!(start("200", AMPLE), Ok(()));
    for timeout in IN_VAIN {
        let failure = start("503", timeout).expect_err("it is not ready");
        assert_eq!(failure.stage, Stage::Start, "{failure:?}");
        if failure.message.contains("/up answered 503; 200 means ready") {
            assert!(failure.message.contains(": https://127.0.0.1:"), "{failure:?}");
            return;
        }
    }
    panic!("its answer is not reported");
}

/// Unix sockets have short paths (107 bytes, unix(7)), and run directories may have long ones.
#[test]
fn sockets_of_a_gateway_have_short_paths_in_a_long_run_directory() {
    needs!("nginx");
    let socket = "listen unix:{{ socket_dir }}/a-socket-with-a-name; listen 127.0.0.1:{{ port }};";
    let packs = planted_pack::packs(&[("listen 127.0.0.1:{{ port }};", socket)]);
    let run = tempfile::tempdir().expect("a directory");
    let long = run.path().join("r".repeat(190));
    std::fs::create_dir(&long).expect("made");
    let mut plan = running_plan(vec![gateway("planted", 1)]);
    plan.gateways[0].label = format!("planted-{}", "x".repeat(40));
    let packs = PackSet::load(Some(packs.path())).expect("the pack is right");
    let mut driver = ProcessDriver::new(&plan, packs, &long).expect("a driver").with_exe(exe());
    let upstream = http_upstream("one");
    let mut sockets = BTreeSet::new();
    // The second start finds the files of the first.
    for _ in 0..2 {
        let mut service = started(driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]));
        assert_eq!(get(service.0.addresses()[0], "/").status, 200);
        let file =
            std::fs::read_to_string(long.join("rendered").join(&plan.gateways[0].label).join("nginx.conf"));
        let (_, after) = file.as_ref().expect("rendered").split_once("listen unix:").expect("a socket");
        sockets.insert(PathBuf::from(after.split_once(';').expect("its end").0));
        service.0.stop();
    }
    assert_eq!(sockets.len(), 1, "the same directory each time: {sockets:?}");
    let socket = sockets.first().expect("one");
    assert!(socket.as_os_str().len() <= 100, "{socket:?}");
    let directory = socket.parent().expect("a directory");
    assert_eq!(std::fs::metadata(directory).expect("there").permissions().mode() & 0o777, 0o700);
    drop(driver);
    assert!(!directory.exists(), "the driver removes it");
}

#[test]
fn a_program_that_cannot_be_run_is_reported_with_the_reason() {
    let manifest = "name: wrong\nsummary: no program\nbinary: sh\n\
                    version: { command: [\"{{ binary }}\", -c, echo 1.0], pattern: '(.+)' }\n\
                    start: [/nowhere/at-all]\nready: { path: / }\naccess_log: stdout\n";
    let failure = start_failure(pack_of(&[("gateway.yaml", manifest)]).path());
    assert!(failure.message.contains("exited with code 127"), "{failure:?}");
    assert!(failure.detail.contains("`/nowhere/at-all`"), "{failure:?}");
}

#[test]
fn a_missing_gateway_is_reported_with_how_to_install_it() {
    let manifest = "name: wrong\nsummary: nowhere\nbinary: no-such-gateway\n\
                    version: { command: [\"{{ binary }}\", -v], pattern: '(.+)' }\n\
                    install: { debian: apt-get install no-such-gateway }\n\
                    start: [\"{{ binary }}\"]\nready: { path: / }\naccess_log: stdout\n";
    let packs = pack_of(&[("gateway.yaml", manifest)]);
    let failure = start_failure(packs.path());
    assert_eq!(failure.stage, Stage::Missing);
    assert!(failure.message.contains("(debian: apt-get install no-such-gateway)"), "{failure:?}");

    let table = succeed(hoptax().args(["gateways", "--packs"]).arg(packs.path()));
    let (_, never_run) = table.split_once("Nobody has run these packs").expect("a table of its own");
    let row = never_run.lines().find(|line| line.contains("wrong")).expect("a row");
    assert!(row.contains(" no ") && row.contains(" never "), "{table}");
    let page = succeed(hoptax().args(["gateways", "wrong", "--packs"]).arg(packs.path()));
    assert!(page.contains("debian: `apt-get install no-such-gateway`"), "{page}");
}

#[test]
fn a_gateway_that_lacks_a_file_is_not_installed() {
    let manifest = "name: wrong\nsummary: half there\nbinary: sh\nneeds: { module: [/nowhere/one.so, \
                    /nowhere/two.so] }\n\
                    version: { command: [\"{{ binary }}\", -c, echo version 1.0], pattern: 'version (\\S+)' \
                    }\n\
                    install: { debian: apt-get install one }\n\
                    start: [\"{{ binary }}\", \"{{ needs.module }}\"]\nready: { path: / }\naccess_log: \
                    stdout\n";
    let packs = pack_of(&[("gateway.yaml", manifest)]);
    let failure = start_failure(packs.path());
    assert_eq!(failure.stage, Stage::Missing);
    insta::assert_snapshot!(failure.message);
    let rows = json(hoptax().args(["gateways", "--json", "--packs"]).arg(packs.path()));
    let row = rows.as_array().expect("a list").iter().find(|row| row["name"] == "wrong").expect("listed");
    assert_eq!(row["installed"], false, "{row}");
    let page = succeed(hoptax().args(["gateways", "wrong", "--packs"]).arg(packs.path()));
    assert!(page.contains("/nowhere/two.so"), "{page}");
}

#[test]
fn gateways_are_listed_for_people_and_for_programs() {
    let rows = json(hoptax().args(["gateways", "--json"]));
    let names: Vec<_> = rows.as_array().expect("a list").iter().map(|row| row["name"].as_str()).collect();
    let folders = std::fs::read_dir("../../gateways").expect("the packs").flatten();
    let mut folders: Vec<_> = folders.map(|folder| folder.file_name().into_string().expect("text")).collect();
    folders.sort_unstable();
    assert_eq!(names, folders.iter().map(|name| Some(name.as_str())).collect::<Vec<_>>());
    let packs = crate::world::packs();
    for row in rows.as_array().expect("a list") {
        let name = row["name"].as_str().expect("a name");
        assert!(row["features"].is_array(), "{row}");
        if NEVER_RUN.contains(&name) {
            assert!(row["last_run_for_real"].is_null(), "{row}");
            continue;
        }
        assert!(row["last_run_for_real"]["version"].is_string(), "{row}");
        // Gateways that cannot be installed by the set-up must offer a container image.
        if DOCUMENTED.contains(&name) {
            assert!(row["docker_image"].is_string(), "{row}");
            continue;
        }
        // Gateways that take long to build may be missing.
        let built = packs.get(name).expect("listed").manifest().build.is_some();
        if built || !is_missing(name) {
            assert!(built || row["installed"] == true, "{row}");
            if row["installed"] == false {
                continue;
            }
            assert!(row["version"].as_str().is_some_and(|version| version.contains('.')), "{row}");
        }
    }
    let table = succeed(hoptax().arg("gateways"));
    for name in ["envoy", "haproxy", "nginx", "nginx-lua"] {
        assert!(table.contains(name), "{table}");
    }
}

/// A run must report every fault of a pack. If a fault is in the pack's files, the run reports it before
/// anything starts. If the gateway fails, the report contains the log line and the file.
#[test]
fn a_run_reports_bad_packs_with_file_and_line() {
    let manifest = "name: wrong\nsummary: a script\nbinary: sh\n\
                    version: { command: [\"{{ binary }}\", -c, echo version 1.0], pattern: 'version (\\S+)' \
                    }\n\
                    files: [{ template: script.j2, to: script }]\n\
                    start: [\"{{ binary }}\", \"{{ dir }}/script\"]\n\
                    ready: { path: /, port: admin, timeout: 3s }\n\
                    access_log: stdout\n";
    // The script listens only on the admin port, so only the readiness check succeeds.
    let elsewhere = format!("exec {} upstream --port {{{{ admin_port }}}}\n", exe().display());
    let patient = manifest.replace("timeout: 3s", "timeout: 60s");
    let long_wait = manifest.replace("timeout: 3s", "timeout: 6s");
    let wrong_yaml = manifest.replace("ready: { path", "ready: { path: [");
    let unknown_key = manifest.replace("access_log: stdout", "access_logs: stdout");
    let rendered = "rendered/wrong/script";
    type Case<'a> = (&'a str, &'a str, Option<&'a str>, i32, &'a [&'a str]);
    let table: [Case<'_>; 7] = [
        (
            "missing template",
            manifest,
            None,
            2,
            &["wrong/gateway.yaml:5: template `script.j2` is not in the pack"],
        ),
        (
            "unknown variable",
            manifest,
            Some("one\n{{ prot }}\n"),
            2,
            &["wrong/script.j2:2: ", "`prot` is not defined", "did you mean `port`?"],
        ),
        (
            "wrong YAML",
            &wrong_yaml,
            Some("exit\n"),
            2,
            &["wrong/gateway.yaml:8:1: malformed YAML", "^", "or on the line before"],
        ),
        ("unknown key", &unknown_key, Some("exit\n"), 2, &["wrong/gateway.yaml:8", "access_logs"]),
        (
            "start command that exits",
            &patient,
            Some("echo no such thing: {{ port }} >&2\nexit 3\n"),
            1,
            &["exited with code 3 before it was ready", "wrong/gateway.yaml:6", rendered, "no such thing: "],
        ),
        (
            "never ready",
            manifest,
            Some("echo waiting for nothing\nexec sleep 60\n"),
            1,
            &[
                "was not ready within 3s: nothing listens on",
                "wrong/gateway.yaml:7",
                rendered,
                "waiting for nothing",
            ],
        ),
        (
            "answers on the wrong port",
            &long_wait,
            Some(&elsewhere),
            1,
            &["was not ready within 6s", "does not accept connections", "wrong/gateway.yaml:7", rendered],
        ),
    ];
    let check = |(what, manifest, script, code, expected): Case<'_>| {
        let files: Vec<_> = std::iter::once(("gateway.yaml", manifest))
            .chain(script.map(|text| ("script.j2", text)))
            .collect();
        let packs = pack_of(&files);
        let scratch = crate::support::Scratch::new();
        let plan = "name: bad\ngateways: [wrong]\nload: [{ loop: closed, connections: 2, duration: 100ms }]\n\
                    trials: 1\nwarmup: 0s\n";
        let path = packs.path().to_str().expect("text");
        let output = crate::run::run(&scratch, plan, &["--packs", path, "--accept-void"]);
        let reported = [output.stdout, output.stderr].map(|bytes| crate::run::text(&bytes)).concat();
        // The report breaks lines at spaces, but never within a path.
        let in_one_line = reported.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{what}: {reported}");
        for words in expected {
            assert!(in_one_line.contains(words), "{what}: `{words}` in:\n{reported}");
        }
        if code == 2 {
            let begun = std::fs::read_dir(scratch.path()).expect("there").flatten().count();
            assert_eq!(begun, 1, "{what}: only the plan is there, nothing was started");
            let listed = hoptax().args(["gateways", "--packs", path]).output().expect("it runs");
            let reported = crate::run::text(&listed.stderr);
            assert!(listed.status.code() == Some(2) && reported.contains("wrong/"), "{what}: {reported}");
        }
    };
    // Some of the cases only wait.
    std::thread::scope(|scope| {
        for case in table {
            scope.spawn(move || check(case));
        }
    });
}

/// The gateway adds its own `cache-control` to the upstream's, as KubeGateway does.
#[test]
fn a_header_that_a_gateway_changes_can_be_left_out_by_the_plan_or_the_pack() {
    needs!("nginx");
    let changes = "add_header cache-control private;\n            proxy_pass http://upstreams;";
    let packs = planted_pack::packs(&[("proxy_pass http://upstreams;", changes)]);
    let measure = |expect: &str| {
        let plan = format!(
            "name: headers\nupstream: {{ headers: {{ cache-control: private }} }}\ngateways: [planted]\n\
             target: {{ path: /{expect} }}\nload: [{{ loop: closed, connections: 2, duration: 100ms \
             }}]\ntrials: 1\n\
             warmup: 0s\n"
        );
        let arguments = ["--packs", planted_pack::argument(&packs), "--accept-void"];
        let output = crate::run::run(&crate::support::Scratch::new(), &plan, &arguments);
        let reported = [output.stdout, output.stderr].map(|bytes| crate::run::text(&bytes)).concat();
        (output.status.code(), reported.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (code, reported) = measure("");
    assert_eq!(code, Some(1), "{reported}");
    for way_out in ["add expect: { ignore_headers: [cache-control] }", "under `differences`"] {
        assert!(reported.contains(way_out), "`{way_out}` in {reported}");
    }
    let shown = "headers of planted: `cache-control` is `private, private` instead of `private`";
    let (code, reported) = measure(", expect: { ignore_headers: cache-control }");
    assert_eq!(code, Some(0), "{reported}");
    assert!(reported.contains(&format!("{shown} (as the plan says)")), "{reported}");

    let listed = "access_log: file\ndifferences: [{ header: Cache-Control, reason: it adds its own }]\n";
    planted_pack::change(&packs, "gateway.yaml", "access_log: file\n", listed);
    let (code, reported) = measure("");
    assert_eq!(code, Some(0), "{reported}");
    assert!(reported.contains(&format!("{shown} (it adds its own)")), "{reported}");
}
