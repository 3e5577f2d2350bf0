//! How precisely a run knows what each gateway adds at the median: one line in text formats, and a folded
//! chart on the page.

use crate::charts::{self, ChartError, Width};
use crate::model::Model;
use crate::words::format::Scale;
use crate::words::text::{place, span};
use hoptax_analysis::{Load, PrecisionOverTime, headline};
use hoptax_record::Times;
use minijinja::{Value, context};
use std::collections::BTreeSet;

/// The line names at most this many gateways. If there are more gateways, the line states the range of their
/// half-widths.
const MOST_NAMED: usize = 6;

/// A line about the precision at the load point of the latency headline: `Precision of the added median in
/// this run: nginx ±4.8 µs, haproxy ±4 µs after 60 rounds in 2 min 58 s.` `None` if the run was too short for
/// a precision over time.
pub(crate) fn line(model: &Model) -> Option<String> {
    let load = headline::for_latency(&mut model.loads())?;
    let at = if model.loads().count() > 1 { format!(" {}", place(load)) } else { String::new() };
    let (median, reached) = (median(model, load)?, reached(model, load)?);
    Some(format!("Precision of the {median}{at} in this run: {reached}."))
}

/// The figure whose precision is known at a load point.
fn median(model: &Model, load: &Load) -> Option<String> {
    Some(match of(model, load).next()?.times {
        Times::Response => "added median".into(),
        Times::FirstMessage => "median added to the first content".into(),
        _ => format!("median added to {}s", model.message),
    })
}

/// The precision that the whole run reached at a load point, in words.
fn reached(model: &Model, load: &Load) -> Option<String> {
    let last: Vec<_> = of(model, load).filter_map(|one| Some((&*one.gateway, one.points.last()?))).collect();
    let (_, point) = last.first()?;
    let widths = || last.iter().map(|(_, point)| point.half_width_us);
    let each = if last.len() > MOST_NAMED {
        let (least, most) = (widths().reduce(f64::min)?, widths().reduce(f64::max)?);
        format!("{} to {} ({} gateways)", width(least), width(most), last.len())
    } else {
        let named = last.iter().map(|(gateway, point)| format!("{gateway} {}", width(point.half_width_us)));
        named.collect::<Vec<_>>().join(", ")
    };
    Some(format!("{each} after {} rounds in {}", point.rounds, span(point.seconds)))
}

/// A half-width with two significant figures, `±4.8 µs`. More figures would suggest that the width itself is
/// exact.
fn width(us: f64) -> String {
    let step = 10_f64.powf(us.max(f64::MIN_POSITIVE).log10().floor() - 1.0);
    let rounded = (us / step).round() * step;
    format!("±{}", Scale::of_us(rounded).value(rounded))
}

fn of<'m>(model: &'m Model, load: &'m Load) -> impl Iterator<Item = &'m PrecisionOverTime> {
    model.precision.iter().filter(|one| one.load == load.index)
}

/// The values that the page's template needs for a load point. `None` if there is nothing to show.
pub(crate) fn html(model: &Model, load: &Load) -> Result<Option<Value>, ChartError> {
    let Some(reached) = reached(model, load) else { return Ok(None) };
    let mut chart = String::new();
    for width in [Width::Wide, Width::Narrow] {
        chart.extend(charts::half_widths(model, load, width)?);
    }
    let key = of(model, load).map(|one| {
        context! { gateway => &one.gateway, colour => charts::css(charts::colour(model, &one.gateway)) }
    });
    let ends = of(model, load).flat_map(|one| one.points.iter().map(|point| point.rounds));
    let rows = ends.collect::<BTreeSet<u32>>().into_iter().map(|rounds| row(model, load, rounds));
    let (key, rows) = (key.collect::<Vec<_>>(), rows.collect::<Vec<_>>());
    Ok(Some(context! { median => median(model, load), reached, chart, key, rows }))
}

