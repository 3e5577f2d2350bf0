//! `delayed-ack`: many requests on reused connections take about 40 ms, because a program waits for a delayed
//! acknowledgement.
//!
//! A program that sends a message in two small segments without `TCP_NODELAY` waits with the second segment
//! until the peer acknowledges the first (Nagle's algorithm, RFC 896). Linux delays the acknowledgement by 40
//! ms (`TCP_DELACK_MIN`), except at the beginning of a connection.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use hdrhistogram::Histogram;
use hoptax_format::clock::MILLISECOND;
use hoptax_plan::{GatewayKind, Upstream};
use hoptax_stats::share;

const CODE: &str = "delayed-ack";
/// Range of the mode, ns: the delay of an acknowledgement plus the time of a fast request. The kernel's
/// timers have ticks of up to 4 ms, and may be two ticks late.
const MODE: (u64, u64) = (38 * MILLISECOND, 50 * MILLISECOND);
/// Times around the mode. If many requests are here, the times are widely spread, and the mode is chance.
const AROUND: [(u64, u64); 2] = [(25 * MILLISECOND, MODE.0), (MODE.1, 60 * MILLISECOND)];
/// Smallest share of the requests in the mode.
const SHARE: f64 = 0.2;
/// Largest number of requests around the mode ÷ requests in the mode.
const SPREAD: f64 = 0.1;
/// Smallest number of requests in the mode.
const FEWEST: u64 = 10;
/// A contender with at most this share of its requests in the mode has no such delay.
const NONE: f64 = 0.01;
/// Limit for the share of the requests in the mode whose first byte is late too. Up to this share, most heads
/// arrived at once, and the rest of the response 40 ms later.
const LATE_FIRST_BYTES: f64 = 0.5;
/// Largest utilisation of the generator's busiest worker. Above it, the generator may be the cause.
const BUSY: f64 = 0.5;

pub(super) fn rule() -> Rule {
    let ms = |ns: u64| ns / MILLISECOND;
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "at least {} of the service times are {} to {} ms, few are close to that, most requests reused a \
             connection, and the generator was idle. Also, the first byte was fast, or the other side of the \
             comparison has no such times. Delays that the plan adds do not count",
            percent(SHARE),
            ms(MODE.0),
            ms(MODE.1)
        ),
        seen: "A program that writes head and body separately without TCP_NODELAY waits for an \
               acknowledgement, for 40 ms with Linux. The figures then compare a socket setting.",
        advice: "Set TCP_NODELAY in the program that sends in two pieces (`tcp_nodelay`, `setTcpNoDelay`), \
                 or let it write head and body at once.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let of_pairs = subject.pairs().filter_map(|(via, direct)| {
        let (of_via, of_direct) = (Delayed::of(via)?, Delayed::of(direct)?);
        if of_direct.share <= NONE && is_possible(subject, via) { of_via.finding(via, true) } else { None }
    });
    let alone = subject.measured().filter(|measured| is_possible(subject, *measured));
    let mut findings: Vec<Finding> =
        alone.filter_map(|measured| Delayed::of(measured)?.finding(measured, false)).collect();
    for finding in of_pairs {
        if findings.iter().all(|other| other.case != finding.case) {
            findings.push(finding);
        }
    }
    findings
}

/// True if the plan itself does not delay responses by about this time.
fn is_possible(subject: &Subject<'_>, (case, _): Measured<'_>) -> bool {
    let of_upstream = match &subject.run.plan.upstream {
        Upstream::BuiltIn(upstream) => upstream.delay.mean(),
        Upstream::Running(_) => std::time::Duration::ZERO,
    };
    let is_delaying = |gateway: &hoptax_plan::Gateway| {
        matches!(
            gateway.kind,
            GatewayKind::DelayingHop(_)
                | GatewayKind::ForwardingHop { delay: Some(_), .. }
                | GatewayKind::Http2Hop { delay: Some(_), .. }
        )
    };
    let is_delayed =
        of_upstream.as_millis() >= 10 || subject.has_scheduled_streams() || subject.has_language_model();
    !is_delayed && !subject.gateway(&case.gateway).is_some_and(is_delaying)
}

/// Service times of a case around the delay of an acknowledgement.
struct Delayed {
    in_mode: u64,
    around: u64,
    late_first_bytes: u64,
    share: f64,
    reused: f64,
    busy: f64,
}

