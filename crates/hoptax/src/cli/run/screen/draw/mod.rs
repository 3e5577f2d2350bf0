//! Draws a run in progress. The most important parts come first. Parts that do not fit are left out.

use super::super::words;
use crate::cli::load::figures::{short, size};
use crate::cli::load::spectrum::bar;
use crate::cli::terminal::sheet::{BAD, BOLD, DIM, DUE, GOOD, Sheet};
use hoptax_analysis::Severity;
use hoptax_history::live::{Failure, Finding, LiveCase, Second, Stage, State, Trial};
use hoptax_report::same_message;
use ratatui_core::style::Style;
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span};

/// Minimum width for tables. On a narrower screen, the view uses the compact form.
const LEAST_WIDTH: u16 = 60;
const LEAST_HEIGHT: u16 = 16;
/// Minimum height at which empty lines separate the parts.
const SPACED: u16 = 22;
/// Width of a figure in a table.
const COLUMN: usize = 11;

pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let mut sheet = Sheet::new(frame.buffer_mut(), area);
    if area.width >= LEAST_WIDTH && area.height >= LEAST_HEIGHT {
        full(&mut sheet, state);
    } else {
        compact(&mut sheet, state);
    }
}

fn full(sheet: &mut Sheet<'_>, state: &State) {
    let height = sheet.height();
    let gap = u16::from(height >= SPACED);
    let width = sheet.width();
    sheet.line(apart(width, (state.name.clone(), BOLD), ("Ctrl-C stops it".to_owned(), DIM)));
    progress(sheet, state);
    sheet.skip(gap);
    match &state.trial {
        None => sheet.line(doing(state)),
        Some(trial) => {
            let who = format!("{} · {}", trial.gateway, trial.load);
            sheet.line(apart(width, (who, BOLD), (doing(state), Style::new())));
            let course = state.course();
            sheet.line(latest(trial, &course));
            let rows = 1 + height.saturating_sub(LEAST_HEIGHT) / 6;
            sheet.graph(rows.min(6), &history(trial, &course, width));
            sheet.skip(gap);
            roles(sheet, state);
        }
    }
    sheet.skip(gap);
    let notes = notes(state);
    let rows = table(state, width);
    if !rows.is_empty() {
        sheet.line(titles(state, width));
    }
    let left = usize::from(sheet.rows_left().saturating_sub(gap));
    // Failures and findings get the rows that the table does not need, but at least a third of all remaining
    // rows.
    let for_notes = notes.len().min((left / 3).max(left.saturating_sub(rows.len())));
    rows_around_current(rows, left - for_notes).into_iter().for_each(|line| sheet.line(line));
    sheet.skip(gap);
    // If there are enough rows, wrap lines that are wider than the screen. Otherwise cut these lines.
    let whole: Vec<_> = notes.iter().flat_map(|note| wrapped(note, width)).collect();
    let room = usize::from(sheet.rows_left());
    let cut = |line: Line<'static>| Line::styled(clip(&line.to_string(), width), line.style);
    let notes = if whole.len() <= room { whole } else { fewer(notes, room).into_iter().map(cut).collect() };
    notes.into_iter().for_each(|line| sheet.line(line));
}

fn compact(sheet: &mut Sheet<'_>, state: &State) {
    let width = sheet.width();
    if sheet.height() >= 8 {
        sheet.line(Line::styled(state.name.clone(), BOLD));
    }
    progress(sheet, state);
    match &state.trial {
        None => sheet.line(doing(state)),
        Some(trial) => {
            sheet.line(apart(width, (trial.gateway.clone(), BOLD), (doing(state), Style::new())));
            if sheet.height() >= 10 {
                sheet.line(Line::styled(clip(&trial.load, width), DIM));
            }
            let second = state.course().pop();
            let due = trial.due.map(|due| format!(" of {}/s", short(due))).unwrap_or_default();
            sheet.line(format!("{}/s{due}", short(second.as_ref().map_or(0.0, |second| second.rate))));
            let times = second.map_or((None, None), |second| (second.p50_us, second.p99_us));
            let (p50, p99) = (words::microseconds(times.0), words::microseconds(times.1));
            sheet.line(format!("p50 {p50}  p99 {p99}"));
            let cpus = state.cpu.iter().map(|role| format!("{} {:.2}", role.role, role.cpus));
            sheet.line(Line::styled(clip(&cpus.collect::<Vec<_>>().join("  "), width), DIM));
        }
    }
    fewer(notes(state), 1).into_iter().for_each(|line| sheet.line(line));
    compact_cases(sheet, state);
}

