//! Tables of the messages of streams. Each load point with streams has two: how many messages there were, and
//! their times.

use crate::model::Model;
use crate::words::format::grouped;
use crate::words::layout::{Line, MARK, Table};
use crate::words::table::{Cell, added, in_one_line, none, time};
use crate::words::text::inline;
use hoptax_analysis::{Case, Load};
use hoptax_format::messages::MessageCounts;
use hoptax_plan::Metric;
use hoptax_record::Times;
use minijinja::HtmlEscape;
use std::fmt::Write as _;

pub(crate) const HEADING: &str = "Messages of streams";

const COUNTS: [&str; 8] =
    ["sent", "received", "lost", "repeated", "out of order", "no number", "same read", "CPU/message"];
const TIMES: [&str; 4] = ["p50", "p99", "added p50", "added p99"];

const ABOUT_COUNTS: &str = "Same read: messages that were due at different times, but arrived together.";
const ABOUT_TIMES: &str = "Response time: from when the client's message was due until its answer arrived. \
                           First message: since the request was sent. Age: since the server's message was \
                           due. Gap: since the message before it arrived.";

/// Times of messages in the order of the rows, each with its name and its taxes.
const KINDS: [(Times, &str, Metric, Option<Metric>); 4] = [
    (Times::Message, "response time", Metric::AddedMessageP50, Some(Metric::AddedMessageP99)),
    (Times::FirstMessage, "first message", Metric::AddedFirstMessageP50, None),
    (Times::Age, "age", Metric::AddedAgeP50, Some(Metric::AddedAgeP99)),
    (Times::Gap, "gap", Metric::AddedGapP50, Some(Metric::AddedGapP99)),
];

/// The tables of all load points. Empty without streams.
pub(crate) fn tables(model: &Model) -> Vec<Table> {
    let of_load = |load: &Load| [counts_table(model, load), times_table(model, load)];
    model.loads().flat_map(of_load).filter(|table| !table.rows.is_empty()).collect()
}

fn counts_table(model: &Model, load: &Load) -> Table {
    Table {
        title: format!("{HEADING}: {}", load.label),
        first: "gateway",
        headings: &COUNTS,
        rows: model.at(load).filter_map(counts_row).collect(),
        note: ABOUT_COUNTS.into(),
    }
}

fn counts_row(case: &Case) -> Option<Line> {
    let MessageCounts { sent, received, lost, repeated, reordered, unnumbered, merged_in_read, .. } =
        case.messages?;
    let counts = [sent, received, lost, repeated, reordered, unnumbered, merged_in_read];
    let mut cells = counts.map(|count| Cell { value: grouped(count as f64), ..none() }).to_vec();
    let cpu = case.tax.as_ref().and_then(|tax| tax.get(Metric::CpuUsPerMessage));
    cells.push(time(cpu.map(|cpu| &cpu.estimate)));
    Some((case.gateway.clone(), Ok(cells)))
}

fn times_table(model: &Model, load: &Load) -> Table {
    let rows: Vec<Line> = model.at(load).flat_map(times_rows).collect();
    let is_marked = rows.iter().flat_map(|(_, cells)| cells).flatten().any(|cell| !cell.distinguishable);
    let doubt = if is_marked { format!(" {MARK}: not distinguishable.") } else { String::new() };
    Table {
        title: format!("Times of messages: {}", load.label),
        first: "gateway",
        headings: &TIMES,
        rows,
        note: format!("{ABOUT_TIMES}{doubt}"),
    }
}

/// The rows of a case: one for each kind of times that were recorded.
fn times_rows(case: &Case) -> impl Iterator<Item = Line> + '_ {
    let tax = move |metric: Metric| added(case.tax.as_ref().and_then(|tax| tax.get(metric)));
    KINDS.into_iter().filter_map(move |(times, name, p50, p99)| {
        let figures = case.times(times)?;
        let cells = vec![
            time(figures.p50.as_ref()),
            time(figures.p99.as_ref()),
            tax(p50),
            p99.map_or_else(none, tax),
        ];
        Some((format!("{} · {name}", case.gateway), Ok(cells)))
    })
}

/// The tables as Markdown. Empty without streams.
pub(crate) fn markdown(model: &Model) -> String {
    let mut text = String::new();
    for Table { title, first, headings, rows, note } in tables(model) {
        let heads: String = headings.iter().map(|heading| format!(" {heading} |")).collect();
        let _ = writeln!(text, "**{}**\n\n| {first} |{heads}", inline(&title));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(headings.len()));
        for (name, cells) in &rows {
            let cells: String =
                cells.iter().flatten().map(|cell| format!(" {} |", in_one_line(cell))).collect();
            let _ = writeln!(text, "| {} |{cells}", inline(name));
        }
        let _ = writeln!(text, "\n{note}\n");
    }
    text
}

/// A section of the page. Empty without streams.
pub(crate) fn html(model: &Model) -> String {
    let sections: String = tables(model).iter().map(html_table).collect();
    if sections.is_empty() {
        return sections;
    }
    format!("<h2 id=\"messages\">{HEADING}</h2>\n{sections}")
}

fn html_table(table: &Table) -> String {
    let Table { title, first, headings, rows, note } = table;
    let heading = |heading: &&str| format!("<th scope=\"col\">{heading}</th>");
    let headings: String = headings.iter().map(heading).collect();
    let rows: String = rows.iter().map(html_row).collect();
    format!(
        "<section class=\"card\"><h3>{}</h3>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" \
         class=\"words\">{first}</th>{headings}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n<p \
         class=\"quiet\">{note}</p></section>\n",
        HtmlEscape(title),
    )
}

