//! Token reviews by the upstream, like those of a Kubernetes webhook. With caching, reviews add almost no
//! upstream requests. Without caching, every request causes two upstream requests.

use crate::run::{report, run_to_success, trials};
use crate::support::Scratch;

#[test]
fn uncached_token_reviews_double_the_upstream_requests() {
    needs!("nginx");
    let scratch = Scratch::new();
    let plan = include_str!("../../../../plans/features/token-review.yaml");
    let short = ["trials=1", "load.0.requests=300", "load.0.duration=60s", "warmup=100ms"];
    let sets: Vec<&str> = short.into_iter().flat_map(|set| ["--set", set]).chain(["--accept-void"]).collect();
    let directory = run_to_success(&scratch, plan, &sets);
    for trial in trials(&directory) {
        let who = trial["contender"].as_str().expect("a label");
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let sent = trial["load_record"]["lifetime"]["sent"].as_u64().expect("counted");
        let upstream = trial["ledger"]["requests"].as_u64().expect("counted");
        // At the end of the trial, each connection may have had one request in flight.
        let (expected, slack) = if who == "nginx-asks" { (2 * sent, 32) } else { (sent, 17) };
        assert!(
            sent >= 300 && upstream.abs_diff(expected) <= slack,
            "{who}: {upstream} upstream of {sent} sent"
        );
    }
    let document = report(&directory);
    for case in document["cases"].as_array().expect("cases") {
        let codes = case["findings"].as_array().expect("codes");
        let amplified = codes.iter().any(|code| code == "amplification");
        assert_eq!(amplified, case["gateway"] == "nginx-asks", "{}: {codes:?}", case["gateway"]);
    }
}
