//! Two runs, or two contenders of one run, set against each other case by case.
//!
//! Contenders of one run are paired round by round. Two runs are independent samples, between which the machine may have
//! changed: there the tax is the better figure, and a difference must also exceed what direct changed by.

mod alike;
mod judge;
#[cfg(test)]
mod tests;

pub use alike::Obstacle;

use super::side::counterpart;
use super::stats::{Contrast, Estimate, holm};
use super::{Analysis, Load, Severity, Side};
use crate::plan::Metric;
use crate::record::DIRECT;
use schemars::JsonSchema;
use serde::Serialize;

/// Version of this document.
const SCHEMA: u32 = 1;

/// The overall verdict is wrong in at most this share of comparisons of the same with the same, as far as rounds of a
/// run can tell.
const ALPHA: f64 = 0.05;

/// A change below this share of the first's figure is too small to call, whatever its interval: where a process happens
/// to lie in memory moves it as much (T. Mytkowicz and others, "Producing wrong data without doing anything obviously
/// wrong!", ASPLOS 2009).
pub const LEAST_CHANGE: f64 = 0.01;

/// A run that is compared, and which of its contenders.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Names it in words: its directory.
    pub name: &'a str,
    /// Its trials.
    pub side: &'a Side<'a>,
    /// What was computed of it.
    pub analysis: &'a Analysis,
    /// The one contender to compare; all that both have when absent.
    pub label: Option<&'a str>,
}

impl Subject<'_> {
    fn is_same_run(&self, other: &Self) -> bool {
        std::ptr::eq(self.side, other.side)
    }

    fn has(&self, label: &str) -> bool {
        self.side.run.contenders.iter().any(|one| one.label == label)
    }
}

/// What became of a figure from the first to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Verdict {
    /// The second is better.
    #[serde(rename = "better")]
    Better,
    /// The second is worse.
    #[serde(rename = "worse")]
    Worse,
    /// Of several figures, some are better and others worse.
    #[serde(rename = "mixed")]
    Mixed,
    /// It cannot be told from these rounds.
    #[serde(rename = "not distinguishable")]
    NotDistinguishable,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Mixed => "mixed",
            Self::NotDistinguishable => "not distinguishable",
        }
    }
}

/// One metric of one case, compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The load point, as the first run has it.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub load: Load,
    /// The first's label.
    pub label_a: String,
    /// The second's label.
    pub label_b: String,
    /// What is compared.
    pub metric: Metric,
    /// Its unit: `us`, `requests/s`, `bytes`, `ratio`, `share`.
    pub unit: &'static str,
    /// Whether it counts into the overall verdict.
    pub headline: bool,
    /// The first's figure, as its report tells it.
    pub a: Option<Estimate>,
    /// The second's.
    pub b: Option<Estimate>,
    /// Second less first.
    pub difference: Contrast,
    /// Second over first less 1; absent where the first is not above zero.
    pub change: Option<Estimate>,
    /// A difference up to this is too small to call.
    pub floor: f64,
    /// p-value adjusted for all headline rows (Holm); absent for other rows, and with a single round.
    pub adjusted_p_value: Option<f64>,
    /// What became of it, by its own interval and floor.
    pub verdict: Verdict,
}

impl Row {
    /// Whether it stands even when it is looked at together with all other headline rows.
    pub fn stands(&self) -> bool {
        self.verdict != Verdict::NotDistinguishable && self.adjusted_p_value.is_some_and(|p| p <= ALPHA)
    }
}

/// Everything that a comparison says; serialised, the JSON of `hoptax compare`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Version of this document.
    pub schema: u32,
    /// The first run.
    pub a: String,
    /// The second run; the same for two contenders of one run.
    pub b: String,
    /// Whether figures were paired round by round, as within one run.
    pub paired: bool,
    /// Of all headline rows together.
    pub verdict: Verdict,
    /// What would have forbidden the comparison; empty unless it was forced.
    pub forced: Vec<Obstacle>,
    /// What may be the reason for a difference, or weakens the comparison.
    pub warnings: Vec<String>,
    /// Cases that a `void` finding says not to believe.
    pub void: Vec<String>,
    /// Every case and metric.
    pub rows: Vec<Row>,
    /// Rows that would be called by chance alone if nothing differed: one in twenty of those with an interval.
    pub expected_by_chance: f64,
}

/// Why nothing was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Figures of different questions.
    Obstacles(Vec<Obstacle>),
    /// No case is in both, or none of them was measured.
    NothingInCommon(String),
}

