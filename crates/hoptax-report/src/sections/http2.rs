//! Shows how streams of HTTP/2 were used: how many were open, how connections and streams ended, and what
//! requests waited for. Each case with HTTP/2 has a line.

use crate::model::Model;
use crate::words::format::{Scale, grouped};
use crate::words::text::{inline, with_interval};
use hoptax_analysis::Case;
use minijinja::HtmlEscape;
use std::fmt::Write as _;

pub(crate) const HEADING: &str = "Streams of HTTP/2";

/// Lines for the terminal, not wrapped yet: the heading, and a line for each case. Empty without HTTP/2.
pub(crate) fn terminal(model: &Model) -> Vec<String> {
    let lines = lines(model);
    if lines.is_empty() {
        return lines;
    }
    std::iter::once(format!("{HEADING}:")).chain(lines).collect()
}

/// A Markdown list. Empty without HTTP/2.
pub(crate) fn markdown(model: &Model) -> String {
    let mut text = String::new();
    for line in lines(model) {
        let _ = writeln!(text, "- {}", inline(&line));
    }
    text
}

/// A section of the page. Empty without HTTP/2.
pub(crate) fn html(model: &Model) -> String {
    let items: String = lines(model).iter().map(|line| format!("<li>{}</li>\n", HtmlEscape(line))).collect();
    if items.is_empty() {
        return items;
    }
    format!("<h2>{HEADING}</h2>\n<section class=\"card\">\n<ul>\n{items}</ul>\n</section>\n")
}

fn lines(model: &Model) -> Vec<String> {
    model.cases.iter().filter_map(line).collect()
}

fn line(case: &Case) -> Option<String> {
    let http2 = case.http2.as_ref()?;
    let limit = http2.stream_limit.map_or_else(|| "no limit".to_owned(), |limit| format!("limit {limit}"));
    let mut parts = vec![format!("at most {} streams on a connection ({limit})", http2.most_streams)];
    let ends = [
        ("GOAWAY frames", http2.goaways),
        ("streams reset", http2.resets),
        ("requests sent again", http2.unprocessed),
    ];
    let ends = ends.into_iter().filter(|(_, count)| *count > 0);
    parts.extend(ends.map(|(what, count)| format!("{what}: {}", grouped(count as f64))));
    let calls = case.counts.iter().flat_map(|counts| &counts.grpc);
    let calls: Vec<String> =
        calls.map(|(status, count)| format!("{status} {}", grouped(*count as f64))).collect();
    if !calls.is_empty() {
        parts.push(format!("gRPC statuses: {}", calls.join(", ")));
    }
    if let Some(wait) = &case.wait {
        let each = [("connection", &wait.connection), ("stream", &wait.stream), ("window", &wait.window)];
        let known = each.into_iter().filter_map(|(what, wait)| {
            let p99 = wait.p99.as_ref()?;
            Some(format!("{what} {}", with_interval(p99, Scale::of_us(p99.estimate))))
        });
        let known: Vec<String> = known.collect();
        if !known.is_empty() {
            parts.push(format!("wait at p99: {}", known.join(", ")));
        }
    }
    Some(format!("{}: {}.", case.case, parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::{html, markdown, terminal};
    use hoptax_format::record::Http2Tally;
    use hoptax_format::spec::HttpVersion;
    use hoptax_plan::LoadPoint;

    #[test]
    fn every_format_has_a_line_for_each_case() {
        let point = LoadPoint { http: HttpVersion::Http2, streams: 8, ..closed_point(4, 1) };
        let mut run = Run::with_load(vec![point]);
        let quiet = Http2Tally { most_streams: 8, ..Http2Tally::default() };
        let busy = Http2Tally { stream_limit: Some(128), goaways: 2, resets: 9, unprocessed: 1, ..quiet };
        run.push(via("direct", 0).first().http2(quiet));
        run.push(via("calls", 0).http2(quiet).calls(&[("UNAVAILABLE", 12)], 0));
        run.push(via("a<b", 0).http2(busy).waits_us(1, 2000, 0));
        let model = run.model();
        for text in [terminal(&model, 80, false), markdown(&model), html(&model).expect("a page")] {
            let text = one_line(&text).replace("&#x2f;", "/");
            for words in [
                "Streams of HTTP/2",
                "direct, closed loop, 4 connections × 8 streams, HTTP/2: at most 8 streams on a connection \
                 (no limit).",
                "at most 8 streams on a connection (no limit); gRPC statuses: OK 988, UNAVAILABLE 12.",
                "at most 8 streams on a connection (limit 128); GOAWAY frames: 2; streams reset: 9; requests \
                 sent again: 1; wait at p99: connection 1",
            ] {
                assert!(text.contains(words), "{words} is missing: {text}");
            }
        }
        assert!(html(&model).expect("a page").contains("<li>a&lt;b, closed loop"));
        fits(&terminal(&model, 80, false), 80);
    }
}
