//! Machines of a real Terraform. Its configuration needs no provider: a "machine" is a directory on this
//! machine.

use crate::run::text;
use crate::support::{PATIENCE, Scratch, hoptax, skip, succeed, wait_until};
use crate::world::exe;
use hoptax_lab::fake;
use hoptax_plan::{Host, HostKind, Plan, Terraform, TerraformReach};
use hoptax_remote::machines::{Setup, Up, down, up};
use hoptax_remote::protocol::RunId;
use hoptax_remote::runner::Host as Reached;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A configuration with one machine, which writes down when it is created and destroyed.
const MAIN: &str = r#"
resource "terraform_data" "edge" {
  provisioner "local-exec" {
    command = "cd ${abspath(path.module)} && echo created >>history && mkdir machine && BEFORE"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "cd ${abspath(path.module)} && echo destroyed >>history && rm -rf machine"
  }
}

output "edge_command" {
  value = terraform_data.edge.id == "" ? [] : ["env", "TMPDIR=${abspath(path.module)}/machine"]
}

output "edge_address" {
  value = "127.0.0.1"
}
"#;

struct Site {
    scratch: Scratch,
    interrupted: AtomicBool,
    /// `interrupted` is set when a line of progress contains this text.
    interrupt_at: Option<&'static str>,
    lines: RefCell<Vec<String>>,
}

impl Site {
    /// A directory with a configuration whose machine needs `before` to be created. `None` if there is no
    /// terraform.
    #[track_caller]
    fn new(before: &str) -> Option<Self> {
        if !Command::new("terraform").arg("-version").output().is_ok_and(|output| output.status.success()) {
            skip("terraform is not installed");
            return None;
        }
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path().join("infra")).expect("made");
        scratch.file("infra/main.tf", &MAIN.replace("BEFORE", before));
        Some(Self {
            scratch,
            interrupted: AtomicBool::new(false),
            interrupt_at: None,
            lines: RefCell::default(),
        })
    }

    fn infra(&self) -> PathBuf {
        self.scratch.path().join("infra")
    }

    fn plan(&self, apply: bool, destroy: bool) -> Plan {
        plan(&self.infra(), apply, destroy)
    }

    fn with<T>(&self, plan: &Plan, act: impl FnOnce(&Setup<'_>) -> T) -> T {
        let progress = |line: &str| {
            self.lines.borrow_mut().push(line.to_owned());
            if self.interrupt_at.is_some_and(|text| line.contains(text)) {
                self.interrupted.store(true, Ordering::Relaxed);
            }
        };
        let home = self.scratch.path().join("home");
        act(&Setup { plan, home: &home, interrupted: &self.interrupted, progress: &progress })
    }

    fn up(&self, plan: &Plan) -> Result<Up, String> {
        self.with(plan, up).map_err(|error| format!("{error:#}"))
    }

    fn down(&self, plan: &Plan) -> Result<Vec<String>, String> {
        self.with(plan, down).map_err(|error| format!("{error:#}"))
    }

    /// The log of what happened to the machine.
    fn history(&self) -> String {
        std::fs::read_to_string(self.infra().join("history")).unwrap_or_default().replace('\n', " ")
    }

    /// What terraform knows of machines.
    fn resources(&self) -> String {
        self.by_hand(&["state", "list"])
    }

    /// Runs terraform as its user does. Returns its output.
    fn by_hand(&self, words: &[&str]) -> String {
        let mut command = Command::new("terraform");
        command.arg(format!("-chdir={}", self.infra().display())).args(words).env("CHECKPOINT_DISABLE", "1");
        succeed(&mut command)
    }
}

fn plan(dir: &Path, apply: bool, destroy: bool) -> Plan {
    let terraform = Terraform {
        dir: dir.to_owned(),
        reach: TerraformReach::Command("edge_command".into()),
        address: Some("edge_address".into()),
        user: None,
        apply,
        destroy,
        program: None,
    };
    let edge =
        Host { name: "edge".into(), kind: HostKind::Terraform(terraform), address: None, hoptax: None };
    let mut plan = fake::plan(Vec::new(), 1);
    plan.hosts = vec![edge, Host::local()];
    (plan.roles.gateway, plan.roles.upstream) = ("edge".into(), "edge".into());
    plan
}

