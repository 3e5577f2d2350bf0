//! What is made of what was seen. Pure.

use super::look::{Look, Setup};
use super::strain::{Strain, Told};
use hoptax_lab::packs::Pack;
use hoptax_plan::units;
use hoptax_record::Failure;
use serde::Serialize;
use std::time::Duration;

/// Bytes of log per request from which on there is one: no line is shorter.
const A_LINE: f64 = 8.0;

/// An upstream connection for more than this share of requests, beyond those that fill the pool: they are not reused.
const NOT_REUSED: f64 = 0.1;

/// The same of client connections, and of requests upstream that nobody made.
const LOST: f64 = 0.02;

/// How often each client connection may have one of its own upstream before any is missing from the pool: workers keep pools
/// of their own.
const POOL: u64 = 2;

/// What came of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// As it should be.
    #[serde(rename = "ok")]
    Ok,
    /// Other gateways are configured otherwise: figures of this one cannot be set beside theirs.
    #[serde(rename = "not equalised")]
    NotEqualised,
    /// The pack breaks a rule that all packs keep.
    #[serde(rename = "wrong")]
    Wrong,
    /// The pack says that it cannot be, or something else stood in the way.
    #[serde(rename = "not looked at")]
    NotLookedAt,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotEqualised => "not equalised",
            Self::Wrong => "wrong",
            Self::NotLookedAt => "not looked at",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Its name.
    pub check: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// What was seen.
    pub evidence: String,
    /// What to do; empty where there is nothing to do.
    pub advice: &'static str,
}

/// Says what is wrong with a pack whose gateway was looked at like this. `failed` is the set-up in which it did not start.
pub(super) fn judge(
    pack: &Pack,
    looks: &[Look],
    strains: &[Strain],
    failed: Option<&(Setup, Failure)>,
) -> Vec<Item> {
    let mut items = vec![start(failed, pack)];
    if looks.is_empty() {
        return items;
    }
    let logged = looks.iter().find(|look| look.setup.access_log);
    items.extend([
        answers(looks),
        workers(strains),
        upstream_connections(looks),
        upstream_version(looks),
        extra_requests(looks),
        client_connections(looks),
        log_off(looks),
        log_on(logged, pack),
        listens(looks),
        stops(looks, pack),
    ]);
    items
}

fn item(check: &'static str, fault: Option<Verdict>, evidence: String, advice: &'static str) -> Item {
    match fault {
        None => Item { check, verdict: Verdict::Ok, evidence, advice: "" },
        Some(verdict) => Item { check, verdict, evidence, advice },
    }
}

fn skipped(check: &'static str, pack: &Pack, what: &str) -> Item {
    let reason = pack.manifest().unsupported.get(what).map_or("it did not start so", String::as_str);
    Item { check, verdict: Verdict::NotLookedAt, evidence: format!("{what}: {reason}"), advice: "" }
}

fn start(failed: Option<&(Setup, Failure)>, pack: &Pack) -> Item {
    let advice = "it must start, stay in the foreground and become ready: see its log lines with `--keep`";
    let evidence = match failed {
        None => "it stayed in the foreground and became ready".to_owned(),
        Some((setup, failure)) => {
            format!("{}: {} (`start` is at {})", described(setup), failure.message, pack.place_of("start"))
        }
    };
    item("start", failed.map(|_| Verdict::Wrong), evidence, advice)
}

fn described(setup: &Setup) -> String {
    let workers =
        if setup.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", setup.workers) };
    format!("{workers}, access log {}", if setup.access_log { "on" } else { "off" })
}

fn answers(looks: &[Look]) -> Item {
    let fault = looks.iter().find_map(|look| look.otherwise.as_ref());
    let evidence = fault.map_or("as direct does".to_owned(), |failure| failure.message.clone());
    item(
        "answers",
        fault.map(|_| Verdict::Wrong),
        evidence,
        "pass requests and responses on unchanged: `hoptax run` refuses it otherwise",
    )
}

/// With one worker it uses no more than one CPU at once, and with two more than that; or, where chance gave all connections to
/// the same, there is at least something more of it than with one.
fn workers(strains: &[Strain]) -> Item {
    let fault = |verdict, evidence| {
        item(
            "workers",
            verdict,
            evidence,
            "let as much of it work at once as `{{ workers }}` says; see `held_to_cpus` where it \
             has no such setting",
        )
    };
    let seen = strains.iter().map(Strain::described).collect::<Vec<_>>().join("; ");
    let Some(one) = strains.first() else {
        return Item {
            check: "workers",
            verdict: Verdict::NotLookedAt,
            evidence: "it did not start so".into(),
            advice: "",
        };
    };
    let alone = one.beyond(one.workers);
    let two = strains.get(1);
    let ignored = two.is_some_and(|two| {
        let more = two.processes > one.processes || two.threads > one.threads || two.cpus > one.cpus;
        two.beyond(1) == Told::Within && !more
    });
    match alone {
        Told::Beyond => fault(Some(Verdict::NotEqualised), seen),
        _ if ignored => fault(Some(Verdict::NotEqualised), seen),
        Told::Within => fault(None, seen),
        Told::Open(why) => Item {
            check: "workers",
            verdict: Verdict::NotLookedAt,
            evidence: format!("cannot be told here, as {why}: {seen}"),
            advice: "",
        },
    }
}

