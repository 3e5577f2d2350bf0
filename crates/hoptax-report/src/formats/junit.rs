//! Budgets as JUnit XML. CI systems show them as tests.
//!
//! The format has no standard. This module writes only the parts that all readers understand: `testsuites`,
//! `testsuite` and `testcase`. A test case contains `failure` if the budget was exceeded, `skipped` if it is
//! inconclusive, and `error` if it was not measured.

use crate::Model;
use crate::words::figures::{measured, sentence};
use hoptax_analysis::{BudgetResult, Outcome};

/// Writes a test for each budget and case, and a test for the whole run, which fails if the run has a `void`
/// finding.
pub fn junit(model: &Model) -> String {
    let of = |outcome| model.budget.iter().filter(|result| result.outcome == outcome).count();
    let void = model.findings.iter().find(|one| one.severity == hoptax_analysis::Severity::Void);
    let tests = model.budget.len() + 1;
    let (failures, skipped) = (of(Outcome::Exceeded), of(Outcome::Inconclusive));
    let errors = of(Outcome::Unmeasured) + usize::from(void.is_some());
    let name = escaped(&model.name);
    let sums = format!("name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {sums}>\n");
    let started = escaped(&model.started);
    text.push_str(&format!("  <testsuite {sums} skipped=\"{skipped}\" timestamp=\"{started}\">\n"));
    let believed = void.map(|one| ("error", one.code.to_string(), one.message.clone()));
    text.push_str(&case("hoptax", "the run is believable", believed, None));
    for result in &model.budget {
        text.push_str(&of_budget(result));
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

fn of_budget(result: &BudgetResult) -> String {
    let trouble = match result.outcome {
        Outcome::Kept => None,
        Outcome::Exceeded => Some("failure"),
        Outcome::Inconclusive => Some("skipped"),
        Outcome::Unmeasured => Some("error"),
    };
    let trouble = trouble.map(|element| (element, result.outcome.words().to_string(), sentence(result)));
    let limit = crate::words::figures::limit(result);
    let name = format!("{}, {}, {limit}", result.metric.name(), result.case);
    case(&format!("hoptax.{}", result.gateway), &name, trouble, Some(measured(result)))
}

fn case(class: &str, name: &str, trouble: Option<(&str, String, String)>, out: Option<String>) -> String {
    let mut text = format!("    <testcase classname=\"{}\" name=\"{}\">\n", escaped(class), escaped(name));
    if let Some((element, kind, message)) = trouble {
        let (kind, message) = (escaped(&kind), escaped(&message));
        text.push_str(&format!("      <{element} type=\"{kind}\" message=\"{message}\"/>\n"));
    }
    if let Some(out) = out {
        text.push_str(&format!("      <system-out>{}</system-out>\n", escaped(&out)));
    }
    text.push_str("    </testcase>\n");
    text
}

/// Escapes text for attributes and element content. XML 1.0 cannot represent most control characters (section
/// 2.2), so they become U+FFFD. Line ends and tabs become character references, because XML parsers would
/// otherwise change them to spaces in attributes (section 3.3.3).
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' | '\r' => safe.push_str(&format!("&#{};", letter as u32)),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;
    use hoptax_plan::{Budget, Metric};
    use hoptax_record::Stage;

    #[test]
    fn any_text_gives_well_formed_xml() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        let nasty = "<&>\"' ]]> \u{1}\u{1b}[31m\ttab\nline \u{fffe} 🙂";
        run.contender("envoy", Some(failure(Stage::Start, nasty)));
        run.record.plan.name = nasty.into();
        for round in 0..3 {
            run.push(via("broken", round).errors(5000));
        }
        run.record.plan.budget = vec![
            Budget { max: Some(20.0), ..Budget::of(Metric::AddedP50) },
            Budget { max: Some(1e9), ..Budget::of(Metric::P999) },
        ];
        let text = junit(&run.model());
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let suite = document.root_element().first_element_child().expect("a suite");
        let of = |name: &str| suite.descendants().filter(|node| node.has_tag_name(name)).count().to_string();
        for (attribute, element) in [("tests", "testcase"), ("failures", "failure"), ("errors", "error")] {
            assert_eq!(suite.attribute(attribute), Some(of(element).as_str()), "{attribute}\n{text}");
        }
        // nginx breaches the first budget. There are three errors. Two errors are the budgets of envoy, which
        // cannot be judged because envoy was not measured. The third error is the void run.
        assert!(suite.attribute("failures") >= Some("1") && suite.attribute("errors") == Some("3"), "{text}");
        let messages: Vec<&str> = suite.descendants().filter_map(|node| node.attribute("message")).collect();
        assert!(messages.iter().any(|one| one.contains("<&>\"' ]]> \u{fffd}")), "{messages:?}");
        assert_eq!(suite.attribute("name").map(|name| name.contains('🙂')), Some(true));
    }
}
