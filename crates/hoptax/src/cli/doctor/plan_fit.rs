//! Checks that this host can run a plan.

use hoptax_host::probe::fitness::Host;
use hoptax_lab::limits::{self, Limits, RoleLimits};
use hoptax_lab::packs::{PackSet, binary};
use hoptax_lab::{cpus, descriptors};
use hoptax_plan::{CpuPlan, GatewayKind, Idle, Plan, Upstream};
use hoptax_record::{Fitness, FitnessStatus};
use hoptax_run::schedule;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

/// Size of a trial on disk without its windows, in bytes. This consists of counts, and of compressed
/// histograms of the whole trial.
const BYTES_PER_TRIAL: u64 = 8 * 1024;
/// Size of one window (100 ms) on disk, in bytes. A window consists of a sparse histogram, and of the CPU
/// time and memory of each role.
const BYTES_PER_WINDOW: u64 = 512;
/// Windows per second.
const WINDOWS: f64 = 10.0;

/// All checks, in the order of the output.
pub(super) fn items(plan: &Plan, packs: &PackSet, host: &Host) -> Vec<Fitness> {
    let mut measured = plan.clone();
    if !plan.is_local() {
        return vec![elsewhere(plan), takes(&measured), room(&measured, host.disk_free)];
    }
    let limits = Limits { descriptors: descriptors::limit(), ports: host.local_ports() };
    let limits = RoleLimits::on_one_machine(limits);
    let connections = connections(&mut measured, packs, limits);
    vec![
        connections,
        ports(plan, host),
        roles(plan, &host.allowed, idle(plan, host)),
        installed(plan, packs),
        upstream_ports(plan),
        takes(&measured),
        room(&measured, host.disk_free),
    ]
}

/// Says that the other checks are left out, because the plan runs on other hosts.
fn elsewhere(plan: &Plan) -> Fitness {
    let roles: Vec<String> =
        plan.each_role().into_iter().map(|(role, host)| format!("{role} on {host}")).collect();
    let message = "This machine says nothing about the limits, CPUs and gateways of other hosts.";
    let advice = "`hoptax hosts PLAN` reaches every host of the plan and checks it.";
    item("hosts", FitnessStatus::Unknown, roles.join(", "), message, advice)
}

fn item(name: &str, status: FitnessStatus, seen: String, message: &str, advice: &str) -> Fitness {
    let advice = (!advice.is_empty()).then(|| advice.to_owned());
    Fitness { name: name.into(), status, seen, message: message.into(), advice }
}

fn good(name: &str, seen: String) -> Fitness {
    item(name, FitnessStatus::Good, seen, "", "")
}

fn most_connections(plan: &Plan) -> u32 {
    plan.load.iter().map(|point| point.connections).max().unwrap_or(0)
}

/// Checks that the limits of open files and of ports allow the connections of every load point. Marks those
/// that a run would leave out. `hoptax check` does the same check.
fn connections(plan: &mut Plan, packs: &PackSet, limits: RoleLimits) -> Fitness {
    let seen = format!("{} at most", most_connections(plan));
    match limits::leave_out(plan, packs, limits) {
        Ok(lines) if lines.is_empty() => good("connections", seen),
        Ok(lines) => item("connections", FitnessStatus::Warning, seen, &format!("{}.", lines.join(". ")), ""),
        Err(error) => item("connections", FitnessStatus::Bad, seen, &error.to_string(), ""),
    }
}

