//! `different-work`: during trials, a gateway's answers differed from direct's answers.
//!
//! Verification compares answers before the first trial. This check compares the status and the body length
//! under load. It does not compare header fields, because gateways add some.

use super::{
    Finding, Measured, Rule, Severity, Subject, about, evidence, false_end, percent, retries_multiply,
    tunnel_refused,
};
use crate::Trial;
use hoptax_format::grpc::Status;
use hoptax_format::messages::Carrier;
use hoptax_format::record::Counts;
use hoptax_plan::{Feature, Gateway, Target};
use hoptax_stats::{mean, share, standard_deviation};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const CODE: &str = "different-work";
/// Smallest difference to report, as a share of the answers or of their bytes. The finding `errors` has the
/// same limit.
const DIFFERENT: f64 = 0.001;
/// Limit for the difference. Above this share, the case is void.
const OTHER_WORK: f64 = 0.1;
/// Smallest difference of body lengths to report if bodies vary, or if a side compresses them.
const LOOSE: f64 = 0.1;
/// Limit for a difference, in standard errors. A larger difference is not due to chance: the probability of a
/// larger difference by chance is one in two million.
const ERRORS: f64 = 5.0;
/// Number of trials needed on each side to estimate how much body lengths differ by chance.
const SCATTER: usize = 3;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void if a difference exceeds {}", percent(OTHER_WORK)),
        when: format!(
            "more than {0} of the gateway's answers have another status than direct's, or their mean body \
             length differs by more than {0}, and by more than {ERRORS} standard errors. Differences that a \
             feature is meant to cause do not count: shorter bodies with `gzip`, and rejections that a \
             `rate-limit` explains. With `varies: true`, with event streams, or if a body was compressed \
             before the first trial, a length counts only if it is more than {1} outside of the lengths that \
             were seen before the first trial. It is a warning",
            percent(DIFFERENT),
            percent(LOOSE)
        ),
        seen: "One control plane looked best because nine tenths of its routes answered with a short 404.",
        advice: "Send the same request to direct and to the gateway, and compare the answers. Look for \
                 missing routes, compression, error pages and limits.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let pairs = subject.pairs().filter(|(via, _)| {
        // Rejections have other bodies than normal answers.
        !subject.rejects_by_events_only(via.1) && subject.limited(*via).is_none()
    });
    pairs.filter_map(|(via, direct)| of_case(subject, via, direct)).collect()
}

fn of_case(subject: &Subject<'_>, via: Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let features = subject.gateway(&via.0.gateway);
    let features = features.map_or(&[][..], Gateway::features);
    // These differences are intended: rate limits reject requests, and gzip shortens bodies.
    let is_limited = features.iter().any(|feature| feature.is_reachable_limit());
    // With retries, fewer requests fail than directly.
    let is_refused = tunnel_refused::is_raised(subject, via.0) || retries_multiply::is_raised(via);
    let statuses = statuses(via, direct, features).filter(|_| !is_limited && !is_refused);
    let expected = Expected::new(subject, &via.0.gateway);
    // Streams that end with the load have a varying number of messages. WebSockets have no body. A stream of
    // tokens with a false end is short.
    let is_short = false_end::is_raised(via, direct);
    let has_bodies = !subject.has_open_ended_streams() && !subject.has_websockets() && !is_short;
    let is_compared = has_bodies && !features.contains(&Feature::Gzip);
    let bodies = bodies(via.1, direct.1, expected).filter(|_| is_compared);
    let certain = bodies.filter(|_| !expected.is_loose);
    let worst = statuses.into_iter().chain(certain.map(|bodies| bodies.2)).reduce(f64::max);
    let worst = worst.or(bodies.map(|_| 0.0))?;
    let (case, counts) = (via.0, via.0.counts.as_ref()?);
    let mut differences = Vec::new();
    if let Some(share) = statuses {
        differences.push(format!("{} of the answers have a different status", percent(share)));
    }
    if let Some((via, direct, _)) = bodies {
        differences.push(format!(
            "bodies have {via:.1} bytes on average via the gateway, and {direct:.1} bytes with direct"
        ));
    }
    let of = |pick: fn((f64, f64, f64)) -> f64| json!(bodies.map(pick));
    Some(Finding {
        evidence: evidence([
            ("status", json!(counts.status)),
            ("direct_status", json!(direct.0.counts.as_ref()?.status)),
            ("other_status", json!(statuses)),
            ("body_bytes", of(|bodies| bodies.0)),
            ("direct_body_bytes", of(|bodies| bodies.1)),
            ("limit", DIFFERENT.into()),
        ]),
        message: format!(
            "Under load, the gateway's answers differed from the answers of direct: {}.{}",
            differences.join("; "),
            if expected.is_loose { "" } else { " Before the first trial, the answers were equal." }
        ),
        advice:
            "Send the same request to direct and to the gateway, and compare the answers. Look for missing \
             routes, compression, caches, error pages and limits."
                .into(),
        ..about(CODE, if worst > OTHER_WORK { Severity::Void } else { Severity::Warning }, &case.case)
    })
}

