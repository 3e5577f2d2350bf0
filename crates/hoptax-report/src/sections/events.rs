//! Shows what clients saw around the plan's events. Each case has a section. In this section, each event has
//! a line or a row.

use crate::model::Model;
use crate::words::format::{Scale, grouped};
use crate::words::text::{inline, with_interval};
use hoptax_analysis::{Case, EventFigures, Stretch, causes};
use hoptax_stats::Estimate;
use minijinja::HtmlEscape;
use std::fmt::Write as _;

pub(crate) const HEADING: &str = "Around the events";

/// Explains which period each figure covers.
const NOTE: &str = "Around: from the start of an event until 1 s after it was done, over all trials. Quiet: \
                    the rest of the same trials. The case's figures above include both. Vertical lines in \
                    the throughput charts mark the events.";

const COLUMNS: [&str; 8] = [
    "at",
    "event",
    "done after",
    "new route after",
    "failed around (quiet)",
    "p99 around (quiet)",
    "slowest around (quiet)",
    "connections replaced around (quiet)",
];

/// Lines for the terminal, not wrapped yet: the heading, a line for each event, and the note. Empty if there
/// are no events.
pub(crate) fn terminal(model: &Model) -> Vec<String> {
    let mut lines = Vec::new();
    for case in eventful(model) {
        lines.extend(case.events.iter().map(|event| format!("{}, {}.", case.case, sentence(event))));
    }
    if lines.is_empty() {
        return lines;
    }
    std::iter::once(format!("{HEADING}:")).chain(lines).chain([NOTE.to_owned()]).collect()
}

