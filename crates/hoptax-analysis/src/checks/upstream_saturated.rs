//! `upstream-saturated`: the upstream, not the gateway, may have been the limit.

use super::generator_saturated::LIMIT_OF_DIRECT;
use super::{Finding, Measured, Rule, Severity, Subject, about, connections, evidence, percent};
use crate::thresholds::BUSY;
use crate::{Case, Trial};
use hoptax_plan::Upstream;

const CODE: &str = "upstream-saturated";
/// Limit for the throughput via the gateway ÷ direct's throughput. From this ratio on, the gateway is not the
/// limit of a closed loop.
const AS_SLOW: f64 = 0.97;
/// Limit for the utilisation of the generator. Below this share, the generator was not the limit.
const EASY: f64 = 0.85;
/// Smallest ratio of connections for which two load points are compared.
const MORE: f64 = 2.0;
/// Limit for the growth of direct's throughput, as a factor. If the number of connections grows at least by
/// the factor [`MORE`] and the throughput grows by less than this limit, direct is at its limit.
const GROWTH: f64 = 1.1;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note in closed loops (which always reach some limit) for direct and for cases \
                   that do not concern the answer"
            .into(),
        when: format!(
            "an instance of the built-in upstream used more than {} of a CPU in a trial. Also raised in a \
             closed loop if the generator is not the limit, throughput via the gateway is at least {} of \
             direct's, and direct's is less than {} higher than at another load point with at most 1/{MORE} \
             of the connections",
            percent(BUSY),
            percent(AS_SLOW),
            percent(GROWTH - 1.0)
        ),
        seen: "All gateways look alike, or even \"faster than direct\", because each figure shows the \
               upstream's limit.",
        advice: "Give the upstream more `instances`, its own CPUs or a smaller body. Or give the load fewer \
                 connections or a lower rate.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|measured| saturated(subject, measured).or_else(|| as_slow(subject, measured)))
        .collect()
}

/// CPU use of the busiest instance. The upstream's CPU time is divided among the instances in proportion to
/// their requests.
fn busiest_instance(trial: &Trial<'_>, instances: u32) -> Option<f64> {
    let threads = trial.record.upstream.as_ref()?.cpu_ns as f64 / trial.load.measured_ns as f64;
    let by_instance = trial.record.ledger.as_ref().map_or(&[][..], |ledger| &ledger.by_instance);
    let requests: u64 = by_instance.iter().sum();
    let share = match by_instance.iter().max() {
        Some(most) if requests > 0 => *most as f64 / requests as f64,
        _ => 1.0 / f64::from(instances.max(1)),
    };
    Some(threads * share)
}

fn saturated(subject: &Subject<'_>, (case, trials): Measured<'_>) -> Option<Finding> {
    let Upstream::BuiltIn(upstream) = &subject.run.plan.upstream else { return None };
    let busy = trials.iter().filter_map(|trial| busiest_instance(trial, upstream.instances));
    let busy = busy.reduce(f64::max).filter(|busy| *busy > BUSY)?;
    let (severity, consequence) = match (case.is_direct(), case.load.is_open()) {
        (false, _) => (Severity::Warning, "The gateway may be able to handle more load"),
        (true, true) => (
            Severity::Warning,
            "Direct's response times are those of an overloaded upstream, and the tax is too small",
        ),
        (true, false) => (Severity::Note, LIMIT_OF_DIRECT),
    };
    Some(Finding {
        evidence: evidence([
            ("busiest_instance", busy.into()),
            ("instances", upstream.instances.into()),
            ("limit", BUSY.into()),
        ]),
        message: format!(
            "The upstream's busiest instance used {} of a CPU in a trial, so it may have been the limit. \
             {consequence}.",
            percent(busy)
        ),
        advice: "Give the upstream more `instances` and its own CPUs (`cpus:` in the plan). For response \
                 times, use an open loop at a rate well below the upstream's limit."
            .into(),
        ..about(CODE, severity, &case.case)
    })
}