/// Share of the answers whose status differs from the statuses of direct (the total variation distance).
/// `None` if chance explains the difference for every status. For each status, the gateway's share is
/// compared with direct's share. The comparison uses the standard error of the pooled share.
fn statuses(via: Measured<'_>, direct: Measured<'_>, features: &[Feature]) -> Option<f64> {
    let (via, direct) = (via.0.counts.as_ref()?, direct.0.counts.as_ref()?);
    // A client that leaves before the head of a response has seen no status, which counts as 0.
    let answered = |counts: &Counts| {
        let without = counts.status.get(&0).copied().unwrap_or(0);
        counts.completed.saturating_sub(without) as f64
    };
    let (n, m) = (answered(via), answered(direct));
    let (via, direct) = (compared_statuses(via, features), compared_statuses(direct, features));
    if n == 0.0 || m == 0.0 {
        return None;
    }
    let of = |status: &BTreeMap<u16, u64>, code| status.get(code).copied().unwrap_or(0) as f64;
    let codes: BTreeSet<&u16> = via.keys().chain(direct.keys()).collect();
    let mut apart = 0.0;
    let mut by_chance = true;
    for code in codes {
        let (a, b) = (of(&via, code), of(&direct, code));
        let difference = (a / n - b / m).abs();
        let pooled = (a + b) / (n + m);
        by_chance &= difference <= ERRORS * (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
        apart += difference / 2.0;
    }
    (!by_chance && apart > DIFFERENT).then_some(apart)
}

/// Answers by status, as they are compared. A call that fails has the HTTP status 200 directly, and another
/// one as JSON, so all failures have the status 0 with `grpc-json`.
fn compared_statuses(counts: &Counts, features: &[Feature]) -> BTreeMap<u16, u64> {
    if !features.contains(&Feature::GrpcJson) {
        let known = counts.status.iter().filter(|(status, _)| **status > 0);
        return known.map(|(status, count)| (*status, *count)).collect();
    }
    let succeeded = match counts.grpc.is_empty() {
        true => counts.status.get(&200),
        false => counts.grpc.get(Status::Ok.name()),
    };
    let succeeded = succeeded.copied().unwrap_or(0);
    BTreeMap::from([(200, succeeded), (0, counts.completed.saturating_sub(succeeded))])
}

/// The body lengths to expect.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// Difference between the gateway's mean length and direct's mean length before the first trial, bytes.
    offset: f64,
    /// True if bodies vary or are event streams, or a side compresses them. Then lengths differ between
    /// responses.
    is_loose: bool,
    /// True if the plan has a single target.
    is_single: bool,
}

impl Expected {
    fn new(subject: &Subject<'_>, gateway: &str) -> Self {
        let targets = &subject.run.plan.targets;
        let contender = subject.run.contenders.iter().find(|one| one.label == gateway);
        let seen = contender.map_or(&[][..], |one| one.bodies.as_slice());
        // Event streams can have comments, whose number depends on time.
        let has_events =
            |target: &Target| target.stream.is_some_and(|stream| stream.carrier == Carrier::Events);
        let offset = seen.iter().filter_map(|one| {
            let target = targets.iter().find(|target| target.name == one.target)?;
            Some(target.share_of(targets) * (one.gateway as f64 - one.direct as f64))
        });
        Self {
            offset: offset.sum(),
            is_loose: !seen.is_empty() || targets.iter().any(|target| target.varies || has_events(target)),
            is_single: targets.len() == 1,
        }
    }
}

