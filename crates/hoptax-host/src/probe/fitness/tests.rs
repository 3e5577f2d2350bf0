//! Tests every check on simulated hosts, which are directories. In the first host everything is good. Every
//! other host has one problem.

use super::*;
use FitnessStatus::{Bad, Good, Unknown, Warning};
use hoptax_record::FitnessStatus;
use std::fs;

/// A directory that looks like a host with 8 CPUs and without problems.
struct Laid {
    host: Host,
    _directory: tempfile::TempDir,
}

const IN_ORDER: [(&str, &str); 17] = [
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("proc/self/cgroup", "0::/user/me\n"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
    ("proc/cpuinfo", "processor : 0\nflags\t\t: fpu sse\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm \n"),
    ("proc/sys/fs/nr_open", "1048576\n"),
    ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
    ("proc/sys/net/core/somaxconn", "4096\n"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n"),
    ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("proc/loadavg", "0.10 0.20 0.30 1/200 4711\n"),
    ("proc/net/sockstat", "sockets: used 9\nTCP: inuse 4 orphan 0 tw 12 alloc 5 mem 1\nUDP: inuse 1 mem 0\n"),
    (
        "proc/meminfo",
        "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapTotal: 1048576 kB\nSwapFree: 1048576 kB\n",
    ),
    ("proc/sys/kernel/perf_event_paranoid", "1\n"),
    ("proc/stat", "cpu  100 0 50 800 10 5 5 30 0 0\ncpu0 1 1 1 1\n"),
];

impl Laid {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let laid = Self {
            host: Host {
                root: directory.path().to_owned(),
                allowed: (0..8).collect(),
                can_pin: true,
                can_poll: Ok(()),
                descriptors: (1024, 1 << 20),
                release: "6.8.0-45-generic".into(),
                is_root: false,
                disk_free: Some(20 << 30),
                late_ns: (1..=40).map(|index| index * 2_000).collect(),
                clock_ns: 30,
            },
            _directory: directory,
        };
        let by_cpu = (0..8).flat_map(|cpu| {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            [
                (format!("{folder}/cpufreq/scaling_governor"), "performance\n".to_owned()),
                (format!("{folder}/topology/thread_siblings_list"), format!("{cpu}\n")),
            ]
        });
        by_cpu.for_each(|(path, content)| laid.write(&path, &content));
        IN_ORDER.iter().for_each(|(path, content)| laid.write(path, content));
        laid
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.host.root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        fs::write(path, content).expect("written");
    }

    fn item(&self, name: &str) -> Fitness {
        let snapshot = Snapshot::take(&self.host.root);
        let look = whole(&self.host, snapshot.as_ref().map(|one| (one, one)), Some(&[]));
        look.items.into_iter().find(|item| item.name == name).unwrap_or_else(|| panic!("no item {name}"))
    }

    #[track_caller]
    fn is(&self, name: &str, status: FitnessStatus, words: &str) {
        let item = self.item(name);
        assert_eq!(item.status, status, "{item:?}");
        assert!(item.seen.contains(words), "`{words}` in {item:?}");
        // A check with a result that is not good gives a reason and advice. A check with a good result gives
        // no advice.
        let doubted = matches!(status, Bad | Warning);
        assert_eq!(item.advice.is_some(), doubted, "{item:?}");
        assert!(!doubted || (item.message.ends_with('.') && !item.message.is_empty()), "{item:?}");
    }
}

#[test]
fn a_host_in_order_is_good_throughout() {
    let laid = Laid::new();
    let later = Laid::new();
    later.write("proc/stat", "cpu  110 0 50 1700 10 5 5 30 0 0\n");
    let snapshots = [&laid, &later].map(|laid| Snapshot::take(&laid.host.root).expect("there"));
    let look = whole(&laid.host, Some((&snapshots[0], &snapshots[1])), Some(&[]));
    let not: Vec<&Fitness> = look.items.iter().filter(|item| item.status != Good).collect();
    assert!(not.is_empty(), "{not:#?}");
    let mut names: Vec<&str> = look.items.iter().map(|item| &*item.name).collect();
    assert!(names.len() >= 24, "{names:?}");
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn unreadable_files_give_unknown() {
    let mut laid = Laid::new();
    laid.host.root = laid.host.root.join("nowhere");
    laid.host.disk_free = None;
    laid.host.late_ns.clear();
    laid.host.allowed.clear();
    laid.host.release = "odd".into();
    for item in whole(&laid.host, None, None).items {
        assert!(matches!(item.status, Good | Unknown), "{item:?}");
        assert_eq!(item.message.is_empty(), item.status == Good, "{item:?}");
    }
}

#[test]
fn cpus_and_what_they_share() {
    let mut laid = Laid::new();
    laid.is("cpus", Good, "8");
    for (count, status) in [(4, Good), (3, Warning), (2, Warning), (1, Bad)] {
        laid.host.allowed = (0..count).collect();
        laid.is("cpus", status, &format!("{count} of 8"));
    }
    laid.host.allowed = (0..4).collect();
    // CPU 0 shares its core with CPU 4, which this process may not use. CPUs 1 and 2 share a core.
    for (cpu, siblings) in [(0, "0,4"), (1, "1-2"), (2, "1-2")] {
        laid.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), siblings);
    }
    laid.is("smt", Warning, "2 CPUs share cores");
    laid.host.can_pin = false;
    laid.is("pinning", Warning, "forbidden");
    laid.is("idle-cpus", Good, "can poll");
    laid.host.can_poll = Err("nobody may".into());
    laid.is("idle-cpus", Warning, "sleep");
}

