//! Machines for tests. Each machine has its own network address, processes, host name, home directory and
//! `/tmp`, and a real `sshd`. The machines are namespaces of this machine, and a switch connects them. hoptax
//! runs on one of them, which has no `sshd`.

use crate::support::{PATIENCE, Scratch, skip, succeed, wait_until};
use hoptax_host::programs::{find_in, search_path};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time after which nothing may run any more on a machine that lost its runner.
const OVER: Duration = Duration::from_secs(10);

/// Path of the program under test on each machine.
pub(super) const PROGRAM: &str = "/tmp/hoptax";

/// Bandwidth of a cable from the switch to a machine, as `tc` names it. A short packet takes as long as one
/// of 50 kB, so that round trips that follow each other take 0.2 ms each, and little CPU time.
const CABLE: &str = "tbf rate 2gbit burst 256kb latency 10ms mpu 50000";

/// Where the runner of a test is.
const RUNNER: &str = "runner";

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A network with machines. They are removed when it is dropped.
pub(super) struct Network {
    pub(super) scratch: Scratch,
    /// Prefix of the names of its namespaces.
    prefix: String,
    machines: RefCell<Vec<Machine>>,
    names: Vec<&'static str>,
}

struct Machine {
    name: &'static str,
    /// `unshare`, the parent of the first process of the machine.
    process: Child,
}

impl Network {
    /// A network with machines of these names, which `ssh` knows. `None` if this user cannot make one.
    #[track_caller]
    pub(super) fn make(names: &[&'static str]) -> Option<Self> {
        for program in ["sshd", "ssh", "ssh-keygen", "ip", "unshare"] {
            if find_in(program, &search_path()).is_none() {
                skip(format!("{program} is not installed"));
                return None;
            }
        }
        let probe =
            Command::new("unshare").args(["--net", "--pid", "--mount", "--uts", "--fork", "true"]).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            skip("namespaces of whole machines need root");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let network = Self {
            scratch: Scratch::new(),
            prefix: format!("hoptax-{}-{number}", std::process::id()),
            machines: RefCell::default(),
            names: names.to_vec(),
        };
        network.connect();
        network.write_keys();
        for name in names {
            network.start(name);
        }
        Some(network)
    }

    /// Names of its machines.
    pub(super) fn names(&self) -> &[&'static str] {
        &self.names
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// The address of a machine.
    pub(super) fn address(&self, name: &str) -> Ipv4Addr {
        let all = [RUNNER].into_iter().chain(self.names.iter().copied());
        let number = all.into_iter().position(|one| one == name).expect("a machine of this network");
        Ipv4Addr::new(10, 77, 0, number as u8 + 1)
    }

    /// Makes the networks of the machines, and the switch between them.
    fn connect(&self) {
        let switch = self.namespace("switch");
        ip(&format!("netns add {switch}"));
        ip(&format!("-n {switch} link add br0 type bridge"));
        ip(&format!("-n {switch} link set br0 up"));
        for name in [RUNNER].iter().chain(&self.names) {
            let (own, address) = (self.namespace(name), self.address(name));
            ip(&format!("netns add {own}"));
            ip(&format!("-n {switch} link add {name} type veth peer name eth0 netns {own}"));
            ip(&format!("-n {switch} link set {name} master br0 up"));
            ip(&format!("-n {own} addr add {address}/24 dev eth0"));
            ip(&format!("-n {own} link set eth0 up"));
            ip(&format!("-n {own} link set lo up"));
            // Without this limit, measurements of the network use all CPUs. Without `tc`, they do.
            let limit = format!("netns exec {switch} tc qdisc add dev {name} root {CABLE}");
            let _ = Command::new("ip").args(limit.split(' ')).output();
        }
    }

    /// Creates the keys of the user and of the machines, and the configuration of the runner's `ssh`.
    fn write_keys(&self) {
        let at = |name: &str| self.scratch.path().join(name);
        for key in ["user", "host", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
                .arg(at(key))
                .output();
            assert!(made.expect("ssh-keygen runs").status.success());
        }
        let host_key = fs::read_to_string(at("host.pub")).expect("made");
        let (mut known, mut config) = (String::new(), String::new());
        for name in &self.names {
            let address = self.address(name);
            known += &format!("{address} {host_key}");
            config +=
                &format!("Host {name}\n  HostName {address}\n  IdentityFile {}\n", at("user").display());
        }
        // The machine of `nowhere` is off. The machine of `stranger` does not know the key.
        config += "Host nowhere\n  HostName 10.77.0.99\n";
        if let Some(first) = self.names.first() {
            let (address, key) = (self.address(first), at("stranger"));
            config += &format!("Host stranger\n  HostName {address}\n  IdentityFile {}\n", key.display());
        }
        config += &format!(
            "Host *\n  User root\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n",
            at("known").display()
        );
        fs::write(at("known"), known).expect("written");
        fs::write(at("config"), config).expect("written");
        let ssh = find_in("ssh", &search_path()).expect("installed");
        let bin = at("bin");
        fs::create_dir(&bin).expect("made");
        let script = format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), at("config").display());
        fs::write(bin.join("ssh"), script).expect("written");
        fs::set_permissions(bin.join("ssh"), fs::Permissions::from_mode(0o755)).expect("ours");
    }

