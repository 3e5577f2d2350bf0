//! Which role each thread of a trace belongs to, and when each role finished with requests.

use super::timeline::{IDLE, Timeline};
use hoptax_format::moments::{Moment, Moments};
use hoptax_record::Role;
use hoptax_record::tail::{Holder, SwitchTrace};
use std::collections::BTreeMap;

/// Kinds of kernel threads. Such a thread's name is the kind, a `/`, and the number of a CPU or the name of a
/// queue.
const OF_KERNEL: [&str; 6] = ["kworker", "ksoftirqd", "migration", "cpuhp", "irq", "idle_inject"];

/// Two requests that were sent within this time may arrive in the other order by chance, ns. Only a larger
/// difference shows that something delayed one of them.
const OVERTAKING_NS: u64 = 100_000;

/// To find requests that were sent earlier but arrived later, at most this many later arrivals are searched.
const MOST_AHEAD: usize = 256;

/// The roles of threads, and their names.
#[derive(Debug, Default)]
pub(super) struct Cast {
    roles: BTreeMap<u32, Role>,
    generator: Vec<u32>,
    gateway: Vec<u32>,
    upstream: Vec<u32>,
    names: BTreeMap<u32, String>,
    holders: BTreeMap<u32, Holder>,
}

impl Cast {
    pub(super) fn new(trace: &SwitchTrace, moments: &Moments) -> Self {
        let mut cast = Self::default();
        for (&thread, seen) in &trace.threads {
            let process = seen.process.unwrap_or(thread);
            let role = if process == moments.process {
                Some(Role::Generator)
            } else if trace.gateway.contains(&process) {
                Some(Role::Gateway)
            } else if trace.upstream.contains(&process) {
                Some(Role::Upstream)
            } else {
                None
            };
            match role {
                Some(Role::Generator) => cast.generator.push(thread),
                Some(Role::Gateway) => cast.gateway.push(thread),
                Some(Role::Upstream) => cast.upstream.push(thread),
                None => {}
            }
            cast.roles.extend(role.map(|role| (thread, role)));
            cast.names.insert(thread, format!("{} {thread}", seen.name));
            // The name of a program is the name of its first thread.
            let named = trace.threads.get(&process).filter(|first| !first.name.is_empty()).unwrap_or(seen);
            let other = || Holder::Other(program(&named.name));
            cast.holders.insert(thread, role.map_or_else(other, Holder::Role));
        }
        cast
    }

    pub(super) fn role(&self, thread: u32) -> Option<Role> {
        self.roles.get(&thread).copied()
    }

    pub(super) fn threads(&self, role: Role) -> &[u32] {
        match role {
            Role::Generator => &self.generator,
            Role::Gateway => &self.gateway,
            Role::Upstream => &self.upstream,
        }
    }

    /// Name and id of a thread.
    pub(super) fn name(&self, thread: u32) -> String {
        self.names.get(&thread).cloned().unwrap_or_else(|| thread.to_string())
    }

    /// The role or program to which this thread belongs. `None` for the idle thread.
    pub(super) fn holder(&self, thread: u32) -> Option<Holder> {
        let unknown = || Holder::Other(format!("thread {thread}"));
        (thread != IDLE).then(|| self.holders.get(&thread).cloned().unwrap_or_else(unknown))
    }
}

/// The name of a program, or of a kind of thread of the kernel: `kworker` for `kworker/0:1-events`.
fn program(name: &str) -> String {
    let kind = name.split_once('/').map(|(kind, _)| kind).filter(|kind| OF_KERNEL.contains(kind));
    kind.unwrap_or(name).to_owned()
}

