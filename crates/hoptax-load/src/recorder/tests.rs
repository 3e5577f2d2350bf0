//! The books, fed by hand.

use super::*;
use crate::clock::MILLISECOND;

const START: u64 = 1_000 * MILLISECOND;
const END: u64 = 1_250 * MILLISECOND;
const REQUEST: u64 = 40;

fn recorder() -> Recorder {
    let mut recorder = Recorder::new(true);
    recorder.measure(START, END);
    recorder
}

fn respond(recorder: &mut Recorder, scheduled: u64, sent: u64, now: u64) {
    recorder.scheduled(scheduled);
    recorder.sent(scheduled, sent, true);
    let times = Times { scheduled, sent: Some(sent), first_byte: Some(now), length: REQUEST };
    recorder.completed(times, now, Response { status: 200, bytes: 100, body: 64 });
}

#[test]
fn populations_are_kept_apart_at_both_edges() {
    let mut recorder = recorder();
    // Scheduled in the warm-up, completed inside; inside; scheduled inside, completed in the drain.
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
fn nothing_is_done_in_time_after_an_early_end() {
    let mut recorder = recorder();
    let early = START + 20 * MILLISECOND;
    respond(&mut recorder, START, START, early - 1);
    recorder.measured_until(early);
    // Of the warm-up, completed in the drain.
    respond(&mut recorder, START - MILLISECOND, START - MILLISECOND, early + 150 * MILLISECOND);
    let tally = recorder.finish(early);
    assert_eq!((tally.counts.completed, tally.completed_in_time), (1, 1));
    assert_eq!(tally.bytes.received, 100);
    assert_eq!(tally.windows.iter().map(|window| window.completed).collect::<Vec<_>>(), [1]);
}

#[test]
fn windows_are_complete_and_in_time() {
    let mut recorder = recorder();
    respond(&mut recorder, START, START, START + 99 * MILLISECOND);
    respond(&mut recorder, START + MILLISECOND, START + 99 * MILLISECOND, START + 230 * MILLISECOND);
    let windows = recorder.finish(END).windows;
    assert_eq!(windows.len(), 3, "250 ms are three windows, the last one short");
    assert_eq!(windows.iter().map(|window| window.completed).collect::<Vec<_>>(), [1, 0, 1]);
    assert!(windows[1].response_time.is_none());
    let last = windows[2].response_time.as_ref().expect("one completed there").decode().expect("decodes");
    assert!(last.max().abs_diff(229 * MILLISECOND) < 3 * MILLISECOND, "measured from the scheduled moment");
}

#[test]
fn the_three_latencies_differ_where_they_should() {
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
fn timeouts_are_recorded_and_other_failures_counted() {
    let mut recorder = recorder();
    let times = Times { scheduled: START, sent: Some(START), first_byte: None, length: REQUEST };
    for failure in
        [Cause::ReadTimeout, Cause::ResetInResponse, Cause::MalformedResponse, Cause::ConnectRefused]
    {
        recorder.scheduled(START);
        recorder.failed(times, START + 30 * MILLISECOND, failure, "gone");
    }
    recorder.scheduled(START);
    recorder.left_over(times);
    recorder.scheduled(START);
    recorder.left_over(Times { sent: None, ..times });
    recorder.left_in_line(3);
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
fn error_texts_are_bounded() {
    let mut recorder = recorder();
    for text in 0..100 {
        recorder.scheduled(START);
        recorder.failed(
            Times { scheduled: START, ..Times::default() },
            START,
            Cause::ResetInResponse,
            &text.to_string(),
        );
    }
    let errors = recorder.finish(END).counts.errors;
    assert_eq!(errors.len(), ERROR_TEXTS + 1);
    assert_eq!(errors[OTHER_ERRORS], 100 - ERROR_TEXTS as u64);
}

#[test]
fn workers_add_up() {
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
