//! Tests the recorder with made-up events.

use super::*;
use hoptax_format::clock::MILLISECOND;
use hoptax_format::record::Bytes;
use hoptax_format::stamp::Stamp;
use hoptax_format::sums::{ERROR_TEXTS, OTHER_ERRORS};

const START: u64 = 1_000 * MILLISECOND;
const END: u64 = 1_250 * MILLISECOND;
const REQUEST: u64 = 40;

fn recorder() -> Recorder {
    let mut recorder = Recorder::new(true, 1);
    recorder.measure(START, END);
    recorder
}

fn respond(recorder: &mut Recorder, scheduled: u64, sent: u64, now: u64) {
    recorder.scheduled(scheduled, 0);
    recorder.sent(scheduled, sent, true);
    let times =
        Times { sent: Some(sent), first_byte: Some(now), length: REQUEST, ..Times::new(scheduled, 0) };
    recorder.completed(times, now, Response { status: 200, bytes: 100, body: 64, failed: None, call: None });
}

#[test]
fn populations_are_separate_at_both_edges() {
    let mut recorder = recorder();
    // Three requests. The first was scheduled in the warm-up and completed in the measured time. The second
    // was scheduled and completed in the measured time. The third was scheduled in the measured time and
    // completed in the drain.
    respond(&mut recorder, START - 5 * MILLISECOND, START - 5 * MILLISECOND, START + MILLISECOND);
    respond(&mut recorder, START + MILLISECOND, START + MILLISECOND, START + 3 * MILLISECOND);
    respond(&mut recorder, END - MILLISECOND, END - MILLISECOND, END + 7 * MILLISECOND);
    assert_eq!(recorder.outstanding(), 0);
    let tally = recorder.finish(END);
    assert_eq!((tally.counts.scheduled, tally.counts.completed, tally.completed_in_time), (2, 2, 2));
    assert_eq!(tally.lifetime.completed, 3);
    assert_eq!(tally.bytes, Bytes { sent: 80, received: 200, body: 128 });
    assert_eq!(tally.histograms.response_time.len(), 2);
    assert!(tally.histograms.response_time.max() >= 8 * MILLISECOND);
    assert_eq!(tally.windows.iter().map(|window| window.completed).collect::<Vec<_>>(), [2, 0, 0]);
    assert_eq!(tally.windows.iter().map(|window| window.sent).sum::<u64>(), 2);
}

#[test]
fn an_endless_stream_of_the_warm_up_counts_from_the_start() {
    let mut recorder = recorder();
    let began = START - 50 * MILLISECOND;
    recorder.scheduled(began, 0);
    recorder.sent(began, began, false);
    let mut times =
        Times { sent: Some(began), first_byte: Some(began), length: REQUEST, ..Times::new(began, 0) };
    recorder.adopt(&mut times);
    assert_eq!((times.scheduled, times.sent, times.first_byte), (START, Some(START), Some(START)));
    recorder.adopt(&mut times);
    assert_eq!(recorder.outstanding(), 1, "it is adopted once");
    let response = Response { status: 200, bytes: 100, body: 64, failed: None, call: None };
    assert!(recorder.ended_by_client(times, None, response));
    let tally = recorder.finish(END);
    let counts = &tally.counts;
    assert_eq!((counts.scheduled, counts.sent, counts.completed, counts.ok), (1, 1, 1, 1));
    assert_eq!((counts.ended_by_client, tally.completed_in_time), (1, 1));
    assert_eq!(tally.bytes.sent, 0, "the bytes of the warm-up do not count");
    assert_eq!(counts.status, [(200, 1)].into());
    assert_eq!(tally.histograms.response_time.len(), 0, "its length says nothing");
    assert_eq!(tally.histograms.send_lag.len(), 1);
    let occupancy = tally.busy.record(START);
    assert_eq!((occupancy.busy_ns, occupancy.silence.for_ns), (END - START, END - START));
}