impl Delayed {
    fn of((_, trials): Measured<'_>) -> Option<Self> {
        let count = |times: &Histogram<u64>, (from, to): (u64, u64)| times.count_between(from, to);
        let sum = |of: &dyn Fn(&crate::Trial<'_>) -> u64| trials.iter().map(of).sum::<u64>();
        let in_mode = sum(&|trial| count(&trial.service_time, MODE));
        let sent = sum(&|trial| trial.load.counts.sent);
        let busiest = trials
            .iter()
            .map(|trial| share(trial.load.cpu.busiest_worker_ns as f64, trial.measured_ns as f64));
        Some(Self {
            in_mode,
            around: sum(&|trial| AROUND.iter().map(|range| count(&trial.service_time, *range)).sum()),
            late_first_bytes: sum(&|trial| count(&trial.first_byte, MODE)),
            share: share(in_mode as f64, sum(&|trial| trial.service_time.len()) as f64)?,
            reused: share(sum(&|trial| trial.load.connections.reused) as f64, sent as f64)?,
            busy: busiest.flatten().fold(0.0, f64::max),
        })
    }

    fn finding(&self, (case, _): Measured<'_>, other_side_is_fast: bool) -> Option<Finding> {
        let is_mode = self.share >= SHARE
            && self.in_mode >= FEWEST
            && self.around as f64 <= SPREAD * self.in_mode as f64;
        let early = self.late_first_bytes as f64 <= LATE_FIRST_BYTES * self.in_mode as f64;
        if !is_mode || self.reused < 0.5 || self.busy > BUSY || !(early || other_side_is_fast) {
            return None;
        }
        let who = match (early, case.is_direct()) {
            (true, true) => "the upstream sends head and body of its answers in two segments",
            (true, false) => {
                "the gateway, or the upstream behind it, sends head and body of its answers in two segments"
            }
            (false, _) => "the gateway sends its requests, or reads its answers, in two segments",
        };
        Some(Finding {
            evidence: evidence([
                ("share", self.share.into()),
                ("requests", self.in_mode.into()),
                ("first_byte_as_late", self.late_first_bytes.into()),
            ]),
            message: format!(
                "{} of the requests took about 40 ms, the time for which Linux delays an acknowledgement. \
                 Probably {who}, without TCP_NODELAY.",
                percent(self.share)
            ),
            advice: "Set TCP_NODELAY there, or send the whole message at once, and measure again: otherwise \
                     the comparison shows this setting of a socket."
                .into(),
            ..about(CODE, Severity::Warning, &case.case)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::histogram::{Encoded, TRIAL_DIGITS, empty};
    use hoptax_format::messages::Carrier;

    /// A trial with 1,000 requests on reused connections. Every `nth` request takes `slow_us`, and the others
    /// 300 µs. The first byte takes 200 µs.
    fn made(contender: &str, nth: u64, slow_us: u64) -> MadeTrial {
        let times = (0..1000).map(move |index| if index % nth == 0 { slow_us } else { 300 });
        let mut made = via(contender, 0).response_times_us(times).generator_busy(5);
        let load = made.0.load_record.as_mut().expect("made with one");
        load.histograms.service_time = load.histograms.response_time.clone();
        let mut first = empty(TRIAL_DIGITS);
        first.record_n(200_000, 1000).expect("in range");
        load.histograms.first_byte = Encoded::new(&first);
        load.connections.reused = load.counts.sent;
        made
    }

    fn found(made: MadeTrial) -> Vec<Finding> {
        let run = Run::with_load(vec![open_point(1000.0, 8, 1)]).with([made]);
        raised(&run, CODE)
    }

    #[test]
    fn raised_by_a_mode_at_the_delay_of_an_acknowledgement() {
        insta::assert_snapshot!(texts(&found(made("nginx", 1, 43_000))));
        assert_eq!(found(made("nginx", 2, 41_000)).len(), 1);
    }

    #[test]
    fn not_raised_by_few_other_or_spread_times_new_connections_or_streams() {
        for (nth, slow_us) in [(20, 43_000), (1, 30_000), (1, 55_000), (1, 300)] {
            assert!(found(made("nginx", nth, slow_us)).is_empty(), "{nth} {slow_us}");
        }
        let mut new = made("nginx", 1, 43_000);
        new.0.load_record.as_mut().expect("made with one").connections.reused = 0;
        assert!(found(new).is_empty());
        let mut spread = made("nginx", 2, 43_000);
        let load = spread.0.load_record.as_mut().expect("made with one");
        let mut times = empty(TRIAL_DIGITS);
        (0..1000u64).for_each(|index| times.record(25_000_000 + index * 35_000).expect("in range"));
        load.histograms.service_time = Encoded::new(&times);
        assert!(found(spread).is_empty(), "times from 25 to 60 ms are not a mode");
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]).streams(Carrier::Events, 44);
        run.push(made("nginx", 1, 43_000));
        assert_eq!(raised(&run, CODE), [], "streams");
    }
}
