//! Messages of streams in the results of runs and loads.

use super::Json;

/// A count of messages in a case of a report, or in the result of a load.
#[track_caller]
pub(crate) fn count(result: &Json, what: &str) -> u64 {
    let messages = &result["messages"];
    messages[what].as_u64().unwrap_or_else(|| panic!("{what}: {messages}"))
}

/// Requires that no message was lost, added or changed its place, and that no WebSocket failed.
#[track_caller]
pub(crate) fn assert_intact(name: &str, result: &Json) {
    for wrong in ["lost", "repeated", "reordered", "unnumbered", "merged_into_one", "cut", "refused"] {
        assert_eq!(count(result, wrong), 0, "{name}, {wrong}: {}", result["messages"]);
    }
}

/// The median of times of messages, µs.
#[track_caller]
pub(crate) fn p50(result: &Json, times: &str) -> f64 {
    let message = &result["message"];
    message[times]["p50"]["estimate"].as_f64().unwrap_or_else(|| panic!("{times}: {message}"))
}

/// Requires that the case was measured, and that every exchange succeeded with all its messages. The client
/// receives `each` messages in an exchange. At most `concurrent` exchanges are open at a time.
#[track_caller]
pub(crate) fn assert_all_received(case: &Json, each: u64, concurrent: u64) {
    let (name, counts) = (case["case"].as_str().expect("a name"), &case["counts"]);
    let trials = case["trials"].as_u64().expect("a number");
    assert!(trials > 0, "{name}: {}", case["failed"]);
    assert_eq!(counts["ok"], counts["scheduled"], "{name}: {counts}");
    assert_intact(name, case);
    // Messages count by when they were due, so the exchanges at the begin and at the end of a trial count in
    // part.
    let (received, margin) = (count(case, "received"), trials * concurrent * each);
    let expected = counts["ok"].as_u64().expect("a number") * each;
    let is_near = received > 0 && received.abs_diff(expected) <= margin;
    assert!(is_near, "{name}: {expected} ± {margin} messages, {}", case["messages"]);
}
