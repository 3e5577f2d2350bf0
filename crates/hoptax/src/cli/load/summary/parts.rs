//! Tables for the parts of a load. A part is a target of a mix, or a stage of a rate.

use super::super::figures::{cut, decimals, thousands, time};
use hdrhistogram::Histogram;
use hoptax_format::histogram::{DecodeError, WINDOW_DIGITS, empty};
use hoptax_format::record::{LoadRecord, TargetRecord, WINDOW_NS};
use hoptax_format::spec::{Rate, Stage};
use hoptax_plan::units::show_pace;
use std::fmt;

/// One target or stage.
#[derive(Debug)]
pub(super) struct Row {
    name: String,
    /// The number of completed requests for a target, or the completed requests per second for a stage.
    completed: String,
    /// Failures, and responses that are not successes.
    failed: u64,
    response_time: Histogram<u64>,
}

pub(super) fn targets(targets: &[TargetRecord]) -> Result<Vec<Row>, DecodeError> {
    let row = |target: &TargetRecord| {
        Ok(Row {
            name: target.name.clone(),
            completed: thousands(target.completed),
            failed: target.failed + target.completed.saturating_sub(target.ok),
            response_time: target.response_time.decode()?,
        })
    };
    targets.iter().map(row).collect()
}

/// The rows of `stages`. Each row is computed from the windows inside the stage. Stages that the load did not
/// reach are left out.
pub(super) fn stages(stages: &[Stage], record: &LoadRecord) -> Result<Vec<Row>, DecodeError> {
    let mut rows = Vec::new();
    let mut start = 0;
    for stage in stages {
        let end = start + stage.for_ns;
        let inside = (start.div_ceil(WINDOW_NS) as usize)..((end / WINDOW_NS) as usize);
        let windows =
            record.windows.get(inside.start..inside.end.min(record.windows.len())).unwrap_or_default();
        start = end;
        if windows.is_empty() {
            continue;
        }
        let mut response_time = empty(WINDOW_DIGITS);
        for encoded in windows.iter().filter_map(|window| window.response_time.as_ref()) {
            response_time.add(encoded.decode()?).expect("all windows have the same bounds");
        }
        let completed: u64 = windows.iter().map(|window| window.completed).sum();
        let seconds = windows.len() as f64 * WINDOW_NS as f64 / 1e9;
        rows.push(Row {
            name: show_pace(&Rate::Stages(vec![*stage])),
            completed: format!("{}/s", decimals(completed as f64 / seconds)),
            failed: windows.iter().map(|w| w.timeouts + w.errors + w.completed.saturating_sub(w.ok)).sum(),
            response_time,
        });
    }
    Ok(rows)
}

/// Writes a table of `rows`, or nothing if there are none.
pub(super) fn write(f: &mut fmt::Formatter<'_>, what: &str, rows: &[Row]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    const NAME: usize = 38;
    let [completed, median, tail, failed] = ["completed", "50 %", "99 %", "failed"];
    writeln!(f, "\n{what:NAME$}{completed:>12}{median:>10}{tail:>11}{failed:>9}")?;
    for row in rows {
        let at = |quantile| match row.response_time.is_empty() {
            true => "-".to_owned(),
            false => time(row.response_time.value_at_quantile(quantile) as f64),
        };
        let name = cut(&row.name, NAME - 1);
        let failed = thousands(row.failed);
        writeln!(f, "{name:NAME$}{:>12}{:>10}{:>11}{failed:>9}", row.completed, at(0.5), at(0.99))?;
    }
    Ok(())
}
