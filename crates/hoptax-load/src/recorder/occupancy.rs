//! How connections were used: time with a request in flight, silence of the server, and requests that waited
//! for a connection.

use hdrhistogram::Histogram;
use hoptax_format::histogram;
use hoptax_format::record::{Occupancy, Silence};

/// What one worker records. Times are clipped to the measured time by the recorder.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    /// Sum of the times in which a request was in flight, ns.
    busy: u64,
    /// Number of requests in flight now.
    in_flight: u64,
    /// Time since which requests are in flight and no response has ended.
    silent_since: u64,
    /// The longest silence. Its `at_ns` is a time of the clock, not a time since the start of the measured
    /// time.
    silence: Silence,
    /// Number of requests that were due while no connection was free.
    pub(super) waited: u64,
    pub(crate) longest_turn: u64,
    /// Number of responses of each connection.
    responses: Histogram<u64>,
    unanswered: u64,
}

impl Busy {
    pub(crate) fn new() -> Self {
        Self {
            busy: 0,
            in_flight: 0,
            silent_since: 0,
            silence: Silence::default(),
            waited: 0,
            longest_turn: 0,
            responses: histogram::empty_of_counts(),
            unanswered: 0,
        }
    }

    pub(super) fn sent(&mut self, now: u64) {
        if self.in_flight == 0 {
            self.silent_since = now;
        }
        self.in_flight += 1;
    }

    /// Called when a request has its outcome, with the measured time. After a failure, the silence continues
    /// while other requests are in flight.
    pub(super) fn ended(&mut self, sent: u64, now: u64, response: bool, (start, end): (u64, u64)) {
        let clip = |time: u64| time.clamp(start, end.max(start));
        self.busy += clip(now) - clip(sent);
        self.in_flight = self.in_flight.saturating_sub(1);
        if response || self.in_flight == 0 {
            self.heard(now, (start, end));
        }
    }

    /// Called when a response has ended, or a message of a stream has arrived.
    pub(super) fn heard(&mut self, now: u64, (start, end): (u64, u64)) {
        let clip = |time: u64| time.clamp(start, end.max(start));
        let silence = Silence::between(clip(self.silent_since), clip(now));
        if silence.for_ns > self.silence.for_ns {
            self.silence = silence;
        }
        self.silent_since = now;
    }

    /// Records the number of responses of one connection. `in_vain` is true if it had a request without a
    /// response.
    pub(crate) fn connection(&mut self, responses: u32, in_vain: bool) {
        self.responses.saturating_record(u64::from(responses));
        self.unanswered += u64::from(responses == 0 && in_vain);
    }

    /// Adds the results of another worker. The server was silent only while it was silent for both.
    pub(crate) fn add(&mut self, other: &Self) {
        self.busy += other.busy;
        self.waited += other.waited;
        self.longest_turn = self.longest_turn.max(other.longest_turn);
        self.silence = self.silence.common(other.silence);
        self.responses.add(&other.responses).expect("all have the same bounds");
        self.unanswered += other.unanswered;
    }

    pub(crate) fn record(&self, start: u64) -> Occupancy {
        let Silence { at_ns, for_ns } = self.silence;
        Occupancy {
            responses: histogram::Encoded::new(&self.responses),
            unanswered: self.unanswered,
            busy_ns: self.busy,
            waited: self.waited,
            silence: Silence { at_ns: at_ns.saturating_sub(start), for_ns },
            longest_turn_ns: self.longest_turn,
        }
    }
}

/// The results of all workers. `None` without workers.
pub(crate) fn sum<'a>(mut all: impl Iterator<Item = &'a Box<Busy>>) -> Option<Busy> {
    let first = all.next()?;
    Some(all.fold(Busy::clone(first), |mut sum, one| {
        sum.add(one);
        sum
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: (u64, u64) = (100, 1000);

    #[test]
    fn time_in_flight_is_counted_inside_the_measured_time_only() {
        let mut busy = Busy::new();
        busy.sent(50);
        busy.ended(50, 150, true, MEASURED);
        busy.sent(900);
        busy.ended(900, 1700, true, MEASURED);
        assert_eq!(busy.record(100).busy_ns, 50 + 100);
    }

    #[test]
    fn silence_needs_a_request_in_flight() {
        let mut busy = Busy::new();
        busy.sent(100);
        busy.ended(100, 110, true, MEASURED);
        // Nothing was in flight from 110 to 600.
        busy.sent(600);
        busy.ended(600, 640, true, MEASURED);
        assert_eq!(busy.record(100).silence, Silence { at_ns: 500, for_ns: 40 });
        // A failure is not a response, so the silence continues if another request is in flight.
        busy.sent(700);
        busy.sent(710);
        busy.ended(700, 800, false, MEASURED);
        busy.ended(710, 850, true, MEASURED);
        assert_eq!(busy.record(100).silence, Silence { at_ns: 600, for_ns: 150 });
    }

    #[test]
    fn silence_of_several_workers_is_what_they_have_in_common() {
        let silent = |from, to| Busy { silence: Silence::between(from, to), ..Busy::new() };
        let mut both = silent(200, 700);
        both.add(&silent(250, 800));
        assert_eq!(both.record(100).silence, Silence { at_ns: 150, for_ns: 450 });
        both.add(&silent(900, 950));
        assert_eq!(both.record(100).silence.for_ns, 0);
        let parts = silent(200, 700).record(100).plus(&silent(300, 400).record(100)).expect("read");
        assert_eq!(parts.silence, Silence { at_ns: 200, for_ns: 100 });
    }

    #[test]
    fn a_connection_without_a_response_counts_only_if_it_had_a_request() {
        let mut busy = Busy::new();
        busy.connection(7, true);
        busy.connection(0, true);
        busy.connection(0, false);
        let record = busy.record(0);
        let responses = record.responses.decode().expect("encoded here");
        assert_eq!((record.unanswered, responses.len(), responses.max(), responses.min()), (1, 3, 7, 0));
    }
}
