//! The table of findings.

use super::*;

type Check = fn(&Subject<'_>) -> Vec<Finding>;

#[derive(Debug, Clone, Copy)]
struct Registered {
    rule: fn() -> Rule,
    check: Check,
    /// Position among the findings of the same severity in a report. The reference page ignores it and uses
    /// the order of the table.
    place: u32,
}

const ALL: [Registered; 78] = [
    Registered { rule: errors::rule, check: errors::check, place: 1 },
    Registered { rule: gateway_died::rule, check: gateway_died::check, place: 39 },
    Registered { rule: event_failed::rule, check: event_failed::check, place: 2 },
    Registered { rule: failed_checks::rule, check: failed_checks::check, place: 3 },
    Registered { rule: rejections_counted::rule, check: rejections_counted::check, place: 4 },
    Registered { rule: redirected::rule, check: redirected::check, place: 47 },
    Registered { rule: limit_exceeded::rule, check: limit_exceeded::check, place: 38 },
    Registered { rule: different_work::rule, check: different_work::check, place: 28 },
    Registered { rule: connections_short::rule, check: connections_short::check, place: 5 },
    Registered { rule: connections_unserved::rule, check: connections_unserved::check, place: 46 },
    Registered { rule: streams_capped::rule, check: streams_capped::check, place: 50 },
    Registered { rule: streams_refused::rule, check: streams_refused::check, place: 51 },
    Registered { rule: window_stalled::rule, check: window_stalled::check, place: 52 },
    Registered { rule: head_of_line::rule, check: head_of_line::check, place: 56 },
    Registered { rule: abuse_guard::rule, check: abuse_guard::check, place: 53 },
    Registered { rule: connections_recycled::rule, check: connections_recycled::check, place: 54 },
    Registered { rule: grpc_failed::rule, check: grpc_failed::check, place: 59 },
    Registered { rule: trailers_lost::rule, check: trailers_lost::check, place: 60 },
    Registered { rule: tunnel_refused::rule, check: tunnel_refused::check, place: 65 },
    Registered { rule: tunnel_cut::rule, check: tunnel_cut::check, place: 66 },
    Registered { rule: extension_differs::rule, check: extension_differs::check, place: 67 },
    Registered { rule: messages_differ::rule, check: messages_differ::check, place: 61 },
    Registered { rule: false_end::rule, check: false_end::check, place: 69 },
    Registered { rule: first_event_held::rule, check: first_event_held::check, place: 70 },
    Registered { rule: stream_buffered::rule, check: stream_buffered::check, place: 62 },
    Registered { rule: events_bunched::rule, check: events_bunched::check, place: 64 },
    Registered { rule: frames_changed::rule, check: frames_changed::check, place: 68 },
    Registered { rule: stream_workers_full::rule, check: stream_workers_full::check, place: 71 },
    Registered { rule: silence::rule, check: silence::check, place: 76 },
    Registered { rule: abort_ignored::rule, check: abort_ignored::check, place: 72 },
    Registered { rule: retries_multiply::rule, check: retries_multiply::check, place: 73 },
    Registered { rule: retries_after_abort::rule, check: retries_after_abort::check, place: 77 },
    Registered { rule: no_backpressure::rule, check: no_backpressure::check, place: 78 },
    Registered { rule: usage_altered::rule, check: usage_altered::check, place: 74 },
    Registered { rule: request_altered::rule, check: request_altered::check, place: 75 },
    Registered { rule: deadline_changed::rule, check: deadline_changed::check, place: 63 },
    Registered { rule: keepalive_lost::rule, check: keepalive_lost::check, place: 24 },
    Registered { rule: upstream_not_reused::rule, check: upstream_not_reused::check, place: 25 },
    Registered { rule: upstream_http_version::rule, check: upstream_http_version::check, place: 26 },
    Registered { rule: protocol_downgraded::rule, check: protocol_downgraded::check, place: 57 },
    Registered { rule: upstream_not_multiplexed::rule, check: upstream_not_multiplexed::check, place: 58 },
    Registered { rule: amplification::rule, check: amplification::check, place: 29 },
    Registered { rule: cached_answers::rule, check: cached_answers::check, place: 44 },
    Registered { rule: balance::rule, check: balance::check, place: 30 },
    Registered { rule: rate_missed::rule, check: rate_missed::check, place: 6 },
    Registered { rule: generator_saturated::rule, check: generator_saturated::check, place: 7 },
    Registered { rule: generators_disagree::rule, check: generators_disagree::check, place: 43 },
    Registered { rule: upstream_saturated::rule, check: upstream_saturated::check, place: 27 },
    Registered { rule: host_noisy::rule, check: host_noisy::check, place: 8 },
    Registered { rule: host_unfit::rule, check: host_unfit::check, place: 9 },
    Registered { rule: host_changed::rule, check: host_changed::check, place: 10 },
    Registered { rule: cpus_moved::rule, check: cpus_moved::check, place: 42 },
    Registered { rule: unsteady::rule, check: unsteady::check, place: 31 },
    Registered { rule: still_warming::rule, check: still_warming::check, place: 37 },
    Registered { rule: not_ready::rule, check: not_ready::check, place: 40 },
    Registered { rule: not_settled::rule, check: not_settled::check, place: 41 },
    Registered { rule: delayed_ack::rule, check: delayed_ack::check, place: 48 },
    Registered { rule: impossible::rule, check: impossible::check, place: 32 },
    Registered { rule: herd::rule, check: herd::check, place: 33 },
    Registered { rule: memory_growing::rule, check: memory_growing::check, place: 34 },
    Registered { rule: unasked::rule, check: unasked::check, place: 36 },
    Registered { rule: unpinned_version::rule, check: unpinned_version::check, place: 35 },
    Registered { rule: bandwidth_bound::rule, check: bandwidth_bound::check, place: 20 },
    Registered { rule: hidden_limit::rule, check: hidden_limit::check, place: 17 },
    Registered { rule: queued::rule, check: queued::check, place: 45 },
    Registered { rule: listen_overflow::rule, check: listen_overflow::check, place: 15 },
    Registered { rule: logging_unequal::rule, check: logging_unequal::check, place: 19 },
    Registered { rule: ports_exhausted::rule, check: ports_exhausted::check, place: 16 },
    Registered { rule: shared_cpus::rule, check: shared_cpus::check, place: 13 },
    Registered { rule: throttled::rule, check: throttled::check, place: 14 },
    Registered { rule: workers_unequal::rule, check: workers_unequal::check, place: 18 },
    Registered { rule: workers_starved::rule, check: workers_starved::check, place: 55 },
    Registered { rule: clock::rule, check: clock::check, place: 21 },
    Registered { rule: few_quiet_windows::rule, check: few_quiet_windows::check, place: 11 },
    Registered { rule: quiet_differs::rule, check: quiet_differs::check, place: 12 },
    Registered { rule: tail_of_the_machine::rule, check: tail_of_the_machine::check, place: 49 },
    Registered { rule: few_samples::rule, check: few_samples::check, place: 22 },
    Registered { rule: not_distinguishable::rule, check: not_distinguishable::check, place: 23 },
];

/// The rule of every finding, in the order of the table.
pub fn rules() -> Vec<Rule> {
    ALL.iter().map(|one| with_round_thresholds((one.rule)())).collect()
}

/// Removes the `.0` that `percent` prints, because thresholds are round numbers.
fn with_round_thresholds(mut rule: Rule) -> Rule {
    for text in [&mut rule.when, &mut rule.severity] {
        *text = text.replace(".0 %", " %");
    }
    rule
}

/// Checks a run for every finding. Returns the findings, the most severe first.
pub fn examine(subject: &Subject<'_>) -> Vec<Finding> {
    let mut all = ALL;
    all.sort_by_key(|one| one.place);
    let mut findings: Vec<Finding> = all.iter().flat_map(|one| advised(*one, subject)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// The findings of one check. A finding without an advice gets the advice of its rule.
fn advised(one: Registered, subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = (one.check)(subject);
    for finding in findings.iter_mut().filter(|finding| finding.advice.is_empty()) {
        (one.rule)().advice.clone_into(&mut finding.advice);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, via};
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn the_most_severe_come_first_and_cases_list_their_codes() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.push(via("nginx", 3).status(500, 999)).push(via("nginx", 4).status(500, 999));
        run.push(via("nginx", 5).status(500, 999)).push(via("nginx", 6).status(500, 999));
        let analysis = run.analyse();
        assert!(analysis.findings.windows(2).all(|pair| pair[0].severity <= pair[1].severity));
        assert_eq!(analysis.findings[0].code, "rejections-counted");
        assert!(analysis.case("nginx", 0).expect("measured").findings.contains(&"rejections-counted"));
        assert!(!analysis.case("direct", 0).expect("measured").findings.contains(&"rejections-counted"));
    }

    /// The codes declared in the modules of this folder.
    fn codes() -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/checks");
        let files = std::fs::read_dir(folder).expect("the checks").flatten();
        files
            .filter_map(|file| {
                let path = if file.path().is_dir() { file.path().join("mod.rs") } else { file.path() };
                let text = std::fs::read_to_string(path).ok()?;
                let (_, rest) = text.split_once("\nconst CODE: &str = \"")?;
                Some(rest.split('"').next()?.to_owned())
            })
            .collect()
    }

    #[test]
    fn every_file_has_exactly_one_rule_with_a_place_of_its_own() {
        let listed: Vec<&str> = rules().iter().map(|rule| rule.code).collect();
        let distinct: BTreeSet<String> = listed.iter().map(|code| (*code).to_owned()).collect();
        assert_eq!(distinct.len(), listed.len());
        assert_eq!(distinct, codes(), "rules() and the files of this folder");
        assert!(distinct.len() >= 20);
        let places: BTreeSet<u32> = ALL.iter().map(|one| one.place).collect();
        assert_eq!(places, (1..=ALL.len() as u32).collect());
    }

    #[test]
    fn every_rule_has_complete_sentences() {
        for rule in rules() {
            for text in [rule.seen, rule.advice] {
                assert!(text.len() > 20 && text.ends_with('.'), "{}: {text}", rule.code);
            }
            assert!(rule.when.len() > 20 && !rule.when.ends_with('.'), "{}: {}", rule.code, rule.when);
            let severity = rule.severity.split([';', ',']).next().expect("a first part").trim();
            assert!(["void", "warning", "note"].contains(&severity), "{}: {}", rule.code, rule.severity);
        }
    }
}