    /// The directory that is `/tmp` on a machine.
    pub(super) fn files(&self, name: &str) -> PathBuf {
        self.scratch.path().join("machines").join(name)
    }

    /// Switches a machine on.
    pub(super) fn start(&self, name: &'static str) {
        let directory = self.files(name);
        fs::create_dir_all(directory.join("home")).expect("made");
        for (from, to) in [("host", "host_key"), ("user.pub", "authorized_keys")] {
            fs::copy(self.scratch.path().join(from), directory.join(to)).expect("copied");
        }
        let users = fs::read_to_string("/etc/passwd").expect("readable");
        let others = users.lines().filter(|line| !line.starts_with("root:") && !line.starts_with("sshd:"));
        let own = ["root:x:0:0:root:/tmp/home:/bin/sh", "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin"];
        let users: String = own.into_iter().chain(others).map(|line| format!("{line}\n")).collect();
        fs::write(directory.join("passwd"), users).expect("written");
        let config = "Port 22\nHostKey /tmp/host_key\nAuthorizedKeysFile /tmp/authorized_keys\nStrictModes \
                      no\n\
                      PermitRootLogin yes\nUsePAM no\nPidFile none\n";
        fs::write(directory.join("sshd_config"), config).expect("written");
        fs::write(directory.join("hoptax"), "").expect("written");
        let (shown, program) = (directory.display(), env!("CARGO_BIN_EXE_hoptax"));
        let sshd = find_in("sshd", &search_path()).expect("installed");
        let script = format!(
            "set -e\nhostname {name}\nmount --bind {program} {shown}/hoptax\nmount --bind {shown}/passwd \
             /etc/passwd\n\
             mount -t tmpfs -o mode=755 tmpfs /run\nmkdir /run/sshd\nmount --rbind {shown} /tmp\n\
             exec {} -D -e -f /tmp/sshd_config\n",
            sshd.display()
        );
        let script_path = directory.join("start.sh");
        fs::write(&script_path, script).expect("written");
        let log = fs::File::create(directory.join("sshd.log")).expect("made");
        let namespace = self.namespace(name);
        let process = Command::new("ip")
            .args(["netns", "exec", &namespace, "unshare", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "--uts", "sh"])
            .arg(&script_path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("ip runs");
        let mut machines = self.machines.borrow_mut();
        machines.retain(|machine| machine.name != name);
        machines.push(Machine { name, process });
        drop(machines);
        let log = directory.join("sshd.log");
        wait_until("sshd listens", PATIENCE, || {
            fs::read_to_string(&log).unwrap_or_default().contains("Server listening on 0.0.0.0")
        });
    }

    /// The first process of a machine, which is its `sshd`: its process id on our machine.
    pub(super) fn first_process(&self, name: &str) -> u32 {
        let machines = self.machines.borrow();
        let machine = machines.iter().find(|machine| machine.name == name).expect("it runs");
        let parent = machine.process.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("it runs");
        children.trim().parse().expect("one child")
    }

    /// Switches a machine off: all its processes are killed at once.
    pub(super) fn stop(&self, name: &str) {
        let mut machines = self.machines.borrow_mut();
        let machine = machines.iter_mut().find(|machine| machine.name == name).expect("it runs");
        machine.stop();
    }

    /// Unplugs a machine from the switch, or plugs it in.
    pub(super) fn plug(&self, name: &str, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        ip(&format!("-n {} link set {name} {state}", self.namespace("switch")));
    }

    /// Changes the traffic from the switch to a machine, with the words of `tc qdisc replace dev …`.
    pub(super) fn shape(&self, name: &str, how: &str) {
        let switch = self.namespace("switch");
        let words = format!("netns exec {switch} tc qdisc replace dev {name} {how}");
        ip(&words);
    }

    /// Delays packets between two machines by this long in each direction. Packets to and from other machines
    /// are not delayed. `None` if this user cannot delay packets. The delay ends when the result is dropped.
    #[track_caller]
    pub(super) fn delay(&self, one: &str, other: &str, ms: u64) -> Option<Delay> {
        let (near, far) = (format!("to-{other}"), format!("to-{one}"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/agent/wire.py");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(one), "python3", script, &self.namespace(other)]);
        command.args([&near, &far, &ms.to_string()]);
        let carrier = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut carrier = carrier.expect("ip runs");
        let mut line = String::new();
        let _ = BufReader::new(carrier.stdout.take().expect("piped")).read_line(&mut line);
        let delay = Delay(carrier);
        if line != "ready\n" {
            skip("a network with a delay needs TUN devices");
            return None;
        }
        for (from, device, to) in [(one, &near, other), (other, &far, one)] {
            let own = self.namespace(from);
            ip(&format!("-n {own} link set {device} up"));
            let (there, here) = (self.address(to), self.address(from));
            ip(&format!("-n {own} route add {there}/32 dev {device} src {here}"));
        }
        Some(delay)
    }

    /// A command of hoptax on the runner's machine.
    pub(super) fn hoptax(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace(RUNNER), env!("CARGO_BIN_EXE_hoptax")])
            .args(arguments)
            .env("PATH", format!("{}:{path}", self.scratch.path().join("bin").display()))
            .current_dir(self.scratch.path());
        command
    }

    /// Writes a plan, and runs it.
    pub(super) fn run(&self, plan: &str, arguments: &[&str]) -> Output {
        self.command(plan, arguments).output().expect("it runs")
    }

    /// The command that runs a plan.
    pub(super) fn command(&self, plan: &str, arguments: &[&str]) -> Command {
        let path = self.scratch.file("plan.yaml", plan);
        let mut command = self.hoptax(&["run"]);
        command.arg(path).arg("--out").arg(self.scratch.path()).arg("--no-live").args(arguments);
        command
    }

    /// The processes of a machine without its `sshd`: process ids on our machine, and command lines.
    pub(super) fn processes(&self, name: &str) -> Vec<(u32, String)> {
        let machines = self.machines.borrow();
        let machine = machines.iter().find(|machine| machine.name == name).expect("it runs");
        let own = machine.namespace_of_processes();
        let entries = fs::read_dir("/proc").expect("Linux").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let named = pids.filter_map(|pid| {
            let namespace = fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
            let command = fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|_| Some(namespace) == own)?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
            (!command.is_empty() && !command.contains("sshd")).then_some((pid, command))
        });
        named.collect()
    }