fn upstream_connections(looks: &[Look]) -> Item {
    let share = |look: &Look| {
        let excess = look.ledger.connections.saturating_sub(look.connections * POOL);
        excess as f64 / look.ledger.requests.max(1) as f64
    };
    let fault = looks.iter().any(|look| share(look) > NOT_REUSED).then_some(Verdict::NotEqualised);
    let seen = |look: &Look| {
        format!("{} connections for {} requests", look.ledger.connections, look.ledger.requests)
    };
    item(
        "upstream connections",
        fault,
        each(looks, seen),
        "keep connections to the upstream open, as many as `{{ connections }}`",
    )
}

fn upstream_version(looks: &[Look]) -> Item {
    let other = |look: &Look| look.ledger.http_version.keys().any(|version| version != "1.1");
    let seen = |look: &Look| {
        let told = look.ledger.http_version.iter().map(|(version, count)| format!("HTTP/{version} ×{count}"));
        told.collect::<Vec<_>>().join(", ")
    };
    let fault = looks.iter().any(other).then_some(Verdict::NotEqualised);
    item("upstream HTTP version", fault, each(looks, seen), "speak HTTP/1.1 to the upstream")
}

/// More requests upstream than were sent are probes or retries; fewer than were answered come from a cache.
fn extra_requests(looks: &[Look]) -> Item {
    let off = |look: &Look| {
        let most = (LOST * look.sent as f64) as u64;
        let (extra, missing) = (
            look.ledger.requests.saturating_sub(look.sent),
            look.completed.saturating_sub(look.ledger.requests),
        );
        extra > most || missing > most
    };
    let seen = |look: &Look| {
        format!("{} sent, {} answered, {} upstream", look.sent, look.completed, look.ledger.requests)
    };
    let fault = looks.iter().any(off).then_some(Verdict::NotEqualised);
    item(
        "extra requests",
        fault,
        each(looks, seen),
        "switch off health checks, mirrors, retries and caches: each request goes upstream once",
    )
}

fn client_connections(looks: &[Look]) -> Item {
    let lost = |look: &Look| {
        let excess = look.opened.saturating_sub(look.connections);
        excess as f64 > LOST * look.sent as f64
    };
    let seen =
        |look: &Look| format!("{} opened for {} requests on {}", look.opened, look.sent, look.connections);
    let fault = looks.iter().any(lost).then_some(Verdict::NotEqualised);
    item(
        "client connections",
        fault,
        each(looks, seen),
        "leave clients' connections open, however many requests they carry",
    )
}

fn per_request(look: &Look) -> f64 {
    look.log_bytes as f64 / look.sent.max(1) as f64
}

fn logs_seen(look: &Look) -> String {
    let files = if look.grown.is_empty() { "no file".to_owned() } else { look.grown.join(", ") };
    format!("{:.1} bytes per request ({files})", per_request(look))
}

fn log_off(looks: &[Look]) -> Item {
    let quiet: Vec<&Look> = looks.iter().filter(|look| !look.setup.access_log).collect();
    let fault = quiet.iter().any(|look| per_request(look) >= A_LINE).then_some(Verdict::NotEqualised);
    let evidence = quiet.iter().map(|look| logs_seen(look)).collect::<Vec<_>>().join("; ");
    item("access log off", fault, evidence, "write no access log unless `{{ access_log }}` names a file")
}

fn log_on(logged: Option<&Look>, pack: &Pack) -> Item {
    let Some(look) = logged else { return skipped("access log on", pack, "access_log") };
    let fault = (per_request(look) < A_LINE).then_some(Verdict::NotEqualised);
    item(
        "access log on",
        fault,
        logs_seen(look),
        "write a line per request to the file that `{{ access_log }}` names",
    )
}

fn listens(looks: &[Look]) -> Item {
    let all: std::collections::BTreeSet<_> =
        looks.iter().flat_map(|look| look.listening.iter().copied()).collect();
    let beyond: Vec<String> =
        all.iter().filter(|address| !address.ip().is_loopback()).map(ToString::to_string).collect();
    let evidence = match beyond.is_empty() {
        true => format!("{} addresses, all of 127.0.0.0/8 or ::1", all.len()),
        false => beyond.join(", "),
    };
    let fault = (!beyond.is_empty()).then_some(Verdict::Wrong);
    item(
        "listens on loopback",
        fault,
        evidence,
        "listen on 127.0.0.1 alone, on `{{ port }}` and `{{ admin_port }}`",
    )
}

fn stops(looks: &[Look], pack: &Pack) -> Item {
    let grace = units::duration(&pack.manifest().stop.grace).unwrap_or(Duration::MAX);
    let longest = looks.iter().map(|look| look.stopped_in).max().unwrap_or_default();
    let left: u32 = looks.iter().map(|look| look.left).sum();
    let evidence = match left {
        0 => format!(
            "nothing left after {:.1} s at most; its grace is {}",
            longest.as_secs_f64(),
            pack.manifest().stop.grace
        ),
        left => format!("{left} process(es) left"),
    };
    let fault = (left > 0 || longest >= grace).then_some(Verdict::Wrong);
    item(
        "stops",
        fault,
        evidence,
        "name the signal in `stop.signal` that ends it at once, or a longer `stop.grace`",
    )
}

/// What was seen in each look, the same told once.
fn each(looks: &[Look], seen: impl Fn(&Look) -> String) -> String {
    let mut told: Vec<String> = looks.iter().map(seen).collect();
    told.dedup();
    told.join("; ")
}
