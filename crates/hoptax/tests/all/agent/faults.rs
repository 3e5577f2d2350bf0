//! Agents that are lost, refuse, or never were there: every error says which host, and nothing keeps running.

use super::site::{Services, Site, closed, plan, signal};
use crate::support::Scratch;
use hoptax_format::record::{Phase, PhaseLine};
use hoptax_record::{Failure, Stage};
use hoptax_remote::protocol::{RunId, Versions};
use hoptax_remote::runner::{Host, HostRef};
use hoptax_run::TrialUpdate;
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time after which nothing may run any more on a host that lost its runner, or whose agent was killed.
const OVER: Duration = Duration::from_secs(10);

fn refused(command: &[String]) -> Failure {
    Host::connect("edge", command, None, &RunId::new("refused")).expect_err("no agent")
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

fn sh(script: &str) -> Vec<String> {
    words(&["sh", "-c", script])
}

/// Fails if processes of the site are still there 10 s after `lost`.
#[track_caller]
pub(super) fn assert_nothing_runs(site: &Site, lost: Instant) {
    let mut left = site.processes();
    while !left.is_empty() {
        assert!(lost.elapsed() < OVER, "still running {:?} later: {left:?}", lost.elapsed());
        std::thread::sleep(Duration::from_millis(20));
        left = site.processes();
    }
}

#[test]
fn an_agent_killed_during_a_load_is_named_and_leaves_nothing() {
    // The services' host in the first case, the generator's in the second.
    for is_generator in [false, true] {
        let (site, other) = (Site::new(), Site::new());
        let plan = plan(closed(Duration::from_secs(60)));
        let (lost, kept) = (site.near("lost"), other.near("kept"));
        let (generator, services) = if is_generator { (lost, kept) } else { (kept, lost) };
        let mut ready = other.prepare(&plan, HostRef::Remote(generator), HostRef::Remote(services));
        let mut services = Services::start(&plan, &mut ready);
        let agent = site.agent();
        let (mut killed, begun) = (None, Instant::now());
        let loaded = services.load(&plan, &mut ready.traffic, &mut |update| {
            if matches!(update, TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, .. })) {
                signal(agent, Signal::KILL);
                killed = Some(Instant::now());
            }
        });
        let killed = killed.expect("the load began");
        assert!(begun.elapsed() < Duration::from_secs(40), "the load ended early");
        assert_nothing_runs(&site, killed);
        if is_generator {
            let failure = loaded.failed.expect("there is no generator");
            assert!(failure.message.starts_with("host lost: `env "), "{failure:?}");
            assert!(failure.message.contains("signal 9"), "{failure:?}");
            assert_eq!(services.hop.check(), Ok(()), "the other host works on");
            // The next load finds another agent there.
            let mut short = plan.clone();
            short.load = vec![closed(Duration::from_millis(200))];
            let again = services.load(&short, &mut ready.traffic, &mut |_| {});
            assert_eq!(again.failed, None);
            assert!(again.record.is_some_and(|record| record.counts.completed > 0));
        } else {
            for failure in
                [services.hop.check().expect_err("gone"), services.upstream.check().expect_err("gone")]
            {
                assert_eq!(failure.stage, Stage::Trial);
                assert!(failure.message.starts_with("host lost: "), "{failure:?}");
            }
        }
    }
}

#[test]
fn a_lost_host_that_samples_ends_the_load() {
    let site = Site::new();
    let Some(lab) = site.elsewhere("lab") else { return };
    let other = Site::new();
    let client = other.near("client");
    let plan = plan(closed(Duration::from_secs(60)));
    let mut ready = other.prepare(&plan, HostRef::Remote(client), HostRef::Remote(lab));
    let services = Services::start(&plan, &mut ready);
    let agent = site.processes().into_iter().find(|(_, command)| command.starts_with("unshare"));
    let begun = Instant::now();
    let loaded = services.load(&plan, &mut ready.traffic, &mut |update| {
        if matches!(update, TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, .. })) {
            // If `unshare` is killed, its child keeps running. So the test kills all processes of the host.
            for (pid, _) in site.processes() {
                signal(pid, Signal::KILL);
            }
        }
    });
    assert!(agent.is_none() || begun.elapsed() < Duration::from_secs(40), "the load ended early");
    let failure = loaded.failed.expect("the host is lost");
    assert!(failure.message.starts_with("host lab: `unshare"), "{failure:?}");
    assert!(loaded.record.is_some_and(|record| record.interrupted), "what was measured is kept");
}

