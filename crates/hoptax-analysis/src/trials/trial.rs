//! A valid trial, with the histograms of its record decoded.
//!
//! The values that a tax is computed from (requests completed, measured time, response times, gateway CPU
//! time) are separate fields, so that the same code works for whole trials and for quiet windows.

use hdrhistogram::Histogram;
use hoptax_format::clock::SECOND;
use hoptax_format::histogram::{DecodeError, Encoded, LOWEST};
use hoptax_format::messages::MessagesRecord;
use hoptax_format::record::{LoadRecord, TargetRecord, WINDOW_NS};
use hoptax_record::report::MessageTimes;
use hoptax_record::{DirectTrial, Failure, Metric, Stage, Times, TrialRecord};
use hoptax_stats::{Statistic, share};

/// A trial that did not fail.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The record that the trial was read from.
    pub record: &'a TrialRecord,
    /// The generator's record.
    pub load: &'a LoadRecord,
    /// Number of requests completed in the covered time.
    pub completed: u64,
    /// The covered time, ns: the whole measured time, or only its quiet windows. It is never zero.
    pub measured_ns: u64,
    /// CPU time of the gateway in the covered time, ns. Absent if it was not recorded.
    pub gateway_cpu_ns: Option<u64>,
    /// Response times (completed − scheduled), ns.
    pub response_time: Histogram<u64>,
    /// Service times (completed − sent), ns.
    pub service_time: Histogram<u64>,
    /// Send lags (sent − scheduled), ns.
    pub send_lag: Histogram<u64>,
    /// Parts of the send lags: the waits for a connection and for a stream, ns. Absent for HTTP/1, or if the
    /// histogram cannot be read.
    pub connection_wait: Option<Histogram<u64>>,
    /// See `connection_wait`.
    pub stream_wait: Option<Histogram<u64>>,
    /// Times until the flow-control window had room for a request's whole body, ns. Absent as
    /// `connection_wait`.
    pub window_wait: Option<Histogram<u64>>,
    /// Times to the first byte of the answer (first byte − sent), ns.
    pub first_byte: Histogram<u64>,
    /// Time to establish each connection, ns.
    pub connect: Histogram<u64>,
    /// Duration of each TLS handshake, ns. Absent without TLS.
    pub tls_handshake: Option<Histogram<u64>>,
    /// Times on the request path (received by the upstream − sent), ns. Absent without timestamps, or if the
    /// histogram cannot be read.
    pub request_path: Option<Histogram<u64>>,
    /// Times on the response path (completed − replied by the upstream), ns. Absent without timestamps, or if
    /// the histogram cannot be read.
    pub response_path: Option<Histogram<u64>>,
    /// Messages of streams. Absent without streams, and for quiet windows, because they are not recorded by
    /// window.
    pub messages: Option<MessageTrial>,
    /// The targets of a mix.
    pub targets: Vec<TargetTrial<'a>>,
}

/// Messages of streams in one trial.
#[derive(Debug)]
pub struct MessageTrial {
    /// Number of messages that were due in the measured time, sent and received. Absent if the load also had
    /// requests without streams, because the gateway's CPU time includes these.
    pub messages: Option<u64>,
    /// Time in which streams were open in the measured time, summed over the streams, s. Absent as `messages`
    /// is, if it is zero, and in older records.
    pub stream_seconds: Option<f64>,
    /// Times, ns. Each histogram is absent if it is empty or cannot be read.
    pub times: MessageTimes<Histogram<u64>>,
}

impl MessageTrial {
    fn read(record: &MessagesRecord, load: &LoadRecord) -> Self {
        let held = |encoded: &Encoded| encoded.decode().ok().filter(|times| !times.is_empty());
        let (counts, histograms) = (&record.counts, &record.histograms);
        let open_ns = match &load.http2 {
            Some(http2) => http2.stream_ns,
            None => load.occupancy.as_ref().map_or(0, |occupancy| occupancy.busy_ns),
        };
        let tokens = record.tokens.as_ref().map(|tokens| &tokens.histograms);
        Self {
            stream_seconds: Some(open_ns as f64 / SECOND as f64).filter(|open| !record.mixed && *open > 0.0),
            messages: (!record.mixed).then_some(counts.sent + counts.received),
            times: MessageTimes {
                response_time: held(&histograms.response_time),
                first_message: held(&histograms.first_message),
                age: held(&histograms.age),
                gap: held(&histograms.gap),
                headers: histograms.headers.as_ref().and_then(held),
                reach: histograms.reach.as_ref().and_then(held),
                first_event: tokens.and_then(|tokens| held(&tokens.first_event)),
                first_age: tokens.and_then(|tokens| held(&tokens.first_age)),
                token_time: tokens.and_then(|tokens| held(&tokens.per_token)),
            },
        }
    }
}

