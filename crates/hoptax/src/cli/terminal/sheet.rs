//! The canvas of a view. Lines and graphs are drawn from the top down, until the screen is full.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

/// Labels and explanations.
pub(in crate::cli) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// The most important text.
pub(in crate::cli) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(in crate::cli) const BAR: Style = Style::new().fg(Color::Cyan);
/// Requests that are due, and warnings.
pub(in crate::cli) const DUE: Style = Style::new().fg(Color::Yellow);
pub(in crate::cli) const BAD: Style = Style::new().fg(Color::Red);
/// Successes and progress.
pub(in crate::cli) const GOOD: Style = Style::new().fg(Color::Green);

/// The screen, filled from the top.
pub(in crate::cli) struct Sheet<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    y: u16,
}

impl<'a> Sheet<'a> {
    pub(in crate::cli) fn new(buffer: &'a mut Buffer, area: Rect) -> Self {
        Self { buffer, area, y: area.y }
    }

    pub(in crate::cli) fn height(&self) -> u16 {
        self.area.height
    }

    pub(in crate::cli) fn skip(&mut self, rows: u16) {
        self.y = self.y.saturating_add(rows).min(self.area.bottom());
    }

    pub(in crate::cli) fn rows_left(&self) -> u16 {
        self.area.bottom().saturating_sub(self.y)
    }

    pub(in crate::cli) fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    /// Writes a line if there is room for it. A long line is cut.
    pub(in crate::cli) fn line<'l>(&mut self, line: impl Into<Line<'l>>) {
        if self.rows_left() > 0 {
            self.buffer.set_line(self.area.x, self.y, &line.into(), self.area.width);
            self.y += 1;
        }
    }

    /// Writes the first of `texts` that fits the width. If no text fits, writes the last text.
    pub(in crate::cli) fn fitting(&mut self, texts: &[String], style: Style) {
        let width = self.width();
        if let Some(text) = texts.iter().find(|text| text.chars().count() <= width).or(texts.last()) {
            self.line(Span::styled(text.as_str(), style));
        }
    }

    /// Draws a graph of `rows` rows. Bars show the throughput, and marks above the bars show the rate that
    /// was due.
    pub(in crate::cli) fn graph(&mut self, rows: u16, (throughput, due): &(Vec<f64>, Option<Vec<f64>>)) {
        let rows = rows.min(self.rows_left());
        let due = due.as_deref().unwrap_or_default();
        let most = throughput.iter().chain(due).copied().fold(0.0, f64::max);
        if rows == 0 || most <= 0.0 {
            self.skip(rows);
            return;
        }
        const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
        let eighths = |value: f64| (value / most * f64::from(rows) * 8.0).round() as usize;
        for (x, value) in (self.area.x..self.area.right()).zip(throughput) {
            let column = usize::from(x - self.area.x);
            let (high, mark) = (eighths(*value), due.get(column).map(|due| eighths(*due)));
            for row in 0..rows {
                let below = usize::from(row) * 8;
                let filled = high.saturating_sub(below).min(8);
                let y = self.y + rows - 1 - row;
                let is_mark = mark.is_some_and(|mark| mark > below && mark <= below + 8);
                let (symbol, style) =
                    if filled == 0 && is_mark { ("·", DUE) } else { (EIGHTHS[filled], BAR) };
                self.buffer.set_string(x, y, symbol, style);
            }
        }
        self.y += rows;
    }
}
