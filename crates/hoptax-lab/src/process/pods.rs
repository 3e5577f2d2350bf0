//! CPU time and memory of a gateway that runs in pods of a Kubernetes cluster, from the control group of its
//! container.
//!
//! For each pod, `kubectl exec` starts a shell in the container once, before the run. hoptax asks the shell
//! every 50 ms, and the shell answers with the kernel's counters of the container, without starting a
//! process. The shell belongs to the container and uses 0.2 to 0.5 % of a CPU. So it also reports its own CPU
//! time, which hoptax subtracts. A trial's CPU time per second is the growth from the first to the last
//! answer within the trial.

use super::pod_list::{container, kubectl, list, running};
use super::samples::{LEAST_INTERVALS, Period, largest, rate, seconds};
use hoptax_format::clock;
use hoptax_host::programs::kill_group;
use hoptax_plan::WatchedPods;
use hoptax_plan::units::show_duration;
use hoptax_record::RoleUsage;
use std::collections::BTreeSet;
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interval between two readings.
const INTERVAL: Duration = Duration::from_millis(50);
/// One in this many readings also reads memory, which takes longer, because the kernel's list is longer.
const MEMORY_EVERY: u32 = 4;
/// Time limit for a pod's first reading.
const ANSWER: Duration = Duration::from_secs(30);
/// Number of readings that are kept: more than an hour.
const KEPT: usize = 100_000;

/// What to do if commands cannot be run in the pods.
const ADVICE: &str = "hoptax needs the right to run commands in pods (`kubectl auth can-i create \
                      pods/exec`), and `sh` in the image. Without them, write watch: { prometheus: { url: \
                      …, cpu: …, memory: … } }";

/// The program of the shell. It answers each line with the CPU time of the container and of the shell, ns.
/// For the line `m`, it also prints the memory in use, and the part of this memory that the kernel can take
/// back, in bytes. Version 2 of control groups has one directory, and version 1 has one for each controller.
/// With version 2, a container can sometimes see the directories of the whole machine. Then the line without
/// controllers in `/proc/self/cgroup` names the container's own directory.
const SCRIPT: &str = r#"
group=/sys/fs/cgroup
if [ -r $group/cgroup.controllers ]; then
    path=
    while IFS=: read -r _ controllers one; do [ -n "$controllers" ] || path=$one; done </proc/self/cgroup
    [ ! -r "$group$path/memory.current" ] || group=$group$path
    cpu() { read -r _ used <"$group/cpu.stat" && used=${used}000; }
    all=$group/memory.current stat=$group/memory.stat cache=inactive_file
else
    for one in cpuacct cpu,cpuacct; do [ ! -r $group/$one/cpuacct.usage ] || file=$group/$one/cpuacct.usage; done
    cpu() { read -r used <"$file"; }
    all=$group/memory/memory.usage_in_bytes stat=$group/memory/memory.stat cache=total_inactive_file
fi
[ -r "$all" ] || { echo "there is no $all in the container" >&2; exit 1; }
cpu || { echo "there is no CPU time of a control group in the container" >&2; exit 1; }
scheduled=/proc/self/schedstat
[ -r $scheduled ] || { echo "there is no $scheduled, so the shell cannot say its own CPU time" >&2; exit 1; }
while read -r what; do
    cpu || exit 1
    read -r own _ <$scheduled || exit 1
    [ "$what" = m ] || { echo "$used $own"; continue; }
    read -r memory <"$all" || exit 1
    value=0
    while read -r name value; do [ "$name" != "$cache" ] || break; done <"$stat"
    echo "$used $own $memory $value"
done
"#;

/// Readings of the control groups of a gateway's containers. Dropping it ends the shells.
#[derive(Debug)]
pub(super) struct ControlGroups {
    watched: WatchedPods,
    readers: Vec<Reader>,
}

/// A shell in the container of one pod.
#[derive(Debug)]
struct Reader {
    pod: String,
    child: Child,
    readings: Arc<Mutex<Readings>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What was read so far, oldest first: moments on our clock in seconds, and values.
#[derive(Debug, Default)]
struct Readings {
    /// CPU time, s.
    cpu: Vec<(f64, f64)>,
    /// Memory that the kernel cannot take back, bytes.
    memory: Vec<(f64, f64)>,
    has_ended: bool,
}

impl ControlGroups {
    /// Finds the pods, and starts to read the control groups of their containers. `trial` is the shortest
    /// trial.
    ///
    /// # Errors
    /// If no pod runs, the container is not known, commands cannot be run in the pods, or the trials are too
    /// short.
    pub(super) fn open(watched: &WatchedPods, trial: Duration) -> Result<Self, String> {
        let least = INTERVAL * LEAST_INTERVALS;
        if trial < least {
            return Err(format!(
                "pods are read every {}, which is too rare for trials of {}. Write `duration: {}` for each \
                load",
                show_duration(INTERVAL),
                show_duration(trial),
                show_duration(least)
            ));
        }
        let pods = running(watched)?;
        if pods.is_empty() {
            return Err(format!(
                "no pod runs that `{}` selects. Look at `{}`",
                watched.selector,
                list(watched).join(" ")
            ));
        }
        // All shells start at the same time. An early return ends those that have started.
        let mut readers = Vec::new();
        for pod in &pods {
            let container = container(watched, pod)?;
            readers.push(Reader::start(watched, &pod.metadata.name, container)?);
        }
        for reader in &mut readers {
            reader.await_first(watched)?;
        }
        Ok(Self { watched: watched.clone(), readers })
    }

