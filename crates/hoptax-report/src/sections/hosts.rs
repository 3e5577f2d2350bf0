//! The hosts of a run, the network between them, and how much of each tax it is.

use crate::model::Model;
use crate::sections::{host, same_loads};
use crate::words::format::{Scale, number};
use crate::words::layout::{Line, MARK, Table};
use crate::words::table::{self, Cell, difference, none};
use crate::words::text::{capital, inline, stop};
use hoptax_analysis::{Load, Split};
use hoptax_record::Role;
use hoptax_record::report::{HostFigures, HostLooks, LegFigures};
use hoptax_stats::Estimate;
use minijinja::context;

pub(crate) const HEADING: &str = "Hosts and network";

const LEGS: &str = "The network between the hosts";
const LEG_HEADINGS: [&str; 4] = ["round trip", "shortest", "there", "back"];
const SPLIT_HEADINGS: [&str; 3] = ["added p50", "network", "gateway"];

const ABOUT_LEGS: &str = "Median round trip of one message on an idle connection, before the first trial \
                          and after the last. There and back: bandwidth of one connection in the direction \
                          of requests and of responses, the mean of both moments, without an interval.";
const ABOUT_SPLITS: &str = "Network: round trips on the way via the gateway, less those of direct and less \
                            one within the gateway's own host. Gateway: the rest, including the waiting \
                            that load causes in the network.";
const SAME_WAY: &str = "Requests via gateways pass the network between the same hosts as direct requests, \
                        so each tax is the gateway's alone";

/// Sentences about the hosts: one for each host, then why legs were not measured. Empty if the run has only
/// one host.
pub(crate) fn sentences(model: &Model) -> Vec<String> {
    let hosts = model.hosts.iter().flat_map(|hosts| &hosts.hosts);
    let hosts = hosts.map(|one| format!("{}: {}", one.name, described(one)));
    hosts.chain(failures(model)).chain(same_way(model)).collect()
}

/// The tables of the legs, of the splits and of the loads from several hosts. Empty if the run has only one
/// host.
pub(crate) fn tables(model: &Model) -> Vec<Table> {
    let rows: Vec<Line> = legs(model).map(leg_row).collect();
    let of_legs = (!rows.is_empty()).then(|| Table {
        title: LEGS.into(),
        first: "leg",
        headings: &LEG_HEADINGS,
        rows,
        note: ABOUT_LEGS.into(),
    });
    let of_splits = model.loads().filter_map(|load| split_table(model, load));
    of_legs.into_iter().chain(of_splits).chain(same_loads::tables(model)).collect()
}

fn split_table(model: &Model, load: &Load) -> Option<Table> {
    let splits = model.hosts.iter().flat_map(|hosts| &hosts.splits).filter(|split| split.load == load.index);
    let rows: Vec<Line> = splits.map(split_row).collect();
    let doubt =
        match rows.iter().any(|(_, cells)| cells.as_ref().is_ok_and(|cells| !cells[2].distinguishable)) {
            true => format!(" {MARK}: not distinguishable from zero."),
            false => String::new(),
        };
    (!rows.is_empty()).then(|| Table {
        title: format!("Where the added median comes from: {}", load.label),
        first: "gateway",
        headings: &SPLIT_HEADINGS,
        rows,
        note: format!("{ABOUT_SPLITS}{doubt}"),
    })
}

fn legs(model: &Model) -> impl Iterator<Item = &LegFigures> {
    model.hosts.iter().flat_map(|hosts| &hosts.legs)
}

fn leg_row(one: &LegFigures) -> Line {
    let name = match one.from == one.to {
        true => format!("within {}", one.from),
        false => format!("{} → {}", one.from, one.to),
    };
    let plain = |value: String| Cell { value, ..none() };
    let bandwidth =
        |bytes: Option<f64>| bytes.map_or_else(none, |bytes| plain(format!("{} MB/s", number(bytes / 1e6))));
    let least = one.least_us.map_or_else(none, |us| plain(Scale::of_us(us).value(us)));
    let round_trip = one.round_trip_us.as_ref().ok_or("not measured");
    let [there, back] = [one.bytes_per_second, one.bytes_per_second_back].map(bandwidth);
    let cells = |us| vec![table::time(Some(us)), least, there, back];
    (name, round_trip.map(cells))
}

