//! Several generators that send one load together. They begin at one moment, and their results are added up.

use super::host::Host;
use super::remote_generator::{self, Begin};
use super::together::Together;
use hoptax_format::clock::{self, MILLISECOND};
use hoptax_format::merge::merge;
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::LoadSpec;
use hoptax_record::{Failure, GeneratorTrial, Role, RoleUsage, Stage, TrialHost};
use hoptax_run::{Loaded, LocalTraffic, TrialUpdate, WatchedRoles};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

/// Time from the order to begin until all generators begin, ns. The order must reach each of them in this
/// time.
const LEAD_NS: u64 = 100 * MILLISECOND;

/// Multiple of the largest uncertainty of a clock that is added to [`LEAD_NS`]. The uncertainty is half of a
/// round trip, so this is four times the round trip to the farthest host.
const LEAD_PER_UNCERTAINTY: u64 = 8;

/// One of the generators, and its part of the load.
pub(super) struct Generator {
    /// Name of its host.
    pub(super) name: String,
    /// Absent for our own host.
    pub(super) host: Option<Arc<Host>>,
    pub(super) spec: LoadSpec,
    /// The roles that it samples.
    pub(super) roles: WatchedRoles,
    /// Whether it is the first generator on its machine, so that its samples of the machine count.
    pub(super) is_first_on_machine: bool,
}

/// What a generator reports.
enum News {
    Accepted(Begin),
    Update(TrialUpdate),
    Ended(Box<Loaded>),
}

/// Sends a load. If one of the generators fails, the others stop.
pub(super) fn load(
    generators: Vec<Generator>,
    local: &LocalTraffic,
    live: bool,
    stop: &AtomicBool,
    report: &mut dyn FnMut(TrialUpdate),
) -> Loaded {
    let lead_ns = lead_ns(&generators);
    let mut together = Together::new(generators.len());
    let mut begins: Vec<Begin> = Vec::new();
    let mut loads: Vec<Loaded> = generators.iter().map(|_| Loaded::default()).collect();
    let mut failed = None;
    thread::scope(|scope| {
        let (sender, news) = mpsc::channel();
        for (index, generator) in generators.iter().enumerate() {
            let sender = sender.clone();
            scope.spawn(move || generator.send(local, live, stop, &|news| drop(sender.send((index, news)))));
        }
        drop(sender);
        for (index, news) in news {
            match news {
                News::Accepted(begin) => begins.push(begin),
                News::Update(update) => {
                    together.add(index, update).into_iter().for_each(&mut *report);
                    if together.are_connected() {
                        let at_ns = clock::now() + lead_ns;
                        begins.drain(..).for_each(|begin| begin(at_ns));
                    }
                }
                News::Ended(loaded) => {
                    if let Some(failure) = &loaded.failed {
                        failed.get_or_insert_with(|| named(failure, &generators[index].name));
                        stop.store(true, Ordering::Relaxed);
                    }
                    loads[index] = *loaded;
                }
            }
        }
    });
    together.end().for_each(report);
    let sum = sum(&generators, loads);
    Loaded { failed: failed.or(sum.failed.clone()), ..sum }
}

/// Time from the decision to begin until the beginning, ns.
fn lead_ns(generators: &[Generator]) -> u64 {
    // The load fails anyway if a host is lost.
    let links = generators.iter().filter_map(|one| one.host.as_ref()?.link().ok());
    let uncertainty_ns = links.map(|link| link.offset().uncertainty_ns).max().unwrap_or(0);
    LEAD_NS + LEAD_PER_UNCERTAINTY * uncertainty_ns
}

impl Generator {
    /// Sends this part of the load.
    fn send(&self, local: &LocalTraffic, live: bool, stop: &AtomicBool, notify: &dyn Fn(News)) {
        let mut accepted = |begin| notify(News::Accepted(begin));
        let mut report = |update| notify(News::Update(update));
        let loaded = match &self.host {
            Some(host) => {
                let (spec, roles) = (&self.spec, self.roles);
                remote_generator::load(host, spec, roles, live, stop, &mut accepted, &mut report)
                    .unwrap_or_else(Loaded::from)
            }
            None => {
                let (sender, start): (Sender<u64>, _) = mpsc::channel();
                accepted(Box::new(move |at_ns| {
                    // If the generator has ended, its result says why.
                    let _ = sender.send(at_ns);
                }));
                local.load_part(&self.spec, &self.roles, stop, start, &mut report)
            }
        };
        notify(News::Ended(Box::new(loaded)));
    }
}

/// The failure of a generator, with the name of its host.
fn named(failure: &Failure, host: &str) -> Failure {
    let (prefix, lost) = (format!("host {host}: "), format!("host {host} "));
    let is_named = failure.message.starts_with(&prefix) || failure.message.starts_with(&lost);
    let message = if is_named { failure.message.clone() } else { prefix + &failure.message };
    Failure { message, ..failure.clone() }
}

