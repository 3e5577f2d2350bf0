//! `queued`: requests wait in the gateway although nobody is busy, because it limits its upstream
//! connections.

use super::{
    Finding, Measured, Rule, Severity, Subject, about, connections, evidence, most_in_flight, percent,
};
use crate::{Case, Trial};
use hoptax_format::spec::HttpVersion;
use hoptax_record::units::grouped;
use serde_json::json;

const CODE: &str = "queued";
/// Limit for the CPU time of a role, as a share of one CPU. Below it, the role is not busy.
pub(super) const BUSY: f64 = 0.7;
/// If the gateway's CPU time is unknown, the gateway counts as idle if at least this share of its host's CPU
/// time is idle.
const IDLE: f64 = 0.3;
/// Limit for the growth of the throughput between two loads, if the second has at least [`MORE`] times as
/// many connections.
const GROWTH: f64 = 1.1;
const MORE: f64 = 1.5;
/// Limit for the number of requests that are at the upstream at the same time, as a share of those in flight.
const FEW: f64 = 0.5;
/// Smallest service time of direct for this check, µs. With shorter service times, the number of requests at
/// the upstream depends on CPU times.
const LEAST_US: f64 = 500.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; note if only one number of connections was measured".into(),
        when: format!(
            "in a closed loop, direct's mean service time is at least {LEAST_US} µs, the gateway's \
             throughput × this time is less than {} of connections × streams (most requests wait in the \
             gateway), and no role is busy. Generator, upstream and gateway each use less than {} of a CPU, \
             including the gateway's waits for one. If the gateway's use is unknown, {} of the host must be \
             idle. It is a warning if throughput grows by less than {} while connections grow by {} or more, \
             and direct's throughput grows",
            percent(FEW),
            percent(BUSY),
            percent(IDLE),
            percent(GROWTH - 1.0),
            percent(MORE - 1.0)
        ),
        seen: "With `maxconn 16`, requests spent HAProxy's added time in its queue, and no CPU was busy.",
        advice: "Raise the gateway's limit of upstream connections: `maxconn` (HAProxy), `max_conns` \
                 (nginx), circuit breakers (Envoy), connections per host (Caddy). Or use fewer connections.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // The service time of a stream depends on its schedule, and not on the upstream's work.
    if subject.has_scheduled_streams() {
        return Vec::new();
    }
    subject.pairs().filter_map(|(via, direct)| of_case(subject, via, direct.0)).collect()
}

fn of_case(subject: &Subject<'_>, via: Measured<'_>, direct: &Case) -> Option<Finding> {
    let (case, trials) = via;
    if case.load.is_open() || !trials.iter().all(nobody_is_busy) {
        return None;
    }
    let throughput = |case: &Case| Some(case.throughput.as_ref()?.estimate.estimate);
    let (reached, most) = (throughput(case)?, throughput(direct)?);
    let concurrency = most_in_flight(case) as f64;
    // Little's law: requests in a place = rate × time in that place. The service time of direct is the time
    // at the upstream.
    let service_us = direct.service_time.as_ref()?.mean.as_ref()?.estimate;
    let with_upstream = reached * service_us / 1e6;
    if service_us < LEAST_US || with_upstream > FEW * concurrency {
        return None;
    }
    let before = subject.gateways().map(|(other, _)| other).filter(|other| {
        other.gateway == case.gateway
            && !other.load.is_open()
            && other.load.http == case.load.http
            && most_in_flight(other) as f64 * MORE <= concurrency
    });
    let before = before.max_by_key(|other| most_in_flight(other));
    let flat = before.filter(|other| throughput(other).is_some_and(|earlier| reached < GROWTH * earlier));
    let is_alone = || {
        let same = |other: &&Case| {
            other.gateway == case.gateway && !other.load.is_open() && other.load.http == case.load.http
        };
        let mut others = subject.gateways().map(|(other, _)| other).filter(same);
        others.all(|other| most_in_flight(other) == most_in_flight(case))
    };
    // Nothing is reported if throughput grew, or if only loads with more connections can show whether it
    // grows.
    if flat.is_none() && (before.is_some() || !is_alone()) {
        return None;
    }
    // Streams of HTTP/2 share connections.
    let is_http2 = case
        .ledger
        .as_ref()
        .is_some_and(|ledger| ledger.http_version.get("2").is_some_and(|count| 2 * count > ledger.requests));
    let (carriers, fewer) = match (is_http2, case.load.http) {
        (true, _) => ("streams to the upstream", "requests in flight"),
        (false, HttpVersion::Http2) => ("upstream connections", "requests in flight"),
        (false, _) => ("upstream connections", "connections"),
    };
    let since = flat.map_or_else(String::new, |one| format!(", as many as with {}", connections(&one.load)));
    Some(Finding {
        evidence: evidence([
            ("throughput", reached.into()),
            ("direct_throughput", most.into()),
            ("connections", case.load.connections.into()),
            ("fewer_connections", json!(flat.map(|other| other.load.connections))),
            ("direct_service_time_us", service_us.into()),
            ("with_upstream", with_upstream.into()),
            ("gateway_busy", json!(trials.iter().filter_map(gateway_busy).reduce(f64::max))),
        ]),
        message: format!(
            "Requests wait in the gateway although no role is busy. The gateway handles {}/s with \
             {}{since}; direct handles {}/s. About {with_upstream:.0} requests are at the upstream \
             at a time (throughput × direct's service time). So the gateway seems to allow about \
             {with_upstream:.0} {carriers}, or waits for something else.",
            grouped(reached.round()),
            connections(&case.load),
            grouped(most.round())
        ),
        advice: format!(
            "Raise the gateway's limit of {carriers}: `maxconn` (HAProxy), `max_conns` (nginx), circuit \
             breakers (Envoy), connections per host (Caddy). Or use fewer {fewer} than this limit, so that \
             requests do not wait in its queue."
        ),
        ..about(CODE, if flat.is_some() { Severity::Warning } else { Severity::Note }, &case.case)
    })
}