/// A row of the table below the chart: rounds, time, and the half-width of each gateway.
fn row(model: &Model, load: &Load, rounds: u32) -> Value {
    let at = |one: &PrecisionOverTime| one.points.iter().find(|point| point.rounds == rounds).copied();
    let time = of(model, load).find_map(at).map_or(String::new(), |point| span(point.seconds));
    let cells = of(model, load).map(|one| at(one).map_or("–".into(), |point| width(point.half_width_us)));
    context! { rounds, time, cells => cells.collect::<Vec<String>>() }
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::{html, markdown, terminal};

    /// Rounds of 3 s, in which each trial's time depends on the round.
    fn run(rounds: u32, gateways: usize, loads: u32) -> Run {
        let points = (1..=loads).map(|connections| closed_point(connections, 1)).collect();
        let mut run = Run::with_load(points);
        for round in 0..rounds {
            for load in 0..loads {
                let start = f64::from(3 * round);
                run.push(via("direct", round).first().at_load(load).all_at_us(100).at_s(start));
                for index in 0..gateways as u64 {
                    let scatter = u64::from(round % 4) * (index + 1);
                    let trial = via(&format!("g{index}"), round).at_load(load);
                    run.push(trial.all_at_us(150 + scatter).at_s(start + 1.0));
                }
                run.push(via("direct", round).last().at_load(load).all_at_us(100).at_s(start + 2.0));
            }
        }
        run
    }

    #[test]
    fn text_formats_have_one_line() {
        let model = run(60, 2, 1).model();
        let half = |gateway: &str| {
            let case = model.cases.iter().find(|case| case.gateway == gateway).expect("measured");
            let tax = case.tax.as_ref().and_then(|tax| tax.added_p50).expect("a tax");
            super::width(tax.in_run.half_width().expect("an interval"))
        };
        let expected = format!("g0 {}, g1 {} after 60 rounds in 3 min.", half("g0"), half("g1"));
        for text in [terminal(&model, 80, false), markdown(&model)] {
            assert!(one_line(&text).contains(&expected), "`{expected}` is missing:\n{text}");
        }
        fits(&terminal(&model, 60, false), 60);
        insta::assert_snapshot!(super::line(&run(10, 1, 2).model()).expect("a line"));
    }

    #[test]
    fn of_streams_it_is_the_precision_of_messages() {
        let mut run = Run::closed(4);
        for round in 0..10 {
            let start = f64::from(2 * round);
            let of = |who: &str, us: u64| via(who, round).all_at_us(900).both_ways_us(us, 1000);
            run.push(of("direct", 100).first().at_s(start));
            run.push(of("nginx", 150 + u64::from(round % 4)).at_s(start + 1.0));
        }
        let model = run.model();
        insta::assert_snapshot!(super::line(&model).expect("a line"));
        let page = html(&model).expect("drawn");
        assert!(page.contains("added to messages, "), "{page}");
    }

    #[test]
    fn widths_have_two_significant_figures() {
        for (us, text) in
            [(4.76, "±4.8 µs"), (36.7, "±37 µs"), (108.0, "±110 µs"), (1234.0, "±1.2 ms"), (0.0, "±0 µs")]
        {
            assert_eq!(super::width(us), text);
        }
    }

    #[test]
    fn of_many_gateways_the_range_is_stated() {
        insta::assert_snapshot!(one_line(&terminal(&run(10, 7, 1).model(), 80, false)));
    }

    #[test]
    fn the_page_folds_a_chart_and_its_figures() {
        let page = html(&run(20, 2, 1).model()).expect("drawn");
        let (_, rest) = page.split_once("<details><summary>Precision over time").expect("folded");
        let (part, _) = rest.split_once("</details>").expect("its end");
        assert_eq!(part.matches("<svg class=\"wide\"").count(), 1, "{part}");
        assert_eq!(part.matches("<svg class=\"narrow\"").count(), 1, "{part}");
        assert_eq!(
            part.matches("<circle").count(),
            2 * 2 * 4,
            "two gateways after 5, 10, 15 and 20 rounds: {part}"
        );
        assert!(part.contains("after 20 rounds in 60 s") && part.contains("<td>15 s</td>"), "{part}");
        assert!(!part.contains("NaN") && !part.contains("inf,"), "{part}");
    }

    #[test]
    fn short_runs_say_nothing() {
        let model = run(9, 2, 1).model();
        let page = html(&model).expect("drawn");
        for text in [terminal(&model, 80, false), markdown(&model), page] {
            assert!(!text.contains("Precision o"), "{text}");
        }
    }
}
