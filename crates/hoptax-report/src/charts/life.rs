//! The chart of a stream's life: when its head, its first event and its tokens arrive, directly and via each
//! gateway.

use super::colour::colour;
use super::lines::{Axis, Line, Panel};
use super::sheet::shortened;
use super::unit::Unit;
use crate::model::Model;
use hoptax_analysis::{Case, Load};
use hoptax_record::Times;

/// Says what the chart shows.
pub(crate) const ABOUT: &str =
    "medians; bars: headers, first event, first content; dots: tokens, at the median time per token";

/// Half of the heights of the bars, in rows.
const HEADERS: f64 = 0.12;
const FIRST_EVENT: f64 = 0.22;
const FIRST_CONTENT: f64 = 0.34;
/// Larger numbers of tokens are drawn as this number of dots.
const MOST_DOTS: u64 = 100;
/// Longest name of a row, letters.
const NAME: usize = 14;

/// The panel, with a row for each contender; direct is at the top. `None` if there are no tokens.
pub(super) fn panel(model: &Model, load: &Load) -> Option<Panel> {
    let lives: Vec<(&Case, Life)> = model.at(load).filter_map(|case| Some((case, Life::of(case)?))).collect();
    let end = lives.iter().map(|(_, life)| life.end_us()).reduce(f64::max)?;
    let row = |index: usize| (lives.len() - index) as f64;
    let names = lives.iter().enumerate();
    let names = names.map(|(index, (case, _))| (row(index), shortened(&case.gateway, NAME))).collect();
    let lines = lives.iter().enumerate();
    let lines = lines.flat_map(|(index, (case, life))| life.lines(model, case, row(index)));
    Some(Panel {
        title: String::new(),
        across: Axis::linear(Unit::Time, end),
        up: Axis::plain(names, lives.len() as f64 + 0.6),
        lines: lines.collect(),
        marks: Vec::new(),
    })
}

/// When the parts of a stream arrive, µs since the request was sent.
struct Life {
    headers: Option<f64>,
    first_event: Option<f64>,
    first_content: f64,
    /// Time per token.
    spacing: f64,
    /// Number of tokens; at least 1.
    tokens: u64,
}

impl Life {
    fn of(case: &Case) -> Option<Self> {
        let messages = case.messages.as_ref().filter(|messages| messages.tokens.is_some())?;
        let median = |times: Times| Some(case.times(times)?.p50?.estimate);
        let streams = case.times(Times::FirstMessage)?.samples;
        Some(Self {
            headers: median(Times::Headers),
            first_event: median(Times::FirstEvent),
            first_content: median(Times::FirstMessage)?,
            spacing: median(Times::TokenTime).unwrap_or(0.0),
            tokens: (messages.received / streams.max(1)).max(1),
        })
    }

    /// When the last token arrives.
    fn end_us(&self) -> f64 {
        self.first_content + self.spacing * (self.tokens - 1) as f64
    }

    /// The bars, and the line with a dot for each token.
    fn lines(&self, model: &Model, case: &Case, row: f64) -> Vec<Line> {
        let colour = colour(model, &case.gateway);
        let line = |dots: bool, points: Vec<(f64, Option<f64>)>| Line {
            name: case.gateway.clone(),
            colour,
            second: dots,
            dots,
            points,
            ranges: Vec::new(),
        };
        let bars = [
            (self.headers, HEADERS),
            (self.first_event, FIRST_EVENT),
            (Some(self.first_content), FIRST_CONTENT),
        ];
        let bar = |(at, half): (Option<f64>, f64)| {
            let at = at?;
            Some(line(false, vec![(at, Some(row - half)), (at, Some(row + half))]))
        };
        let step = self.tokens.div_ceil(MOST_DOTS) as usize;
        let token = |number: u64| (self.first_content + self.spacing * number as f64, Some(row));
        let tokens = line(true, (0..self.tokens).step_by(step).map(token).collect());
        bars.into_iter().filter_map(bar).chain([tokens]).collect()
    }
}
