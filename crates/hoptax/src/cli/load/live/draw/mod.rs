//! Draws the live view. The most important parts come first. Parts that do not fit are left out.

use super::super::causes;
use super::super::figures::{percent, round, short, time};
use super::super::spectrum::{bar, bars};
use super::model::{Model, Times};
use crate::cli::terminal::sheet::{BAD, BAR, BOLD, DIM, GOOD, Sheet};
use hoptax_format::record::Phase;
use ratatui_core::style::Style;
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span};

/// Minimum width for tables. On a narrower screen, the view uses the compact form.
const LEAST_WIDTH: u16 = 60;
const LEAST_HEIGHT: u16 = 16;

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, now: u64) {
    let area = frame.area();
    let mut sheet = Sheet::new(frame.buffer_mut(), area);
    if area.width >= LEAST_WIDTH && area.height >= LEAST_HEIGHT {
        full(&mut sheet, model, now);
    } else {
        compact(&mut sheet, model, now);
    }
}

fn full(sheet: &mut Sheet<'_>, model: &Model, now: u64) {
    let spare = sheet.height() - LEAST_HEIGHT;
    let gap = u16::from(spare >= 5);
    let hint = "Ctrl-C stops it";
    let room = sheet.width() - hint.len() - 2;
    let url: String = model.url.chars().take(room).collect();
    let title = format!("{url:room$}  ");
    sheet.line(vec![Span::styled(title, BOLD), Span::styled(hint, DIM)]);
    progress(sheet, model, now);
    sheet.skip(gap);
    throughput(sheet, model, now);
    let history = model.history(sheet.width());
    sheet.graph(2 + (spare / 4).min(8), &history);
    sheet.skip(gap);
    table(sheet, model);
    sheet.skip(gap);
    sheet.line(Span::styled("Response times so far", DIM));
    spectrum(sheet, 20, model);
}

fn compact(sheet: &mut Sheet<'_>, model: &Model, now: u64) {
    let height = sheet.height();
    if height >= 8 {
        sheet.line(Span::styled(model.url.as_str(), BOLD));
    }
    progress(sheet, model, now);
    throughput(sheet, model, now);
    let wide = sheet.width() >= 36;
    match model.times_now().or_else(|| model.times_overall()) {
        None => sheet.line(Span::styled("no response yet", DIM)),
        Some(Times { p50, p90, p99, max }) => {
            let [p50, p90, p99, max] = [p50, p90, p99, max].map(|ns| time(ns as f64));
            if wide {
                sheet.line(format!("p50 {p50:>9}   p90 {p90:>9}"));
                sheet.line(format!("p99 {p99:>9}   max {max:>9}"));
            } else {
                sheet.line(format!("p50 {p50:>9}"));
                sheet.line(format!("p99 {p99:>9}"));
            }
        }
    }
    outcomes(model, 1).into_iter().for_each(|line| sheet.line(line));
    if sheet.rows_left() >= 5 {
        let history = model.history(sheet.width());
        sheet.graph(1, &history);
    }
    if sheet.rows_left() >= 3 {
        spectrum(sheet, 20, model);
    }
}

/// Draws the spectrum of the response times so far, in at most `rows` rows.
fn spectrum(sheet: &mut Sheet<'_>, rows: u16, model: &Model) {
    let histogram = model.overall();
    let bars = bars(histogram, usize::from(rows.min(sheet.rows_left())));
    let tallest = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
    let (label, share) = (10, 9);
    let room = sheet.width().saturating_sub(label + share + 1);
    for row in bars {
        let from = format!("{:>9} ", round(row.from));
        let drawn = bar(row.count as f64 / tallest.max(1) as f64, room);
        let share_text = format!("{:>share$}", percent(row.count, histogram.len()));
        sheet.line(vec![
            Span::styled(from, DIM),
            Span::styled(format!("{drawn:room$}"), BAR),
            Span::raw(share_text),
        ]);
    }
}

