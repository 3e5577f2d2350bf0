//! What is requested, what an answer must be like, and when to give up.

use super::Body;
use hoptax_load::spec::Check;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// One of the things that are requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Distinct among the targets: method and path unless given.
    #[serde(default)]
    pub name: String,
    /// Share of the requests: weight over the sum of weights; at least 1.
    #[serde(default = "one")]
    pub weight: u32,
    /// Method.
    pub method: String,
    /// Path and query, beginning with `/`; a template.
    pub path: String,
    /// Headers in order, their values templates; where `host` is absent, the address connected to is sent.
    pub headers: Vec<(String, String)>,
    /// Request body; none for most.
    pub body: Option<Body>,
    /// Whether templates in the body are expanded.
    #[serde(default)]
    pub body_is_template: bool,
    /// What an answer must be like; without one that is about the status, 200 to 399 are successes.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Whether bodies differ from one answer to the next, so that a gateway's is not held against direct's.
    #[serde(default)]
    pub varies: bool,
}

fn one() -> u32 {
    1
}

impl Target {
    /// A plain GET.
    pub fn get(path: &str) -> Self {
        Self {
            name: format!("GET {path}"),
            weight: 1,
            method: "GET".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: None,
            body_is_template: false,
            checks: Vec::new(),
            varies: false,
        }
    }

    /// What is requested, in words: `GET /`, or of a mix `90 % GET /, 10 % login (POST /login)`.
    pub fn describe_all(targets: &[Self]) -> String {
        if let [only] = targets {
            return format!("{} {}", only.method, only.path);
        }
        let each = targets.iter().map(|target| {
            let share = target.share_of(targets) * 100.0;
            let digits = if share < 1.0 { 100.0 } else { 10.0 };
            let what = format!("{} {}", target.method, target.path);
            let named = if what == target.name { what } else { format!("{} ({what})", target.name) };
            format!("{} % {named}", (share * digits).round() / digits)
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Its share of the requests, when these are all targets.
    pub fn share_of(&self, targets: &[Self]) -> f64 {
        f64::from(self.weight) / targets.iter().map(|target| f64::from(target.weight)).sum::<f64>()
    }

    /// Whether its checks say which statuses are successes, and this is one of them.
    pub fn expects_status(&self, status: u16) -> bool {
        self.checks.iter().any(|check| match check {
            Check::Status(ranges) => ranges.iter().any(|(least, most)| (*least..=*most).contains(&status)),
            _ => false,
        })
    }
}

/// Targets of a file of their own, which `hoptax load --targets` is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// At least one, with distinct names.
    pub targets: Vec<Target>,
    /// Where the files lie that templates take lines from, by the name that templates give them.
    pub files: BTreeMap<String, PathBuf>,
}

/// Reads the list of targets, or the single one of runs from before there were lists.
pub(super) fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Target>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        More(Vec<Target>),
        One(Target),
    }
    let mut targets = match Either::deserialize(deserializer)? {
        Either::More(targets) => targets,
        Either::One(target) => vec![target],
    };
    for target in targets.iter_mut().filter(|target| target.name.is_empty()) {
        target.name = format!("{} {}", target.method, target.path);
    }
    Ok(targets)
}

/// When to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// Given to each connect, and after it to each TLS handshake.
    pub connect: Duration,
    /// From the moment a request was sent to the first byte of its answer.
    pub first_byte: Duration,
    /// From the moment a request was sent to the end of its answer.
    pub total: Duration,
}

impl Timeouts {
    /// The same for all three.
    pub fn all(timeout: Duration) -> Self {
        Self { connect: timeout, first_byte: timeout, total: timeout }
    }
}

impl<'de> Deserialize<'de> for Timeouts {
    /// Reads the three, or the single one of runs from before there were three.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Each { connect: Duration, first_byte: Duration, total: Duration },
            All(Duration),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Each { connect, first_byte, total } => Self { connect, first_byte, total },
            Either::All(timeout) => Self::all(timeout),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Held {
        #[serde(alias = "target", deserialize_with = "one_or_more")]
        targets: Vec<Target>,
        timeout: Timeouts,
    }

    #[test]
    fn a_run_from_before_there_were_lists_still_reads() {
        let old = r#"{"target":{"method":"PUT","path":"/a","headers":[["host","x"]],"body":{"size":5}},
            "timeout":{"secs":3,"nanos":0}}"#;
        let held: Held = serde_json::from_str(old).expect("an older form");
        let expected = Target {
            name: "PUT /a".into(),
            method: "PUT".into(),
            headers: vec![("host".into(), "x".into())],
            body: Some(Body::Size(5)),
            ..Target::get("/a")
        };
        assert_eq!(held.targets, [expected]);
        assert_eq!(held.timeout, Timeouts::all(Duration::from_secs(3)));
    }

    #[test]
    fn what_is_written_reads_back() {
        let held = Held {
            targets: vec![
                Target { checks: vec![Check::BodyContains("x".into())], weight: 7, ..Target::get("/a") },
                Target::get("/b"),
            ],
            timeout: Timeouts { connect: Duration::from_millis(5), ..Timeouts::all(Duration::from_secs(1)) },
        };
        let json = serde_json::to_string(&held).expect("plain data");
        assert_eq!(serde_json::from_str::<Held>(&json).expect("its own form"), held);
    }

    #[test]
    fn a_mix_is_told_with_its_shares() {
        let login = Target { name: "login".into(), method: "POST".into(), ..Target::get("/login") };
        let mix = [Target { weight: 2, ..Target::get("/") }, login];
        assert_eq!(Target::describe_all(&mix), "66.7 % GET /, 33.3 % login (POST /login)");
        assert_eq!(Target::describe_all(&mix[1..]), "POST /login");
    }

    #[test]
    fn a_status_is_expected_only_where_a_check_says_so() {
        let target = Target { checks: vec![Check::Status(vec![(200, 204), (404, 404)])], ..Target::get("/") };
        assert!(target.expects_status(404) && target.expects_status(201) && !target.expects_status(302));
        assert!(!Target::get("/").expects_status(200));
    }
}
