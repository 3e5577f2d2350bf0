//! Rules that turn observations of a gateway into lint findings. All rules are pure functions.

use super::cpu_use::{Conclusion, CpuUse};
use super::observe::{Observation, Setup};
use hoptax_format::spec::HttpVersion;
use hoptax_lab::packs::Pack;
use hoptax_plan::units;
use hoptax_record::Failure;
use serde::Serialize;
use std::time::Duration;

/// Minimum growth of the log per request, in bytes, if the gateway writes an access log. No log line is
/// shorter than this.
const A_LINE: f64 = 8.0;

/// Maximum share of requests that may open an upstream connection. Above this share, the gateway does not
/// reuse connections. Connections that fill the gateway's pool are not counted.
const NOT_REUSED: f64 = 0.1;

/// Maximum share of requests that may open a new client connection. It is also the maximum difference between
/// the numbers of upstream requests and client requests, as a share of the client requests.
const LOST: f64 = 0.02;

/// Number of upstream connections per client connection that the gateway may open to fill its pools. Each
/// worker has a pool of its own.
const POOL: u64 = 2;

/// Outcome of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// No fault.
    #[serde(rename = "ok")]
    Ok,
    /// The configuration differs from the configuration of other gateways. Therefore the figures of this
    /// gateway cannot be compared with the figures of other gateways.
    #[serde(rename = "not equalised")]
    NotEqualised,
    /// The pack breaks a rule for all packs.
    #[serde(rename = "wrong")]
    Wrong,
    /// The pack lists the checked setting as unsupported, or the check had no clear result.
    #[serde(rename = "not looked at")]
    NotLookedAt,
}

impl Verdict {
    /// The verdict as text.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotEqualised => "not equalised",
            Self::Wrong => "wrong",
            Self::NotLookedAt => "not looked at",
        }
    }
}

/// One check and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Name of the check.
    pub check: &'static str,
    /// Outcome of the check.
    pub verdict: Verdict,
    /// What was observed.
    pub evidence: String,
    /// What the author of the pack can do. Empty if there is nothing to do.
    pub advice: &'static str,
}

