//! The price list. It shows in a table and in sentences how much each feature costs with each gateway.

use crate::words::format::Scale;
use crate::words::table::{self, Cell, in_one_line, none};
use crate::words::text::{capital, inline, listed, place, with_interval};
use crate::words::void;
use hoptax_analysis::{Analysis, Beyond, Difference, Load, Price, Prices, headline};
use hoptax_plan::Metric;
use hoptax_record::report::{PriceList, Summary};
use hoptax_stats::Estimate;
use std::fmt::Write as _;

/// Headings of a price list, after the column with the features.
pub(super) const HEADINGS: [&str; 5] = ["added p50", "added p99", "CPU/req", "throughput", "memory"];

pub(super) const TITLE: &str = "Price of each feature";

/// Explains what a price is and what it includes.
const DEFINITION: &str = "A price is the gateway with the feature minus the same gateway without \
                          it, in the same rounds. It includes what requests carry for the feature (keys, \
                          tokens) and the client's work for it (TLS). Direct is measured without features \
                          and is not part of any price.";

/// Explains prices of CPU per request at a rate.
const WAKING: &str = "In an open loop, CPU per request contains waking up, and a feature changes how often \
                      the gateway wakes up. The price of its work is that of a closed loop.";

/// Name of the row below a pair of features. The row shows the price of the pair minus the sum of the prices
/// of both features alone.
const BEYOND: &str = "· beyond both alone";

/// If features cost nothing, this share of the prices would still be distinguishable from noise by chance.
/// The share is 5 %, because the intervals are 95 % intervals.
const BY_CHANCE: f64 = 0.05;

/// All prices, and the texts about them.
pub(super) fn price_list(analysis: &Analysis) -> PriceList {
    let rows = analysis.prices.clone();
    let all = rows
        .iter()
        .map(|row| &row.prices)
        .chain(rows.iter().filter_map(|row| Some(&row.beyond.as_ref()?.prices)));
    let intervals = all
        .flat_map(|prices| Metric::PRICES.map(|metric| prices.get(metric)))
        .filter(|price| price.is_some_and(|price| price.estimate.interval().is_some()));
    PriceList {
        definition: DEFINITION,
        expected_by_chance: intervals.count() as f64 * BY_CHANCE,
        sentences: sentences(&rows, analysis),
        rows,
    }
}

/// The tables of the list: one for each load point and each gateway without features.
fn tables(list: &PriceList) -> Vec<PriceTable<'_>> {
    let mut tables: Vec<PriceTable<'_>> = Vec::new();
    for row in &list.rows {
        let same = |table: &&mut PriceTable<'_>| table.bare == row.bare && table.load.index == row.load.index;
        match tables.iter_mut().find(same) {
            Some(table) => table.prices.push(row),
            None => tables.push(PriceTable { bare: &row.bare, load: &row.load, prices: vec![row] }),
        }
    }
    tables
}

fn note(list: &PriceList) -> String {
    let chance = Scale::plain().value(list.expected_by_chance);
    let waking = match list.rows.iter().any(|row| row.load.is_open()) {
        true => format!(" {WAKING}"),
        false => String::new(),
    };
    format!(
        "{DEFINITION}{waking} If no feature cost anything, about {chance} of these figures would look \
         distinguishable by chance."
    )
}

/// The prices of one gateway's features at one load point.
struct PriceTable<'m> {
    bare: &'m str,
    load: &'m Load,
    prices: Vec<&'m Price>,
}

impl PriceTable<'_> {
    /// The title of the table: `nginx, closed loop, 32 connections`.
    fn title(&self) -> String {
        format!("{}, {}", self.bare, self.load.label)
    }

    /// The name and the cells of each row. The row below each pair of features shows the price of the pair
    /// minus the sum of the prices of both features alone.
    fn rows(&self) -> Vec<(String, Vec<Cell>)> {
        let of = |price: &&Price| {
            let beyond = price.beyond.as_ref().map(|beyond| (BEYOND.to_owned(), cells(&beyond.prices)));
            std::iter::once((named(price), cells(&price.prices))).chain(beyond)
        };
        self.prices.iter().flat_map(of).collect()
    }
}

/// The features in words: `key-auth + tls`.
pub(super) fn named(price: &Price) -> String {
    price.features.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
}

fn cells(prices: &Prices) -> Vec<Cell> {
    let signed = |price: Option<&Difference>, scale: fn(f64) -> Scale| {
        let Some(price) = price else { return none() };
        let cell = table::figure(&price.estimate, scale(price.estimate.estimate));
        let sign = if price.estimate.estimate > 0.0 { "+" } else { "" };
        Cell { value: format!("{sign}{}", cell.value), distinguishable: price.distinguishable, ..cell }
    };
    let throughput =
        prices.throughput_ratio.map(|ratio| Difference { estimate: less_one(&ratio.estimate), ..ratio });
    vec![
        table::added(prices.added_p50.as_ref()),
        table::added(prices.added_p99.as_ref()),
        table::added(prices.cpu_us_per_request.as_ref()),
        signed(throughput.as_ref(), |_| Scale::percent()),
        signed(prices.memory_rss_bytes.as_ref(), Scale::of_bytes),
    ]
}

