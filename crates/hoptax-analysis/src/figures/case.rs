//! Cases: all valid trials of a contender at a load point.

use crate::figures::latency::{latency, of_histograms};
use crate::figures::throughput::{rate, throughput};
use crate::figures::{events, series};
use crate::trials::counts::{failures, sum_counts};
use crate::trials::trial::Trial;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{empty_of_counts, spread};
use hoptax_format::llm::TokenCounts;
use hoptax_format::messages::MessageCounts;
use hoptax_format::record::{Http2Tally, LoadRecord, TlsTally};
use hoptax_record::Times;
use hoptax_record::report::{
    Bytes, Case, Connections, Cpu, Latency, Ledger, Load, Memory, MessageTimes, Messages, Spread, Tls,
    Tokens, Waits,
};
use hoptax_stats::share;
use std::collections::BTreeMap;

fn tls(trials: &[Trial<'_>]) -> Option<Tls> {
    fn add(sum: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
        for (name, count) in more {
            *sum.entry(name.clone()).or_default() += count;
        }
    }
    let mut tally: Option<TlsTally> = None;
    for one in trials.iter().filter_map(|trial| trial.load.tls.as_ref()) {
        let sum = tally.get_or_insert_default();
        sum.handshakes += one.handshakes;
        sum.resumed += one.resumed;
        add(&mut sum.versions, &one.versions);
        add(&mut sum.cipher_suites, &one.cipher_suites);
        add(&mut sum.alpn, &one.alpn);
    }
    Some(Tls { tally: tally?, handshake: latency(trials, |trial| trial.tls_handshake.as_ref()) })
}

/// Computes a case from its valid trials. Tax and findings need other cases, so they are added later.
pub(crate) fn case(gateway: &str, load: &Load, trials: &[Trial<'_>]) -> Case {
    if trials.is_empty() {
        return unmeasured(gateway, load);
    }
    let counts = sum_counts(trials);
    Case {
        trials: trials.len() as u32,
        throughput: throughput(trials),
        response_time: Some(latency(trials, |trial| Some(&trial.response_time))),
        service_time: Some(latency(trials, |trial| Some(&trial.service_time))),
        send_lag: Some(latency(trials, |trial| Some(&trial.send_lag))),
        wait: waits(trials),
        first_byte: Some(latency(trials, |trial| Some(&trial.first_byte))),
        connect: Some(latency(trials, |trial| Some(&trial.connect))),
        tls: tls(trials),
        connections: Some(connections(trials, counts.sent)),
        http2: http2(trials),
        messages: messages(trials),
        message: message_times(trials),
        bytes: Some(bytes(trials)),
        cpu: Some(cpu(trials)),
        memory: Some(memory(trials)),
        ledger: ledger(trials),
        counts: Some(counts),
        events: events::figures(trials),
        series: trials.iter().map(series::series).collect(),
        curve: series::curve(trials),
        ..unmeasured(gateway, load)
    }
}

fn unmeasured(gateway: &str, load: &Load) -> Case {
    Case {
        case: format!("{gateway}, {}", load.label),
        gateway: gateway.to_string(),
        load: load.clone(),
        ..Case::default()
    }
}

/// Errors and timeouts ÷ scheduled requests. Absent if no request was scheduled.
pub fn error_share(case: &Case) -> Option<f64> {
    let counts = case.counts.as_ref()?;
    share(failures(counts) as f64, counts.scheduled as f64)
}

fn completed_in_time(trials: &[Trial<'_>]) -> f64 {
    trials.iter().map(|trial| trial.load.completed_in_time).sum::<u64>() as f64
}

fn connections(trials: &[Trial<'_>], requests_sent: u64) -> Connections {
    let all = || trials.iter().map(|trial| &trial.load.connections);
    let opened = all().map(|one| one.opened).sum();
    Connections {
        asked: all().map(|one| one.asked).max().unwrap_or(0),
        established: all().map(|one| one.established).min().unwrap_or(0),
        opened,
        reused: all().map(|one| one.reused).sum(),
        closed_by_peer: all().map(|one| one.closed_by_peer).sum(),
        per_request: share(opened as f64, requests_sent as f64),
        responses: responses(trials.iter().map(|trial| trial.load))
            .as_ref()
            .and_then(spread)
            .map(Spread::from),
        unanswered: trials.iter().map(|trial| Some(trial.load.occupancy.as_ref()?.unanswered)).sum(),
    }
}

/// The waits, if every trial recorded them.
fn waits(trials: &[Trial<'_>]) -> Option<Waits> {
    let has_all = |trial: &Trial<'_>| {
        trial.connection_wait.is_some() && trial.stream_wait.is_some() && trial.window_wait.is_some()
    };
    trials.iter().all(has_all).then(|| Waits {
        connection: latency(trials, |trial| trial.connection_wait.as_ref()),
        stream: latency(trials, |trial| trial.stream_wait.as_ref()),
        window: latency(trials, |trial| trial.window_wait.as_ref()),
    })
}

fn http2(trials: &[Trial<'_>]) -> Option<Http2Tally> {
    let mut sum: Option<Http2Tally> = None;
    for tally in trials.iter().filter_map(|trial| trial.load.http2.as_ref()) {
        sum.get_or_insert_default().add(tally);
    }
    sum
}

fn messages(trials: &[Trial<'_>]) -> Option<Messages> {
    let mut sum: Option<MessageCounts> = None;
    for record in trials.iter().filter_map(|trial| trial.load.messages.as_ref()) {
        sum.get_or_insert_default().add(&record.counts);
    }
    Some(Messages { counts: sum?, tokens: tokens(trials) })
}

/// Streams of tokens. `None` if there are none.
fn tokens(trials: &[Trial<'_>]) -> Option<Tokens> {
    fn of(trial: &Trial<'_>) -> Option<TokenCounts> {
        Some(trial.load.messages.as_ref()?.tokens.as_ref()?.counts)
    }
    let mut sum: Option<TokenCounts> = None;
    for counts in trials.iter().filter_map(of) {
        sum.get_or_insert_default().add(&counts);
    }
    let received = |trial: &Trial<'_>| trial.load.messages.as_ref().map_or(0, |one| one.counts.received);
    let streams = |trial: &Trial<'_>| of(trial).map_or(0, |counts| counts.ended + counts.left);
    let good = |trial: &Trial<'_>| of(trial).and_then(|counts| counts.good).unwrap_or(0);
    let counts = sum?;
    Some(Tokens {
        counts,
        tokens_per_second: rate(trials, "tokens/s", received),
        streams_per_second: rate(trials, "streams/s", streams),
        good_per_second: counts.good.and_then(|_| rate(trials, "requests/s", good)),
    })
}

/// Times of messages. Absent without streams.
fn message_times(trials: &[Trial<'_>]) -> Option<MessageTimes> {
    let of = |times: Times| -> Option<Latency> {
        let held = trials.iter().filter_map(|trial| Some((trial.round(), trial.times(times)?)));
        let held: Vec<_> = held.collect();
        (!held.is_empty()).then(|| of_histograms(&held))
    };
    trials.iter().any(|trial| trial.messages.is_some()).then(|| MessageTimes {
        response_time: of(Times::Message),
        first_message: of(Times::FirstMessage),
        age: of(Times::Age),
        gap: of(Times::Gap),
        headers: of(Times::Headers),
        reach: of(Times::Reach),
        first_event: of(Times::FirstEvent),
        first_age: of(Times::FirstAge),
        token_time: of(Times::TokenTime),
    })
}

/// Distribution of the number of responses per connection, over all trials. Absent if the record of a trial
/// lacks it.
pub(crate) fn responses<'a>(trials: impl Iterator<Item = &'a LoadRecord>) -> Option<Histogram<u64>> {
    let mut sum = empty_of_counts();
    for load in trials {
        // The histogram of another program can have another range of values, and then cannot be added.
        sum.add(load.occupancy.as_ref()?.responses.decode().ok()?).ok()?;
    }
    Some(sum)
}

fn bytes(trials: &[Trial<'_>]) -> Bytes {
    let received = trials.iter().map(|trial| trial.load.bytes.received).sum();
    Bytes {
        sent: trials.iter().map(|trial| trial.load.bytes.sent).sum(),
        received,
        per_response: share(received as f64, completed_in_time(trials)),
    }
}

fn cpu(trials: &[Trial<'_>]) -> Cpu {
    let per_request = |used: Option<u64>| share(used? as f64 / 1e3, completed_in_time(trials));
    Cpu {
        gateway_us_per_request: per_request(
            trials.iter().map(|trial| Some(trial.record.gateway.as_ref()?.cpu_ns)).sum(),
        ),
        generator_us_per_request: per_request(Some(trials.iter().map(|trial| trial.load.cpu.used_ns).sum())),
        upstream_us_per_request: per_request(
            trials.iter().map(|trial| Some(trial.record.upstream.as_ref()?.cpu_ns)).sum(),
        ),
        generator_utilisation: trials.iter().map(Trial::generator_utilisation).reduce(f64::max),
    }
}

fn memory(trials: &[Trial<'_>]) -> Memory {
    let gateways = || trials.iter().filter_map(|trial| trial.record.gateway.as_ref());
    Memory {
        gateway_rss_bytes_max: gateways().map(|usage| usage.rss_bytes_max).max(),
        gateway_pss_bytes_max: gateways().filter_map(|usage| usage.pss_bytes_max).max(),
    }
}

fn ledger(trials: &[Trial<'_>]) -> Option<Ledger> {
    let (mut requests, mut connections, mut sent) = (0, Some(0), 0);
    let mut http_version = BTreeMap::new();
    let mut by_instance = Vec::new();
    for trial in trials {
        let delta = trial.record.ledger.as_ref()?;
        requests += delta.requests;
        connections = connections.filter(|_| !delta.requests_only).map(|sum| sum + delta.connections);
        sent += trial.load.lifetime.sent;
        for (version, count) in &delta.http_version {
            *http_version.entry(version.clone()).or_default() += count;
        }
        by_instance.resize(by_instance.len().max(delta.by_instance.len()), 0);
        for (sum, count) in by_instance.iter_mut().zip(&delta.by_instance) {
            *sum += count;
        }
    }
    Some(Ledger {
        requests_per_request: share(requests as f64, sent as f64),
        connections_per_request: connections.and_then(|sum: u64| share(sum as f64, sent as f64)),
        http_version,
        by_instance,
        requests,
        sent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, via};
    use hoptax_record::report::Throughput;

    #[test]
    fn percentiles_come_from_merged_histograms() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        // 1,000 samples at 100 µs and 1,000 samples at 300 µs. The p90 of the merged samples is 300 µs. The
        // mean of the two p90s would be 200 µs.
        run.push(via("nginx", 0).all_at_us(100)).push(via("nginx", 1).all_at_us(300));
        let analysis = run.analyse();
        let response = analysis.case("nginx", 0).expect("measured").response_time.clone().expect("measured");
        let p90 = response.p90.expect("samples");
        assert!((p90.estimate - 300.0).abs() < 0.5, "{p90:?}");
        assert_eq!((p90.trials, p90.low), (2, Some(0.0)));
        assert_eq!(response.samples, 2000);
    }

    #[test]
    fn sums_and_shares_by_hand() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        run.push(via("nginx", 0).all_at_us(100).gateway_cpu_us(10_000).errors(10));
        run.push(via("nginx", 1).all_at_us(100).gateway_cpu_us(30_000).status(503, 100));
        let analysis = run.analyse();
        let case = analysis.case("nginx", 0).expect("measured");
        assert_eq!(case.cpu.as_ref().expect("measured").gateway_us_per_request, Some(20.0));
        let counts = case.counts.as_ref().expect("measured");
        assert_eq!((counts.scheduled, counts.completed, counts.ok, counts.resets), (2010, 2000, 1900, 10));
        assert_eq!(counts.status, BTreeMap::from([(200, 1900), (503, 100)]));
        assert_eq!(error_share(case), Some(10.0 / 2010.0));
    }

    #[test]
    fn messages_are_summed_and_their_times_merged() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        let lossy = via("nginx", 0).both_ways_us(100, 1000).message_counts(|counts| counts.lost = 3);
        run.push(lossy).push(via("nginx", 1).both_ways_us(300, 1000));
        let analysis = run.analyse();
        let case = analysis.case("nginx", 0).expect("measured");
        let counts = case.messages.as_ref().expect("streams");
        assert_eq!((counts.sent, counts.received, counts.lost), (20_000, 20_000, 3));
        let times = case.message.as_ref().expect("streams");
        let response_time = times.response_time.as_ref().expect("both sides send");
        assert!((response_time.p90.expect("samples").estimate - 300.0).abs() < 0.5, "{response_time:?}");
        assert_eq!(response_time.samples, 20_000);
        assert_eq!(times.first_message.as_ref().map(|times| times.samples), Some(2000));
        assert_eq!(times.gap.as_ref().map(|times| times.samples), Some(18_000));
        assert_eq!(times.age, None);
        let direct = analysis.case("direct", 0).expect("measured");
        assert!(direct.messages.is_none() && direct.message.is_none());
    }

    #[test]
    fn streams_of_tokens_have_numbers_and_rates() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        for round in 0..2 {
            let trial = via("nginx", round).server_stream_us(100, 1000).tokens_us([300, 120, 1000], 10);
            run.push(trial.token_counts(|counts| counts.good = Some(500)));
        }
        let analysis = run.analyse();
        let case = analysis.case("nginx", 0).expect("measured");
        let tokens = case.messages.as_ref().and_then(|one| one.tokens.as_ref()).expect("tokens");
        assert_eq!((tokens.counts.ended, tokens.counts.other_events), (2000, 6000));
        let rate = |rate: &Option<Throughput>| rate.as_ref().expect("measured").estimate.estimate;
        let ratio = rate(&tokens.tokens_per_second) / rate(&tokens.streams_per_second);
        assert!((ratio - 10.0).abs() < 1e-9, "{ratio}");
        let good = rate(&tokens.good_per_second) / rate(&tokens.streams_per_second);
        assert!((good - 0.5).abs() < 1e-9 && tokens.counts.good == Some(1000), "{good}");
        let first = case.message.as_ref().and_then(|times| times.first_event.as_ref()).expect("tokens");
        assert_eq!((first.samples, first.p50.expect("samples").estimate.round()), (2000, 300.0));
        let json = serde_json::to_value(case).expect("plain data");
        let streams = &json["messages"]["tokens"];
        assert_eq!(streams["left"], 0);
        assert_eq!(streams["tokens_per_second"]["unit"], "tokens/s");
        assert_eq!(json["messages"]["received"], 20_000);
    }

    #[test]
    fn handshakes_are_counted_if_there_are_any() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        run.push(via("nginx", 0).tls(30, 10, 900)).push(via("nginx", 1).tls(10, 0, 900));
        let analysis = run.analyse();
        let tls = analysis.case("nginx", 0).expect("measured").tls.clone().expect("there were handshakes");
        assert_eq!((tls.tally.handshakes, tls.tally.resumed), (40, 10));
        assert_eq!(tls.tally.versions, BTreeMap::from([("TLSv1.3".into(), 40)]));
        assert!((tls.handshake.p50.expect("samples").estimate - 900.0).abs() < 1.0);
        assert_eq!(tls.handshake.samples, 40);
        assert_eq!(analysis.case("direct", 0).expect("measured").tls, None);
    }

    #[test]
    fn http2_is_summed_and_its_waits_are_split() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        let tally =
            Http2Tally { stream_limit: Some(100), most_streams: 8, goaways: 2, ..Http2Tally::default() };
        let other = Http2Tally { stream_limit: None, most_streams: 9, goaways: 1, ..tally };
        run.push(via("nginx", 0).http2(tally).waits_us(10, 20, 30));
        run.push(via("nginx", 1).http2(other).waits_us(10, 20, 30));
        let analysis = run.analyse();
        let case = analysis.case("nginx", 0).expect("measured");
        let expected = Http2Tally { most_streams: 9, goaways: 3, ..tally };
        assert_eq!(case.http2, Some(expected));
        let wait = case.wait.clone().expect("recorded");
        let p50 = [wait.connection, wait.stream, wait.window].map(|one| one.p50.expect("samples").estimate);
        assert_eq!(p50.map(f64::round), [10.0, 20.0, 30.0]);
        let direct = analysis.case("direct", 0).expect("measured");
        assert_eq!((direct.http2, direct.wait.is_none()), (None, true));
    }

    #[test]
    fn causes_and_failed_checks_are_summed() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).errors(3).failed_check("status 503", 2)).push(via("nginx", 1).errors(4));
        let analysis = run.analyse();
        let counts = analysis.case("nginx", 0).expect("measured").counts.clone().expect("measured");
        assert_eq!(counts.causes.values().sum::<u64>(), 7);
        assert_eq!(counts.failed_checks["status 503"], 2);
    }
}
