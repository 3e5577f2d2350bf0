//! Tests of the guard: no process may keep running, no matter how hoptax, the guard or the guard's command
//! ends.

use crate::support::{PATIENCE, hoptax, wait_until};
use crate::world::{driver_for, exe, http_upstream, is_missing, pack_gateway, running_plan, started};
use hoptax_host::tree::descendants;
use hoptax_lab::Driver as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// A process. The kernel reports its exit as an event, so the test does not poll.
struct WatchedProcess {
    pid: u32,
    /// Absent if the process exited before it could be opened.
    fd: Option<OwnedFd>,
}

impl WatchedProcess {
    fn new(pid: u32) -> Self {
        let raw = Pid::from_raw(pid.cast_signed()).expect("a pid above zero");
        let fd = match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(fd) => Some(fd),
            Err(rustix::io::Errno::SRCH) => None,
            Err(error) => panic!("cannot watch {pid}: {error}"),
        };
        Self { pid, fd }
    }

    fn ends_within(&self, bound: Duration) -> bool {
        let Some(fd) = &self.fd else { return true };
        let bound = Timespec::try_from(bound).expect("seconds");
        poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&bound)).expect("polled") == 1
    }
}

/// Asserts that all processes exit soon. Kills processes that still run, and then fails the test.
fn assert_all_end(watched: &[WatchedProcess]) {
    let mut left = Vec::new();
    for process in watched {
        if !process.ends_within(PATIENCE) {
            left.push(process.pid);
            kill(process.pid, Signal::KILL);
        }
    }
    assert!(left.is_empty(), "still there: {left:?}");
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).expect("a pid above zero"), signal).expect("it is ours");
}

/// A guard. The first line that its command prints lists the pids to watch.
struct GuardedCommand {
    guard: Child,
    lifeline: Option<ChildStdin>,
    watched: Vec<WatchedProcess>,
    output: BufReader<std::process::ChildStdout>,
}

impl GuardedCommand {
    fn start(options: &[&str], script: &str) -> Self {
        let mut guard = hoptax();
        guard.arg("guard").args(options);
        Self::of(guard, script)
    }

    fn of(mut guard: Command, script: &str) -> Self {
        guard.args(["--", "sh", "-c", script]);
        let mut guard =
            guard.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().expect("it starts");
        let mut output = BufReader::new(guard.stdout.take().expect("piped"));
        let watched = pids(&mut output);
        Self { lifeline: guard.stdin.take(), guard, watched, output }
    }

    fn say(&mut self, word: &str) {
        let lifeline = self.lifeline.as_mut().expect("held");
        lifeline.write_all(format!("{word}\n").as_bytes()).expect("the guard listens");
    }

    /// Waits until the guard exits. Returns its exit code, and the output of its command after the line with
    /// pids.
    fn end(mut self) -> (Option<i32>, String) {
        let guard = WatchedProcess::new(self.guard.id());
        assert_all_end(&[guard]);
        let code = self.guard.wait().expect("ours").code();
        assert_all_end(&self.watched);
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        (code, rest)
    }
}

/// Reads the pids on the next line.
fn pids(output: &mut impl std::io::BufRead) -> Vec<WatchedProcess> {
    let mut line = String::new();
    output.read_line(&mut line).expect("text");
    line.split_whitespace().map(|pid| WatchedProcess::new(pid.parse().expect("a pid"))).collect()
}

/// Script that starts a daemon and prints its pid. The daemon has its own session, and its parent has exited.
const DAEMONISE: &str = "setsid sh -c 'sleep 1000 & echo $!'";

#[test]
fn a_command_that_exits_gives_its_code() {
    let end = |script: &str| GuardedCommand::start(&[], script).end().0;
    assert_eq!(end("echo; exit 0"), Some(0));
    assert_eq!(end("echo; exit 3"), Some(3));
    assert_eq!(end("echo; kill -9 $$"), Some(128 + 9));
}