#[test]
fn nothing_counts_as_in_time_after_an_early_end() {
    let mut recorder = recorder();
    let early = START + 20 * MILLISECOND;
    respond(&mut recorder, START, START, early - 1);
    recorder.measured_until(early);
    // This request was scheduled in the warm-up and completed in the drain.
    respond(&mut recorder, START - MILLISECOND, START - MILLISECOND, early + 150 * MILLISECOND);
    let tally = recorder.finish(early);
    assert_eq!((tally.counts.completed, tally.completed_in_time), (1, 1));
    assert_eq!(tally.bytes.received, 100);
    assert_eq!(tally.windows.iter().map(|window| window.completed).collect::<Vec<_>>(), [1]);
}

#[test]
fn windows_are_complete_and_in_order() {
    let mut recorder = recorder();
    respond(&mut recorder, START, START, START + 99 * MILLISECOND);
    respond(&mut recorder, START + MILLISECOND, START + 99 * MILLISECOND, START + 230 * MILLISECOND);
    let windows = recorder.finish(END).windows;
    assert_eq!(windows.len(), 3, "250 ms are three windows, the last one short");
    assert_eq!(windows.iter().map(|window| window.completed).collect::<Vec<_>>(), [1, 0, 1]);
    assert!(windows[1].response_time.is_none());
    let last = windows[2].response_time.as_ref().expect("one completed there").decode().expect("decodes");
    assert!(last.max().abs_diff(229 * MILLISECOND) < 3 * MILLISECOND, "measured from the scheduled time");
}

#[test]
fn response_time_service_time_and_first_byte_differ_as_expected() {
    let mut recorder = recorder();
    respond(&mut recorder, START, START, START + 2 * MILLISECOND);
    respond(&mut recorder, START, START + 10 * MILLISECOND, START + 12 * MILLISECOND);
    let histograms = recorder.finish(END).histograms;
    let near = |histogram: &Histogram<u64>, min: u64, max: u64| {
        assert_eq!(histogram.len(), 2);
        assert!(histogram.min().abs_diff(min) <= min / 500, "{} for {min}", histogram.min());
        assert!(histogram.max().abs_diff(max) <= max / 500, "{} for {max}", histogram.max());
    };
    near(&histograms.response_time, 2 * MILLISECOND, 12 * MILLISECOND);
    near(&histograms.service_time, 2 * MILLISECOND, 2 * MILLISECOND);
    near(&histograms.send_lag, 0, 10 * MILLISECOND);
    near(&histograms.first_byte, 2 * MILLISECOND, 2 * MILLISECOND);
}

#[test]
fn timeouts_are_recorded_and_other_failures_only_counted() {
    let mut recorder = recorder();
    let times = Times { sent: Some(START), length: REQUEST, ..Times::new(START, 0) };
    for failure in
        [Cause::ReadTimeout, Cause::ResetInResponse, Cause::MalformedResponse, Cause::ConnectRefused]
    {
        recorder.scheduled(START, 0);
        recorder.failed(times, START + 30 * MILLISECOND, failure, "gone");
    }
    recorder.scheduled(START, 0);
    recorder.unfinished(times);
    recorder.scheduled(START, 0);
    recorder.unfinished(Times { sent: None, ..times });
    recorder.left_unsent(3);
    let tally = recorder.finish(END);
    let counts = &tally.counts;
    assert_eq!(counts.scheduled, outcomes(counts));
    assert_eq!((counts.timeouts, counts.resets, counts.bad_responses, counts.connect_errors), (1, 1, 1, 1));
    assert_eq!((counts.unsent, counts.in_flight), (4, 1));
    assert_eq!(counts.errors["gone"], 4);
    let causes =
        [Cause::ConnectRefused, Cause::ReadTimeout, Cause::ResetInResponse, Cause::MalformedResponse];
    assert_eq!(counts.causes, causes.map(|cause| (cause, 1)).into());
    assert_eq!(tally.histograms.response_time.len(), 1);
    assert_eq!(tally.histograms.service_time.len(), 1);
    assert_eq!((tally.windows[0].timeouts, tally.windows[0].errors), (1, 3));
}

