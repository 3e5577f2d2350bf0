//! `no-backpressure`: if clients stop reading, a gateway keeps in its memory everything that they have not
//! read.
//!
//! The kernel's buffers of connections do not count, because they are not resident memory of the gateway.

use super::{
    Concerns, Figures, Finding, Measured, Rule, Severity, Subject, about, evidence, most_in_flight, percent,
    tokens,
};
use crate::{Case, Trial};
use hoptax_format::messages::StreamSpec;
use hoptax_plan::{Upstream, UpstreamLlm};
use hoptax_stats::{median, share};

const CODE: &str = "no-backpressure";
const MIB: f64 = 1024.0 * 1024.0;
/// Limit for the growth of memory ÷ what the clients had not read. The kernel holds up to about 10 MiB for
/// each connection of the client, so a gateway without a limit does not keep all of it.
const SHARE: f64 = 0.5;
/// The rule judges only if a client left at least this many bytes unread. Half of it is more than a
/// gateway with a limit keeps: Envoy keeps 1 MiB for each of a stream's two connections.
const EACH: f64 = 8.0 * MIB;
/// The rule judges only if all clients together left at least this many bytes unread. Heaps grow by less than
/// half of it with a few streams that are read.
const ALL: f64 = 100.0 * MIB;
/// The number of paused streams of an open loop can rise above its mean by this many standard deviations
/// (Poisson).
const SCATTER: f64 = 3.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "clients paused while they read streams of tokens. They left at least {:.0} MiB of each stream \
             unread, and at least {:.0} MiB of all streams that can be paused at a time. The gateway's \
             resident memory grew by at least {} of this since before the load",
            EACH / MIB,
            ALL / MIB,
            percent(SHARE)
        ),
        seen: "Some slow clients with long responses then use up the gateway's memory. One AI gateway grew \
               from 68 to 646 MB.",
        advice: "Let the gateway stop reading from the upstream while its client does not read (Node.js: \
                 `pipeline`; Python: wait for each write to drain; Go: a copy without a queue of its own), \
                 or limit what it keeps of each stream.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.gateways().filter_map(|case| of_case(subject, case)).collect()
}

/// Number of tokens that become due while the client pauses. The tokens that the client reads before its
/// pause do not count.
fn unread_tokens(stream: StreamSpec, model: &UpstreamLlm) -> Option<f64> {
    let pause = stream.tokens?.pause?;
    let all = stream.to_receive().unwrap_or(model.tokens);
    let rest = f64::from(all.saturating_sub(pause.after_tokens));
    let writes = share(pause.time_ns as f64, model.gap.as_nanos() as f64);
    Some(writes.map_or(rest, |writes| rest.min(writes * f64::from(model.per_write))))
}

/// Number of bytes that a client has not read at the end of its pause. If targets differ, this is the largest
/// number.
fn unread(subject: &Subject<'_>, trials: &[Trial<'_>]) -> Option<f64> {
    let Upstream::BuiltIn(upstream) = &subject.run.plan.upstream else { return None };
    let model = upstream.llm.as_ref()?;
    let streams = subject.run.plan.targets.iter().filter_map(|target| target.stream);
    let most = streams.filter_map(|stream| unread_tokens(stream, model)).reduce(f64::max)?;
    let ledgers = trials.iter().filter_map(|trial| trial.record.ledger.as_ref());
    let sent: u64 = ledgers.map(|ledger| ledger.bytes_out).sum();
    let bytes_per_token = share(sent as f64, tokens::upstream(trials)?.tokens as f64)?;
    Some(most * bytes_per_token)
}

/// The largest number of streams that can be paused at a time.
fn most_paused(subject: &Subject<'_>, case: &Case, trials: &[Trial<'_>], paused: u64) -> Option<f64> {
    let most = most_in_flight(case) as f64;
    if !case.load.is_steady() {
        return Some(most);
    }
    let streams = subject.run.plan.targets.iter().filter_map(|target| target.stream?.tokens?.pause);
    let pause_ns = streams.map(|pause| pause.time_ns).max()?;
    let measured_ns: u64 = trials.iter().map(|trial| trial.load.measured_ns).sum();
    let mean = share(paused as f64 * pause_ns as f64, measured_ns as f64)?;
    Some((mean + SCATTER * mean.sqrt()).clamp(1.0, most.max(1.0)))
}