/// When each role had finished its part of a request, for all requests.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    generator: BTreeMap<u32, Vec<u64>>,
    gateway: Vec<u64>,
    upstream: Vec<u64>,
    /// For each request, when the upstream received it and when the generator sent it.
    received: Vec<(u64, u64)>,
    /// For each worker of the generator and each response: when it was complete, and when the upstream sent
    /// it.
    completed: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Outputs {
    pub(super) fn new(moments: &Moments) -> Self {
        let mut outputs = Self::default();
        for one in &moments.requests {
            outputs.generator.entry(one.thread).or_default().extend([one.sent, one.completed]);
            outputs.gateway.extend([one.received, one.completed]);
            outputs.upstream.push(one.replied);
            outputs.received.push((one.received, one.sent));
            outputs.completed.entry(one.thread).or_default().push((one.completed, one.replied));
        }
        let Self { generator, gateway, upstream, received, completed } = &mut outputs;
        generator.values_mut().chain([gateway, upstream]).for_each(|times| times.sort_unstable());
        completed.values_mut().chain([received]).for_each(|times| times.sort_unstable());
        outputs
    }

    /// The last moment between `from` and `to` at which this thread finished its part of a request.
    pub(super) fn last(
        &self,
        timeline: &Timeline,
        role: Role,
        thread: u32,
        from: u64,
        to: u64,
    ) -> Option<u64> {
        let times = match role {
            Role::Generator => self.generator.get(&thread)?,
            Role::Gateway => &self.gateway,
            Role::Upstream => &self.upstream,
        };
        let end = times.partition_point(|time| *time < to);
        let inside = times[..end].iter().rev().take_while(|time| **time > from);
        inside.copied().find(|time| timeline.runs_at(thread, *time))
    }
}

impl Outputs {
    /// The last moment at which a request that was sent later overtook this one on its way to the upstream.
    pub(super) fn overtaken_there(&self, one: &Moment) -> Option<u64> {
        overtaken(&self.received, one.received, one.sent)
    }

    /// The moment until which the gateway, or the upstream, was busy with requests that had been sent before
    /// `since`. It is the last arrival of such a request at the upstream up to `until`, or shortly
    /// afterwards.
    pub(super) fn busy_until(&self, since: u64, until: u64) -> Option<u64> {
        let first = self.received.partition_point(|(received, _)| *received <= since);
        let arrivals =
            self.received[first..].iter().take_while(|(received, _)| *received <= until + OVERTAKING_NS);
        arrivals.take(MOST_AHEAD).filter(|(_, sent)| *sent < since).map(|(received, _)| *received).last()
    }

    /// The last moment at which a response that was sent later overtook this one on its way back.
    pub(super) fn overtaken_back(&self, one: &Moment) -> Option<u64> {
        overtaken(self.completed.get(&one.thread)?, one.completed, one.replied)
    }
}

/// The last arrival before `arrived` that was sent clearly later than `sent`.
fn overtaken(arrivals: &[(u64, u64)], arrived: u64, sent: u64) -> Option<u64> {
    let end = arrivals.partition_point(|(at, _)| *at < arrived);
    let since = arrivals[..end].iter().rev().take_while(|(at, _)| *at > sent);
    since.copied().find(|(_, other)| *other > sent + OVERTAKING_NS).map(|(at, _)| at)
}

/// The moments at which a worker of the generator had a free connection again.
#[derive(Debug)]
pub(super) struct Busy {
    /// For each worker, the moments at which a connection became free while all were busy.
    freed: BTreeMap<u32, Vec<u64>>,
}

impl Busy {
    /// The load can have `concurrency` requests in flight.
    pub(super) fn new(moments: &Moments, concurrency: u32) -> Self {
        let mut changes: BTreeMap<u32, Vec<(u64, i64)>> = BTreeMap::new();
        for one in &moments.requests {
            changes.entry(one.thread).or_default().extend([(one.sent, 1), (one.completed, -1)]);
        }
        let each = i64::from(concurrency) / (changes.len().max(1) as i64);
        let freed = |mut changes: Vec<(u64, i64)>| {
            changes.sort_unstable();
            let mut open = 0;
            let freed = changes.into_iter().filter_map(|(at, change)| {
                let was_full = open >= each;
                open += change;
                (change < 0 && was_full).then_some(at)
            });
            freed.collect()
        };
        Self { freed: changes.into_iter().map(|(thread, changes)| (thread, freed(changes))).collect() }
    }

    /// The moment until which a request of this worker waited for a connection. `None` if it did not wait.
    pub(super) fn until(&self, thread: u32, from: u64, to: u64) -> Option<u64> {
        let freed = self.freed.get(&thread)?;
        let last = *freed[..freed.partition_point(|at| *at <= to)].last()?;
        (last > from).then_some(last)
    }
}