/// Draws the phase, a progress bar and the time left.
fn progress(sheet: &mut Sheet<'_>, model: &Model, now: u64) {
    let progress = model.progress(now);
    let phase = match progress.phase {
        None => "starting",
        Some(Phase::Connecting | Phase::Connected) => "connecting",
        Some(Phase::Warmup) => "warming up",
        Some(Phase::Measuring) => "measuring",
        Some(Phase::Draining) => "draining",
    };
    let elapsed = seconds(progress.elapsed);
    let left = progress.left.map(|left| format!("{} left", seconds(left)));
    let Some(share) = progress.share else {
        let count = model.connections;
        let texts = [
            format!("{phase} {count} connections, {elapsed}"),
            format!("{phase} {elapsed}"),
            phase.to_owned(),
        ];
        let texts = if progress.phase == Some(Phase::Connecting) { &texts[..] } else { &texts[1..] };
        return sheet.fitting(texts, Style::new());
    };
    let left = left.unwrap_or_default();
    let texts = [
        format!(" {:>3.0} %  {phase} {elapsed}, {left}", share * 100.0),
        format!(" {:>3.0} % {left}", share * 100.0),
    ];
    let width = sheet.width();
    let text = texts.iter().find(|text| text.chars().count() + 20 <= width).unwrap_or(&texts[1]);
    let room = width.saturating_sub(text.chars().count());
    let filled = bar(share, room);
    let rest = "░".repeat(room.saturating_sub(filled.chars().count()));
    sheet.line(vec![Span::styled(filled, GOOD), Span::styled(rest, DIM), Span::raw(text.as_str())]);
}

fn throughput(sheet: &mut Sheet<'_>, model: &Model, now: u64) {
    let (now_text, mean) = (short(model.throughput_now()), short(model.throughput()));
    let due = model.rate(now).map(short);
    let texts = match due {
        Some(due) => [
            format!("Throughput {now_text}/s now, {mean}/s so far; {due}/s due"),
            format!("{now_text}/s now, {mean}/s mean, {due}/s due"),
            format!("{now_text}/s of {due}/s"),
        ],
        None => [
            format!("Throughput {now_text} requests/s now, {mean}/s so far"),
            format!("{now_text}/s now, {mean}/s mean"),
            format!("{now_text}/s"),
        ],
    };
    sheet.fitting(&texts, BOLD);
}

/// Draws percentiles on the left and the results of the requests on the right.
fn table(sheet: &mut Sheet<'_>, model: &Model) {
    const LEFT: usize = 34;
    let (now, overall) = (model.times_now(), model.times_overall());
    let mut rows = vec![(format!("{:5}{:>12}{:>12}", "", "last second", "so far"), DIM)];
    let figures = |times: Option<Times>| match times {
        None => ["-"; 4].map(str::to_owned),
        Some(Times { p50, p90, p99, max }) => [p50, p90, p99, max].map(|ns| time(ns as f64)),
    };
    let (now, overall) = (figures(now), figures(overall));
    for ((name, now), overall) in ["p50", "p90", "p99", "max"].iter().zip(now).zip(overall) {
        rows.push((format!("{name:5}{now:>12}{overall:>12}"), Style::new()));
    }
    let mut right = outcomes(model, rows.len() - 1).into_iter();
    for (left, style) in rows {
        let mut line = Line::from(Span::styled(format!("{left:LEFT$}"), style));
        line.spans.extend(right.next().into_iter().flat_map(|line| line.spans));
        sheet.line(line);
    }
}

/// Results of the requests: one line for all requests, and at most `most` lines for the most frequent causes
/// of failures.
fn outcomes(model: &Model, most: usize) -> Vec<Line<'static>> {
    let totals = model.totals();
    let bad = totals.bad();
    let completed = format!(", {} completed", short(totals.completed as f64));
    if bad == 0 {
        return vec![Line::from(vec![Span::styled("none failed", GOOD), Span::raw(completed)])];
    }
    let failed = format!("{} failed", short(bad as f64));
    let mut lines = vec![Line::from(vec![Span::styled(failed, BAD), Span::raw(completed)])];
    let mut causes: Vec<(u64, &str)> =
        totals.causes.iter().map(|(cause, count)| (*count, causes::describe(*cause))).collect();
    causes.push((totals.completed.saturating_sub(totals.ok), "not a success"));
    causes.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let shown = causes.into_iter().filter(|(count, _)| *count > 0).take(most);
    lines.extend(shown.map(|(count, text)| Line::styled(format!("{:>6} {text}", short(count as f64)), BAD)));
    lines
}

/// A duration as text, in seconds, minutes or hours. Durations below ten seconds have tenths.
fn seconds(nanoseconds: u64) -> String {
    let tenths = nanoseconds / 100_000_000;
    match tenths {
        0..100 => format!("{}.{} s", tenths / 10, tenths % 10),
        100..6000 => format!("{} s", tenths / 10),
        6000..36_000 => format!("{} m {} s", tenths / 600, tenths / 10 % 60),
        _ => format!("{} h {} m", tenths / 36_000, tenths / 600 % 60),
    }
}

#[cfg(test)]
mod tests;
