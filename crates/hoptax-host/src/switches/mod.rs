//! Records which thread has which CPU, on all CPUs, with `perf` and the tracepoints of the scheduler.

mod script;

use crate::probe::{Processes, Tree};
use crate::profile::{Perf, ProfileError, Profiler};
use crate::{Watched, programs};
use hoptax_record::tail::{BEAT_NS, SeenThread, SwitchTrace};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Size of perf's buffers of all CPUs, MiB. A busy CPU records some MiB of switches per second, and perf may
/// wait for a CPU for about a second.
const BUFFERS_MIB: usize = 128;

/// Time limit for checking whether switches can be recorded.
const LOOK: Duration = Duration::from_secs(20);

impl Profiler {
    /// Checks that this user may record the switches of all CPUs. For this, perf records the command `true`.
    ///
    /// # Errors
    /// If perf fails, with its reason.
    pub fn can_record_switches(&self) -> Result<(), ProfileError> {
        let mut command = Command::new(&self.program);
        command.args(switches()).args(["--output", "/dev/null", "--", "true"]).stdin(Stdio::null());
        let why = match programs::output_within(&mut command, LOOK) {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => first_line(&output.stderr),
            Err(error) => error.to_string(),
        };
        Err(ProfileError::NoTracepoints(why))
    }

    /// Starts recording the switches of all CPUs. Returns when perf records. perf runs under a guard, for
    /// which `exe` is the `hoptax` binary.
    ///
    /// # Errors
    /// If perf does not start.
    pub fn record_switches(&self, exe: &Path, roles: Roles) -> Result<SwitchRecording, ProfileError> {
        let mut arguments = switches();
        arguments.extend(["--mmap-pages".to_owned(), buffer()]);
        let perf = self.start(exe, arguments)?;
        let mut processes = RoleProcesses::default();
        processes.add(roles);
        Ok(SwitchRecording { recorder: self.version.clone(), perf, roles, processes })
    }
}

/// Size of perf's buffer of a CPU.
fn buffer() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}M", (BUFFERS_MIB / cpus.next_power_of_two()).clamp(1, 32))
}

/// Arguments of `perf record` for the switches of all CPUs.
fn switches() -> Vec<String> {
    let beat = format!("cpu-clock/period={BEAT_NS}/");
    let arguments = ["record", "--no-buildid", "--no-buildid-cache", "--clockid", "CLOCK_MONOTONIC"];
    let events = ["--all-cpus", "--switch-events", "--event", "sched:sched_waking", "--event", &beat];
    arguments.into_iter().chain(events).map(str::to_owned).collect()
}

/// The first line of perf's messages, which names the failure.
fn first_line(messages: &[u8]) -> String {
    let messages = String::from_utf8_lossy(messages);
    let line = messages.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or("perf gives no reason").to_owned()
}

/// Adds the names of processes whose first thread never had a CPU while perf recorded. Processes that have
/// ended are left out.
fn name_programs(trace: &mut SwitchTrace) {
    let processes: BTreeSet<u32> = trace.threads.values().filter_map(|seen| seen.process).collect();
    for process in processes {
        if let std::collections::btree_map::Entry::Vacant(place) = trace.threads.entry(process)
            && let Ok(name) = fs::read_to_string(format!("/proc/{process}/comm"))
        {
            place.insert(SeenThread { name: name.trim().to_owned(), process: Some(process) });
        }
    }
}

/// The processes of the roles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles {
    /// The gateway. Absent for direct.
    pub gateway: Option<Watched>,
    /// The upstream.
    pub upstream: Option<Watched>,
}

/// All processes of the roles at the beginning and at the end of a record.
#[derive(Debug, Default)]
struct RoleProcesses {
    gateway: BTreeSet<u32>,
    upstream: BTreeSet<u32>,
}

impl RoleProcesses {
    fn add(&mut self, roles: Roles) {
        let processes = Processes::now();
        let of = |watched: Option<Watched>| {
            watched.map(|watched| Tree::new(watched, &processes).pids()).unwrap_or_default()
        };
        self.gateway.extend(of(roles.gateway));
        self.upstream.extend(of(roles.upstream));
    }
}

/// Switches that perf records. Dropping this value ends the recording.
#[derive(Debug)]
pub struct SwitchRecording {
    recorder: String,
    perf: Perf,
    roles: Roles,
    processes: RoleProcesses,
}

impl SwitchRecording {
    /// Stops recording, and reads what was recorded.
    ///
    /// # Errors
    /// If perf has ended early, or its data cannot be read.
    pub fn finish(mut self) -> Result<SwitchTrace, ProfileError> {
        self.perf.check()?;
        self.processes.add(self.roles);
        let arguments = ["--show-switch-events", "--fields", "comm,pid,tid,cpu,time,event,trace"];
        let mut trace = self.perf.print(&arguments, script::read)?;
        name_programs(&mut trace);
        let Self { recorder, processes: RoleProcesses { gateway, upstream }, .. } = self;
        Ok(SwitchTrace { recorder, gateway, upstream, ..trace })
    }
}
