//! Charts with one line per contender: the tax with its interval, CPU per request.

use super::{ChartError, GRID, Width, colour, drawn, steps, text};
use crate::analysis::stats::Estimate;
use crate::analysis::{Case, Difference, Load};
use crate::report::format::Scale;
use crate::report::model::Model;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Height of one contender's line, and of what stands above and below all of them, px.
const LINE: i32 = 40;
const ABOVE: i32 = 10;
const BELOW: i32 = 30;

/// Where values stand across a chart.
struct Axis {
    left: i32,
    right: i32,
    low: f64,
    high: f64,
    steps: Vec<f64>,
}

impl Axis {
    /// An axis from `low` to `high`, with a little room at both ends, beside labels that take `left` pixels.
    fn new(width: Width, left: i32, low: f64, high: f64) -> Self {
        let (count, margin) = if width == Width::Wide { (8, 130) } else { (4, 18) };
        let right = width.pixels() as i32 - margin;
        let room = (high - low).max(f64::MIN_POSITIVE) * 0.04;
        let low = if low < 0.0 { low - room } else { low };
        let high = high + room;
        let steps = steps(low, high, count).into_iter().filter(|step| (low..=high).contains(step)).collect();
        Self { left, right, low, high, steps }
    }

    fn at(&self, value: f64) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    /// Grid lines with their values below.
    fn draw(&self, area: &Area<'_>, bottom: i32) -> Result<(), ChartError> {
        let largest = self.steps.iter().fold(0.0_f64, |largest, step| largest.max(step.abs()));
        let scale = Scale::of_us(largest);
        for step in &self.steps {
            let x = self.at(*step);
            let style = if *step == 0.0 { BLACK.stroke_width(1) } else { GRID.stroke_width(1) };
            area.draw(&PathElement::new([(x, ABOVE), (x, bottom)], style)).map_err(ChartError::new)?;
            let label = Text::new(scale.value(*step), (x, bottom + 14), text(13, HPos::Center));
            area.draw(&label).map_err(ChartError::new)?;
        }
        Ok(())
    }
}

/// The added time at the median, least first, with intervals and the noise floor; absent where there is no tax.
pub(in crate::report) fn tax(model: &Model, load: &Load, width: Width) -> Result<Option<String>, ChartError> {
    let mut taxes: Vec<(&Case, &Difference)> =
        model.at(load).filter_map(|case| Some((case, case.tax.as_ref()?.added_p50.as_ref()?))).collect();
    taxes.sort_by(|(_, a), (_, b)| a.estimate.estimate.total_cmp(&b.estimate.estimate));
    let floor = model.noise_floor.by_load.get(load.index).and_then(|floor| floor.added_p50).unwrap_or(0.0);
    let ends = |estimate: &Estimate| estimate.interval().unwrap_or((estimate.estimate, estimate.estimate));
    let Some(high) = taxes.iter().map(|(_, tax)| ends(&tax.estimate).1).reduce(f64::max) else {
        return Ok(None);
    };
    let low = taxes.iter().map(|(_, tax)| ends(&tax.estimate).0).fold(-floor, f64::min);
    let bottom = ABOVE + LINE * taxes.len() as i32;
    let describe = format!("Added response time at the median with 95 % intervals, {}", load.label);
    let svg = drawn(width, (bottom + BELOW) as u32, &describe, |backend| {
        let root = backend.into_drawing_area();
        let left = label_width(width, taxes.iter().map(|(case, _)| &*case.gateway));
        let axis = Axis::new(width, left, low, high.max(floor));
        let band = [(axis.at(-floor), ABOVE), (axis.at(floor), bottom)];
        root.draw(&Rectangle::new(band, BLACK.mix(0.10).filled())).map_err(ChartError::new)?;
        axis.draw(&root, bottom)?;
        for (index, (case, tax)) in taxes.iter().enumerate() {
            let y = ABOVE + LINE * index as i32 + LINE / 2;
            whisker(&root, &axis, y, tax, colour(model, &case.gateway))?;
            name(&root, width, left, y, &case.gateway)?;
            if width == Width::Wide {
                let told = told(tax);
                let place = (axis.at(ends(&tax.estimate).1) + 10, y);
                root.draw(&Text::new(told, place, text(13, HPos::Left))).map_err(ChartError::new)?;
            }
        }
        root.present().map_err(ChartError::new)
    })?;
    Ok(Some(svg))
}

