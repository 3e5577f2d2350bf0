//! CPU time and memory of an external gateway from a real Prometheus server, compared with `/proc`. The
//! gateway is a hop; an exporter in this process reads `/proc` whenever Prometheus asks.

use crate::load::KilledOnDrop;
use crate::run::{case, report, run, run_to_success, text, trials};
use crate::support::{Json, PATIENCE, Scratch, hoptax, own_listener, skip, unused_address, wait_until};
use crate::wire::Server;
use hoptax_format::clock;
use hoptax_host::programs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which Prometheus reads the exporter.
const INTERVAL: &str = "100ms";

/// CPU time of a process, ns. Threads that have ended do not count; a hop's threads never end.
fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let of = |path: PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.map(|task| of(task.path())).sum()
}

fn resident_bytes(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("it runs");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

/// A thread that runs until this value is dropped.
struct Thread {
    stop: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Calls `turn` again and again.
    fn start(mut turn: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let handle = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                turn();
            }
        });
        Self { stop, handle: Some(handle) }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.handle.take().expect("once").join();
    }
}

/// Serves CPU time and memory of a process to Prometheus.
fn exporter(pid: u32) -> (Thread, SocketAddr) {
    let listener = own_listener();
    let address = listener.local_addr().expect("known");
    listener.set_nonblocking(true).expect("set");
    let thread = Thread::start(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            return;
        };
        stream.set_nonblocking(false).expect("set");
        let _ = stream.read(&mut [0; 2048]);
        let cpu = cpu_ns(pid) as f64 / 1e9;
        let body = format!("edge_cpu_seconds_total {cpu}\nedge_memory_bytes {}\n", resident_bytes(pid));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n";
        let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
    });
    (thread, address)
}

