//! The thread that takes a sample every 100 ms during a trial.

use super::network::time_wait;
use super::threads::{self, ThreadTimes, Threads};
use super::{HostTimes, Others, Processes, Recent, Sample, Stall, StallWatch, Timeline, Tree};
use crate::Watched;
use hoptax_format::clock;
use hoptax_format::record::WINDOW_NS;
use procfs::{Current as _, LoadAverage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Number of samples between two searches for new members of the watched trees. A search is slow, because it
/// reads [`Processes`].
const SAMPLES_PER_SCAN: u32 = 10;
const SAMPLES_PER_REPORT: u32 = 5;

/// Samples process trees and the host until [`Sampler::finish`].
#[derive(Debug)]
pub struct Sampler {
    orders: Sender<Order>,
    thread: JoinHandle<(Timeline, Seen)>,
    reports: Receiver<Recent>,
    stalls: Option<StallWatch>,
}

/// Observations that are not part of the samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Activity of each tree's threads during the measured time, in the order of the trees given to the
    /// sampler. The list is empty if [`Sampler::align`] was not called when the measured time began.
    pub threads: Vec<Threads>,
    /// Largest number of sockets in TIME_WAIT at one moment.
    pub time_wait_max: u64,
    /// The one-minute load average at the end of the measured time.
    pub load_average: Option<f64>,
    /// CPU time that processes outside of the watched trees used in the measured time. Absent if the measured
    /// time did not end.
    pub others: Option<Others>,
    /// Stalls of the CPUs. Absent if they cannot be measured here.
    pub stalls: Option<Vec<Stall>>,
}

enum Order {
    /// Take a sample at this moment, and then one sample at the end of each window.
    Align(u64),
    /// Take a detailed sample now.
    Look,
}

impl Sampler {
    /// Starts to sample these trees. If `live` is true, the sampler also reports twice a second. Each report
    /// covers the usage over the last second, and needs no extra samples.
    pub fn start(watched: &[Watched], live: bool) -> Self {
        let (orders, inbox) = mpsc::channel();
        let (sender, reports) = mpsc::channel();
        let processes = Processes::now();
        let trees = watched.iter().map(|watched| Tree::new(*watched, &processes)).collect();
        let thread = thread::spawn(move || sample(trees, &inbox, live.then_some(&sender)));
        Self { orders, thread, reports, stalls: StallWatch::begin() }
    }

    /// The latest report of usage; `None` if there is no new report since the last call.
    pub fn recent(&self) -> Option<Recent> {
        self.reports.try_iter().last()
    }

    /// Aligns samples with windows that begin at `start_ns`, so that no value has to be interpolated.
    pub fn align(&self, start_ns: u64) {
        let _ = self.orders.send(Order::Align(start_ns));
    }

    /// Takes a detailed sample now.
    pub fn look(&self) {
        let _ = self.orders.send(Order::Look);
    }

    /// Takes a last sample and returns all observations.
    ///
    /// # Panics
    /// If the sampling thread panicked, which is a bug.
    pub fn finish(self) -> (Timeline, Seen) {
        drop(self.orders);
        let (timeline, seen) = self.thread.join().expect("the sampler does not panic");
        (timeline, Seen { stalls: self.stalls.map(StallWatch::finish), ..seen })
    }
}

fn sample(
    mut trees: Vec<Tree>,
    inbox: &Receiver<Order>,
    sender: Option<&Sender<Recent>>,
) -> (Timeline, Seen) {
    let mut timeline = Timeline::default();
    let mut seen = Seen::default();
    let mut watch: Vec<ThreadWatch> = Vec::new();
    let mut begun = Processes::default();
    let mut looks: u32 = 0;
    let mut due = clock::now();
    loop {
        let wait = Duration::from_nanos(due.saturating_sub(clock::now()));
        let order = match inbox.recv_timeout(wait) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                timeline.samples.push(look(&mut trees, true));
                seen.time_wait_max = seen.time_wait_max.max(time_wait());
                return (timeline, seen);
            }
        };
        due = match order {
            Some(Order::Align(start)) => next_in_step(start, clock::now()),
            Some(Order::Look) => due,
            None => next_in_step(due, clock::now()),
        };
        looks += 1;
        let close = order.is_some();
        let mut processes = None;
        if close || looks.is_multiple_of(SAMPLES_PER_SCAN) {
            let now = processes.insert(Processes::now());
            trees.iter_mut().for_each(|tree| tree.rescan(now));
            seen.time_wait_max = seen.time_wait_max.max(time_wait());
        }
        timeline.samples.push(look(&mut trees, close));
        if let Some(sender) = sender.filter(|_| looks.is_multiple_of(SAMPLES_PER_REPORT)) {
            // Sending fails if the live view has ended.
            let _ = timeline.recent().map(|recent| sender.send(recent));
        }
        let at_ns = clock::now();
        match order {
            Some(Order::Align(_)) => {
                watch = trees.iter().map(|tree| ThreadWatch::begin(tree.threads(at_ns))).collect();
                begun = processes.unwrap_or_default();
            }
            Some(Order::Look) => {
                seen.load_average = LoadAverage::current().ok().map(|load| f64::from(load.one));
                let ended = watch.iter_mut().zip(&trees);
                seen.threads = ended.map(|(watch, tree)| watch.end(tree.threads(at_ns))).collect();
                seen.others = processes.map(|now| now.others_since(&begun, &members(&trees)));
            }
            None => {
                let few = watch.iter_mut().zip(&trees).filter(|(watch, _)| watch.latest.are_few());
                few.for_each(|(watch, tree)| watch.latest.update(tree.threads(at_ns)));
            }
        }
    }
}