fn told(tax: &Difference) -> String {
    let scale = Scale::of_us(tax.estimate.estimate);
    let value = scale.value(tax.estimate.estimate);
    if tax.distinguishable { value } else { format!("{value}, not distinguishable") }
}

fn whisker(
    area: &Area<'_>,
    axis: &Axis,
    y: i32,
    tax: &Difference,
    colour: RGBColor,
) -> Result<(), ChartError> {
    if let Some((low, high)) = tax.estimate.interval() {
        let (low, high) = (axis.at(low), axis.at(high));
        for line in [[(low, y), (high, y)], [(low, y - 6), (low, y + 6)], [(high, y - 6), (high, y + 6)]] {
            area.draw(&PathElement::new(line, colour.stroke_width(2))).map_err(ChartError::new)?;
        }
    }
    let style = if tax.distinguishable { colour.filled() } else { colour.stroke_width(2) };
    area.draw(&Circle::new((axis.at(tax.estimate.estimate), y), 6, style)).map_err(ChartError::new)
}

/// CPU time per request by role, contenders in the plan's order; absent where no CPU time is known. The strongest part
/// of a bar is the gateway's, then the upstream's, the faintest the generator's.
pub(in crate::report) fn cpu(model: &Model, load: &Load, width: Width) -> Result<Option<String>, ChartError> {
    let bars: Vec<(&Case, [f64; 3])> = model
        .at(load)
        .filter_map(|case| {
            let cpu = case.cpu.as_ref()?;
            let parts =
                [cpu.gateway_us_per_request, cpu.upstream_us_per_request, cpu.generator_us_per_request];
            parts.iter().any(Option::is_some).then(|| (case, parts.map(|part| part.unwrap_or(0.0))))
        })
        .collect();
    let Some(high) = bars.iter().map(|(_, parts)| parts.iter().sum()).reduce(f64::max) else {
        return Ok(None);
    };
    let bottom = ABOVE + LINE * bars.len() as i32;
    let describe = format!("CPU time per request by role, {}", load.label);
    let svg = drawn(width, (bottom + BELOW) as u32, &describe, |backend| {
        let root = backend.into_drawing_area();
        let left = label_width(width, bars.iter().map(|(case, _)| &*case.gateway));
        let axis = Axis::new(width, left, 0.0, high);
        axis.draw(&root, bottom)?;
        for (index, (case, parts)) in bars.iter().enumerate() {
            let y = ABOVE + LINE * index as i32 + LINE / 2;
            let colour = colour(model, &case.gateway);
            let mut start = 0.0;
            for (part, strength) in parts.iter().zip([1.0, 0.5, 0.22]) {
                let corners = [(axis.at(start), y - 9), (axis.at(start + part), y + 9)];
                if *part > 0.0 {
                    root.draw(&Rectangle::new(corners, colour.mix(strength).filled()))
                        .map_err(ChartError::new)?;
                }
                start += part;
            }
            name(&root, width, left, y, &case.gateway)?;
        }
        root.present().map_err(ChartError::new)
    })?;
    Ok(Some(svg))
}

/// Letters of a name that are shown before it is cut.
fn letters(width: Width) -> usize {
    if width == Width::Wide { 24 } else { 12 }
}

/// Room for the names, px: about 8 for a letter of this size.
fn label_width<'a>(width: Width, names: impl Iterator<Item = &'a str>) -> i32 {
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0).min(letters(width));
    24 + 8 * longest as i32
}

fn name(area: &Area<'_>, width: Width, left: i32, y: i32, name: &str) -> Result<(), ChartError> {
    let shown = shortened(name, letters(width));
    area.draw(&Text::new(shown, (left - 14, y), text(14, HPos::Right))).map_err(ChartError::new)
}

/// Cut in the middle: gateways with features begin alike and differ at their ends.
fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_string();
    }
    let begin = (most - 1) / 3;
    let end = letters.len() - (most - 1 - begin);
    letters[..begin].iter().chain(&['…']).chain(&letters[end..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_cut_keep_what_tells_them_apart() {
        assert_eq!(shortened("nginx.tls", 12), "nginx.tls");
        assert_eq!(shortened("nginx.key-auth.tls", 12), "ngi…auth.tls");
        assert_ne!(shortened("nginx.key-auth.tls", 12), shortened("nginx.key-auth.cors", 12));
        assert_eq!(shortened("nginx.key-auth.header-rewrite", 12).chars().count(), 12);
    }
}
