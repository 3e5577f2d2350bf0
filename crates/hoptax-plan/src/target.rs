//! What is requested, what an answer must be like, and when to give up.

use super::Body;
use hoptax_load::spec::Check;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One of the things that are requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Distinct among the targets: method and path unless given.
    pub name: String,
    /// Share of the requests: weight over the sum of weights; at least 1.
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
    pub body_is_template: bool,
    /// What an answer must be like; without one that is about the status, 200 to 399 are successes.
    pub checks: Vec<Check>,
    /// Whether bodies differ from one answer to the next, so that a gateway's is not held against direct's.
    pub varies: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

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