fn split_row(one: &Split) -> Line {
    let of = |estimate: &Estimate| difference(estimate, estimate.excludes(0.0));
    let cells =
        vec![difference(&one.added_p50_us, true), difference(&one.wire_us, true), of(&one.gateway_us)];
    (one.gateway.clone(), Ok(cells))
}

/// Describes a host, without its name: `gateway, at 10.0.0.2; edge.example: 4 CPUs (Intel Xeon), Linux 6.1.`
fn described(one: &HostFigures) -> String {
    let machine = &one.environment;
    let at = one.address.map_or(String::new(), |address| format!(", at {address}"));
    let cpu = if machine.cpu.is_empty() { String::new() } else { format!(" ({})", machine.cpu) };
    let cpus = if machine.cpus == 1 { "CPU" } else { "CPUs" };
    let doubts = remarks(one);
    let doubts = if doubts.is_empty() { doubts } else { format!(" Not ideal: {doubts}.") };
    format!(
        "{}{at}; {}: {} {cpus}{cpu}, {}; {}.{doubts}",
        Role::names(&one.roles, " and "),
        machine.host,
        machine.cpus,
        machine.kernel,
        clock(one)
    )
}

fn clock(one: &HostFigures) -> String {
    match one.clock_uncertainty_us > 0.0 {
        true => format!("its clock is known to {}", uncertainty(one)),
        false => "the clock of hoptax's own host".to_owned(),
    }
}

fn uncertainty(one: &HostFigures) -> String {
    let us = one.clock_uncertainty_us;
    format!("±{}", Scale::of_us(us).value(us))
}

/// What makes the host less fit: `governor (powersave), memory (1 MiB)`.
fn remarks(one: &HostFigures) -> String {
    let looks = HostLooks { at_start: one.at_start.clone(), at_end: one.at_end.clone() };
    let items = host::doubts(&looks).into_iter().map(|item| format!("{} ({})", item.name, item.seen));
    items.collect::<Vec<_>>().join(", ")
}

fn failures(model: &Model) -> impl Iterator<Item = String> {
    legs(model).filter_map(|one| Some(stop(&capital(one.failed.as_ref()?))))
}

/// Says at which load points a tax contains no time of the network.
fn same_way(model: &Model) -> Option<String> {
    if model.hosts.as_ref().is_some_and(|hosts| hosts.same_way) {
        return Some(format!("{SAME_WAY}."));
    }
    let loads = model.loads().filter(|load| model.same_ways.contains(&load.index));
    let labels: Vec<&str> = loads.map(|load| load.label.as_str()).collect();
    (!labels.is_empty()).then(|| format!("{SAME_WAY}: {}.", labels.join("; ")))
}

/// A list of hosts, and the tables. Empty if the run has only one host.
pub(crate) fn markdown(model: &Model) -> String {
    let mut text: String = sentences(model).iter().map(|one| format!("- {}\n", inline(one))).collect();
    for table in tables(model) {
        text += &format!("\n**{}**\n\n{}\n{}\n", inline(&table.title), table.markdown(), table.note);
    }
    text
}