/// A target of a mix in one trial.
#[derive(Debug)]
pub struct TargetTrial<'a> {
    /// The record that the figures were read from.
    pub record: &'a TargetRecord,
    /// Response times (completed − scheduled), ns.
    pub response_time: Histogram<u64>,
    /// Service times (completed − sent), ns.
    pub service_time: Histogram<u64>,
}

impl<'a> Trial<'a> {
    /// Reads a record.
    ///
    /// # Errors
    /// The trial's own failure, or an error that says what is missing from its record.
    pub fn read(record: &'a TrialRecord) -> Result<Self, Failure> {
        if let Some(failure) = &record.failed {
            return Err(failure.clone());
        }
        let load =
            record.load_record.as_ref().ok_or_else(|| unreadable("the generator left no record", ""))?;
        if load.measured_ns == 0 {
            return Err(unreadable("the trial ended before its measured time began", ""));
        }
        let decode = |name: &str, encoded: &Encoded| {
            encoded.decode().map_err(|error: DecodeError| {
                unreadable(&format!("its {name} histogram cannot be read"), &error.to_string())
            })
        };
        let target = |record: &'a TargetRecord| {
            Ok(TargetTrial {
                record,
                response_time: decode("response time", &record.response_time)?,
                service_time: decode("service time", &record.service_time)?,
            })
        };
        let handshake = load.histograms.tls_handshake.as_ref();
        let way = |encoded: &Option<Encoded>| encoded.as_ref().and_then(|encoded| encoded.decode().ok());
        Ok(Self {
            record,
            load,
            completed: load.completed_in_time,
            measured_ns: load.measured_ns,
            gateway_cpu_ns: record.gateway.as_ref().map(|gateway| gateway.cpu_ns),
            first_byte: decode("first byte", &load.histograms.first_byte)?,
            connect: decode("connect", &load.histograms.connect)?,
            tls_handshake: handshake.map(|handshake| decode("TLS handshake", handshake)).transpose()?,
            connection_wait: way(&load.histograms.connection_wait),
            stream_wait: way(&load.histograms.stream_wait),
            window_wait: way(&load.histograms.window_wait),
            request_path: way(&load.histograms.request_path),
            response_path: way(&load.histograms.response_path),
            messages: load.messages.as_ref().map(|record| MessageTrial::read(record, load)),
            targets: load.targets.iter().map(target).collect::<Result<_, Failure>>()?,
            response_time: decode("response time", &load.histograms.response_time)?,
            service_time: decode("service time", &load.histograms.service_time)?,
            send_lag: decode("send lag", &load.histograms.send_lag)?,
        })
    }

    /// The same trial, but with only these requests and this time. All other figures are empty.
    pub(crate) fn part(&self, completed: u64, measured_ns: u64, response_time: Histogram<u64>) -> Self {
        let nothing = || {
            Histogram::new_with_bounds(LOWEST, 2 * LOWEST, 1)
                .expect("the bounds are constants that the crate accepts")
        };
        Self {
            record: self.record,
            load: self.load,
            completed,
            measured_ns,
            gateway_cpu_ns: None,
            response_time,
            service_time: nothing(),
            send_lag: nothing(),
            first_byte: nothing(),
            connect: nothing(),
            tls_handshake: None,
            connection_wait: None,
            stream_wait: None,
            window_wait: None,
            request_path: None,
            response_path: None,
            messages: None,
            targets: Vec::new(),
        }
    }

    /// The figures of one target of a mix.
    pub fn target(&self, name: &str) -> Option<&TargetTrial<'a>> {
        self.targets.iter().find(|target| target.record.name == name)
    }

    /// The round, counted from 0.
    pub fn round(&self) -> u32 {
        self.record.round
    }

    /// Whether this is the first or the last direct trial of the round. Absent for gateways.
    pub fn direct(&self) -> Option<DirectTrial> {
        self.record.direct
    }

    /// The covered time, s. It is never zero.
    pub fn seconds(&self) -> f64 {
        self.measured_ns as f64 / SECOND as f64
    }

    /// Completed requests per second of the covered time.
    pub fn throughput(&self) -> f64 {
        self.completed as f64 / self.seconds()
    }

    /// The histogram of these times. Absent if none were recorded.
    pub fn times(&self, times: Times) -> Option<&Histogram<u64>> {
        match times {
            Times::Response => Some(&self.response_time),
            Times::FirstByte => Some(&self.first_byte).filter(|times| !times.is_empty()),
            of_messages => self.messages.as_ref()?.times.times(of_messages),
        }
    }

    /// A figure of the response times, µs.
    pub fn response_time_us(&self, statistic: Statistic) -> Option<f64> {
        statistic.of(&self.response_time)
    }

    /// CPU time of the gateway, µs, and the number that a metric of CPU time divides it by: completed
    /// requests; messages due, in both directions; or open streams × seconds. Absent for other metrics, and
    /// if one of the two was not recorded. Numbers for streams are also absent if there were other requests.
    pub(crate) fn gateway_us_and_divisor(&self, metric: Metric) -> Option<(f64, f64)> {
        let divisor = match metric {
            Metric::CpuUsPerRequest => self.completed as f64,
            Metric::CpuUsPerMessage => self.messages.as_ref()?.messages? as f64,
            Metric::CpuUsPerStreamSecond => self.messages.as_ref()?.stream_seconds?,
            _ => return None,
        };
        Some((self.gateway_cpu_ns? as f64 / 1e3, divisor))
    }

    /// Upstream requests ÷ requests sent − 1, including warm-up. All sent requests count, not only completed
    /// requests, because a request that timed out may have reached the upstream too. A request that the
    /// generator sent again counts once: if the upstream received both attempts, one of them is extra.
    pub fn extra_upstream_requests(&self) -> Option<f64> {
        let ledger = self.record.ledger.as_ref()?;
        Some(share(ledger.requests as f64, self.load.lifetime.sent as f64)? - 1.0)
    }

    /// Tokens and streams of tokens that the upstream sent, including warm-up. Absent if it sent no such
    /// stream, or did not count them.
    pub(crate) fn upstream_tokens(&self) -> Option<(f64, f64)> {
        let llm = self.record.ledger.as_ref()?.llm.as_ref().filter(|llm| llm.streams > 0)?;
        Some((llm.tokens as f64, llm.streams as f64))
    }

    /// Requests within all limits of `goodput`, and requests due. Absent without limits.
    pub(crate) fn good(&self) -> Option<(u64, u64)> {
        let good = self.load.messages.as_ref()?.tokens.as_ref()?.counts.good?;
        let counts = &self.load.counts;
        Some((good, counts.scheduled.saturating_sub(counts.in_flight)))
    }

    /// Share of the measured time that the generator's busiest worker spent on a CPU.
    pub fn generator_utilisation(&self) -> f64 {
        self.load.cpu.busiest_worker_ns as f64 / self.load.measured_ns as f64
    }

    /// Throughput of each window, requests/s. An incomplete last window is left out.
    pub fn throughput_by_window(&self) -> Vec<f64> {
        let whole = (self.load.measured_ns / WINDOW_NS) as usize;
        let per_second = SECOND as f64 / WINDOW_NS as f64;
        self.load.windows.iter().take(whole).map(|window| window.completed as f64 * per_second).collect()
    }
}

/// The records of a case. Records of searches are left out.
pub(crate) fn of_case<'a>(
    records: &'a [TrialRecord],
    contender: &str,
    load: usize,
) -> impl Iterator<Item = &'a TrialRecord> {
    records.iter().filter(move |record| {
        record.contender == contender && record.load as usize == load && record.step.is_none()
    })
}

/// The trials of a case that did not fail and were not set aside.
pub(crate) fn good_trials<'a>(records: &'a [TrialRecord], contender: &str, load: usize) -> Vec<Trial<'a>> {
    let counted = of_case(records, contender, load).filter(|record| record.set_aside.is_none());
    counted.filter_map(|record| Trial::read(record).ok()).collect()
}

fn unreadable(message: &str, detail: &str) -> Failure {
    Failure { stage: Stage::Trial, message: message.to_string(), detail: detail.to_string() }
}
