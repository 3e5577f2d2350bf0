//! Shows why requests beyond p99 took longer than those at the median.

mod picture;
#[cfg(test)]
mod tests;
mod trace;
mod words;

pub(super) use words::sentence;

use super::ProfileFile;
use super::model::Model;
use crate::words::format::{Scale, grouped};
use crate::words::layout::RemarkedTable;
use crate::words::table::{Cell, none};
use crate::words::text::{capital, failed_passes, place, with_interval};
use hoptax_analysis::Case;
use hoptax_record::report::{SlowCause, SlowFigures};
use minijinja::{Value, context};
use words::cause_in_words;

/// Headings of the table, after the cause.
const HEADINGS: [&str; 3] = ["share", "slow", "median"];

/// What the figures of the tables are.
pub(super) const NOTE: &str = "Slow requests are those beyond p99 of their pass. Their extra time is the \
     time that they took longer than as many requests near the median. The shares are shares of it, with 95 \
     % intervals over slices of time. Separate passes record all switches of threads, which costs time. No \
     other figure uses these passes.";

/// Smallest share of a row, on either side of zero.
const LEAST: f64 = 0.005;

/// Maximum number of rows of a table. The JSON report has all causes.
const MOST_ROWS: usize = 12;

/// The causes of each case.
pub(super) fn tables(model: &Model) -> Vec<RemarkedTable> {
    model.slow.iter().map(|one| table(one, model)).collect()
}

fn table(one: &SlowFigures, model: &Model) -> RemarkedTable {
    let times = one.slow_us.as_ref().zip(one.usual_us).map_or_else(String::new, |(slow, usual)| {
        let slow = with_interval(slow, Scale::of_us(slow.estimate));
        format!(": {slow}, and {} at the median", Scale::of_us(usual).value(usual))
    });
    let shown = |cause: &&SlowCause| cause.share.estimate.abs() >= LEAST;
    RemarkedTable {
        title: format!("Requests beyond p99, {} {}{times}", one.contender, place(&one.load)),
        sentence: one.sentence.clone(),
        first: "cause",
        headings: &HEADINGS,
        rows: one.causes.iter().filter(shown).take(MOST_ROWS).map(row).collect(),
        remarks: remarks(one).into_iter().chain(cost(one, model)).collect(),
    }
}

/// What recording costs: p50 in the passes and in the trials of the same run.
fn cost(one: &SlowFigures, model: &Model) -> Option<String> {
    let same = |case: &&Case| case.gateway == one.contender && case.load.index == one.load.index;
    let measured = model.cases.iter().find(same)?.response_time.as_ref()?.p50?;
    let recorded = one.p50_us?;
    let [recorded, usual] = [&recorded, &measured].map(|p50| with_interval(p50, Scale::of_us(p50.estimate)));
    Some(format!("While switches were recorded, p50 was {recorded}; in the trials, {usual}."))
}

fn row(cause: &SlowCause) -> (String, Vec<Cell>) {
    let percent = Scale::percent();
    let share = Cell {
        value: percent.value(cause.share.estimate),
        interval: percent.interval_of(&cause.share),
        distinguishable: cause.share.low.is_none_or(|low| low > 0.0),
    };
    let time = |us: f64| Cell { value: Scale::of_us(us).value(us), ..none() };
    let name = cause_in_words(cause);
    // The name of a program keeps its lower-case letter.
    let name = if name.starts_with("the ") || cause.holder.is_none() { capital(&name) } else { name };
    (name, vec![share, Cell { interval: String::new(), ..time(cause.slow_us) }, time(cause.usual_us)])
}

/// Sentences about failures and losses.
fn remarks(one: &SlowFigures) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.extend(one.failure.as_ref().map(|failure| failed_passes(one.passes, one.failed, failure)));
    if one.lost > 0 {
        let lost = grouped(one.lost as f64);
        remarks.push(format!("{lost} switches were lost. The time around them counts as unknown or asleep."));
    }
    if one.left_out > 0 {
        let more = grouped(one.left_out as f64);
        remarks.push(format!("The passes had {more} requests more than could be kept: use a shorter `for`."));
    }
    if one.disturbed > 0.0 {
        let share = Scale::percent().value(one.disturbed);
        remarks.push(match one.disturbed <= 0.5 {
            true => format!("Left out: {share} of the time, because the hypervisor took CPU time in it."),
            false => format!(
                "The hypervisor took CPU time in {share} of the slices of time. What it interrupted only \
                 seems to run."
            ),
        });
    }
    if one.passes > 0 && one.slow_us.is_none() {
        remarks.push("The passes had too few requests for a p99.".to_owned());
    }
    remarks
}

/// A Markdown section for each table: its title and its body.
pub(super) fn markdown(model: &Model) -> Vec<(String, String)> {
    tables(model).into_iter().map(|table| table.markdown(NOTE)).collect()
}

/// Values for the page: each table, and the picture of its slowest requests.
pub(super) fn html(model: &Model) -> Vec<Value> {
    let of_table = |(table, one): (RemarkedTable, &SlowFigures)| {
        context! { picture => picture::svg(one), ..table.values() }
    };
    tables(model).into_iter().zip(&model.slow).map(of_table).collect()
}

/// The slowest requests of each case as files in Chrome's trace format, which Perfetto and
/// `chrome://tracing` open. The number in a name is that of the load point in the plan, from 1.
pub fn tail_files(model: &Model) -> Vec<ProfileFile> {
    let has_some = |one: &&SlowFigures| !one.slowest.is_empty();
    let file = |one: &SlowFigures| ProfileFile {
        name: format!("tail-{}-{}.json", one.contender, one.load.index + 1),
        content: trace::encode(one).into_bytes(),
    };
    model.slow.iter().filter(has_some).map(file).collect()
}
