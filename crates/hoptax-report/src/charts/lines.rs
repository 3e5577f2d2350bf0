//! Line charts over percentiles, connections, rates or time.

use super::sheet::{ChartError, Sheet};
use super::unit::Unit;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Height of a panel without its title, px.
const HEIGHT: i32 = 320;
const TITLE: i32 = 26;
/// Free space on the left and on the right, px. It is enough for half of the longest label at the end of an
/// axis.
const SIDE: i32 = 28;
/// Font size along the axes, px.
const SIZE: u32 = 13;
/// Distance between the intervals of two lines at the same x position, px.
const BESIDE: i32 = 4;
/// Smallest value on a logarithmic axis, in the unit of the axis. Smaller values are drawn at the bottom.
const LEAST: f64 = 1e-3;

/// A part of a chart: lines that share the same axes.
#[derive(Debug)]
pub(super) struct Panel {
    /// The panel's title. Empty if the title of the chart is enough.
    pub(super) title: String,
    pub(super) across: Axis,
    pub(super) up: Axis,
    pub(super) lines: Vec<Line>,
    /// Positions and labels of vertical lines.
    pub(super) marks: Vec<(f64, String)>,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: RGBColor,
    /// True for the second line of a contender, which is thin and has no name.
    pub(super) second: bool,
    pub(super) dots: bool,
    /// The points of the line. `None` interrupts the line.
    pub(super) points: Vec<(f64, Option<f64>)>,
    /// Vertical intervals at points of the line: position, low, high.
    pub(super) ranges: Vec<(f64, f64, f64)>,
}

#[derive(Debug, Clone)]
pub(super) struct Axis {
    log: bool,
    low: f64,
    high: f64,
    /// Labels along the axis: the value and the text of each label.
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis that starts at zero.
    pub(super) fn linear(unit: Unit, high: f64) -> Self {
        let high = high.max(LEAST) * 1.08;
        let ticks = unit.steps(0.0, high, 5).into_iter().filter(|step| *step <= high);
        Self {
            log: false,
            low: 0.0,
            high,
            ticks: ticks.map(|step| (step, unit.format_for_axis(step, high))).collect(),
        }
    }

    /// A logarithmic axis that covers the positive values. `None` if there are none.
    pub(super) fn around(unit: Unit, values: impl Iterator<Item = f64>) -> Option<Self> {
        let (least, most) = values
            .filter(|value| *value > LEAST)
            .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        (most > 0.0).then(|| {
            let (low, high) = (least / 1.25, most * 1.25);
            let factors: &[f64] = if high / low > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let ticks = powers
                .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
                .filter(|tick| (low..=high).contains(tick));
            Self { log: true, low, high, ticks: ticks.map(|tick| (tick, unit.format(tick))).collect() }
        })
    }

    /// A logarithmic axis with the given labels.
    pub(super) fn marked(ticks: Vec<(f64, String)>, low: f64, high: f64) -> Self {
        Self { log: true, low, high, ticks }
    }

    /// A linear axis with the given labels.
    pub(super) fn plain(ticks: Vec<(f64, String)>, high: f64) -> Self {
        Self { log: false, low: 0.0, high, ticks }
    }

    /// A value beyond all limits is placed at the upper end.
    fn place(&self, value: f64) -> f64 {
        let value = if value.is_infinite() { self.high } else { value };
        if self.log { value.max(self.low).log10() } else { value }
    }

    /// Both ends of the axis, in coordinates of [`Self::place`].
    fn ends(&self) -> std::ops::Range<f64> {
        self.place(self.low)..self.place(self.high)
    }
}

/// plotters needs a range as an axis. This range consists of the coordinates that [`Axis::place`] returns.
impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let ends = self.ends();
        let share = (place - ends.start) / (ends.end - ends.start).max(f64::MIN_POSITIVE);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(at, _)| self.place(*at)).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.ends()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(place: &f64) -> String {
        place.to_string()
    }

    fn format_ext(&self, place: &f64) -> String {
        let near = |(at, _): &&(f64, String)| (self.place(*at) - place).abs() < 1e-9;
        self.ticks.iter().find(near).map(|(_, text)| text.clone()).unwrap_or_default()
    }
}

impl Panel {
    /// Total height, px.
    pub(super) fn height(&self) -> i32 {
        HEIGHT + if self.title.is_empty() { 0 } else { TITLE }
    }

    /// Width of the labels beside the lines, px.
    pub(super) fn labels<DB: DrawingBackend>(&self, sheet: &Sheet<DB>) -> i32 {
        self.up.ticks.iter().map(|(_, text)| sheet.width(text, SIZE)).max().unwrap_or(0)
    }

