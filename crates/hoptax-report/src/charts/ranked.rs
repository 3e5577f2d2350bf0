//! Charts of figures with intervals. Each figure has a line of its own, and the line with the smallest figure
//! comes first.

use super::sheet::{ChartError, Sheet, shortened};
use super::unit::Unit;
use hoptax_stats::Estimate;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Height of a line, px. The next two constants are the free space above and below all lines.
pub(super) const LINE: i32 = 40;
const ABOVE: i32 = 10;
const BELOW: i32 = 30;

/// Content of the chart.
#[derive(Debug)]
pub(super) struct Ranked {
    pub(super) unit: Unit,
    /// Half-width of the noise floor around zero. Absent if there is no noise floor.
    pub(super) floor: Option<f64>,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) colour: RGBColor,
    pub(super) estimate: Estimate,
    /// True if the figure is distinguishable from noise. Otherwise its dot is hollow.
    pub(super) clear: bool,
}

impl Row {
    fn ends(&self) -> (f64, f64) {
        self.estimate.interval().unwrap_or((self.estimate.estimate, self.estimate.estimate))
    }
}

/// The area in which the chart is drawn: its position, its width, and whether there is space for values and
/// long names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Distance from the top of the sheet, px.
    pub(super) top: i32,
    /// Width, px.
    pub(super) width: i32,
    /// True if values are written beside their lines and long names are allowed.
    pub(super) wide: bool,
}

impl Ranked {
    /// Sorts the rows, smallest first. `None` if there are no rows.
    pub(super) fn new(unit: Unit, floor: Option<f64>, mut rows: Vec<Row>) -> Option<Self> {
        rows.sort_by(|a, b| a.estimate.estimate.total_cmp(&b.estimate.estimate));
        (!rows.is_empty()).then_some(Self { unit, floor, rows })
    }

    /// Total height, px.
    pub(super) fn height(&self) -> i32 {
        ABOVE + LINE * self.rows.len() as i32 + BELOW
    }

    pub(super) fn draw<DB: DrawingBackend>(&self, sheet: &Sheet<DB>, room: Room) -> Result<(), ChartError> {
        let axis = self.axis(sheet, room);
        let (top, bottom) = (room.top + ABOVE, room.top + ABOVE + LINE * self.rows.len() as i32);
        if let Some(floor) = self.floor {
            let band = [(axis.at(-floor), top), (axis.at(floor), bottom)];
            sheet.rectangle(band, &sheet.ink.text.mix(0.10))?;
        }
        axis.draw(sheet, self.unit, top, bottom)?;
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + LINE * index as i32 + LINE / 2;
            whisker(sheet, &axis, y, row)?;
            let name = shortened(&row.name, letters(room));
            sheet.text(&name, (axis.left - 14, y), 14, HPos::Right, &sheet.ink.text)?;
            if room.wide {
                let place = (axis.at(row.ends().1) + 10, y);
                sheet.text(&self.value_in_words(row), place, 13, HPos::Left, &sheet.ink.text)?;
            }
        }
        Ok(())
    }

    fn axis<DB: DrawingBackend>(&self, sheet: &Sheet<DB>, room: Room) -> Axis {
        let floor = self.floor.unwrap_or(0.0);
        let low = self.rows.iter().map(|row| row.ends().0).fold(-floor, f64::min);
        let high = self.rows.iter().map(|row| row.ends().1).fold(floor, f64::max);
        let widest = |texts: &mut dyn Iterator<Item = String>, size| {
            texts.map(|text| sheet.width(&text, size)).max().unwrap_or(0)
        };
        let names = widest(&mut self.rows.iter().map(|row| shortened(&row.name, letters(room))), 14);
        let values = widest(&mut self.rows.iter().map(|row| self.value_in_words(row)), 13);
        let right = room.width - if room.wide { values + 24 } else { 18 };
        Axis::new(
            self.unit,
            low,
            high,
            (names + 14 + if room.wide { 16 } else { 10 }, right),
            if room.wide { 8 } else { 4 },
        )
    }

    fn value_in_words(&self, row: &Row) -> String {
        let value = self.unit.format(row.estimate.estimate);
        match row.clear {
            true => value,
            false => format!("{value}, not distinguishable"),
        }
    }
}

/// Maximum number of letters in a name. Longer names are shortened.
fn letters(room: Room) -> usize {
    if room.wide { 28 } else { 12 }
}

struct Axis {
    left: i32,
    right: i32,
    low: f64,
    high: f64,
    steps: Vec<f64>,
}

impl Axis {
    /// Creates an axis from `low` to `high`, plus a margin. `left` and `right` are the x positions of its
    /// ends, px. The axis has about `count` labels.
    fn new(unit: Unit, low: f64, high: f64, (left, right): (i32, i32), count: u32) -> Self {
        let room = (high - low).max(f64::MIN_POSITIVE) * 0.04;
        let low = if low < 0.0 { low - room } else { low };
        let high = high + room;
        let steps =
            unit.steps(low, high, count).into_iter().filter(|step| (low..=high).contains(step)).collect();
        Self { left, right, low, high, steps }
    }

    fn at(&self, value: f64) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    /// Draws the grid lines, with labels below them.
    fn draw<DB: DrawingBackend>(
        &self,
        sheet: &Sheet<DB>,
        unit: Unit,
        top: i32,
        bottom: i32,
    ) -> Result<(), ChartError> {
        let largest = self.steps.iter().fold(0.0_f64, |largest, step| largest.max(step.abs()));
        for step in &self.steps {
            let x = self.at(*step);
            let colour = if *step == 0.0 { &sheet.ink.text } else { &sheet.ink.grid };
            sheet.line(&[(x, top), (x, bottom)], colour, 1)?;
            let value = unit.format_for_axis(*step, largest);
            sheet.text(&value, (x, bottom + 14), 13, HPos::Center, &sheet.ink.quiet)?;
        }
        Ok(())
    }
}

fn whisker<DB: DrawingBackend>(sheet: &Sheet<DB>, axis: &Axis, y: i32, row: &Row) -> Result<(), ChartError> {
    if let Some((low, high)) = row.estimate.interval() {
        let (low, high) = (axis.at(low), axis.at(high));
        for line in [[(low, y), (high, y)], [(low, y - 6), (low, y + 6)], [(high, y - 6), (high, y + 6)]] {
            sheet.line(&line, &row.colour, 2)?;
        }
    }
    sheet.dot((axis.at(row.estimate.estimate), y), 6, row.colour, !row.clear)
}
