//! The table that compares every two gateways with each other, at the load point of the answer.

use crate::model::Model;
use crate::words::layout::{Line, MARK, Table};
use crate::words::table::{Cell, difference, in_one_line, none};
use crate::words::text::inline;
use hoptax_analysis::headline::for_latency;
use hoptax_analysis::{GatewayPair, Load};
use hoptax_plan::Metric;
use std::fmt::Write as _;

const TITLE: &str = "Gateways against each other";

/// Headings of the table, after the column with the names of the two gateways. The second one names the
/// metric of the answer.
pub(super) fn headings(model: &Model) -> &'static [&'static str; 3] {
    match model.latency_metric() {
        Metric::AddedFirstMessageP50 => &["verdict", "added p50 to first content", "CPU/req"],
        Metric::AddedMessageP50 => &["verdict", "added p50 of messages", "CPU/req"],
        Metric::AddedAgeP50 => &["verdict", "added p50 of ages", "CPU/req"],
        _ => &["verdict", "added p50", "CPU/req"],
    }
}

/// If there are more pairs, the table only compares each gateway with the one that adds least. Six gateways
/// have 15 pairs.
const MOST_ROWS: usize = 15;

/// The pairs of all gateways that compete for the answer.
pub(crate) struct PairTable<'m> {
    load: &'m Load,
    headings: &'static [&'static str; 3],
    rows: Vec<Row>,
    /// Number of all pairs, including those without a row.
    pairs: usize,
}

/// Two gateways. The figures are those of the gateway that is named first, minus those of the other gateway.
#[derive(serde::Serialize)]
pub(crate) struct Row {
    /// `envoy against nginx`.
    pub(crate) name: String,
    /// The differences in the metric of the answer and in CPU per request.
    pub(crate) cells: [Cell; 2],
    /// What the differences mean for the gateway that is named first.
    pub(crate) verdict: String,
}

impl<'m> PairTable<'m> {
    /// The table of a run. `None` if the run has no answer, for example because it is void.
    pub(crate) fn new(model: &'m Model) -> Option<Self> {
        model.answer.as_ref()?;
        let competing = || model.pairs.iter().filter(|pair| pair.competes);
        let load = for_latency(&mut competing().map(|pair| &pair.load))?;
        let at_load: Vec<&GatewayPair> = competing().filter(|pair| pair.load.index == load.index).collect();
        let of = |one: &str, other: &str, metric: Metric| {
            at_load.iter().copied().find(|pair| pair.metric == metric && pair.is_of(one, other))
        };
        let metric = model.latency_metric();
        let mut gateways = by_added_latency(model, load, metric);
        gateways
            .retain(|gateway| at_load.iter().any(|pair| pair.first == *gateway || pair.second == *gateway));
        let mut rows = Vec::new();
        for (index, least) in gateways.iter().enumerate() {
            for gateway in &gateways[index + 1..] {
                let added = of(gateway, least, metric);
                let cpu = of(gateway, least, Metric::CpuUsPerRequest);
                rows.extend(added.map(|added| Row::new([gateway, least], added, cpu)));
            }
        }
        let pairs = rows.len();
        if pairs > MOST_ROWS {
            rows.truncate(gateways.len() - 1);
        }
        (pairs > 0).then_some(Self { load, headings: headings(model), rows, pairs })
    }

    /// The table for a terminal.
    pub(crate) fn table(&self) -> Table {
        table(self.title(), ("gateways", self.headings), &self.rows, self.note())
    }

    /// The title with the load point: `Gateways against each other: closed loop, 32 connections`.
    fn title(&self) -> String {
        format!("{TITLE}: {}", self.load.label)
    }

    /// Explains the intervals, and says how many pairs have no row.
    fn note(&self) -> String {
        let intervals = match self.pairs {
            1 => String::new(),
            pairs => format!(" Intervals account for all {pairs} pairs."),
        };
        let others = match self.pairs - self.rows.len() {
            0 => String::new(),
            others => format!(" The JSON report has the other {others} pairs."),
        };
        format!(
            "Each row: the first gateway minus the second, in the same rounds. {MARK}: not \
            distinguishable.{intervals}{others}"
        )
    }
}

impl Row {
    pub(crate) fn new(names: [&str; 2], added: &GatewayPair, cpu: Option<&GatewayPair>) -> Self {
        let [gateway, other] = names;
        let cell = |pair: &GatewayPair| difference(&pair.difference_of(gateway), pair.distinguishable);
        Self {
            name: format!("{gateway} against {other}"),
            cells: [cell(added), cpu.map_or_else(none, cell)],
            verdict: verdict(gateway, added, cpu),
        }
    }
}