fn compact_cases(sheet: &mut Sheet<'_>, state: &State) {
    let load = state.trial.as_ref().map_or("", |trial| trial.load.as_str());
    let cases = state.cases.iter().filter(|case| load.ends_with(&case.load));
    let width = sheet.width();
    let row = |case: &LiveCase| {
        let p50 = words::microseconds(case.p50_us);
        let figures = format!("{p50:>COLUMN$}{:>COLUMN$}", words::added(case.added_p50_us));
        let label = width.saturating_sub(figures.chars().count());
        let line = Line::from(format!("{:label$}{figures}", clip(&case.gateway, label)));
        Row { line, is_head: false, is_current: is_current(state, case) }
    };
    let room = usize::from(sheet.rows_left());
    rows_around_current(cases.map(row).collect(), room).into_iter().for_each(|line| sheet.line(line));
}

/// Draws the progress bar of the whole run, and the time left.
fn progress(sheet: &mut Sheet<'_>, state: &State) {
    let whole = state.elapsed_s + state.left_s;
    let share = match state.stage {
        Stage::Ended => 1.0,
        _ if whole > 0.0 => state.elapsed_s / whole,
        _ => 0.0,
    };
    let trial = words::number(state, state.trial.as_ref().map_or(0, |trial| trial.number));
    let left = words::left(state);
    let texts = [
        format!(" trial {trial} · round {} · {} elapsed, {left}", state.round, words::span(state.elapsed_s)),
        format!(" {trial} · round {} · {left}", state.round),
        format!(" {trial} · {left}"),
    ];
    let texts = if state.trial.is_some() { &texts[..] } else { &[format!(" {left}")][..] };
    let width = sheet.width();
    let fits = |text: &&String| text.chars().count() + 20 <= width;
    let text = texts.iter().find(fits).or(texts.last()).map_or("", String::as_str);
    let room = width.saturating_sub(text.chars().count());
    let filled = bar(share, room);
    let rest = "░".repeat(room.saturating_sub(filled.chars().count()));
    sheet.line(vec![Span::styled(filled, GOOD), Span::styled(rest, DIM), Span::raw(text)]);
}

fn doing(state: &State) -> String {
    match (state.stage, &state.trial) {
        (Stage::Ended, _) => "ended".to_owned(),
        (Stage::Pausing, _) => "pause".to_owned(),
        _ if !state.doing.is_empty() => state.doing.clone(),
        (_, Some(trial)) => words::phase(trial),
        (_, None) => "starting".to_owned(),
    }
}

/// The last second of the trial, or the last trial of the same case if trials are short.
fn latest(trial: &Trial, course: &[Second]) -> Line<'static> {
    let Some(second) = course.last() else {
        let waiting =
            if trial.by_round { "waiting for its first trial" } else { "waiting for the first second" };
        return Line::styled(waiting, DIM);
    };
    let due = trial.due.map(|due| format!(" of {}/s due", short(due))).unwrap_or_default();
    let (p50, p99) = (words::microseconds(second.p50_us), words::microseconds(second.p99_us));
    let failed: f64 = course.iter().map(|second| second.failed).sum();
    let failed = match failed {
        failed if failed <= 0.0 => Span::styled("none failed", GOOD),
        failed => Span::styled(format!("{} failed", short(failed.max(1.0))), BAD),
    };
    let which = if trial.by_round { "last trial " } else { "" };
    let figures = format!("{which}{}/s{due}   p50 {p50}   p99 {p99}   ", short(second.rate));
    Line::from(vec![Span::raw(figures), failed])
}

