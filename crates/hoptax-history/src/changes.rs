//! Change points of a trend, and whether the gateway or the machine caused them.

use super::basis::PLAN;
use super::{Bound, Cause, Change, Point};
use hoptax_plan::Metric;
use hoptax_report::figure_in_words;
use hoptax_stats::{ChangePoint, Reading, change_points, is_change, step_at};
use std::collections::HashMap;

/// Direct counts as unchanged only if the p-value of a step at the same place is above this.
const UNCHANGED: f64 = 0.05;

/// Direct may have changed this number of runs earlier or later.
const NEAR: usize = 1;

/// Verdict of runs that are left out.
const VOID: &str = "void";

/// The metric of direct that changes if the machine changes. For a tax, it is the metric that the tax is
/// computed from. `None` if direct has no such metric.
pub(super) fn of_machine(metric: Metric) -> Option<Metric> {
    match (metric, metric.plain()) {
        (_, Some(plain)) => Some(plain),
        // Direct has no gateway whose CPU time could change, but a slower CPU also makes its responses
        // slower.
        (Metric::CpuUsPerRequest | Metric::CpuUsPerMessage | Metric::CpuUsPerStreamSecond, _) => {
            Some(Metric::P50)
        }
        (Metric::Throughput, _) => Some(metric),
        _ => metric.quantile().map(|_| metric),
    }
}

/// The changes of a trend, oldest first. `direct` has the points of direct in the metric [`of_machine`].
/// These are the same points if the trend is that of direct, and no points if there is no such metric.
pub(super) fn find_changes(metric: Metric, points: &[Point], direct: &[Point]) -> Vec<Change> {
    let readings = Readings::of(points, |_, place| Some(place));
    let places: HashMap<&str, usize> = points.iter().map(|point| &*point.id).zip(0..).collect();
    let direct = Readings::of(direct, |point, _| places.get(&*point.id).copied());
    let of_direct: Vec<usize> =
        change_points(&direct.readings).iter().map(|one| direct.places[one.after]).collect();
    let found = change_points(&readings.readings);
    let after: Vec<usize> = found.iter().map(|one| readings.places[one.after]).collect();
    let change = |(index, one): (usize, &ChangePoint)| {
        let place = after[index];
        let start = index.checked_sub(1).map_or(0, |before| after[before]);
        let end = after.get(index + 1).copied().unwrap_or(points.len());
        let is_near = of_direct.iter().any(|other| other.abs_diff(place) <= NEAR);
        let cause = match direct.step_at(start, place, end) {
            Some(p_value) if is_change(p_value) => Cause::Machine,
            _ if is_near => Cause::Machine,
            Some(p_value) if p_value > UNCHANGED => Cause::Gateway,
            _ => Cause::Unclear,
        };
        let last = readings.places[one.before];
        let (before, after) = (&points[last], &points[place]);
        let changed: Vec<String> =
            points[last + 1..=place].iter().flat_map(|point| point.changed.clone()).collect();
        Change {
            before: before.id.clone(),
            version_before: before.version.clone(),
            after: after.id.clone(),
            version_after: after.version.clone(),
            from: one.from,
            to: one.to,
            p_value: one.p_value,
            worse: (one.to > one.from) == metric.grows_worse(),
            cause: with_known(cause, &changed),
            changed,
            runs_since: (points.len() - place) as u32,
        }
    };
    found.iter().enumerate().map(change).collect()
}

/// Corrects the cause if it is known what else changed between the two runs. `changed` is the list in
/// [`Change::changed`]. A new plan can affect direct like a machine does, and a gateway through its
/// configuration.
fn with_known(cause: Cause, changed: &[String]) -> Cause {
    let is_plan = |one: &&String| *one == PLAN;
    let is_hoptax = |one: &&String| one.starts_with("hoptax ");
    let (plan, hoptax) = (changed.iter().any(|one| is_plan(&one)), changed.iter().any(|one| is_hoptax(&one)));
    // Versions, hosts and their properties. A configuration follows from the plan.
    let others = changed.iter().any(|one| one.contains(" → ") && !is_hoptax(&one));
    match (cause, plan, hoptax, others) {
        (Cause::Machine | Cause::Gateway, true, false, false) => Cause::Plan,
        (Cause::Machine, false, true, false) => Cause::Hoptax,
        (Cause::Machine, true, ..) | (Cause::Machine, _, true, _) | (Cause::Gateway, true, ..) => {
            Cause::Unclear
        }
        (cause, ..) => cause,
    }
}

