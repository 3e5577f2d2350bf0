//! A network namespace for a run with sidecars. The application runs inside the namespace, and the kernel
//! redirects traffic for the application's port to the sidecar. Requests that must bypass the sidecar
//! (direct) use a second port.
//!
//! ```text
//! this namespace │ the run's namespace
//! generator ─────┤veth├── eth0 ─ redirect ─► sidecar ─► application's port ─┐
//!                │      └───────────────────────────► direct port ─────────┴─ upstream
//! ```
//!
//! The namespace has no name, so it exists only as long as a process runs in it. Each of these processes runs
//! under a guard. So the namespace, its rules and both ends of the veth pair disappear with these processes,
//! even if hoptax is killed. The host's own tables are never changed.

use super::guarded::{Guarded, Launch};
use super::programs::output_within;
use super::tree::descendants;
use hoptax_record::{Failure, Stage};
use std::ffi::OsString;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The upstream's port that no sidecar intercepts.
pub const DIRECT_PORT: u16 = 9080;

/// The application's port for clients of the first sidecar. Further sidecars use the ports after this one.
const APPLICATION_PORT: u16 = 8080;

const PORTS_APART: u16 = 100;

/// First address of the network that is reserved for measuring network devices (RFC 2544, appendix C.2.2).
/// The internet does not route these addresses.
const NETWORK: u32 = u32::from_be_bytes([198, 18, 0, 0]);

/// Number of small networks in 198.18.0.0/15. Each has four addresses, two of them usable.
const NETWORKS: u32 = 1 << 15;

const TRIES: u32 = 16;

/// Time limit for creating the namespace. This usually takes milliseconds; the limit is for busy machines.
const BOUND: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Capabilities that are required to create the namespace, with their bit numbers in `CapEff`
/// (linux/capability.h).
const CAPABILITIES: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// The ports of one sidecar and of its application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interception {
    /// The application's own port.
    pub application: u16,
    /// The sidecar's port to which traffic is redirected.
    pub inbound: u16,
    /// The sidecar's port for readiness and statistics.
    pub admin: u16,
}

impl Interception {
    /// Ports of the sidecar with number `index` (from 0) in a run. `inbound` and `admin` are the ports of the
    /// first sidecar, from its pack.
    pub fn new(index: usize, inbound: u16, admin: u16) -> Self {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        let apart = index.saturating_mul(PORTS_APART);
        Self {
            application: APPLICATION_PORT.saturating_add(index),
            inbound: inbound.saturating_add(apart),
            admin: admin.saturating_add(apart),
        }
    }
}

/// A network namespace. It exists until this value is dropped.
#[derive(Debug)]
pub struct Namespace {
    holder: Guarded,
    /// The process that keeps the namespace alive.
    pid: u32,
    /// Name of the network interface outside the namespace, which is one end of the veth pair.
    interface: String,
    inside: Ipv4Addr,
    nsenter: PathBuf,
    ip: PathBuf,
}

impl Namespace {
    /// Creates a namespace with these redirections. `exe` is the `hoptax` binary.
    ///
    /// # Errors
    /// If a capability or a program is missing, or the kernel refuses an operation. The error names the
    /// cause.
    pub fn make(exe: &Path, interceptions: &[Interception], log_directory: &Path) -> Result<Self, Failure> {
        check_rights()?;
        let [unshare, nsenter, ip] = ["unshare", "nsenter", "ip"].map(program);
        let (unshare, nsenter, ip) = (unshare?, nsenter?, ip?);
        let launch = Launch {
            program: unshare.into(),
            // The only purpose of this process is to keep the namespace alive.
            arguments: ["--net", "--", "sleep", "infinity"].map(OsString::from).to_vec(),
            grace: Duration::from_secs(1),
            stdout: Some(log_directory.join("stdout.log")),
            stderr: log_directory.join("stderr.log"),
            ..Launch::default()
        };
        let mut holder = Guarded::start(exe, &launch).map_err(|error| {
            refused(format!("cannot start the process that keeps it open: {error}"), log_directory)
        })?;
        let pid = await_holder(&mut holder).map_err(|what| refused(what, log_directory))?;
        let mut made = Self {
            interface: format!("hoptax{pid}"),
            inside: Ipv4Addr::UNSPECIFIED,
            holder,
            pid,
            nsenter,
            ip,
        };
        made.connect()
            .and_then(|()| made.redirect(interceptions))
            .map_err(|what| refused(what, log_directory))?;
        Ok(made)
    }