    /// CPU time and memory between two moments of [`clock::now`].
    ///
    /// # Errors
    /// If a container has ended, or the pods are no longer the same.
    pub(super) fn used(&self, from_ns: u64, to_ns: u64) -> Result<RoleUsage, String> {
        let now = running(&self.watched)?;
        let now: BTreeSet<&str> = now.iter().map(|pod| pod.metadata.name.as_str()).collect();
        let before: BTreeSet<&str> = self.readers.iter().map(|reader| reader.pod.as_str()).collect();
        if now != before {
            let listed = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
            return Err(format!("the pods were {}, and are now {}", listed(&before), listed(&now)));
        }
        let (mut cpu, mut memory) = (Vec::new(), Vec::new());
        for reader in &self.readers {
            let readings = reader.readings();
            if readings.has_ended {
                return Err(format!(
                    "the container of pod {} was started again, or the connection broke",
                    reader.pod
                ));
            }
            cpu.push(readings.cpu.clone());
            memory.push(readings.memory.clone());
        }
        let period = Period { from_s: seconds(from_ns), to_s: seconds(to_ns) };
        let (rate, pods) = rate(&cpu, period)?;
        // The first reading of memory in a short trial may come late.
        let rss_bytes_max = largest(&memory, period)
            .or_else(|_| largest(&memory, Period { from_s: period.from_s - 1.0, ..period }))?;
        let cpu_ns = (rate * to_ns.saturating_sub(from_ns) as f64) as u64;
        if (pods as usize) < self.readers.len() {
            return Err("there are fewer than two samples of a pod".to_owned());
        }
        Ok(RoleUsage { cpu_ns, processes: pods, rss_bytes_max, ..RoleUsage::default() })
    }
}

impl Reader {
    fn start(watched: &WatchedPods, pod: &str, container: &str) -> Result<Self, String> {
        let mut words = kubectl(watched);
        words.extend(["exec", "--quiet", "--stdin", pod].map(str::to_owned));
        words.extend([
            format!("--container={container}"),
            "--".into(),
            "sh".into(),
            "-c".into(),
            SCRIPT.into(),
        ]);
        let mut command = Command::new(&words[0]);
        // A group of its own, so that Ctrl-C does not end it in the middle of a trial.
        command.args(&words[1..]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start kubectl: {error}"))?;
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let (readings, stop) = (Arc::<Mutex<Readings>>::default(), Arc::<AtomicBool>::default());
        let (into, stopped) = (Arc::clone(&readings), Arc::clone(&stop));
        let thread = thread::spawn(move || read(stdin, BufReader::new(stdout), &into, &stopped));
        Ok(Self { pod: pod.to_owned(), child, readings, stop, thread: Some(thread) })
    }

    /// Waits for the first readings.
    fn await_first(&mut self, watched: &WatchedPods) -> Result<(), String> {
        let deadline = clock::now() + ANSWER.as_nanos() as u64;
        loop {
            {
                let readings = self.readings();
                if !readings.memory.is_empty() {
                    return Ok(());
                }
                if readings.has_ended {
                    break;
                }
            }
            if clock::now() > deadline {
                return Err(format!(
                    "pod {} has sent no reading for {}. {ADVICE}",
                    self.pod,
                    show_duration(ANSWER)
                ));
            }
            thread::sleep(Duration::from_millis(5));
        }
        // This also kills a credential plugin of `kubectl`, which would keep the pipe open.
        kill_group(&self.child);
        let mut text = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4096).read_to_string(&mut text);
        }
        let namespace = watched.namespace.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        let why = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Err(format!("cannot read the control group of pod {}{namespace}: {why}. {ADVICE}", self.pod))
    }

