//! Traces by hand, in which every microsecond's cause is known. Times are µs after the request was due.

use super::*;
use hoptax_record::report::SlowFigures;
use hoptax_record::tail::{BEAT_NS, Holder, SeenThread, Switch, SwitchEvent, TailKind};

const GENERATOR: u32 = 101;
const GATEWAY: u32 = 201;
const UPSTREAM: u32 = 301;
const KDAMOND: u32 = 50;
const OTHER: u32 = 400;

/// Requests begin here, µs.
const BEGIN: u64 = 1_000_000;

#[derive(Default)]
struct Scene {
    /// Added to all times, µs.
    offset: u64,
    events: Vec<SwitchEvent>,
    moments: Vec<Moment>,
}

impl Scene {
    fn at(offset: u64) -> Self {
        Self { offset: BEGIN + offset, ..Self::default() }
    }

    /// A request at 0, until the gateway wakes up.
    fn sent() -> Self {
        let mut scene = Self::at(0);
        scene.is_sent();
        scene
    }

    fn event(&mut self, us: i64, cpu: u32, what: Switch) {
        let at_ns = self.offset.saturating_add_signed(us) * 1_000;
        self.events.push(SwitchEvent { at_ns, cpu, what });
    }

    /// A thread gets an idle CPU, and leaves it to sleep.
    fn runs(&mut self, cpu: u32, thread: u32, from: i64, to: i64) {
        self.event(from, cpu, Switch::To { from: 0, ready: false, to: thread });
        self.event(to, cpu, Switch::To { from: thread, ready: false, to: 0 });
    }

    fn wakes(&mut self, us: i64, cpu: u32, by: u32, thread: u32) {
        self.event(us, cpu, Switch::Wake { thread, by });
    }

    fn moment(&mut self, times: [u64; 5]) -> Moment {
        let [scheduled, sent, received, replied, completed] = times.map(|us| (self.offset + us) * 1_000);
        let moment = Moment { scheduled, sent, received, replied, completed, thread: GENERATOR };
        self.moments.push(moment);
        moment
    }

    /// The way of a request until the gateway wakes up.
    fn is_sent(&mut self) {
        self.wakes(-4, 0, 0, GENERATOR);
        self.runs(0, GENERATOR, -2, 4);
        self.wakes(3, 0, GENERATOR, GATEWAY);
    }

    /// The rest of the way, if the gateway gets its CPU at `us` after it was due.
    fn is_answered(&mut self, us: i64) -> [u64; 5] {
        self.runs(1, GATEWAY, us, us + 10);
        self.ends(us)
    }

    /// The rest of the way after the gateway's first turn, which began at `us`.
    fn ends(&mut self, us: i64) -> [u64; 5] {
        self.wakes(us + 7, 1, GATEWAY, UPSTREAM);
        self.runs(0, UPSTREAM, us + 9, us + 19);
        self.wakes(us + 16, 0, UPSTREAM, GATEWAY);
        self.runs(1, GATEWAY, us + 18, us + 25);
        self.wakes(us + 23, 1, GATEWAY, GENERATOR);
        self.runs(0, GENERATOR, us + 25, us + 29);
        let after = |more: i64| (us + more) as u64;
        [0, 2, after(11), after(15), after(27)]
    }

    /// A request whose first turn at the gateway began at `us`.
    fn ended(&mut self, us: i64) -> Moment {
        let times = self.ends(us);
        self.moment(times)
    }

    /// Another request, which ends 1 ms after it was received.
    fn neighbour(&mut self, scheduled: i64, sent: i64, received: i64) {
        let ns = |us| self.offset.saturating_add_signed(us) * 1_000;
        let [scheduled, sent, received] = [scheduled, sent, received].map(ns);
        let (replied, completed) = (received, received + 1_000_000);
        self.moments.push(Moment { scheduled, sent, received, replied, completed, thread: GENERATOR });
    }

    fn trace(&self) -> SwitchTrace {
        let mut events = self.events.clone();
        // All CPUs are idle before.
        let at_ns = (self.offset - 10_000) * 1_000;
        let idle = |cpu| SwitchEvent { at_ns, cpu, what: Switch::To { from: 0, ready: false, to: 0 } };
        events.extend([idle(0), idle(1), idle(2)]);
        events.sort_by_key(|event| event.at_ns);
        let thread = |id: u32, name: &str, process: u32| {
            (id, SeenThread { name: name.to_owned(), process: Some(process) })
        };
        SwitchTrace {
            threads: [
                thread(GENERATOR, "worker-0", 100),
                thread(GATEWAY, "nginx", 200),
                thread(UPSTREAM, "hoptax", 300),
                thread(KDAMOND, "kdamond", KDAMOND),
                thread(OTHER, "kworker/1:0", OTHER),
            ]
            .into(),
            events,
            gateway: [200].into(),
            upstream: [300].into(),
            ..SwitchTrace::default()
        }
    }