    /// The address of `port` in the namespace.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.inside, port))
    }

    /// The namespace's address.
    pub fn address(&self) -> Ipv4Addr {
        self.inside
    }

    /// Id of the process that keeps the namespace alive. `/proc/<pid>/ns/net` is the namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Changes `launch` so that it runs inside the namespace.
    #[must_use]
    pub fn enter(&self, launch: Launch) -> Launch {
        let mut arguments = self.nsenter_arguments();
        arguments.push(launch.program);
        arguments.extend(launch.arguments);
        // nsenter replaces itself with the program. So the guard's child is the service itself.
        Launch { program: self.nsenter.clone().into(), arguments, ..launch }
    }

    fn nsenter_arguments(&self) -> Vec<OsString> {
        vec![format!("--net=/proc/{}/ns/net", self.pid).into(), "--".into()]
    }

    /// Creates the veth pair and gives each end an address.
    fn connect(&mut self) -> Result<(), String> {
        let (outside, inside) = self.free_network()?;
        self.inside = inside;
        let name = &self.interface;
        let here = format!(
            "link add {name} type veth peer name eth0 netns {}\naddr add {outside}/30 dev {name}\nlink set \
            {name} up\n",
            self.pid
        );
        run_with_input(Command::new(&self.ip).args(["-batch", "-"]), &here)?;
        let there = format!("link set lo up\naddr add {inside}/30 dev eth0\nlink set eth0 up\n");
        run_with_input(self.within().arg(&self.ip).args(["-batch", "-"]), &there)
    }

    /// Chooses a small network that this host has no route to, except for the default route. Returns the
    /// network's two usable addresses.
    fn free_network(&self) -> Result<(Ipv4Addr, Ipv4Addr), String> {
        for attempt in 0..TRIES {
            // Process ids differ, so parallel runs usually start with different networks.
            let first = NETWORK + 4 * ((self.pid + attempt * 257) % NETWORKS);
            let network = format!("{}/30", Ipv4Addr::from(first));
            let narrower = ["-4", "route", "show", "table", "all", "root", &network];
            let known = output_of(Command::new(&self.ip).args(narrower))?;
            if known.trim().is_empty() {
                return Ok((Ipv4Addr::from(first + 1), Ipv4Addr::from(first + 2)));
            }
        }
        Err(format!(
            "no free network in 198.18.0.0/15: hoptax tried {TRIES} networks, and this host has a route to \
             each of them"
        ))
    }

    /// Redirects traffic for each application's port to the application's sidecar. Only traffic that arrives
    /// through eth0 is redirected, because the sidecar's own requests must reach the application.
    fn redirect(&self, interceptions: &[Interception]) -> Result<(), String> {
        if let Ok(nft) = program("nft") {
            return run_with_input(self.within().arg(nft).args(["-f", "-"]), &ruleset(interceptions));
        }
        let iptables = program("iptables").map_err(|failure| failure.message)?;
        for one in interceptions {
            let rule = ["-t", "nat", "-A", "PREROUTING", "-i", "eth0", "-p", "tcp", "--dport"];
            let mut command = self.within();
            command.arg(&iptables).args(rule).arg(one.application.to_string());
            output_of(command.args(["-j", "REDIRECT", "--to-ports"]).arg(one.inbound.to_string()))?;
        }
        Ok(())
    }

    fn within(&self) -> Command {
        let mut command = Command::new(&self.nsenter);
        command.args(self.nsenter_arguments());
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Delete the veth pair now. Otherwise the kernel removes it only some time after the last process in
        // the namespace has ended.
        let _ = output_of(Command::new(&self.ip).args(["link", "delete", &self.interface]));
        self.holder.stop();
    }
}

fn ruleset(interceptions: &[Interception]) -> String {
    let mut rules = String::from(
        "table ip hoptax {\n  chain prerouting {\n    type nat hook prerouting priority dstnat; policy \
        accept;\n",
    );
    for one in interceptions {
        rules += &format!(
            "    iifname \"eth0\" tcp dport {} counter redirect to :{}\n",
            one.application, one.inbound
        );
    }
    rules + "  }\n}\n"
}

