//! `hoptax serve` on the command line.

use super::lab::{history, request};
use crate::load::KilledOnDrop;
use crate::support::{Scratch, hoptax};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// A running `hoptax serve`. Dropping it stops the process.
struct Served {
    child: KilledOnDrop,
    address: SocketAddr,
    line: String,
}

impl Served {
    fn start(command: &mut Command) -> Self {
        let mut child = KilledOnDrop(command.stdout(Stdio::piped()).spawn().expect("the binary runs"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address =
            address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no address: {line}"));
        Self { child, address, line }
    }

    /// The token in the printed address.
    fn token(&self) -> &str {
        self.line.trim().split("/?token=").nth(1).unwrap_or_else(|| panic!("no token: {}", self.line))
    }

    /// The status of a request with this header for credentials.
    fn status(&self, path: &str, authorization: &str) -> u16 {
        let to = SocketAddr::from(([127, 0, 0, 1], self.address.port()));
        request(to, "GET", path, &[("Authorization", authorization)], "").status
    }

    fn signal(&mut self, signal: rustix::process::Signal) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn it_serves_a_directory_until_a_signal() {
    let history = history();
    // The results directory is an argument, or the value of --root.
    for (form, signal) in
        [(&[][..], rustix::process::Signal::TERM), (&["--root"], rustix::process::Signal::INT)]
    {
        let mut served =
            Served::start(hoptax().args(["serve", "--listen", "127.0.0.1:0"]).args(form).arg(history.path()));
        let known = format!("Bearer {}", served.token());
        let get = |path: &str| request(served.address, "GET", path, &[("Authorization", &known)], "");
        assert_eq!(get("/api/v1/runs").json()["all"], 9);
        assert!(get("/").text().contains("nightly"));
        assert_eq!(served.signal(signal), Some(0));
    }
}

#[test]
fn a_token_is_created_and_printed_also_on_loopback() {
    let history = history();
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let served =
            Served::start(hoptax().args(["serve", "--listen", listen, "--root"]).arg(history.path()));
        assert!(served.token().len() >= 32, "{}", served.line);
        let asked = |header: &str| served.status("/api/v1/runs", header);
        assert_eq!(
            [asked(&format!("Bearer {}", served.token())), asked("Bearer no"), asked("")],
            [200, 401, 401]
        );
    }
}

#[test]
fn a_server_that_only_shows_runs_prints_no_token() {
    let history = history();
    let served = Served::start(
        hoptax().args(["serve", "--read-only", "--listen", "127.0.0.1:0", "--root"]).arg(history.path()),
    );
    assert!(!served.line.contains("token"), "{}", served.line);
    assert_eq!(served.status("/api/v1/runs", ""), 200);
    let change = [("Content-Type", "application/json"), ("X-Hoptax", "1")];
    let run = "/api/v1/runs/20261101T000000Z-nightly";
    assert_eq!(request(served.address, "DELETE", run, &change, "").status, 403);
    assert!(history.path().join("20261101T000000Z-nightly").exists());
}

#[test]
fn a_token_comes_from_a_file() {
    let history = history();
    let scratch = Scratch::new();
    let file = scratch.file("token", "0123456789abcdef\n");
    let mut command = hoptax();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--token-file"])
        .arg(file)
        .arg("--root")
        .arg(history.path());
    let served = Served::start(&mut command);
    let asked = |header: &str| served.status("/api/v1/runs", header);
    assert_eq!([asked("Bearer 0123456789abcdef"), asked("Bearer 0123456789abcde")], [200, 401]);
}

#[test]
fn a_wrong_command_line_is_an_error_before_serving() {
    let history = history();
    let scratch = Scratch::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("bound").to_string();
    let short = scratch.file("short", "secret\n");
    let (root, short) = (history.path().to_str().expect("text"), short.to_str().expect("text"));
    for (arguments, status, said) in [
        (&["--root", "/nowhere"][..], 2, "/nowhere does not exist"),
        (&["/nowhere"], 2, "/nowhere does not exist"),
        (&[root, "--root", root], 2, "given twice"),
        (&["--root", root, "--listen", &taken], 1, "choose another address"),
        (&["--root", root, "--token-file", "/nowhere"], 2, "--token-file"),
        (&["--root", root, "--token-file", short], 2, "16 or more ASCII characters"),
        (&["--root", root, "--listen", "nowhere"], 2, "--listen"),
    ] {
        let output = hoptax().arg("serve").args(arguments).output().expect("the binary runs");
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {reported}");
        assert!(reported.contains(said), "{arguments:?}: {reported}");
    }
}