#[test]
fn a_command_that_cannot_be_started_is_reported() {
    let mut guard = hoptax();
    guard.args(["guard", "--", "/nowhere/at-all"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut guard = guard.spawn().expect("the guard itself starts");
    // Standard input is kept open until the guard exits, because the guard stops when its standard input is
    // closed.
    let lifeline = guard.stdin.take();
    let output = guard.wait_with_output().expect("ours");
    drop(lifeline);
    assert_eq!(output.status.code(), Some(127));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_stop_is_graceful_and_uses_the_signal_asked_for() {
    for (name, word) in [("TERM", "TERM"), ("QUIT", "QUIT"), ("USR1", "USR1")] {
        let script = format!("trap 'echo farewell; exit 7' {name}; echo $$; while :; do sleep 0.01; done");
        let mut guarded = GuardedCommand::start(&["--stop-signal", word, "--grace", "10m"], &script);
        guarded.say("stop");
        assert_eq!(guarded.end(), (Some(0), "farewell\n".to_owned()), "{name}");
    }
}

#[test]
fn maps_of_generated_code_are_removed_with_their_process() {
    let script = "sh -c 'touch /tmp/perf-$$.map; exec sleep 1000' & echo $$ $!; touch /tmp/perf-$$.map; wait";
    let mut guarded = GuardedCommand::start(&[], script);
    let maps: Vec<_> =
        guarded.watched.iter().map(|process| format!("/tmp/perf-{}.map", process.pid)).collect();
    wait_until("both have a map", PATIENCE, || maps.iter().all(|map| Path::new(map).exists()));
    guarded.say("stop");
    guarded.end();
    assert!(!maps.iter().any(|map| Path::new(map).exists()), "{maps:?}");
}

#[test]
fn a_signal_ignored_by_our_parent_still_reaches_the_command() {
    let ignoring = "trap '' HUP INT QUIT; exec \"$@\"";
    let script = "trap 'echo farewell; exit 7' QUIT; echo $$; while :; do sleep 0.01; done";
    let mut guard = Command::new("sh");
    guard.args(["-c", ignoring, "sh"]).arg(exe());
    guard.args(["guard", "--stop-signal", "QUIT", "--grace", "10m"]);
    let mut guarded = GuardedCommand::of(guard, script);
    guarded.say("stop");
    assert_eq!(guarded.end(), (Some(0), "farewell\n".to_owned()));
}

#[test]
fn a_command_that_ignores_the_signal_is_killed_after_the_grace() {
    let script = "trap '' TERM; sleep 1000 & echo $$ $!; wait; while :; do sleep 1000; done";
    let mut guarded = GuardedCommand::start(&["--grace", "100ms"], script);
    let asked = Instant::now();
    guarded.say("stop");
    assert_eq!(guarded.end().0, Some(0));
    assert!(asked.elapsed() >= Duration::from_millis(100), "not before the grace period ends");
}

#[test]
fn a_kill_does_not_wait() {
    let mut guarded =
        GuardedCommand::start(&["--grace", "1h"], "trap '' TERM; echo $$; while :; do sleep 1000; done");
    guarded.say("kill");
    assert_eq!(guarded.end().0, Some(0));
}

#[test]
fn closing_the_lifeline_ends_the_grace_period() {
    let mut guarded =
        GuardedCommand::start(&["--grace", "1h"], "trap '' TERM; echo $$; while :; do sleep 1000; done");
    guarded.lifeline = None;
    assert_eq!(guarded.end().0, Some(0));
}

#[test]
fn signals_to_the_guard_stop_its_command() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let guarded = GuardedCommand::start(&[], "echo $$; exec sleep 1000");
        kill(guarded.guard.id(), signal);
        assert_eq!(guarded.end().0, Some(0), "{signal:?}");
    }
}

#[test]
fn daemons_do_not_survive_a_stop() {
    let mut guarded = GuardedCommand::start(&[], &format!("{DAEMONISE}; exec sleep 1000"));
    assert_eq!(guarded.watched.len(), 1, "the daemon");
    guarded.say("stop");
    assert_eq!(guarded.end().0, Some(0));
}

#[test]
fn daemons_do_not_survive_the_command_that_left_them() {
    let guarded = GuardedCommand::start(&[], &format!("{DAEMONISE}; exit 5"));
    assert_eq!(guarded.end().0, Some(5));
}

#[test]
fn descendants_of_a_killed_master_do_not_survive_it() {
    let guarded = GuardedCommand::start(&[], "sleep 1000 & echo $$ $!; wait");
    kill(guarded.watched[0].pid, Signal::KILL);
    assert_eq!(guarded.end().0, Some(128 + 9));
}

#[test]
fn a_killed_guard_takes_its_command_with_it() {
    let guarded = GuardedCommand::start(&[], "trap '' TERM HUP; echo $$; exec sleep 1000");
    kill(guarded.guard.id(), Signal::KILL);
    assert_eq!(guarded.end().0, None, "ended by the signal");
}

#[test]
fn a_guard_is_named_after_its_command_and_gives_it_a_session() {
    let mut guarded = GuardedCommand::start(
        &[],
        "echo $$; cat /proc/$PPID/comm; cut -d' ' -f5,6 /proc/$$/stat; exec sleep 1000",
    );
    let command = guarded.watched[0].pid;
    let mut reported = [String::new(), String::new()];
    for line in &mut reported {
        guarded.output.read_line(line).expect("text");
    }
    guarded.say("kill");
    guarded.end();
    assert_eq!(reported, ["guard:sh\n".to_owned(), format!("{command} {command}\n")], "group and session");
}

#[test]
fn the_command_gets_the_hard_descriptor_limit_and_its_cpus() {
    let cpu = hoptax_host::cpus::allowed().expect("present")[0];
    let script = "ulimit -Sn; ulimit -Hn; grep Cpus_allowed_list /proc/self/status";
    let limited = "ulimit -Sn 500; exec \"$0\" guard --cpus \"$1\" -- sh -c \"$2\"";
    let mut guard = Command::new("sh");
    guard.args(["-c", limited]).arg(exe()).args([&cpu.to_string(), script]);
    let mut guard = guard.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut reported = String::new();
    // The guard's standard input stays open while its output is read.
    guard.stdout.take().expect("piped").read_to_string(&mut reported).expect("text");
    guard.wait().expect("ours");
    let lines: Vec<&str> = reported.lines().collect();
    assert_eq!(lines[0], lines[1], "soft limit = hard limit: {reported}");
    assert_ne!(lines[0], "500", "{reported}");
    assert_eq!(lines[2].split_whitespace().last(), Some(cpu.to_string().as_str()), "{reported}");
}

/// Environment variable that names the pack for [`helper_starts_a_gateway_until_killed`]. Only the test below
/// sets it.
const KILLED_PACK: &str = "HOPTAX_TEST_KILLED_PACK";

/// Starts a gateway, prints the pids of all its processes, and waits until it is killed.
#[test]
#[ignore = "no test of its own: the next one starts it as a process of its own, to kill it"]
fn helper_starts_a_gateway_until_killed() {
    let pack = std::env::var(KILLED_PACK).expect("the name of a pack");
    let run = tempfile::tempdir().expect("a directory");
    let plan = running_plan(vec![pack_gateway("killed", &pack, 2, &[])]);
    let mut driver = driver_for(&plan, run.path());
    let upstream = http_upstream("unasked");
    let service = started(driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]));
    let guard = service.0.process().expect("watched").pid;
    let all: Vec<_> = descendants(guard).into_iter().chain([guard]).map(|pid| pid.to_string()).collect();
    println!("\npids {}", all.join(" "));
    // Waits until this process is killed, or until the other test closes its end of the pipe.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn nothing_outlives_a_killed_hoptax() {
    for pack in ["nginx", "haproxy", "envoy", "caddy", "apache"] {
        if is_missing(pack) {
            continue;
        }
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "lab::helper_starts_a_gateway_until_killed", "--ignored", "--nocapture"]);
        command.env(KILLED_PACK, pack).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = command.spawn().expect("it starts");
        let output = BufReader::new(run.stdout.take().expect("piped"));
        let line = output.lines().map_while(Result::ok).find(|line| line.starts_with("pids "));
        let line = line.unwrap_or_else(|| panic!("{pack} did not start"));
        let watched: Vec<_> = pids(&mut line.trim_start_matches("pids ").as_bytes());
        assert!(watched.len() >= 2, "{pack}: the guard and the gateway: {line}");
        run.kill().expect("ours");
        run.wait().expect("ours");
        assert_all_end(&watched);
    }
}

