//! Pods that hoptax creates for a run, and removes after it.

use super::{IMAGE, image};
use crate::run::{report, run, run_directory, text, trials};
use crate::support::{PATIENCE, Scratch, wait_until};
use hoptax_host::tree::descendants;
use hoptax_lab::fake;
use hoptax_plan::{Host, HostKind, Plan, Pull, Workload, WorkloadKind};
use hoptax_remote::machines::{Setup, Up, down, up};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

struct Site {
    scratch: Scratch,
    image: String,
    lines: RefCell<Vec<String>>,
}

impl Site {
    /// `None` if there is no cluster.
    #[track_caller]
    fn new() -> Option<Self> {
        Some(Self { scratch: Scratch::new(), image: image()?, lines: RefCell::default() })
    }

    fn host(&self, name: &str, kind: WorkloadKind) -> Host {
        host(name, &self.image, kind)
    }

    fn with<T>(&self, plan: &Plan, act: impl FnOnce(&Setup<'_>) -> T) -> T {
        let progress = |line: &str| self.lines.borrow_mut().push(line.to_owned());
        let (home, interrupted) = (self.scratch.path().join("home"), AtomicBool::new(false));
        act(&Setup { plan, home: &home, interrupted: &interrupted, progress: &progress })
    }

    fn up(&self, plan: &Plan) -> Result<Up, String> {
        self.with(plan, up).map_err(|error| format!("{error:#}"))
    }

    fn down(&self, plan: &Plan) -> Result<Vec<String>, String> {
        self.with(plan, down).map_err(|error| format!("{error:#}"))
    }
}

fn host(name: &str, image: &str, kind: WorkloadKind) -> Host {
    let workload = Workload {
        kind,
        image: image.to_owned(),
        pull: Some(Pull::Never),
        pull_secrets: Vec::new(),
        requests: [("cpu", "50m"), ("memory", "64Mi")].map(|(key, value)| (key.into(), value.into())).into(),
        limits: [("memory".to_owned(), "256Mi".to_owned())].into(),
        node_selector: [("kubernetes.io/os".to_owned(), "linux".to_owned())].into(),
        tolerations: Vec::new(),
        labels: [("app".to_owned(), "bench".to_owned())].into(),
        annotations: Default::default(),
        at_most: Duration::from_secs(600),
        namespace: None,
        context: None,
    };
    Host {
        name: name.to_owned(),
        kind: HostKind::Workload(workload),
        address: None,
        hoptax: Some("/hoptax".into()),
    }
}

/// A plan of this name, with these hosts. Only the generator may have several machines.
fn plan(name: &str, hosts: Vec<Host>, services: &str) -> Plan {
    let mut plan = fake::plan(Vec::new(), 1);
    plan.name = name.to_owned();
    plan.roles.generator.clone_from(&hosts[0].name);
    (plan.roles.gateway, plan.roles.upstream) = (services.to_owned(), services.to_owned());
    plan.hosts = hosts;
    plan
}

/// What `kubectl` prints about the objects of a plan.
fn objects(plan: &Plan, kinds: &str) -> String {
    objects_of(&plan.name, kinds)
}

fn objects_of(plan: &str, kinds: &str) -> String {
    let selector = format!("--selector=hoptax.io/plan={plan}");
    let output =
        Command::new("kubectl").args(["get", kinds, &selector, "--output=name"]).output().expect("kubectl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const ALL: &str = "job,deployment,replicaset,service,pod";

/// Generators, hop and upstream are in pods: from the plan to the report.
#[test]
fn a_run_creates_its_pods_and_removes_them() {
    let Some(site) = Site::new() else { return };
    let image = &site.image;
    // Without `hoptax`, hoptax copies itself into the pod.
    let output = run(
        &site.scratch,
        &format!(
            "name: pods-run
hosts:
  clients: {{ hoptax: /hoptax, kubernetes: {{ job: {{ image: {image}, pull: never, parallelism: 2 }} }} }}
  app: {{ kubernetes: {{ deployment: {{ image: {image}, pull: never, service: measured-upstream }} }} }}
roles: {{ generator: clients, gateway: app, upstream: app }}
gateways: [hop-l7]
load: [{{ loop: open, rate: 300/s, connections: 4, duration: 300ms }}]
idle: sleep
trials: 2
"
        ),
        &["--accept-void", "--no-live"],
    );
    let shown = text(&output.stderr);
    assert!(output.status.success(), "{}\n{shown}", text(&output.stdout));
    for part in ["host clients: created hoptax-", "host app: created hoptax-", "copying hoptax ("] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let directory = run_directory(&site.scratch);
    let all = trials(&directory);
    assert_eq!(all.len(), 2 * 3);
    for trial in &all {
        assert!(trial["failed"].is_null(), "{trial}");
        assert!(trial["load_record"]["counts"]["ok"].as_u64().expect("a count") > 50, "{trial}");
        assert!(trial["upstream"]["cpu_ns"].as_u64().expect("its CPU time") > 0, "{trial}");
    }
    let report = report(&directory);
    let hosts: Vec<&str> = report["hosts"]["hosts"]
        .as_array()
        .expect("hosts")
        .iter()
        .map(|host| &host["name"])
        .map(|name| name.as_str().expect("a name"))
        .collect();
    assert_eq!(hosts, ["app", "clients-1", "clients-2"]);
    assert_eq!(objects_of("pods-run", ALL), "", "everything is gone");
}

#[test]
fn three_generators_are_three_pods() {
    let Some(site) = Site::new() else { return };
    let plan = plan("pods-three", vec![site.host("clients", WorkloadKind::Job { parallelism: 3 })], "local");
    let pods = site.up(&plan).unwrap_or_else(|error| panic!("{error}"));
    let refused = site.down(&plan).expect_err("it is in use");
    assert!(refused.contains(&format!("(process {} ", std::process::id())), "{refused}");
    let commands = hoptax_plan::commands(&pods.hosts()[0].kind);
    assert_eq!((commands.len(), pods.hosts()[0].address), (3, None));
    let mut names = Vec::new();
    for mut command in commands {
        command.extend(["cat".to_owned(), "/etc/hostname".to_owned()]);
        let output = Command::new(&command[0]).args(&command[1..]).output().expect("kubectl");
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        // The host name of a pod of an indexed Job ends in its number.
        assert!(
            name.ends_with(&format!("-{}", names.len())),
            "{name} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        names.push(name);
    }
    drop(pods);
    assert_eq!(objects(&plan, ALL), "");
    assert_eq!(site.down(&plan), Ok(Vec::new()));
}

#[test]
fn pods_that_cannot_start_are_an_error_that_says_why() {
    let Some(site) = Site::new() else { return };
    let failed = |name: &str, change: &dyn Fn(&mut Workload, &mut Option<String>)| {
        let mut host = site.host("app", WorkloadKind::Job { parallelism: 1 });
        let HostKind::Workload(workload) = &mut host.kind else { panic!("a workload") };
        change(workload, &mut host.hoptax);
        let plan = plan(name, vec![host], "local");
        let message = site.up(&plan).map(|_| ()).expect_err("it cannot start");
        assert_eq!(objects(&plan, ALL), "", "{message}");
        message
    };
    let message = failed("pods-image", &|workload, _| workload.image = "docker.io/lab/none:1".into());
    assert!(message.starts_with("host app: ") && message.contains("ErrImageNeverPull: "), "{message}");
    let message = failed("pods-program", &|_, hoptax| *hoptax = Some("/no-hoptax".into()));
    assert!(message.contains("/no-hoptax"), "{message}");
    let message = failed("pods-namespace", &|workload, _| workload.namespace = Some("nowhere".into()));
    assert!(
        message.contains("--namespace=nowhere ") && message.contains("\"nowhere\" not found"),
        "{message}"
    );
    let message = failed("pods-context", &|workload, _| workload.context = Some("elsewhere".into()));
    assert!(message.contains("context: elsewhere"), "{message}");
    assert_eq!(message.matches("kubectl --context").count(), 1, "there is nothing to remove: {message}");
    // A limit below the request is refused by the API server.
    let message =
        failed("pods-limit", &|workload, _| drop(workload.limits.insert("cpu".into(), "1m".into())));
    assert!(message.contains("cpu limit"), "{message}");
}

/// Brings up pods, and never ends. [`after_kill_9_the_pods_are_removed`] runs this as a process of its own.
#[test]
#[ignore = "another test starts this one"]
fn a_process_that_keeps_pods() {
    let (Ok(directory), Ok(image)) = (std::env::var(KEEPER), std::env::var(IMAGE)) else { return };
    let plan = kept_plan(&image);
    let home = Path::new(&directory).join("home");
    let interrupted = AtomicBool::new(false);
    let _up =
        up(&Setup { plan: &plan, home: &home, interrupted: &interrupted, progress: &|_| {} }).expect("pods");
    std::fs::write(Path::new(&directory).join("is-up"), "").expect("written");
    loop {
        std::thread::park();
    }
}

/// Variable with the directory for the other process.
const KEEPER: &str = "HOPTAX_TEST_KEEPER";

fn kept_plan(image: &str) -> Plan {
    plan("pods-kept", vec![host("app", image, WorkloadKind::Deployment { service: None })], "local")
}

#[test]
fn after_kill_9_the_pods_are_removed() {
    let Some(site) = Site::new() else { return };
    let plan = kept_plan(&site.image);
    for kills_remover in [false, true] {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "--ignored", "cluster::created::a_process_that_keeps_pods"]);
        command.env(KEEPER, site.scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut keeper = command.spawn().expect("starts");
        let is_up = site.scratch.path().join("is-up");
        wait_until("the pods are up", PATIENCE, || is_up.exists());
        std::fs::remove_file(is_up).expect("removed");
        if kills_remover {
            for remover in descendants(keeper.id()) {
                let pid = Pid::from_raw(remover.cast_signed()).expect("a pid above zero");
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        keeper.kill().expect("ours");
        keeper.wait().expect("ours");
        if kills_remover {
            assert!(objects(&plan, ALL).contains("deployment.apps/"), "nobody removes them");
            let gone = site.down(&plan).expect("removed");
            assert!(gone.len() == 1 && gone[0].contains("deployment hoptax-"), "{gone:?}");
        }
        wait_until("everything is gone", PATIENCE, || objects(&plan, ALL).is_empty());
    }
}

/// The lease of a deployment expires by itself. The cluster then removes everything that belongs to the
/// deployment.
#[test]
fn the_cluster_removes_pods_that_everybody_has_forgotten() {
    let Some(site) = Site::new() else { return };
    let mut host = site.host("app", WorkloadKind::Deployment { service: None });
    let HostKind::Workload(workload) = &mut host.kind else { panic!("a workload") };
    workload.at_most = Duration::from_secs(15);
    let plan = plan("pods-forgotten", vec![host], "local");
    // This value is not dropped, so hoptax does not remove the pods.
    let forgotten = std::mem::ManuallyDrop::new(site.up(&plan).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(forgotten.hosts().len(), 1);
    wait_until("everything is gone", PATIENCE, || objects(&plan, ALL).is_empty());
}