/// The results of all generators together. For each machine, only the samples of its first generator count.
fn sum(generators: &[Generator], loads: Vec<Loaded>) -> Loaded {
    let mut sum = Loaded::default();
    let mut records: Vec<LoadRecord> = Vec::new();
    let mut usages = Vec::new();
    for (index, (generator, loaded)) in generators.iter().zip(loads).enumerate() {
        let Loaded { record: Some(record), usage, .. } = loaded else { continue };
        sum.generators.push(GeneratorTrial::new(&generator.name, &record, usage.generator.clone()));
        records.push(record);
        sum.usage.gateway = sum.usage.gateway.take().or(usage.gateway);
        sum.usage.upstream = sum.usage.upstream.take().or(usage.upstream);
        usages.extend(usage.generator);
        if index == 0 {
            (sum.usage.host, sum.usage.network) = (usage.host, usage.network);
        } else {
            let served = [
                Some(Role::Generator),
                generator.roles.gateway.map(|_| Role::Gateway),
                generator.roles.upstream.map(|_| Role::Upstream),
            ];
            let roles: Vec<Role> = served.into_iter().flatten().collect();
            let host = TrialHost {
                network_roles: roles.clone(),
                roles,
                usage: generator.is_first_on_machine.then_some(usage.host),
                network: usage.network,
            };
            sum.usage.hosts.insert(generator.name.clone(), host);
        }
    }
    sum.usage.generator = usages.into_iter().reduce(add);
    match merge(&records) {
        Ok(record) => sum.record = record,
        Err(error) => {
            let message = format!("the records of the generators cannot be added up: {error}");
            sum.failed = Some(Failure::new(Stage::Trial, message));
        }
    }
    sum
}

/// Adds the resource use of two processes. Their CPUs may be on different machines, so only the CPUs of the
/// first process are kept.
fn add(one: RoleUsage, other: RoleUsage) -> RoleUsage {
    let both = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one + other);
    RoleUsage {
        cpu_ns: one.cpu_ns + other.cpu_ns,
        processes: one.processes + other.processes,
        threads: one.threads + other.threads,
        rss_bytes_max: one.rss_bytes_max + other.rss_bytes_max,
        pss_bytes_max: both(one.pss_bytes_max, other.pss_bytes_max),
        cpu_ns_by_window: by_window(one.cpu_ns_by_window, &other.cpu_ns_by_window),
        rss_bytes_by_window: by_window(one.rss_bytes_by_window, &other.rss_bytes_by_window),
        rss_bytes_before: both(one.rss_bytes_before, other.rss_bytes_before),
        // The limit that throttled longest counts.
        throttled_ns: one.throttled_ns.max(other.throttled_ns),
        cpus_allowed: one.cpus_allowed,
        busy_threads: one.busy_threads.zip(other.busy_threads).map(|(one, other)| one + other),
        waiting_ns: both(one.waiting_ns, other.waiting_ns),
        generates_code: one.generates_code || other.generates_code,
    }
}

fn by_window(mut one: Vec<u64>, other: &[u64]) -> Vec<u64> {
    one.resize(one.len().max(other.len()), 0);
    one.iter_mut().zip(other).for_each(|(one, other)| *one += other);
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up_by_window() {
        let one = RoleUsage {
            cpu_ns: 5,
            processes: 1,
            pss_bytes_max: Some(10),
            cpu_ns_by_window: vec![1, 2],
            throttled_ns: Some(4),
            cpus_allowed: vec![3],
            busy_threads: Some(2),
            ..RoleUsage::default()
        };
        let other = RoleUsage { cpu_ns_by_window: vec![1, 1, 3], throttled_ns: None, ..one.clone() };
        let sum = add(one, other);
        assert_eq!((sum.cpu_ns, sum.processes, sum.pss_bytes_max), (10, 2, Some(20)));
        assert_eq!((sum.cpu_ns_by_window, sum.throttled_ns), (vec![2, 3, 3], Some(4)));
        assert_eq!((sum.cpus_allowed, sum.busy_threads), (vec![3], Some(4)));
    }

    #[test]
    fn a_failure_names_its_host_once() {
        let failure = |message: &str| Failure {
            stage: Stage::Trial,
            message: message.into(),
            detail: "last line".into(),
        };
        for (message, expected) in [
            ("the generator ended without a record", "host b: the generator ended without a record"),
            ("host b: `ssh b` was killed", "host b: `ssh b` was killed"),
        ] {
            assert_eq!(named(&failure(message), "b"), failure(expected));
        }
    }
}