    fn readings(&self) -> MutexGuard<'_, Readings> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        kill_group(&self.child);
        let _ = self.child.wait();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Asks the shell for readings until the shell ends or `stop` is set.
fn read(
    mut stdin: ChildStdin,
    mut stdout: impl std::io::BufRead,
    readings: &Mutex<Readings>,
    stop: &AtomicBool,
) {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let with_memory = count % MEMORY_EVERY == 0;
        count += 1;
        let began = clock::now();
        let mut line = String::new();
        let asked = stdin.write_all(if with_memory { b"m\n" } else { b"c\n" });
        if asked.is_err() || stdout.read_line(&mut line).unwrap_or(0) == 0 {
            break;
        }
        let ended = clock::now();
        // The shell has read the counters between the two moments.
        let at_s = seconds(began + (ended - began) / 2);
        let Some((cpu, memory)) = parsed(&line) else { break };
        let mut readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
        // The two counters are read one after the other, so their difference can fall a little. If the
        // container is started again, the shell ends too.
        let cpu = readings.cpu.last().map_or(cpu, |(_, last)| cpu.max(*last));
        readings.cpu.push((at_s, cpu));
        readings.memory.extend(memory.map(|memory| (at_s, memory)));
        if readings.cpu.len() > KEPT {
            readings.cpu.drain(..KEPT / 2);
            let half = readings.memory.len() / 2;
            readings.memory.drain(..half);
        }
        drop(readings);
        thread::sleep(INTERVAL.saturating_sub(Duration::from_nanos(ended - began)));
    }
    readings.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
}

/// CPU time without the shell's, in s. Also memory in bytes, if the answer contains it.
fn parsed(line: &str) -> Option<(f64, Option<f64>)> {
    let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    match numbers.as_slice() {
        [cpu, own] => Some(((cpu - own) / 1e9, None)),
        [cpu, own, memory, cache] => Some(((cpu - own) / 1e9, Some((memory - cache).max(0.0)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the script on a directory that looks like control groups, with each shell of this machine.
    fn answers(files: &[(&str, &str)]) -> Vec<String> {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().display().to_string();
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("below")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let script = SCRIPT
            .replace("/sys/fs/cgroup", &root)
            .replace("/proc/self/cgroup", &format!("{root}/self"))
            .replace("/proc/self/schedstat", &format!("{root}/schedstat"));
        let mut answers = Vec::new();
        for shell in [&["dash"][..], &["bash"], &["busybox", "sh"]] {
            let mut command = Command::new(shell[0]);
            command.args(&shell[1..]).args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let Ok(mut child) = command.stderr(Stdio::piped()).spawn() else { continue };
            child.stdin.take().expect("piped").write_all(b"c\nm\nc\n").ok();
            let output = child.wait_with_output().expect("it ends");
            let shown = [output.stdout, output.stderr].concat();
            answers.push(String::from_utf8_lossy(&shown).replace(&root, "ROOT"));
        }
        assert!(!answers.is_empty(), "there is no shell");
        answers
    }

    #[test]
    fn the_script_reads_both_versions_of_control_groups_in_each_shell() {
        const STAT: &str = "anon 5\nfile 90\ninactive_file 30\nactive_file 7\n";
        const CPU: &str = "usage_usec 1500\nuser_usec 1000\n";
        let own = [
            ("cgroup.controllers", "cpu memory\n"),
            ("self", "0::/\n"),
            ("cpu.stat", CPU),
            ("memory.current", "100\n"),
            ("memory.stat", STAT),
            ("schedstat", "4000 17 2\n"),
        ];
        let of_machine = [
            ("cgroup.controllers", "cpu memory\n"),
            ("self", "0::/pods/a\n"),
            ("cpu.stat", "usage_usec 99999\n"),
            ("pods/a/cpu.stat", CPU),
            ("pods/a/memory.current", "100\n"),
            ("pods/a/memory.stat", STAT),
            ("schedstat", "4000 17 2\n"),
        ];
        let first_version = [
            ("cpu,cpuacct/cpuacct.usage", "1500000\n"),
            ("memory/memory.usage_in_bytes", "100\n"),
            ("memory/memory.stat", "cache 90\ninactive_file 1\ntotal_inactive_file 30\n"),
            ("schedstat", "4000 17 2\n"),
        ];
        for files in [&own[..], &of_machine, &first_version] {
            for answer in answers(files) {
                assert_eq!(answer, "1500000 4000\n1500000 4000 100 30\n1500000 4000\n", "{files:?}");
            }
        }
        for answer in answers(&own[..own.len() - 1]) {
            assert!(answer.contains("ROOT/schedstat"), "{answer}");
        }
        for answer in answers(&[]) {
            assert!(answer.contains("ROOT/memory/memory.usage_in_bytes"), "{answer}");
        }
    }

    #[test]
    fn answers_are_seconds_and_bytes() {
        assert_eq!(parsed("2000000000 500000000\n"), Some((1.5, None)));
        assert_eq!(parsed("2000000000 500000000 100 30\n"), Some((1.5, Some(70.0))));
        assert_eq!((parsed(""), parsed("a 1"), parsed("1 2 3")), (None, None, None));
    }

    #[test]
    fn trials_that_are_too_short_are_refused() {
        let watched = WatchedPods { selector: "a".into(), container: None, namespace: None, context: None };
        let refused = ControlGroups::open(&watched, Duration::from_millis(100));
        insta::assert_snapshot!(refused.expect_err("too short"));
    }
}