fn html_row((name, cells): &Line) -> String {
    let cell = |cell: &Cell| {
        let mark = if cell.distinguishable { "" } else { MARK };
        let interval = match cell.interval.is_empty() {
            true => String::new(),
            false => format!("<br><span class=\"quiet\">{}</span>", HtmlEscape(&cell.interval)),
        };
        format!("<td>{mark}{}{interval}</td>", HtmlEscape(&cell.value))
    };
    let cells: String = cells.iter().flatten().map(cell).collect();
    format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", HtmlEscape(name))
}

#[cfg(test)]
mod tests {
    use crate::fixture::Reported as _;
    use crate::formats::html::words;
    use crate::{Chart, Model, csv, html, json, markdown, terminal};
    use hoptax_analysis::fixture::{Run, via};

    /// A gateway that adds 50 µs to each message, and delivers this many of each trial out of order.
    fn model_with(reordered: u64) -> Model {
        let mut run = Run::closed(4);
        for round in 0..4 {
            let jitter = u64::from(round % 2);
            let direct = || via("direct", round).all_at_us(900).both_ways_us(100 + jitter, 1000);
            run.push(direct().first()).push(direct().last());
            let one = via("a<b", round).all_at_us(1400).both_ways_us(150 + jitter, 1000);
            run.push(one.gateway_cpu_us(40_000).message_counts(|counts| counts.reordered = reordered));
        }
        run.model()
    }

    fn model() -> Model {
        model_with(7)
    }

    #[test]
    fn every_format_has_counts_and_times() {
        let model = model();
        let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [terminal(&model, 100, false), markdown(&model), words(&model)] {
            let text = one_line(text);
            for word in [
                "Messages of streams: closed loop, 4 connections",
                "out of order",
                "40,000",
                "28",
                "CPU/message",
                "Times of messages",
                "a<b · response time",
                "a<b · gap",
                "+50",
            ] {
                let escaped = word.replace('<', "&lt;");
                assert!(text.contains(word) || text.contains(&escaped), "{word} is missing: {text}");
            }
            assert!(!text.contains("· age"), "{text}");
        }
        let page = html(&model).expect("a page");
        assert!(page.contains("<h2 id=\"messages\">") && page.contains("a&lt;b · gap"), "{page}");
        assert!(page.contains("<a href=\"#messages\">"), "{page}");
        assert!(page.contains("<figure class=\"chart\" data-chart=\"message\">"), "{page}");
        let title = Chart::TaxMessage.title();
        assert_eq!(page.matches(title).count(), 2, "with and without scripts: {page}");
        let json: serde_json::Value = serde_json::from_str(&json(&model)).expect("JSON");
        let case = &json["cases"][1];
        assert_eq!(case["messages"]["reordered"], 28);
        assert_eq!(case["message"]["gap"]["samples"], 4 * 9000);
        assert!(case["tax"]["added_message_p50"]["distinguishable"].as_bool().expect("a boolean"));
    }

    #[test]
    fn the_sentence_names_what_is_added_to_each_message() {
        let model = model_with(0);
        let summary = &model.summary[0];
        assert!(summary.sentence.starts_with("a<b adds 50 µs ("), "{}", summary.sentence);
        assert!(summary.sentence.ends_with(" to each message at 4 connections."), "{}", summary.sentence);
        assert!(summary.details[0].starts_with("For whole calls, it adds 50"), "{:?}", summary.details);
    }

    #[test]
    fn the_answer_is_about_messages() {
        let mut run = Run::closed(4);
        for round in 0..4 {
            let jitter = u64::from(round % 2);
            let direct = || via("direct", round).all_at_us(900).both_ways_us(100, 1000);
            run.push(direct().first()).push(direct().last());
            // Whole calls are faster through b.
            run.push(via("a", round).all_at_us(1800).both_ways_us(150 + jitter, 1000));
            run.push(via("b", round).all_at_us(1400).both_ways_us(250 + jitter, 1000));
        }
        let model = run.model();
        let answer = model.answer.as_deref().expect("two gateways");
        let start = "a adds least per message at the median at 4 connections: 50 µs";
        assert!(answer.starts_with(start), "{answer}");
        assert_eq!(model.summary[0].gateway, "a");
    }

    #[test]
    fn the_csv_report_has_columns_of_messages() {
        let text = csv(&model());
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let at = rows[0].iter().position(|heading| *heading == "messages_reordered").expect("a column");
        // The label of the load point contains a comma.
        assert_eq!((rows[1][at + 1], rows[2][at + 1]), ("0", "28"));
        assert!(rows[0].contains(&"added_message_p50_verdict"), "{text}");
        assert!(rows.iter().skip(1).all(|row| row.len() == rows[0].len() + 1), "{text}");
    }

    #[test]
    fn without_streams_there_are_no_tables() {
        let model = Run::steady(3, 100, &[("nginx", 150)]).model();
        let page = html(&model).expect("a page");
        for text in ["data-chart=\"message\"", Chart::TaxMessage.title()] {
            assert!(!page.contains(text), "{text}: {page}");
        }
        for text in [terminal(&model, 80, false), markdown(&model), words(&model), csv(&model)] {
            for word in ["Messages of", "Times of messages", "messages_sent", "#messages"] {
                assert!(!text.contains(word), "{word}: {text}");
            }
        }
    }

    #[test]
    fn lines_fit_on_a_narrow_terminal() {
        for line in terminal(&model(), 60, false).lines() {
            assert!(line.chars().count() <= 60, "{line}");
        }
    }
}