#[test]
fn an_agent_that_is_silent_is_given_up() {
    let site = Site::new();
    let plan = plan(closed(Duration::from_secs(60)));
    let lab = site.near("lab");
    let mut ready = site.prepare(&plan, HostRef::Remote(Arc::clone(&lab)), HostRef::Remote(lab));
    let services = Services::start(&plan, &mut ready);
    let agent = site.agent();
    let mut stopped = None;
    let loaded = services.load(&plan, &mut ready.traffic, &mut |update| {
        if matches!(update, TrialUpdate::Phase(PhaseLine { phase: Phase::Measuring, .. })) {
            signal(agent, Signal::STOP);
            stopped = Some(Instant::now());
        }
    });
    let silent = stopped.expect("the load began").elapsed();
    let failure = loaded.failed.expect("the host is silent");
    assert!(failure.message.contains(" 8 s"), "{failure:?}");
    assert!(silent >= Duration::from_secs(7) && silent < Duration::from_secs(40), "{silent:?}");
    // hoptax killed the host's command. This command is the agent itself.
    assert_nothing_runs(&site, Instant::now());
}

#[test]
fn errors_name_the_host_the_command_and_what_to_try() {
    let scratch = Scratch::new();
    let ssh = scratch.file("ssh", "#!/bin/sh\necho 'edge: Permission denied (publickey).' >&2\nexit 255\n");
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let ssh = ssh.display().to_string();
    let failure = refused(&words(&[&ssh, "edge", "hoptax", "agent"]));
    let mut messages = failure.message.replace(&ssh, "SSH");
    assert_eq!(
        (failure.stage, failure.detail.as_str()),
        (Stage::Start, "edge: Permission denied (publickey).")
    );

    for command in [
        words(&["/nowhere/hoptax", "agent"]),
        sh("exit 127"),
        sh("echo \"error: unrecognized subcommand 'agent'\" >&2; exit 2"),
        sh("echo This account is disabled."),
    ] {
        messages = format!("{messages}\n{}", refused(&command).message);
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn an_agent_of_another_version_is_refused() {
    let failure = refused(&sh("echo 'hoptax agent, protocol 1, version 0.0.1'; cat > /dev/null"));
    let expected = format!(
        "hoptax 0.0.1 (protocol 1) runs there, and {} here. Install the same version on both",
        Versions::own()
    );
    assert!(
        failure.message.starts_with("host edge: `sh -c") && failure.message.ends_with(&expected),
        "{failure:?}"
    );
}

#[test]
fn an_agent_that_talks_nonsense_is_given_up() {
    let line = Versions::own().line();
    let check = |nonsense: &str| {
        let failure = refused(&sh(&format!("printf '{}\\n{nonsense}'; cat > /dev/null", line.trim_end())));
        assert!(failure.message.contains("not a message: "), "{failure:?}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check("Last login: Monday"));
        scope.spawn(|| check("\\2\\0\\0\\0no"));
    });
}

#[test]
fn two_runs_on_one_host_are_refused_with_the_name_of_the_first() {
    let site = Site::new();
    let first = site.near("lab");
    let refused = Host::connect("edge", &site.command(&[]), None, &RunId::new("another")).err();
    let refused = refused.expect("the host is used");
    let holder = format!("another run uses this host: `this test` of process {} on ", std::process::id());
    assert!(refused.message.starts_with("host edge: ") && refused.message.contains(&holder), "{refused:?}");
    assert!(refused.message.contains(&format!("process {})", site.agent())), "{refused:?}");
    drop(first);
    let another = Host::connect("edge", &site.command(&[]), None, &RunId::new("another"));
    assert!(another.is_ok(), "the host is free again: {another:?}");
}