/// Resident memory, bytes: the smallest value of all trials before the load, and the median over trials of
/// the largest value in a trial.
fn memory(trials: &[Trial<'_>]) -> Option<[f64; 2]> {
    let usages = || trials.iter().filter_map(|trial| trial.record.gateway.as_ref());
    let before = usages().filter_map(|usage| usage.rss_bytes_before).min()?;
    let largest: Vec<f64> = usages().map(|usage| usage.rss_bytes_max as f64).collect();
    Some([before as f64, median(&largest)?])
}

fn of_case(subject: &Subject<'_>, (case, trials): Measured<'_>) -> Option<Finding> {
    let paused = tokens::counts(case).map(|counts| counts.paused).filter(|paused| *paused > 0)?;
    let unread = unread(subject, trials).filter(|bytes| *bytes >= EACH)?;
    let streams = most_paused(subject, case, trials, paused)?;
    let [before, largest] = memory(trials)?;
    let each = (largest - before) / streams;
    let share = share(each, unread).filter(|share| *share >= SHARE && unread * streams >= ALL)?;
    Some(Finding {
        concerns: Concerns::only(Figures::Memory),
        evidence: evidence([
            ("paused", paused.into()),
            ("paused_at_a_time", streams.into()),
            ("rss_bytes_before", before.into()),
            ("rss_bytes_max", largest.into()),
            ("bytes_per_paused_stream", each.into()),
            ("unread_bytes_per_stream", unread.into()),
            ("share", share.into()),
            ("limit", SHARE.into()),
        ]),
        message: format!(
            "While up to {streams:.0} clients did not read, the gateway's memory grew from {:.1} to {:.1} \
             MiB. This is {:.1} MiB for each of them: {} of the {:.1} MiB that it had not read. So the \
             gateway keeps reading from the upstream, and stores what its clients do not read.",
            before / MIB,
            largest / MIB,
            each / MIB,
            percent(share),
            unread / MIB
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::clock::{MILLISECOND, SECOND};
    use hoptax_format::llm::Pause;
    use hoptax_plan::LoadPoint;
    use std::time::Duration;

    const TOKENS: u32 = 1025;

    /// Streams with tokens of 16 KiB. In one second, this number of clients paused.
    fn trial(label: &str, paused: u64) -> MadeTrial {
        let made = via(label, 0).server_stream_us(200, 1000).tokens_us([200, 200, 1000], TOKENS.into());
        let mut made = made.token_counts(|counts| counts.paused = paused);
        let ledger = made.0.ledger.as_mut().expect("made with one");
        ledger.bytes_out = ledger.llm.as_ref().expect("made with tokens").tokens * (16 << 10);
        made
    }

    /// A gateway whose memory grows by this many MiB, from 12 MiB. Clients pause after one token for this
    /// time; 16 MiB then follow, if the time between tokens is 0.
    fn run(load: LoadPoint, pause_ns: u64, gap_ns: u64, grown: u64) -> Run {
        let mut run = Run::with_load(vec![load]).token_streams(TOKENS);
        let streams = run.record.plan.targets.iter_mut().filter_map(|target| target.stream.as_mut());
        for tokens in streams.filter_map(|stream| stream.tokens.as_mut()) {
            tokens.pause = Some(Pause { after_tokens: 1, time_ns: pause_ns });
        }
        let Upstream::BuiltIn(upstream) = &mut run.record.plan.upstream else { panic!("built in") };
        upstream.llm = Some(UpstreamLlm { gap: Duration::from_nanos(gap_ns), ..UpstreamLlm::default() });
        let gateway = trial("portkey", 16).rss_before(12 << 20).rss_max((12 + grown) << 20);
        run.push(trial("direct", 16).first()).push(gateway);
        run
    }

    #[test]
    fn raised_by_memory_that_grows_by_what_clients_do_not_read() {
        let findings = raised(&run(closed_point(8, 1), SECOND, 0, 120), CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["bytes_per_paused_stream"], 15.0 * MIB);
        // 16 streams in a second, each paused for half of it: 8 on average, and up to 16.5 at a time.
        let findings = raised(&run(open_point(16.0, 100, 1), SECOND / 2, 0, 240), CODE);
        let streams = findings[0].evidence["paused_at_a_time"].as_f64().expect("a number");
        assert!((streams - 16.5).abs() < 0.1, "{streams}");
    }

    #[test]
    fn not_raised_by_limited_buffers_or_if_little_was_unread() {
        let eight = || closed_point(8, 1);
        assert_eq!(raised(&run(eight(), SECOND, 0, 16), CODE), [], "2 MiB for each stream");
        assert_eq!(raised(&run(closed_point(6, 1), SECOND, 0, 96), CODE), [], "96 MiB were unread");
        let slow = run(eight(), SECOND, 20 * MILLISECOND, 120);
        assert_eq!(raised(&slow, CODE), [], "50 tokens are due in a second");
        assert_eq!(raised(&run(open_point(16.0, 100, 1), SECOND, 0, 120), CODE), [], "up to 28 at a time");
    }

    #[test]
    fn not_raised_without_pauses_or_the_memory_before() {
        let changed = |change: fn(&mut MadeTrial)| {
            let mut run = run(closed_point(8, 1), SECOND, 0, 120);
            let mut gateway = MadeTrial(run.trials.pop().expect("the gateway's"));
            change(&mut gateway);
            run.trials.push(gateway.0);
            raised(&run, CODE)
        };
        assert_eq!(changed(|_| ()).len(), 1);
        let no_pause = |trial: &mut MadeTrial| {
            let messages = trial.0.load_record.as_mut().and_then(|load| load.messages.as_mut());
            messages.and_then(|messages| messages.tokens.as_mut()).expect("tokens").counts.paused = 0;
        };
        assert_eq!(changed(no_pause), []);
        let unknown =
            |trial: &mut MadeTrial| trial.0.gateway.as_mut().expect("watched").rss_bytes_before = None;
        assert_eq!(changed(unknown), []);
        assert_eq!(changed(|trial| trial.0.gateway = None), [], "an external one");
    }
}