/// Checks that there are enough local ports. Each connection to the same destination needs a local port of
/// its own, and each source address has a separate range of ports.
fn ports(plan: &Plan, host: &Host) -> Fitness {
    let Some(ports) = host.local_ports() else {
        let message = "The range of local ports (net.ipv4.ip_local_port_range) cannot be read.";
        return item("source-ports", FitnessStatus::Unknown, "unknown".into(), message, "");
    };
    let sources = plan.sources.len().max(1) as u64;
    let connections = u64::from(most_connections(plan));
    let seen = format!("{connections} of {}", ports * sources);
    if connections > ports * sources {
        let message = "The plan has more connections than the source addresses have ports, so further \
                       connection attempts fail.";
        let advice = "Give the generator more addresses (`sources: [127.0.0.2, 127.0.0.3]`), or widen \
                      net.ipv4.ip_local_port_range.";
        let some_fit = plan.load.iter().any(|point| u64::from(point.connections) <= ports * sources);
        let status = if some_fit { FitnessStatus::Warning } else { FitnessStatus::Bad };
        return item("source-ports", status, seen, message, advice);
    }
    if connections > ports {
        let message = "A gateway connects to its upstream from one address, which has fewer ports than the \
            plan has connections.";
        let advice = "Widen net.ipv4.ip_local_port_range.";
        return item("source-ports", FitnessStatus::Warning, seen, message, advice);
    }
    good("source-ports", seen)
}

/// How idle CPUs behave during a run of `plan`.
fn idle(plan: &Plan, host: &Host) -> Idle {
    plan.idle.unwrap_or(if host.can_poll.is_ok() { Idle::Poll } else { Idle::Sleep })
}

/// Checks the CPUs that the plan assigns to roles. These CPUs must exist, and no two roles should share a
/// CPU.
fn roles(plan: &Plan, allowed: &[u32], idle: Idle) -> Fitness {
    const NAME: &str = "roles";
    let sets = cpus::resolve(plan, allowed, idle);
    let named = [("generator", &sets.generator), ("gateway", &sets.gateway), ("upstream", &sets.upstream)];
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let shown = named.map(|(role, cpus)| match cpus.is_empty() {
        true => format!("{role} not pinned"),
        false => format!("{role} on {}", list(cpus)),
    });
    let seen = shown.join(", ");
    let all = named.iter().flat_map(|(_, cpus)| cpus.iter()).copied();
    let absent: Vec<u32> = all.filter(|cpu| !allowed.contains(cpu)).collect();
    if !absent.is_empty() {
        let message =
            format!("The plan uses CPU {}, which is not available to hoptax on this machine.", list(&absent));
        let advice = format!("Use CPUs {}, or `cpus: auto`.", list(allowed));
        return item(NAME, FitnessStatus::Bad, seen, &message, &advice);
    }
    let overlap = |a: &[u32], b: &[u32]| a.is_empty() || b.is_empty() || a.iter().any(|cpu| b.contains(cpu));
    if overlap(&sets.generator, &sets.gateway)
        || overlap(&sets.gateway, &sets.upstream)
        || overlap(&sets.generator, &sets.upstream)
    {
        let message = "Roles share CPUs: they wait for each other, and the waiting counts as tax.";
        let advice = match plan.cpus {
            CpuPlan::Auto => {
                "`cpus: auto` separates the roles on 4 CPUs or more. On fewer CPUs, keep the load well below \
                 saturation."
            }
            CpuPlan::Pinned(_) => "Give each role its own CPUs.",
        };
        return item(NAME, FitnessStatus::Warning, seen, message, advice);
    }
    good(NAME, seen)
}

/// Checks that every gateway of the plan is installed.
fn installed(plan: &Plan, packs: &PackSet) -> Fitness {
    let named = plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::Pack { pack, driver, .. } => packs.get(pack).map(|pack| (pack, driver)),
        _ => None,
    });
    let named: BTreeMap<String, _> =
        named.map(|(pack, driver)| (binary::name_of(pack, driver), binary::missing(pack, driver))).collect();
    let missing: Vec<&str> =
        named.iter().filter(|(_, ways)| !ways.is_empty()).map(|(name, _)| name.as_str()).collect();
    if missing.is_empty() {
        let seen = if named.is_empty() { "none needed" } else { "all installed" };
        let replacements = plan.replacements.iter();
        let replaced = replacements.map(|one| format!(", {} instead of {}", one.gateway, one.instead_of));
        return good("packs", seen.to_owned() + &replaced.collect::<String>());
    }
    let how: Vec<String> =
        missing.iter().filter_map(|name| Some(format!("{name}: {}", named.get(*name)?.first()?))).collect();
    let seen = format!("{} not installed", missing.join(", "));
    let advice = format!("{}. Or run with --skip-missing.", how.join("; "));
    item("packs", FitnessStatus::Bad, seen, "`hoptax run` does not start if a gateway is missing.", &advice)
}

