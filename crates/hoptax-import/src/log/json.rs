//! Logs with one JSON object per line. Servers name the keys differently, and nginx's users name them
//! themselves.

use crate::seen::{Seen, origin_form, request_line};
use crate::time;
use serde_json::{Map, Value};
use std::time::Duration;

/// Reads a line; `None` if it is not an object with a method, a path and a status.
pub(super) fn read(line: &str) -> Option<Seen> {
    let Value::Object(object) = serde_json::from_str(line).ok()? else { return None };
    let mut seen = Seen::default();
    // The value of this key is an object in Caddy's logs, and the request line in all others.
    let nested = object.get("request").and_then(Value::as_object);
    match text(&object, &["request", "request_line"]).and_then(|line| request_line(&line)) {
        Some((method, target)) => (seen.method, seen.target) = (method, target),
        None => {
            let of =
                |keys: &[&str]| text(&object, keys).or_else(|| nested.and_then(|nested| text(nested, keys)));
            seen.method =
                of(&["method", "request_method", "http_method", "RequestMethod", ":method", "verb"])?;
            let target = of(&[
                "request_uri",
                "uri",
                "path",
                "url",
                "request_path",
                "RequestPath",
                "x_envoy_original_path",
            ])?;
            seen.target = origin_form(&target).to_owned();
            let query = of(&["query", "args", "query_string"]).filter(|_| !seen.target.contains('?'));
            if let Some(query) = query.filter(|query| !query.is_empty() && query != "-") {
                seen.target = format!("{}?{}", seen.target, query.trim_start_matches('?'));
            }
        }
    }
    let status = ["status", "response_code", "status_code", "code", "DownstreamStatus"];
    seen.status = Some(number(&object, &status)? as u16).filter(|status| (100..=999).contains(status));
    seen.status?;
    let host = ["host", "http_host", "authority", "server_name", "RequestHost", ":authority"];
    seen.host = text(&object, &host).or_else(|| nested.and_then(|nested| text(nested, &host)));
    seen.host = seen.host.filter(|host| host != "-").map(|host| host.to_ascii_lowercase());
    let bytes = ["body_bytes_sent", "bytes_sent", "size", "response_size", "bytes", "DownstreamContentSize"];
    seen.response_bytes = number(&object, &bytes).map(|bytes| bytes as u64);
    let bytes =
        ["content_length", "request_content_length", "bytes_received", "bytes_read", "RequestContentSize"];
    seen.request_bytes = number(&object, &bytes).map(|bytes| bytes as u64);
    seen.took = took(&object, nested.is_some());
    let at = [
        "time",
        "timestamp",
        "@timestamp",
        "ts",
        "start_time",
        "time_iso8601",
        "time_local",
        "msec",
        "StartUTC",
        "date",
    ];
    seen.at = at.iter().find_map(|key| object.get(*key)).and_then(|value| match value {
        Value::Number(number) => time::epoch(number.as_f64()?),
        Value::String(text) => time::any(text),
        _ => None,
    });
    Some(seen)
}

/// Time of the service, or of the whole request. The unit follows from the key: nginx's variables are
/// seconds, Envoy's durations milliseconds, Caddy's (`is_caddy`) seconds and Traefik's nanoseconds.
fn took(object: &Map<String, Value>, is_caddy: bool) -> Option<Duration> {
    const UNITS: [(&str, f64); 12] = [
        ("upstream_response_time", 1.0),
        ("OriginDuration", 1e-9),
        ("upstream_service_time", 1e-3),
        ("request_time", 1.0),
        ("Duration", 1e-9),
        ("duration_ms", 1e-3),
        ("duration_us", 1e-6),
        ("duration_s", 1.0),
        ("response_time_ms", 1e-3),
        ("latency_ms", 1e-3),
        ("took_ms", 1e-3),
        ("elapsed_ms", 1e-3),
    ];
    let known = UNITS.iter().find_map(|(key, unit)| Some(number(object, &[key])? * unit));
    let duration =
        || number(object, &["duration"]).map(|number| if is_caddy { number } else { number / 1e3 });
    Duration::try_from_secs_f64(known.or_else(duration)?).ok()
}

fn text(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| object.get(*key)?.as_str().filter(|text| !text.is_empty())).map(str::to_owned)
}

/// A number, which may be written as text. nginx writes one number for each upstream that it tried; the last
/// one is returned.
fn number(object: &Map<String, Value>, keys: &[&str]) -> Option<f64> {
    let parse = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.rsplit(',').next()?.trim().parse().ok(),
        _ => None,
    };
    keys.iter().find_map(|key| parse(object.get(*key)?)).filter(|number| number.is_finite() && *number >= 0.0)
}
