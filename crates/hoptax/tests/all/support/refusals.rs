//! Errors of commands and plans that hoptax refuses, for snapshots.

use super::{Scratch, hoptax, succeed};
use std::process::Command;

/// Standard error of a command. Panics if the exit code is not 2.
#[track_caller]
pub(crate) fn refused(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
    error
}

/// Each of these lines of arguments with its error. All lines begin with the arguments `before`, which the
/// result leaves out.
pub(crate) fn refusals(before: &[&str], lines: &[&[&str]]) -> String {
    let shown =
        |line: &&[&str]| format!("{}\n=> {}", line.join(" "), refused(hoptax().args(before).args(*line)));
    lines.iter().map(shown).collect()
}

/// `hoptax check` for this plan. A plan without a load gets one.
fn check(scratch: &Scratch, plan: &str) -> Command {
    let load = if plan.contains("load:") { "" } else { "load: [{ loop: closed, connections: 1 }]\n" };
    let mut command = hoptax();
    command.arg("check").arg(scratch.file("plan.yaml", &format!("{plan}{load}")));
    command
}

/// Output of `hoptax check` for this plan. Panics if it is refused.
#[track_caller]
pub(crate) fn accepted(plan: &str) -> String {
    succeed(&mut check(&Scratch::new(), plan))
}

/// Each of these plans with the error of `hoptax check`. A plan without a load gets one.
pub(crate) fn refused_plans(plans: &[impl AsRef<str>]) -> String {
    let scratch = Scratch::new();
    let shown = |plan: &str| format!("{plan}=> {}", refused(&mut check(&scratch, plan)));
    let all: String = plans.iter().map(|plan| shown(plan.as_ref())).collect();
    all.replace(&scratch.path().display().to_string(), "PLACE")
}
