//! Tables of the messages of streams. Each load point with streams has two: how many messages there were, and
//! their times.

use crate::charts::{self, ChartError, Width};
use crate::model::Model;
use crate::words::figures::figure;
use crate::words::format::{Scale, grouped};
use crate::words::layout::{Line, MARK, Table};
use crate::words::table::{Cell, added, none, time};
use crate::words::text::{capital, inline, with_interval};
use hoptax_analysis::{Case, Latency, Load};
use hoptax_format::messages::MessageCounts;
use hoptax_plan::Metric;
use hoptax_record::Times;
use hoptax_stats::{Estimate, share};
use minijinja::HtmlEscape;
use std::fmt::Write as _;

const HEADING: &str = "Messages of streams";

const COUNTS: [&str; 8] =
    ["sent", "received", "lost", "repeated", "out of order", "no number", "same read", "CPU/message"];
const COUNTS_OF_EVENTS: [&str; 8] =
    ["sent", "received", "lost", "repeated", "out of order", "no number", "same read", "CPU/event"];
const COUNTS_OF_TOKENS: [&str; 8] =
    ["sent", "received", "lost", "repeated", "out of order", "no number", "same read", "CPU/token"];
const TIMES: [&str; 4] = ["p50", "p99", "added p50", "added p99"];

const ABOUT_COUNTS: &str = "Same read: messages that were due at different times, but arrived together.";

/// Times of messages: their name and their meaning.
type Kind = (Times, &'static str, &'static str);

/// Times of messages in the order of the rows.
static KINDS: [Kind; 10] = [
    (Times::Message, "response time", "from when the client's message was due until its answer arrived"),
    (Times::Headers, "headers", "from sending the request until the head of the response arrived"),
    (Times::FirstByte, "first byte", "of the response, since the request was sent"),
    (Times::FirstEvent, "first event", "with content or without, since the request was sent"),
    (Times::FirstMessage, "first message", "since the request was sent"),
    (Times::FirstAge, "age of the first message", "since it was due"),
    (Times::Age, "age", "since the server's message was due"),
    (Times::Gap, "gap", "since the message before it arrived"),
    (Times::TokenTime, "time per message", "from the first one to the last of a stream ÷ (messages − 1)"),
    (Times::Reach, "reach", "from when a message was due until the last connection had it"),
];

/// A text about messages, with the word of the run.
fn about(model: &Model, text: &str) -> String {
    if model.message == "token" && text == "first message" {
        return "first content".to_owned();
    }
    text.replace("message", model.message).replace("Message", &capital(model.message))
}

/// The heading of the section.
pub(crate) fn heading(model: &Model) -> String {
    about(model, HEADING)
}

/// The tables of all load points. Empty without streams.
pub(crate) fn tables(model: &Model) -> Vec<Table> {
    let of_load = |load: &Load| [counts_table(model, load), times_table(model, load)];
    model.loads().flat_map(of_load).filter(|table| !table.rows.is_empty()).collect()
}

fn counts_table(model: &Model, load: &Load) -> Table {
    let rarer = model.at(load).filter_map(further);
    let note: Vec<String> = std::iter::once(about(model, ABOUT_COUNTS)).chain(rarer).collect();
    Table {
        title: format!("{}: {}", heading(model), load.label),
        first: "gateway",
        headings: match model.message {
            "token" => &COUNTS_OF_TOKENS,
            "event" => &COUNTS_OF_EVENTS,
            _ => &COUNTS,
        },
        rows: model.at(load).filter_map(counts_row).collect(),
        note: note.join(" "),
    }
}

