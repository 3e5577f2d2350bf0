//! Charts with lines: latency by percentile, throughput over time.

use super::{ChartError, GRID, Width, colour, drawn, text};
use crate::analysis::stats::Statistic;
use crate::analysis::{Case, Load};
use crate::report::format::{Scale, number};
use crate::report::model::Model;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// The percentiles across, by the share that lies beyond: each step is rarer than the one before.
const ACROSS: [Statistic; 6] =
    [Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99, Statistic::P999, Statistic::Max];

/// More points than this in one line cannot be told apart: neighbours are averaged.
const POINTS: usize = 400;

/// Response time by percentile, all contenders; absent where nothing completed.
pub(in crate::report) fn latency(
    model: &Model,
    load: &Load,
    width: Width,
) -> Result<Option<String>, ChartError> {
    let curves: Vec<(&Case, Vec<f64>)> = model
        .at(load)
        .filter_map(|case| {
            let latency = case.response_time.as_ref()?;
            let figures: Option<Vec<f64>> =
                ACROSS.iter().map(|statistic| latency.get(*statistic).map(|one| one.estimate)).collect();
            Some((case, figures?))
        })
        .collect();
    let all = || curves.iter().flat_map(|(_, curve)| curve.iter().copied()).filter(|us| *us > 0.0);
    let (Some(least), Some(most)) = (all().reduce(f64::min), all().reduce(f64::max)) else { return Ok(None) };
    let describe = format!("Response time by percentile, {}", load.label);
    let svg = drawn(width, 340, &describe, |backend| {
        let root = backend.into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .margin_right(24)
            .x_label_area_size(30)
            .y_label_area_size(64)
            .build_cartesian_2d(0..ACROSS.len() as i32 - 1, (least / 1.3..most * 1.3).log_scale())
            .map_err(ChartError::new)?;
        chart
            .configure_mesh()
            .axis_style(BLACK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .x_labels(ACROSS.len())
            .y_labels(6)
            .x_label_style(text(13, HPos::Center))
            .y_label_style(text(13, HPos::Right))
            .x_label_formatter(&|index| ACROSS.get(*index as usize).map_or("", |one| one.name()).to_string())
            .y_label_formatter(&|us| Scale::of_us(*us).value(*us))
            .draw()
            .map_err(ChartError::new)?;
        for (case, curve) in &curves {
            let colour = colour(model, &case.gateway);
            let points = curve.iter().enumerate().map(|(index, us)| (index as i32, us.max(least)));
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))
                .map_err(ChartError::new)?;
            chart
                .draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))
                .map_err(ChartError::new)?;
        }
        root.present().map_err(ChartError::new)
    })?;
    Ok(Some(svg))
}

/// Throughput in each window, the trials of a contender one after the other; absent where no windows were recorded.
pub(in crate::report) fn throughput(
    model: &Model,
    load: &Load,
    width: Width,
) -> Result<Option<String>, ChartError> {
    let cases: Vec<&Case> = model
        .at(load)
        .filter(|case| case.throughput_by_window.iter().any(|trial| !trial.is_empty()))
        .collect();
    let windows =
        cases.iter().map(|case| case.throughput_by_window.iter().map(Vec::len).sum::<usize>()).max();
    let most =
        cases.iter().flat_map(|case| case.throughput_by_window.iter().flatten()).copied().reduce(f64::max);
    let (Some(windows), Some(most)) = (windows, most.filter(|most| *most > 0.0)) else { return Ok(None) };
    let seconds = windows as f64 / 10.0;
    let describe = format!("Throughput over time, {}", load.label);
    let svg = drawn(width, 280, &describe, |backend| {
        let root = backend.into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .margin_right(24)
            .x_label_area_size(30)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..seconds, 0.0..most * 1.08)
            .map_err(ChartError::new)?;
        chart
            .configure_mesh()
            .axis_style(BLACK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .x_labels(if width == Width::Wide { 9 } else { 4 })
            .y_labels(5)
            .x_label_style(text(13, HPos::Center))
            .y_label_style(text(13, HPos::Right))
            .x_label_formatter(&|seconds| format!("{} s", number(*seconds)))
            .y_label_formatter(&|rate| Scale::of_throughput(*rate).value(*rate))
            .draw()
            .map_err(ChartError::new)?;
        for case in &cases {
            let colour = colour(model, &case.gateway);
            for line in end_to_end(&case.throughput_by_window) {
                chart.draw_series(LineSeries::new(line, colour.stroke_width(1))).map_err(ChartError::new)?;
            }
        }
        root.present().map_err(ChartError::new)
    })?;
    Ok(Some(svg))
}

/// One line per trial, (seconds, requests/s), each beginning where the one before ended.
fn end_to_end(trials: &[Vec<f64>]) -> Vec<Vec<(f64, f64)>> {
    let windows: usize = trials.iter().map(Vec::len).sum();
    let together = windows.div_ceil(POINTS).max(1);
    let mut before = 0;
    trials
        .iter()
        .map(|trial| {
            let start = before;
            before += trial.len();
            let at =
                |index: usize, length: usize| (start + index * together) as f64 / 10.0 + length as f64 / 20.0;
            trial
                .chunks(together)
                .enumerate()
                .map(|(index, chunk)| {
                    (at(index, chunk.len()), chunk.iter().sum::<f64>() / chunk.len() as f64)
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_follow_each_other_at_the_middles_of_their_windows() {
        let lines = end_to_end(&[vec![10.0, 20.0], vec![30.0]]);
        let rates: Vec<Vec<f64>> =
            lines.iter().map(|line| line.iter().map(|point| point.1).collect()).collect();
        assert_eq!(rates, [vec![10.0, 20.0], vec![30.0]]);
        let seconds = lines.iter().flatten().map(|point| point.0);
        assert!(seconds.zip([0.05, 0.15, 0.25]).all(|(told, middle)| (told - middle).abs() < 1e-9));
    }

    #[test]
    fn long_trials_are_thinned_by_averaging() {
        let lines = end_to_end(&[(0..10_000).map(|index| f64::from(index % 2)).collect()]);
        assert!(lines[0].len() <= POINTS, "{}", lines[0].len());
        assert!(lines[0].iter().all(|(_, rate)| (rate - 0.5).abs() < 0.03));
    }
}