impl Change {
    /// The change in words: `104 µs → 126 µs (+21.2 %), worse: the gateway`.
    pub fn in_words(&self, metric: Metric) -> String {
        let [from, to] = [self.from, self.to].map(|level| figure_in_words(metric, level, None));
        let relative = (self.from > 0.0 && !metric.is_mostly_zero())
            .then(|| format!(" ({:+.1} %)", (self.to / self.from - 1.0) * 100.0));
        let verdict = if self.worse { "worse" } else { "better" };
        format!("{from} → {to}{}, {verdict}: {}", relative.unwrap_or_default(), self.cause.in_words())
    }
}

/// The readings of the points that count. The points of a run with a `void` finding do not count.
struct Readings {
    readings: Vec<Reading>,
    /// The place of each reading in the trend, ascending.
    places: Vec<usize>,
}

impl Readings {
    /// `place` returns the place of a point in the trend. `None` if the trend has no point of the same run.
    fn of(points: &[Point], place: impl Fn(&Point, usize) -> Option<usize>) -> Self {
        let counts = points.iter().zip(0..).filter(|(point, _)| point.verdict != VOID);
        let (readings, places) =
            counts.filter_map(|(point, index)| Some((reading(point), place(point, index)?))).unzip();
        Self { readings, places }
    }

    /// The p-value of a step at `place`, judged over the places from `start` to `end`.
    fn step_at(&self, start: usize, place: usize, end: usize) -> Option<f64> {
        let before = |limit: usize| self.places.partition_point(|one| *one < limit);
        let (start, place, end) = (before(start), before(place), before(end));
        step_at(&self.readings[start..end], place - start)
    }
}

