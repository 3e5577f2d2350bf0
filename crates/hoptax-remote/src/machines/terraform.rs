//! Machines of a Terraform configuration: looked up in its outputs, created if they are missing, and
//! destroyed again.

use super::applied::Applied;
use super::command::{Log, Program};
use super::outputs::Outputs;
use super::setup::Setup;
use anyhow::{Context as _, anyhow, bail};
use hoptax_format::clock;
use hoptax_host::programs;
use hoptax_plan::{Host, HostKind, Terraform};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The programs that hoptax uses if the plan names none, in this order.
const PROGRAMS: [&str; 2] = ["terraform", "tofu"];

/// Time limit for reading outputs. They may be at a distant backend.
const READ: Duration = Duration::from_secs(120);
/// Time limit for `init`, `apply` and `destroy`. Some clouds need half an hour for a machine.
const CHANGE: Duration = Duration::from_secs(60 * 60);
/// Time for a new machine to start and to let users log in.
const BOOT: Duration = Duration::from_secs(10 * 60);
/// Time limit for one attempt to log in.
const LOGIN: Duration = Duration::from_secs(30);
/// Time between two attempts.
const AGAIN: Duration = Duration::from_secs(2);

/// The machines of one directory. Dropping it leaves them as they are.
#[derive(Debug)]
pub(super) struct Directory {
    program: String,
    /// The directory's path as in the plan, for messages.
    shown: PathBuf,
    /// The directory's absolute path without links.
    dir: PathBuf,
    applied: Applied,
    destroys: bool,
}

impl Directory {
    /// Opens the directory that all these hosts have in common. Fails if the program or the directory does
    /// not exist, or another run uses the directory.
    fn open(home: &Path, hosts: &[&Terraform]) -> anyhow::Result<Self> {
        let shown = hosts[0].dir.clone();
        let dir = std::fs::canonicalize(&shown);
        let dir = dir.with_context(|| format!("cannot find the directory {}", shown.display()))?;
        let program = program(hosts.iter().find_map(|host| host.program.as_deref()))?;
        let applied = Applied::open(home, &dir)?;
        let destroys = hosts.iter().any(|host| host.destroy);
        Ok(Self { program, shown, dir, applied, destroys })
    }

    /// Finds the machines of these hosts, and creates them if the plan says so and outputs are missing.
    fn find(&mut self, setup: &Setup<'_>, hosts: &[&Terraform]) -> anyhow::Result<(Outputs, bool)> {
        let applies = hosts.iter().any(|host| host.apply);
        let needed: Vec<&str> = hosts.iter().flat_map(|host| super::outputs::names(host)).collect();
        let outputs = match self.outputs() {
            Ok(outputs) => outputs,
            // Reading outputs fails if the directory was never initialised.
            Err(_) if applies => Outputs::default(),
            Err(error) => return Err(error),
        };
        let missing = outputs.missing(&needed);
        if missing.is_empty() {
            if self.destroys && !self.applied.is_ours() {
                (setup.progress)(&format!(
                    "{}: these machines existed before, so hoptax does not destroy them after the run. `{}` \
                    does",
                    self.shown.display(),
                    self.command("destroy", &[]).shown()
                ));
            }
            return Ok((outputs, false));
        }
        if !applies {
            bail!(
                "{} has no output {}. {}. Run `{}`, or write apply: true in the plan",
                self.shown.display(),
                listed(&missing),
                outputs.described(),
                self.command("apply", &[]).shown()
            );
        }
        self.apply(setup)?;
        let outputs = self.outputs()?;
        let missing = outputs.missing(&needed);
        if !missing.is_empty() {
            bail!(
                "{} has no output {} even after `apply`. {}. Add an `output` to the configuration, or \
                 correct `outputs` in the plan",
                self.shown.display(),
                listed(&missing),
                outputs.described()
            );
        }
        Ok((outputs, true))
    }