fn verdict(gateway: &str, added: &GatewayPair, cpu: Option<&GatewayPair>) -> String {
    let word = |pair: &GatewayPair, larger: &'static str, smaller: &'static str| {
        pair.distinguishable.then(|| if pair.is_larger(gateway) { larger } else { smaller })
    };
    let latency = word(added, "slower", "faster");
    let cpu = cpu.and_then(|cpu| word(cpu, "more CPU", "less CPU"));
    let words: Vec<&str> = latency.into_iter().chain(cpu).collect();
    if words.is_empty() { "not distinguishable".into() } else { words.join(", ") }
}

/// The labels of all gateways at a load point. The gateway with the least added latency comes first.
fn by_added_latency<'m>(model: &'m Model, load: &'m Load, metric: Metric) -> Vec<&'m str> {
    let mut gateways: Vec<(&str, f64)> = model
        .at(load)
        .filter_map(|case| Some((&*case.gateway, case.tax.as_ref()?.get(metric)?.estimate.estimate)))
        .collect();
    gateways.sort_by(|one, other| one.1.total_cmp(&other.1));
    gateways.into_iter().map(|(gateway, _)| gateway).collect()
}

/// A table of these rows for a terminal: the verdict, then the differences. `first` is the heading of the
/// names.
pub(super) fn table(
    title: String,
    (first, headings): (&'static str, &'static [&'static str; 3]),
    rows: &[Row],
    note: String,
) -> Table {
    let line = |row: &Row| -> Line {
        let verdict = Cell { value: row.verdict.clone(), ..none() };
        (row.name.clone(), Ok(std::iter::once(verdict).chain(row.cells.iter().cloned()).collect()))
    };
    Table { title, first, headings, rows: rows.iter().map(line).collect(), note }
}

/// The head and the rows of a table as Markdown.
pub(super) fn markdown_rows(first: &str, headings: &[&str; 3], rows: &[Row]) -> String {
    let headings = headings.map(|heading| format!(" {heading} |")).concat();
    let mut text = format!("| {first} |{headings}\n|---|---|---:|---:|\n");
    for row in rows {
        let cells: String = row.cells.iter().map(|cell| format!(" {} |", in_one_line(cell))).collect();
        let _ = writeln!(text, "| {} | {} |{cells}", inline(&row.name), row.verdict);
    }
    text
}

/// The title, and the table with its note as Markdown. Both are empty if there are no pairs.
pub(crate) fn markdown(model: &Model) -> (String, String) {
    let Some(table) = PairTable::new(model) else { return Default::default() };
    let rows = markdown_rows("gateways", table.headings, &table.rows);
    (table.title(), format!("{}\n\n{rows}", table.note()))
}

/// The values that the page's template needs. `None` if there are no pairs.
pub(crate) fn html(model: &Model) -> Option<minijinja::Value> {
    use minijinja::context;
    let table = PairTable::new(model)?;
    let (title, note, headings) = (table.title(), table.note(), table.headings);
    Some(context! { title, note, headings, rows => &table.rows })
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::{html, markdown, terminal};

    fn run(gateways: usize) -> Run {
        let mut run = Run::closed(32);
        for round in 0..4 {
            run.direct(round, 100, 100);
            let jitter = u64::from(round % 2);
            run.push(via("hop-l4", round).all_at_us(140 + jitter));
            for index in 0..gateways as u64 {
                let trial = via(&format!("g{index}"), round).all_at_us(150 + 20 * (index / 2) + jitter);
                run.push(trial.gateway_cpu_us(10_000 + 1000 * index + u64::from(round)));
            }
        }
        run
    }

    #[test]
    fn every_format_compares_gateways_with_each_other() {
        let model = run(3).model();
        let page = html(&model).expect("a page").replace("<small>", " (").replace("</small>", ")");
        for (text, title) in [
            (terminal(&model, 100, false), "Gateways against each other: closed loop, 32 connections"),
            (markdown(&model), "<summary>Gateways against each other: closed loop, 32 connections</summary>"),
            (page, "Gateways against each other: closed loop, 32 connections"),
        ] {
            let text = one_line(&text);
            let words = "g1 against g0|g2 against g1|+20.1 µs (18.2–22.0)|slower, more CPU|all 3 pairs.";
            for words in words.split('|').chain([title]) {
                assert!(text.contains(words), "`{words}` is missing:\n{text}");
            }
        }
        fits(&terminal(&model, 80, false), 80);
        assert!(!terminal(&run(1).model(), 80, false).contains("against"), "nothing to compare with");
    }

    #[test]
    fn of_many_gateways_each_is_compared_with_the_first() {
        let text = one_line(&terminal(&run(7).model(), 100, false));
        assert_eq!(text.matches(" against g0 ").count(), 6, "{text}");
        assert!(!text.contains(" against g1 "), "{text}");
        insta::assert_snapshot!(text);
        assert!(!one_line(&terminal(&run(6).model(), 100, false)).contains("The JSON report has"));
    }
}