/// Reports a gateway that is as fast as direct while direct is at its limit. In this case, the upstream is
/// the limit.
fn as_slow(subject: &Subject<'_>, (case, _): Measured<'_>) -> Option<Finding> {
    let ratio = case.tax.as_ref()?.throughput_ratio.as_ref()?.estimate.estimate;
    let (direct, _) = subject.direct(case.load.index)?;
    let easy = |case: &Case| {
        case.cpu.as_ref().and_then(|cpu| cpu.generator_utilisation).is_some_and(|share| share < EASY)
    };
    if case.load.is_open() || ratio < AS_SLOW || !easy(case) || !easy(direct) {
        return None;
    }
    let most = direct.throughput.as_ref()?.estimate.estimate;
    let fewer = subject.measured().filter(|(other, _)| {
        let (other, load) = (&other.load, &case.load);
        (!other.is_open()
            && other.http == load.http
            && other.requests_per_connection == load.requests_per_connection
            && other.retry == load.retry)
            && other.concurrency() as f64 * MORE <= load.concurrency() as f64
    });
    let (before, reached) = fewer
        .filter(|(other, _)| other.is_direct() && easy(other))
        .filter_map(|(other, _)| Some((&other.load, other.throughput.as_ref()?.estimate.estimate)))
        .find(|(_, reached)| most < reached * GROWTH)?;
    Some(Finding {
        evidence: evidence([
            ("throughput_ratio", ratio.into()),
            ("direct_throughput", most.into()),
            ("direct_throughput_before", reached.into()),
            ("connections", case.load.connections.into()),
            ("connections_before", before.connections.into()),
        ]),
        message: format!(
            "The upstream is the limit, so this case says nothing about the gateway. Throughput via the \
             gateway is {:.2} times the throughput of direct. Direct is hardly faster with {} \
             ({most:.0}/s) than with {} ({reached:.0}/s).",
            ratio,
            connections(&case.load),
            connections(before)
        ),
        advice: "Give the upstream more CPU or less work. Or compare CPU per request, or response times in \
                 an open loop."
            .into(),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn raised_by_a_saturated_instance() {
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first().upstream_cpu_ms(950));
        run.push(via("nginx", 0).upstream_cpu_ms(900)).push(via("haproxy", 0).upstream_cpu_ms(400));
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(
            findings.iter().map(|it| it.severity).collect::<Vec<_>>(),
            [Severity::Warning, Severity::Note]
        );
        assert_eq!(findings[0].evidence["busiest_instance"], 0.9);
        let mut open = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        open.push(via("direct", 0).first().upstream_cpu_ms(950));
        assert_eq!(raised(&open, CODE)[0].severity, Severity::Warning);
    }

    #[test]
    fn the_busiest_of_several_instances_counts() {
        let mut run = Run::closed(32);
        let Upstream::BuiltIn(upstream) = &mut run.record.plan.upstream else { panic!("made with ours") };
        upstream.instances = 2;
        run.push(via("even", 0).upstream_cpu_ms(1200).by_instance(&[500, 500]));
        assert_eq!(raised(&run, CODE), []);
        run.push(via("odd", 0).upstream_cpu_ms(1200).by_instance(&[900, 100]));
        assert_eq!(raised(&run, CODE).len(), 1);
    }

    #[test]
    fn raised_if_direct_stops_growing_and_the_gateway_is_as_fast() {
        let mut run = Run::with_load(vec![closed_point(4, 1), closed_point(32, 1)]);
        for round in 0..3 {
            for load in 0..2 {
                run.direct_trials(round, |trial| trial.at_load(load).throughput(1000 + u64::from(load) * 20));
            }
            run.push(via("alike", round).at_load(1).throughput(1010));
            run.push(via("slower", round).at_load(1).throughput(700));
        }
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["connections_before"], 4);
    }

    #[test]
    fn not_raised_by_a_slow_upstream() {
        // Each request takes 10 ms, and the gateway adds almost nothing. With eight connections, throughput
        // is eight times as high as with one connection.
        let mut run = Run::with_load(vec![closed_point(1, 1), closed_point(8, 1)]);
        for round in 0..3 {
            for (load, throughput) in [(0, 100), (1, 800)] {
                run.push(via("direct", round).first().at_load(load).throughput(throughput));
                run.push(via("nginx", round).at_load(load).throughput(throughput - 1));
                run.push(via("direct", round).last().at_load(load).throughput(throughput));
            }
        }
        assert_eq!(raised(&run, CODE), []);
    }
}
