//! How long processes took until they were warm.

use hoptax_record::report::{Fall, WarmUpFigures};
use hoptax_record::{Aside, Burst, Contender, RunRecord, TrialRecord, WarmUp};
use hoptax_stats::median;

/// Number of last bursts that show how fast a process is when it has settled.
const LAST: usize = 6;

/// A burst belongs to the slow time if its figure exceeds the settled figure by more than this share of the
/// settled figure, plus this share of the whole fall. Figures of bursts scatter by several per cent.
const SLOWER: f64 = 0.05;

/// Smallest ratio of the first figure (median of three bursts) to the settled figure for which there is a
/// slow time. Native code scatters by up to 1.5 on a virtual machine with neighbors; runtimes that compile
/// begin at twice the time or more.
const SLOW_AT_FIRST: f64 = 1.6;

/// Figures of the first warm-up of each process, in the order of the contenders.
pub(crate) fn figures(run: &RunRecord, records: &[TrialRecord]) -> Vec<WarmUpFigures> {
    run.contenders.iter().filter_map(|contender| of(contender, records)).collect()
}

fn of(contender: &Contender, records: &[TrialRecord]) -> Option<WarmUpFigures> {
    let warm_up = contender.warm_ups.first()?;
    let (load_s, requests) = sum(&warm_up.bursts);
    // If a process became faster after its warm-up, it was slow in the whole warm-up, and perhaps also in a
    // part of the later load that showed the step.
    let late = contender.warm_ups.iter().find(|one| one.faster_by.is_some() && one.start == warm_up.start);
    let looked = late.map_or(&[][..], |late| &late.bursts);
    let warm_up = &WarmUp { bursts: [&warm_up.bursts, looked].concat(), ..warm_up.clone() };
    let (first, bursts) = (warm_up.bursts.first()?, &warm_up.bursts);
    let last = &bursts[bursts.len().saturating_sub(LAST)..];
    let settled =
        |figure: &dyn Fn(&Burst) -> Option<f64>| median(&last.iter().filter_map(figure).collect::<Vec<_>>());
    let p50 = |burst: &Burst| Some(burst.p50_ns as f64);
    let fall = |figure: &dyn Fn(&Burst) -> Option<f64>| {
        let (first, settled) = figure(first).zip(settled(figure))?;
        Some(Fall { first: first / 1e3, settled: settled / 1e3 })
    };
    let cpu_us_per_request = fall(&|burst| burst.cpu_ns_per_request);
    let (mut slow_s, mut slow_requests) = match cpu_us_per_request {
        Some(fall) => {
            slow(warm_up, &|burst| burst.cpu_ns_per_request.unwrap_or_default() / 1e3, fall.settled)
        }
        None => slow(warm_up, &|burst| burst.p50_ns as f64 / 1e3, settled(&p50)? / 1e3),
    };
    // Trials that were set aside belong to the warm-up. So do all trials before them.
    let start = warm_up.start;
    let of = || records.iter().filter(|record| record.contender == contender.label && record.start == start);
    if let Some(last) =
        of().filter(|record| record.set_aside == Some(Aside::Warming)).map(|one| one.sequence).max()
    {
        let loads =
            || of().filter(|record| record.sequence <= last).filter_map(|record| record.load_record.as_ref());
        if late.is_none() {
            (slow_s, slow_requests) = (load_s, requests);
        }
        slow_s += loads().map(|load| load.measured_ns as f64 / 1e9).sum::<f64>();
        slow_requests += loads().map(|load| load.lifetime.completed).sum::<u64>();
    }
    Some(WarmUpFigures {
        contender: contender.label.clone(),
        load_s,
        requests,
        slow_s,
        slow_requests,
        cpu_us_per_request,
        p50_us: fall(&p50)?,
        settled: warm_up.settled,
    })
}

