//! Follows a request backwards: from the thread that finished with it, to the thread that woke this one, and
//! so on until the request was due. Each nanosecond gets one cause.

use super::cast::{Busy, Cast, Outputs};
use super::timeline::{Span, Timeline};
use hoptax_format::moments::Moment;
use hoptax_record::Role;
use hoptax_record::tail::{Doing, TailCause, TailKind};

/// Longest time between a sender's time stamp and the moment when it wakes the receiver, ns. A later wake-up
/// had another reason.
const SENDING_NS: u64 = 200_000;

/// Rough upper bound of the time that a role needs for a request after another one, ns. The trace does not
/// show when the role began with the second request.
const OWN_NS: u64 = 100_000;

/// What a pass recorded.
pub(super) struct Evidence<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) cast: &'a Cast,
    pub(super) outputs: &'a Outputs,
    pub(super) busy: &'a Busy,
    pub(super) has_gateway: bool,
}

/// A stretch of a request's time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    from: u64,
    to: u64,
    cause: TailCause,
    /// The CPU that the thread had or waited for.
    cpu: Option<u32>,
}

pub(super) fn cause(kind: TailKind, role: Option<Role>) -> TailCause {
    TailCause { kind, role, holder: None }
}

/// The causes of a request's time, from when it was due, with their times in ns. They add up to its response
/// time.
pub(super) fn explain(evidence: &Evidence<'_>, one: &Moment) -> Vec<(TailCause, u64)> {
    let mut walk = Walk { evidence, pieces: Vec::new() };
    let Moment { scheduled, sent, received, replied, completed, thread } = *one;
    let (sent, received) = (sent.clamp(scheduled, completed), received.clamp(scheduled, completed));
    let replied = replied.clamp(received, completed);
    let (there, back): (&[Role], &[Role]) = match evidence.has_gateway {
        true => (&[Role::Gateway, Role::Upstream], &[Role::Gateway, Role::Generator]),
        false => (&[Role::Upstream], &[Role::Generator]),
    };
    let back = Route {
        sender: Some(Role::Upstream),
        roles: back,
        overtaken: evidence.outputs.overtaken_back(one),
        busy_until: evidence.outputs.busy_until(replied, completed),
    };
    walk.part(&back, Some(thread), replied, completed);
    let within = Route { sender: None, roles: &[Role::Upstream], overtaken: None, busy_until: None };
    walk.part(&within, walk.upstream_at(replied), received, replied);
    let there = Route {
        sender: Some(Role::Generator),
        roles: there,
        overtaken: evidence.outputs.overtaken_there(one),
        busy_until: evidence.outputs.busy_until(sent, received),
    };
    walk.part(&there, walk.upstream_at(received), sent, received);
    let free = evidence.busy.until(thread, scheduled, sent).unwrap_or(scheduled);
    walk.before_sending(thread, free, sent);
    walk.push(scheduled, free, cause(TailKind::Connection, Some(Role::Generator)), None);
    walk.finish()
}

struct Walk<'a> {
    evidence: &'a Evidence<'a>,
    /// The pieces, the last one first.
    pieces: Vec<Piece>,
}

