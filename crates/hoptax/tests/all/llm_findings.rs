//! Runs with streams of tokens: faults of AI gateways that hops plant in them.

use crate::stream_findings::planted_among;
use crate::support::Json;
use crate::world::is_missing;

/// Gateways without faults.
fn clean() -> Vec<&'static str> {
    ["hop-l7", "nginx"].into_iter().filter(|name| *name == "hop-l7" || !is_missing(name)).collect()
}

/// A number in the evidence of the only finding with this code.
fn evidence(report: &Json, code: &str, name: &str) -> f64 {
    let findings = report["findings"].as_array().expect("findings").iter();
    let found: Vec<&Json> = findings.filter(|finding| finding["code"] == code).collect();
    assert_eq!(found.len(), 1, "{code}: {}", report["findings"]);
    found[0]["evidence"][name].as_f64().unwrap_or_else(|| panic!("{name}: {}", found[0]))
}

#[test]
fn changes_of_streams_are_found_only_where_they_were_planted() {
    let report = planted_among(
        &clean(),
        "upstream: { llm: { gap: 20ms, tokens: 20, heartbeat: 12ms } }
target: { llm: { include_usage: true } }
load: [{ loop: closed, connections: 8, duration: 700ms }]
warmup: 100ms",
        &[
            ("holds", "hold_first: 30ms", &["first-event-held"]),
            ("recounts", "rewrite_usage: true", &["usage-altered"]),
            ("adds", "add_field: true", &["request-altered"]),
            ("silences", "drop_comments: true", &["silence"]),
        ],
    );
    let held = evidence(&report, "first-event-held", "held_us");
    assert!((29_000.0..45_000.0).contains(&held), "{held}");
    // The hop changes the first digit.
    assert_eq!(evidence(&report, "usage-altered", "mean_tokens"), 30.0);
    assert!(evidence(&report, "request-altered", "requests") > 0.0);
    assert_eq!(evidence(&report, "silence", "comments_per_stream"), 0.0);
}

#[test]
fn tokens_for_clients_that_have_left_are_found_only_where_they_were_planted() {
    // The tokens of a trial whose clients have left are not those of the next trial.
    let report = planted_among(
        &clean(),
        "upstream: { llm: { gap: 20ms, tokens: 20 } }
target: { llm: { leave: { after_tokens: 3 } } }
load: [{ loop: closed, connections: 4, duration: 1s }]
warmup: 100ms",
        &[("ignores", "ignore_abort: true", &["abort-ignored"])],
    );
    let extra = evidence(&report, "abort-ignored", "extra_tokens_per_left_stream");
    assert!((4.0..18.0).contains(&extra), "{extra}");
}

#[test]
fn failures_that_a_hop_hides_are_found_only_where_they_were_planted() {
    let failures = "[{ kind: rate-limit, share: 20% }, { kind: cut, share: 20%, at: 5 }]";
    let report = planted_among(
        &clean(),
        &format!(
            "upstream: {{ llm: {{ gap: 5ms, tokens: 20, failures: {failures} }} }}
target: {{ llm: {{ api: openai }} }}
load: [{{ loop: closed, connections: 8, duration: 1s }}]
warmup: 100ms"
        ),
        &[("retries", "retry: 3", &["retries-multiply"]), ("hides", "false_end: true", &["false-end"])],
    );
    let per_request = evidence(&report, "retries-multiply", "per_request");
    // 1 / (1 - 20 %), for three retries at most.
    assert!((1.1..1.4).contains(&per_request), "{per_request}");
    assert!(evidence(&report, "false-end", "tokens_lost") > 0.0);
}

#[test]
fn memory_for_clients_that_do_not_read_is_found_only_where_it_was_planted() {
    // 16 MiB for each of eight streams: more than the kernel keeps. Each client pauses once.
    let report = planted_among(
        &clean(),
        "upstream: { llm: { tokens: 1001, bytes_per_token: 16384 } }
target: { llm: { pause: { after_tokens: 1, time: 1s } } }
load: [{ loop: closed, connections: 8, requests: 8, duration: 20s }]
warmup: 0s",
        &[("keeps", "unbounded: true", &["no-backpressure"])],
    );
    let unread = evidence(&report, "no-backpressure", "unread_bytes_per_stream");
    // The text of the tokens, and the JSON around it.
    assert!((16_384_000.0..17_000_000.0).contains(&unread), "{unread}");
    let kept = evidence(&report, "no-backpressure", "bytes_per_paused_stream");
    assert!((0.5 * unread..2.5 * unread).contains(&kept), "{kept} of {unread}");
}