/// Waits until a descendant of the holder runs in a network namespace of its own. Returns the id of that
/// process.
fn await_holder(holder: &mut Guarded) -> Result<u32, String> {
    let own = std::fs::read_link("/proc/self/ns/net").map_err(|error| format!("this namespace: {error}"))?;
    let deadline = Instant::now() + BOUND;
    loop {
        for pid in descendants(holder.pid()) {
            let its = std::fs::read_link(format!("/proc/{pid}/ns/net"));
            if its.is_ok_and(|its| its != own) {
                return Ok(pid);
            }
        }
        if holder.ended().is_some() {
            return Err("the process that keeps it open exited: the kernel refused to create the namespace"
                .to_owned());
        }
        if Instant::now() > deadline {
            return Err(format!("it was not ready within {}", humantime::format_duration(BOUND)));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn check_rights() -> Result<(), Failure> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    match missing_rights(&status).as_slice() {
        [] => Ok(()),
        missing => {
            let message = format!(
                "a sidecar needs a network namespace, and creating one needs {}, which this process lacks. \
                 Run hoptax as root, or remove the sidecar from the plan",
                missing.join(" and ")
            );
            Err(Failure::new(Stage::Start, message))
        }
    }
}

/// The required capabilities that a process does not have. `status` is the text of `/proc/<pid>/status`.
fn missing_rights(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0);
    let lacks = |&&(_, bit): &&(&str, u32)| effective & (1 << bit) == 0;
    CAPABILITIES.iter().filter(lacks).map(|(name, _)| *name).collect()
}

/// Path of a system program. Searches PATH, and then directories that usually only root has on PATH.
fn program(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let places = std::env::split_paths(&path).chain(system);
    places.map(|place| place.join(name)).find(|file| file.is_file()).ok_or_else(|| {
        let package = match name {
            "ip" => "iproute2",
            "nft" | "iptables" => "nftables",
            _ => "util-linux",
        };
        let message = format!(
            "a sidecar needs `{name}`, which is not installed. Install it (Debian: apt-get install \
             {package}) or remove the sidecar from the plan"
        );
        Failure::new(Stage::Missing, message)
    })
}

fn refused(what: String, log_directory: &Path) -> Failure {
    Failure {
        stage: Stage::Start,
        message: format!("cannot create the sidecar's network namespace: {what}"),
        detail: super::logs::tails(log_directory),
    }
}

/// Time limit for a command that asks the kernel.
const LIMIT: Duration = Duration::from_secs(60);

fn output_of(command: &mut Command) -> Result<String, String> {
    let output = output_within(command.stdin(Stdio::null()), LIMIT);
    succeeded(command, output)
}

/// The standard output of a command if it succeeded.
fn succeeded(command: &Command, output: std::io::Result<Output>) -> Result<String, String> {
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Runs a command with `input` as its standard input. `input` must be shorter than a pipe's buffer.
fn run_with_input(command: &mut Command, input: &str) -> Result<(), String> {
    let run = |command: &mut Command| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        // Writing fails if the command exits at once. It then reports the reason on its standard error.
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        child.wait_with_output()
    };
    let output = run(command);
    succeeded(command, output).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sidecar_has_ports_of_its_own() {
        let [first, second] = [0, 1].map(|index| Interception::new(index, 15006, 15000));
        assert_eq!(first, Interception { application: 8080, inbound: 15006, admin: 15000 });
        assert_eq!(second, Interception { application: 8081, inbound: 15106, admin: 15100 });
        let rules = ruleset(&[first, second]);
        assert!(rules.contains("iifname \"eth0\" tcp dport 8081 counter redirect to :15106"), "{rules}");
        assert!(!rules.contains(&DIRECT_PORT.to_string()), "direct is not intercepted: {rules}");
    }

    #[test]
    fn missing_rights_are_read_from_effective_capabilities() {
        let status = |bits: &str| format!("CapPrm:\t000001ffffffffff\nCapEff:\t{bits}\n");
        assert!(missing_rights(&status("000001ffffffffff")).is_empty());
        assert_eq!(missing_rights(&status("0000000000001000")), ["CAP_SYS_ADMIN"]);
        assert_eq!(missing_rights(&status("0")), ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]);
        assert_eq!(missing_rights(""), ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]);
    }
}
