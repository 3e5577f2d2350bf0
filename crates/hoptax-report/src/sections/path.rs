//! Shows how much time is added on the request path and how much on the response path. This is possible only
//! if the upstream adds timestamps to its responses. Each case has a line.

use crate::model::Model;
use crate::words::format::Scale;
use crate::words::text::{inline, with_interval};
use hoptax_analysis::{Case, Difference, Path};
use hoptax_stats::Estimate;
use minijinja::HtmlEscape;
use std::fmt::Write as _;

pub(crate) const HEADING: &str = "Request path and response path, at the median";

/// Explains how to read the lines.
const NOTE: &str =
    "Neither includes the upstream's own time. Medians of parts do not add up to the median of the whole.";

/// Lines for the terminal, not wrapped yet: the heading, a line for each case, and the note. Empty if there
/// are no timestamps.
pub(crate) fn terminal(model: &Model) -> Vec<String> {
    let lines = lines(model);
    if lines.is_empty() {
        return lines;
    }
    std::iter::once(format!("{HEADING}:")).chain(lines).chain([NOTE.to_owned()]).collect()
}

/// A Markdown list. Empty if there are no timestamps.
pub(crate) fn markdown(model: &Model) -> String {
    let lines = lines(model);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "- {}", inline(&line));
    }
    let _ = writeln!(text, "\n{NOTE}");
    text
}

/// A section of the page. Empty if there are no timestamps.
pub(crate) fn html(model: &Model) -> String {
    let lines = lines(model);
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", HtmlEscape(line))).collect();
    format!(
        "<h2>{HEADING}</h2>\n<section class=\"card\">\n<ul>\n{items}</ul>\n<p \
        class=\"quiet\">{NOTE}</p>\n</section>\n"
    )
}

fn lines(model: &Model) -> Vec<String> {
    model.cases.iter().filter_map(line).collect()
}

fn line(case: &Case) -> Option<String> {
    let path = case.path.as_ref()?;
    let text = match (&path.added_request_us_p50, &path.added_response_us_p50) {
        (Some(there), Some(back)) => {
            format!("request path {}, response path {}", added(there), added(back))
        }
        _ => own(path)?,
    };
    Some(format!("{}: {text}.", case.case))
}

/// The time on each path. This is for direct, and for gateways that have no direct trial to compare with.
fn own(path: &Path) -> Option<String> {
    let time = |estimate: &Estimate| with_interval(estimate, Scale::of_us(estimate.estimate));
    let (there, back) = (path.request_us_p50.as_ref()?, path.response_us_p50.as_ref()?);
    Some(format!("request path {}, response path {}", time(there), time(back)))
}

fn added(difference: &Difference) -> String {
    let estimate = &difference.estimate;
    let sign = if estimate.estimate > 0.0 { "+" } else { "" };
    let doubt = if difference.distinguishable { "" } else { ", not distinguishable" };
    format!("{sign}{}{doubt}", with_interval(estimate, Scale::of_us(estimate.estimate)))
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::{Model, html, markdown, terminal};

    fn model() -> Model {
        let mut run = Run::closed(1);
        for round in 0..3 {
            run.push(via("direct", round).first().paths_us(20, 30));
            run.push(via("direct", round).last().paths_us(20, 40));
            run.push(via("a<b", round).paths_us(65, 38));
        }
        run.model()
    }

    #[test]
    fn every_format_says_what_is_added_on_each_way() {
        let model = model();
        // On the request path, the gateway takes 65 µs and direct 20 µs. On the response path, the gateway
        // adds about 3 µs, but the two direct trials differ by 10 µs.
        let words = ["request path +45 µs", "response path +", "not distinguishable", "upstream's own time"];
        let page = html(&model).expect("a page");
        for text in [terminal(&model, 80, false), markdown(&model), page] {
            let text = one_line(&text);
            for word in words {
                assert!(text.contains(word), "{word} is missing: {text}");
            }
            assert!(text.contains("1 connection: request path 20 µs"), "{text}");
        }
    }

    #[test]
    fn labels_are_escaped_and_lines_fit() {
        let page = html(&model()).expect("a page");
        assert!(page.contains("<li>a&lt;b, closed loop"), "{page}");
        fits(&terminal(&model(), 80, false), 80);
    }
}