/// Process ids of everything that belonged to the watched trees, and of this process.
fn members(trees: &[Tree]) -> BTreeSet<i32> {
    let own = std::process::id() as i32;
    trees.iter().flat_map(Tree::members).chain([own]).collect()
}

/// The threads of one tree, watched since the beginning of the measured time.
struct ThreadWatch {
    begun: ThreadTimes,
    latest: ThreadTimes,
    /// CPUs that each thread could use at the beginning. They are stored because the kernel no longer reports
    /// them after the thread has ended.
    cpus: BTreeMap<i32, Vec<u32>>,
}

impl ThreadWatch {
    fn begin(times: ThreadTimes) -> Self {
        Self { cpus: times.affinities(), latest: times.clone(), begun: times }
    }

    fn end(&mut self, times: ThreadTimes) -> Threads {
        self.latest.update(times);
        let cpus = |tid| self.cpus.get(&tid).cloned().unwrap_or_else(|| threads::affinity(tid));
        threads::between(&self.begun, &self.latest, cpus)
    }
}

impl Sample {
    /// Takes a sample of the host and of these trees now.
    pub fn now(trees: &mut [Tree]) -> Self {
        look(trees, false)
    }
}

fn look(trees: &mut [Tree], close: bool) -> Sample {
    let look = if close { Tree::look_closely } else { Tree::look };
    let at_ns = clock::now();
    let own_ns = clock::process_cpu();
    let (host, steal_by_cpu) = HostTimes::now_with_steal();
    Sample { at_ns, host, steal_by_cpu, own_ns, trees: trees.iter_mut().map(look).collect() }
}

/// Returns the next end of a window after `now`. The first window begins at `start`. If `start` is later than
/// `now`, returns `start` itself.
fn next_in_step(start: u64, now: u64) -> u64 {
    if start > now { start } else { start + ((now - start) / WINDOW_NS + 1) * WINDOW_NS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_from_the_start_of_the_windows() {
        assert_eq!(next_in_step(1_000, 10), 1_000);
        assert_eq!(next_in_step(1_000, 1_000), 1_000 + WINDOW_NS);
        assert_eq!(next_in_step(1_000, 1_001 + 3 * WINDOW_NS), 1_000 + 4 * WINDOW_NS);
    }

    #[test]
    fn watches_this_process() {
        let watched = [Watched { pid: std::process::id(), include_root: true }];
        let sampler = Sampler::start(&watched, true);
        let from = clock::now();
        sampler.align(from);
        let mut busy: u64 = 0;
        while clock::process_cpu() < 60 * clock::MILLISECOND || clock::now() < from + WINDOW_NS {
            busy = busy.wrapping_add(clock::now());
        }
        sampler.look();
        let recent = sampler.recent();
        let (timeline, seen) = sampler.finish();
        let to = clock::now();
        assert!(busy > 0);
        let usage = timeline.usage(0, from, to).expect("more than one look");
        assert!(usage.cpu_ns > 0 && usage.rss_bytes_max > 1_000_000 && usage.threads > 0, "{usage:?}");
        assert!(seen.threads[0].busy >= 1 && !seen.threads[0].cpus_allowed.is_empty(), "{seen:?}");
        assert_eq!(usage.rss_bytes_by_window.len(), usage.cpu_ns_by_window.len());
        assert!(usage.rss_bytes_by_window.iter().all(|&bytes| bytes > 1_000_000), "{usage:?}");
        assert!(seen.load_average.is_some_and(|load| load >= 0.0), "{seen:?}");
        let host = timeline.host(from, to, None);
        assert!(recent.is_none_or(|recent| recent.trees[0].rss_bytes > 1_000_000), "of looks that were made");
        assert!(host.steal + host.foreign + host.idle <= 1.0 + 1e-9, "{host:?}");
    }
}
