//! Memory of a gateway for each open stream: the slope of its memory over load points that differ only in
//! their number of streams.
//!
//! Only closed loops have such load points, because only they keep connections × streams open. If a process
//! keeps the memory that a larger load point needed, the slope is too small. Plans with `isolate` avoid this.

use crate::trials::metric::of_trial;
use crate::trials::trial::Trial;
use hoptax_format::spec::Shape;
use hoptax_plan::{LoadPoint, Metric};
use hoptax_record::report::{Case, Difference};
use hoptax_stats::of_mean;
use std::collections::BTreeMap;

/// Adds the memory per stream to the tax of each case that has one.
pub(crate) fn fill_in(points: &[LoadPoint], examined: &mut [(Case, Vec<Trial<'_>>)]) {
    let all = &*examined;
    let figures: Vec<Option<Difference>> = all.iter().map(|(case, _)| of_case(points, case, all)).collect();
    for ((case, _), figure) in examined.iter_mut().zip(figures) {
        if let Some((tax, figure)) = case.tax.as_mut().zip(figure) {
            tax.further.insert(Metric::BytesPerStream, figure);
        }
    }
}

fn of_case(points: &[LoadPoint], case: &Case, examined: &[(Case, Vec<Trial<'_>>)]) -> Option<Difference> {
    case.tax.as_ref()?;
    let trials = |load: usize| {
        let is_meant =
            |(one, _): &&(Case, Vec<Trial<'_>>)| one.gateway == case.gateway && one.load.index == load;
        examined.iter().find(is_meant).map_or(&[][..], |(_, trials)| trials)
    };
    let slopes: Vec<f64> = by_round(points, case.load.index, trials).into_values().collect();
    // Direct has no gateway, and therefore no memory.
    let floor = Some(0.0);
    Some(Difference::new(of_mean(&slopes)?, Metric::BytesPerStream.neutral(), floor))
}

/// The memory per stream in each round that has trials of all these load points, bytes. The load points are
/// `load` and those that differ from it only in their number of streams. Empty without another such point.
pub(crate) fn by_round<'t, 'a: 't>(
    points: &[LoadPoint],
    load: usize,
    trials: impl Fn(usize) -> &'t [Trial<'a>],
) -> BTreeMap<u32, f64> {
    let family = family(points, load);
    let mut rounds: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for index in &family {
        let of_streams =
            |trial: &&Trial<'_>| trial.messages.as_ref().is_some_and(|one| one.messages.is_some());
        for trial in trials(*index).iter().filter(of_streams) {
            if let Some(bytes) = of_trial(Metric::MemoryRssBytes, trial) {
                let streams = points[*index].concurrency() as f64;
                rounds.entry(trial.round()).or_default().push((streams, bytes));
            }
        }
    }
    let whole = rounds.into_iter().filter(|(_, found)| found.len() == family.len());
    whole.filter_map(|(round, found)| Some((round, slope(&found)?))).collect()
}

/// The load points that differ from `load` at most in their number of streams, with `load` itself.
fn family(points: &[LoadPoint], load: usize) -> Vec<usize> {
    let Some(own) = points.get(load).filter(|own| own.shape == Shape::Closed) else { return Vec::new() };
    let is_alike = |other: &LoadPoint| {
        let (connections, streams) = (own.connections, own.streams);
        other.is_in_rounds() && LoadPoint { connections, streams, ..other.clone() } == *own
    };
    (0..points.len()).filter(|index| is_alike(&points[*index])).collect()
}

/// The slope of the straight line with the least squares of y. `None` if all x are equal.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut both, mut square) = (0.0, 0.0);
    for point in points {
        both += (point.0 - x) * (point.1 - y);
        square += (point.0 - x).powi(2);
    }
    (square > 0.0).then(|| both / square)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Side;
    use crate::fixture::{MadeTrial, Run, closed_point, via};
    use hoptax_stats::Estimate;

    const KIB: u64 = 1024;

    /// Four rounds. A gateway needs 10 MiB, and 40 or 42 KiB for each stream.
    fn run(connections: &[u32], change: impl Fn(MadeTrial) -> MadeTrial) -> Run {
        let mut run = Run::with_load(connections.iter().map(|count| closed_point(*count, 1)).collect());
        for round in 0..4 {
            for (load, count) in (0..).zip(connections) {
                let of = |who: &str| via(who, round).at_load(load).server_stream_us(100, 1000);
                run.push(of("direct").first()).push(of("direct").last());
                let each = 40 + 2 * u64::from(round % 2);
                run.push(change(of("nginx").rss_max(10 * KIB * KIB + each * KIB * u64::from(*count))));
            }
        }
        run
    }

    fn found(run: &Run, load: usize) -> Option<Estimate> {
        let analysis = run.analyse();
        let tax = analysis.case("nginx", load).expect("measured").tax.clone().expect("a gateway has a tax");
        Some(tax.get(Metric::BytesPerStream)?.estimate)
    }

    #[test]
    fn it_is_the_slope_over_the_load_points() {
        let run = run(&[10, 100, 400], |trial| trial);
        for load in 0..3 {
            let each = found(&run, load).expect("three load points");
            assert!((each.estimate - 41.0 * 1024.0).abs() < 1.0, "{each:?}");
            assert!(each.trials == 4 && each.excludes(40.0 * 1024.0 - 2000.0), "{each:?}");
        }
        let side = Side::read(&run.record, &run.trials);
        let rounds: Vec<f64> = side.values(Metric::BytesPerStream, "nginx", 1);
        let expected = [40.0, 42.0, 40.0, 42.0].map(|each| each * 1024.0);
        assert!(rounds.iter().zip(expected).all(|(found, each)| (found - each).abs() < 1.0), "{rounds:?}");
    }

    #[test]
    fn without_a_slope_over_streams_there_is_no_memory_per_stream() {
        assert_eq!(found(&run(&[100], |trial| trial), 0), None);
        assert_eq!(found(&run(&[100, 100], |trial| trial), 0), None);
        let mut other = run(&[10, 100], |trial| trial);
        assert!(found(&other, 0).is_some());
        other.record.load[1].requests_per_connection = Some(1);
        assert_eq!(found(&other, 0), None);
        assert_eq!(found(&run(&[10, 100], MadeTrial::mixed), 0), None);
    }
}