    fn outputs(&self) -> anyhow::Result<Outputs> {
        let mut program = self.command("output", &["-json", "-no-color"]);
        let init = self.command("init", &[]).shown();
        program.advice =
            format!("Run `{init}` if the directory is new, and write apply: true to let hoptax do it");
        let text = program.output(None, READ)?;
        Outputs::read(&text)
            .with_context(|| format!("`{}` printed something other than outputs", program.shown()))
    }

    fn apply(&mut self, setup: &Setup<'_>) -> anyhow::Result<()> {
        self.applied.remember(&self.dir, clock::unix())?;
        (setup.progress)(&format!("{}: creating machines with {}", self.shown.display(), self.program));
        self.change(setup.progress, "init", &["-input=false", "-no-color"], Some(setup.interrupted))?;
        let options = ["-auto-approve", "-input=false", "-no-color"];
        let applied = self.change(setup.progress, "apply", &options, Some(setup.interrupted));
        match self.destroys {
            true => applied,
            false => applied.context("some machines may exist; `hoptax hosts down PLAN` destroys them"),
        }
    }

    /// Whether machines remain that hoptax should destroy after the run.
    fn is_to_be_destroyed(&self) -> bool {
        self.destroys && self.applied.is_ours()
    }

    /// Destroys the machines. Fails if `terraform` fails. Machines may then remain.
    fn destroy(&mut self, progress: &dyn Fn(&str)) -> anyhow::Result<()> {
        progress(&format!("{}: destroying machines with {}", self.shown.display(), self.program));
        let options = ["-auto-approve", "-input=false", "-no-color"];
        self.change(progress, "destroy", &options, None).context("machines may remain, and cost money")?;
        self.applied.forget()
    }

    fn change(
        &self,
        progress: &dyn Fn(&str),
        verb: &str,
        options: &[&str],
        interrupted: Option<&AtomicBool>,
    ) -> anyhow::Result<()> {
        let program = self.command(verb, options);
        let path = &self.applied.log;
        let program = Program { advice: format!("The whole output is in {}", path.display()), ..program };
        let steps = |line: &str| {
            if is_step(line) {
                progress(line);
            }
        };
        program.run(&Log { path, progress: &steps }, CHANGE, interrupted)
    }

    fn command(&self, verb: &str, options: &[&str]) -> Program {
        let first = [self.program.clone(), format!("-chdir={}", self.dir.display()), verb.to_owned()];
        Program {
            words: first.into_iter().chain(options.iter().map(|word| (*word).to_owned())).collect(),
            // The second variable turns off the check for new versions, which sends a request to HashiCorp.
            variables: vec![("TF_IN_AUTOMATION", "1"), ("CHECKPOINT_DISABLE", "1")],
            advice: "Run it yourself to see the whole output".to_owned(),
        }
    }
}

/// Finds and creates the machines of all hosts of a plan that come from Terraform. Adds their directories to
/// `opened` before it creates anything. Returns the hosts, each with the machines that it has.
pub(super) fn up(setup: &Setup<'_>, opened: &mut Vec<Directory>) -> anyhow::Result<Vec<Host>> {
    let mut found = Vec::new();
    for (_, hosts) in by_directory(&setup.plan.hosts) {
        let terraforms: Vec<&Terraform> = hosts.iter().map(|(_, terraform)| *terraform).collect();
        let directory = Directory::open(setup.home, &terraforms);
        opened.push(directory.with_context(|| format!("host {}", hosts[0].0.name))?);
        let directory = opened.last_mut().expect("just pushed");
        let (outputs, are_new) =
            directory.find(setup, &terraforms).with_context(|| format!("host {}", hosts[0].0.name))?;
        for (host, terraform) in hosts {
            let resolved = outputs.host(host, terraform);
            let resolved =
                resolved.with_context(|| format!("host {}: {}", host.name, terraform.dir.display()))?;
            if are_new {
                await_login(setup, &resolved)?;
            }
            found.push(resolved);
        }
    }
    Ok(found)
}

/// Destroys the machines that hoptax has created, if the plan says so.
///
/// # Errors
/// The errors of all directories.
pub(super) fn end(opened: &mut Vec<Directory>, progress: &dyn Fn(&str)) -> Vec<anyhow::Error> {
    let ended = opened.drain(..).filter(Directory::is_to_be_destroyed);
    ended.filter_map(|mut directory| directory.destroy(progress).err()).collect()
}

