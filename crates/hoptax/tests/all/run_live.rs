//! Tests of the view of a run in progress. The view is a full screen on a terminal, and plain lines
//! elsewhere. Also tests the server of `--serve`. However the run ends, the terminal must be restored.

use crate::load::KilledOnDrop;
use crate::run::{run, run_directory, text, trials, wait_until_gone};
use crate::support::terminal::{ENTERED, LEFT, Terminal};
use crate::support::{Json, PATIENCE, Scratch, hoptax, wait_until};
use hoptax_host::tree::descendants;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// A plan with one load point and one round. Each trial lasts for `duration`. Its load leaves the CPUs mostly
/// idle.
fn plan(gateways: &str, duration: &str) -> String {
    format!(
        "name: looked-at
upstream: {{ delay: 5ms }}
gateways: [{gateways}]
load: [{{ loop: closed, connections: 2, duration: {duration} }}]
trials: 1
warmup: 100ms
"
    )
}

fn command(scratch: &Scratch, plan: &str, arguments: &[&str]) -> Command {
    let path = scratch.file("plan.yaml", plan);
    let mut command = hoptax();
    command.arg("run").arg(path).arg("--out").arg(scratch.path()).arg("--accept-void").args(arguments);
    command
}

#[test]
fn the_screen_shows_the_run_and_the_report_is_on_the_normal_screen() {
    let scratch = Scratch::new();
    let mut terminal = Terminal::new(80, 24);
    let mut process = terminal.spawn(command(&scratch, &plan("hop-l7", "1500ms"), &[]));
    wait_until("a case is shown", PATIENCE, || terminal.seen().contains("Medians so far"));
    // The view shows at least one second of each trial. Which frame appears first depends on the machine's
    // speed.
    wait_until("a second is shown", PATIENCE, || terminal.seen().contains("none failed"));
    terminal.resize(40, 12);
    let (status, seen) = terminal.after(&mut process);
    assert!(status.success(), "{seen}");
    let (before, rest) = seen.split_once(ENTERED).expect("the alternate screen is entered");
    assert!(!before.contains("measuring"), "{before:?}");
    let (view, report) = rest.split_once(LEFT).expect("and left");
    for part in [
        "looked-at",
        "measuring",
        "hop-l7",
        "generator",
        "upstream",
        "steal",
        "none",
        "closed loop, 2 connections",
    ] {
        assert!(view.contains(part), "{part}: {view}");
    }
    assert!(report.contains("Report: ") && !report.contains(ENTERED), "{report}");
    assert_eq!(trials(&run_directory(&scratch)).len(), 3);
}

#[test]
fn signals_end_it_restore_the_terminal_and_stop_everything() {
    let check = |signal| {
        let scratch = Scratch::new();
        let mut terminal = Terminal::new(80, 24);
        let mut process = terminal.spawn(command(&scratch, &plan("hop-l4", "1h"), &[]));
        let pid = process.0.id();
        wait_until("a second is shown", PATIENCE, || terminal.seen().contains("none failed"));
        let started = descendants(pid);
        assert!(!started.is_empty());
        kill_process(Pid::from_child(&process.0), signal).expect("it runs");
        let (_, seen) = terminal.after(&mut process);
        let (_, report) = seen.split_once(LEFT).expect("left");
        assert!(report.contains("Report: ") && !report.contains(ENTERED), "{report}");
        wait_until_gone(&started);
    };
    std::thread::scope(|scope| {
        for signal in [Signal::INT, Signal::TERM] {
            scope.spawn(move || check(signal));
        }
    });
}

#[test]
fn ctrl_z_restores_the_terminal_until_the_run_continues() {
    let scratch = Scratch::new();
    let mut terminal = Terminal::new(80, 24);
    let mut process = terminal.spawn(command(&scratch, &plan("", "1h"), &[]));
    let pid = Pid::from_child(&process.0);
    wait_until("a second is shown", PATIENCE, || terminal.seen().contains("none failed"));
    kill_process(pid, Signal::TSTP).expect("it runs");
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let is_stopped = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "));
    wait_until("it is stopped", PATIENCE, is_stopped);
    wait_until("the terminal is given back", PATIENCE, || terminal.seen().ends_with(LEFT));
    kill_process(pid, Signal::CONT).expect("it is there");
    wait_until("it is shown again", PATIENCE, || {
        terminal
            .seen()
            .rsplit_once(ENTERED)
            .is_some_and(|(before, after)| before.contains(LEFT) && after.contains("measuring"))
    });
    kill_process(pid, Signal::INT).expect("it runs");
    let (_, seen) = terminal.after(&mut process);
    assert_eq!((seen.matches(ENTERED).count(), seen.matches(LEFT).count()), (2, 2), "{seen}");
    assert!(seen.ends_with("report.html\r\n"), "{seen}");
}

#[test]
fn a_second_signal_ends_it_at_once_and_restores_the_terminal() {
    let scratch = Scratch::new();
    let mut terminal = Terminal::new(80, 24);
    let mut process = terminal.spawn(command(&scratch, &plan("hop-l7", "1h"), &[]));
    let pid = Pid::from_child(&process.0);
    wait_until("it is shown", PATIENCE, || terminal.seen().contains(ENTERED));
    kill_process(pid, Signal::INT).expect("it runs");
    // The process may have exited after the first signal.
    let _ = kill_process(pid, Signal::INT);
    let (_, seen) = terminal.after(&mut process);
    assert_eq!(seen.matches(LEFT).count(), 1, "{seen}");
}