/// The gateway's time on a CPU and its time of waiting for one, as a share of one CPU.
pub(super) fn gateway_busy(trial: &Trial<'_>) -> Option<f64> {
    let usage = trial.record.gateway.as_ref()?;
    Some((usage.cpu_ns + usage.waiting_ns.unwrap_or(0)) as f64 / trial.load.measured_ns as f64)
}

/// Whether generator and upstream rarely used a CPU, and the gateway rarely used one or waited for one.
fn nobody_is_busy(trial: &Trial<'_>) -> bool {
    let upstream = trial.record.upstream.as_ref().map(|usage| usage.cpu_ns);
    let upstream = upstream.map_or(0.0, |used| used as f64 / trial.load.measured_ns as f64);
    let gateway_is_idle = match gateway_busy(trial) {
        Some(busy) => busy < BUSY,
        None => trial.record.host.idle >= IDLE,
    };
    trial.generator_utilisation() < BUSY && upstream < BUSY && gateway_is_idle
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::Carrier;
    use hoptax_format::record::Http2Tally;
    use hoptax_plan::LoadPoint;

    /// A run with 32 and with 128 connections. The upstream takes 5 ms. The throughput of the gateway is
    /// given for both.
    fn found(of_gateway: [u64; 2], busy_ms: u64) -> Vec<Finding> {
        let mut run = Run::with_load(vec![closed_point(32, 1), closed_point(128, 1)]);
        for (load, connections) in [(0, 32), (1, 128)] {
            let direct = via("direct", 0).first().at_load(load).all_at_us(5000);
            run.push(direct.throughput(connections * 200).generator_busy(20));
            let mine = via("mine", 0).at_load(load).all_at_us(9000).throughput(of_gateway[load as usize]);
            run.push(mine.generator_busy(20).gateway_cpu_us(busy_ms * 1000));
        }
        raised(&run, CODE)
    }

    #[test]
    fn raised_by_throughput_that_does_not_grow_while_nobody_is_busy() {
        insta::assert_snapshot!(texts(&found([3200, 3200], 100)));
    }

    #[test]
    fn a_single_number_of_connections_is_a_note_unless_others_keep_the_cpus_busy() {
        let mut run = Run::closed(128);
        run.push(via("direct", 0).first().all_at_us(5000).throughput(25_600).generator_busy(20));
        run.push(via("mine", 0).all_at_us(40_000).throughput(3200).generator_busy(20));
        let findings = raised(&run, CODE);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Note), "{findings:#?}");
        for (waits, expected) in [(1000, 1), (700_000, 0)] {
            let mut run = Run::closed(128);
            run.push(via("direct", 0).first().all_at_us(5000).throughput(25_600).generator_busy(20));
            let mine = via("mine", 0).all_at_us(40_000).throughput(3200).generator_busy(20);
            run.push(mine.gateway_cpu_us(200_000).gateway_waits_us(waits));
            assert_eq!(raised(&run, CODE).len(), expected, "{waits}");
        }
    }

    #[test]
    fn a_limit_to_an_upstream_with_http2_is_one_of_streams() {
        let mut run = Run::closed(128);
        run.push(via("direct", 0).first().all_at_us(5000).throughput(25_600).generator_busy(20));
        let mine = via("mine", 0).all_at_us(40_000).throughput(3200).generator_busy(20);
        run.push(mine.upstream_versions(&[("2", 3200)]));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_if_somebody_is_busy_throughput_grows_or_streams_take_long() {
        assert_eq!(found([3200, 3200], 950), [], "the gateway is busy");
        assert_eq!(found([3200, 12_000], 100), [], "it grows");
        assert_eq!(found([6000, 25_000], 100), [], "as direct does");
        let mut run = Run::closed(128).streams(Carrier::Events, 10);
        run.push(via("direct", 0).first().all_at_us(5000).throughput(25_600).generator_busy(20));
        run.push(via("mine", 0).all_at_us(40_000).throughput(3200).generator_busy(20));
        assert_eq!(raised(&run, CODE), [], "streams");
    }

    #[test]
    fn not_raised_by_a_limit_of_streams() {
        for (stream_limit, expected) in [(None, 1), (Some(1), 0)] {
            let point = LoadPoint { http: HttpVersion::Http2, streams: 32, ..closed_point(4, 1) };
            let mut run = Run::with_load(vec![point]);
            run.push(via("direct", 0).first().all_at_us(5000).throughput(25_600).generator_busy(20));
            let tally = Http2Tally { stream_limit, ..Http2Tally::default() };
            run.push(via("mine", 0).all_at_us(5000).throughput(700).generator_busy(20).http2(tally));
            assert_eq!(raised(&run, CODE).len(), expected, "{stream_limit:?}");
        }
    }
}