#[test]
fn retries_and_ends_of_connections_count_in_the_measured_time_alone() {
    let tally = || {
        let mut recorder = recorder();
        for at in [START - 1, START, END - 1, END] {
            recorder.closed_on_reuse(at);
            recorder.retried(at);
            for answered in 0..3 {
                recorder.closed_unannounced(at, answered);
            }
        }
        recorder.finish(END)
    };
    let mut sum = tally();
    sum.add(tally());
    assert_eq!((sum.counts.retried, sum.connections.closed_on_reuse), (4, 4));
    assert_eq!((sum.connections.closed_by_peer, sum.connections.closed_after_first), (12, 4));
}

#[test]
fn error_texts_are_bounded() {
    let mut recorder = recorder();
    for text in 0..100 {
        recorder.scheduled(START, 0);
        recorder.failed(Times::new(START, 0), START, Cause::ResetInResponse, &text.to_string());
    }
    let errors = recorder.finish(END).counts.errors;
    assert_eq!(errors.len(), ERROR_TEXTS + 1);
    assert_eq!(errors[OTHER_ERRORS], 100 - ERROR_TEXTS as u64);
}

#[test]
fn results_of_workers_are_summed() {
    let tally = |at: u64| {
        let mut recorder = recorder();
        respond(&mut recorder, START, START, START + at * MILLISECOND);
        recorder.finish(START + at * MILLISECOND)
    };
    let mut sum = tally(10);
    sum.add(tally(20));
    sum.add(tally(220));
    assert_eq!(sum.counts.completed, 3);
    assert_eq!(sum.counts.status[&200], 3);
    assert_eq!(sum.histograms.response_time.len(), 3);
    assert_eq!(sum.windows.iter().map(|window| window.completed).collect::<Vec<_>>(), [2, 0, 1]);
    let first =
        sum.windows[0].response_time.as_ref().expect("two completed there").decode().expect("decodes");
    assert_eq!(first.len(), 2);
    assert_eq!(sum.last_outcome, START + 220 * MILLISECOND);
}

#[test]
fn timestamps_split_the_requests_of_the_measured_time() {
    let mut recorder = Recorder::new(false, 1).with_stamps(true);
    recorder.measure(START, END);
    let ms = |ms: u64| START + ms * MILLISECOND;
    let stamp = |received, replied| Stamped::With(Stamp { received: ms(received), replied: ms(replied) });
    let mut respond = |scheduled, stamped| {
        recorder.scheduled(scheduled, 0);
        let times = Times { sent: Some(ms(10)), ..Times::new(scheduled, 0) };
        recorder.stamped(times, ms(100), stamped);
    };
    // The request was sent 10 ms after it was due. It took 20 ms to the upstream, 30 ms in the upstream, and
    // 40 ms back.
    respond(ms(0), stamp(30, 60));
    respond(ms(0), Stamped::No);
    for wrong in [Stamped::Unreadable, stamp(9, 60), stamp(30, 101), stamp(60, 59)] {
        respond(ms(0), wrong);
    }
    // The first request was scheduled in the warm-up. The second request ends in the drain.
    respond(START - 1, stamp(30, 60));
    respond(END, stamp(30, 60));
    let mut tally = recorder.finish(END);
    let more = Recorder::new(false, 1).with_stamps(true).finish(END);
    tally.add(more);
    let paths = tally.paths.expect("requested");
    assert_eq!((paths.tally.used, paths.tally.missing, paths.tally.impossible), (1, 1, 4));
    for (histogram, expected) in [(&paths.request, 20 * MILLISECOND), (&paths.response, 40 * MILLISECOND)] {
        assert_eq!(histogram.len(), 1);
        assert!(histogram.max().abs_diff(expected) <= expected / 500, "{}", histogram.max());
    }
}