/// Counts that are mostly zero, and costs of open streams: `nginx: 3 merged into one; memory per stream 41
/// KiB (39 KiB to 43 KiB).` `None` if the case has none.
fn further(case: &Case) -> Option<String> {
    let counts = case.messages.as_ref()?;
    let tokens = counts.tokens.as_ref();
    let of_tokens = tokens.map(|tokens| tokens.counts).unwrap_or_default();
    let counts = [
        (counts.merged_into_one, "merged into one"),
        (counts.comments, "comments"),
        (counts.pings, "pings"),
        (counts.cut, "cut"),
        (counts.refused, "refused"),
        (counts.compressed, "compressed"),
        (of_tokens.unended, "streams without an announced end"),
        (of_tokens.errors, "streams with an error event"),
        (of_tokens.left, "streams left by the client"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| format!("{} {what}", grouped(count as f64)));
    let rates = tokens.map(|tokens| [&tokens.tokens_per_second, &tokens.streams_per_second]);
    let rates = rates.into_iter().flatten().flatten().map(|rate| {
        let value = with_interval(&rate.estimate, Scale::of_throughput(rate.estimate.estimate));
        format!("{value} {}", rate.unit)
    });
    let good = tokens.and_then(|tokens| tokens.good_per_second.as_ref()).map(|rate| {
        let value = with_interval(&rate.estimate, Scale::of_throughput(rate.estimate.estimate));
        let due = case.counts.as_ref().map_or(0, |counts| counts.scheduled.saturating_sub(counts.in_flight));
        let part = share(of_tokens.good.unwrap_or(0) as f64, due as f64).unwrap_or(0.0);
        format!("{value} {} within all limits, {} of those due", rate.unit, Scale::percent().value(part))
    });
    let costs = [Metric::CpuUsPerStreamSecond, Metric::BytesPerStream, Metric::ExtraTokensPerStream];
    let costs = costs.into_iter().filter_map(|metric| {
        let cost = case.tax.as_ref()?.get(metric)?;
        Some(format!("{} {}", metric.words(), figure(metric, &cost.estimate)))
    });
    let parts: Vec<String> = counts.chain(rates).chain(good).chain(costs).collect();
    (!parts.is_empty()).then(|| format!("{}: {}.", case.gateway, parts.join("; ")))
}

fn counts_row(case: &Case) -> Option<Line> {
    let MessageCounts { sent, received, lost, repeated, reordered, unnumbered, merged_in_read, .. } =
        case.messages.as_ref()?.counts;
    let counts = [sent, received, lost, repeated, reordered, unnumbered, merged_in_read];
    let mut cells = counts.map(|count| Cell { value: grouped(count as f64), ..none() }).to_vec();
    let cpu = case.tax.as_ref().and_then(|tax| tax.get(Metric::CpuUsPerMessage));
    cells.push(time(cpu.map(|cpu| &cpu.estimate)));
    Some((case.gateway.clone(), Ok(cells)))
}

fn times_table(model: &Model, load: &Load) -> Table {
    let rows: Vec<Line> = model.at(load).flat_map(|case| times_rows(model, case)).collect();
    let is_marked = rows.iter().flat_map(|(_, cells)| cells).flatten().any(|cell| !cell.distinguishable);
    let doubt = if is_marked { format!(" {MARK}: not distinguishable.") } else { String::new() };
    let of_streams = || model.at(load).filter(|case| case.messages.is_some());
    let has = |(times, ..): &&Kind| of_streams().any(|case| times_of(case, *times).is_some());
    let named =
        |(_, name, meaning): &Kind| format!("{}: {}.", capital(&about(model, name)), about(model, meaning));
    let meanings = KINDS.iter().filter(has).map(named).collect::<Vec<_>>().join(" ");
    Table {
        title: format!("{}: {}", about(model, "Times of messages"), load.label),
        first: "gateway",
        headings: &TIMES,
        rows,
        note: format!("{meanings}{doubt}"),
    }
}

/// The figures of these times. `None` if none were recorded.
fn times_of(case: &Case, times: Times) -> Option<&Latency> {
    case.times(times).filter(|times| times.samples > 0)
}

/// The rows of a case: one for each kind of times that were recorded. None without streams.
fn times_rows<'m>(model: &'m Model, case: &'m Case) -> impl Iterator<Item = Line> + 'm {
    let tax = move |times: Times, quantile: f64| {
        let is_of = |one: &Metric| one.times() == Some(times) && one.quantile() == Some(quantile);
        let of = |metric| added(case.tax.as_ref().and_then(|tax| tax.get(metric)));
        Metric::further().find(is_of).map_or_else(none, of)
    };
    let is_one = model.message != "message" && has_equal_first_bytes(case);
    KINDS.iter().filter(move |_| case.messages.is_some()).filter_map(move |&(times, name, _)| {
        let figures = times_of(case, times)?;
        let name = match times {
            Times::FirstByte if is_one => return None,
            Times::Headers if is_one => "headers and first byte",
            _ => name,
        };
        let [p50, p99] = [&figures.p50, &figures.p99].map(|one| time(one.as_ref()));
        let cells = vec![p50, p99, tax(times, 0.5), tax(times, 0.99)];
        Some((format!("{} · {}", case.gateway, about(model, name)), Ok(cells)))
    })
}

/// True if the head of a response and its first byte arrive at the same time, to the microsecond.
fn has_equal_first_bytes(case: &Case) -> bool {
    let shown = |times: Times| {
        let us = |estimate: &Estimate| estimate.estimate.round();
        times_of(case, times).map(|figures| [&figures.p50, &figures.p99].map(|one| one.as_ref().map(us)))
    };
    shown(Times::Headers).is_some_and(|headers| shown(Times::FirstByte) == Some(headers))
}

/// The tables as Markdown. Empty without streams.
pub(crate) fn markdown(model: &Model) -> String {
    let section = |table: &Table| {
        format!("**{}**\n\n{}\n{}\n\n", inline(&table.title), table.markdown(), inline(&table.note))
    };
    tables(model).iter().map(section).collect()
}

/// A section of the page. Empty without streams.
pub(crate) fn html(model: &Model) -> Result<String, ChartError> {
    let sections: String = tables(model).iter().map(Table::html).collect();
    if sections.is_empty() {
        return Ok(sections);
    }
    Ok(format!("<h2 id=\"messages\">{}</h2>\n{sections}{}", heading(model), lives(model)?))
}

/// The charts of a stream's life. Empty without tokens.
fn lives(model: &Model) -> Result<String, ChartError> {
    let mut sections = String::new();
    for load in model.loads() {
        let Some(wide) = charts::stream_life(model, load, Width::Wide)? else { continue };
        let narrow = charts::stream_life(model, load, Width::Narrow)?.unwrap_or_default();
        let (title, label) = (charts::Chart::StreamLife.title(), HtmlEscape(&load.label));
        let about = capital(charts::ABOUT_LIFE);
        let _ = writeln!(
            sections,
            "<section class=\"card\"><h3>{title}: {label}</h3>\n<div \
             class=\"drawn\">{wide}{narrow}</div>\n<p class=\"quiet\">{about}.</p></section>"
        );
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::formats::html::words;
    use crate::{Chart, Model, csv, html, json, markdown, terminal};
    use hoptax_format::llm::TokenCounts;
    use hoptax_format::messages::{Carrier, StreamKind, StreamSpec};

    /// A gateway that adds 50 µs to each message, and delivers this many of each trial out of order.
    fn model_with(reordered: u64) -> Model {
        let mut run = Run::closed(4);
        for round in 0..4 {
            let jitter = u64::from(round % 2);
            run.direct_trials(round, |trial| trial.all_at_us(900).both_ways_us(100 + jitter, 1000));
            let one = via("a<b", round).all_at_us(1400).both_ways_us(150 + jitter, 1000).first_byte_us(90);
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
        for text in [terminal(&model, 100, false), markdown(&model), words(&model)] {
            let text = one_line(&text);
            let words = "Messages of streams: closed loop, 4 connections|out of order|40,000|28|CPU/message|\
                         Times of messages|a<b · response time|a<b · gap|+50|a<b · first byte|\
                         Gap: since the message before it arrived.";
            for word in words.split('|') {
                let escaped = word.replace('<', "&lt;");
                assert!(text.contains(word) || text.contains(&escaped), "{word} is missing: {text}");
            }
            assert!(!text.contains("· age") && !text.contains("Age:"), "{text}");
            assert!(!text.contains(" pings") && !text.contains("Events of"), "{text}");
        }
        let page = html(&model).expect("a page");
        assert!(page.contains("<h2 id=\"messages\">") && page.contains("a&lt;b · gap"), "{page}");
        assert!(page.contains("<a href=\"#messages\">"), "{page}");
        assert!(!page.contains("data-chart=\"message\""), "the first chart shows messages: {page}");
        let json: serde_json::Value = serde_json::from_str(&json(&model)).expect("JSON");
        let case = &json["cases"][1];
        assert_eq!(case["messages"]["reordered"], 28);
        assert_eq!(case["message"]["gap"]["samples"], 4 * 9000);
        assert!(case["tax"]["added_message_p50"]["distinguishable"].as_bool().expect("a boolean"));
    }

    #[test]
    fn server_sent_events_are_called_events() {
        let mut run = Run::closed(4);
        for target in &mut run.record.plan.targets {
            let stream = StreamSpec::grpc(StreamKind::ServerStream, 10, 1_000_000);
            target.stream = Some(StreamSpec { carrier: Carrier::Events, ..stream });
        }
        for round in 0..4 {
            let of = |who: &str, us: u64| {
                via(who, round).server_stream_us(us + u64::from(round % 2), 1000).first_byte_us(us)
            };
            run.push(of("direct", 100).first()).push(of("direct", 100).last());
            run.push(of("a_b", 150).message_counts(|counts| {
                (counts.comments, counts.merged_into_one) = (6000, 2);
            }));
        }
        let model = run.model();
        let text = terminal(&model, 100, false);
        for words in ["Events of streams", "CPU/event", "a_b · first event", "a_b · age", "Times of events"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("Messages of") && !text.contains("first message"), "{text}");
        let text = markdown(&model);
        assert!(text.contains("a\\_b: 8 ") && text.contains(" 24,000 "), "{text}");
        insta::assert_snapshot!(model.summary[0].in_full());
    }

    #[test]
    fn streams_of_tokens_have_their_own_words() {
        let mut run = Run::closed(4).token_streams(10);
        for round in 0..4 {
            let of = |who: &str, us: u64, upstream: u64| {
                let trial = via(who, round).server_stream_us(us + u64::from(round % 2), 1000);
                let trial = trial.headers_us(us).first_byte_us(us).first_message_us(us + 9);
                trial.tokens_us([us + 5, us, 1000 + us], upstream)
            };
            run.push(of("direct", 100, 10).first()).push(of("direct", 100, 10).last());
            let good = |counts: &mut TokenCounts| counts.good = Some(500);
            run.push(of("a", 150, 12).gateway_cpu_us(40_000).token_counts(good));
        }
        let model = run.model();
        let text = markdown(&model);
        let words = "Tokens of streams: closed loop#CPU/token#| a · headers and first byte |#\
                     | a · first event |#| a · first content |#| a · age of the first token |#\
                     | a · time per token |#First content: since the request was sent.# tokens/s; #\
                     requests/s within all limits, 50 % of those due;#extra tokens per stream 2 (";
        for words in words.split('#') {
            assert!(text.contains(words), "{words}: {text}");
        }
        for word in ["Messages of", "first message", "· first token", "· first byte"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        insta::assert_snapshot!(model.summary[0].in_full());
        let page = html(&model).expect("a page");
        let of_page = ["data-chart=\"message\"", "<a href=\"#messages\">Tokens</a>", "class=\"drawn\""];
        let titles = ["Added time per token at the median", Chart::StreamLife.title()];
        for words in titles.into_iter().chain(of_page) {
            assert!(page.contains(words), "{words}: {page}");
        }
        let text = csv(&model);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let at = |name: &str| rows[0].iter().position(|heading| *heading == name).expect("a column") + 1;
        assert_eq!((rows[2][at("tokens_ended")], rows[2][at("extra_tokens_per_stream")]), ("4000", "2"));
        assert_eq!([1, 2].map(|row: usize| rows[row][at("tokens_good")]), ["", "2000"]);
        assert!(rows.iter().skip(1).all(|row| row.len() == rows[0].len() + 1), "{text}");
    }

    #[test]
    fn the_sentence_names_what_is_added_to_each_message() {
        insta::assert_snapshot!(model_with(0).summary[0].in_full());
    }

    #[test]
    fn the_answer_is_about_messages() {
        let mut run = Run::closed(4);
        for round in 0..4 {
            let jitter = u64::from(round % 2);
            run.direct_trials(round, |trial| trial.all_at_us(900).both_ways_us(100, 1000));
            // Whole calls are faster through b.
            run.push(via("a", round).all_at_us(1800).both_ways_us(150 + jitter, 1000));
            run.push(via("b", round).all_at_us(1400).both_ways_us(250 + jitter, 1000));
        }
        let model = run.model();
        insta::assert_snapshot!(model.answer.as_deref().expect("two gateways"));
        assert_eq!(model.summary[0].gateway, "a");
    }

    #[test]
    fn the_answer_about_tokens_is_about_the_first_content() {
        let mut run = Run::closed(4).token_streams(10);
        for round in 0..4 {
            let of = |who: &str, us: u64, first_us: u64| {
                let trial = via(who, round).server_stream_us(us, 1000);
                trial.first_message_us(first_us + u64::from(round % 2)).tokens_us([first_us, us, 1000], 10)
            };
            run.push(of("direct", 100, 1000).first()).push(of("direct", 100, 1000).last());
            // Later tokens are younger through b.
            run.push(of("a", 180, 1100)).push(of("b", 120, 2000));
        }
        let model = run.model();
        insta::assert_snapshot!(model.answer.as_deref().expect("two gateways"));
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
        fits(&terminal(&model(), 60, false), 60);
    }
}
