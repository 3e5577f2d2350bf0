//! Throughput and response time over time. Rounds are drawn side by side, without the gaps between trials.

use super::colour::colour;
use super::lines::{Axis, Line, Panel};
use super::unit::Unit;
use crate::model::Model;
use crate::words::format::number;
use hoptax_analysis::{Case, Load, Series};
use hoptax_record::DirectTrial;

/// Space between two rounds, as a share of the duration of a trial.
const GAP: f64 = 0.06;

/// The panels for throughput and response time. `None` if no trial has windows.
pub(super) fn panels(model: &Model, load: &Load) -> Option<Vec<Panel>> {
    let cases: Vec<&Case> =
        model.at(load).filter(|case| case.series.iter().any(|one| !one.throughput.is_empty())).collect();
    let trials = || cases.iter().flat_map(|case| &case.series);
    let length = trials().map(|one| one.throughput.len() as f64 * one.step_s).reduce(f64::max)?;
    let mut rounds: Vec<u32> = trials().map(|one| one.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    let place = Place { rounds: &rounds, length };
    let throughput = lines(model, &cases, &place, |one| one.throughput.iter().copied().map(Some).collect());
    let times = lines(model, &cases, &place, |one| one.p99_us.clone());
    let values = |lines: &[Line]| -> Vec<f64> {
        lines.iter().flat_map(|line| line.points.iter().filter_map(|(_, value)| *value)).collect()
    };
    let most = values(&throughput).into_iter().reduce(f64::max)?;
    let over = Axis::around(Unit::Time, values(&times).into_iter());
    let panel = |title: &str, up, lines, named| Panel {
        title: title.to_owned(),
        across: place.axis(),
        up,
        lines,
        marks: place.marks(&cases, named),
    };
    let first = panel("Throughput, requests/s", Axis::linear(Unit::Rate, most), throughput, true);
    let second = over.map(|up| panel("Response time, p99 over time", up, times, false));
    Some(std::iter::once(first).chain(second).collect())
}

/// Computes the positions of rounds on the axis.
struct Place<'a> {
    rounds: &'a [u32],
    /// Duration of the longest trial, s.
    length: f64,
}

impl Place<'_> {
    fn start(&self, round: u32) -> f64 {
        let before = self.rounds.iter().take_while(|one| **one < round).count();
        before as f64 * self.length * (1.0 + GAP)
    }

    /// An axis with a label at the end of each round. The label shows the seconds since the trial began.
    fn axis(&self) -> Axis {
        let labels = |round: &u32| {
            let start = self.start(*round);
            [(start, "0 s".to_owned()), (start + self.length, format!("{} s", number(self.length)))]
        };
        // If there are many rounds, the labels would overlap, so no labels are drawn.
        let ticks: Vec<(f64, String)> = match self.rounds {
            rounds if rounds.len() <= 4 => {
                rounds.iter().flat_map(|round| labels(round).into_iter().skip(1)).collect()
            }
            _ => Vec::new(),
        };
        let last = self.rounds.last().map_or(0.0, |round| self.start(*round));
        Axis::plain(ticks, last + self.length)
    }

    /// Vertical lines at the start of each round and at events.
    fn marks(&self, cases: &[&Case], named: bool) -> Vec<(f64, String)> {
        let few = self.rounds.len() <= 12;
        let mut marks: Vec<(f64, String)> = Vec::new();
        for round in self.rounds {
            let name = if named && few { format!("round {}", round + 1) } else { String::new() };
            marks.push((self.start(*round), name));
            let mut events: Vec<f64> =
                cases.iter().flat_map(|case| case.events.iter().map(|event| event.at_s)).collect();
            events.sort_by(f64::total_cmp);
            events.dedup();
            marks.extend(events.into_iter().map(|at| (self.start(*round) + at, String::new())));
        }
        marks
    }
}

/// The lines of every case. The two direct trials of a round are drawn at the same place, and the second
/// trial has a separate line.
fn lines(
    model: &Model,
    cases: &[&Case],
    place: &Place<'_>,
    of: fn(&Series) -> Vec<Option<f64>>,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for case in cases {
        for second in [false, true] {
            let trials: Vec<&Series> =
                case.series.iter().filter(|one| (one.direct == Some(DirectTrial::Last)) == second).collect();
            if trials.is_empty() {
                continue;
            }
            let points = trials.iter().flat_map(|one| {
                let start = place.start(one.round);
                let at = move |index: usize| start + (index as f64 + 0.5) * one.step_s;
                let values = of(one).into_iter().enumerate().map(move |(index, value)| (at(index), value));
                values.chain([(start + place.length, None)])
            });
            lines.push(Line {
                name: case.gateway.clone(),
                colour: colour(model, &case.gateway),
                second,
                dots: false,
                points: points.collect(),
                ranges: Vec::new(),
            });
        }
    }
    lines
}