impl Walk<'_> {
    fn push(&mut self, from: u64, to: u64, cause: TailCause, cpu: Option<u32>) {
        if to > from {
            self.pieces.push(Piece { from, to, cause, cpu });
        }
    }

    /// The thread of the upstream that took the time stamp `at`.
    fn upstream_at(&self, at: u64) -> Option<u32> {
        let Evidence { timeline, cast, .. } = self.evidence;
        let threads = cast.threads(Role::Upstream);
        let ran = threads.iter().copied().filter(|thread| timeline.runs_at(*thread, at));
        // If several threads run, take the one that started to run last: it probably woke up for this
        // request.
        let since = |thread: &u32| timeline.before(*thread, at).map(|span| span.from);
        ran.max_by_key(since).or_else(|| timeline.last_run(threads, 0, at).map(|(_, thread)| thread))
    }

    /// Follows a part of a request from its end to its start. The sender of `route` finished the part before
    /// at `start`. The roles of `route` then handled the request one after another, and the thread `last`
    /// finished at `end`.
    fn part(&mut self, route: &Route<'_>, last: Option<u32>, start: u64, end: u64) {
        let Some(mut thread) = last else {
            return self.push(start, end, cause(TailKind::Unknown, None), None);
        };
        let mut turn = Turn {
            route,
            index: route.roles.len() - 1,
            sending: false,
            slept: false,
            late: false,
            away: false,
            served_other: false,
        };
        let mut at = end;
        let mut came = self.came(&turn, thread, start, at);
        while at > start {
            if let Some((from, earlier)) = came.filter(|(from, _)| at <= *from) {
                turn.back();
                (thread, at) = (earlier, from.min(at));
                came = self.came(&turn, thread, start, at);
                continue;
            }
            let floor = came.map_or(start, |(from, _)| from);
            let Some(span) = self.evidence.timeline.before(thread, at) else {
                let from = self.evidence.timeline.last_end(thread, at).unwrap_or(0).max(floor);
                self.push(from, at, cause(TailKind::Unknown, Some(turn.role())), None);
                at = from;
                continue;
            };
            (thread, at) = match span.doing {
                Doing::Running => self.running(&mut turn, thread, span, floor, at),
                Doing::Ready => self.ready(&mut turn, thread, span, floor, at),
                Doing::Asleep if came.is_some() => {
                    // The previous role had finished, and nothing shows why this one woke up so late.
                    let from = span.from.max(floor);
                    self.push(from, at, cause(TailKind::Unknown, Some(turn.role())), None);
                    (thread, from)
                }
                Doing::Asleep => self.asleep(&mut turn, thread, span, floor, at),
            };
        }
    }

    /// When this thread received the request that it finished at `at`, and the thread of the previous role
    /// that sent it. `None` if there is no previous role, or if none of its threads ran.
    ///
    /// If the thread slept, the request woke it. If it was awake, it found the request later. In this case,
    /// the request came at the end of the first stretch of work of the previous role. A later stretch counts
    /// if another request overtook this one after the first, or if the thread had nothing to do then.
    fn came(&self, turn: &Turn<'_>, thread: u32, start: u64, at: u64) -> Option<(u64, u32)> {
        let Evidence { timeline, cast, outputs, .. } = self.evidence;
        let before = turn.before()?;
        let (awake, woken_by) = timeline.awake_since(thread, at).unwrap_or((at, None));
        let least = awake.max(turn.route.overtaken.unwrap_or(0)).max(start);
        let output = outputs.last(timeline, turn.role(), thread, least, at);
        let waker = woken_by.filter(|by| awake > start && cast.role(*by) == Some(before));
        if let (Some(waker), None) = (waker, output)
            && least == awake
        {
            return Some((awake, waker));
        }
        let threads = waker.as_ref().map_or(cast.threads(before), std::slice::from_ref);
        let stretches = timeline.awake(threads, start, at);
        let later = stretches.iter().filter(|stretch| stretch.1 > least);
        let mut moments = later.map(|&(begin, end, earlier)| {
            let found = output.filter(|output| *output > begin && *output < end);
            (found.unwrap_or(end).min(at).max(least), earlier)
        });
        let fits = |&(from, _): &(u64, u32)| self.is_found_soon(turn.role(), thread, from, at);
        moments.clone().find(fits).or_else(|| moments.next_back()).or_else(|| {
            let last = stretches.last()?;
            Some((last.1, last.2))
        })
    }

    /// True if a request that came at `came` explains why the thread finished it at `at`: it finished soon,
    /// it had no CPU at first, or it served other requests before.
    fn is_found_soon(&self, role: Role, thread: u32, came: u64, at: u64) -> bool {
        let Evidence { timeline, outputs, .. } = self.evidence;
        let Some(span) = timeline.before(thread, came + 1) else { return true };
        let until = span.to.min(at);
        span.doing != Doing::Running
            || at <= came + SENDING_NS
            || outputs.last(timeline, role, thread, came, until).is_some()
    }

    /// The thread ran. Returns the thread to follow from here, and the moment.
    fn running(&mut self, turn: &mut Turn<'_>, thread: u32, span: Span, floor: u64, at: u64) -> (u32, u64) {
        let Evidence { timeline, outputs, .. } = self.evidence;
        let (from, role) = (span.from.max(floor), turn.role());
        let ran = cause(TailKind::Running, Some(role));
        if turn.sending {
            self.push(from, at, ran, span.cpu);
            return (thread, from);
        }
        let output = outputs.last(timeline, role, thread, from, at);
        if turn.slept {
            // The request waits for an event of its own. What the thread does meanwhile is for other
            // requests.
            turn.away = output.is_some();
            let own = if turn.away { cause(TailKind::Asleep, Some(role)) } else { ran };
            self.push(from, at, own, span.cpu);
            return (thread, from);
        }
        turn.late |= output.is_some();
        let output = output.unwrap_or_else(|| match turn.busy_until() {
            // The role forwarded the other request first, and nothing shows when it had finished.
            Some(until) if until >= at && turn.served_other => at,
            Some(until) if until >= at => at.saturating_sub(OWN_NS).max(from),
            Some(until) => until.max(from),
            None => from,
        });
        turn.served_other |= output > from;
        self.push(output, at, ran, span.cpu);
        self.push(from, output, cause(TailKind::Neighbour, Some(role)), span.cpu);
        (thread, from)
    }

    /// The thread was ready to run.
    fn ready(&mut self, turn: &mut Turn<'_>, thread: u32, span: Span, floor: u64, at: u64) -> (u32, u64) {
        let from = span.from.max(floor);
        if turn.slept && turn.away {
            // The thread was ready to serve another request.
            self.push(from, at, cause(TailKind::Asleep, Some(turn.role())), None);
            return (thread, from);
        }
        self.waited(turn.role(), thread, span.cpu, from, at);
        let Some(by) = span.woken_by.filter(|by| span.from >= floor && *by != thread) else {
            return (thread, from);
        };
        match self.evidence.cast.role(by) {
            Some(role) if role == turn.role() => (by, from),
            // The sender wakes the receiver while it sends.
            Some(role) if turn.is_from(role) && from - floor <= SENDING_NS => {
                turn.sending = true;
                (by, from)
            }
            _ => (thread, from),
        }
    }

    /// The thread slept. A timer, or something that the trace does not show, woke it.
    fn asleep(&mut self, turn: &mut Turn<'_>, thread: u32, span: Span, start: u64, at: u64) -> (u32, u64) {
        let (from, role) = (span.from.max(start), turn.role());
        let was_late = std::mem::take(&mut turn.late);
        // The thread slept when the request came, was not woken for it, and served another request first. So
        // it was busy with the other one.
        let kind = if turn.sending {
            TailKind::Unknown
        } else if span.from <= start && was_late && !turn.slept {
            TailKind::Neighbour
        } else {
            turn.slept = true;
            TailKind::Asleep
        };
        self.push(from, at, cause(kind, Some(role)), None);
        (thread, from)
    }

    /// The time from the moment when a request was due, or had a connection, until it was sent.
    fn before_sending(&mut self, thread: u32, start: u64, end: u64) {
        let Evidence { timeline, outputs, .. } = self.evidence;
        let role = Some(Role::Generator);
        let mut at = end;
        while at > start {
            let Some(span) = timeline.before(thread, at) else {
                return self.push(start, at, cause(TailKind::Unknown, role), None);
            };
            let from = span.from.max(start);
            match span.doing {
                Doing::Running => {
                    let output = outputs.last(timeline, Role::Generator, thread, from, at).unwrap_or(from);
                    self.push(output, at, cause(TailKind::Running, role), span.cpu);
                    self.push(from, output, cause(TailKind::Neighbour, role), span.cpu);
                }
                Doing::Ready => self.waited(Role::Generator, thread, span.cpu, from, at),
                // A timer was late.
                Doing::Asleep => self.push(from, at, cause(TailKind::Nobody, role), None),
            }
            at = from;
        }
    }

    /// Finds out which threads had the CPU while this thread was ready for it.
    fn waited(&mut self, role: Role, thread: u32, cpu: Option<u32>, from: u64, to: u64) {
        let Evidence { timeline, cast, .. } = self.evidence;
        let unknown = cause(TailKind::Unknown, Some(role));
        let Some(cpu) = cpu else { return self.push(from, to, unknown, None) };
        let mut at = to;
        for (begin, end, holder) in timeline.holders(cpu, from, to).into_iter().rev() {
            self.push(end, at, unknown.clone(), None);
            let cause = match cast.holder(holder).filter(|_| holder != thread) {
                Some(holder) => TailCause { kind: TailKind::Waiting, role: Some(role), holder: Some(holder) },
                None => cause(TailKind::Nobody, Some(role)),
            };
            self.push(begin, end, cause, Some(cpu));
            at = begin;
        }
        self.push(from, at, unknown, None);
    }

    /// The causes in order of time. The times at which a CPU stood still become a cause of their own.
    fn finish(mut self) -> Vec<(TailCause, u64)> {
        self.pieces.reverse();
        let mut causes: Vec<(TailCause, u64)> = Vec::new();
        let mut add = |cause: TailCause, ns: u64| match causes.last_mut() {
            _ if ns == 0 => {}
            Some((last, sum)) if *last == cause => *sum += ns,
            _ => causes.push((cause, ns)),
        };
        for Piece { mut from, to, cause: own, cpu } in self.pieces {
            let stalls = cpu.map(|cpu| self.evidence.timeline.stalls(cpu, from, to)).unwrap_or_default();
            for (begin, end) in stalls {
                add(own.clone(), begin - from);
                add(cause(TailKind::Nobody, own.role), end - begin);
                from = end;
            }
            add(own, to - from);
        }
        causes
    }
}

