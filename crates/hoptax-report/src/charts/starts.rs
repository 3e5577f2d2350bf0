//! The chart of starts: response time over the time since the start, a line for each gateway and for direct.

use super::colour::colour;
use super::lines::{Axis, Line, Panel};
use super::unit::Unit;
use crate::model::Model;
use hoptax_analysis::Load;
use hoptax_record::report::StartFigures;
use hoptax_record::start::StartKind;

/// Title of the chart.
pub(super) const HEADING: &str = "Response time after a start";

/// Says what the lines show.
pub(super) fn subtitle(load: &Load) -> String {
    format!("{}; median over starts of the median response time", load.label)
}

/// The panel. Both axes are logarithmic. `None` for runs without starts.
pub(super) fn panel(model: &Model) -> Option<Panel> {
    let line = |one: &StartFigures| {
        let curve = &one.load.as_ref()?.curve;
        let points = curve.iter().map(|point| (point.since_start_s * 1e6, Some(point.p50_us)));
        (!curve.is_empty()).then(|| Line {
            name: one.contender.clone(),
            colour: colour(model, &one.contender),
            second: false,
            dots: false,
            points: points.collect(),
            ranges: Vec::new(),
        })
    };
    let lines: Vec<Line> =
        model.starts.iter().filter(|one| one.kind != StartKind::Reload).filter_map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Axis::around(Unit::Time, points().map(|(us, _)| *us))?;
    let up = Axis::around(Unit::Time, points().filter_map(|(_, us)| *us))?;
    Some(Panel { title: String::new(), across, up, lines, marks: Vec::new() })
}