    fn moments(&self) -> Moments {
        Moments { process: 100, left_out: 0, requests: self.moments.clone() }
    }

    /// The causes of a request, in words, with their times in µs.
    fn explained(&self, one: &Moment, connections: u32) -> String {
        let (trace, moments) = (self.trace(), self.moments());
        let timeline = Timeline::new(&trace);
        let cast = Cast::new(&trace, &moments);
        let (outputs, busy) = (Outputs::new(&moments), Busy::new(&moments, connections));
        let evidence =
            Evidence { timeline: &timeline, cast: &cast, outputs: &outputs, busy: &busy, has_gateway: true };
        let causes = walk::explain(&evidence, one);
        let whole: u64 = causes.iter().map(|(_, ns)| ns).sum();
        assert_eq!(whole, one.response_time(), "{causes:?}");
        let words = causes.iter().map(|(cause, ns)| format!("{} {}", in_words(cause), ns / 1_000));
        words.collect::<Vec<_>>().join(", ")
    }
}

fn in_words(cause: &TailCause) -> String {
    let role = cause.role.map_or("", Role::name);
    match &cause.holder {
        Some(Holder::Role(holder)) => format!("{:?} {role} for {}", cause.kind, holder.name()),
        Some(Holder::Other(holder)) => format!("{:?} {role} for {holder}", cause.kind),
        None => format!("{:?} {role}", cause.kind),
    }
}

/// What follows after the gateway has woken up the upstream.
const REST: &str = "Nobody upstream 2, Running upstream 7, Nobody gateway 2, Running gateway 5, \
                    Nobody generator 2, Running generator 2";

/// What follows after the gateway's first turn has begun.
fn with_rest(first: &str) -> String {
    format!("{first}, Running gateway 7, {REST}")
}

/// The time of a cause, µs.
fn time_of(cause: &str, causes: &str) -> u64 {
    let times = causes.split(", ").filter_map(|one| one.strip_prefix(cause)?.trim().parse::<u64>().ok());
    times.sum()
}

#[test]
fn a_request_on_idle_cpus_is_followed_from_thread_to_thread() {
    let mut scene = Scene::sent();
    let times = scene.is_answered(5);
    let one = scene.moment(times);
    assert_eq!(scene.explained(&one, 8), with_rest("Running generator 3, Nobody gateway 2"));
}

#[test]
fn who_had_the_cpu_is_named() {
    // A kernel thread has the gateway's CPU for 1.2 ms, and is interrupted by another one for 100 µs.
    let mut scene = Scene::sent();
    scene.event(-500, 1, Switch::To { from: 0, ready: false, to: KDAMOND });
    scene.event(400, 1, Switch::To { from: KDAMOND, ready: true, to: OTHER });
    scene.event(500, 1, Switch::To { from: OTHER, ready: false, to: KDAMOND });
    scene.event(1_200, 1, Switch::To { from: KDAMOND, ready: false, to: GATEWAY });
    scene.event(1_210, 1, Switch::To { from: GATEWAY, ready: false, to: 0 });
    let one = scene.ended(1_200);
    let first = "Running generator 3, Waiting gateway for kdamond 397, Waiting gateway for kworker 100, \
                 Waiting gateway for kdamond 700";
    assert_eq!(scene.explained(&one, 8), with_rest(first));
}

#[test]
fn a_preempted_role_waits_for_the_one_that_took_its_cpu() {
    let mut scene = Scene::sent();
    scene.event(5, 1, Switch::To { from: 0, ready: false, to: GATEWAY });
    scene.event(8, 1, Switch::To { from: GATEWAY, ready: true, to: GENERATOR });
    scene.event(58, 1, Switch::To { from: GENERATOR, ready: false, to: GATEWAY });
    scene.event(68, 1, Switch::To { from: GATEWAY, ready: false, to: 0 });
    let one = scene.ended(58);
    let first = "Running generator 3, Nobody gateway 2, Running gateway 3, Waiting gateway for generator 50";
    assert_eq!(scene.explained(&one, 8), with_rest(first));
}

