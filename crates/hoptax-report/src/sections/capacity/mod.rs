//! Shows the results of capacity searches in each format. A result is the highest rate at which a contender
//! meets an objective.

use crate::charts;
use crate::model::Model;
use crate::words::format::Scale;
use crate::words::text::{inline, listed, with_interval, wrapped};
use hoptax_analysis::{Analysis, Capacity, Finding, Limit, Load, Severity};
use hoptax_record::StepPurpose;
use hoptax_record::report::Summary;
use minijinja::{Value, context};
use std::collections::BTreeSet;

/// Template of the page's section about searches.
pub(crate) const TEMPLATE: &str = include_str!("../../../assets/report/capacity.html");

/// Unit of the results of a search.
fn unit(load: &Load) -> &'static str {
    if load.is_open() { "requests/s" } else { "connections" }
}

/// Headings of the columns after the gateway's name.
fn headings(load: &Load) -> [&'static str; 4] {
    [unit(load), "of direct", "confirmed", "limit"]
}

/// Heading of a search.
fn heading(load: &Load) -> String {
    let most = if load.is_open() { "Highest rate" } else { "Most connections" };
    format!("{most} held: {}", load.label)
}

/// The cells of a row, in the order of [`headings`].
fn cells(one: &Capacity) -> [String; 4] {
    let none = || "–".to_owned();
    let rate = match (&one.rate, one.below) {
        (Some(rate), _) => rate_in_words(rate, one.at_least),
        (None, Some(below)) => format!("< {}", value(below)),
        (None, None) if one.failed.is_some() => "failed".to_owned(),
        (None, None) => "not reached".to_owned(),
    };
    let of_direct = one.of_direct.as_ref().map_or_else(none, |ratio| with_interval(ratio, Scale::percent()));
    let confirmed = match one.confirmed {
        Some(one) => format!("{} ({}/{})", value(one.rate), one.held, one.trials),
        None if one.rate.is_none() => none(),
        None => match longer_trials(one).iter().fold((0, 0), |sum, rate| (sum.0 + rate.1, sum.1 + rate.2)) {
            (_, 0) => "not tried".into(),
            (held, trials) => format!("no ({held}/{trials})"),
        },
    };
    let broken = one.broken.first().map_or(String::new(), |term| format!(": {term}"));
    let limit = match one.limited_by {
        None => none(),
        Some(Limit::Range) => "the search's range".to_owned(),
        Some(limit) => format!("{}{broken}", name(limit)),
    };
    [rate, of_direct, confirmed, limit]
}

/// For each rate of longer trials: the rate, the number of trials in which the objective held, and the number
/// of trials. The lowest rate comes last.
fn longer_trials(one: &Capacity) -> Vec<(f64, u32, u32)> {
    let mut rates: Vec<(f64, u32, u32)> = Vec::new();
    for step in one.steps.iter().filter(|step| step.purpose == StepPurpose::Confirm) {
        let Some(held) = step.held else { continue };
        match rates.iter_mut().find(|rate| rate.0 == step.rate) {
            Some(rate) => (rate.1, rate.2) = (rate.1 + u32::from(held), rate.2 + 1),
            None => rates.push((step.rate, u32::from(held), 1)),
        }
    }
    rates.sort_by(|one, other| other.0.total_cmp(&one.0));
    rates
}

/// Says why no rate is confirmed, and what to do. `None` if one is confirmed, or if no rate was found.
fn unconfirmed(one: &Capacity) -> Option<String> {
    if one.confirmed.is_some() || one.rate.is_none() {
        return None;
    }
    let who = format!("No rate of {} is confirmed under {}", one.gateway, one.slo);
    let tried = longer_trials(one);
    let Some((lowest, ..)) = tried.last() else {
        return Some(format!(
            "{who}: the search ended before its longer trials. Let it finish, with more `time` if the plan \
            limits it."
        ));
    };
    let unit = unit(&one.load);
    let per = if one.load.is_open() { "/s" } else { " connections" };
    let tried: Vec<String> = tried
        .iter()
        .map(|(rate, held, trials)| format!("{held} of {trials} at {}{per}", value(*rate)))
        .collect();
    Some(format!(
        "{who}: of the longer trials, too few held it ({}). Plan with less than {} {unit}, or search \
         again on a quieter machine.",
        listed(&tried),
        value(*lowest)
    ))
}

fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::Gateway => "gateway",
        Limit::Upstream => "upstream",
        Limit::Generator => "generator",
        Limit::Connections => "connections",
        Limit::Range => "range",
    }
}

