//! WebSockets: `hoptax load ws://…` directly, and runs through hops and real gateways.

use crate::run::{cases, measured};
use crate::support::messages::{assert_all_received, assert_intact, count, p50};
use crate::support::{Json, hoptax, json};
use crate::tls;
use crate::wire::Server;
use crate::world::is_missing;

/// Number of messages of a WebSocket.
const MESSAGES: u64 = 20;

/// Loads WebSockets, over four connections.
fn load(url: &str, more: &[&str]) -> Json {
    let mut command = hoptax();
    command.args(["load", url, "-c", "4", "--timeout", "60s", "--fail-above", "100%", "--json"]);
    json(command.args(more))
}

/// Requires that all WebSockets succeeded, each with this many messages in each direction.
#[track_caller]
fn assert_messages(name: &str, result: &Json, websockets: u64, [sent, received]: [u64; 2]) {
    assert_eq!(result["counts"]["ok"].as_u64(), Some(websockets), "{name}: {}", result["counts"]);
    let passed = ["sent", "received"].map(|what| count(result, what));
    let expected = [sent, received].map(|each| websockets * each);
    assert_eq!(passed, expected, "{name}: {}", result["messages"]);
    assert_intact(name, result);
}

#[test]
fn a_load_echoes_messages_directly_and_through_hops() {
    let upstream = Server::start(&["upstream"]);
    let direct = upstream.instance(0);
    let (_l4, through_l4) = Server::hop("l4", direct, &[]);
    let (_l7, through_l7) = Server::hop("l7", direct, &[]);
    for (name, address) in [("direct", direct), ("hop-l4", through_l4), ("hop-l7", through_l7)] {
        for more in [
            &["-n", "80", "--messages", "20"][..],
            &["-n", "12", "--messages", "20", "--every", "5ms"],
            &["-n", "40", "--messages", "20", "-b", "hello"],
            &["-n", "40", "--messages", "20", "--body-size", "100KiB"],
        ] {
            let websockets: u64 = more[1].parse().expect("a number");
            let result = load(&format!("ws://{address}/chat"), more);
            assert_messages(&format!("{name}, {more:?}"), &result, websockets, [MESSAGES; 2]);
            assert!(p50(&result, "response_time") > 0.0, "{name}: {}", result["message"]);
            let status = &result["counts"]["status"];
            assert_eq!(status, &serde_json::json!({ "101": websockets }), "{name}");
        }
    }
}

#[test]
fn a_load_receives_what_the_upstream_pushes() {
    let pushes = ["--websocket", "/feed=push,20,5ms", "--websocket", "/all=fan-out,endless,20ms"];
    let upstream = Server::start(&[&["upstream"][..], &pushes].concat());
    let feed = format!("ws://{}/feed", upstream.instance(0));
    for number in [&["--messages", "20"][..], &[]] {
        let result = load(&feed, &[&["-n", "12", "--websocket-kind", "push"][..], number].concat());
        assert_messages("push", &result, 12, [0, MESSAGES]);
    }
    let all = format!("ws://{}/all", upstream.instance(0));
    let result = load(&all, &["--websocket-kind", "fan-out", "--messages", "endless", "-d", "500ms"]);
    assert_eq!(result["counts"]["ok"].as_u64(), Some(4), "{}", result["counts"]);
    assert_intact("fan-out", &result);
    let received = count(&result, "received");
    assert!((4..=4 * 27).contains(&received), "{}", result["messages"]);
}

#[test]
fn endless_messages_end_with_the_measured_time() {
    let upstream = Server::start(&["upstream"]);
    let url = format!("ws://{}/", upstream.instance(0));
    for pace in [&["--every", "10ms"][..], &[]] {
        let result = load(&url, &[&["--messages", "endless", "-d", "500ms"][..], pace].concat());
        assert_eq!(result["counts"]["ok"].as_u64(), Some(4), "{}", result["counts"]);
        assert_intact("endless", &result);
        let [sent, received] = ["sent", "received"].map(|what| count(&result, what));
        assert!(received > 0 && received <= sent, "{}", result["messages"]);
        // Paced, each of four clients sends a message when it begins, and one every 10 ms.
        assert!(pace.is_empty() || sent <= 4 * 52, "{}", result["messages"]);
    }
}

