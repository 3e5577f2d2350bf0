//! `logging-unequal`: gateways wrote different amounts of logs per request.

use super::{Finding, Rule, Severity, Subject, about_run, evidence};
use hoptax_plan::Feature;
use std::collections::BTreeMap;

const CODE: &str = "logging-unequal";
/// Smallest difference to report, in bytes per request. The formats of access logs differ by about this
/// number of bytes, and such a difference costs little. For a short request, nginx's combined format takes
/// about 90 bytes and HAProxy's httplog about 150 bytes.
const APART: f64 = 128.0;
/// Smallest number of bytes per request for which a gateway counts as logging its requests. No access log has
/// shorter lines.
const SILENT: f64 = 8.0;
/// Smallest total difference to report, in bytes. After the trial, a gateway may still have log lines in its
/// buffer. This limit is twice the size of a usual buffer (Envoy flushes at 64 KiB).
const BUFFERED: u64 = 128 << 10;

#[derive(Debug, Clone, Copy)]
struct Logged<'a> {
    gateway: &'a str,
    bytes: u64,
    per_request: f64,
}

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "the log volumes of two gateways at one load point differ by more than {APART} bytes per \
             request, or only one writes at least {SILENT} bytes of log per request. Gateways with the \
             feature `access-log` are compared only with each other"
        ),
        seen: "Writing logs takes time and CPU.",
        advice: "Set `access_log: off` or `access_log: file` in the plan, which packs obey, and configure \
                 external gateways in the same way.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // Gateways with the feature `access-log` are compared only with each other.
    let mut alike: BTreeMap<(usize, bool), Vec<Logged<'_>>> = BTreeMap::new();
    for (case, trials) in subject.measured() {
        // Built-in hops serve as references and have no access log.
        let kind = subject.run.contenders.iter().find(|contender| contender.label == case.gateway);
        if kind.is_some_and(|contender| contender.kind.starts_with("hop-")) {
            continue;
        }
        let logged: Vec<(u64, u64)> = trials
            .iter()
            .filter_map(|trial| Some((trial.record.gateway_log_bytes?, trial.load.lifetime.sent)))
            .collect();
        let (bytes, requests): (u64, u64) =
            logged.iter().fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        if requests > 0 {
            let per_request = bytes as f64 / requests as f64;
            let gateway = subject.gateway(&case.gateway);
            let asked = gateway.is_some_and(|gateway| gateway.features().contains(&Feature::AccessLog));
            alike.entry((case.load.index, asked)).or_default().push(Logged {
                gateway: &case.gateway,
                bytes,
                per_request,
            });
        }
    }
    // Reports only the load point with the largest difference.
    let widest = alike.values().filter_map(|logged| apart(logged)).max_by(|a, b| {
        let width = |(least, most): &(Logged<'_>, Logged<'_>)| most.per_request - least.per_request;
        width(a).total_cmp(&width(b))
    });
    widest.map(|(least, most)| finding(&least, &most)).into_iter().collect()
}

/// The gateways that wrote the least and the most. `None` if they do not differ enough.
fn apart<'a>(logged: &[Logged<'a>]) -> Option<(Logged<'a>, Logged<'a>)> {
    let by_size = |a: &&Logged<'_>, b: &&Logged<'_>| a.per_request.total_cmp(&b.per_request);
    let (least, most) = (logged.iter().min_by(by_size)?, logged.iter().max_by(by_size)?);
    let one_is_silent = least.per_request < SILENT && most.per_request >= SILENT;
    let differ = one_is_silent || most.per_request - least.per_request > APART;
    (differ && most.bytes - least.bytes.min(most.bytes) > BUFFERED).then_some((*least, *most))
}

fn finding(least: &Logged<'_>, most: &Logged<'_>) -> Finding {
    Finding {
        evidence: evidence([
            ("most", most.gateway.into()),
            ("most_bytes_per_request", most.per_request.into()),
            ("least", least.gateway.into()),
            ("least_bytes_per_request", least.per_request.into()),
        ]),
        message: format!(
            "{0} wrote {1:.0} bytes of log per request, and {2} wrote {3:.0} bytes. The tax of {0} includes \
             the cost of logging.",
            most.gateway, most.per_request, least.gateway, least.per_request
        ),
        advice: "Configure the same logging for all gateways (packs obey `access_log: off` and `access_log: \
                 file` in the plan). Read the logs in the directory `logs/` of the run: a gateway that logs \
                 a complaint for every request is misconfigured."
            .into(),
        ..about_run(CODE, Severity::Warning)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::features::gateway;

    fn logged(gateway: &str, bytes: u64) -> MadeTrial {
        let mut trial = via(gateway, 0);
        trial.0.gateway_log_bytes = Some(bytes);
        let load = trial.0.load_record.as_mut().expect("made with one");
        load.lifetime.sent = 10_000;
        trial
    }

    fn found(logs: &[(&str, u64)]) -> Vec<Finding> {
        let mut run = Run::closed(1);
        for (gateway, bytes) in logs {
            run.push(logged(gateway, *bytes));
        }
        raised(&run, CODE)
    }

    #[test]
    fn not_raised_by_the_feature_access_log() {
        let mut run = Run::closed(1);
        run.record.plan.gateways =
            vec![gateway("nginx", &[]), gateway("nginx.access-log", &[Feature::AccessLog])];
        run.push(logged("nginx", 0)).push(logged("nginx.access-log", 900_000));
        assert_eq!(raised(&run, CODE), []);
        run.record.plan.gateways.push(gateway("envoy.access-log", &[Feature::AccessLog]));
        run.push(logged("envoy.access-log", 0));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn raised_if_one_logs_more_than_formats_explain() {
        assert_eq!(found(&[("nginx", 900_000), ("haproxy", 4_000_000)]).len(), 1);
        assert_eq!(found(&[("nginx", 900_000), ("haproxy", 1_500_000)]), []);
        assert_eq!(found(&[("nginx", 100_000), ("haproxy", 0)]), [], "it may still be in a buffer");
        assert_eq!(found(&[("nginx", 900_000), ("hop-l7", 0)]), []);
        assert_eq!(found(&[("nginx", 900_000)]), []);
        let found = found(&[("nginx", 900_000), ("envoy", 400)]);
        assert_eq!(found.len(), 1);
        let evidence = &found[0].evidence;
        assert_eq!((&evidence["most"], &evidence["least"]), (&"nginx".into(), &"envoy".into()));
        assert_eq!(evidence["most_bytes_per_request"], 90.0);
    }
}