/// Mean body length via the gateway, mean body length of direct, and their relative difference. `None` if
/// chance explains the difference. The scatter of the trials shows how much lengths differ by chance. If
/// there are too few trials, lengths are compared only if there is a single target and direct's mean length
/// is the same in each trial.
fn bodies(via: &[Trial<'_>], direct: &[Trial<'_>], expected: Expected) -> Option<(f64, f64, f64)> {
    let lengths = |trials: &[Trial<'_>]| -> Vec<f64> {
        trials
            .iter()
            .filter_map(|trial| share(trial.load.bytes.body as f64, trial.load.completed_in_time as f64))
            .collect()
    };
    let (via, direct) = (lengths(via), lengths(direct));
    let (a, b) = (mean(&via)?, mean(&direct)?);
    let right = a.clamp(b + expected.offset.min(0.0), b + expected.offset.max(0.0));
    let apart = if right > 0.0 { (a - right).abs() / right } else { f64::from(u8::from(a > 0.0)) };
    let error = |lengths: &[f64]| Some(standard_deviation(lengths)?.powi(2) / lengths.len() as f64);
    let beyond_chance = if via.len() >= SCATTER && direct.len() >= SCATTER {
        (a - right).abs() > ERRORS * (error(&via)? + error(&direct)?).sqrt()
    } else {
        expected.is_single && direct.iter().all(|length| *length == b)
    };
    let limit = if expected.is_loose { LOOSE } else { DIFFERENT };
    (beyond_chance && apart > limit).then_some((a, b, apart))
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "as two proportions, {} standard errors of the pooled share apart" word(ERRORS);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::{Run, features, via};
    use hoptax_format::messages::ENDLESS;
    use hoptax_format::random::Random;

    #[test]
    fn raised_by_another_status_even_if_successful() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.push(via("few", 0).status(302, 50)).push(via("most", 0).status(404, 900));
        let findings = raised(&run, CODE);
        assert_eq!(
            findings.iter().map(|it| it.severity).collect::<Vec<_>>(),
            [Severity::Void, Severity::Warning]
        );
        let other = findings[1].evidence["other_status"].as_f64().expect("a share");
        assert!((other - 0.05).abs() < 1e-9, "{other}");
    }

    #[test]
    fn calls_that_fail_have_other_statuses_as_json() {
        let found = |failed: u64| {
            let mut run = Run::closed(1);
            run.record.plan.gateways = vec![features::gateway("json", &[Feature::GrpcJson])];
            run.push(via("direct", 0).first().calls(&[("UNAVAILABLE", 100)], 0));
            run.push(via("json", 0).status(503, failed));
            raised(&run, CODE)
        };
        assert_eq!(found(105), []);
        for failed in [0, 400] {
            assert_eq!(found(failed).len(), 1, "{failed}");
        }
    }

    #[test]
    fn raised_by_bodies_of_another_length() {
        let mut run = Run::steady(1, 100, &[("nginx", 150)]);
        run.push(via("short", 0).body_bytes(1000 * 1024 - 60 * 1024));
        let findings = raised(&run, CODE);
        assert_eq!(findings[0].evidence["body_bytes"], 1024.0 * 0.94);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_by_chance() {
        // On both sides, one in ten answers is a failure with a short body. The targets of the mix also
        // differ in body length.
        let mut random = Random::new(9);
        for rounds in [1, 2, 5] {
            for number in 0..100 {
                let mut run = Run::mix(&[("short", 1), ("long", 1)]);
                for round in 0..rounds {
                    for contender in ["direct", "nginx"] {
                        let failed = (0..1000).filter(|_| random.unit() < 0.1).count() as u64;
                        let made = via(contender, round).status(500, failed);
                        run.push(made.body_bytes((1000 - failed) * 1024 + failed * 20));
                    }
                }
                // Analyses take most of the time.
                if number < 25 {
                    assert_eq!(raised(&run, CODE), [], "{rounds}");
                }
            }
        }
    }

    #[test]
    fn bodies_that_vary_or_are_compressed_may_be_as_long_as_before_the_first_trial() {
        let lengths = |gateway: u64, encoding: Option<&str>| hoptax_record::BodyLengths {
            target: "GET /".into(),
            direct: 1024,
            gateway,
            direct_encoding: None,
            gateway_encoding: encoding.map(str::to_owned),
        };
        let found = |under_load: u64, varies: bool, seen: Option<hoptax_record::BodyLengths>| {
            let mut run = Run::steady(3, 100, &[]);
            for round in 0..3 {
                run.push(via("mine", round).body_bytes(1000 * under_load));
            }
            run.record.plan.targets[0].varies = varies;
            let mine = run.record.contenders.iter_mut().find(|one| one.label == "mine").expect("pushed");
            mine.bodies.extend(seen);
            raised(&run, CODE)
        };
        // An echo service returns the headers that the gateway adds, so bodies via the gateway are longer.
        assert_eq!(found(1400, true, Some(lengths(1400, None))), []);
        assert_eq!(found(1000, true, None), [], "within 10 %");
        assert_eq!(found(300, false, Some(lengths(300, Some("gzip")))), [], "compressed as before");
        for (length, seen) in [(80, None), (80, Some(lengths(300, Some("gzip")))), (1400, None)] {
            let findings = found(length, true, seen);
            assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warning), "{length}");
            assert!(!findings[0].message.contains("were equal"), "{}", findings[0].message);
        }
        assert_eq!(found(80, false, None)[0].severity, Severity::Void, "bodies that do not vary");
    }

    #[test]
    fn not_raised_by_headers_that_were_added() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.trials.last_mut().expect("nginx").load_record.as_mut().expect("loaded").bytes.received *= 2;
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn bodies_of_streams_may_differ() {
        for (carrier, messages, bytes, expected) in [
            (Carrier::Events, 10, 1020 * 1000, 0),
            (Carrier::Events, 10, 500 * 1000, 1),
            (Carrier::Events, ENDLESS, 500 * 1000, 0),
            (Carrier::WebSocket, 10, 500 * 1000, 0),
        ] {
            let mut run = Run::closed(1).streams(carrier, messages);
            run.push(via("direct", 0).first()).push(via("nginx", 0).body_bytes(bytes));
            assert_eq!(raised(&run, CODE).len(), expected, "{carrier:?} {messages} {bytes}");
        }
    }
}
