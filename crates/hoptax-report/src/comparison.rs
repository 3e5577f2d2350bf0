//! Comparisons in each format. The verdict comes first, and then the rows that it is based on.

use crate::words::figures::{change, figure, value};
use crate::words::text::{inline, wrapped};
use hoptax_analysis::compare::{Comparison, Row, Verdict};
use hoptax_plan::Metric;
use hoptax_record::DIRECT;
use hoptax_stats::Estimate;
use serde::Serialize;

/// Marks a row with a difference that is not distinguishable from noise. The table of a run uses the same
/// mark.
const MARK: &str = "~";
/// What the marks of the tables mean.
const MARKS: &str = "~: not distinguishable. *: the verdict rests on these rows.";

/// Tables for a terminal. If `all` is false, only headline rows and distinguishable differences are listed. A
/// line says how many rows are not listed.
pub fn terminal(comparison: &Comparison, width: u16, all: bool) -> String {
    let width = usize::from(width);
    let mut text = wrapped(&headline(comparison), width);
    for line in reasons(comparison) {
        text.push_str(&wrapped(&format!("- {line}"), width));
    }
    for line in caveats(comparison) {
        text.push_str(&wrapped(&format!("! {line}"), width));
    }
    let (shown, hidden): (Vec<&Row>, Vec<&Row>) =
        comparison.rows.iter().partition(|row| all || is_shown(row));
    let mut heading = String::new();
    for row in shown {
        let next = format!("{}: {}", row.load.label, labels(row));
        if next != heading {
            text.push('\n');
            text.push_str(&wrapped(&next, width));
            heading = next;
        }
        text.push_str(&line(row));
    }
    text.push('\n');
    if !hidden.is_empty() {
        let more = format!("{} more rows are not distinguishable; --all shows them.", hidden.len());
        text.push_str(&wrapped(&more, width));
    }
    text.push_str(&wrapped(MARKS, width));
    text.push_str(&wrapped(&chance(comparison), width));
    text
}

/// Markdown for a pull request: the verdict, a table of the rows that the verdict is based on, and a folded
/// part with the other rows.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("**{}**\n\n", inline(&headline(comparison)));
    for line in reasons(comparison) {
        text.push_str(&format!("- {}\n", inline(&line)));
    }
    for line in caveats(comparison) {
        text.push_str(&format!("- ⚠ {}\n", inline(&line)));
    }
    let (shown, rest): (Vec<&Row>, Vec<&Row>) = comparison.rows.iter().partition(|row| is_shown(row));
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
    text.push_str(&table(&shown));
    if !rest.is_empty() {
        let count = rest.len();
        text.push_str(&format!("\n<details><summary>{count} more rows, not distinguishable</summary>\n\n"));
        text.push_str(&table(&rest));
        text.push_str("\n</details>\n");
    }
    text.push_str(&format!("\n{}\n", inline(&format!("{MARKS} {}", chance(comparison)))));
    text
}

/// The complete comparison as JSON.
pub fn json(comparison: &Comparison) -> String {
    let mut text = serde_json::to_string_pretty(comparison).expect("only string keys");
    text.push('\n');
    text
}

/// The texts of a comparison, for pages with their own layout.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Words {
    /// The verdict in a sentence.
    pub headline: String,
    /// Sentences about the rows that the verdict is based on.
    pub reasons: Vec<String>,
    /// Sentences with reasons to doubt the verdict.
    pub caveats: Vec<String>,
    /// A sentence that says how many rows would show a difference by chance.
    pub chance: String,
    /// The texts of all rows. There is a row for each case and metric.
    pub rows: Vec<RowWords>,
}

/// The texts of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowWords {
    /// The load point.
    pub load: String,
    /// Label of the gateway. If the two subjects have different labels, both labels.
    pub gateway: String,
    /// The metric in words.
    pub metric: &'static str,
    /// Unit of the metric.
    pub unit: &'static str,
    /// The first subject's figure with its interval.
    pub before: String,
    /// The second subject's figure with its interval.
    pub after: String,
    /// The change with its interval, in per cent or as a difference.
    pub change: String,
    /// The change as a share of the first subject's figure. Absent if `change` is a difference.
    pub relative: Option<Estimate>,
    /// The row's verdict.
    pub verdict: Verdict,
    /// True if the overall verdict is based on this row.
    pub stands: bool,
    /// True if the row is shown without `--all`.
    pub told: bool,
}

/// Puts a comparison into words.
pub fn words(comparison: &Comparison) -> Words {
    let of = |row: &Row| {
        let cell = |estimate: &Option<Estimate>| {
            estimate.as_ref().map_or("–".into(), |one| figure(row.metric, one))
        };
        RowWords {
            load: row.load.label.clone(),
            gateway: labels(row),
            metric: row.metric.words(),
            unit: row.unit,
            before: cell(&row.a),
            after: cell(&row.b),
            change: amount(row),
            relative: relative(row).copied(),
            verdict: row.verdict,
            stands: row.carries(),
            told: is_shown(row),
        }
    };
    Words {
        headline: headline(comparison),
        reasons: reasons(comparison),
        caveats: caveats(comparison),
        chance: chance(comparison),
        rows: comparison.rows.iter().map(of).collect(),
    }
}