/// Seconds and requests until the figure reached its settled level. Until then, the median of any three
/// bursts in a row is above the level. Only the slow part of the last slow burst counts. If the process
/// became fast in a step, this part ends at the step. If the figure fell in a straight line, it ends where
/// the line reaches the level. The result for other shapes is between these two, in proportion.
fn slow(warm_up: &WarmUp, figure: &dyn Fn(&Burst) -> f64, level: f64) -> (f64, u64) {
    let bursts = &warm_up.bursts;
    let begin: Vec<f64> = bursts.iter().take(3).map(figure).collect();
    let Some(first) = median(&begin).filter(|first| *first >= level * SLOW_AT_FIRST) else { return (0.0, 0) };
    let limit = level + SLOWER * level + SLOWER * (first - level);
    let is_slow = |at: usize| {
        let next = &bursts[at..bursts.len().min(at + 3)];
        median(&next.iter().map(figure).collect::<Vec<_>>()).is_some_and(|median| median > limit)
    };
    let mut end = (0..bursts.len()).rev().find(|at| is_slow(*at)).map_or(0, |at| at + 1);
    // The median of three also contains the next two bursts, so a single slow burst may still follow.
    while bursts.get(end).is_some_and(|burst| figure(burst) > limit) {
        end += 1;
    }
    if end == 0 {
        return (0.0, 0);
    }
    let (before, last) = (&bursts[..end - 1], &bursts[end - 1]);
    let above = |burst: &Burst| figure(burst) - level;
    let (seconds, requests) = sum(before);
    let step = match before.last().map(above) {
        Some(so_far) if so_far > 0.0 => last.requests as f64 * (above(last) / so_far).clamp(0.0, 1.0),
        _ => last.requests as f64,
    };
    let straight = end_of_straight_fall(first - level, requests as f64, last.requests as f64, above(last));
    // How far the figure was above its level, as a share of the whole fall: on average 1 for a step, ½ for a
    // straight fall.
    let area: f64 = bursts[..end].iter().map(|burst| burst.requests as f64 * above(burst)).sum();
    let mean = area / (requests as f64 + step) / (first - level);
    let in_last = step + (2.0 * (1.0 - mean)).clamp(0.0, 1.0) * (straight - step);
    // After the last slow burst, requests were nearly as fast as settled ones.
    let (last_s, settled_s) =
        (sum(std::slice::from_ref(last)).0, sum(&bursts[bursts.len().saturating_sub(LAST)..]));
    let each_s = [last_s / last.requests as f64, settled_s.0 / settled_s.1 as f64];
    let within = in_last.min(last.requests as f64);
    // Figures of fast processes scatter so much that the computed end can be after the whole warm-up.
    let (load_s, all) = sum(bursts);
    let slow_s = seconds + within * each_s[0] + (in_last - within) * each_s[1];
    (slow_s.min(load_s), (requests + in_last as u64).min(all))
}

/// Number of requests from the beginning of the last slow burst to the end of a straight fall. The whole fall
/// is `fall`, and it began `before` requests before the burst. The burst has `requests` requests. On average,
/// its figure is `above` more than the settled figure.
///
/// If the fall ends in the burst after x requests, fall · x ÷ (before + x) of it remains when the burst
/// begins, and half of that on average over these x requests. If the fall ends after the burst, the middle of
/// the burst lies on the straight line.
fn end_of_straight_fall(fall: f64, before: f64, requests: f64, above: f64) -> f64 {
    let area = requests * above.max(0.0);
    let within = (area + (area * (area + 2.0 * fall * before)).sqrt()) / fall;
    if within <= requests {
        return within;
    }
    let middle = before + requests / 2.0;
    // If the burst is as slow as the first one, it does not show where the fall ends.
    let whole = middle / (1.0 - (above / fall).min(0.5));
    (whole - before).max(requests)
}