struct Prometheus {
    _child: KilledOnDrop,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts a server that reads `exporter`. Returns `None` and notes a skip if the program is not
    /// installed.
    fn start(scratch: &Scratch, exporter: SocketAddr) -> Option<Self> {
        let Some(program) = programs::find_in("prometheus", &programs::search_path()) else {
            skip("prometheus is not installed");
            return None;
        };
        let address = unused_address();
        let configuration = scratch.file(
            "prometheus.yml",
            &format!(
                "global: {{ scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL} }}
scrape_configs:
  - {{ job_name: edge, static_configs: [{{ targets: [\"{exporter}\"] }}] }}
"
            ),
        );
        let mut command = Command::new(program);
        command.arg(format!("--config.file={}", configuration.display()));
        command.arg(format!("--storage.tsdb.path={}", scratch.path().join("data").display()));
        command.arg(format!("--web.listen-address={address}")).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().expect("starts");
        let started = Self { _child: KilledOnDrop(child), address };
        wait_until("Prometheus listens", PATIENCE, || TcpStream::connect(address).is_ok());
        Some(started)
    }

    fn plan(&self, gateway: SocketAddr, upstream: SocketAddr, cpu: &str, duration: &str) -> String {
        let watch = format!(
            "{{ prometheus: {{ url: \"http://{}\", cpu: '{cpu}', memory: edge_memory_bytes }} }}",
            self.address
        );
        format!(
            "upstream: {{ url: \"http://{upstream}\" }}
gateways: [{{ name: external, label: edge, url: \"http://{gateway}\", watch: {watch} }}]
load: [{{ loop: open, rate: 500/s, connections: 4, duration: {duration} }}]
trials: 1
warmup: 100ms
"
        )
    }
}

/// Reads the CPU time of the process `pid` during a run. Fails if a trial through `edge` has another CPU
/// time. Returns the run's directory and these trials.
pub(crate) fn with_known_cpu(pid: u32, run: impl FnOnce() -> PathBuf) -> (PathBuf, Vec<Json>) {
    // Moments of `clock::now` and CPU time, both in ns.
    let readings: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let read = Arc::clone(&readings);
    let reader = Thread::start(move || {
        read.lock().expect("not poisoned").push((clock::now(), cpu_ns(pid)));
        std::thread::sleep(Duration::from_millis(5));
    });
    let directory = run();
    drop(reader);
    let truth = readings.lock().expect("not poisoned");
    let at = |moment: u64| truth[truth.partition_point(|(at, _)| *at < moment).min(truth.len() - 1)].1;
    let through: Vec<Json> =
        trials(&directory).into_iter().filter(|trial| trial["contender"] == "edge").collect();
    for trial in &through {
        let number = |value: &Json| value.as_u64().unwrap_or_else(|| panic!("a number: {trial}"));
        let record = &trial["load_record"];
        let (from, measured) = (number(&record["started_ns"]), number(&record["measured_ns"]));
        let known = number(&trial["gateway"]["cpu_ns"]) as f64;
        let really = (at(from + measured) - at(from)) as f64;
        assert!((known / really - 1.0).abs() < 0.15, "hoptax: {known} ns, /proc: {really} ns");
    }
    (directory, through)
}

#[test]
fn prometheus_and_proc_agree_about_an_external_gateway() {
    let scratch = Scratch::new();
    let upstream = Server::start(&["upstream", "--body", "1KiB"]);
    let (hop, gateway) = Server::hop("l7", upstream.instance(0), &[]);
    let pid = hop.pid();
    let (_exporter, exporter) = exporter(pid);
    let Some(prometheus) = Prometheus::start(&scratch, exporter) else { return };
    let plan = |cpu: &str, duration: &str| prometheus.plan(gateway, upstream.instance(0), cpu, duration);

    let refused = |cpu: &str, duration: &str| text(&run(&scratch, &plan(cpu, duration), &[]).stderr);
    let shown = refused("absent_metric", "2s");
    assert!(shown.contains("`absent_metric`"), "{shown}");
    let shown = refused("edge_cpu{", "2s");
    assert!(shown.contains("says: ") && shown.contains("parse error"), "{shown}");
    // While Prometheus has fewer than two samples, hoptax prints another message.
    wait_until("Prometheus has samples", PATIENCE, || {
        let shown = refused("edge_cpu_seconds_total", "150ms");
        shown.contains("trials of 150ms") && shown.contains("Write `duration: ")
    });

    let plan = plan("edge_cpu_seconds_total{job=\"edge\"}", "2s");
    let (directory, through) = with_known_cpu(pid, || run_to_success(&scratch, &plan, &["--accept-void"]));
    assert_eq!(through.len(), 1);
    let memory = through[0]["gateway"]["rss_bytes_max"].as_u64().expect("a number");
    assert!(memory.abs_diff(resident_bytes(pid)) < 2 << 20, "{memory}");
    let report = report(&directory);
    let tax = &case(&report, "edge")["tax"];
    assert!(tax["cpu_us_per_request"]["estimate"].as_f64().is_some_and(|us| us > 1.0), "{tax:#}");
}

#[test]
fn another_server_is_no_prometheus() {
    let scratch = Scratch::new();
    let upstream = Server::start(&["upstream", "--body", "1KiB"]);
    let address = upstream.instance(0);
    let plan = format!(
        "upstream: {{ url: \"http://{address}\" }}
gateways: [{{ name: external, url: \"http://{address}\", watch: {{ prometheus: {{ url: \"http://{address}\", cpu: a, memory: b }} }} }}]
load: [{{ loop: closed, connections: 1 }}]
"
    );
    let path = scratch.file("checked.yaml", &plan);
    let checked = hoptax().arg("check").arg(path).output().expect("hoptax runs");
    let shown = text(&checked.stdout);
    assert!(shown.contains("Prometheus"), "{shown}");
    let shown = text(&run(&scratch, &plan, &[]).stderr);
    assert!(shown.contains(&format!("http://{address} is not a ")), "{shown}");
}