#[test]
fn nothing_outlives_a_killed_guard() {
    for pack in ["nginx", "haproxy", "envoy", "caddy", "apache"] {
        if is_missing(pack) {
            continue;
        }
        let run = tempfile::tempdir().expect("a directory");
        let plan = running_plan(vec![pack_gateway(pack, pack, 2, &[])]);
        let mut driver = driver_for(&plan, run.path());
        let upstream = http_upstream("unasked");
        let mut service = started(driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]));
        let guard = service.0.process().expect("watched").pid;
        let all: Vec<_> = descendants(guard).into_iter().map(WatchedProcess::new).collect();
        assert!(!all.is_empty(), "{pack} runs");
        let own = WatchedProcess::new(guard);
        kill(guard, Signal::KILL);
        assert!(own.ends_within(PATIENCE), "{pack}: nothing survives SIGKILL");
        let failure = service.0.check().expect_err("it is gone");
        assert!(failure.message.contains("signal 9"), "{pack}: {failure:?}");
        assert_all_end(&all);
    }
}

#[test]
fn a_killed_gateway_is_reported_with_its_last_log_line() {
    needs!("nginx");
    let run = tempfile::tempdir().expect("a directory");
    let plan = running_plan(vec![pack_gateway("killed", "nginx", 2, &[])]);
    let mut driver = driver_for(&plan, run.path());
    let upstream = http_upstream("unasked");
    let mut service = started(driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]));
    assert_eq!(service.0.check(), Ok(()));
    let guard = service.0.process().expect("watched").pid;
    let all: Vec<_> = descendants(guard).into_iter().map(WatchedProcess::new).collect();
    let pid = std::fs::read_to_string(run.path().join("rendered/killed/nginx.pid")).expect("a pid file");
    let own = WatchedProcess::new(guard);
    kill(pid.trim().parse().expect("a pid"), Signal::KILL);
    assert_all_end(&all);
    assert!(own.ends_within(PATIENCE), "the guard exits with its command");
    let failure = service.0.check().expect_err("it is gone");
    insta::assert_snapshot!(failure.message);
}