/// Responses per second, and the rate that was due. Each second or trial is drawn as wide as possible. If
/// there is no room for all of them, only the last ones are shown.
fn history(trial: &Trial, course: &[Second], width: usize) -> (Vec<f64>, Option<Vec<f64>>) {
    let most = if trial.by_round { course.len() } else { trial.duration_s.ceil() as usize };
    let wide = (width / most.max(1)).clamp(1, 16);
    let first = course.len().saturating_sub(width / wide);
    let rates = course[first..].iter().flat_map(|second| std::iter::repeat_n(second.rate, wide));
    let rates: Vec<f64> = rates.collect();
    let due = trial.due.map(|due| vec![due; rates.len()]);
    (rates, due)
}

fn roles(sheet: &mut Sheet<'_>, state: &State) {
    let mut lines = [String::new(), format!("{:10}", "CPUs"), format!("{:10}", "memory")];
    lines[0] = " ".repeat(10);
    for role in &state.cpu {
        lines[0] += &format!("{:>COLUMN$}", role.role);
        lines[1] += &format!("{:>COLUMN$}", format!("{:.2}", role.cpus));
        lines[2] += &format!("{:>COLUMN$}", size(role.memory_bytes as f64));
    }
    if let Some(steal) = state.steal {
        lines[0] += &format!("{:>COLUMN$}", "steal");
        lines[1] += &format!("{:>COLUMN$}", format!("{:.1} %", steal * 100.0));
    }
    for (index, line) in lines.into_iter().enumerate() {
        sheet.line(Line::styled(line, if index == 0 { DIM } else { Style::new() }));
    }
}

struct Row {
    line: Line<'static>,
    /// True if this row is the heading of a load point.
    is_head: bool,
    /// True if the case in this row is being measured.
    is_current: bool,
}

fn titles(state: &State, width: usize) -> Line<'static> {
    let titles: String = columns(state, width).iter().map(|title| format!("{title:>COLUMN$}")).collect();
    let room = width.saturating_sub(titles.chars().count());
    Line::styled(format!("{:room$}{titles}", clip("Medians so far", room)), DIM)
}

/// The titles of the columns. The last column has half-widths of intervals. It appears with the first
/// interval, if there is enough room for the names of gateways beside it.
fn columns(state: &State, width: usize) -> &'static [&'static str] {
    const COLUMNS: [&str; 5] = ["rate", "p50", "p99", "added p50", "± 95 %"];
    const NAMES: usize = 16;
    let has_interval = state.cases.iter().any(|case| case.added_p50_half_width_us.is_some());
    let has_room = width >= COLUMNS.len() * COLUMN + NAMES;
    if has_interval && has_room { &COLUMNS } else { &COLUMNS[..4] }
}

fn table(state: &State, width: usize) -> Vec<Row> {
    let columns = columns(state, width).len();
    let label = width.saturating_sub(columns * COLUMN);
    let mut rows = Vec::new();
    let mut load = None;
    for case in &state.cases {
        if load != Some(&case.load) {
            let line = Line::styled(clip(&case.load, width), DIM);
            rows.push(Row { line, is_head: true, is_current: false });
            load = Some(&case.load);
        }
        let figures = [
            format!("{}/s", short(case.rate.unwrap_or(0.0))),
            words::microseconds(case.p50_us),
            words::microseconds(case.p99_us),
            words::added(case.added_p50_us),
            words::half_width(case.added_p50_half_width_us),
        ];
        let is_current = is_current(state, case);
        let (mark, style) = if is_current { ("▸", BOLD) } else { (" ", Style::new()) };
        let trials = if case.trials > 1 { format!(" ×{}", case.trials) } else { String::new() };
        let name = clip(&case.gateway, label.saturating_sub(2 + trials.chars().count()));
        let named = format!("{mark} {name}{trials}");
        let figures: String = figures[..columns].iter().map(|one| format!("{one:>COLUMN$}")).collect();
        let text = format!("{named:label$}{figures}");
        rows.push(Row { line: Line::styled(text, style), is_head: false, is_current });
    }
    rows
}

fn is_current(state: &State, case: &LiveCase) -> bool {
    // The label of a search step ends with the label of its load point.
    let of = |trial: &Trial| trial.gateway == case.gateway && trial.load.ends_with(&case.load);
    state.stage != Stage::Ended && state.trial.as_ref().is_some_and(of)
}