fn less_one(ratio: &Estimate) -> Estimate {
    let less = |end: f64| end - 1.0;
    Estimate {
        estimate: ratio.estimate - 1.0,
        low: ratio.low.map(less),
        high: ratio.high.map(less),
        ..*ratio
    }
}

fn sentences(rows: &[Price], analysis: &Analysis) -> Vec<Summary> {
    let mut gateways: Vec<&str> = Vec::new();
    for row in rows {
        if !gateways.contains(&row.gateway.as_str()) {
            gateways.push(&row.gateway);
        }
    }
    gateways.into_iter().filter_map(|gateway| sentence(gateway, rows, analysis)).collect()
}

fn sentence(gateway: &str, rows: &[Price], analysis: &Analysis) -> Option<Summary> {
    let own = || rows.iter().filter(|row| row.gateway == gateway);
    let at = |load: Option<&Load>| own().find(|row| Some(row.load.index) == load.map(|load| load.index));
    let price = at(headline::for_latency(&mut own().map(|row| &row.load)))?;
    let busy = at(headline::for_throughput(&mut own().map(|row| &row.load)))
        .filter(|busy| voided(busy, analysis).is_empty());
    let codes = voided(price, analysis);
    if !codes.is_empty() {
        let (features, bare, place) = (named(price), &price.bare, place(&price.load));
        let sentence = format!("The price of {features} for {bare} {place} is void: {}.", listed(&codes));
        return Some(Summary { gateway: gateway.to_owned(), sentence, details: Vec::new() });
    }
    let costs = if price.features.len() == 1 { "costs" } else { "together cost" };
    // In an open loop, CPU per request contains waking up: a closed loop comes first.
    let elsewhere = busy.is_some_and(|busy| busy.load.index != price.load.index);
    let cpu = price.prices.cpu_us_per_request.as_ref().filter(|_| !elsewhere);
    let parts = [
        (price.prices.added_p50.as_ref(), "at the median"),
        (price.prices.added_p99.as_ref(), "at p99"),
        (cpu, "of CPU per request"),
    ];
    let parts = parts.into_iter().filter_map(|(price, of)| Some((price?.distinguishable, part(price?, of))));
    let (clear, unclear): (Vec<_>, Vec<_>) = parts.partition(|(distinguishable, _)| *distinguishable);
    let [clear, unclear] =
        [clear, unclear].map(|parts| parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>());
    let (features, bare, place_of) = (named(price), &price.bare, place(&price.load));
    let mut details: Vec<String> = price.beyond.as_ref().and_then(beyond_part).into_iter().collect();
    let sentence = match (clear.is_empty(), unclear.is_empty()) {
        (true, true) => format!("The price of {features} for {bare} {place_of} was not measured."),
        (true, false) => {
            let unclear = listed(&unclear);
            format!("{features} {costs} {bare} nothing distinguishable from noise {place_of}: {unclear}.")
        }
        (false, is_all) => {
            if !is_all {
                details.push(format!("Not distinguishable from noise: {}.", listed(&unclear)));
            }
            format!("{features} {costs} {bare} {} {place_of}.", listed(&clear))
        }
    };
    if let Some(busy) = busy {
        let at = if elsewhere { capital(&place(&busy.load)) } else { "There".to_owned() };
        let doubt = |price: &Difference| match price.distinguishable {
            true => "",
            false => ", not distinguishable from noise",
        };
        let throughput = busy.prices.throughput_ratio.as_ref().map(|ratio| {
            let change = signed(&less_one(&ratio.estimate), Scale::percent());
            format!("throughput changes by {change}{}", doubt(ratio))
        });
        let cpu = busy.prices.cpu_us_per_request.as_ref().filter(|_| elsewhere).map(|cpu| {
            let (costs, doubt) = (part(cpu, "of CPU per request"), doubt(cpu));
            format!("it costs {costs}{doubt}")
        });
        let parts: Vec<String> = cpu.into_iter().chain(throughput).collect();
        if !parts.is_empty() {
            details.push(format!("{at} {}.", parts.join("; ")));
        }
    }
    Some(Summary { gateway: gateway.to_owned(), sentence, details })
}

/// Codes of the findings that make the gateway with the features void, or the gateway without them.
fn voided(price: &Price, analysis: &Analysis) -> Vec<String> {
    let cases = [&price.gateway, &price.bare].map(|gateway| analysis.case(gateway, price.load.index));
    let mut codes: Vec<String> = Vec::new();
    for code in cases.into_iter().flatten().flat_map(|case| void::codes(case, analysis)) {
        if !codes.iter().any(|known| known == code) {
            codes.push(code.to_owned());
        }
    }
    codes
}