#[test]
fn a_gateway_that_waits_for_a_timer_sleeps() {
    let mut scene = Scene::sent();
    scene.runs(1, GATEWAY, 5, 20);
    // Meanwhile it serves others; a timer then wakes it in the context of another thread.
    scene.wakes(999, 1, 0, GATEWAY);
    scene.runs(1, GATEWAY, 1_000, 1_010);
    let neighbour = [0, 100, 1_005, 1_006, 1_008];
    scene.moment(neighbour);
    scene.wakes(2_000, 0, OTHER, GATEWAY);
    scene.runs(1, GATEWAY, 2_002, 2_012);
    let one = scene.ended(2_002);
    let first = "Running generator 3, Nobody gateway 2, Running gateway 15, Asleep gateway 1980, \
                 Nobody gateway 2";
    assert_eq!(scene.explained(&one, 8), with_rest(first));
}

#[test]
fn a_gateway_that_is_blocked_by_another_request_serves_a_neighbour() {
    // When the request arrives, the gateway sleeps because of the neighbour. It does not wake.
    let mut scene = Scene::at(0);
    scene.wakes(-800, 1, 0, GATEWAY);
    scene.runs(1, GATEWAY, -795, -790);
    scene.wakes(-4, 0, 0, GENERATOR);
    scene.runs(0, GENERATOR, -2, 8);
    scene.wakes(1_000, 1, 0, GATEWAY);
    scene.event(1_002, 1, Switch::To { from: 0, ready: false, to: GATEWAY });
    // It finishes the neighbour at 1,004, and then the request.
    scene.event(1_020, 1, Switch::To { from: GATEWAY, ready: false, to: 0 });
    let mut times = scene.ends(1_010);
    times[1] = 2;
    let one = scene.moment(times);
    scene.neighbour(-900, -850, 1_004);
    let first = "Running generator 2, Neighbour gateway 998, Nobody gateway 2, Neighbour gateway 2, \
                 Running gateway 13";
    assert_eq!(scene.explained(&one, 8), format!("{first}, {REST}"));
}

#[test]
fn a_gateway_that_computes_for_another_request_serves_a_neighbour() {
    // Nothing marks the end of the neighbour's turn, because the upstream had no CPU until both were done.
    let mut scene = Scene::at(0);
    scene.runs(1, GATEWAY, -500, 1_010);
    scene.wakes(-4, 0, 0, GENERATOR);
    scene.runs(0, GENERATOR, -2, 8);
    let one = scene.ended(1_000);
    scene.neighbour(-510, -505, 1_012);
    // The gateway wakes the upstream at 1,007.
    let first = "Running generator 2, Neighbour gateway 905, Running gateway 100, ";
    let causes = scene.explained(&one, 8);
    assert!(causes.starts_with(first), "{causes}");
}

#[test]
fn a_gateway_that_is_interrupted_while_it_computes_still_serves_the_neighbour() {
    let mut scene = Scene::at(0);
    scene.event(-500, 1, Switch::To { from: 0, ready: false, to: GATEWAY });
    scene.event(400, 1, Switch::To { from: GATEWAY, ready: true, to: KDAMOND });
    scene.event(500, 1, Switch::To { from: KDAMOND, ready: false, to: GATEWAY });
    scene.event(1_010, 1, Switch::To { from: GATEWAY, ready: false, to: 0 });
    scene.wakes(-4, 0, 0, GENERATOR);
    scene.runs(0, GENERATOR, -2, 8);
    let one = scene.ended(1_000);
    scene.neighbour(-510, -505, 1_010);
    let causes = scene.explained(&one, 8);
    let first = "Running generator 2, Neighbour gateway 398, Waiting gateway for kdamond 100, \
                 Neighbour gateway 410, Running gateway 100, ";
    assert!(causes.starts_with(first), "{causes}");
}

#[test]
fn a_gateway_that_computes_for_the_request_itself_runs() {
    // An earlier request is on its way when this one comes, and arrives long before the gateway is done.
    let mut scene = Scene::at(0);
    scene.runs(1, GATEWAY, -5, 1_010);
    scene.wakes(-4, 0, 0, GENERATOR);
    scene.runs(0, GENERATOR, -2, 8);
    scene.runs(0, UPSTREAM, 20, 30);
    let one = scene.ended(1_000);
    scene.neighbour(-10, -5, 25);
    let causes = scene.explained(&one, 8);
    assert!((980..=1_000).contains(&time_of("Running gateway", &causes)), "{causes}");
}

