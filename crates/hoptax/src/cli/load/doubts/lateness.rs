//! Explains why an open loop did not keep its schedule. The explanation is based on counts and is not a
//! guess.

use super::{Decoded, Doubt, is_busy, paused};
use hoptax_analysis::thresholds::{LATE, REACHED};
use hoptax_format::histogram::{rank, value_at_rank};
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::{LoadSpec, Shape};
/// Minimum share of the late or missing requests that a cause must explain.
const EXPLAINS: f64 = 0.5;
/// Maximum share of connections that are busy on average, for the advice about the number of connections.
const OCCUPIED: f64 = 0.8;

/// Why requests were sent late or not completed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) enum Late {
    /// The generator had no CPU time left, or did not run.
    Generator,
    /// The server did not answer for some time.
    Stall,
    /// No connection was free. The rate times the service time needs this many connections with all their
    /// streams.
    NoConnection { has: u32, needs: f64, streams: u32 },
    /// The server allows fewer streams than requested, so requests waited for one.
    FewStreams,
    /// Requests failed.
    Failures,
    /// Requests were in flight when the measured time ended.
    Unfinished,
    /// None of these.
    Unknown,
}

pub(super) fn of(
    spec: &LoadSpec,
    record: &LoadRecord,
    times: Decoded<'_>,
    is_stalled: bool,
) -> Option<Doubt> {
    let seconds = record.measured_ns as f64 / 1e9;
    let due = record.counts.scheduled as f64;
    if !matches!(spec.shape, Shape::Open { .. }) || seconds <= 0.0 || due == 0.0 {
        return None;
    }
    let allowed = record.http2.and_then(|http2| http2.stream_limit).unwrap_or(u32::MAX);
    let streams = spec.streams.min(allowed).max(1);
    let is_capped = streams < spec.streams;
    let needs = due / seconds * times.service_time.mean() / 1e9 / f64::from(streams);
    let no_connection = Late::NoConnection { has: spec.connections, needs, streams };
    let waited = record.occupancy.as_ref().map_or(0, |occupancy| occupancy.waited) as f64;
    let is_generator = is_busy(record).is_some() || paused(record).is_some();
    let first_of = |causes: &[(bool, Late)]| {
        causes.iter().find(|(holds, _)| *holds).map_or(Late::Unknown, |(_, cause)| *cause)
    };

    let done = record.completed_in_time as f64;
    if done < REACHED * due {
        if record.interrupted || record.gave_up {
            return None;
        }
        let counts = &record.counts;
        let missing = EXPLAINS * (due - done);
        let failed = super::failing::failed(counts) as f64;
        let unfinished = counts.completed.saturating_sub(record.completed_in_time) as f64;
        let late = first_of(&[
            (failed >= missing, Late::Failures),
            (is_generator, Late::Generator),
            (is_stalled, Late::Stall),
            (waited + counts.unsent as f64 >= missing, no_connection),
            (unfinished >= missing, Late::Unfinished),
        ]);
        return Some(Doubt::RateMissed { due: due / seconds, done: done / seconds, late });
    }

    let at = |histogram, quantile| value_at_rank(histogram, rank(quantile, histogram.len()));
    let (p99_ns, limit) = (at(times.send_lag, 0.99), LATE * at(times.response_time, 0.5) as f64);
    if p99_ns as f64 <= limit || is_stalled {
        // The warning about the stall also says that requests waited.
        return None;
    }
    let late = times.send_lag.len() - times.send_lag.count_between(0, limit as u64);
    let late = first_of(&[
        (is_generator, Late::Generator),
        (waited >= EXPLAINS * late as f64, no_connection),
        (is_capped, Late::FewStreams),
    ]);
    Some(Doubt::SentLate { p99_ns, late })
}

impl Late {
    pub(super) fn advice(self) -> String {
        match self {
            Self::Generator => "The generator is the cause: see above.".to_owned(),
            Self::Stall => "The server stopped answering: see above.".to_owned(),
            Self::NoConnection { has, needs, streams } => {
                let enough = (needs / OCCUPIED).ceil() as u64;
                if enough > u64::from(has) {
                    let in_flight = needs * f64::from(streams);
                    return format!(
                        "The rate times the mean service time is {in_flight:.1} requests in flight: use more \
                         connections (-c {enough}), or lower the rate."
                    );
                }
                format!(
                    "Requests come in bursts: use more connections (-c {}), or lower the rate.",
                    2 * u64::from(has)
                )
            }
            Self::FewStreams => "The server allows too few streams: see below.".to_owned(),
            Self::Failures => "Most of the missing requests failed: see below.".to_owned(),
            Self::Unfinished => {
                "The others were answered after the measured time. Measure for longer (-d) than responses \
                take."
                    .to_owned()
            }
            Self::Unknown => {
                "Reserve a CPU for the generator (--cpus), and compare with a lower rate.".to_owned()
            }
        }
    }
}