/// Formats a figure of a metric with its interval.
pub fn figure_of(metric: Metric, estimate: f64, interval: Option<(f64, f64)>) -> String {
    let (low, high) = interval.unzip();
    // The points of a trend do not contain a number of trials. If there is no interval, pass 1 trial, so that
    // the text says `one trial`.
    figure(metric, &Estimate { estimate, low, high, trials: if interval.is_some() { 2 } else { 1 } })
}

fn headline(comparison: &Comparison) -> String {
    let Comparison { a, b, verdict, paired, .. } = comparison;
    let of = comparison.rows.iter().find(|row| row.headline).or(comparison.rows.first());
    let (one, other) = match (paired, of) {
        (true, Some(row)) => (row.label_a.clone(), row.label_b.clone()),
        _ => (a.clone(), b.clone()),
    };
    let sentence = match verdict {
        Verdict::Better | Verdict::Worse => format!("{other} is {} than {one}", verdict.words()),
        Verdict::Mixed => format!("{other} is better than {one} in some ways and worse in others"),
        Verdict::NotDistinguishable => format!("{other} and {one} are not distinguishable"),
    };
    format!("{sentence}{}.", elsewhere(comparison))
}

/// The part of the first sentence about rows that the verdict does not rest on. Empty if these rows agree
/// with the verdict.
fn elsewhere(comparison: &Comparison) -> String {
    let of = |verdict| {
        let rows = comparison.rows.iter().filter(|row| row.verdict == verdict && !row.carries());
        rows.filter(|row| row.label_b != DIRECT).count()
    };
    let counted = |verdict: Verdict| match of(verdict) {
        0 => None,
        1 => Some(format!("1 other figure is {}", verdict.words())),
        count => Some(format!("{count} other figures are {}", verdict.words())),
    };
    let (better, worse) = (counted(Verdict::Better), counted(Verdict::Worse));
    let surprising: Vec<String> = match comparison.verdict {
        Verdict::Better => worse.into_iter().collect(),
        Verdict::Worse => better.into_iter().collect(),
        Verdict::Mixed => Vec::new(),
        Verdict::NotDistinguishable => better.into_iter().chain(worse).collect(),
    };
    if surprising.is_empty() { String::new() } else { format!(", but {}", surprising.join(" and ")) }
}

/// Sentences about the rows that are better or worse, first those that the verdict rests on.
fn reasons(comparison: &Comparison) -> Vec<String> {
    let called = |row: &&Row| row.verdict != Verdict::NotDistinguishable;
    let (carrying, others): (Vec<&Row>, Vec<&Row>) =
        comparison.rows.iter().filter(called).partition(|row| row.carries());
    let sentence = |row: &Row| {
        let (load, verdict) = (&row.load.label, row.verdict.words());
        format!("{}, {load}: {} {}: {verdict}", row.label_b, row.metric.words(), amount(row))
    };
    carrying.into_iter().chain(others).map(sentence).collect()
}

fn caveats(comparison: &Comparison) -> Vec<String> {
    let forced = comparison.forced.iter().map(|one| {
        format!(
            "Forced comparison: {} differs ({} and {}), so the runs measured different things.",
            one.what, one.a, one.b
        )
    });
    let void = comparison.void.iter().map(|one| format!("Void, do not use: {one}"));
    forced.chain(void).chain(comparison.warnings.iter().cloned()).collect()
}

/// Says how many rows would show a difference by chance, and what a comparison of two runs cannot show.
fn chance(comparison: &Comparison) -> String {
    let rows = comparison.rows.len();
    let mut text = format!(
        "Intervals of changes account for all {rows} rows: if nothing differed, at most 1 of 20 comparisons \
        would call any row better or worse."
    );
    if !comparison.paired {
        text.push_str(
            " A difference of two runs counts only if it is larger than the scatter of separate runs. To see \
             smaller differences, measure both variants in one run and compare its labels.",
        );
    }
    text
}

/// True if a row is shown without `--all`.
fn is_shown(row: &Row) -> bool {
    row.headline || row.verdict != Verdict::NotDistinguishable
}

fn labels(row: &Row) -> String {
    match row.label_a == row.label_b {
        true => row.label_a.clone(),
        false => format!("{} → {}", row.label_a, row.label_b),
    }
}

/// The change as a share of the first subject's figure. `None` if there are several trials but no interval,
/// because the first subject's figure may then be zero.
fn relative(row: &Row) -> Option<&Estimate> {
    row.change.as_ref().filter(|changed| changed.interval().is_some() || changed.trials == 1)
}