/// A request whose upstream sleeps from 20 to 3,000.
fn asleep_upstream() -> (Scene, Moment) {
    let mut scene = Scene::sent();
    scene.runs(1, GATEWAY, 5, 15);
    scene.wakes(12, 1, GATEWAY, UPSTREAM);
    scene.runs(0, UPSTREAM, 14, 20);
    scene.wakes(3_000, 0, 0, UPSTREAM);
    scene.runs(0, UPSTREAM, 3_001, 3_012);
    scene.wakes(3_006, 0, UPSTREAM, GATEWAY);
    scene.runs(1, GATEWAY, 3_008, 3_015);
    scene.wakes(3_013, 1, GATEWAY, GENERATOR);
    scene.runs(0, GENERATOR, 3_015, 3_019);
    let one = scene.moment([0, 2, 16, 3_005, 3_017]);
    (scene, one)
}

#[test]
fn an_upstream_that_waits_for_a_timer_sleeps() {
    let (scene, one) = asleep_upstream();
    let causes = "Running generator 3, Nobody gateway 2, Running gateway 7, Nobody upstream 2, \
                  Running upstream 6, Asleep upstream 2980, Nobody upstream 1, Running upstream 5, \
                  Nobody gateway 2, Running gateway 5, Nobody generator 2, Running generator 2";
    assert_eq!(scene.explained(&one, 8), causes);
}

#[test]
fn a_request_waits_at_an_upstream_that_has_no_cpu_although_the_gateway_goes_on() {
    let mut scene = Scene::sent();
    scene.runs(1, GATEWAY, 5, 15);
    scene.wakes(999, 1, 0, GATEWAY);
    scene.runs(1, GATEWAY, 1_000, 1_010);
    scene.event(-200, 2, Switch::To { from: 0, ready: false, to: OTHER });
    scene.wakes(-100, 2, 0, UPSTREAM);
    scene.event(2_000, 2, Switch::To { from: OTHER, ready: true, to: UPSTREAM });
    scene.event(2_050, 2, Switch::To { from: UPSTREAM, ready: false, to: 0 });
    scene.wakes(2_015, 2, UPSTREAM, GATEWAY);
    scene.runs(1, GATEWAY, 2_017, 2_024);
    scene.wakes(2_022, 1, GATEWAY, GENERATOR);
    scene.runs(0, GENERATOR, 2_024, 2_028);
    let one = scene.moment([0, 2, 2_010, 2_014, 2_026]);
    let mut earlier = one;
    (earlier.scheduled, earlier.sent) = (one.scheduled - 92_000, one.scheduled - 90_000);
    (earlier.received, earlier.replied) = (one.received - 7_000, one.received - 4_000);
    scene.moments.push(earlier);
    let causes = "Running generator 3, Nobody gateway 2, Running gateway 10, \
                  Waiting upstream for kworker 1985, Neighbour upstream 6, Running upstream 9, \
                  Nobody gateway 2, Running gateway 5, Nobody generator 2, Running generator 2";
    assert_eq!(scene.explained(&one, 8), causes);
}

#[test]
fn a_generator_that_polls_does_not_hide_that_the_gateway_sleeps() {
    let mut scene = Scene::at(0);
    scene.runs(0, GENERATOR, -1_000, 6_000);
    scene.wakes(3, 0, GENERATOR, GATEWAY);
    scene.runs(1, GATEWAY, 5, 15);
    scene.wakes(12, 1, GATEWAY, UPSTREAM);
    scene.runs(1, UPSTREAM, 15, 25);
    scene.wakes(20, 1, UPSTREAM, GATEWAY);
    scene.runs(1, GATEWAY, 25, 35);
    // It sleeps for 2 ms before it answers.
    scene.wakes(2_034, 1, 0, GATEWAY);
    scene.runs(1, GATEWAY, 2_035, 2_050);
    let one = scene.moment([0, 2, 17, 19, 2_045]);
    let causes = "Running generator 3, Nobody gateway 2, Running gateway 7, Waiting upstream for gateway 3, \
                  Running upstream 5, Waiting gateway for upstream 5, Running gateway 10, \
                  Asleep gateway 1999, Nobody gateway 1, Running gateway 10";
    assert_eq!(scene.explained(&one, 8), causes);
}