fn sum(bursts: &[Burst]) -> (f64, u64) {
    let ns: u64 = bursts.iter().map(|burst| burst.measured_ns).sum();
    (ns as f64 / 1e9, bursts.iter().map(|burst| burst.requests).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, via};

    /// A warm-up in which burst `n` has this many requests, and takes this many µs of CPU time per request.
    fn warm_up(bursts: &[(u64, f64)]) -> WarmUp {
        let burst = |&(requests, us): &(u64, f64)| Burst {
            measured_ns: 150_000_000,
            requests,
            p50_ns: (us * 2e3) as u64,
            cpu_ns_per_request: Some(us * 1e3),
            upstream_cpu_ns_per_request: None,
        };
        let bursts = bursts.iter().map(burst).collect();
        WarmUp { settled: true, bursts, ..WarmUp::default() }
    }

    fn run(bursts: &[(u64, f64)]) -> Run {
        let mut run = Run::steady(2, 100, &[("jvm", 150)]);
        run.record.contenders[1].warm_ups = vec![warm_up(bursts)];
        run
    }

    #[test]
    fn the_slow_time_ends_where_the_figure_reaches_its_level() {
        let mut bursts = vec![(1000, 200.0); 4];
        bursts.push((1500, 125.0));
        bursts.extend([(2000, 50.0), (2000, 51.0), (2000, 49.0), (2000, 50.0), (2000, 50.0), (2000, 50.0)]);
        let found = &figures(&run(&bursts).record, &[])[0];
        assert_eq!((found.requests, found.slow_requests), (17_500, 4750), "half of the fifth burst");
        assert!((found.slow_s - 0.675).abs() < 1e-9 && (found.load_s - 1.65).abs() < 1e-9);
        assert_eq!(found.cpu_us_per_request, Some(Fall { first: 200.0, settled: 50.0 }));
        assert_eq!((found.contender.as_str(), found.p50_us), ("jvm", Fall { first: 400.0, settled: 100.0 }));
    }

    #[test]
    fn a_straight_fall_is_slow_to_its_end_and_a_fast_process_never() {
        // 30,000 requests from 160 µs down to 20 µs, in bursts of 1,000, and then steady.
        let falling = (0..30).map(|at| (1000, 160.0 - 140.0 * (f64::from(at) + 0.5) / 30.0));
        let bursts: Vec<_> = falling.chain(std::iter::repeat_n((1000, 20.0), 12)).collect();
        let found = &figures(&run(&bursts).record, &[])[0];
        assert!((28_800..=31_200).contains(&found.slow_requests), "{found:?}");
        assert!((found.slow_s - 4.5).abs() < 0.2, "{found:?}");
        let bursts = [50.0, 52.0, 49.0, 56.0, 50.0, 51.0, 50.0, 48.0].map(|us| (2000, us));
        let found = &figures(&run(&bursts).record, &[])[0];
        assert_eq!((found.slow_s, found.slow_requests), (0.0, 0));
    }

    /// A process can become fast early in its last slow burst. Most requests of this burst are then fast
    /// ones, because a burst lasts for a fixed time.
    #[test]
    fn a_straight_fall_ends_anywhere_in_a_burst() {
        for length in (16_000..=40_000).step_by(700) {
            let extra = |request: u64| 140.0 * (1.0 - request as f64 / f64::from(length)).max(0.0);
            let mut sent = 0;
            let burst = |_| {
                let (begun, mut used) = (sent, 0.0);
                while used < 150_000.0 {
                    used += 35.0 + extra(sent);
                    sent += 1;
                }
                (sent - begun, used / (sent - begun) as f64)
            };
            let bursts: Vec<_> = (0..80).map(burst).collect();
            let found = figures(&run(&bursts).record, &[])[0].slow_requests as f64 / f64::from(length);
            assert!((0.94..=1.03).contains(&found), "{length}: {found}");
        }
    }

    #[test]
    fn trials_that_were_set_aside_count_too() {
        let mut run = run(&[(1000, 100.0); 12]);
        run.push(via("jvm", 2).all_at_us(150));
        let mut records = run.trials.clone();
        let at = records.iter().position(|record| record.contender == "jvm").expect("measured");
        records[at].set_aside = Some(Aside::Warming);
        let completed = records[at].load_record.as_ref().expect("measured").lifetime.completed;
        assert_eq!(figures(&run.record, &records)[0].slow_requests, 12_000 + completed);
    }

    /// The step comes after 1,500 requests of the second look.
    #[test]
    fn a_process_that_became_faster_in_the_second_look_was_slow_until_then() {
        let mut run = run(&[(1000, 128.0); 12]);
        let mut looked = warm_up(&[(1000, 128.0), (1500, 78.0)]);
        looked.bursts.extend(warm_up(&[(4000, 28.0); 8]).bursts);
        looked.faster_by = Some(1.5);
        run.record.contenders[1].warm_ups.push(looked);
        let found = &figures(&run.record, &[])[0];
        assert_eq!((found.requests, found.slow_requests), (12_000, 13_750));
        assert_eq!(found.cpu_us_per_request, Some(Fall { first: 128.0, settled: 28.0 }));
    }
}
