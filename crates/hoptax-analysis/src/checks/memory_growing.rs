//! `memory-growing`: a gateway's memory was still growing at the end of its last trial.

use super::{
    Concerns, Figures, Finding, Measured, Rule, Severity, Subject, about, evidence, percent, tokens,
};
use crate::Case;
use hoptax_stats::{mann_kendall, median};

const CODE: &str = "memory-growing";
/// Smallest relative growth to report. Growth is measured over the second half of the last trial, or over the
/// last rounds. Buffers that fill cause smaller growth.
const GROWTH: f64 = 0.05;
/// Smallest growth to report, bytes. Memory allocators add arenas of about this size.
const BYTES: f64 = 1024.0 * 1024.0;
/// p-value below which a rise within a trial is not due to chance.
const CHANCE: f64 = 0.001;
const WINDOWS: usize = 10;
/// Number of rounds to compare, counted back from the end of the run.
const ROUNDS: usize = 3;
const STEP: f64 = 0.005;
/// Added to the advice for streams of tokens.
const OF_STREAMS: &str = " Check that the gateway reads no more from the upstream than its clients read.";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note".into(),
        when: format!(
            "a gateway's resident memory grew by more than {0} and by more than 1 MiB, throughout the second \
             half of its last trial (Mann–Kendall test) or from round to round over the last {ROUNDS} rounds \
             of a load point",
            percent(GROWTH)
        ),
        seen: "The memory figure is only a lower bound. A leak may take hours to show.",
        advice: "Measure longer, with a longer warm-up. If memory never stops growing, look for a leak, or \
                 for data that the gateway keeps per connection, per path or for slow readers of streams.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for contender in &subject.run.contenders {
        let of = || subject.gateways().filter(|(case, _)| case.gateway == contender.label);
        let last = of().max_by_key(|(_, trials)| trials.iter().map(|trial| trial.record.sequence).max());
        let found = last.and_then(within_last_trial).or_else(|| of().find_map(over_rounds));
        findings.extend(found);
    }
    findings
}

fn enough(before: f64, after: f64) -> bool {
    after - before > (GROWTH * before).max(BYTES)
}

fn within_last_trial((case, trials): Measured<'_>) -> Option<Finding> {
    let last = trials.iter().max_by_key(|trial| trial.record.sequence)?;
    let windows: Vec<f64> =
        last.record.gateway.as_ref()?.rss_bytes_by_window.iter().map(|bytes| *bytes as f64).collect();
    let latter = &windows[windows.len() / 2..];
    if latter.len() < WINDOWS {
        return None;
    }
    let ends = latter.len() / 4;
    let (before, after) = (median(&latter[..ends])?, median(&latter[latter.len() - ends..])?);
    let (rises, chance) = mann_kendall(latter);
    (enough(before, after) && rises > 0 && chance < CHANCE).then(|| {
        let seconds = latter.len() as f64 / 10.0;
        finding(case, before, after, &format!("in the last {seconds} s of its last trial"))
    })
}

fn over_rounds((case, trials): Measured<'_>) -> Option<Finding> {
    // Each process begins with the memory of a new one.
    let process = trials.iter().map(|trial| trial.record.start).max()?;
    let of_process = trials.iter().filter(|trial| trial.record.start == process);
    let largest: Vec<f64> =
        of_process.filter_map(|trial| Some(trial.record.gateway.as_ref()?.rss_bytes_max as f64)).collect();
    let last = &largest[largest.len().checked_sub(ROUNDS)?..];
    let rising = last.windows(2).all(|pair| pair[1] > pair[0] * (1.0 + STEP));
    let (before, after) = (*last.first()?, *last.last()?);
    (rising && enough(before, after))
        .then(|| finding(case, before, after, &format!("over the last {ROUNDS} rounds")))
}

fn finding(case: &Case, before: f64, after: f64, when: &str) -> Finding {
    Finding {
        concerns: Concerns::only(Figures::Memory),
        evidence: evidence([
            ("rss_bytes_before", before.into()),
            ("rss_bytes_after", after.into()),
            ("growth", (after / before - 1.0).into()),
            ("limit", GROWTH.into()),
        ]),
        message: format!(
            "The gateway's resident memory grew from {:.1} to {:.1} MiB {when}, and was still growing. The \
             gateway will need more memory than the figure shows.",
            before / BYTES,
            after / BYTES
        ),
        advice: format!(
            "Measure longer, until memory stops growing. If memory never stops growing, look for a leak.{}",
            if tokens::counts(case).is_some() { OF_STREAMS } else { "" }
        ),
        ..about(CODE, Severity::Note, &case.case)
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "with a growth of {}. -" percent(GROWTH);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::random::Random;

    const MIB: u64 = 1 << 20;

    #[test]
    fn raised_by_a_leak_within_the_last_trial() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).rss_windows((0..50).map(|_| 12 * MIB)));
        run.push(via("nginx", 1).rss_windows((0..50).map(|window| 12 * MIB + window * MIB / 10)));
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert!(findings[0].evidence["growth"].as_f64().expect("a share") > 0.05);
    }

    #[test]
    fn raised_by_a_leak_over_rounds() {
        let mut run = Run::closed(1);
        for round in 0..4 {
            run.push(via("nginx", round).rss_max((12 + u64::from(round)) * MIB));
        }
        assert_eq!(raised(&run, CODE).len(), 1);
        run.trials.iter_mut().for_each(|trial| trial.start = trial.round / 2);
        assert_eq!(raised(&run, CODE), [], "two processes with different memory");
    }

    #[test]
    fn not_raised_by_buffers_that_fill_or_a_collected_heap() {
        let mut random = Random::new(4);
        for _ in 0..100 {
            let mut run = Run::closed(1);
            let filled = |window: u64| 12 * MIB + window.min(20) * MIB / 4;
            run.push(via("nginx", 0).rss_windows((0..50).map(filled)));
            // The heap of a program with a garbage collector rises and falls.
            let start = random.below(12);
            for round in 0..4 {
                let heap = (0..50).map(|window| 40 * MIB + (window + start) % 12 * MIB);
                run.push(via("go", round).rss_windows(heap).rss_max((52 + random.below(3)) * MIB));
            }
            assert_eq!(raised(&run, CODE), []);
        }
    }

    #[test]
    fn not_raised_by_growth_in_an_earlier_trial_or_without_figures() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).rss_windows((0..50).map(|window| (12 + window) * MIB)));
        run.push(via("nginx", 1).rss_windows((0..50).map(|_| 62 * MIB)));
        run.push(via("mine", 0).unwatched());
        assert_eq!(raised(&run, CODE), []);
    }
}