#[test]
fn cpu_limits_of_both_kinds_of_control_groups() {
    let laid = Laid::new();
    laid.is("cpu-limit", Good, "none");
    laid.write("sys/fs/cgroup/user/me/cpu.max", "max 100000\n");
    laid.is("cpu-limit", Good, "none");
    laid.write("sys/fs/cgroup/user/me/cpu.max", "900000 100000\n");
    laid.is("cpu-limit", Good, "9 CPUs");
    // The limit of a parent group also applies.
    laid.write("sys/fs/cgroup/user/cpu.max", "250000 100000\n");
    laid.is("cpu-limit", Warning, "2.5 CPUs");
    laid.write("proc/self/cgroup", "3:cpu,cpuacct:/docker/1\n2:memory:/docker/1\n");
    laid.is("cpu-limit", Good, "none");
    laid.write("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "-1\n");
    laid.write("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
    laid.is("cpu-limit", Good, "none");
    laid.write("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "150000\n");
    laid.is("cpu-limit", Bad, "1.5 CPUs");
}

#[test]
fn frequencies() {
    let laid = Laid::new();
    let advice = || laid.item("turbo").advice.expect("known");
    laid.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n");
    laid.is("governor", Warning, "performance, powersave");
    laid.write("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    laid.is("turbo", Warning, "on");
    insta::assert_snapshot!(advice());
    fs::remove_dir_all(laid.host.root.join("sys/devices/system/cpu/intel_pstate")).expect("removed");
    laid.is("turbo", Unknown, "unknown");
    laid.write("sys/devices/system/cpu/cpufreq/boost", "1\n");
    laid.is("turbo", Warning, "on");
    insta::assert_snapshot!(advice());
    laid.write("sys/devices/system/cpu/cpufreq/boost", "0\n");
    laid.is("turbo", Good, "off");
}

#[test]
fn clocks_and_timers() {
    let mut laid = Laid::new();
    let current = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    for (source, cost, status) in [
        ("kvm-clock", 40, Good),
        ("tsc", 900, Warning),
        ("xen", 900, Warning),
        ("xen", 50, Good),
        ("hpet", 900, Bad),
    ] {
        laid.write(current, source);
        laid.host.clock_ns = cost;
        laid.is("clock-source", status, source);
    }
    insta::assert_snapshot!(laid.item("clock-source").advice.expect("known"));
    laid.is("timer", Good, "42 µs late (median), 80 µs at worst");
    laid.host.late_ns = vec![10_000, 400_000, 400_000];
    laid.is("timer", Warning, "400 µs late");
    laid.host.late_ns = vec![3_000_000; 9];
    laid.is("timer", Bad, "3000 µs late");
}

#[test]
fn noise_of_others() {
    let laid = Laid::new();
    let before = Snapshot::take(&laid.host.root);
    laid.write("proc/4711/stat", "4711 (a (b) c) R 1 1 1 0 -1 0 0 0 0 0 60 20 0 0 20 0 1 0\n");
    laid.write("proc/4712/stat", "4712 (idle) S 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0\n");
    let item = |name: &str| {
        let after = Snapshot::take(&laid.host.root);
        let items = whole(&laid.host, before.as_ref().zip(after.as_ref()), None).items;
        items.into_iter().find(|item| item.name == name).expect("there")
    };
    let later = |busy: u64, steal: u64| {
        let idle = 800 + 1000 - busy - steal;
        laid.write("proc/stat", &format!("cpu  {} 0 50 {idle} 10 5 5 {} 0 0\n", 100 + busy, 30 + steal));
        ["steal", "foreign-load"].map(&item)
    };
    let statuses = |busy, steal| later(busy, steal).map(|item| item.status);
    assert_eq!(statuses(50, 20), [Good, Good]);
    // A build that has just ended is no problem any more.
    laid.write("proc/loadavg", "8.5 1 1 1/200 4711\n");
    let load_average = |busy: u64| {
        later(busy, 0);
        item("load-average")
    };
    assert_eq!(load_average(50).status, Good);
    assert!(load_average(50).seen.contains("quiet"));
    assert_eq!(load_average(60).status, Bad);
    assert_eq!(statuses(51, 21), [Warning, Warning]);
    assert_eq!(statuses(251, 101), [Bad, Bad]);
    insta::assert_snapshot!(later(80, 0)[1].seen);
    laid.write("proc/loadavg", "2.5 1 1 1/200 4711\n");
    laid.is("load-average", Warning, "2.5 over the last minute");
    laid.write("proc/loadavg", "8.5 1 1 1/200 4711\n");
    laid.is("load-average", Bad, "8.5");
    laid.write("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor\n");
    laid.is("hypervisor", Good, "a virtual machine");
    laid.write("sys/class/dmi/id/sys_vendor", "Some Cloud\n");
    laid.is("hypervisor", Good, "a virtual machine (Some Cloud)");
}

#[test]
fn kernel_and_descriptors() {
    let mut laid = Laid::new();
    for (release, status) in [("5.11.0", Good), ("5.10.99-old", Bad), ("4.19.1", Bad), ("6.0-rc1", Good)] {
        laid.host.release = release.into();
        laid.is("kernel", status, release);
    }
    laid.is("descriptors", Good, "1048576 (1024 at first; fs.nr_open 1048576)");
    for (hard, status) in [(16_384, Good), (4_096, Warning), (1_024, Bad)] {
        laid.host.descriptors = (1_024, hard);
        laid.is("descriptors", status, &hard.to_string());
    }
    laid.host.descriptors = (1_024, u64::MAX);
    laid.write("proc/sys/fs/nr_open", "8192");
    laid.is("descriptors", Warning, "8192");
    laid.write("proc/sys/kernel/perf_event_paranoid", "4");
    laid.is("perf", Warning, "perf_event_paranoid 4");
    laid.host.is_root = true;
    laid.is("perf", Good, "perf_event_paranoid 4");
}

#[test]
fn the_network() {
    let laid = Laid::new();
    assert_eq!(laid.host.local_ports(), Some(28_232));
    laid.is("ports", Good, "28232 (32768 to 60999)");
    for (range, status) in [("40000 45000", Warning), ("40000 40500", Bad)] {
        laid.write("proc/sys/net/ipv4/ip_local_port_range", range);
        laid.is("ports", status, "40000 to 4");
    }
    laid.write("proc/sys/net/ipv4/ip_local_port_range", "20000 30000");
    for (waiting, status) in [(2000, Good), (3000, Warning), (9000, Bad)] {
        laid.write("proc/net/sockstat", &format!("TCP: inuse 4 orphan 0 tw {waiting} alloc 5 mem 1\n"));
        laid.is("time-wait", status, &format!("{waiting} sockets"));
    }
    // Nobody listens on the first destination any more. The second is beyond this machine. The third still
    // listens.
    for (remote, status) in [("0100007F:1F90", Good), ("0100000A:1F90", Bad), ("0100007F:1F91", Bad)] {
        let line = |socket: u32| format!("{socket}: 0100007F:{socket:04X} {remote} 06 00000000:00000000\n");
        let listener = "0: 00000000:1F91 00000000:0000 0A 00000000:00000000\n".to_owned();
        let header = "sl local_address rem_address st tx_queue:rx_queue\n".to_owned();
        let lines = [header, listener].into_iter().chain((10_000..19_000).map(line));
        laid.write("proc/net/tcp", &lines.collect::<String>());
        laid.is("time-wait", status, "9000 sockets");
    }
    for (name, path) in [
        ("listen-queue", "proc/sys/net/core/somaxconn"),
        ("syn-backlog", "proc/sys/net/ipv4/tcp_max_syn_backlog"),
        ("device-backlog", "proc/sys/net/core/netdev_max_backlog"),
    ] {
        laid.write(path, "128");
        laid.is(name, Warning, "128");
    }
    laid.is("conntrack", Good, "not loaded");
    for (most, now, status) in
        [(262_144, 9, Good), (8_192, 9, Warning), (100_000, 60_000, Warning), (100_000, 95_000, Bad)]
    {
        laid.write("proc/sys/net/netfilter/nf_conntrack_max", &most.to_string());
        laid.write("proc/sys/net/netfilter/nf_conntrack_count", &now.to_string());
        laid.is("conntrack", status, &format!("{now} of {most}"));
    }
}

#[test]
fn memory_and_disk() {
    let mut laid = Laid::new();
    laid.is("memory", Good, "4.0 GiB of 8.0 GiB available");
    let set_memory = |available: u64, swapped: u64| {
        let free = 1_048_576 - swapped;
        laid.write(
            "proc/meminfo",
            &format!(
                "MemTotal: 8388608 kB\nMemAvailable: {available} kB\nSwapTotal: 1048576 kB\nSwapFree: \
                {free} kB\n"
            ),
        );
    };
    set_memory(900_000, 10_000);
    laid.is("memory", Warning, "878 MiB");
    laid.is("swap", Good, "9 MiB in use");
    set_memory(100_000, 100_000);
    laid.is("memory", Bad, "97 MiB");
    laid.is("swap", Warning, "97 MiB in use");
    laid.write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never");
    laid.is("huge-pages", Warning, "always");
    for (free, status) in [(2 << 30, Good), (1 << 28, Warning), (1 << 20, Bad)] {
        laid.host.disk_free = Some(free);
        laid.is("disk", status, "free for results");
    }
}

#[test]
fn this_host_can_be_checked() {
    let scratch = tempfile::tempdir().expect("a directory");
    let host = here(&scratch.path().join("not/there/yet"));
    assert!(!host.allowed.is_empty() && host.disk_free.is_some() && host.clock_ns > 0, "{host:?}");
    let snapshot = Snapshot::take(&host.root).expect("procfs");
    assert!(whole(&host, Some((&snapshot, &snapshot)), None).items.iter().any(|item| item.status == Good));
    let (start, end) = (at(Moment::Start, scratch.path()), at(Moment::End, scratch.path()));
    let has = |look: &HostLook| look.items.iter().any(|item| item.name == "load-average");
    assert!(has(&start) && !has(&end));
    assert_eq!(start.items.len(), end.items.len() + 1);
}

#[test]
fn commands_in_advice_fit_the_user() {
    let advice = |host: &Host| {
        let look = whole(host, None, None);
        let item = look.items.into_iter().find(|item| item.name == "huge-pages").expect("checked");
        item.advice.expect("there is something to do")
    };
    let mut laid = Laid::new();
    laid.write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    let of_user = advice(&laid.host);
    laid.host.is_root = true;
    let of_root = advice(&laid.host);
    laid.write("run/.containerenv", "");
    insta::assert_snapshot!([of_user, of_root, advice(&laid.host)].join("\n"));
}
