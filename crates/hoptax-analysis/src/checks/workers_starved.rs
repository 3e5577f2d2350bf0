//! `workers-starved`: the load has so few connections that workers of the gateway got none.

use super::queued::{BUSY, gateway_busy};
use super::workers_unequal::is_compared;
use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::{Case, Trial};
use hoptax_plan::connections_in_words;
use hoptax_stats::median;

const CODE: &str = "workers-starved";
/// From this number of connections per worker on, chance leaves hardly any worker without a connection: if
/// each connection goes to one of W workers at random, a given worker gets none of 4 W connections with
/// probability (1 − 1/W)^(4 W) < e⁻⁴ = 1.8 %.
const PER_WORKER: u32 = 4;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "a closed loop with keep-alive has fewer than {PER_WORKER} connections per worker of a gateway, \
             and as many requests in flight as workers or more. Fewer threads of the gateway were busy than \
             it has workers and CPUs, and each of these used or waited for at least {} of a CPU (medians \
             over rounds)",
            percent(BUSY)
        ),
        seen: "A worker keeps the connections that it accepts. With 2 connections on 3 workers, Envoy \
               handled 10,000/s or 6,000/s, by chance (envoy#33707).",
        advice: "Use several connections per worker, or `workers: 1` for every gateway.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.gateways().filter_map(|measured| of_case(subject, measured)).collect()
}

/// Number of workers that the plan sets for the gateway of a case. `None` if the plan sets no number.
fn workers(subject: &Subject<'_>, case: &Case) -> Option<u32> {
    let contender = subject.run.contenders.iter().find(|contender| contender.label == case.gateway)?;
    contender.workers.filter(|_| is_compared(contender))
}

/// Number of the gateway's threads that were busy: the median over the trials, rounded up. `None` if a trial
/// does not have it.
pub(super) fn busy_threads(trials: &[Trial<'_>]) -> Option<u32> {
    let of = |trial: &Trial<'_>| trial.record.gateway.as_ref()?.busy_threads.map(f64::from);
    let busy: Vec<f64> = trials.iter().map(of).collect::<Option<_>>()?;
    Some(median(&busy)?.ceil() as u32)
}

/// Number of CPUs that the gateway may use. `None` if it is unknown.
fn cpus(trials: &[Trial<'_>]) -> Option<u32> {
    let of = |trial: &Trial<'_>| Some(trial.record.gateway.as_ref()?.cpus_allowed.len() as u32);
    trials.iter().filter_map(of).max().filter(|cpus| *cpus > 0)
}

fn of_case(subject: &Subject<'_>, (case, trials): Measured<'_>) -> Option<Finding> {
    let load = &case.load;
    let (workers, busy) = (workers(subject, case)?, busy_threads(trials)?);
    let is_about_workers = !load.is_open()
        && load.requests_per_connection.is_none()
        && u64::from(load.connections) < u64::from(PER_WORKER) * u64::from(workers)
        && load.concurrency() >= u64::from(workers);
    // A further worker helps only if there is a CPU for it.
    let useful = workers.min(cpus(trials).unwrap_or(workers));
    if !is_about_workers || busy == 0 || busy >= useful {
        return None;
    }
    let wanted: Vec<f64> = trials.iter().filter_map(gateway_busy).collect();
    let each = median(&wanted)? / f64::from(busy);
    if each < BUSY {
        return None;
    }
    let idle = workers - busy;
    let of_busy = match busy {
        1 => "The other one was".to_owned(),
        busy => format!("The other {busy} were each"),
    };
    Some(Finding {
        evidence: evidence([
            ("workers", workers.into()),
            ("idle_workers", idle.into()),
            ("busy_workers", busy.into()),
            ("connections", load.connections.into()),
            ("busy_each", each.into()),
            ("limit", BUSY.into()),
        ]),
        message: format!(
            "{idle} of the gateway's {workers} workers had nothing to do, because a worker keeps the \
             connections that it accepts, and the load has {}. {of_busy} busy for {} of the time. So the \
             throughput is that of {busy} worker{}, and not the gateway's maximum.",
            connections_in_words(load.connections, load.streams),
            percent(each.min(1.0)),
            if busy == 1 { "" } else { "s" }
        ),
        advice: format!(
            "Use at least {} connections, with fewer streams each, or `workers: 1` for every gateway.",
            u64::from(PER_WORKER) * u64::from(workers)
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "fewer than {} connections per worker, if busy workers" word(PER_WORKER);
    METHODOLOGY "used or waited for {} of a CPU" percent(BUSY);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::spec::HttpVersion;
    use hoptax_plan::LoadPoint;

    struct Made {
        load: LoadPoint,
        workers: u32,
        busy_threads: u32,
        /// CPU time of the gateway, as per cent of the measured time.
        used: u64,
        cpus: u32,
    }

    fn http2(connections: u32, streams: u32) -> LoadPoint {
        LoadPoint { http: HttpVersion::Http2, streams, ..closed_point(connections, 1) }
    }

    fn starved() -> Made {
        Made { load: http2(1, 32), workers: 4, busy_threads: 1, used: 93, cpus: 8 }
    }

    fn found(made: &Made) -> Vec<Finding> {
        let mut run = Run::with_load(vec![made.load.clone()]);
        for round in 0..3 {
            run.push(via("direct", round).first());
            // In one round, a helper thread was busy too.
            let helper = u32::from(round == 1);
            let mut trial = via("nginx", round).gateway_cpu_us(made.used * 10_000);
            let usage = trial.0.gateway.as_mut().expect("watched");
            usage.busy_threads = Some(made.busy_threads + helper);
            usage.cpus_allowed = (0..made.cpus).collect();
            run.push(trial);
        }
        run.record.contenders.last_mut().expect("pushed").workers = Some(made.workers);
        raised(&run, CODE)
    }

    #[test]
    fn raised_by_a_single_connection_for_four_workers() {
        let findings = found(&starved());
        assert_eq!(findings[0].evidence["idle_workers"], 3);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn raised_by_connections_that_share_workers() {
        // HTTP/1.1 too: two workers have all six connections.
        let findings = found(&Made { load: closed_point(6, 1), busy_threads: 2, used: 188, ..starved() });
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["idle_workers"], 2);
        assert!(findings[0].message.contains("94 %"), "{findings:?}");
    }

    #[test]
    fn not_raised_if_workers_are_busy_alone_or_have_enough_connections() {
        let not = |made: Made| assert_eq!(found(&made), []);
        not(Made { busy_threads: 4, used: 370, ..starved() });
        // The workers have time left: something else limits the throughput.
        not(Made { used: 60, ..starved() });
        // There is only one CPU for all workers, or only one worker.
        not(Made { cpus: 1, ..starved() });
        not(Made { workers: 1, ..starved() });
        let not = |load: LoadPoint| assert_eq!(found(&Made { load, ..starved() }), []);
        not(http2(16, 2));
        not(http2(1, 3));
        not(LoadPoint { http: HttpVersion::Http2, streams: 32, ..open_point(1000.0, 1, 1) });
        not(LoadPoint { requests_per_connection: Some(10), ..http2(1, 32) });
    }
}