#[test]
fn a_late_timer_of_the_generator_is_nobodys() {
    let mut scene = Scene::at(0);
    scene.wakes(700, 0, 0, GENERATOR);
    scene.runs(0, GENERATOR, 701, 705);
    scene.wakes(704, 0, GENERATOR, GATEWAY);
    let times = scene.is_answered(706);
    let one = scene.moment([0, 703, times[2], times[3], times[4]]);
    // Its last sleep must be on record.
    scene.runs(0, GENERATOR, -50, -40);
    let first = "Nobody generator 701, Running generator 3, Nobody gateway 2";
    assert_eq!(scene.explained(&one, 8), with_rest(first));
}

#[test]
fn a_request_without_a_free_connection_waits_for_one() {
    // The generator has one connection. Another request has it until 500.
    let mut scene = Scene::at(0);
    scene.moment([0, 1, 400, 401, 500]);
    scene.runs(0, GENERATOR, -50, -40);
    scene.wakes(495, 0, 0, GENERATOR);
    scene.runs(0, GENERATOR, 496, 504);
    scene.wakes(503, 0, GENERATOR, GATEWAY);
    let times = scene.is_answered(505);
    let one = scene.moment([100, 502, times[2], times[3], times[4]]);
    let first = "Connection generator 400, Running generator 3, Nobody gateway 2";
    assert_eq!(scene.explained(&one, 1), with_rest(first));
}

#[test]
fn a_cpu_that_stands_still_is_nobodys() {
    // The gateway seems to run for 3 ms. The beat of its CPU was due at 500 µs and came at 2,500.
    let mut scene = Scene::sent();
    scene.event(-500, 1, Switch::Beat);
    scene.event(2_500, 1, Switch::Beat);
    scene.runs(1, GATEWAY, 5, 3_015);
    let one = scene.ended(3_005);
    assert_eq!(BEAT_NS, 1_000_000);
    let causes = scene.explained(&one, 8);
    let first = "Running generator 3, Nobody gateway 2, Running gateway 495, Nobody gateway 2000, \
                 Running gateway 512";
    assert_eq!(causes, format!("{first}, {REST}"));
}

#[test]
fn a_cpu_whose_idle_thread_is_not_recorded_stands_still_only_while_a_thread_has_it() {
    // No beat arrives while CPU 1 is idle. The first one is 300 µs after the gateway got it.
    let mut scene = Scene::sent();
    scene.event(-2_500, 1, Switch::To { from: 0, ready: false, to: OTHER });
    scene.event(-2_400, 1, Switch::Beat);
    scene.event(-2_300, 1, Switch::To { from: OTHER, ready: false, to: 0 });
    scene.event(5, 1, Switch::To { from: 0, ready: false, to: GATEWAY });
    scene.event(55, 1, Switch::Beat);
    scene.event(1_015, 1, Switch::To { from: GATEWAY, ready: false, to: 0 });
    let one = scene.ended(1_005);
    let causes = scene.explained(&one, 8);
    let first = "Running generator 3, Nobody gateway 2, Running gateway 1007, ";
    assert!(causes.starts_with(first), "{causes}");
}

#[test]
fn an_upstream_that_waits_for_a_timer_sleeps_whatever_else_it_serves() {
    // Another request comes, waits for the CPU, and is answered at 1,020.
    let (mut scene, one) = asleep_upstream();
    scene.wakes(1_000, 0, 0, UPSTREAM);
    scene.runs(0, UPSTREAM, 1_015, 1_025);
    let mut other = one;
    (other.received, other.replied) = (one.scheduled + 1_016_000, one.scheduled + 1_020_000);
    scene.moments.push(other);
    let causes = scene.explained(&one, 8);
    assert!((2_970..=2_985).contains(&time_of("Asleep upstream", &causes)), "{causes}");
}

#[test]
fn without_a_record_the_cause_is_unknown() {
    let mut scene = Scene::at(0);
    let one = scene.moment([0, 2, 16, 20, 32]);
    let causes = scene.explained(&one, 8);
    assert!(causes.split(", ").all(|cause| cause.starts_with("Unknown")), "{causes}");
}