fn value(rate: f64) -> String {
    Scale::of_throughput(rate).value(rate)
}

/// A rate with its interval. It begins with `≥` if the real capacity may be higher.
fn rate_in_words(rate: &hoptax_stats::Estimate, at_least: bool) -> String {
    let scale = Scale::of_throughput(rate.estimate);
    let sign = if at_least { "≥ " } else { "" };
    let interval = match (rate.low, rate.high) {
        (Some(low), Some(high)) => format!(" ({})", scale.interval(low, high)),
        // Do not print text such as `1,000 (from 1,000)`.
        (Some(low), None) if scale.number(low) != scale.number(rate.estimate) => {
            format!(" (from {})", scale.number(low))
        }
        _ => String::new(),
    };
    format!("{sign}{}{interval}", scale.value(rate.estimate))
}

/// The load points with a search, and the results of each search.
fn searches(model: &Model) -> Vec<(&Load, Vec<&Capacity>)> {
    let mut searches: Vec<(&Load, Vec<&Capacity>)> = Vec::new();
    for one in &model.capacity {
        match searches.last_mut() {
            Some((load, all)) if load.index == one.load.index => all.push(one),
            _ => searches.push((&one.load, vec![one])),
        }
    }
    searches
}

/// The objectives of a search, in the plan's order.
fn objectives<'m>(found: &[&'m Capacity]) -> Vec<&'m str> {
    let mut objectives: Vec<&str> = Vec::new();
    for one in found {
        if !objectives.contains(&one.slo.as_str()) {
            objectives.push(&one.slo);
        }
    }
    objectives
}

/// Formats the searches for a terminal. Each search has a block, with a table for each objective. Empty if
/// there are no searches.
pub(crate) fn terminal(model: &Model, width: usize) -> String {
    let mut text = String::new();
    for (load, found) in searches(model) {
        text.push_str(&format!("\n{}", wrapped(&heading(load), width)));
        for slo in objectives(&found) {
            text.push_str(&wrapped(slo, width));
            let of_slo = found.iter().filter(|one| one.slo == slo);
            let rows: Vec<(&str, [String; 4])> =
                of_slo.map(|one| (one.gateway.as_str(), cells(one))).collect();
            for line in table(headings(load), &rows, width) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text.extend(found.iter().filter_map(|one| unconfirmed(one)).map(|line| wrapped(&line, width)));
    }
    text
}

/// A table that is at most `width` columns wide. If the table is too wide, some columns are left out.
fn table(headings: [&str; 4], rows: &[(&str, [String; 4])], width: usize) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let names = rows.iter().map(|(name, _)| length(name)).max().unwrap_or(0).max("gateway".len());
    let widest = |column: usize| {
        rows.iter().map(|(_, cells)| length(&cells[column])).max().unwrap_or(0).max(length(headings[column]))
    };
    let widths: Vec<usize> = (0..headings.len()).map(widest).collect();
    let total = |columns: &[usize]| names + columns.iter().map(|column| 2 + widths[*column]).sum::<usize>();
    // The columns are left out in this order: the confirmation, the share of direct, the limit.
    let shown = [&[0, 1, 2, 3][..], &[0, 1, 3], &[0, 3], &[0]];
    let shown = shown.into_iter().find(|columns| total(columns) <= width).unwrap_or(&[0]);
    let line = |name: &str, cell: &dyn Fn(usize) -> String| {
        let mut text = format!("{name:<names$}");
        for column in shown {
            text.push_str("  ");
            let (cell, wide) = (cell(*column), widths[*column]);
            text.push_str(&if *column == 3 { format!("{cell:<wide$}") } else { format!("{cell:>wide$}") });
        }
        text.trim_end().to_owned()
    };
    let mut lines = vec![line("gateway", &|column| headings[column].to_owned())];
    lines.push("─".repeat(total(shown)));
    lines.extend(rows.iter().map(|(name, cells)| line(name, &|column| cells[column].clone())));
    lines
}

/// Formats the searches as Markdown. Empty if there are no searches.
pub(crate) fn markdown(model: &Model) -> String {
    let mut text = String::new();
    for (load, found) in searches(model) {
        text.push_str(&format!("\n### {}\n\n| gateway | objective |", inline(&heading(load))));
        text.push_str(&headings(load).map(|heading| format!(" {heading} |")).concat());
        text.push_str("\n|---|---|---:|---:|---:|---|\n");
        let unconfirmed: Vec<String> = found.iter().filter_map(|one| unconfirmed(one)).collect();
        for one in found {
            let cells = cells(one).map(|cell| format!(" {} |", inline(&cell))).concat();
            text.push_str(&format!("| {} | {} |{cells}\n", inline(&one.gateway), inline(&one.slo)));
        }
        text.extend(unconfirmed.iter().map(|line| format!("\n{}\n", inline(line))));
    }
    text
}