/// Checks that the plan's ports for the built-in upstream are free.
fn upstream_ports(plan: &Plan) -> Fitness {
    const NAME: &str = "upstream-port";
    let Upstream::BuiltIn(upstream) = &plan.upstream else {
        return good(NAME, "not needed: the upstream already runs".to_owned());
    };
    if !upstream.listen.is_ports() {
        return good(NAME, "not needed: the upstream listens on a Unix socket".to_owned());
    }
    let Some(first) = upstream.port else { return good(NAME, "chosen by the kernel".to_owned()) };
    let wanted = (0..upstream.instances).filter_map(|index| u16::try_from(u32::from(first) + index).ok());
    let taken: Vec<String> = wanted
        .filter(|&port| TcpListener::bind(("127.0.0.1", port)).is_err())
        .map(|port| port.to_string())
        .collect();
    if taken.is_empty() {
        return good(NAME, format!("{first} is free"));
    }
    let message = "Another process listens on the port of the built-in upstream.";
    let advice = "Stop that process (`ss -ltnp` of iproute2 shows it), or choose another `upstream.port`.";
    item(NAME, FitnessStatus::Bad, format!("{} in use", taken.join(", ")), message, advice)
}

fn takes(plan: &Plan) -> Fitness {
    let text =
        |time: Duration| humantime::format_duration(Duration::from_secs(time.as_secs().max(1))).to_string();
    let (fewest, most) = (schedule::estimate(plan), schedule::estimate_at_most(plan));
    let shown = match most.filter(|most| *most > fewest) {
        None => text(most.unwrap_or(fewest)),
        Some(most) => format!("{} to {}", text(fewest), text(most)),
    };
    good("takes-about", shown)
}

