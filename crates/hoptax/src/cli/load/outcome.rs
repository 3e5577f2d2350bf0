//! A load and its result. All output formats use this type.

use super::doubts::{self, Decoded, Doubt};
use super::limits::{self, Judged, Limit, LimitedTimes};
use hdrhistogram::Histogram;
use hoptax_format::histogram::DecodeError;
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::LoadSpec;

#[derive(Debug)]
pub(super) struct LoadOutcome<'a> {
    pub(super) url: &'a str,
    pub(super) spec: &'a LoadSpec,
    pub(super) record: &'a LoadRecord,
    /// Responses of each connection. Absent if they were not recorded.
    pub(super) responses: Option<Histogram<u64>>,
    pub(super) doubts: Vec<Doubt>,
    pub(super) limits: Vec<Judged>,
}

impl<'a> LoadOutcome<'a> {
    /// # Errors
    /// If a histogram cannot be decoded.
    pub(super) fn new(
        url: &'a str,
        spec: &'a LoadSpec,
        record: &'a LoadRecord,
        limits: &[Limit],
    ) -> Result<Self, DecodeError> {
        let histograms = &record.histograms;
        let (response_time, service_time) =
            (histograms.response_time.decode()?, histograms.service_time.decode()?);
        let send_lag = histograms.send_lag.decode()?;
        let responses = record.occupancy.as_ref().map(|one| one.responses.decode()).transpose()?;
        let times = Decoded {
            response_time: &response_time,
            service_time: &service_time,
            send_lag: &send_lag,
            responses: responses.as_ref(),
        };
        let doubts = doubts::of(spec, record, times);
        let streams = record.messages.as_ref().filter(|messages| messages.tokens.is_some());
        let first_content = streams.map(|messages| messages.histograms.first_message.decode()).transpose()?;
        let times = LimitedTimes { response_time: &response_time, first_content: first_content.as_ref() };
        let limits = limits::judge(limits, record, times, &doubts);
        Ok(Self { url, spec, record, responses, doubts, limits })
    }

    /// Requests in flight on average in the measured time. At most the number of connections × streams.
    pub(super) fn concurrency(&self) -> Option<f64> {
        let busy_ns = match &self.record.http2 {
            Some(http2) => http2.stream_ns,
            None => self.record.occupancy.as_ref()?.busy_ns,
        };
        (self.record.measured_ns > 0).then(|| busy_ns as f64 / self.record.measured_ns as f64)
    }
}
