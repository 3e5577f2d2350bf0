//! Driver `process` with built-in services: the upstream, the hops, and `hoptax render`.

use crate::support::server::{Response, Server};
use crate::support::{PATIENCE, hoptax};
use crate::world::{Running, driver_for, get, http_upstream, running_plan, started};
use hoptax_format::spec::TargetSpec;
use hoptax_host::tree::descendants;
use hoptax_lab::{Driver as _, verify};
use hoptax_plan::{Body, BuiltInUpstream, Gateway, GatewayKind, HopKind, Plan, Upstream};
use hoptax_record::Stage;

mod addresses;

fn upstream_of(plan: &mut Plan) -> &mut BuiltInUpstream {
    match &mut plan.upstream {
        Upstream::BuiltIn(upstream) => upstream,
        Upstream::Running(_) => unreachable!("the plan's is built in"),
    }
}

fn request() -> TargetSpec {
    TargetSpec::only("GET", "/some/path?query=1", vec![("host".into(), "echo.com".into())], vec![])
}

#[test]
fn the_upstream_answers_as_the_plan_says_and_keeps_a_ledger() {
    let run = tempfile::tempdir().expect("a directory");
    let mut plan = running_plan(vec![]);
    let settings = upstream_of(&mut plan);
    (settings.instances, settings.status) = (2, 203);
    settings.body = Body::Text("it was me".into());
    settings.headers = vec![("x-own".into(), "yes".into())];

    let upstream = driver_for(&plan, run.path()).start_upstream();
    let mut upstream = Running(upstream.unwrap_or_else(|failure| panic!("{failure:#?}")));

    let addresses = upstream.0.addresses().to_vec();
    assert_eq!(addresses.len(), 2);
    for &address in &addresses {
        let answer = verify::ask(address, &request(), PATIENCE).expect("it answers");
        assert_eq!((answer.status, answer.body.as_slice()), (203, &b"it was me"[..]));
        assert_eq!(answer.headers["x-own"], "yes");
    }
    let ledger = upstream.0.ledger().expect("the upstream has one").expect("readable");
    let requests: Vec<_> = ledger.instances.iter().map(|instance| instance.requests).collect();
    assert_eq!(requests, [1, 1]);
    assert_eq!(upstream.0.check(), Ok(()));
    let guard = upstream.0.process().expect("watched").pid;
    assert_eq!(descendants(guard).len(), 1);
    upstream.0.stop();
    upstream.0.stop();
    assert_eq!(descendants(guard).len(), 0);
    assert!(upstream.0.check().is_err());
}

#[test]
fn an_upstream_that_cannot_start_says_why() {
    let run = tempfile::tempdir().expect("a directory");
    // hoptax starts the upstream on 127.0.0.1.
    let taken = Server::at_localhost(|_| Response::text("taken"));
    let mut plan = running_plan(vec![]);
    upstream_of(&mut plan).port = Some(taken.address.port());
    let failure = driver_for(&plan, run.path()).start_upstream().err().expect("its port is taken");
    assert_eq!(failure.stage, Stage::Start);
    assert!(failure.message.contains(" code 1 "), "{failure:?}");
    assert!(failure.detail.contains(&format!("{} is in use", taken.address)), "{failure:?}");
}

#[test]
fn hops_answer_as_direct_does() {
    let hop = |label: &str, kind| Gateway { label: label.into(), kind: GatewayKind::Hop(kind) };
    let plan = running_plan(vec![hop("hop-l4", HopKind::L4), hop("hop-l7", HopKind::L7)]);
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path());
    let upstream = started(driver.start_upstream());
    for gateway in &plan.gateways {
        let service = started(driver.start_gateway(gateway, &upstream.0.endpoints()));
        let (direct, hop) = (upstream.0.addresses()[0], service.0.addresses()[0]);
        assert_eq!(verify::verify(direct, hop, &request().into(), &Default::default(), PATIENCE), Ok(()));
        assert_eq!(service.0.facts().version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(service.0.ledger().map(drop), None, "a gateway keeps none");
    }
}

#[test]
fn running_services_are_attached_to_and_not_stopped() {
    let theirs = http_upstream("theirs");
    let url = format!("http://{}", theirs.address);
    let kind = GatewayKind::External {
        url: url.clone(),
        pid: Some(std::process::id()),
        access: Default::default(),
        prometheus: None,
        pods: None,
    };
    let mut plan = running_plan(vec![Gateway { label: "mine".into(), kind }]);
    plan.upstream = Upstream::Running(hoptax_plan::Running { url, ..Default::default() });
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path());
    let mut upstream = driver.start_upstream().unwrap_or_else(|failure| panic!("{failure:#?}"));
    assert!(upstream.ledger().is_none() && upstream.process().is_none());
    let mut gateway = driver.start_gateway(&plan.gateways[0], &upstream.endpoints()).expect("it runs");
    assert_eq!(gateway.process().map(|watched| watched.pid), Some(std::process::id()));
    gateway.stop();
    upstream.stop();
    assert_eq!(get(theirs.address, "/").body, "theirs", "it runs on");
}

fn render(plan: &str, more: &[&str]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plan.yaml");
    std::fs::write(&file, plan).expect("written");
    let output = hoptax().arg("render").arg(&file).args(more).output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}

const PLAN: &str = "name: rendered\ngateways: [{ name: nginx, label: front, workers: 3 }, hop-l4]\n\
                    load: [{ loop: closed, connections: [10, 700], duration: 1s }]\n";

#[test]
fn render_prints_every_file_the_command_and_the_settings() {
    let (code, text) = render(PLAN, &["--gateway", "front"]);
    assert_eq!(code, Some(0), "{text}");
    for words in [
        "==> nginx.conf (digest ",
        "worker_processes 3;",
        "worker_connections 1912;",
        "==> command\n",
        "rendered/front/nginx.conf",
        "==> settings that differ from the gateway's defaults\n",
        "    the plan's number of workers",
    ] {
        assert!(text.contains(words), "`{words}` in:\n{text}");
    }
    let (_, stock) = render(PLAN, &["--gateway", "front", "--set", "profile=stock"]);
    assert!(!stock.contains("worker_processes"), "{stock}");
    let (_, logged) = render(PLAN, &["--gateway", "front", "--set", "access_log=file"]);
    assert!(logged.contains("logs/front/access.log;"), "{logged}");
}

#[test]
fn render_refuses_gateways_without_configuration() {
    let errors = ["nginx", "hop-l4"].map(|label| {
        let (code, error) = render(PLAN, &["--gateway", label]);
        assert_eq!(code, Some(2), "{error}");
        error
    });
    insta::assert_snapshot!(errors.concat());
}