/// Sets `second` against `first`. `least_change`, usually [`LEAST_CHANGE`], is the share of the first's figure below which
/// no difference is called; `force` compares in spite of obstacles.
///
/// # Errors
/// If they cannot be compared.
pub fn compare(
    first: &Subject<'_>,
    second: &Subject<'_>,
    least_change: f64,
    force: bool,
) -> Result<Comparison, Refusal> {
    let forced = alike::obstacles(first, second);
    if !forced.is_empty() && !force {
        return Err(Refusal::Obstacles(forced));
    }
    let mut rows = Vec::new();
    for (load, point) in first.side.run.load.iter().enumerate() {
        let Some(there) = counterpart(point, second.side.run) else { continue };
        for (one, other) in pairs_of_labels(first, second) {
            let pair = judge::Pair { a: (first, one, load), b: (second, other, there), least_change };
            rows.extend(judge::rows(&pair));
        }
    }
    if rows.is_empty() {
        return Err(Refusal::NothingInCommon(nothing_in_common(first, second)));
    }
    adjust(&mut rows);
    let with_interval = rows.iter().filter(|row| row.difference.interval().is_some()).count();
    Ok(Comparison {
        schema: SCHEMA,
        a: first.name.to_string(),
        b: second.name.to_string(),
        paired: first.is_same_run(second),
        verdict: overall(&rows),
        forced,
        warnings: alike::warnings(first, second),
        void: void_cases(first, second, &rows),
        expected_by_chance: with_interval as f64 * ALPHA,
        rows,
    })
}

/// Everything for which figures of `second` cannot be taken relative to those of `first`, gateway by gateway.
pub fn obstacles(first: &Side<'_>, second: &Side<'_>) -> Vec<Obstacle> {
    let (a, b) = (first.run, second.run);
    let both = |label: &&str| b.contenders.iter().any(|other| other.label == **label);
    let labels: Vec<(&str, &str)> =
        a.contenders.iter().map(|one| one.label.as_str()).filter(both).map(|label| (label, label)).collect();
    alike::of_runs(a, b, &labels)
}

/// The contenders that are set against each other: the two named, or all that both have.
fn pairs_of_labels<'s>(first: &Subject<'s>, second: &Subject<'s>) -> Vec<(&'s str, &'s str)> {
    match (first.label, second.label) {
        (Some(one), Some(other)) => vec![(one, other)],
        (one, other) => {
            let all = first.side.run.contenders.iter().map(|contender| contender.label.as_str());
            let wanted = one.or(other);
            all.filter(|label| second.has(label) && wanted.is_none_or(|wanted| wanted == *label))
                .map(|label| (label, label))
                .collect()
        }
    }
}

fn nothing_in_common(first: &Subject<'_>, second: &Subject<'_>) -> String {
    if first.side.run.load.iter().all(|point| point.search.is_some()) {
        return format!(
            "{} holds searches only, and capacities are not compared: see what each report says of them",
            first.name
        );
    }
    for subject in [first, second] {
        if subject.analysis.cases.iter().all(|case| case.trials == 0) {
            return format!("nothing was measured in {}", subject.name);
        }
    }
    let labels = |subject: &Subject<'_>| {
        let all = subject.side.run.contenders.iter().map(|one| one.label.as_str());
        all.collect::<Vec<_>>().join(", ")
    };
    format!(
        "no load point and gateway was measured in both: {} has {}, {} has {}",
        first.name,
        labels(first),
        second.name,
        labels(second)
    )
}

/// Holm's correction over the headline rows.
fn adjust(rows: &mut [Row]) {
    let headline = |row: &&mut Row| row.headline && row.difference.p_value.is_some();
    let p_values: Vec<f64> =
        rows.iter_mut().filter(headline).filter_map(|row| row.difference.p_value).collect();
    for (row, adjusted) in rows.iter_mut().filter(headline).zip(holm(&p_values)) {
        row.adjusted_p_value = Some(adjusted);
    }
}

fn overall(rows: &[Row]) -> Verdict {
    let any = |verdict| rows.iter().any(|row| row.stands() && row.verdict == verdict);
    match (any(Verdict::Worse), any(Verdict::Better)) {
        (true, true) => Verdict::Mixed,
        (true, false) => Verdict::Worse,
        (false, true) => Verdict::Better,
        (false, false) => Verdict::NotDistinguishable,
    }
}

/// The compared cases, and the whole runs, that are not to be believed.
fn void_cases(first: &Subject<'_>, second: &Subject<'_>, rows: &[Row]) -> Vec<String> {
    let mut told = Vec::new();
    for (subject, label) in
        [(first, (|row| &row.label_a) as fn(&Row) -> &String), (second, |row| &row.label_b)]
    {
        for finding in subject.analysis.findings.iter().filter(|one| one.severity == Severity::Void) {
            let case = finding.case.as_deref();
            let about = |row: &Row| {
                [label(row), DIRECT]
                    .iter()
                    .any(|label| case.is_some_and(|case| case == format!("{label}, {}", row.load.label)))
            };
            if case.is_none() || rows.iter().any(about) {
                let case = case.unwrap_or("the whole run");
                told.push(format!("{}, {case}: {} ({})", subject.name, finding.message, finding.code));
            }
        }
    }
    told.dedup();
    told
}
