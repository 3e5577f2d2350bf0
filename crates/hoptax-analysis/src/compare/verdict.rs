//! Compares two subjects: computes all rows and the overall verdict.

use super::judge::{self, Compared};
use super::{ALPHA, Comparison, Refusal, Row, Subject, Verdict, obstacles};
use crate::side::counterpart;
use crate::{Figures, Severity};
use hoptax_record::DIRECT;
use hoptax_record::report::Load;
use hoptax_stats::weighted_holm;

/// Version of the format of a comparison.
const SCHEMA: u32 = 1;

/// Compares `second` with `first`. A difference is not reported if it is smaller than `least_change`, which
/// is a share of the first figure and usually [`LEAST_CHANGE`]. If `force` is true, obstacles are ignored.
///
/// # Errors
/// If the two subjects cannot be compared.
pub fn compare(
    first: &Subject<'_>,
    second: &Subject<'_>,
    least_change: f64,
    force: bool,
) -> Result<Comparison, Refusal> {
    if let Some(why) = different_kinds(first, second) {
        return Err(Refusal::NothingInCommon(why));
    }
    let forced = obstacles::of_subjects(first, second);
    if !forced.is_empty() && !force {
        return Err(Refusal::Obstacles(forced));
    }
    let mut rows = Vec::new();
    for (load, point) in first.side.run.load.iter().enumerate() {
        let Some(there) = counterpart(point, second.side.run) else { continue };
        for (one, other) in first.pairs_of_labels(second) {
            let pair = judge::Pair { a: (first, one, load), b: (second, other, there), least_change };
            rows.extend(match first.measured_starts() {
                true => judge::rows_of_starts(&pair, &Load::new(load, point)),
                false => judge::rows(&pair),
            });
        }
    }
    if rows.is_empty() {
        return Err(Refusal::NothingInCommon(nothing_in_common(first, second)));
    }
    let rows = judge_rows(rows);
    let with_interval = rows.iter().filter(|row| row.difference.interval().is_some()).count();
    Ok(Comparison {
        schema: SCHEMA,
        a: first.name.to_string(),
        b: second.name.to_string(),
        paired: first.is_same_run(second),
        verdict: overall(&rows),
        forced,
        warnings: obstacles::warnings(first, second),
        void: void_cases(first, second, &rows),
        expected_by_chance: with_interval as f64 * ALPHA,
        rows,
    })
}

/// Why the figures of two runs have nothing in common, if one run measured starts and the other trials.
fn different_kinds(first: &Subject<'_>, second: &Subject<'_>) -> Option<String> {
    let (starts, trials) = match (first.measured_starts(), second.measured_starts()) {
        (true, false) => (first.name, second.name),
        (false, true) => (second.name, first.name),
        _ => return None,
    };
    Some(format!(
        "{starts} measured starts of gateways (its plan has `start`), and {trials} measured trials: compare \
         runs of the same kind"
    ))
}

fn nothing_in_common(first: &Subject<'_>, second: &Subject<'_>) -> String {
    if first.side.run.load.iter().all(|point| !point.is_in_rounds()) {
        return format!(
            "{} contains only searches, and hoptax does not compare capacities: read the capacities in the \
             report of each run",
            first.name
        );
    }
    for subject in [first, second] {
        let measured = subject.measured_starts() || subject.analysis.cases.iter().any(|case| case.trials > 0);
        if !measured {
            return format!("nothing was measured in {}", subject.name);
        }
    }
    let labels = |subject: &Subject<'_>| {
        let all = subject.side.run.contenders.iter().map(|one| one.label.as_str());
        all.collect::<Vec<_>>().join(", ")
    };
    format!(
        "no gateway was measured at the same load point in both runs: {} has {}, {} has {}",
        first.name,
        labels(first),
        second.name,
        labels(second)
    )
}

/// The share of α for all headline rows together. The other rows share the rest. So a comparison with many
/// rows can still find a difference in the headline rows.
const FOR_HEADLINES: f64 = 0.8;

/// Adjusts the p-values and intervals of all rows for their number (Holm), and judges each row. If nothing
/// differs, at most 5 % of comparisons have any row that is called better or worse.
fn judge_rows(mut compared: Vec<Compared>) -> Vec<Row> {
    let tested = || compared.iter().filter_map(|one| Some((&one.row, one.test?.p_value)));
    let headlines = tested().filter(|(row, _)| row.headline).count();
    let others = tested().count() - headlines;
    let weight = |row: &Row| match (headlines, others, row.headline) {
        (0, _, _) | (_, 0, _) => 1.0,
        (_, _, true) => FOR_HEADLINES / headlines as f64,
        (_, _, false) => (1.0 - FOR_HEADLINES) / others as f64,
    };
    let tests: Vec<(f64, f64)> = tested().map(|(row, p_value)| (p_value, weight(row))).collect();
    let with_tests = compared.iter_mut().filter_map(|one| Some((&mut one.row, one.test?)));
    for ((row, test), adjusted) in with_tests.zip(weighted_holm(&tests)) {
        judge::judge(row, &test, adjusted);
    }
    compared.into_iter().map(|one| one.row).collect()
}

fn overall(rows: &[Row]) -> Verdict {
    let any = |verdict| rows.iter().any(|row| row.carries() && row.verdict == verdict);
    match (any(Verdict::Worse), any(Verdict::Better)) {
        (true, true) => Verdict::Mixed,
        (true, false) => Verdict::Worse,
        (false, true) => Verdict::Better,
        (false, false) => Verdict::NotDistinguishable,
    }
}

/// True if this is the name of the contender's case in a row.
fn is_of(case: &str, label: &str, row: &Row) -> bool {
    let rest = case.strip_prefix(label).and_then(|rest| rest.strip_prefix(", "));
    rest.is_some_and(|rest| rest == row.load.label || (row.metric.is_start() && rest == "start"))
}

/// The compared cases that have a `void` finding, and the runs that have a `void` finding about the whole
/// run. A disturbed machine does not make a comparison of two gateways of one run void.
fn void_cases(first: &Subject<'_>, second: &Subject<'_>, rows: &[Row]) -> Vec<String> {
    let mut cases = Vec::new();
    for (subject, label) in
        [(first, (|row| &row.label_a) as fn(&Row) -> &String), (second, |row| &row.label_b)]
    {
        for finding in subject.analysis.findings.iter().filter(|one| one.severity == Severity::Void) {
            if first.is_same_run(second) && finding.concerns.figures == Figures::Machine {
                continue;
            }
            let case = finding.case.as_deref();
            let about = |row: &Row| {
                [label(row), DIRECT].iter().any(|label| case.is_some_and(|case| is_of(case, label, row)))
            };
            if case.is_none() || rows.iter().any(about) {
                let case = case.unwrap_or("the whole run");
                cases.push(format!("{}, {case}: {} ({})", subject.name, finding.message, finding.code));
            }
        }
    }
    cases.dedup();
    cases
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "row called wrongly. {} of the 5 % are for the headline rows" fraction(FOR_HEADLINES);
}