/// 396 usual requests of 32 µs, and 4 slow ones: in 3 of them kdamond had the gateway's CPU for 1 ms, and in
/// the other one the gateway slept for 1 ms.
fn pass() -> TailPass {
    let mut whole = Scene::at(0);
    for index in 0..400_u64 {
        let mut scene = Scene::at(index * 5_000);
        scene.is_sent();
        let times = match index {
            100 | 200 | 300 => {
                scene.event(1, 1, Switch::To { from: 0, ready: false, to: KDAMOND });
                scene.event(1_005, 1, Switch::To { from: KDAMOND, ready: false, to: GATEWAY });
                scene.event(1_015, 1, Switch::To { from: GATEWAY, ready: false, to: 0 });
                scene.ends(1_005)
            }
            50 => {
                scene.runs(1, GATEWAY, 5, 15);
                scene.wakes(1_003, 1, 0, GATEWAY);
                scene.is_answered(1_005)
            }
            _ => scene.is_answered(5),
        };
        scene.moment(times);
        whole.events.append(&mut scene.events);
        whole.moments.append(&mut scene.moments);
    }
    // The record begins before the first request and ends after the last one.
    for cpu in [0, 1, 2] {
        for us in [-9_000, 2_100_000] {
            whole.event(us, cpu, Switch::To { from: 0, ready: false, to: 0 });
        }
    }
    explain(&whole.trace(), &whole.moments(), 8, &[], TailPass::blank(0, "nginx", 0))
}

#[test]
fn the_shares_of_a_pass_are_those_that_were_planted() {
    let pass = pass();
    assert_eq!((pass.requests, pass.p50_ns, pass.p99_ns), (400, 32_000, 32_000));
    assert_eq!(pass.slices.iter().map(|slice| slice.slow.requests).sum::<u64>(), 4);
    assert_eq!(pass.slices.iter().map(|slice| slice.usual.requests).sum::<u64>(), 4);
    assert_eq!(pass.slowest.len(), 4);
    let slowest = &pass.slowest[0];
    assert_eq!(slowest.moment.response_time(), 1_032_000);
    assert!(slowest.lanes.iter().any(|lane| lane.thread == format!("nginx {GATEWAY}")), "{slowest:?}");
    let figures = figures_of(&[pass]);
    let shares: Vec<(TailKind, Option<&str>, f64)> = figures
        .causes
        .iter()
        .map(|cause| (cause.kind, cause.holder.as_deref(), cause.share.estimate))
        .collect();
    // 3 × 1,000 µs of kdamond, which also hides the 2 µs in which the CPU wakes up; 988 µs of sleep.
    assert_eq!((shares[0].0, shares[0].1), (TailKind::Waiting, Some("kdamond")), "{shares:?}");
    assert!((shares[0].2 - 3_006.0 / 4_000.0).abs() < 1e-9, "{shares:?}");
    assert_eq!(shares[1].0, TailKind::Asleep);
    assert!((shares[1].2 - 988.0 / 4_000.0).abs() < 1e-9, "{shares:?}");
    let sum: f64 = shares.iter().map(|share| share.2).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{shares:?}");
    assert_eq!((figures.slow_requests, figures.usual_us), (4, Some(32.0)));
    assert!((figures.slow_us.expect("slow ones").estimate - 1_032.0).abs() < 1e-9);
}

fn figures_of(passes: &[TailPass]) -> SlowFigures {
    let mut run = crate::fixture::Run::closed(1).record;
    let label = &mut run.contenders.last_mut().expect("direct").label;
    *label = "nginx".to_owned();
    tails(&run, passes).pop().expect("a case")
}

#[test]
fn more_passes_give_an_interval_and_failed_ones_are_counted() {
    let mut passes: Vec<TailPass> = (0..4).map(|sequence| TailPass { sequence, ..pass() }).collect();
    let failure = hoptax_record::Failure::new(hoptax_record::Stage::Trial, "perf ended".to_owned());
    passes.push(TailPass { failed: Some(failure), ..TailPass::blank(4, "nginx", 0) });
    let figures = figures_of(&passes);
    assert_eq!((figures.passes, figures.failed), (4, 1));
    let p50 = figures.p50_us.expect("passes succeeded");
    assert_eq!((p50.estimate, p50.trials), (pass().p50_ns as f64 / 1_000.0, 4));
    assert_eq!(figures.failure.as_deref(), Some("perf ended"));
    let share = &figures.causes[0].share;
    assert!(share.low.is_some_and(|low| low < 0.75) && share.high.is_some_and(|high| high > 0.75));
}

#[test]
fn a_pass_with_few_requests_explains_none() {
    let moments = Moments { process: 100, left_out: 0, requests: Vec::new() };
    let pass = explain(&SwitchTrace::default(), &moments, 1, &[], TailPass::blank(0, "nginx", 0));
    assert_eq!((pass.requests, pass.slices.len()), (0, 0));
    let figures = figures_of(&[pass]);
    assert_eq!((figures.slow_us, figures.causes.len()), (None, 0));
}