/// Selects at most `room` rows. If not all rows fit, the selection starts at the heading of the current load
/// point. The current case is always included.
fn rows_around_current(rows: Vec<Row>, room: usize) -> Vec<Line<'static>> {
    let current = rows.iter().position(|row| row.is_current).unwrap_or(0);
    let head = rows[..current.min(rows.len())].iter().rposition(|row| row.is_head).unwrap_or(0);
    // If the rows from the heading to the end do not fill the room, also select rows before the heading.
    let first = head.min(rows.len().saturating_sub(room)).max((current + 1).saturating_sub(room));
    rows.into_iter().skip(first).take(room).map(|row| row.line).collect()
}

/// Lines about failures, followed by lines about findings. Each cause of a failure and each code of a finding
/// has one line, and the most severe codes come first.
fn notes(state: &State) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> =
        failures(state).into_iter().map(|text| Line::styled(text, BAD)).collect();
    let mut listed: Vec<(Severity, &str)> = Vec::new();
    for finding in &state.findings {
        let kind = (finding.severity, finding.code.as_str());
        if listed.contains(&kind) {
            continue;
        }
        listed.push(kind);
        let style = match finding.severity {
            Severity::Void => BAD,
            Severity::Warning => DUE,
            Severity::Note => DIM,
        };
        lines.push(Line::styled(with_count(state, finding), style));
    }
    lines
}

/// Failures as texts. Variants of a gateway that failed with the same cause have one text.
fn failures(state: &State) -> Vec<String> {
    let mut causes: Vec<(&Failure, usize)> = Vec::new();
    for failure in &state.failures {
        let is_same = |(first, _): &&mut (&Failure, usize)| {
            // `features: each` adds a dot and the feature to the gateway's label.
            let gateway = |failure: &Failure| failure.label.split('.').next().map(str::to_owned);
            let variants = gateway(first) == gateway(failure);
            same_message((&first.label, &first.message), (&failure.label, &failure.message), variants)
        };
        match causes.iter_mut().find(is_same) {
            Some((_, others)) => *others += 1,
            None => causes.push((failure, 0)),
        }
    }
    let in_words = |(first, others): (&Failure, usize)| match others {
        0 => format!("failed {}: {}", first.label, first.message),
        _ => format!("failed {} and {others} more: {}", first.label, first.message),
    };
    causes.into_iter().map(in_words).collect()
}

/// A finding as text. If several cases have a finding with this code, the text includes the number of these
/// cases.
fn with_count(state: &State, finding: &Finding) -> String {
    let is_alike = |other: &&Finding| (&other.code, other.severity) == (&finding.code, finding.severity);
    match state.findings.iter().filter(is_alike).count() {
        1 => words::finding(finding),
        count => format!("{} {} ({count} cases): {}", finding.severity.name(), finding.code, finding.message),
    }
}

/// Returns at most `room` lines. If lines are left out, the last line contains their number.
fn fewer(mut lines: Vec<Line<'static>>, room: usize) -> Vec<Line<'static>> {
    if lines.len() > room && room > 1 {
        let missing = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(Line::styled(format!("and {missing} more"), DIM));
    }
    lines.truncate(room);
    lines
}

/// Wraps a line at spaces. All lines except the first line are indented.
fn wrapped(line: &Line<'static>, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in line.to_string().split(' ') {
        let last = lines.last_mut().expect("there is at least one line");
        if !last.trim().is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("  {word}"));
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.into_iter().map(|text| Line::styled(text, line.style)).collect()
}

/// A line with one text at its left end and another text at its right end. Texts that do not fit are cut.
fn apart(width: usize, (left, style): (String, Style), (right, other): (String, Style)) -> Line<'static> {
    // If there is no room for both texts, each gets half of the width.
    let right = clip(&right, width.saturating_sub(2 + left.chars().count()).max(width.saturating_sub(2) / 2));
    let room = width.saturating_sub(right.chars().count() + 2);
    let left = format!("{:room$}  ", clip(&left, room));
    Line::from(vec![Span::styled(left, style), Span::styled(right, other)])
}

/// Cuts the text to at most `width` columns.
fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(std::iter::once('…').filter(|_| width > 0)).collect()
}

#[cfg(test)]
mod tests;