/// Destroys what earlier runs have left. Returns the directories whose machines are gone. Fails if
/// `terraform` fails, or another run uses the machines.
pub(super) fn down(setup: &Setup<'_>) -> anyhow::Result<Vec<String>> {
    let mut gone = Vec::new();
    for (dir, hosts) in by_directory(&setup.plan.hosts) {
        let terraforms: Vec<&Terraform> = hosts.iter().map(|(_, terraform)| *terraform).collect();
        let mut directory =
            Directory::open(setup.home, &terraforms).with_context(|| format!("host {}", hosts[0].0.name))?;
        if directory.applied.is_ours() {
            directory.destroy(setup.progress)?;
            gone.push(format!("the machines of {}", dir.display()));
        }
    }
    Ok(gone)
}

/// The hosts from Terraform, by directory, in the order of the plan.
fn by_directory(hosts: &[Host]) -> Vec<(PathBuf, Vec<(&Host, &Terraform)>)> {
    let mut groups: Vec<(PathBuf, Vec<(&Host, &Terraform)>)> = Vec::new();
    for host in hosts {
        let HostKind::Terraform(terraform) = &host.kind else { continue };
        let dir = std::fs::canonicalize(&terraform.dir).unwrap_or_else(|_| terraform.dir.clone());
        match groups.iter_mut().find(|(known, _)| *known == dir) {
            Some((_, group)) => group.push((host, terraform)),
            None => groups.push((dir, vec![(host, terraform)])),
        }
    }
    groups
}

/// The program that the plan names, or the first one on PATH.
fn program(named: Option<&str>) -> anyhow::Result<String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let directories = programs::search_path();
    let found = PROGRAMS.iter().find(|name| programs::find_in(name, &directories).is_some());
    found.map(|name| (*name).to_owned()).ok_or_else(|| {
        anyhow!("neither terraform nor tofu is on PATH. Install one of them, or name it with `program`")
    })
}

/// Waits until commands can be run on the new machines of this host.
fn await_login(setup: &Setup<'_>, host: &Host) -> anyhow::Result<()> {
    let began = Instant::now();
    for mut words in hoptax_plan::commands(&host.kind) {
        words.push("true".to_owned());
        let advice = "Check that it runs without asking questions".to_owned();
        let login = Program { words, variables: Vec::new(), advice };
        let mut is_first = true;
        while let Err(error) = login.output(None, LOGIN) {
            if setup.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted while host {} started", host.name);
            }
            let text = error.to_string();
            if text.contains("Host key verification failed") {
                let help = "To trust the keys of new machines, write `StrictHostKeyChecking accept-new` for \
                            their addresses into ~/.ssh/config";
                return Err(error.context(format!("host {}: its key is not known. {help}", host.name)));
            }
            if began.elapsed() > BOOT {
                let limit = humantime::format_duration(BOOT);
                return Err(error.context(format!("host {}: nobody can log in after {limit}", host.name)));
            }
            if std::mem::replace(&mut is_first, false) {
                (setup.progress)(&format!("host {}: waiting until `{}` works", host.name, login.shown()));
            }
            thread::sleep(AGAIN);
        }
    }
    Ok(())
}

/// Whether a line of `terraform` says that something begins, continues or is complete. Other lines, such as
/// those of Terraform's plan, are only in the log.
fn is_step(line: &str) -> bool {
    line.contains("...") || line.contains(" complete")
}

/// Names between backticks: `a`, `b`.
fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steps_are_reported() {
        for line in [
            "terraform_data.edge: Creating...",
            "aws_instance.edge: Still destroying... [id=i-1, 1m10s elapsed]",
            "terraform_data.edge: Destruction complete after 0s",
            "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.",
        ] {
            assert!(is_step(line), "{line}");
        }
        for line in
            ["", "Plan: 0 to add, 0 to change, 1 to destroy.", "  - resource \"terraform_data\" \"edge\" {"]
        {
            assert!(!is_step(line), "{line}");
        }
    }
}