/// The roles that handle a request in one part of its way.
struct Route<'a> {
    /// The role that sent the request at the start of the part. Absent if the part has only one role.
    sender: Option<Role>,
    roles: &'a [Role],
    /// The last moment at which another request overtook this one.
    overtaken: Option<u64>,
    /// The moment until which the first role was busy with another request. Absent if it was not busy when
    /// this one came.
    busy_until: Option<u64>,
}

/// The role that has the request, while the walk goes backwards through a part.
struct Turn<'a> {
    route: &'a Route<'a>,
    index: usize,
    /// True if the walk is at the sender, which is still sending.
    sending: bool,
    /// True if the role has slept since the request came.
    slept: bool,
    /// True if the role served another request since it last woke up.
    late: bool,
    /// True if the role served another request last, while this request waited for an event of its own.
    away: bool,
    /// True if the role served another request before this one.
    served_other: bool,
}

impl Turn<'_> {
    fn role(&self) -> Role {
        match self.route.sender.filter(|_| self.sending) {
            Some(sender) => sender,
            None => self.route.roles[self.index],
        }
    }

    /// The role that had the request before this one.
    fn before(&self) -> Option<Role> {
        Some(self.route.roles[self.index.checked_sub(1)?]).filter(|_| !self.sending)
    }

    /// True if the request came directly from this sender.
    fn is_from(&self, role: Role) -> bool {
        self.index == 0 && self.route.sender == Some(role) && !self.sending
    }

    /// The moment until which the first role was busy with another request. `None` for other roles.
    fn busy_until(&self) -> Option<u64> {
        self.route.busy_until.filter(|_| self.index == 0)
    }

    fn back(&mut self) {
        self.index -= 1;
        self.served_other = false;
        (self.slept, self.late, self.away) = (false, false, false);
    }
}
