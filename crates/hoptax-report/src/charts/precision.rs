//! The chart of precision over time: the half-width of the interval of each gateway's added median.

use super::colour::colour;
use super::lines::{Axis, Line, Panel};
use super::sheet::steps;
use super::unit::Unit;
use crate::model::Model;
use crate::words::format::number;
use hoptax_analysis::{Load, PrecisionOverTime};

/// The panel at a load point. `None` if the run was too short, or if no interval has a width.
pub(super) fn panel(model: &Model, load: &Load) -> Option<Panel> {
    let line = |one: &PrecisionOverTime| Line {
        name: one.gateway.clone(),
        colour: colour(model, &one.gateway),
        second: false,
        dots: true,
        points: one.points.iter().map(|point| (point.seconds, Some(point.half_width_us))).collect(),
        ranges: Vec::new(),
    };
    let lines: Vec<Line> = model.precision.iter().filter(|one| one.load == load.index).map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let longest = points().map(|(seconds, _)| *seconds).reduce(f64::max)?;
    let up = Axis::around(Unit::Time, points().filter_map(|(_, us)| *us))?;
    // The last dots need some room on their right.
    let across = Axis::plain(ticks(longest), longest * 1.03);
    Some(Panel { title: String::new(), across, up, lines, marks: Vec::new() })
}

/// Round times up to `longest` seconds, with their labels.
fn ticks(longest: f64) -> Vec<(f64, String)> {
    let (size, unit) = match longest {
        ..180.0 => (1.0, "s"),
        ..7200.0 => (60.0, "min"),
        _ => (3600.0, "h"),
    };
    let steps = steps(0.0, longest / size, 5).into_iter().filter(|step| step * size <= longest);
    steps.map(|step| (step * size, format!("{} {unit}", number(step)))).collect()
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn labels_have_a_unit_that_suits_the_run() {
        let labels =
            |longest| ticks(longest).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ");
        insta::assert_snapshot!([35.0, 179.0, 600.0, 36_000.0].map(labels).join("\n"));
    }
}