    /// Draws the panel below `top`. The panel is `width` pixels wide. The labels beside the lines take
    /// `labels` pixels of this width.
    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        sheet: &Sheet<DB>,
        top: i32,
        (labels, width): (i32, i32),
    ) -> Result<(), ChartError> {
        let mut top = top;
        if !self.title.is_empty() {
            sheet.text(&self.title, (16, top + TITLE / 2), 14, HPos::Left, &sheet.ink.quiet)?;
            top += TITLE;
        }
        let area = sheet
            .area
            .clone()
            .shrink((sheet.px(SIDE - 8), sheet.px(top)), (sheet.px(width - 2 * SIDE), sheet.px(HEIGHT)));
        let mut chart = ChartBuilder::on(&area)
            .margin_top(sheet.px(10))
            .x_label_area_size(sheet.px(34))
            .y_label_area_size(sheet.px(labels + 16))
            .build_cartesian_2d(self.across.clone(), self.up.clone())
            .map_err(ChartError::new)?;
        chart
            .configure_mesh()
            .axis_style(sheet.ink.grid)
            .bold_line_style(sheet.ink.grid.stroke_width(sheet.px(1) as u32))
            .light_line_style(TRANSPARENT)
            .x_labels(self.across.ticks.len().max(1))
            .y_labels(self.up.ticks.len().max(1))
            .x_label_style(sheet.style(SIZE, HPos::Center, &sheet.ink.quiet))
            .y_label_style(sheet.style(SIZE, HPos::Right, &sheet.ink.quiet))
            .draw()
            .map_err(ChartError::new)?;
        let (bottom, high) = (self.up.ends().start, self.up.ends().end);
        let mut draw = |points: Vec<(f64, f64)>, style: ShapeStyle| {
            chart.draw_series(LineSeries::new(points, style)).map(|_| ()).map_err(ChartError::new)
        };
        for (at, _) in &self.marks {
            let at = self.across.place(*at);
            draw(vec![(at, bottom), (at, high)], sheet.ink.quiet.stroke_width(sheet.px(1) as u32))?;
        }
        for line in &self.lines {
            let wide = sheet.px(if line.second { 1 } else { 2 }) as u32;
            for stretch in line.stretches() {
                let points = stretch.iter().map(|(x, y)| (self.across.place(*x), self.up.place(*y)));
                draw(points.collect(), line.colour.stroke_width(wide))?;
            }
        }
        let dots = self.lines.iter().filter(|line| line.dots).flat_map(|line| {
            let of = move |(x, y): &(f64, Option<f64>)| {
                let y = (*y)?;
                let style = if y.is_finite() { line.colour.filled() } else { line.colour.stroke_width(2) };
                Some(((self.across.place(*x), self.up.place(y)), style))
            };
            let size = sheet.px(4);
            line.points.iter().filter_map(of).map(move |(at, style)| Circle::new(at, size, style))
        });
        chart.draw_series(dots).map_err(ChartError::new)?;
        let place = |x: f64, y: f64| chart.backend_coord(&(self.across.place(x), self.up.place(y)));
        self.draw_ranges(sheet, &place)?;
        self.draw_marks(sheet, &|at| place(at, self.up.high))
    }

    /// Draws the intervals. Intervals at the same position are drawn side by side.
    fn draw_ranges<DB: DrawingBackend>(
        &self,
        sheet: &Sheet<DB>,
        place: &dyn Fn(f64, f64) -> (i32, i32),
    ) -> Result<(), ChartError> {
        let middle = (self.lines.len() as i32 - 1) * sheet.px(BESIDE) / 2;
        for (index, line) in self.lines.iter().enumerate() {
            let aside = index as i32 * sheet.px(BESIDE) - middle;
            let style = line.colour.mix(0.7).stroke_width(sheet.px(1) as u32);
            for (at, low, high) in &line.ranges {
                let ((x, from), (_, to)) = (place(*at, *low), place(*at, *high));
                let (x, end) = (x + aside, sheet.px(2));
                for stroke in
                    [[(x, from), (x, to)], [(x - end, from), (x + end, from)], [(x - end, to), (x + end, to)]]
                {
                    sheet.area.draw(&PathElement::new(stroke, style)).map_err(ChartError::new)?;
                }
            }
        }
        Ok(())
    }

    fn draw_marks<DB: DrawingBackend>(
        &self,
        sheet: &Sheet<DB>,
        place: &dyn Fn(f64) -> (i32, i32),
    ) -> Result<(), ChartError> {
        for (at, text) in self.marks.iter().filter(|(_, text)| !text.is_empty()) {
            let (x, y) = place(*at);
            let style = sheet.style(12, HPos::Left, &sheet.ink.quiet);
            let at = (x + sheet.px(5), y + sheet.px(8));
            sheet.area.draw(&Text::new(text.as_str(), at, style)).map_err(ChartError::new)?;
        }
        Ok(())
    }
}

impl Line {
    /// The parts of the line that are separated by gaps.
    fn stretches(&self) -> Vec<Vec<(f64, f64)>> {
        let parts = self.points.split(|(_, value)| value.is_none());
        let whole =
            |part: &[(f64, Option<f64>)]| part.iter().filter_map(|(x, y)| Some((*x, (*y)?))).collect();
        parts.filter(|part| !part.is_empty()).map(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_interrupts_a_line() {
        let line = Line {
            name: String::new(),
            colour: BLACK,
            second: false,
            dots: false,
            points: vec![(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(4.0))],
            ranges: Vec::new(),
        };
        assert_eq!(line.stretches(), [vec![(0.0, 1.0), (1.0, 2.0)], vec![(3.0, 4.0)]]);
    }

    #[test]
    fn a_logarithmic_axis_has_round_labels_within_its_ends() {
        let axis = Axis::around(Unit::Time, [90.0, 0.0, 1800.0].into_iter()).expect("values");
        let ticks: Vec<&str> = axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(ticks, ["100 µs", "200 µs", "500 µs", "1 ms", "2 ms"]);
        assert_eq!(axis.format_ext(&500_f64.log10()), "500 µs");
        assert!(Axis::around(Unit::Time, [0.0].into_iter()).is_none());
    }
}