/// The values that the page's template needs.
pub(crate) fn html(model: &Model) -> Vec<Value> {
    let of = |(load, found): (&Load, Vec<&Capacity>)| {
        let row = |one: &&Capacity| {
            let [rate, of_direct, confirmed, limit] = cells(one);
            let colour = charts::css(charts::colour(model, &one.gateway));
            context! { gateway => &one.gateway, colour, slo => &one.slo, rate, of_direct, confirmed, limit }
        };
        context! {
            label => heading(load),
            unit => unit(load),
            is_rate => load.is_open(),
            rows => found.iter().map(row).collect::<Vec<_>>(),
            unconfirmed => found.iter().filter_map(|one| unconfirmed(one)).collect::<Vec<_>>(),
        }
    };
    searches(model).into_iter().map(of).collect()
}

/// Adds the rates from searches to the summaries. If a gateway was measured only by searches, the rates
/// replace its sentence. If it was also measured in rounds, the rates become a detail of its summary.
pub(crate) fn add_sentences(mut summaries: Vec<Summary>, analysis: &Analysis) -> Vec<Summary> {
    for summary in &mut summaries {
        let of_gateway = analysis.capacity.iter().filter(|one| one.gateway == summary.gateway);
        let (voided, good): (Vec<&Capacity>, Vec<&Capacity>) =
            of_gateway.partition(|one| !void_codes(one, analysis).is_empty());
        let rates: Vec<String> = good.into_iter().filter_map(holds).collect();
        let codes: BTreeSet<&str> = voided.into_iter().flat_map(|one| void_codes(one, analysis)).collect();
        let mut parts = Vec::new();
        if !rates.is_empty() {
            parts.push(format!(" holds {}.", rates.join("; ")));
        }
        if !codes.is_empty() {
            let codes: Vec<&str> = codes.into_iter().collect();
            parts.push(format!(" has void rates: {}. Do not use them.", codes.join(", ")));
        }
        let is_in_rounds = analysis.cases.iter().any(|case| case.gateway == summary.gateway);
        match is_in_rounds {
            true => summary.details.extend(parts.iter().map(|part| format!("It{part}"))),
            false if !parts.is_empty() => {
                summary.sentence = format!("{}{}", summary.gateway, parts.join(" It"));
            }
            false => {}
        }
    }
    summaries
}

/// Codes of the findings that make the rates of a search void.
fn void_codes<'a>(one: &Capacity, analysis: &'a Analysis) -> Vec<&'a str> {
    let concerns = |finding: &&Finding| {
        finding.severity == Severity::Void && finding.case.as_ref().is_none_or(|case| *case == one.load.label)
    };
    analysis.findings.iter().filter(concerns).map(|finding| finding.code).collect()
}

/// The capacity in words: `8.21 k (7.9–8.6) requests/s under p99 < 10ms, 41 % (39–44) of direct`.
fn holds(one: &Capacity) -> Option<String> {
    let (slo, unit) = (&one.slo, unit(&one.load));
    let Some(rate) = &one.rate else {
        return one.below.map(|below| format!("not even {} {unit} under {slo}", value(below)));
    };
    let words = if one.at_least { "at least " } else { "" };
    let of_direct = one.of_direct.as_ref().filter(|_| !one.at_least);
    let of_direct = of_direct
        .map_or(String::new(), |ratio| format!(", {} of direct", with_interval(ratio, Scale::percent())));
    let why = match one.limited_by.filter(|_| one.at_least) {
        Some(Limit::Range) => " (the search tried no higher rate)",
        Some(Limit::Generator) => " (limited by the generator)",
        Some(Limit::Connections) => " (all connections were busy)",
        Some(Limit::Upstream) => " (limited by the upstream or the machine: direct holds no more)",
        Some(Limit::Gateway) | None => "",
    };
    let doubt = match longer_trials(one).last().filter(|_| one.confirmed.is_none()) {
        Some((lowest, ..)) => {
            format!(", but longer trials confirm no rate: plan with less than {} {unit}", value(*lowest))
        }
        None => String::new(),
    };
    Some(format!("{words}{} {unit} under {slo}{of_direct}{why}{doubt}", rate_in_words(rate, false)))
}

#[cfg(test)]
mod tests;