/// The values that the page's template needs. `None` if the run has only one host.
pub(crate) fn html(model: &Model) -> Option<minijinja::Value> {
    let host = |one: &HostFigures| {
        let machine = &one.environment;
        context! {
            name => &one.name,
            roles => Role::names(&one.roles, ", "),
            address => one.address.map(|address| address.to_string()),
            machine => &machine.host,
            cpus => machine.cpus,
            cpu => &machine.cpu,
            kernel => &machine.kernel,
            clock => uncertainty(one),
            remarks => remarks(one),
        }
    };
    let row = |(name, cells): &Line| {
        context! { name, words => cells.as_ref().err(), cells => cells.iter().flatten().collect::<Vec<_>>() }
    };
    let table = |one: &Table| {
        let headings: Vec<&str> = std::iter::once(one.first).chain(one.headings.iter().copied()).collect();
        let rows: Vec<_> = one.rows.iter().map(row).collect();
        context! { title => &one.title, headings, rows, note => &one.note }
    };
    let hosts: Vec<_> = model.hosts.iter().flat_map(|hosts| &hosts.hosts).map(host).collect();
    let tables: Vec<_> = tables(model).iter().map(table).collect();
    let remarks: Vec<String> = failures(model).chain(same_way(model)).collect();
    (!hosts.is_empty()).then(|| context! { title => HEADING, hosts, tables, remarks })
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::{html, json, markdown, terminal};
    use hoptax_analysis::fixture::hosts::on_hosts;
    use hoptax_record::{Fitness, FitnessStatus, HostLook, LegLook};
    use serde_json::Value;

    fn run() -> Run {
        let mut run = on_hosts(&[("a<b", 850)]);
        let item = Fitness {
            name: "governor".into(),
            status: FitnessStatus::Warning,
            seen: "<powersave>".into(),
            message: "It matters.".into(),
            advice: None,
        };
        let look = Some(HostLook { at_unix_ns: 1, items: vec![item] });
        run.record.hosts.get_mut("edge").expect("there").at_start = look;
        run
    }

    #[test]
    fn every_format_shows_hosts_legs_and_where_a_tax_comes_from() {
        let model = run().model();
        let page = crate::formats::html::words(&model).replace("<small>", " (").replace("</small>", ")");
        for (text, split) in [
            (terminal(&model, 100, false), "+550 µs"),
            (markdown(&model).replace("&lt;", "<"), "| a<b | +550 µs"),
            (page.replace("&lt;", "<").replace("&gt;", ">"), "+550 µs"),
        ] {
            let text = one_line(&text);
            let parts = "10.0.0.2|edge.example|governor (<powersave>)|150 µs|client → edge|within edge|\
                         100 MB|+320 µs|+230 µs|less one within the";
            for part in parts.split('|').chain([split]) {
                assert!(text.contains(part), "`{part}` is missing:\n{text}");
            }
        }
        for width in [60, 80] {
            fits(&terminal(&model, width, false), usize::from(width));
        }
        assert!(!html(&model).expect("a page").contains("<powersave>"));
    }

    #[test]
    fn a_leg_that_was_not_measured_has_its_reason() {
        let mut run = run();
        let failed = Some("host client: cannot measure the network to 10.0.0.2:4711: refused".into());
        run.record.legs[1].at_start = Some(LegLook { failed, ..LegLook::default() });
        run.record.legs[1].at_end = None;
        let model = run.model();
        for text in [terminal(&model, 100, false), markdown(&model), html(&model).expect("a page")] {
            let text = one_line(&text);
            assert!(text.contains("10.0.0.2:4711: refused."), "{text}");
            assert!(text.contains("not measured") && !text.contains("Where the added median"), "{text}");
        }
        let rows = markdown(&model);
        let row = rows.lines().find(|line| line.starts_with("| client → edge")).expect("a row");
        assert_eq!(row.matches('|').count(), 6, "{row}");
    }

    #[test]
    fn a_run_on_one_host_has_no_such_section() {
        let model = sample().model();
        for text in [terminal(&model, 100, false), markdown(&model), crate::formats::html::words(&model)] {
            assert!(!text.contains("round trip") && !text.contains("Hosts and network"), "{text}");
        }
        let document: Value = serde_json::from_str(&json(&model)).expect("JSON");
        assert_eq!(document.get("hosts"), None);
    }
}
