//! Does a gateway pass on what it is given? A table of requests, asked direct and through the gateway.
//!
//! What direct answers the gateway answers, and what the client sent the upstream sees; headers that a hop is free to change
//! apart ([`HOP_BY_HOP`]). A difference is no mistake where it is what this gateway does: its pack lists it under `differences`,
//! and what is listed must be seen.

mod cases;

pub use cases::{CASES, Case};

use super::packs::manifest::Difference;
use super::verify::difference;
use cases::Sent;
use hoptax_servers::http_client::{Answer, HttpClient};
use std::net::SocketAddr;
use std::time::Duration;

/// What one case showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Name of the case.
    pub case: &'static str,
    /// How the gateway differs from direct; absent where it does not.
    pub difference: Option<String>,
}

/// How what was seen fails to be what the pack lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// A difference that is not listed.
    Unlisted {
        /// Name of the case.
        case: &'static str,
        /// What was seen.
        seen: String,
    },
    /// Another difference than the one that is listed.
    Otherwise {
        /// Name of the case.
        case: &'static str,
        /// What was seen.
        seen: String,
        /// What is listed.
        listed: String,
    },
    /// A listed difference that was not seen.
    Unseen {
        /// Name of the case.
        case: String,
        /// What is listed.
        listed: String,
    },
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unlisted { case, seen } => {
                write!(f, "{case}: {seen}; the pack does not list it under `differences`")
            }
            Self::Otherwise { case, seen, listed } => write!(f, "{case}: {seen}; the pack lists `{listed}`"),
            Self::Unseen { case, listed } => {
                write!(f, "{case}: as direct; the pack lists `{listed}`, which was not seen")
            }
        }
    }
}

/// Asks every case of `direct`, the built-in upstream, and of a gateway before it; `timeout` is for each answer.
///
/// # Errors
/// If direct itself cannot be asked: then nothing can be told of the gateway.
pub fn observe(direct: SocketAddr, gateway: SocketAddr, timeout: Duration) -> anyhow::Result<Vec<Seen>> {
    CASES.iter().map(|case| one(case, direct, gateway, timeout)).collect()
}

fn one(
    case: &'static Case,
    direct: SocketAddr,
    gateway: SocketAddr,
    timeout: Duration,
) -> anyhow::Result<Seen> {
    let sent = case.sent();
    let ask = |address| {
        HttpClient { address, tls: None, from: None, timeout }.send(&sent.bytes, case.method == "HEAD")
    };
    let (there, here) = (ask(direct), ask(gateway));
    if let Err(error) = &there
        && !case.breaks
    {
        anyhow::bail!("direct could not be asked for `{}`: {error:#}", case.name);
    }
    let difference = match (&there, &here) {
        (Ok(there), Ok(here)) => seen_upstream(&sent, there, here).unwrap_or_else(|| difference(there, here)),
        (Err(_), Err(_)) => None,
        (Ok(_), Err(_)) => Some("no whole answer".to_owned()),
        (Err(_), Ok(here)) => Some(format!("status {} where direct breaks off", here.status)),
    };
    Ok(Seen { case: case.name, difference })
}

/// Where direct's answer is the upstream's echo: how what the upstream saw differs from what was sent.
fn seen_upstream(sent: &Sent, there: &Answer, here: &Answer) -> Option<Option<String>> {
    let echo = |answer: &Answer| {
        let value: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
        (value["hoptax"] == "echo").then_some(value)
    };
    let there = echo(there)?;
    if here.status != 200 {
        return Some(Some(format!("status {} instead of 200", here.status)));
    }
    let Some(here) = echo(here) else { return Some(Some("the echo did not come back whole".to_owned())) };
    for member in ["method", "path", "body_bytes", "body_digest"] {
        if there[member] != here[member] {
            let what = format!("the upstream saw {member} {} instead of {}", here[member], there[member]);
            return Some(Some(what));
        }
    }
    let lost = sent.headers.iter().find(|(name, value)| {
        let fields = here["headers"].as_array().into_iter().flatten();
        !fields.into_iter().any(|field| field[0] == *name && field[1] == *value)
    });
    Some(lost.map(|(name, value)| {
        format!("the upstream did not see the header `{name}` as it was sent, {} bytes", value.len())
    }))
}

/// Holds what was seen against what a pack lists.
pub fn mismatches(seen: &[Seen], listed: &[Difference]) -> Vec<Mismatch> {
    let mut all = Vec::new();
    for Seen { case, difference } in seen {
        let known = listed.iter().find(|known| known.case == *case);
        match (difference.clone(), known) {
            (Some(seen), None) => all.push(Mismatch::Unlisted { case, seen }),
            (Some(seen), Some(known)) if seen != known.what => {
                all.push(Mismatch::Otherwise { case, seen, listed: known.what.clone() });
            }
            (None, Some(known)) if !known.sometimes => {
                all.push(Mismatch::Unseen { case: known.case.clone(), listed: known.what.clone() });
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seen_and_listed_must_agree_both_ways() {
        let seen = [
            Seen { case: "get", difference: None },
            Seen { case: "close", difference: Some("status 502 where direct breaks off".into()) },
        ];
        let list = |case: &str, what: &str| Difference {
            case: case.into(),
            what: what.into(),
            reason: "as its documentation says".into(),
            sometimes: false,
        };
        assert_eq!(mismatches(&seen, &[list("close", "status 502 where direct breaks off")]), []);
        let told = |listed: &[Difference]| {
            mismatches(&seen, listed).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert!(told(&[]).ends_with("the pack does not list it under `differences`"));
        assert!(told(&[list("close", "status 503")]).ends_with("the pack lists `status 503`"));
        let both = [list("close", "status 502 where direct breaks off"), list("get", "status 404")];
        assert_eq!(told(&both), "get: as direct; the pack lists `status 404`, which was not seen");

        let sometimes = Difference { sometimes: true, ..list("get", "status 404") };
        let close = || list("close", "status 502 where direct breaks off");
        assert_eq!(mismatches(&seen, &[close(), sometimes.clone()]), [], "it need not be seen");
        let other = [Seen { case: "get", difference: Some("status 500".into()) }];
        assert_eq!(mismatches(&other, &[sometimes]).len(), 1, "but nothing else may be");
    }
}