#[test]
fn failures_are_printed_after_the_screen_has_closed() {
    let scratch = Scratch::new();
    let mut terminal = Terminal::new(80, 24);
    let absent = "{ name: external, label: absent, url: \"http://127.0.0.1:1\" }";
    let mut process = terminal.spawn(command(&scratch, &plan(&format!("hop-l4, {absent}"), "500ms"), &[]));
    let (_, seen) = terminal.after(&mut process);
    let (view, report) = seen.split_once(LEFT).expect("left");
    assert!(view.contains("failed absent: "), "{view}");
    assert!(report.contains("absent: ") && report.contains("Report: "), "{report}");
}

#[test]
fn without_a_terminal_each_trial_is_a_line() {
    let scratch = Scratch::new();
    let output = run(&scratch, &plan("hop-l7", "300ms"), &["--accept-void"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with('[')).collect();
    let wanted = [("[1/3]", "direct"), ("[2/3]", "hop-l7"), ("[3/3]", "direct")];
    assert_eq!(lines.len(), wanted.len(), "{said}");
    for (line, (trial, label)) in lines.iter().zip(wanted) {
        let begun = format!("{trial} round 1/1 · {label} · closed loop, 2 connections · ");
        assert!(line.starts_with(&begun), "{line}");
        assert!(
            line.contains("/s · p50 ") && line.contains(" · p99 ") && line.ends_with(" s left"),
            "{line}"
        );
    }
    assert!(!said.contains('\x1b'), "{said:?}");
    assert!(text(&output.stdout).contains("Report: "));
}

#[test]
fn the_screen_can_be_disabled() {
    let check = |arguments: &[&str], term: &str| {
        let scratch = Scratch::new();
        let mut terminal = Terminal::new(80, 24);
        let mut command = command(&scratch, &plan("", "300ms"), arguments);
        command.env("TERM", term);
        let mut process = terminal.spawn(command);
        let (status, seen) = terminal.after(&mut process);
        assert!(status.success() && !seen.contains(ENTERED) && seen.contains("[1/2] round 1/1"), "{seen}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check(&["--no-live"], "xterm"));
        scope.spawn(|| check(&[], "dumb"));
    });
}

#[test]
fn a_run_in_progress_is_served() {
    let scratch = Scratch::new();
    let mut command = command(&scratch, &plan("hop-l7", "1h"), &["--serve"]);
    let mut process =
        KilledOnDrop(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts"));
    let mut first = String::new();
    let mut said = BufReader::new(process.0.stderr.take().expect("piped"));
    // If another test runs hoptax at the same time, a warning precedes this line.
    while !first.starts_with("Live: ") {
        first.clear();
        assert!(said.read_line(&mut first).expect("a line") > 0, "no address");
    }
    let address = first.trim().strip_prefix("Live: http://").and_then(|url| url.split_once("/live?token="));
    let (address, token) = address.unwrap_or_else(|| panic!("{first}"));
    let (address, token) = (address.to_owned(), token.to_owned());
    let ask = |credentials: &str| -> Option<String> {
        let mut stream = TcpStream::connect(&address).ok()?;
        let head = format!("GET /api/v1/live HTTP/1.1\r\nhost: {address}\r\n{credentials}connection: close");
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    let known = format!("authorization: bearer {token}\r\n");
    let state = || -> Option<Json> {
        let answer = ask(&known)?;
        serde_json::from_str(&answer[answer.find("\r\n{")?..]).ok()
    };
    let refused = ask("").expect("it listens");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    wait_until("a second of the trial is served", PATIENCE, || {
        state().is_some_and(|state| {
            let second = &state["trial"]["seconds"][0];
            second["rate"].as_f64() > Some(0.0) && second["p99_us"].as_f64() >= second["p50_us"].as_f64()
        })
    });
    wait_until("what roles use is served", PATIENCE, || {
        state().is_some_and(|state| state["cpu"][0]["role"] == "generator" && state["steal"].is_number())
    });
    let state = state().expect("served");
    assert_eq!((&state["name"], &state["stage"]), (&Json::from("looked-at"), &Json::from("measuring")));
    kill_process(Pid::from_child(&process.0), Signal::INT).expect("it runs");
    said.read_to_string(&mut first).expect("text");
    process.0.wait().expect("ends");
    assert!(TcpStream::connect(&address).is_err(), "nothing listens any more");
}

#[test]
fn beyond_loopback_a_run_is_served_with_a_token() {
    let scratch = Scratch::new();
    let output = run(&scratch, &plan("", "300ms"), &["--accept-void", "--serve=0.0.0.0:0"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Live: http://0.0.0.0:") && said.contains("/live?token="), "{said}");
    let short = scratch.file("token", "guess\n").to_string_lossy().into_owned();
    let refused = run(&scratch, &plan("", "300ms"), &["--serve", "--token-file", &short]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains(&short), "{}", text(&refused.stderr));
    // 192.0.2.0/24 is reserved for documentation (RFC 5737).
    let elsewhere = Scratch::new();
    let refused = run(&elsewhere, &plan("", "300ms"), &["--serve=192.0.2.1:80"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("choose another address"), "{}", text(&refused.stderr));
    let left =
        std::fs::read_dir(elsewhere.path()).expect("there").flatten().filter(|one| one.path().is_dir());
    assert_eq!(left.count(), 0, "nothing was begun");
}