#[test]
fn machines_are_created_used_again_and_destroyed() {
    let Some(site) = Site::new("true") else { return };
    let plan = site.plan(true, true);
    let mut first = site.up(&plan).unwrap_or_else(|error| panic!("{error}"));
    let machine = format!("TMPDIR={}/machine", site.infra().canonicalize().expect("there").display());
    let [edge, local] = first.hosts() else { panic!("{:?}", first.hosts()) };
    assert_eq!(edge.kind, HostKind::Command(vec!["env".into(), machine]));
    assert_eq!((edge.address, local), ("127.0.0.1".parse().ok(), &Host::local()));
    assert!(site.lines.borrow().iter().any(|line| line.contains("Apply complete!")), "{:?}", site.lines);

    // An agent runs there.
    let mut command = hoptax_plan::commands(&edge.kind).remove(0);
    command.extend([exe().display().to_string(), "agent".to_owned()]);
    let reached = Reached::connect("edge", &command, edge.address, &RunId::new("this test"));
    let welcome = reached.unwrap_or_else(|failure| panic!("{failure:#?}")).welcome();
    assert!(welcome.directory.starts_with(site.infra().canonicalize().expect("there")), "{welcome:?}");

    let refused = site.up(&plan).map(|_| ()).expect_err("in use");
    assert!(refused.contains("another run uses "), "{refused}");
    first.end(&|_| {}).expect("destroyed");
    assert_eq!(site.history(), "created destroyed ");
    drop(first);
    assert_eq!(site.history(), "created destroyed ", "once");
}

#[test]
fn a_run_creates_its_machine_and_hosts_down_destroys_it() {
    let Some(site) = Site::new("true") else { return };
    let plan = site.scratch.file(
        "plan.yaml",
        &format!(
            "name: machine
hosts:
  edge:
    terraform: {{ dir: {}, outputs: {{ command: edge_command, address: edge_address }}, apply: true }}
  local: {{ address: 127.0.0.1 }}
roles: {{ gateway: edge, upstream: edge }}
gateways: [hop-l7]
load: [{{ loop: open, rate: 300/s, connections: 4, duration: 300ms }}]
idle: sleep
trials: 1
warmup: 100ms
",
            site.infra().display()
        ),
    );
    let with = |words: &[&str]| {
        let mut command = hoptax();
        command.args(words).arg(&plan).current_dir(site.scratch.path());
        // The new home has no tools, and needs none.
        command.env("HOPTAX_HOME", site.scratch.path().join("home")).output().expect("hoptax runs")
    };
    let output = with(&["run", "--accept-void", "--no-live"]);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(site.history(), "created ", "the machine is kept");
    let output = with(&["hosts"]);
    assert_eq!(site.history(), "created ", "it is used again");
    let shown = text(&output.stdout);
    assert!(shown.contains("edge: gateway, upstream, 127.0.0.1\n"), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("env TMPDIR="), "{shown}");
    let dir = site.infra().canonicalize().expect("there");
    let removed = text(&with(&["hosts", "down"]).stdout).replace(&*dir.to_string_lossy(), "DIR");
    assert_eq!(site.history(), "created destroyed ");
    insta::assert_snapshot!(removed + &text(&with(&["hosts", "down"]).stdout));
}

