//! A table of the generators of each load point, if there are several. Each case has a row for each
//! generator.

use crate::model::Model;
use crate::words::layout::{Line, MARK, Table};
use crate::words::table::{self, Cell};
use crate::words::text::inline;
use hoptax_analysis::{Case, GeneratorFigures, Load};

pub(crate) const HEADING: &str = "Generators";

/// Headings of the table, after the column with gateway and generator.
const HEADINGS: [&str; 5] = ["requests/s", "p50", "p99", "added p50", "send lag p99"];

/// Explains the table.
fn note() -> String {
    format!(
        "Each generator sent an equal share of the load. Its added p50 is its median minus its own median \
         of direct. {MARK}: not distinguishable."
    )
}

/// A table for each load point. All have the same note. Empty if there is only one generator.
pub(crate) fn tables(model: &Model) -> Vec<Table> {
    let table = |load: &Load| Table {
        title: format!("{HEADING}: {}", load.label),
        first: "generator",
        headings: &HEADINGS,
        rows: model.at(load).flat_map(rows).collect(),
        note: note(),
    };
    model.loads().map(table).filter(|table| !table.rows.is_empty()).collect()
}

fn rows(case: &Case) -> impl Iterator<Item = Line> + '_ {
    case.generators.iter().map(|one| (format!("{} · {}", case.gateway, one.name), Ok(cells(one).to_vec())))
}

fn cells(one: &GeneratorFigures) -> [Cell; 5] {
    let rate = one.throughput.as_ref().map_or_else(table::none, |rate| table::rate(&rate.estimate));
    [
        rate,
        table::time(one.response_time.p50.as_ref()),
        table::time(one.response_time.p99.as_ref()),
        table::added(one.added_p50.as_ref()),
        table::time(one.send_lag.p99.as_ref()),
    ]
}

/// The tables as Markdown, with the note below. Empty if there is only one generator.
pub(crate) fn markdown(model: &Model) -> String {
    let table = |table: &Table| format!("{}\n\n{}\n", inline(&table.title), table.markdown());
    let text: String = tables(model).iter().map(table).collect();
    if text.is_empty() { text } else { format!("{text}{}\n", note()) }
}

/// A section of the page. Empty if there is only one generator.
pub(crate) fn html(model: &Model) -> String {
    let text: String = tables(model).iter().map(Table::html).collect();
    if text.is_empty() { text } else { format!("<h2 id=\"generators\">{HEADING}</h2>\n{text}") }
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::formats::html::words;
    use crate::{Model, html, markdown, terminal};

    fn model() -> Model {
        let mut run = Run::closed(8);
        for round in 0..4 {
            let jitter = u64::from(round % 2);
            run.direct_trials(round, |trial| {
                trial.generators_us(&[("bench-1", 100), ("bench-2", 300 + jitter)])
            });
            run.push(via("a<b", round).generators_us(&[("bench-1", 150), ("bench-2", 390 + jitter)]));
        }
        run.model()
    }

    #[test]
    fn every_format_shows_each_generator() {
        let model = model();
        let markdown = markdown(&model);
        for text in [terminal(&model, 100, false), markdown.clone(), words(&model)] {
            let text = one_line(&text);
            for word in
                ["Generators: closed loop, 8 connections", "a<b · bench-2", "+50 µs", "+90", "send lag p99"]
            {
                assert!(
                    text.contains(word) || text.contains(&word.replace('<', "&lt;")),
                    "{word} is missing: {text}"
                );
            }
        }
        insta::assert_snapshot!(markdown);
        let page = html(&model).expect("a page");
        assert!(page.contains("a&lt;b · bench-1") && page.contains("<h2 id=\"generators\">"), "{page}");
    }

    #[test]
    fn lines_fit_on_a_narrow_terminal() {
        fits(&terminal(&model(), 60, false), 60);
    }
}