/// Checks that the disk has space for the results. The estimated size of the results is right within a factor
/// of about two.
fn room(plan: &Plan, free: Option<u64>) -> Fitness {
    let contenders = plan.gateways.len() as u64 + 2;
    let rounds = u64::from(schedule::expected_rounds(plan));
    let of_point = |seconds: f64| BYTES_PER_TRIAL + (seconds * WINDOWS).ceil() as u64 * BYTES_PER_WINDOW;
    let points = plan.load.iter().filter(|point| point.left_out.is_none());
    let points: u64 = points.map(|point| of_point(point.duration.as_secs_f64())).sum();
    let bytes = points * rounds * contenders;
    let seen = format!("about {} MiB", bytes.div_ceil(1 << 20));
    match free {
        Some(free) if bytes > free => {
            let message = "The disk of the results directory has less free space. A run ends when a trial \
                cannot be written.";
            let advice = "Free some disk space, or choose another disk with --out.";
            item("results", FitnessStatus::Bad, seen, message, advice)
        }
        _ => good("results", seen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_lab::fake;
    use hoptax_plan::{CpuSets, Gateway};

    fn plan() -> Plan {
        let kind = GatewayKind::Hop(hoptax_plan::HopKind::L7);
        fake::plan(vec![Gateway { label: "hop-l7".into(), kind }], 50)
    }

    fn packs() -> PackSet {
        PackSet::load(None).expect("the packs are right")
    }

    #[test]
    fn connections_beyond_descriptors_are_bad() {
        let limits = RoleLimits::on_one_machine(Limits { descriptors: 20_000, ports: None });
        let mut plan = plan();
        assert_eq!(connections(&mut plan, &packs(), limits).status, FitnessStatus::Good);
        let large = hoptax_plan::LoadPoint { connections: 15_000, ..plan.load[0].clone() };
        plan.load.push(large.clone());
        let item = connections(&mut plan, &packs(), limits);
        assert_eq!(item.status, FitnessStatus::Warning, "the other load point is measured");
        assert!(item.message.contains(" 15000 "), "{item:?}");
        plan.load = vec![large];
        let item = connections(&mut plan, &packs(), limits);
        assert_eq!(item.status, FitnessStatus::Bad);
        assert!(item.message.contains("hop-l7 would need"), "{item:?}");
    }

    #[test]
    fn shared_cpus_are_a_warning_and_unavailable_cpus_are_bad() {
        let mut plan = plan();
        assert_eq!(roles(&plan, &[0, 1], Idle::Sleep).status, FitnessStatus::Warning);
        let apart = roles(&plan, &[0, 1, 2, 3], Idle::Sleep);
        assert_eq!(apart.status, FitnessStatus::Good);
        insta::assert_snapshot!(apart.seen);
        plan.cpus = CpuPlan::Pinned(CpuSets { generator: vec![0], gateway: vec![1], upstream: vec![1, 9] });
        let item = roles(&plan, &[0, 1, 2, 3], Idle::Sleep);
        assert_eq!(item.status, FitnessStatus::Bad);
        assert!(item.message.contains("CPU 9"), "{item:?}");
        assert_eq!(roles(&plan, &[0, 1, 9], Idle::Sleep).status, FitnessStatus::Warning);
    }

    #[test]
    fn a_taken_port_is_bad() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("bound").port();
        let mut plan = plan();
        insta::assert_snapshot!(upstream_ports(&plan).seen);
        let Upstream::BuiltIn(upstream) = &mut plan.upstream else { panic!("it is built in") };
        (upstream.port, upstream.instances) = (Some(port), 1);
        let item = upstream_ports(&plan);
        assert_eq!((item.status, item.seen), (FitnessStatus::Bad, format!("{port} in use")));
    }

    #[test]
    fn results_need_disk_space() {
        let plan = plan();
        assert_eq!(room(&plan, Some(1 << 40)).status, FitnessStatus::Good);
        assert_eq!(room(&plan, None).status, FitnessStatus::Good);
        assert_eq!(room(&plan, Some(1000)).status, FitnessStatus::Bad);
    }

    #[test]
    fn packs_that_are_not_installed_are_bad() {
        assert_eq!(installed(&plan(), &packs()).seen, "none needed");
        let scratch = tempfile::tempdir().expect("a directory");
        let folder = scratch.path().join("nowhere");
        std::fs::create_dir_all(&folder).expect("made");
        let manifest = "name: nowhere\nsummary: a test\nbinary: no-such-program-here\n\
                        version: { command: [\"{{ binary }}\", -v], pattern: 'v(.+)' }\n\
                        start: [\"{{ binary }}\"]\nready: { path: / }\naccess_log: file\n";
        std::fs::write(folder.join("gateway.yaml"), manifest).expect("written");
        let packs = PackSet::load(Some(scratch.path())).expect("the pack is right");
        let plan = fake::plan(vec![fake::pack_gateway("nowhere", "nowhere", 1, Vec::new())], 50);
        let item = installed(&plan, &packs);
        assert_eq!((item.status, &*item.seen), (FitnessStatus::Bad, "nowhere not installed"));
    }

    #[test]
    fn more_connections_than_ports_need_more_source_addresses() {
        let root = tempfile::tempdir().expect("a directory");
        let directory = root.path().join("proc/sys/net/ipv4");
        std::fs::create_dir_all(&directory).expect("made");
        std::fs::write(directory.join("ip_local_port_range"), "1000\t1039\n").expect("written");
        let host = Host { root: root.path().into(), ..hoptax_host::probe::fitness::here(root.path()) };
        let mut plan = plan();
        plan.load[0].connections = 41;
        assert_eq!(ports(&plan, &host).status, FitnessStatus::Bad);
        plan.sources =
            vec!["127.0.0.2".parse().expect("an address"), "127.0.0.3".parse().expect("an address")];
        assert_eq!(ports(&plan, &host).status, FitnessStatus::Warning);
        plan.load[0].connections = 40;
        assert_eq!(ports(&plan, &host).status, FitnessStatus::Good);
    }
}
