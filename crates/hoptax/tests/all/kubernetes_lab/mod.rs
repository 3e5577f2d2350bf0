//! Runs `scripts/kubernetes-lab.sh run` with fake etcd and kube-apiserver programs. Checks what the script
//! creates and prints. Also checks that nothing remains, however the script ends.

use crate::findings::two_ports;
use crate::run::{send, text};
use crate::support::{PATIENCE, Scratch, skip, wait_until};
use hoptax_host::tree::is_alive;
use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const ETCD: &str = "#!/bin/sh\necho $$ > \"$FAKE_PIDS/etcd\"\n\
    echo 'N | embed: serving insecure client requests on 127.0.0.1:2379, this is strongly \
    discouraged!'\nexec sleep 600\n";

/// A copy of the project with the script, and an unused port.
struct Lab {
    scratch: Scratch,
    port: u16,
}

impl Lab {
    /// Returns `None` and notes a skip if the machine lacks a program that the script needs.
    fn new() -> Option<Self> {
        for program in ["bash", "curl", "flock", "openssl", "python3", "setpriv", "setsid"] {
            if Command::new(program).arg("--version").output().is_err() {
                skip(format!("{program} is not installed"));
                return None;
            }
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let scratch = Scratch::new();
        let port = two_ports()[0].port();
        let lab = Self { scratch, port };
        let program = |place: &str, text: String| {
            let path = lab.path(place);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("set");
        };
        let read = |path: PathBuf| fs::read_to_string(path).expect("readable");
        program("scripts/kubernetes-lab.sh", read(source.join("../../scripts/kubernetes-lab.sh")));
        program("bin/etcd", ETCD.to_owned());
        program("home/tools/bin/kube-apiserver", read(source.join("tests/all/kubernetes_lab/apiserver.py")));
        fs::create_dir(lab.path("pids")).expect("made");
        Some(lab)
    }

    fn path(&self, place: &str) -> PathBuf {
        self.scratch.path().join(place)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("scripts/kubernetes-lab.sh"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(arguments)
            .current_dir(self.scratch.path())
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOPTAX_HOME", self.path("home"))
            .env("HOPTAX_KUBERNETES_PORT", self.port.to_string())
            .env("FAKE_PIDS", self.path("pids"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    fn started(&self) -> Child {
        let script = "echo $$ > pids/command; exec sleep 600";
        let lab =
            self.command(&["run", "sh", "-c", script]).stderr(Stdio::null()).spawn().expect("it starts");
        wait_until("the command runs", PATIENCE, || self.path("pids/command").exists());
        lab
    }

    /// True if no process, listener or credential of the lab exists.
    fn is_gone(&self) -> bool {
        let processes = fs::read_dir(self.path("pids")).expect("readable").flatten();
        let alive = processes
            .filter_map(|file| fs::read_to_string(file.path()).ok()?.trim().parse::<u32>().ok())
            .filter(|pid| is_alive(*pid));
        alive.count() == 0 && TcpStream::connect(("127.0.0.1", self.port)).is_err()
    }

    fn leaves_no_files(&self) -> bool {
        !self.path(".kubernetes-lab").exists()
    }
}

/// Some plans name files of the lab. For such a plan, creates a directory that contains similar files, and
/// contains the plan as `plans/plan.yaml`. Returns `None` for any other plan.
pub(crate) fn fake_lab_for(plan: &Path) -> Option<Scratch> {
    let text = fs::read_to_string(plan).expect("readable");
    if !text.contains("../.kubernetes-lab/") {
        return None;
    }
    let scratch = Scratch::new();
    for folder in ["plans", ".kubernetes-lab"] {
        fs::create_dir(scratch.path().join(folder)).expect("made");
    }
    let key = rcgen::KeyPair::generate().expect("a key");
    let own = rcgen::CertificateParams::new(vec!["kubernetes".to_owned()]).expect("a name");
    let certificate = own.self_signed(&key).expect("a certificate").pem();
    scratch.file("plans/plan.yaml", &text);
    scratch.file(".kubernetes-lab/ca.pem", &certificate);
    scratch.file(".kubernetes-lab/client.pem", &certificate);
    scratch.file(".kubernetes-lab/client.key", &key.serialize_pem());
    scratch.file(".kubernetes-lab/token", "0123456789abcdef\n");
    for entry in fs::read_dir(plan.parent().expect("a folder")).expect("readable").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), scratch.path().join("plans").join(entry.file_name())).expect("copied");
        }
    }
    Some(scratch)
}

#[test]
fn a_command_finds_the_server_and_its_credentials_and_ends_the_lab() {
    let Some(lab) = Lab::new() else { return };
    let script = "stat -c '%a %n' .kubernetes-lab .kubernetes-lab/client.key; ls .kubernetes-lab; wc -l < .kubernetes-lab/token
        cd .kubernetes-lab && curl --silent --fail --cacert ca.pem --cert client.pem --key client.key \\
            --connect-to kubernetes::127.0.0.1: https://kubernetes:$HOPTAX_KUBERNETES_PORT/names
        exit 7";
    let output = lab.run(&["run", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "the command's own: {}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "700 .kubernetes-lab\n600 \
         .kubernetes-lab/client.key\nca.pem\nclient.key\nclient.pem\nprivate\ntoken\n1\n\
         /api/v1/namespaces/hoptax/configmaps:settings-0000 /api/v1/namespaces:hoptax"
    );
    assert!(text(&output.stderr).contains("1000 ConfigMaps"), "{}", text(&output.stderr));
    assert!(lab.is_gone() && lab.leaves_no_files());
}

#[test]
fn mistakes_are_reported_before_anything_starts() {
    let Some(lab) = Lab::new() else { return };
    let refused = |command: &mut Command, words: &str| {
        let output = command.output().expect("it runs");
        let reported = text(&output.stderr);
        assert!(output.status.code() == Some(1) && reported.contains(words), "`{words}` in: {reported}");
        assert!(lab.leaves_no_files() && !lab.path("pids/etcd").exists(), "{words}");
    };
    refused(&mut lab.command(&["run"]), "give the command to run");
    refused(&mut lab.command(&["run", "no-such-program"]), "no-such-program is not a command");
    let wrong = |key: &str, value: &str| {
        let mut command = lab.command(&["run", "true"]);
        command.env(key, value);
        command
    };
    refused(&mut wrong("HOPTAX_KUBERNETES_PORT", "99999"), "must be a port from 1 to 65535");
    refused(&mut wrong("HOPTAX_HOME", "nowhere"), "Run: make kubernetes-lab");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("its number").port();
    refused(&mut wrong("HOPTAX_KUBERNETES_PORT", &taken.to_string()), &format!("port {taken} is in use"));
    assert_eq!(lab.run(&["rnu"]).status.code(), Some(2));
}

#[test]
fn a_server_that_does_not_start_is_reported_with_its_last_log_line() {
    let Some(lab) = Lab::new() else { return };
    let output = lab.command(&["run", "true"]).env("FAKE_APISERVER", "broken").output().expect("it runs");
    let reported = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{reported}");
    for words in
        ["the last lines of kube-apiserver", "--no-such-flag is unknown", "kube-apiserver ended by itself"]
    {
        assert!(reported.contains(words), "`{words}` in: {reported}");
    }
    assert!(lab.path("pids/etcd").exists() && lab.is_gone() && lab.leaves_no_files());
}

#[test]
fn nothing_remains_of_a_lab_that_is_stopped() {
    let Some(lab) = Lab::new() else { return };
    let mut running = lab.started();
    let second = lab.run(&["run", "true"]);
    assert!(text(&second.stderr).contains("another lab "), "{}", text(&second.stderr));
    send("-TERM", running.id());
    assert_eq!(running.wait().expect("it ends").code(), Some(143));
    assert!(lab.is_gone() && lab.leaves_no_files());
}

#[test]
fn the_next_lab_cleans_up_after_a_killed_one() {
    let Some(lab) = Lab::new() else { return };
    let mut running = lab.started();
    send("-KILL", running.id());
    running.wait().expect("it ends");
    wait_until("its processes are gone", PATIENCE, || lab.is_gone());
    assert!(lab.run(&["run", "true"]).status.success());
    assert!(lab.is_gone() && lab.leaves_no_files());
}
