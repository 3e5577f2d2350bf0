//! Data for charts: a trial over time, and a case's whole distribution.

use crate::trials::trial::Trial;
use hdrhistogram::Histogram;
use hoptax_format::clock::SECOND;
use hoptax_format::histogram::{WINDOW_DIGITS, empty};
use hoptax_format::record::{WINDOW_NS, Window};
use hoptax_record::report::Series;
use hoptax_stats::{Statistic, merge};

/// Maximum number of points per trial. A chart cannot show more points, so neighbouring windows are combined.
const MOST_POINTS: usize = 120;
/// Number of points of a [`curve`] per factor of ten in rarity.
const PER_DECADE: i32 = 10;

/// Computes the points of a trial. An incomplete last window is left out.
pub(crate) fn series(trial: &Trial<'_>) -> Series {
    let whole = (trial.load.measured_ns / WINDOW_NS) as usize;
    let windows = &trial.load.windows[..whole.min(trial.load.windows.len())];
    let together = windows.len().div_ceil(MOST_POINTS).max(1);
    let times: Vec<Histogram<u64>> = windows.chunks(together).map(response_times).collect();
    let of = |statistic: Statistic| times.iter().map(|times| statistic.of(times)).collect();
    let rate = |chunk: &[Window]| {
        let seconds = (chunk.len() as u64 * WINDOW_NS) as f64 / SECOND as f64;
        chunk.iter().map(|window| window.completed).sum::<u64>() as f64 / seconds
    };
    Series {
        round: trial.round(),
        direct: trial.direct(),
        step_s: (together as u64 * WINDOW_NS) as f64 / SECOND as f64,
        throughput: windows.chunks(together).map(rate).collect(),
        p50_us: of(Statistic::P50),
        p99_us: of(Statistic::P99),
    }
}

/// Response times in these windows. Histograms that cannot be read are left out.
fn response_times(windows: &[Window]) -> Histogram<u64> {
    let mut sum = empty(WINDOW_DIGITS);
    for times in windows.iter().filter_map(|window| window.response_time.as_ref()?.decode().ok()) {
        // This fails only if the histogram has another range, because another tool wrote it.
        let _ = sum.add(times);
    }
    sum
}

/// A distribution as a curve of points (rarity, response time in µs). Rarity 2 is the median, and rarity 100
/// the 99th percentile. The curve ends with the largest sample, and the rarity of this sample is the number
/// of samples. Empty without samples.
pub(crate) fn curve(trials: &[Trial<'_>]) -> Vec<(f64, f64)> {
    let all = merge(trials.iter().map(|trial| &trial.response_time));
    let samples = all.len() as f64;
    let Some(largest) = Statistic::Max.of(&all) else { return Vec::new() };
    let spaced = (0..).map(|step| 10_f64.powf(f64::from(step) / f64::from(PER_DECADE)));
    let mut rarities: Vec<f64> = spaced.take_while(|rarity| *rarity < samples).collect();
    let named = Statistic::ALL.into_iter().filter_map(Statistic::quantile).map(|share| 1.0 / (1.0 - share));
    rarities.extend(named.map(|rarity| (rarity * 1e6).round() / 1e6).filter(|rarity| *rarity < samples));
    rarities.sort_by(f64::total_cmp);
    rarities.dedup_by(|one, other| (*one - *other).abs() < 1e-6);
    let at = |rarity: f64| all.value_at_quantile(1.0 - 1.0 / rarity) as f64 / 1e3;
    let points = rarities.into_iter().map(|rarity| (rarity, at(rarity)));
    points.chain([(samples, largest)]).collect()
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Run, via};
    use hoptax_stats::Statistic;

    #[test]
    fn neighbouring_windows_are_combined() {
        let mut run = Run::with_load(vec![crate::fixture::closed_point(4, 30)]);
        let windows: Vec<Vec<u64>> = (0..300).map(|index| vec![100 + index; 10]).collect();
        run.push(via("nginx", 1).windows_us(&windows));
        let analysis = run.analyse();
        let series = &analysis.case("nginx", 0).expect("measured").series[0];
        assert_eq!((series.round, series.direct, series.throughput.len()), (1, None, 100));
        assert!((series.step_s - 0.3).abs() < 1e-9);
        assert!(series.throughput.iter().all(|rate| (rate - 100.0).abs() < 1e-9), "{:?}", series.throughput);
        // The first point combines windows of 100, 101 and 102 µs. Its median has only two significant
        // digits.
        let first = series.p50_us[0].expect("completed");
        assert!((first - 101.0).abs() < 1.0, "{first}");
    }

    #[test]
    fn the_curve_passes_through_every_reported_percentile() {
        let mut run = Run::closed(1);
        for round in 0..3 {
            let times: Vec<u64> = (0..1000).map(|index| 100 + index * index / 50).collect();
            run.push(via("nginx", round).windows_us(&[times]));
        }
        let analysis = run.analyse();
        let case = analysis.case("nginx", 0).expect("measured");
        let reported = case.response_time.as_ref().expect("measured");
        for statistic in [Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99, Statistic::P999] {
            let rarity = 1.0 / (1.0 - statistic.quantile().expect("a percentile"));
            let point =
                case.curve.iter().find(|point| (point.0 - rarity).abs() < 1e-3).expect("on the curve");
            let expected = reported.get(statistic).expect("samples").estimate;
            assert!((point.1 - expected).abs() < 1e-9, "{statistic:?}: {} and {expected}", point.1);
        }
        let (rarity, largest) = *case.curve.last().expect("samples");
        assert_eq!((rarity, largest), (3000.0, reported.max.expect("samples").estimate));
        assert!(case.curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    }
}
