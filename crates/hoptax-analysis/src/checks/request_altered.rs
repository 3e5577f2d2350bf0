//! `request-altered`: requests to a language model reach the upstream with other fields than clients sent.

use super::{
    Finding, Measured, Rule, Severity, Subject, about, evidence, is_chance, percent, percent_or_none, tokens,
};
use hoptax_stats::share;
use serde_json::json;
use std::collections::BTreeSet;

const CODE: &str = "request-altered";
/// Smallest difference to report between the shares of requests that have a field.
const DIFFERENT: f64 = 0.01;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note if fields are only added".into(),
        when: format!(
            "via a gateway, the share of requests to a language model that reach the upstream with some \
             top-level JSON field differs from direct's by more than {}, and with several targets by more \
             than chance explains",
            percent(DIFFERENT)
        ),
        seen: "A gateway that drops `max_tokens` makes answers longer.",
        advice: "If a field is missing, look for a list of supported parameters in the gateway's settings \
                 (LiteLLM: `drop_params`). If one was added, such as `stream_options`, the upstream does \
                 work that clients did not ask for.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // Targets are chosen at random, and their requests can have different fields.
    let is_mixed = subject.run.plan.targets.len() > 1;
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct, is_mixed)).collect()
}

fn of_pair((case, via): Measured<'_>, (_, direct): Measured<'_>, is_mixed: bool) -> Option<Finding> {
    let (via, direct) = (tokens::upstream(via)?, tokens::upstream(direct)?);
    let count = |counts: &hoptax_record::LlmCounts, field: &str| {
        (counts.fields.get(field).copied().unwrap_or(0), counts.requests)
    };
    let fields: BTreeSet<&String> = via.fields.keys().chain(direct.fields.keys()).collect();
    let shares = fields.into_iter().filter_map(|field| {
        let counts = [count(&via, field), count(&direct, field)];
        let [of_via, of_direct] = counts.map(|(count, all)| share(count as f64, all as f64));
        let shares = (field, of_via?, of_direct?);
        (!is_mixed || !is_chance(counts)).then_some(shares)
    });
    let changed: Vec<_> = shares.filter(|(_, via, direct)| (via - direct).abs() > DIFFERENT).collect();
    let is_dropped = changed.iter().any(|(_, via, direct)| via < direct);
    let described: Vec<String> = changed
        .iter()
        .map(|(field, via, direct)| {
            let [via, direct] = [*via, *direct].map(percent_or_none);
            format!("`{field}` in {via} of the requests instead of {direct}")
        })
        .collect();
    (!changed.is_empty()).then(|| Finding {
        evidence: evidence([("fields", json!(changed)), ("requests", via.requests.into())]),
        message: format!(
            "Requests reach the upstream with other JSON fields than directly: {}. So the gateway {} fields.",
            described.join(", "),
            if is_dropped { "drops" } else { "adds" }
        ),
        ..about(CODE, if is_dropped { Severity::Warning } else { Severity::Note }, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// 1,000 requests with these fields.
    fn trial(label: &str, fields: &[(&str, u64)]) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(200, 1000).tokens_us([200, 200, 1000], 10);
        trial.llm(|counts| {
            counts.requests = 1000;
            counts.fields = fields.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        })
    }

    fn run(gateway: &[(&str, u64)]) -> Run {
        let mut run = Run::closed(1).token_streams(10);
        run.push(trial("direct", &[("model", 1000), ("max_tokens", 500)]).first());
        run.push(trial("litellm", gateway));
        run
    }

    fn found(gateway: &[(&str, u64)]) -> Vec<Finding> {
        raised(&run(gateway), CODE)
    }

    #[test]
    fn raised_by_fields_that_are_added_or_dropped() {
        insta::assert_snapshot!(texts(&found(&[("model", 1000), ("stream_options", 1000)])));
        let added = found(&[("model", 1000), ("max_tokens", 500), ("user", 20)]);
        assert_eq!((added.len(), added[0].severity), (1, Severity::Note));
    }

    #[test]
    fn not_raised_by_the_same_fields_or_chance() {
        assert_eq!(found(&[("model", 1000), ("max_tokens", 505)]), []);
        for (with_maximum, expected) in [(560, 0), (0, 1)] {
            let mut mixed = run(&[("model", 1000), ("max_tokens", with_maximum)]);
            mixed.record.plan.targets.push(mixed.record.plan.targets[0].clone());
            assert_eq!(raised(&mixed, CODE).len(), expected, "{with_maximum}");
        }
    }
}