/// A price as part of a sentence: `+12 µs (7–17) at the median`.
fn part(price: &Difference, of: &str) -> String {
    format!("{} {of}", signed(&price.estimate, Scale::of_us(price.estimate.estimate)))
}

fn beyond_part(beyond: &Beyond) -> Option<String> {
    let added = beyond.prices.added_p50.as_ref()?;
    let figure = signed(&added.estimate, Scale::of_us(added.estimate.estimate));
    Some(match added.distinguishable {
        true => format!("That is {figure} beyond the sum of both alone at the median."),
        false => format!("At the median, that is not distinguishable from the sum of both alone ({figure})."),
    })
}

fn signed(estimate: &Estimate, scale: Scale) -> String {
    let sign = if estimate.estimate > 0.0 { "+" } else { "" };
    format!("{sign}{}", with_interval(estimate, scale))
}

/// Lines for the terminal: tables with headings, then the note and the sentences. Empty if there are no
/// prices.
pub(super) fn terminal(
    list: &PriceList,
    title: impl Fn(&str) -> String,
    table: impl Fn(&[(String, Vec<Cell>)]) -> Vec<String>,
    wrap: impl Fn(&str) -> String,
) -> String {
    if list.rows.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for one in tables(list) {
        text.push_str(&title(&format!("{TITLE}: {}", one.title())));
        for line in table(&one.rows()) {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
    }
    text.push_str(&wrap(&note(list)));
    text.extend(list.sentences.iter().map(|one| wrap(&one.in_full())));
    text
}

/// The tables and the note as Markdown. Empty if there are no prices.
pub(super) fn markdown(list: &PriceList) -> String {
    if list.rows.is_empty() {
        return String::new();
    }
    let mut text = format!("{}\n", note(list));
    for one in tables(list) {
        let _ = write!(text, "\n#### {}\n\n| feature |", inline(&one.title()));
        let _ = writeln!(text, "{}", HEADINGS.map(|heading| format!(" {heading} |")).concat());
        let _ = writeln!(text, "|---|{}", "---:|".repeat(HEADINGS.len()));
        for (name, cells) in one.rows() {
            let cells = cells.iter().map(|cell| format!(" {} |", in_one_line(cell)));
            let _ = writeln!(text, "| {} |{}", inline(&name), cells.collect::<String>());
        }
    }
    text
}

/// The values that the page's template needs.
pub(super) fn html(list: &PriceList) -> minijinja::Value {
    use minijinja::context;
    let tables: Vec<minijinja::Value> = tables(list)
        .iter()
        .map(|table| {
            let row = |(name, cells): (String, Vec<Cell>)| {
                let part = name == BEYOND;
                context! { name, part, cells }
            };
            context! { title => table.title(), load => table.load.index, rows => table.rows().into_iter().map(row).collect::<Vec<_>>() }
        })
        .collect();
    context! { title => TITLE, note => note(list), headings => HEADINGS.to_vec(), tables }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Reported as _, fits, one_line};
    use crate::{html, markdown, terminal};
    use hoptax_analysis::fixture::features::matrix;

    #[test]
    fn every_format_shows_prices_with_their_definition() {
        let model = matrix(230, 33).model();
        let page = html(&model).expect("a page").replace("</strong>", "");
        for text in [terminal(&model, 80, false), markdown(&model), page] {
            let text = one_line(&text);
            let words = "Price of each feature|key-auth costs nginx +12 µs (|\
                         key-auth + tls together cost nginx +80 µs (|That is +17.9 µs (|\
                         beyond the sum of both alone at the median.|· beyond both alone|\
                         Direct is measured without features|would look distinguishable by chance|\
                         of CPU per request";
            for words in words.split('|') {
                assert!(text.contains(words), "`{words}` is missing:\n{text}");
            }
            let (_, rest) = text.split_once("together cost nginx").expect("a sentence about the pair");
            let next = rest.split_once(". ").expect("another sentence").1;
            assert!(next.starts_with("That is +17.9 µs ("), "\"That\" refers to the sentence before: {next}");
            assert!(
                !text.contains("nginx.key-auth adds"),
                "shown as a price, not as a gateway of its own:\n{text}"
            );
            assert!(text.contains("nginx adds"), "{text}");
        }
    }

    #[test]
    fn lines_fit_into_eighty_columns() {
        fits(&terminal(&matrix(230, 33).model(), 80, false), 80);
    }

    #[test]
    fn a_price_in_the_noise_is_called_not_distinguishable() {
        let model = matrix(212, 31).model();
        insta::assert_snapshot!(one_line(&terminal(&model, 120, false)));
        assert!(markdown(&model).contains(", not distinguishable |"), "{}", markdown(&model));
    }
}
