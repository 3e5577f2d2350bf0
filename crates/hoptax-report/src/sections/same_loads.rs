//! The same load from several hosts: what each gateway adds as each host sees it.

use crate::model::Model;
use crate::words::layout::{Line, MARK, Table};
use crate::words::table::{added, difference, none, time};
use hoptax_analysis::{SameLoad, View};

const HEADINGS: [&str; 3] = ["direct p50", "added p50", "difference"];

const ABOUT: &str = "The same load and the same gateways, from several hosts in the same rounds. \
                     Difference: added p50 from this host less that from the first host, in the rounds that \
                     both have.";

/// A table for each load that comes from several hosts.
pub(crate) fn tables(model: &Model) -> impl Iterator<Item = Table> {
    model.hosts.iter().flat_map(|hosts| &hosts.same_loads).map(table)
}

fn table(one: &SameLoad) -> Table {
    let rows: Vec<Line> = one.views.iter().map(row).collect();
    let is_marked = rows.iter().flat_map(|(_, cells)| cells).flatten().any(|cell| !cell.distinguishable);
    let doubt = if is_marked { format!(" {MARK}: not distinguishable from zero.") } else { String::new() };
    Table {
        title: format!("From where: {}", one.label),
        first: "gateway",
        headings: &HEADINGS,
        rows,
        note: format!("{ABOUT}{doubt}"),
    }
}

fn row(one: &View) -> Line {
    let more = one.more_us.as_ref().map_or_else(none, |more| difference(more, more.excludes(0.0)));
    let cells = vec![time(one.direct_p50_us.as_ref()), added(Some(&one.added_p50_us)), more];
    (format!("{} from {}", one.gateway, one.from), Ok(cells))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Reported as _, fits, one_line};
    use crate::{markdown, terminal};
    use hoptax_analysis::fixture::hosts::from_two_hosts;

    #[test]
    fn every_format_shows_what_each_host_sees() {
        let model = from_two_hosts().model();
        let page = crate::formats::html::words(&model).replace("&#x27;", "'");
        for text in [terminal(&model, 100, false), markdown(&model), page] {
            let text = one_line(&text);
            let words = "From where: closed loop, 32 connections|nginx from client|nginx from edge|+550 µs|\
                         +230 µs|320 µs|270 µs|\
                         each tax is the gateway's alone: closed loop, 32 connections, from edge.";
            for part in words.split('|') {
                assert!(text.contains(part), "`{part}` is missing:\n{text}");
            }
            // If the gateway's own host sends the load, a tax contains no time of the network.
            assert!(text.contains("comes from: closed loop, 32 connections"), "{text}");
            assert!(!text.contains("comes from: closed loop, 32 connections, from edge"), "{text}");
        }
        for width in [60, 80] {
            fits(&terminal(&model, width, false), usize::from(width));
        }
    }
}