/// A Markdown table for each case. Empty if there are no events.
pub(crate) fn markdown(model: &Model) -> String {
    let mut text = String::new();
    for case in eventful(model) {
        let _ = writeln!(text, "\n#### {}\n", inline(&case.case));
        let _ = writeln!(text, "| {} |\n|{}", COLUMNS.join(" | "), " --- |".repeat(COLUMNS.len()));
        for event in &case.events {
            let cells = row(event).map(|cell| inline(&cell));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    if text.is_empty() { text } else { format!("{text}\n{NOTE}\n") }
}

/// A section of the page, with a table for each case. Empty if there are no events.
pub(crate) fn html(model: &Model) -> String {
    let mut page = String::new();
    let cells = |tag: &str, cells: &[String]| -> String {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", HtmlEscape(cell))).collect()
    };
    for case in eventful(model) {
        let head = cells("th", &COLUMNS.map(str::to_owned));
        let rows: String =
            case.events.iter().map(|event| format!("<tr>{}</tr>\n", cells("td", &row(event)))).collect();
        let _ = write!(
            page,
            "<h3>{}</h3>\n<div \
            class=\"scroll\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
            HtmlEscape(&case.case)
        );
    }
    if page.is_empty() {
        return page;
    }
    format!("<h2>{HEADING}</h2>\n<section class=\"card\">\n{page}<p class=\"quiet\">{NOTE}</p>\n</section>\n")
}

fn eventful(model: &Model) -> impl Iterator<Item = &Case> {
    model.cases.iter().filter(|case| !case.events.is_empty())
}

fn time(estimate: &Estimate) -> String {
    with_interval(estimate, Scale::of_us(estimate.estimate))
}

/// The longest response time. A maximum has no interval, so no interval is shown.
fn longest(stretch: &Stretch) -> Option<String> {
    stretch.slowest_us.map(|slowest| Scale::of_us(slowest.estimate).value(slowest.estimate))
}

fn sentence(event: &EventFigures) -> String {
    let (around, quiet) = (&event.around, &event.quiet);
    let mut parts = vec![format!("{} s, {}: {}", event.at_s, event.event, failed(around))];
    if let Some(slowest) = longest(around) {
        let usual = longest(quiet).map_or_else(String::new, |usual| format!(" (quiet: {usual})"));
        parts.push(format!("slowest {slowest}{usual}"));
    }
    if let Some(p99) = &around.p99_us {
        let usual =
            quiet.p99_us.as_ref().map_or_else(String::new, |usual| format!(", quiet: {}", time(usual)));
        parts.push(format!("p99 {}{usual}", time(p99)));
    }
    parts.push(format!("{} connections replaced", grouped(around.connections_opened as f64)));
    parts.extend(event.took_us.as_ref().map(|took| format!("done after {}", time(took))));
    parts.extend(
        event
            .new_route_after_us
            .as_ref()
            .map(|after| format!("the new route answered after {}", time(after))),
    );
    if !event.failed.is_empty() {
        parts.push(format!("not done in every trial: {}", event.failed.join("; ")));
    }
    parts.join("; ")
}

/// The failed requests in words: `3 of 480 requests failed (3 were refused a connection)`.
fn failed(stretch: &Stretch) -> String {
    let all = grouped((stretch.completed + stretch.failed) as f64);
    let lost = stretch.failed + stretch.not_ok;
    // Streams without an end have no outcome around an event that they survive.
    match stretch.completed + lost {
        0 => return "no request or stream ended".to_owned(),
        _ if lost == 0 => return format!("none of {all} requests failed"),
        _ => {}
    }
    let mut why: Vec<_> =
        stretch.causes.iter().map(|(cause, count)| (*count, causes::words(*cause))).collect();
    why.push((stretch.not_ok, "got an unsuccessful response"));
    why.retain(|(count, _)| *count > 0);
    why.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let why: Vec<_> =
        why.iter().map(|(count, words)| format!("{} {words}", grouped(*count as f64))).collect();
    format!("{} of {all} requests failed ({})", grouped(lost as f64), why.join(", "))
}

fn row(event: &EventFigures) -> [String; 8] {
    let none = || "–".to_owned();
    let both = |around: Option<String>, quiet: Option<String>| match (around, quiet) {
        (Some(around), Some(quiet)) => format!("{around} (quiet: {quiet})"),
        (Some(around), None) => around,
        (None, _) => none(),
    };
    let (around, quiet) = (&event.around, &event.quiet);
    let all = |stretch: &Stretch| grouped((stretch.completed + stretch.failed) as f64);
    let quietly = format!("{} of {}", grouped((quiet.failed + quiet.not_ok) as f64), all(quiet));
    let not_done = match event.failed.as_slice() {
        [] => String::new(),
        reasons => format!("; not done in every trial: {}", reasons.join("; ")),
    };
    [
        format!("{} s", event.at_s),
        format!("{}{not_done}", event.event),
        event.took_us.as_ref().map_or_else(none, time),
        event.new_route_after_us.as_ref().map_or_else(none, time),
        both(Some(failed(around)), Some(quietly)),
        both(around.p99_us.as_ref().map(time), quiet.p99_us.as_ref().map(time)),
        both(longest(around), longest(quiet)),
        both(Some(grouped(around.connections_opened as f64)), Some(grouped(quiet.connections_opened as f64))),
    ]
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::{Model, html, markdown, terminal};
    use hoptax_format::record::Cause;
    use hoptax_plan::{Action, Event};
    use hoptax_record::{EventRecord, NewRoute};
    use std::time::Duration;

    fn model() -> Model {
        let mut run = Run::with_load(vec![closed_point(4, 5)]);
        for round in 0..3 {
            let quiet = vec![vec![1000; 100]; 50];
            run.direct_trials(round, |trial| trial.windows_us(&quiet));
            let mut windows = quiet.clone();
            windows[20] = vec![80_000; 100];
            let mut made = via("a<b", round).windows_us(&windows);
            let load = made.0.load_record.as_mut().expect("made with one");
            (load.windows[20].errors, load.windows[20].opened) = (2, 4);
            load.windows[20].causes = [(Cause::ResetBeforeResponse, 2)].into();
            made.0.events.push(EventRecord {
                event: Event {
                    at: Duration::from_secs(2),
                    action: Action::ChangeRoute { route: hoptax_plan::RoutePosition::Last },
                    gateway: None,
                },
                at_ns: Some(2_000_000_000),
                done_ns: Some(2_000_400_000),
                failed: None,
                new_route: Some(NewRoute { after_ns: 30_000_000, questions: 11 }),
            });
            run.push(made);
        }
        run.model()
    }

    #[test]
    fn every_format_says_what_clients_saw_around_an_event() {
        let model = model();
        let texts = [terminal(&model, 80, false), markdown(&model), html(&model).expect("a page")];
        for text in texts.map(|text| one_line(&text)) {
            let words = "Around the events|change-route (last)|\
                         6 of 3,306 requests failed (6 were reset before the answer)|30 ms|400 µs|quiet: 1";
            for word in words.split('|') {
                assert!(text.contains(word), "`{word}` is missing: {text}");
            }
        }
        fits(&terminal(&model, 80, false), 80);
        assert!(html(&model).expect("a page").contains("<h3>a&lt;b, closed loop"));
    }
}