    /// Fails if processes of runs are still on a machine 10 s after `lost`.
    #[track_caller]
    pub(super) fn assert_nothing_runs(&self, name: &str, lost: Instant) {
        let mut left = self.processes(name);
        while !left.is_empty() {
            assert!(lost.elapsed() < OVER, "on {name}, {:?} later: {left:?}", lost.elapsed());
            std::thread::sleep(Duration::from_millis(20));
            left = self.processes(name);
        }
    }

    /// Directories of agents on a machine.
    pub(super) fn agent_directories(&self, name: &str) -> Vec<PathBuf> {
        let below = self.files(name).join("hoptax-agent-0");
        let entries = fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.is_dir()).collect()
    }
}

/// A process that delays packets.
pub(super) struct Delay(Child);

impl Drop for Delay {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Machine {
    /// The namespace of the machine's processes. `None` if it is off.
    fn namespace_of_processes(&self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/ns/pid_for_children", self.process.id())).ok()
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in self.machines.get_mut() {
            machine.stop();
        }
        for name in ["switch", RUNNER].iter().chain(&self.names) {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(name)]).output();
        }
    }
}

pub(super) fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).expect("above zero"), Signal::KILL);
}

#[track_caller]
fn ip(words: &str) {
    succeed(Command::new("ip").args(words.split(' ')));
}

/// The only run directory below a directory.
pub(super) fn run_directories(below: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(below).expect("there").flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.join("run.json").is_file()).collect();
    found.sort();
    found
}
