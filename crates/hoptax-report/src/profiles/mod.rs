//! Shows which functions of a gateway take how much CPU time per request, and how that differs.

mod export;
mod flames;
mod pprof;
mod stacks;
#[cfg(test)]
mod tests;

pub use export::{ProfileFile, profile_files};
pub(super) use flames::{Flames, flame_graphs};

use super::model::Model;
use crate::words::format::{Scale, grouped};
use crate::words::layout::RemarkedTable;
use crate::words::table::{Cell, in_one_line};
use crate::words::text::{failed_passes, listed, place, with_interval};
use hoptax_analysis::profiles::{CaseProfile, MissingSymbols, ProfileDifference};
use hoptax_record::profile::{Frame, FrameKind, PassKind};
use hoptax_stats::{Contrast, Estimate};
use minijinja::{Value, context};

/// Headings of the tables, after the function.
const HEADINGS: [&str; 2] = ["own", "with callees"];

/// Number of frames in the formats for terminals and pull requests, and on the page.
const SHORT: usize = 10;
const LONG: usize = 40;

/// Longest name of a function in a table, in characters, on a wide and on a narrow terminal. Flame graphs
/// have whole names.
const LONGEST_NAME: usize = 52;
const SHORTEST_NAME: usize = 16;

/// Share of lost samples from which a report mentions them.
const LOST: f64 = 0.01;

/// Explains the figures of the tables.
pub(super) const NOTE: &str = "Per request, with 95 % intervals over slices of time. Own: in the function \
     itself. With callees: in it and in all that it calls. Profiles come from passes of their own; no other \
     figure uses them.";

/// Explains the figures of waiting.
const WAITING_NOTE: &str = "Waiting is summed over all threads, also while they have nothing to do.";

/// How much of a table is shown.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// Maximum number of rows.
    rows: usize,
    /// Maximum length of a name, in characters.
    name: usize,
}

/// All tables: of each profile, then of each difference.
fn tables(model: &Model, extent: Extent) -> Vec<RemarkedTable> {
    let profiles = &model.whole_profiles;
    let of_cases = profiles.cases.iter().map(|one| of_case(model, one, extent));
    let of_differences = profiles.differences.iter().map(|one| of_difference(model, one, extent));
    of_cases.chain(of_differences).collect()
}

/// The short tables, for a terminal with this number of columns. Figures need half of the columns.
pub(super) fn terminal(model: &Model, width: usize) -> Vec<RemarkedTable> {
    tables(model, Extent { rows: SHORT, name: (width / 2).clamp(SHORTEST_NAME, LONGEST_NAME) })
}

fn title(one: &CaseProfile) -> String {
    let what = match one.kind {
        PassKind::Cpu => "CPU time",
        PassKind::Waiting => "Waiting",
    };
    let whole = one.whole.as_ref().map_or_else(String::new, |whole| format!(": {}", time(whole)));
    format!("{what} of {} {}{whole}", one.gateway, place(&one.load))
}

fn of_case(model: &Model, one: &CaseProfile, extent: Extent) -> RemarkedTable {
    let row = |cost: &hoptax_analysis::profiles::FrameCost| {
        (name(&cost.frame, extent.name), [&cost.own, &cost.total].map(figure).to_vec())
    };
    RemarkedTable {
        title: title(one),
        sentence: String::new(),
        first: "function",
        headings: &HEADINGS,
        rows: one.frames.iter().take(extent.rows).map(row).collect(),
        remarks: remarks(model, one),
    }
}

fn of_difference(model: &Model, one: &ProfileDifference, extent: Extent) -> RemarkedTable {
    let row = |change: &hoptax_analysis::profiles::FrameChange| {
        (name(&change.frame, extent.name), [&change.own, &change.total].map(changed).to_vec())
    };
    RemarkedTable {
        title: difference_title(model, one),
        sentence: String::new(),
        first: "function",
        headings: &HEADINGS,
        rows: one.frames.iter().take(extent.rows).map(row).collect(),
        remarks: vec![of_modules(one)],
    }
}

fn difference_title(model: &Model, one: &ProfileDifference) -> String {
    let [first, second] = [one.first, one.second].map(|index| &model.whole_profiles.cases[index]);
    let whole = in_one_line(&changed(&one.whole));
    if first.gateway == second.gateway {
        let (from, to) = (place(&first.load), place(&second.load));
        return format!("CPU time of {} {to}, compared with {from}: {whole}", second.gateway);
    }
    let at = place(&second.load);
    format!("CPU time of {} compared with {} {at}: {whole}", second.gateway, first.gateway)
}

/// The modules that differ, in a sentence.
fn of_modules(one: &ProfileDifference) -> String {
    let certain = one.modules.iter().filter(|change| change.is_certain()).take(6);
    let parts: Vec<String> =
        certain.map(|change| format!("{} {}", change.module, in_one_line(&changed(&change.own)))).collect();
    match parts.is_empty() {
        true => "No module differs distinguishably.".to_owned(),
        false => format!("By module: {}.", listed(&parts)),
    }
}

