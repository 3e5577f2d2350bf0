//! Response time against rate: every trial of a search, and a line through the middle of neighbouring ones.

use super::lines::logarithmic_steps;
use super::{ChartError, GRID, Width, colour, drawn, text};
use crate::analysis::{Capacity, Load};
use crate::report::format::Scale;
use crate::report::model::Model;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Trials whose rates differ by less than this factor are neighbours: the line takes their middle.
const NEIGHBOURS: f64 = 1.1;

/// p99 of each trial of a search by its rate, all contenders; absent where nothing was answered. `found` are the search's
/// capacities: those under different objectives share their trials.
pub(in crate::report) fn frontier(
    model: &Model,
    load: &Load,
    found: &[&Capacity],
    width: Width,
) -> Result<Option<String>, ChartError> {
    let first = found.first().map_or("", |one| one.slo.as_str());
    let curves: Vec<(&str, Vec<(f64, f64)>)> = found
        .iter()
        .filter(|one| one.slo == first)
        .map(|one| (one.gateway.as_str(), points(one)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let range = |of: fn(&(f64, f64)) -> f64| {
        let all = || curves.iter().flat_map(|(_, points)| points.iter().map(of));
        Some((all().reduce(f64::min)? / 1.3, all().reduce(f64::max)? * 1.3))
    };
    let (Some((left, right)), Some((low, high))) = (range(|point| point.0), range(|point| point.1)) else {
        return Ok(None);
    };
    let describe = format!("Response time at p99 by rate, {}", load.label);
    let svg = drawn(width, 340, &describe, |backend| {
        let root = backend.into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .margin_right(24)
            .x_label_area_size(30)
            .y_label_area_size(64)
            .build_cartesian_2d(
                (left..right).log_scale().with_key_points(logarithmic_steps(left, right)),
                (low..high).log_scale().with_key_points(logarithmic_steps(low, high)),
            )
            .map_err(ChartError::new)?;
        chart
            .configure_mesh()
            .axis_style(BLACK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .x_labels(8)
            .y_labels(6)
            .x_label_style(text(13, HPos::Center))
            .y_label_style(text(13, HPos::Right))
            .x_label_formatter(&|rate| Scale::of_throughput(*rate).value(*rate))
            .y_label_formatter(&|us| Scale::of_us(*us).value(*us))
            .draw()
            .map_err(ChartError::new)?;
        for (gateway, points) in &curves {
            let colour = colour(model, gateway);
            let line = LineSeries::new(middles(points), colour.stroke_width(2));
            chart.draw_series(line).map_err(ChartError::new)?;
            let dots = points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(dots).map_err(ChartError::new)?;
        }
        root.present().map_err(ChartError::new)
    })?;
    Ok(Some(svg))
}

/// Rate and p99 (µs) of each trial that has one, by rate.
fn points(capacity: &Capacity) -> Vec<(f64, f64)> {
    let steps = capacity.steps.iter();
    let mut points: Vec<(f64, f64)> =
        steps.filter_map(|step| Some((step.rate, step.p99_us?))).filter(|point| point.1 > 0.0).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

/// The middle of each group of neighbours: of their rates, and of their times.
fn middles(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut middles = Vec::new();
    let mut rest = points;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|point| point.0 < first.0 * NEIGHBOURS).count().max(1);
        let (group, others) = rest.split_at(count);
        let mut times: Vec<f64> = group.iter().map(|point| point.1).collect();
        times.sort_by(f64::total_cmp);
        middles.push((group[count / 2].0, times[count / 2]));
        rest = others;
    }
    middles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_their_middle() {
        let points = [(100.0, 5.0), (102.0, 900.0), (104.0, 6.0), (200.0, 7.0)];
        assert_eq!(middles(&points), [(102.0, 6.0), (200.0, 7.0)]);
        assert_eq!(middles(&[]), []);
    }
}