#[test]
fn messages_are_compressed_if_both_sides_agree() {
    for (accepts, offers) in [(true, true), (true, false), (false, true)] {
        let accept = if accepts { &["upstream", "--websocket-compression"][..] } else { &["upstream"] };
        let upstream = Server::start(accept);
        let url = format!("ws://{}/", upstream.instance(0));
        let offer = if offers { &["--websocket-compression"][..] } else { &[] };
        let messages = ["-n", "20", "--messages", "20", "--body-size", "64KiB"];
        let result = load(&url, &[&messages[..], offer].concat());
        let name = format!("accepts: {accepts}, offers: {offers}");
        assert_messages(&name, &result, 20, [MESSAGES; 2]);
        let is_compressed = accepts && offers;
        assert_eq!(count(&result, "compressed"), if is_compressed { 20 } else { 0 }, "{name}");
        let received = result["bytes"]["received"].as_u64().expect("a number") / (20 * MESSAGES);
        let is_right = if is_compressed { received < 2 * 1024 } else { received > 64 * 1024 };
        assert!(is_right, "{name}: {received} bytes per answer");
    }
}

#[test]
fn websockets_use_tls() {
    let identity = tls::identity(tls::NAME, None);
    let mut command = hoptax();
    command.args(["upstream", "--tls"]).env("HOPTAX_UPSTREAM_IDENTITY", identity.0 + &identity.1);
    let upstream = Server::spawn(&mut command);
    let address = upstream.ready["tls_instances"][0].as_str().expect("an address");
    let result = load(&format!("wss://{address}/"), &["-k", "-n", "40", "--messages", "20"]);
    assert_messages("wss", &result, 40, [MESSAGES; 2]);
    assert!(result["tls"]["handshakes"].as_u64() >= Some(40), "{}", result["tls"]);
}

#[test]
fn responses_without_a_websocket_are_refusals() {
    // A server of HTTP that knows no WebSockets answers as usual.
    let server = crate::world::http_upstream("hello");
    let result = load(&format!("ws://{}/", server.address), &["-n", "8", "--messages", "20"]);
    assert_eq!(result["counts"]["ok"].as_u64(), Some(0), "{}", result["counts"]);
    let of = ["sent", "received", "lost", "refused"].map(|what| count(&result, what));
    assert_eq!(of, [0, 0, 0, 8], "{}", result["messages"]);
}

/// A plan with WebSockets through these gateways.
fn plan(gateways: &str, websocket: &str, load: &str) -> String {
    format!(
        "name: websocket
gateways: [{gateways}]
target: {{ path: /chat, websocket: {{ {websocket} }} }}
load: [{{ loop: closed, {load} }}]
trials: 1
warmup: 50ms
"
    )
}