/// Sentences about a profile: its cost without the profiler, what it lacks, and what failed.
fn remarks(model: &Model, one: &CaseProfile) -> Vec<String> {
    let mut remarks = Vec::new();
    let case =
        model.cases.iter().find(|case| case.gateway == one.gateway && case.load.index == one.load.index);
    let measured = case.and_then(|case| case.tax.as_ref()?.cpu_us_per_request.as_ref());
    if let (PassKind::Cpu, Some(measured)) = (one.kind, measured) {
        remarks.push(format!("Without the profiler, the rounds measured {}.", time(&measured.estimate)));
    }
    if one.kind == PassKind::Waiting {
        remarks.push(WAITING_NOTE.to_owned());
    }
    remarks.extend(one.failure.as_ref().map(|failure| failed_passes(one.passes, one.failed, failure)));
    if one.lost as f64 > LOST * one.samples as f64 {
        let (lost, samples) = (grouped(one.lost as f64), grouped(one.samples as f64));
        remarks.push(format!("{lost} samples were lost, beside {samples} that were read."));
    }
    if !one.sees_kernel && one.passes > 0 {
        remarks.push(
            "The kernel's functions are hidden from this user; run as root, or: sysctl -w \
            kernel.perf_event_paranoid=1."
                .to_owned(),
        );
    }
    for missing in &one.missing {
        let share = Scale::percent().value(missing.share);
        remarks.push(format!(
            "{share} has no function names ({}): {}.",
            missing.module,
            advice(one, missing)
        ));
    }
    remarks
}

/// What is missing so that frames of a module have names.
pub(super) fn advice(one: &CaseProfile, missing: &MissingSymbols) -> String {
    match missing.kind {
        FrameKind::Kernel => {
            "the kernel hides its symbols; run as root, or: sysctl -w kernel.kptr_restrict=0".to_owned()
        }
        FrameKind::Generated => one.symbols.clone().unwrap_or_else(|| {
            "this code was generated while the gateway ran, and no map in /tmp names its functions".to_owned()
        }),
        FrameKind::Native | FrameKind::Thread => one.symbols.clone().unwrap_or_else(|| {
            "the file has no symbols; install its debug symbols (Debian: a package that ends in -dbgsym)"
                .to_owned()
        }),
    }
}

/// A Markdown section for each table: its title and its body. Empty without profiles.
pub(super) fn markdown(model: &Model) -> Vec<(String, String)> {
    let tables = tables(model, Extent { rows: SHORT, name: LONGEST_NAME });
    tables.into_iter().map(|table| table.markdown(NOTE)).collect()
}

/// Values for the page: each table, and the index of its flame graph.
pub(super) fn html(model: &Model) -> Vec<Value> {
    let tables = tables(model, Extent { rows: LONG, name: LONGEST_NAME });
    let of_table = |(index, table): (usize, &RemarkedTable)| context! { index, ..table.values() };
    tables.iter().enumerate().map(of_table).collect()
}

/// `deflate (libz.so.1.2.13)`, at most this many characters.
fn name(frame: &Frame, longest: usize) -> String {
    let with_module = |name: &str| match frame.named && !frame.module.is_empty() {
        true => format!("{name} ({})", frame.module),
        false => name.to_owned(),
    };
    let fits = |text: &String| text.chars().count() <= longest;
    let whole = with_module(&frame.name);
    if fits(&whole) {
        return whole;
    }
    let short = with_module(&shortened(&frame.name));
    if fits(&short) {
        return short;
    }
    // Names of C++ and of Java differ at their end.
    let cut = short.chars().count() + 1 - longest;
    format!("…{}", short.chars().skip(cut).collect::<String>())
}

/// The name of a function without the types of its arguments, in Java also without the type of its result,
/// and in JavaScript without directories: `io.netty.buffer.Unpooled.copy` for `io.netty.buffer.ByteBuf
/// io.netty.buffer.Unpooled.copy(byte[], int)`, `JS:*next index.js:177:16` for `JS:*next
/// /srv/router/index.js:177:16`.
fn shortened(name: &str) -> String {
    if let Some((function, path)) = name.split_once(" /") {
        return format!("{function} {}", path.rsplit('/').next().unwrap_or(path));
    }
    match name.split_once('(').map(|(before, _)| before.trim_end()) {
        None | Some("") => name,
        Some(before) if before.contains("::") => before,
        Some(before) => before.rsplit(' ').next().unwrap_or(before),
    }
    .to_owned()
}

fn time(estimate: &Estimate) -> String {
    with_interval(estimate, Scale::of_us(estimate.estimate))
}

fn figure(estimate: &Estimate) -> Cell {
    let scale = Scale::of_us(estimate.estimate);
    Cell {
        value: scale.value(estimate.estimate),
        interval: scale.interval_of(estimate),
        distinguishable: true,
    }
}

fn changed(change: &Contrast) -> Cell {
    let scale = Scale::of_us(change.estimate);
    let sign = if change.estimate > 0.0 { "+" } else { "" };
    Cell {
        value: format!("{sign}{}", scale.value(change.estimate)),
        interval: change
            .interval()
            .map_or_else(|| "no interval".to_owned(), |(low, high)| scale.interval(low, high)),
        distinguishable: change.interval().is_some_and(|(low, high)| low > 0.0 || high < 0.0),
    }
}