fn reading(point: &Point) -> Reading {
    let bound = point.bound.map(|bound| match bound {
        Bound::AtLeast => hoptax_stats::Bound::AtLeast,
        Bound::AtMost => hoptax_stats::Bound::AtMost,
    });
    Reading { value: point.estimate, half_width: point.interval.map(|(low, high)| (high - low) / 2.0), bound }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "the gateway if direct has p > {}; otherwise" number(UNCHANGED);
    METHODOLOGY "direct changed in the same place, ±{} run" number(NEAR);
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: [f64; 10] = [100.0, 101.0, 99.0, 100.0, 101.0, 120.0, 121.0, 119.0, 121.0, 120.0];
    const LEVEL: [f64; 10] = [80.0, 81.0, 80.5, 79.5, 80.0, 80.5, 81.0, 79.5, 80.0, 80.5];

    fn points(values: &[f64]) -> Vec<Point> {
        let point = |(index, value): (usize, &f64)| Point {
            id: format!("run-{index}"),
            started_unix: 86_400 * index as i64,
            estimate: *value,
            bound: None,
            interval: Some((value - 2.0, value + 2.0)),
            verdict: "believable".into(),
            version: Some(if index < 5 { "1.24" } else { "1.26" }.into()),
            changed: if index == 5 { vec!["nginx 1.24 → 1.26".into()] } else { vec![] },
        };
        values.iter().enumerate().map(point).collect()
    }

    fn causes(metric: Metric, values: &[f64], direct: &[Point]) -> Vec<Cause> {
        find_changes(metric, &points(values), direct).iter().map(|one| one.cause).collect()
    }

    #[test]
    fn a_step_in_the_tax_alone_is_the_gateway() {
        let changes = find_changes(Metric::AddedP50, &points(&STEP), &points(&LEVEL));
        assert_eq!(changes.len(), 1, "{changes:?}");
        let change = &changes[0];
        assert_eq!((&*change.before, &*change.after, change.runs_since), ("run-4", "run-5", 5));
        assert_eq!(
            (change.version_before.as_deref(), change.version_after.as_deref()),
            (Some("1.24"), Some("1.26"))
        );
        assert_eq!((change.worse, change.cause), (true, Cause::Gateway));
        assert_eq!(change.changed, ["nginx 1.24 → 1.26"]);
        assert_eq!(change.in_words(Metric::AddedP50), "100 µs → 120 µs (+20.0 %), worse: the gateway");
        assert!((change.from - 100.2).abs() < 0.1 && (change.to - 120.2).abs() < 0.1, "{change:?}");
    }

    #[test]
    fn a_step_in_both_is_the_machine() {
        let slower: Vec<f64> = STEP.iter().map(|value| value * 0.8).collect();
        assert_eq!(causes(Metric::AddedP50, &STEP, &points(&slower)), [Cause::Machine]);
        let mut one_later = slower.clone();
        one_later[5] = one_later[4];
        assert_eq!(causes(Metric::AddedP50, &STEP, &points(&one_later)), [Cause::Machine]);
        let all = points(&STEP);
        assert_eq!(causes(Metric::P50, &STEP, &all), [Cause::Machine], "direct itself");
    }

    /// If a change of the plan or of hoptax is listed, the machine is not the cause.
    #[test]
    fn a_listed_change_of_the_plan_is_the_cause() {
        let slower: Vec<f64> = STEP.iter().map(|value| value * 0.8).collect();
        let cause = |changed: &[&str], direct: &[f64]| {
            let mut series = points(&STEP);
            series[5].changed = changed.iter().map(|one| (*one).to_owned()).collect();
            find_changes(Metric::AddedP50, &series, &points(direct))[0].cause
        };
        assert_eq!(cause(&[], &slower), Cause::Machine);
        assert_eq!(cause(&["kernel 6.1 → 6.2"], &slower), Cause::Machine);
        assert_eq!(cause(&["plan"], &slower), Cause::Plan);
        assert_eq!(cause(&["nginx configuration", "plan"], &LEVEL), Cause::Plan);
        assert_eq!(cause(&["hoptax 0.1.0 → 0.2.0"], &slower), Cause::Hoptax);
        for several in [&["kernel 6.1 → 6.2", "plan"][..], &["hoptax 0.1.0 → 0.2.0", "plan"]] {
            assert_eq!(cause(several, &slower), Cause::Unclear, "{several:?}");
        }
        assert_eq!(cause(&["nginx 1.24 → 1.26", "plan"], &LEVEL), Cause::Unclear);
        assert_eq!(cause(&["nginx configuration"], &LEVEL), Cause::Gateway);
    }

    #[test]
    fn without_enough_runs_of_direct_the_cause_is_unclear() {
        assert_eq!(causes(Metric::MemoryRssBytes, &STEP, &[]), [Cause::Unclear]);
        assert_eq!(causes(Metric::AddedP50, &STEP, &points(&LEVEL)[..7]), [Cause::Unclear]);
        let mut void = points(&LEVEL);
        void[5..8].iter_mut().for_each(|point| point.verdict = "void".into());
        assert_eq!(causes(Metric::AddedP50, &STEP, &void), [Cause::Unclear]);
    }

    #[test]
    fn runs_of_direct_are_matched_by_their_ids() {
        let mut direct = points(&LEVEL);
        direct.remove(1);
        direct.insert(0, Point { id: "of direct alone".into(), estimate: 500.0, ..direct[0].clone() });
        assert_eq!(causes(Metric::AddedP50, &STEP, &direct), [Cause::Gateway]);
    }

    #[test]
    fn void_runs_do_not_count() {
        let mut series = points(&STEP);
        series[5..].iter_mut().for_each(|point| point.verdict = "void".into());
        assert!(find_changes(Metric::AddedP50, &series, &[]).is_empty());
        let mut series = points(&STEP);
        series[5].verdict = "void".into();
        let changes = find_changes(Metric::AddedP50, &series, &points(&LEVEL));
        assert_eq!((&*changes[0].before, &*changes[0].after), ("run-4", "run-6"));
        assert_eq!(changes[0].changed, ["nginx 1.24 → 1.26"], "changes of the run between count");
    }

    #[test]
    fn a_ratio_gets_worse_if_it_falls() {
        let worse = |metric| find_changes(metric, &points(&STEP), &points(&LEVEL))[0].worse;
        assert!(worse(Metric::AddedP99) && worse(Metric::MemoryRssBytes));
        assert!(!worse(Metric::ThroughputRatio) && !worse(Metric::Throughput));
    }

    #[test]
    fn bounds_show_a_change_only_in_one_direction() {
        let mut series = points(&STEP);
        series[5..].iter_mut().for_each(|point| point.bound = Some(Bound::AtLeast));
        assert_eq!(find_changes(Metric::Throughput, &series, &points(&LEVEL)).len(), 1);
        let mut series = points(&STEP);
        series[..5].iter_mut().for_each(|point| point.bound = Some(Bound::AtLeast));
        assert!(find_changes(Metric::Throughput, &series, &points(&LEVEL)).is_empty());
    }

    #[test]
    fn every_tax_has_a_metric_of_the_machine() {
        assert_eq!(of_machine(Metric::AddedP99), Some(Metric::P99));
        assert_eq!(of_machine(Metric::ThroughputRatio), Some(Metric::Throughput));
        assert_eq!(of_machine(Metric::P999), Some(Metric::P999));
        assert_eq!(of_machine(Metric::CpuUsPerRequest), Some(Metric::P50));
        assert_eq!([Metric::MemoryRssBytes, Metric::Ready, Metric::ErrorShare].map(of_machine), [None; 3]);
    }
}
