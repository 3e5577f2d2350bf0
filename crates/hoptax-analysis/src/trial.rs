//! A trial that can be counted on: what its record holds, with the histograms decoded.
//!
//! What a tax is made from (requests completed, the time in which they did, their response times, the gateway's CPU time)
//! stands in the trial's own fields, so that the same arithmetic serves a whole trial and its quiet windows alone.

use hdrhistogram::Histogram;
use hoptax_load::clock::SECOND;
use hoptax_load::histogram::{DecodeError, Encoded};
use hoptax_load::record::{LoadRecord, TargetRecord, WINDOW_NS};
use hoptax_record::{DirectTrial, Failure, Stage, TrialRecord};
use hoptax_stats::{Statistic, share};

/// A trial that did not fail, ready for arithmetic.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The record it was read from.
    pub record: &'a TrialRecord,
    /// What the generator saw.
    pub load: &'a LoadRecord,
    /// Requests that completed inside the time looked at.
    pub completed: u64,
    /// The time looked at, ns, never zero: the whole measured time, or its quiet windows.
    pub measured_ns: u64,
    /// CPU time of the gateway inside the time looked at, ns; absent when its processes were not watched.
    pub gateway_cpu_ns: Option<u64>,
    /// Completed − scheduled, ns.
    pub response_time: Histogram<u64>,
    /// Completed − sent, ns.
    pub service_time: Histogram<u64>,
    /// Sent − scheduled, ns.
    pub send_lag: Histogram<u64>,
    /// First byte of the answer − sent, ns.
    pub first_byte: Histogram<u64>,
    /// Of each connect, ns.
    pub connect: Histogram<u64>,
    /// Of each TLS handshake, ns; absent without TLS.
    pub tls_handshake: Option<Histogram<u64>>,
    /// Received by the upstream − sent, ns; absent without stamps, or where it cannot be read.
    pub request_path: Option<Histogram<u64>>,
    /// Completed − replied by the upstream, ns; absent as the way there is.
    pub response_path: Option<Histogram<u64>>,
    /// The targets of a mix.
    pub targets: Vec<TargetTrial<'a>>,
}

/// One target of a mix in a trial.
#[derive(Debug)]
pub struct TargetTrial<'a> {
    /// The record it was read from.
    pub record: &'a TargetRecord,
    /// Completed − scheduled, ns.
    pub response_time: Histogram<u64>,
    /// Completed − sent, ns.
    pub service_time: Histogram<u64>,
}

impl<'a> Trial<'a> {
    /// Reads a record.
    ///
    /// # Errors
    /// The reason why nothing can be computed from it: the trial's own failure, or what is missing from its record.
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
            request_path: way(&load.histograms.request_path),
            response_path: way(&load.histograms.response_path),
            targets: load.targets.iter().map(target).collect::<Result<_, Failure>>()?,
            response_time: decode("response time", &load.histograms.response_time)?,
            service_time: decode("service time", &load.histograms.service_time)?,
            send_lag: decode("send lag", &load.histograms.send_lag)?,
        })
    }

    /// One target of a mix.
    pub fn target(&self, name: &str) -> Option<&TargetTrial<'a>> {
        self.targets.iter().find(|target| target.record.name == name)
    }

    /// The round, from 0.
    pub fn round(&self) -> u32 {
        self.record.round
    }

    /// Which of the round's two direct trials this is; absent for gateways.
    pub fn direct(&self) -> Option<DirectTrial> {
        self.record.direct
    }

    /// The time looked at, s; never zero.
    pub fn seconds(&self) -> f64 {
        self.measured_ns as f64 / SECOND as f64
    }

    /// Completed requests per second of the time looked at.
    pub fn throughput(&self) -> f64 {
        self.completed as f64 / self.seconds()
    }

    /// A figure of the response times, µs.
    pub fn response_time_us(&self, statistic: Statistic) -> Option<f64> {
        statistic.of(&self.response_time)
    }

    /// CPU time of the gateway per completed request, µs; absent when its processes were not watched.
    pub fn gateway_us_per_request(&self) -> Option<f64> {
        share(self.gateway_cpu_ns? as f64 / 1e3, self.completed as f64)
    }

    /// Requests that reached the upstream, per request that the generator sent, less 1; over the generator's whole life.
    /// Per request sent, not completed: one that timed out reached the upstream all the same.
    pub fn extra_upstream_requests(&self) -> Option<f64> {
        let ledger = self.record.ledger.as_ref()?;
        Some(share(ledger.requests as f64, self.load.lifetime.sent as f64)? - 1.0)
    }

    /// Share of its time for which the busiest worker of the generator was on a CPU.
    pub fn generator_utilisation(&self) -> f64 {
        self.load.cpu.busiest_worker_ns as f64 / self.load.measured_ns as f64
    }

    /// Throughput of each window, requests/s. A last window that the measured time does not fill is left out.
    pub fn throughput_by_window(&self) -> Vec<f64> {
        let whole = (self.load.measured_ns / WINDOW_NS) as usize;
        let per_second = SECOND as f64 / WINDOW_NS as f64;
        self.load.windows.iter().take(whole).map(|window| window.completed as f64 * per_second).collect()
    }
}

/// The records of a case, without those of searches.
pub(super) fn of_case<'a>(
    records: &'a [TrialRecord],
    contender: &str,
    load: usize,
) -> impl Iterator<Item = &'a TrialRecord> {
    records.iter().filter(move |record| {
        record.contender == contender && record.load as usize == load && record.step.is_none()
    })
}

/// The trials of a case that did not fail.
pub(super) fn good_trials<'a>(records: &'a [TrialRecord], contender: &str, load: usize) -> Vec<Trial<'a>> {
    of_case(records, contender, load).filter_map(|record| Trial::read(record).ok()).collect()
}

fn unreadable(message: &str, detail: &str) -> Failure {
    Failure { stage: Stage::Trial, message: message.to_string(), detail: detail.to_string() }
}