#[test]
fn machines_of_others_are_never_destroyed() {
    let Some(site) = Site::new("true") else { return };
    site.by_hand(&["apply", "-auto-approve", "-input=false"]);
    let plan = site.plan(true, true);
    drop(site.up(&plan).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(site.down(&plan), Ok(Vec::new()));
    assert_eq!(site.history(), "created ");
    let lines = site.lines.borrow().join("\n");
    assert!(lines.contains("machines existed before"), "{lines}");
}

#[test]
fn missing_outputs_are_an_error_that_says_what_to_do() {
    let Some(site) = Site::new("true") else { return };
    let message = site.up(&site.plan(false, false)).map(|_| ()).expect_err("nothing was applied");
    assert!(message.starts_with(&format!("host edge: {} ", site.infra().display())), "{message}");
    assert!(
        message.contains("`edge_command`, `edge_address`") && message.contains("apply: true"),
        "{message}"
    );
    let mut plan = site.plan(true, true);
    let HostKind::Terraform(terraform) = &mut plan.hosts[0].kind else { panic!("terraform") };
    terraform.address = Some("other".into());
    let message = site.up(&plan).map(|_| ()).expect_err("there is no such output");
    assert!(message.contains("`other`") && message.contains("edge_address, edge_command"), "{message}");
    assert_eq!(site.history(), "created destroyed ", "also after an error");
    let HostKind::Terraform(terraform) = &mut plan.hosts[0].kind else { panic!("terraform") };
    terraform.program = Some("no-such-program".into());
    let message = site.up(&plan).map(|_| ()).expect_err("there is no such program");
    assert!(message.contains("`no-such-program`"), "{message}");
}

#[test]
fn a_failed_apply_is_quoted_and_cleaned_up() {
    let Some(site) = Site::new("echo no quota >&2 && exit 7") else { return };
    let plan = site.plan(true, true);
    let message = site.up(&plan).map(|_| ()).expect_err("it fails");
    for part in [
        "host edge: ",
        " apply -auto-approve ",
        "failed with exit code 1:\n",
        "no quota",
        "The whole output is in ",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let log = message.rsplit_once("output is in ").expect("a log").1;
    assert!(std::fs::read_to_string(log).expect("the log").contains("$ terraform "), "{log}");
    // Terraform does not run the provisioner of a machine that was not completed.
    assert_eq!((site.history().as_str(), site.resources().as_str()), ("created ", ""));
    assert_eq!(site.down(&plan), Ok(Vec::new()));
}

#[test]
fn a_signal_during_apply_ends_it_and_destroys_what_there_is() {
    let Some(mut site) = Site::new("sleep 300") else { return };
    site.interrupt_at = Some("Provisioning with 'local-exec'...");
    let began = Instant::now();
    let message = site.up(&site.plan(true, true)).map(|_| ()).expect_err("interrupted");
    assert!(message.contains("was interrupted"), "{message}");
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert_eq!(site.resources(), "");
}

/// Brings up the machines, and never ends. [`after_kill_9_hosts_down_removes_the_machines`] runs this as a
/// process of its own.
#[test]
#[ignore = "another test starts this one"]
fn a_process_that_keeps_machines() {
    let Ok(directory) = std::env::var(KEEPER) else { return };
    let (infra, home) = (Path::new(&directory).join("infra"), Path::new(&directory).join("home"));
    let plan = plan(&infra, true, true);
    let interrupted = AtomicBool::new(false);
    let _up = up(&Setup { plan: &plan, home: &home, interrupted: &interrupted, progress: &|_| {} })
        .expect("machines");
    std::fs::write(Path::new(&directory).join("is-up"), "").expect("written");
    loop {
        std::thread::park();
    }
}

/// Variable with the directory for the other process.
const KEEPER: &str = "HOPTAX_TEST_KEEPER";

#[test]
fn after_kill_9_hosts_down_removes_the_machines() {
    let Some(site) = Site::new("true") else { return };
    let plan = site.plan(true, true);
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "--ignored", "terraform::a_process_that_keeps_machines"]);
    command.env(KEEPER, site.scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut keeper = command.spawn().expect("starts");
    wait_until("the machines are up", PATIENCE, || site.scratch.path().join("is-up").exists());
    let refused = site.down(&plan).expect_err("they are in use");
    assert!(refused.contains("another run uses "), "{refused}");
    keeper.kill().expect("ours");
    keeper.wait().expect("ours");
    assert_eq!(site.history(), "created ", "nobody destroys them");
    assert_eq!(site.down(&plan).map(|gone| gone.len()), Ok(1));
    assert_eq!(site.history(), "created destroyed ");
}