/// The change in per cent. If that is not available, the difference. Its interval agrees with the verdict.
fn amount(row: &Row) -> String {
    match relative(row) {
        Some(changed) => change(changed),
        None => {
            let difference = hoptax_stats::Estimate {
                estimate: row.difference.estimate,
                low: row.difference.low,
                high: row.difference.high,
                trials: row.difference.rounds,
            };
            let sign = if difference.estimate > 0.0 { "+" } else { "" };
            format!("{sign}{}", figure(row.metric, &difference))
        }
    }
}

fn line(row: &Row) -> String {
    let point = |estimate: &Option<hoptax_stats::Estimate>| {
        estimate.as_ref().map_or("–".into(), |one| value(row.metric, one.estimate))
    };
    let star = if row.headline { "*" } else { " " };
    let verdict = match row.verdict {
        Verdict::NotDistinguishable => MARK,
        verdict => verdict.words(),
    };
    let text = format!(
        "{star}{:<22} {:>9} {:>9}  {:<24} {verdict}",
        row.metric.words(),
        point(&row.a),
        point(&row.b),
        amount(row)
    );
    format!("{}\n", text.trim_end())
}

fn table(rows: &[&Row]) -> String {
    let mut text = String::from(
        "| load | gateway | metric | before | after | change | verdict |\n|---|---|---|---:|---:|---:|---|\n",
    );
    for row in rows {
        let cell = |estimate: &Option<hoptax_stats::Estimate>| {
            estimate.as_ref().map_or("–".into(), |one| figure(row.metric, one))
        };
        let verdict = match row.verdict {
            Verdict::NotDistinguishable => MARK.to_owned(),
            verdict => format!("**{}**", verdict.words()),
        };
        // Escaped, because a lone `*` begins emphasis.
        let star = if row.headline { "\\*" } else { "" };
        let cells =
            [&row.load.label, &labels(row), row.metric.words(), &cell(&row.a), &cell(&row.b), &amount(row)];
        let [load, gateway, metric, before, after, change] = cells.map(inline);
        text.push_str(&format!(
            "| {load} | {gateway} | {star}{metric} | {before} | {after} | {change} | {verdict} |\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::compare::{LEAST_CHANGE, Subject, compare};
    use hoptax_analysis::fixture::{Run, sample};
    use hoptax_analysis::{Analysis, Side};

    fn of_labels(run: &Run, a: &str, b: &str) -> Comparison {
        let (side, analysis): (Side<'_>, Analysis) = (Side::read(&run.record, &run.trials), run.analyse());
        let subject = |label| Subject { name: "run-1", side: &side, analysis: &analysis, label: Some(label) };
        compare(&subject(a), &subject(b), LEAST_CHANGE, false).expect("comparable")
    }

    #[test]
    fn the_verdict_comes_first_and_lines_fit_into_eighty_columns() {
        let run = sample();
        for all in [false, true] {
            let text = terminal(&of_labels(&run, "haproxy", "nginx"), 80, all);
            insta::assert_snapshot!(text);
            crate::fixture::fits(&text, 80);
            assert_eq!(text.contains("--all"), !all, "{text}");
        }
    }

    #[test]
    fn markdown_tables_are_rectangular() {
        let run = sample();
        let text = markdown(&of_labels(&run, "haproxy", "nginx"));
        insta::assert_snapshot!(text);
        let rows = text.lines().filter(|line| line.starts_with('|'));
        for row in rows {
            assert_eq!(row.replace("\\|", "").matches('|').count(), 8, "{row}");
        }
    }

    /// The first sentence, the reasons and the rows agree.
    #[test]
    fn the_first_sentence_agrees_with_the_rows() {
        let run = sample();
        let mut comparison = of_labels(&run, "haproxy", "nginx");
        comparison.verdict = Verdict::NotDistinguishable;
        for row in &mut comparison.rows {
            row.verdict =
                if row.metric == Metric::P99 { Verdict::Better } else { Verdict::NotDistinguishable };
        }
        let (rows, text) = (
            comparison.rows.iter().filter(|row| row.metric == Metric::P99).count(),
            terminal(&comparison, 200, true),
        );
        let figures =
            if rows == 1 { "1 other figure is".to_owned() } else { format!("{rows} other figures are") };
        let first = format!("nginx and haproxy are not distinguishable, but {figures} better.");
        assert!(text.starts_with(&first), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("- ")).count(), rows, "{text}");
    }

    #[test]
    fn a_printed_change_excludes_zero_exactly_if_the_row_is_better_or_worse() {
        let run = sample();
        let words = words(&of_labels(&run, "haproxy", "nginx"));
        let mut counts = [0; 2];
        for row in &words.rows {
            let (_, interval) = row.change.split_once(" (").expect("an interval");
            let interval = interval.trim_end_matches(')').replace(" to ", "–");
            let (low, high) = interval.split_once('–').expect("two ends");
            let excludes = low != "0" && low.starts_with('−') == high.starts_with('−') && high != "0";
            let is_called = row.verdict != Verdict::NotDistinguishable;
            assert_eq!(excludes, is_called, "{row:?}");
            counts[usize::from(is_called)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    }
}
