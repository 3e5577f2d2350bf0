//! A namespace of a Kubernetes cluster, and the user's `kubectl` that reaches it.

use super::command::Program;
use anyhow::{Context as _, bail};
use hoptax_plan::{Workload, kubectl};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// What hoptax creates in a namespace.
const KINDS: &str = "job,deployment,service";

/// Time limit for removing everything, and the time that `kubectl` gets for it.
const REMOVE: Duration = Duration::from_secs(150);
const REMOVE_OPTION: &str = "--timeout=120s";

/// A namespace that a context of `kubectl` leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cluster {
    context: Option<String>,
    namespace: Option<String>,
}

impl Cluster {
    pub(super) fn of(workload: &Workload) -> Self {
        Self { context: workload.context.clone(), namespace: workload.namespace.clone() }
    }

    /// `kubectl` with these arguments.
    pub(super) fn kubectl(&self, words: &[&str]) -> Program {
        let first = kubectl(self.context.as_deref(), self.namespace.as_deref()).into_iter();
        Program {
            words: first.chain(words.iter().map(|word| (*word).to_owned())).collect(),
            variables: Vec::new(),
            advice: "Check `kubectl auth can-i --list`, and that the context is the right one".to_owned(),
        }
    }

    /// Lists the created objects that a selector finds, as JSON.
    pub(super) fn list(&self, selector: &str) -> Program {
        self.kubectl(&["get", KINDS, &format!("--selector={selector}"), "--output=json"])
    }

    /// Removes the created objects that a selector finds, and their pods.
    pub(super) fn remove(&self, selector: &str) -> Program {
        let selector = format!("--selector={selector}");
        // With `foreground`, a Job or a Deployment is gone only when its pods are gone.
        self.kubectl(&["delete", KINDS, &selector, "--cascade=foreground", "--wait=true", REMOVE_OPTION])
    }
}

/// A process that removes objects at the end of a run, or when hoptax dies for any reason. It waits until
/// hoptax's end of a pipe is closed.
#[derive(Debug)]
pub(super) struct Remover {
    child: Child,
    removes: Program,
    log: PathBuf,
}

impl Remover {
    /// Starts the process. `log` is a file for its output. Fails if the process cannot be started, or the
    /// file cannot be written.
    pub(super) fn start(removes: Program, log: PathBuf) -> anyhow::Result<Self> {
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("sh");
        command.args(["-c", "cat >/dev/null; exec \"$@\"", "sh"]).args(&removes.words);
        // The process gets a group of its own, so that Ctrl-C does not reach it.
        command.process_group(0).stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().context("cannot start sh")?;
        Ok(Self { child, removes, log })
    }

    /// Removes the objects, and waits until they are gone. Fails if `kubectl` fails or takes too long.
    pub(super) fn remove(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let began = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => {
                    let _ = fs::remove_file(&self.log);
                    return Ok(());
                }
                Some(status) => {
                    let text = fs::read_to_string(&self.log).unwrap_or_default();
                    let quoted = super::command::last_lines(&text);
                    bail!("`{}` failed ({status}):\n{quoted}\nRun it yourself", self.removes.shown());
                }
                None if began.elapsed() > REMOVE => {
                    bail!(
                        "`{}` takes too long. It continues; look at {}",
                        self.removes.shown(),
                        self.log.display()
                    );
                }
                None => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}