/// The gateways that are installed. `entry` writes their entries in a plan.
fn installed(packs: &[&'static str], entry: impl Fn(&str) -> String) -> Vec<String> {
    packs.iter().copied().filter(|pack| !is_missing(pack)).map(entry).collect()
}

const INSTALLED: [&str; 3] = ["nginx", "haproxy", "envoy"];

/// Hops and real gateways that pass WebSockets.
fn gateways() -> String {
    let hops = ["hop-l4", "hop-l7"].map(str::to_owned);
    [&hops[..], installed(&INSTALLED, str::to_owned).as_slice()].concat().join(", ")
}

/// Runs a plan with WebSockets. At most `concurrent` of them are open at a time.
fn every_message_passes(plan: &str, concurrent: u64) -> Json {
    let report = measured(plan);
    for case in cases(&report) {
        assert_all_received(case, MESSAGES, concurrent);
        let codes: Vec<&str> =
            case["findings"].as_array().expect("codes").iter().filter_map(Json::as_str).collect();
        for code in ["tunnel-refused", "tunnel-cut", "extension-differs", "frames-changed"] {
            assert!(!codes.contains(&code), "{}: {}", case["case"], report["findings"]);
        }
    }
    report
}

#[test]
fn echoes_pass_message_by_message_and_over_tls() {
    let with_tls = |pack: &str| format!("{{ name: {pack}, label: {pack}-tls, features: [tls] }}");
    let gateways = [vec![gateways()], installed(&INSTALLED, with_tls)].concat().join(", ");
    let plan = plan(&gateways, "messages: 20", "connections: 4, requests: 80, duration: 60s");
    let report = every_message_passes(&plan, 4);
    for case in cases(&report) {
        assert_eq!(count(case, "sent"), count(case, "received"), "{}", case["messages"]);
        assert!(p50(case, "response_time") > 0.0 && p50(case, "headers") > 0.0, "{}", case["message"]);
    }
}

#[test]
fn echoes_pass_by_schedule() {
    let load = "connections: 4, duration: 300ms";
    every_message_passes(&plan(&gateways(), "messages: 20, every: 5ms", load), 4);
}

#[test]
fn pushes_pass_by_schedule() {
    let load = "connections: 4, duration: 300ms";
    let report = every_message_passes(&plan(&gateways(), "kind: push, messages: 20, every: 5ms", load), 4);
    for case in cases(&report) {
        assert_eq!(count(case, "sent"), 0, "{}", case["messages"]);
        assert!(p50(case, "age") > 0.0 && p50(case, "gap") > 0.0, "{}", case["message"]);
    }
}

#[test]
fn a_fan_out_reaches_fifty_connections() {
    let fan_out = "kind: fan-out, messages: endless, every: 20ms";
    let report = measured(&plan(&gateways(), fan_out, "connections: 50, duration: 600ms"));
    for case in cases(&report) {
        let (name, trials) = (&case["case"], case["trials"].as_u64().expect("a number"));
        assert!(trials > 0, "{name}: {}", case["failed"]);
        assert_intact(name.as_str().expect("a name"), case);
        // 30 messages are due in a trial. The last ones may arrive after its end.
        let received = count(case, "received");
        let bounds = trials * 50 * 20..=trials * 50 * 32;
        assert!(bounds.contains(&received), "{name}: {bounds:?} messages, {}", case["messages"]);
        // The last connection has each message after the first one.
        let (age, reach) = (p50(case, "age"), p50(case, "reach"));
        assert!(0.0 < age && age <= 1.05 * reach, "{name}: age {age} µs, reach {reach} µs");
    }
}

/// RFC 8441. nginx does not have it. To an upstream with HTTP/1.1, Envoy sends a handshake without a key.
#[test]
fn echoes_pass_over_http2() {
    let both_legs = |pack: &str| format!("{{ name: {pack}, label: {pack}-h2, upstream_http: 2 }}");
    let load = "connections: 2, http: 2, streams: 4, requests: 400, duration: 60s";
    let mut gateways = installed(&["haproxy"], str::to_owned);
    gateways.extend(installed(&["haproxy"], both_legs));
    every_message_passes(&plan(&gateways.join(", "), "messages: 20", load), 8);
    // On each new connection to the upstream, Envoy 1.40 refuses the first WebSockets or resets them.
    for envoy in installed(&["envoy"], both_legs) {
        let report = measured(&plan(&envoy, "messages: 20", load));
        let case = cases(&report).last().expect("the gateway's");
        let of = |key: &str| case["counts"][key].as_u64().expect("a number");
        assert!(of("ok") > 20 && of("ok") * 10 >= of("scheduled") * 9, "{}", case["counts"]);
        assert_eq!(of("completed") + of("resets"), of("scheduled"), "{}", case["counts"]);
    }
}

#[test]
fn compressed_messages_pass() {
    let load = "connections: 4, requests: 40, duration: 60s";
    let deflate = "messages: 20, message: 10KiB, compression: deflate";
    let report = every_message_passes(&plan(&gateways(), deflate, load), 4);
    for case in cases(&report) {
        let trials = case["trials"].as_u64().expect("a number");
        let (compressed, ok) = (count(case, "compressed"), case["counts"]["ok"].as_u64().expect("a number"));
        assert!(compressed.abs_diff(ok) <= 4 * trials, "{}: {compressed} of {ok}", case["case"]);
    }
}