/// Judges a pack by the observations of its gateway. `failed` is the set-up in which the gateway did not
/// start.
pub(super) fn judge(
    pack: &Pack,
    observations: &[Observation],
    cpu_uses: &[CpuUse],
    failed: Option<&(Setup, Failure)>,
) -> Vec<Item> {
    let mut items = vec![start(failed, pack)];
    if observations.is_empty() {
        return items;
    }
    let logged = observations.iter().find(|observation| observation.setup.access_log);
    items.extend([
        answers(observations),
        workers(cpu_uses),
        upstream_connections(observations),
        upstream_version(observations),
        extra_requests(observations),
        client_connections(observations),
        log_off(observations),
        log_on(logged, pack),
        listens(observations),
        stops(observations, pack),
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
    let reason =
        pack.manifest().unsupported.get(what).map_or("it did not start in this set-up", String::as_str);
    Item { check, verdict: Verdict::NotLookedAt, evidence: format!("{what}: {reason}"), advice: "" }
}

fn start(failed: Option<&(Setup, Failure)>, pack: &Pack) -> Item {
    let advice = "make it start, stay in the foreground and become ready; `--keep DIR` keeps its logs";
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

fn answers(observations: &[Observation]) -> Item {
    let fault = observations.iter().find_map(|observation| observation.differs.as_ref());
    let evidence = fault.map_or("same as direct".to_owned(), |failure| failure.message.clone());
    item(
        "answers",
        fault.map(|_| Verdict::Wrong),
        evidence,
        "forward requests and responses unchanged; otherwise `hoptax run` refuses this gateway",
    )
}

/// With one worker, a gateway must use at most one CPU at once. With two workers, the gateway must use more
/// than one CPU, or have more processes, threads or allowed CPUs than with one worker. The second condition
/// is enough, because all connections may have gone to one worker by chance.
fn workers(cpu_uses: &[CpuUse]) -> Item {
    let fault = |verdict, evidence| {
        item(
            "workers",
            verdict,
            evidence,
            "set the number of workers or threads to `{{ workers }}`; if the gateway has no such setting, \
             use `held_to_cpus`",
        )
    };
    let seen = cpu_uses.iter().map(CpuUse::described).collect::<Vec<_>>().join("; ");
    let Some(one) = cpu_uses.first() else {
        return Item {
            check: "workers",
            verdict: Verdict::NotLookedAt,
            evidence: "it did not start in this set-up".into(),
            advice: "",
        };
    };
    let alone = one.beyond(one.workers);
    let two = cpu_uses.get(1);
    let ignored = two.is_some_and(|two| {
        let more = two.processes > one.processes || two.threads > one.threads || two.cpus > one.cpus;
        two.beyond(1) == Conclusion::Within && !more
    });
    match alone {
        Conclusion::Beyond => fault(Some(Verdict::NotEqualised), seen),
        _ if ignored => fault(Some(Verdict::NotEqualised), seen),
        Conclusion::Within => fault(None, seen),
        Conclusion::Unknown(why) => Item {
            check: "workers",
            verdict: Verdict::NotLookedAt,
            evidence: format!("inconclusive, because {why}: {seen}"),
            advice: "",
        },
    }
}

fn upstream_connections(observations: &[Observation]) -> Item {
    let share = |observation: &Observation| {
        let excess = observation.ledger.connections.saturating_sub(observation.connections * POOL);
        excess as f64 / observation.ledger.requests.max(1) as f64
    };
    let fault = observations
        .iter()
        .any(|observation| share(observation) > NOT_REUSED)
        .then_some(Verdict::NotEqualised);
    let seen = |observation: &Observation| {
        format!("{} connections for {} requests", observation.ledger.connections, observation.ledger.requests)
    };
    item(
        "upstream connections",
        fault,
        each(observations, seen),
        "keep up to `{{ connections }}` connections to the upstream open",
    )
}

fn upstream_version(observations: &[Observation]) -> Item {
    let is_http2 = |observation: &Observation| observation.upstream_http == HttpVersion::Http2;
    let other = |observation: &Observation| {
        let version = if is_http2(observation) { "2" } else { "1.1" };
        observation.ledger.http_version.keys().any(|spoken| spoken != version)
    };
    let seen = |observation: &Observation| {
        let texts =
            observation.ledger.http_version.iter().map(|(version, count)| format!("HTTP/{version} ×{count}"));
        texts.collect::<Vec<_>>().join(", ")
    };
    let fault = observations.iter().any(other).then_some(Verdict::NotEqualised);
    let advice = match observations.iter().any(is_http2) {
        true => "use HTTP/2 to the upstream if `{{ upstream_http2 }}` is true",
        false => "use HTTP/1.1 to the upstream",
    };
    item("upstream HTTP version", fault, each(observations, seen), advice)
}

/// If there are more upstream requests than client requests, the gateway probes or retries. If there are
/// fewer upstream requests than answers, the gateway has a cache.
fn extra_requests(observations: &[Observation]) -> Item {
    let off = |observation: &Observation| {
        let most = (LOST * observation.sent as f64) as u64;
        let (extra, missing) = (
            observation.ledger.requests.saturating_sub(observation.sent),
            observation.completed.saturating_sub(observation.ledger.requests),
        );
        extra > most || missing > most
    };
    let seen = |observation: &Observation| {
        format!(
            "{} sent, {} answered, {} upstream",
            observation.sent, observation.completed, observation.ledger.requests
        )
    };
    let fault = observations.iter().any(off).then_some(Verdict::NotEqualised);
    item(
        "extra requests",
        fault,
        each(observations, seen),
        "disable health checks, mirrors, retries and caches, so that each request goes upstream exactly once",
    )
}

fn client_connections(observations: &[Observation]) -> Item {
    let lost = |observation: &Observation| {
        let excess = observation.opened.saturating_sub(observation.connections);
        excess as f64 > LOST * observation.sent as f64
    };
    let seen = |observation: &Observation| {
        format!(
            "{} opened for {} requests on {}",
            observation.opened, observation.sent, observation.connections
        )
    };
    let fault = observations.iter().any(lost).then_some(Verdict::NotEqualised);
    item(
        "client connections",
        fault,
        each(observations, seen),
        "never close client connections, no matter how many requests they carry",
    )
}

fn per_request(observation: &Observation) -> f64 {
    observation.log_bytes as f64 / observation.sent.max(1) as f64
}

fn logs_seen(observation: &Observation) -> String {
    let files =
        if observation.grown.is_empty() { "no file".to_owned() } else { observation.grown.join(", ") };
    format!("{:.1} bytes per request ({files})", per_request(observation))
}

fn log_off(observations: &[Observation]) -> Item {
    let quiet: Vec<&Observation> =
        observations.iter().filter(|observation| !observation.setup.access_log).collect();
    let fault =
        quiet.iter().any(|observation| per_request(observation) >= A_LINE).then_some(Verdict::NotEqualised);
    let evidence = quiet.iter().map(|observation| logs_seen(observation)).collect::<Vec<_>>().join("; ");
    item("access log off", fault, evidence, "write no access log unless `{{ access_log }}` names a file")
}

fn log_on(logged: Option<&Observation>, pack: &Pack) -> Item {
    let Some(observation) = logged else { return skipped("access log on", pack, "access_log") };
    let fault = (per_request(observation) < A_LINE).then_some(Verdict::NotEqualised);
    item(
        "access log on",
        fault,
        logs_seen(observation),
        "write a line per request to the file that `{{ access_log }}` names",
    )
}

fn listens(observations: &[Observation]) -> Item {
    let all: std::collections::BTreeSet<_> =
        observations.iter().flat_map(|observation| observation.listening.iter().copied()).collect();
    let beyond: Vec<String> =
        all.iter().filter(|address| !address.ip().is_loopback()).map(ToString::to_string).collect();
    let evidence = match beyond.is_empty() {
        true => format!("{} address(es), all in 127.0.0.0/8 or ::1", all.len()),
        false => beyond.join(", "),
    };
    let fault = (!beyond.is_empty()).then_some(Verdict::Wrong);
    item(
        "listens on loopback",
        fault,
        evidence,
        "listen only on `{{ listen }}` for traffic, and on 127.0.0.1 for `{{ admin_port }}`",
    )
}

fn stops(observations: &[Observation], pack: &Pack) -> Item {
    let grace = units::duration(&pack.manifest().stop.grace).unwrap_or(Duration::MAX);
    let longest = observations.iter().map(|observation| observation.stopped_in).max().unwrap_or_default();
    let left: u32 = observations.iter().map(|observation| observation.left).sum();
    let evidence = match left {
        0 => format!(
            "all processes exited within {:.1} s; `stop.grace` is {}",
            longest.as_secs_f64(),
            pack.manifest().stop.grace
        ),
        left => format!("{left} process(es) still running"),
    };
    let fault = (left > 0 || longest >= grace).then_some(Verdict::Wrong);
    item(
        "stops",
        fault,
        evidence,
        "set `stop.signal` to the signal that stops the gateway at once, or raise `stop.grace`",
    )
}

/// The evidence of all observations. Evidence that is the same in consecutive observations is listed once.
fn each(observations: &[Observation], seen: impl Fn(&Observation) -> String) -> String {
    let mut texts: Vec<String> = observations.iter().map(seen).collect();
    texts.dedup();
    texts.join("; ")
}
