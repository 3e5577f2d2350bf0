//! HTTP archives (HAR 1.2), as browsers save them.

use crate::input::{ImportError, Options};
use crate::mix::Mix;
use crate::seen::{Seen, announce_chunks, url_parts};
use crate::time;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Reads the requests to one host into the mix. It is the host that the user named, or else the most frequent
/// host.
pub(crate) fn read(
    name: &str,
    text: &str,
    options: &Options,
    mix: &mut Mix,
    notes: &mut Vec<String>,
) -> Result<(), ImportError> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| ImportError::new(format!("{name} is not JSON: {error}")))?;
    let entries = document.pointer("/log/entries").and_then(Value::as_array);
    let entries = entries
        .ok_or_else(|| ImportError::new(format!("{name} is not a HAR file: it has no log.entries")))?;
    let all: Vec<Seen> = entries.iter().filter_map(|entry| seen(entry, options.keep_bodies)).collect();
    if all.len() < entries.len() {
        notes.push(format!("{name}: {} entries are not http or https requests", entries.len() - all.len()));
    }
    if 2 * entries.iter().filter(|entry| uses_http2(entry)).count() > entries.len() {
        notes.push(format!("{name}: most requests used HTTP/2; write `http: 2` in the load to measure it"));
    }
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for host in all.iter().filter_map(|seen| seen.host.as_deref()) {
        *hosts.entry(host).or_default() += 1;
    }
    let most = hosts.iter().max_by_key(|(_, count)| **count).map(|(host, _)| (*host).to_owned());
    let host = options.host.clone().or(most);
    let others: Vec<&str> = hosts.keys().copied().filter(|one| Some(*one) != host.as_deref()).collect();
    if !others.is_empty() {
        let shown = others.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        let more = if others.len() > 5 { ", …" } else { "" };
        notes.push(format!(
            "{name}: only requests to {} were read. Left out: {shown}{more}; --host chooses another",
            host.as_deref().unwrap_or("no host")
        ));
    }
    all.into_iter().filter(|seen| seen.host == host && seen.can_be_sent()).for_each(|seen| mix.add(seen));
    Ok(())
}

fn uses_http2(entry: &Value) -> bool {
    let version = entry.pointer("/request/httpVersion").and_then(Value::as_str).unwrap_or_default();
    ["h2", "HTTP/2", "HTTP/2.0"].iter().any(|name| version.eq_ignore_ascii_case(name))
}

fn seen(entry: &Value, keep_bodies: bool) -> Option<Seen> {
    let request = entry.get("request")?;
    let (host, target) = url_parts(request.get("url")?.as_str()?)?;
    let response = entry.get("response");
    let length =
        |value: Option<&Value>| value.and_then(Value::as_i64).and_then(|length| u64::try_from(length).ok());
    // A response from the browser's cache has status 0 or no length on the wire.
    let status = response.and_then(|response| response.get("status")).and_then(Value::as_u64);
    let on_the_wire =
        length(response.and_then(|response| response.get("bodySize"))).filter(|length| *length > 0);
    let decoded = || length(response.and_then(|response| response.pointer("/content/size")));
    let body = request.pointer("/postData/text").and_then(Value::as_str).filter(|text| !text.is_empty());
    let headers = request.get("headers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let pair = |header: &Value| {
        Some((header.get("name")?.as_str()?.to_owned(), header.get("value")?.as_str()?.to_owned()))
    };
    let headers: Vec<(String, String)> = headers.iter().filter_map(pair).collect();
    // Time until the first byte of the response. The times for sending and receiving belong to the network.
    let wait = entry.pointer("/timings/wait").and_then(Value::as_f64).filter(|wait| *wait >= 0.0);
    Some(Seen {
        method: request.get("method")?.as_str()?.to_owned(),
        target,
        host: Some(host.to_ascii_lowercase()),
        status: status.and_then(|status| u16::try_from(status).ok()).filter(|status| *status >= 100),
        at: entry.get("startedDateTime").and_then(Value::as_str).and_then(time::any),
        request_bytes: body
            .map(|body| body.len() as u64)
            .or_else(|| length(request.get("bodySize")).filter(|length| *length > 0)),
        response_bytes: on_the_wire.or_else(decoded),
        took: wait.and_then(|wait| Duration::try_from_secs_f64(wait / 1e3).ok()),
        is_chunked: announce_chunks(&headers),
        headers,
        body: body.filter(|_| keep_bodies).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_the_most_frequent_host_are_read() {
        let entry = |method: &str, url: &str| {
            format!(
                r#"{{"startedDateTime":"2026-11-27T20:25:44.000Z","request":{{"method":"{method}","url":"{url}","headers":[
                {{"name":"Accept","value":"*/*"}},{{"name":"Cookie","value":"a=b"}}],"postData":{{"text":"x=secret"}}}},
                "response":{{"status":200,"bodySize":120,"content":{{"size":500}}}},"timings":{{"wait":12.5}}}}"#
            )
        };
        let entries = [
            entry("GET", "https://shop.test/items/1"),
            entry("POST", "https://shop.test/items/2?token=abc"),
            entry("GET", "https://ads.test/x"),
            entry("GET", "data:text/plain,x"),
        ];
        let text = format!(r#"{{"log":{{"entries":[{}]}}}}"#, entries.join(","));
        let (mut mix, mut notes) = (Mix::new(false), Vec::new());
        read("a.har", &text, &Options::default(), &mut mix, &mut notes).expect("read");
        assert_eq!(mix.requests(), 2);
        assert_eq!(mix.left_out, ["cookie"]);
        insta::assert_snapshot!(notes.join("\n"));
        let chosen = mix.choose(9);
        assert!(
            chosen.targets.iter().all(|(_, class, _)| class.body.is_none()),
            "bodies are not copied unless asked for"
        );
        assert!(
            chosen.targets.iter().all(|(_, class, _)| class.answers[&Some(200)].bytes.mean() == Some(120.0))
        );
        let keep = Options { keep_bodies: true, host: Some("ads.test".into()), ..Options::default() };
        let mut mix = Mix::new(false);
        read("a.har", &text, &keep, &mut mix, &mut Vec::new()).expect("read");
        assert_eq!((mix.requests(), mix.choose(1).targets[0].1.body.as_deref()), (1, Some("x=secret")));
        assert!(
            read("a.har", "{}", &keep, &mut mix, &mut notes)
                .is_err_and(|error| error.to_string().contains("no log.entries"))
        );
    }

    #[test]
    fn http2_is_a_note() {
        for (version, expected) in [("http/2.0", 1), ("h2", 1), ("HTTP/1.1", 0)] {
            let request = format!(r#"{{"method":"GET","url":"https://a.test/","httpVersion":"{version}"}}"#);
            let text = format!(r#"{{"log":{{"entries":[{{"request":{request}}}]}}}}"#);
            let (mut mix, mut notes) = (Mix::new(false), Vec::new());
            read("a.har", &text, &Options::default(), &mut mix, &mut notes).expect("read");
            assert_eq!((mix.requests(), notes.len()), (1, expected), "{version}: {notes:?}");
        }
    }
}
