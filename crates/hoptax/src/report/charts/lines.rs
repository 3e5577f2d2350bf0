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
    let (low, high) = (least / 1.3, most * 1.3);
    let describe = format!("Response time by percentile, {}", load.label);
    let svg = drawn(width, 340, &describe, |backend| {
        let root = backend.into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .margin_right(24)
            .x_label_area_size(30)
            .y_label_area_size(64)
            .build_cartesian_2d(
                0..ACROSS.len() as i32 - 1,
                (low..high).log_scale().with_key_points(logarithmic_steps(low, high)),
            )
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

/// When the plan's events happen, s along the rounds of [`throughput`]; each moment once.
fn moments(cases: &[&Case], windows_of_round: usize, rounds: usize) -> Vec<f64> {
    let mut within: Vec<f64> =
        cases.iter().flat_map(|case| case.events.iter().map(|event| event.at_s)).collect();
    within.sort_by(f64::total_cmp);
    within.dedup();
    let of_round = |round: usize| within.iter().map(move |at| (round * windows_of_round) as f64 / 10.0 + at);
    (0..rounds).flat_map(of_round).collect()
}

/// Throughput in each window, the rounds one after the other, the trials of a round one upon the other; absent where no
/// windows were recorded.
pub(in crate::report) fn throughput(
    model: &Model,
    load: &Load,
    width: Width,
) -> Result<Option<String>, ChartError> {
    let cases: Vec<&Case> = model.at(load).collect();
    let trials = || cases.iter().flat_map(|case| &case.throughput_by_window);
    let longest = trials().map(|(_, rates)| rates.len()).max().unwrap_or(0);
    let rounds = trials().map(|(round, _)| round + 1).max().unwrap_or(0) as usize;
    let most = trials().flat_map(|(_, rates)| rates).copied().reduce(f64::max).filter(|most| *most > 0.0);
    let Some(most) = most else { return Ok(None) };
    let windows = longest * rounds;
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
        for at in moments(&cases, longest, rounds) {
            let line = [(at, 0.0), (at, most * 1.08)];
            chart
                .draw_series(LineSeries::new(line, BLACK.mix(0.35).stroke_width(1)))
                .map_err(ChartError::new)?;
        }
        for case in &cases {
            let colour = colour(model, &case.gateway);
            for (round, rates) in &case.throughput_by_window {
                let line = placed(rates, *round as usize * longest, windows.div_ceil(POINTS).max(1));
                chart.draw_series(LineSeries::new(line, colour.stroke_width(1))).map_err(ChartError::new)?;
            }
        }
        root.present().map_err(ChartError::new)
    })?;
    Ok(Some(svg))
}

/// Windows from the window `start` on as (seconds, requests/s), each point the mean of `together` neighbours.
fn placed(rates: &[f64], start: usize, together: usize) -> Vec<(f64, f64)> {
    let point = |(index, chunk): (usize, &[f64])| {
        let middle = (start + index * together) as f64 + chunk.len() as f64 / 2.0;
        (middle / 10.0, chunk.iter().sum::<f64>() / chunk.len() as f64)
    };
    rates.chunks(together).enumerate().map(point).collect()
}

/// 1, 2 and 5 times the powers of ten within a range; the powers alone where that would crowd the axis.
pub(super) fn logarithmic_steps(low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let within = |factors: &[f64]| -> Vec<f64> {
        let all =
            powers.clone().flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        all.filter(|step| (low..=high).contains(step)).collect()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    if fine.len() <= 9 { fine } else { within(&[1.0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_placed_at_their_middles() {
        let line = placed(&[10.0, 20.0], 10, 1);
        assert_eq!(line.iter().map(|point| point.1).collect::<Vec<_>>(), [10.0, 20.0]);
        assert!((line[0].0 - 1.05).abs() < 1e-9 && (line[1].0 - 1.15).abs() < 1e-9);
    }

    #[test]
    fn neighbours_are_averaged() {
        assert_eq!(placed(&[10.0, 20.0, 40.0], 0, 2), [(0.1, 15.0), (0.25, 40.0)]);
    }

    #[test]
    fn logarithmic_steps_do_not_crowd() {
        assert_eq!(logarithmic_steps(60.0, 700.0), [100.0, 200.0, 500.0]);
        assert_eq!(logarithmic_steps(30.0, 3_000_000.0), [100.0, 1e3, 1e4, 1e5, 1e6]);
    }
}
