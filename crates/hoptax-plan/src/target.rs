//! Targets: the requests that a plan sends, and the checks of the responses.

use super::Body;
use hoptax_format::spec::{Check, Chunked};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A request, its weight in the mix, and the checks of its responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name of the target, unique in the plan. By default, the name consists of the method and the path.
    pub name: String,
    /// Weight in the mix, at least 1. The target's share of the requests is its weight divided by the sum of
    /// all weights.
    pub weight: u32,
    /// Method.
    pub method: String,
    /// Path and query, as a template. It starts with `/`.
    pub path: String,
    /// Headers in the order in which they are sent. Values are templates. If no header `host` is given,
    /// requests carry the address of the gateway or of the upstream as `host`.
    pub headers: Vec<(String, String)>,
    /// Request body.
    pub body: Option<Body>,
    /// Whether templates in the body are expanded.
    pub body_is_template: bool,
    /// How the body is sent in chunks. Absent if it has a `content-length`.
    pub chunked: Option<Chunked>,
    /// Checks of responses. Without a check of the status, statuses from 200 to 399 are accepted.
    pub checks: Vec<Check>,
    /// Whether bodies differ between responses. If so, the gateway's body is not compared with direct's body.
    pub varies: bool,
    /// Names of response headers, in lower case, that are not compared with direct's headers.
    pub ignore_headers: Vec<String>,
    /// Rate limit of gateways that already run, requests per second.
    pub rate_limit: Option<u32>,
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
            chunked: None,
            checks: Vec::new(),
            varies: false,
            ignore_headers: Vec::new(),
            rate_limit: None,
        }
    }

    /// Describes targets: `GET /` for a single target, or a mix such as `90 % GET /, 10 % login (POST
    /// /login)`. Of many targets, only the most frequent are listed.
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
        let mut listed: Vec<String> = each.collect();
        if targets.len() > MOST_LISTED + 1 {
            let mut order: Vec<usize> = (0..targets.len()).collect();
            order.sort_by_key(|index| std::cmp::Reverse(targets[*index].weight));
            let (first, others) = order.split_at(MOST_LISTED);
            let share: f64 = others.iter().map(|index| targets[*index].share_of(targets)).sum();
            let rest = format!("{} others {} %", others.len(), (share * 1000.0).round() / 10.0);
            listed = first.iter().map(|index| listed[*index].clone()).chain([rest]).collect();
        }
        listed.join(", ")
    }

    /// This target's share of the requests to `targets`.
    pub fn share_of(&self, targets: &[Self]) -> f64 {
        f64::from(self.weight) / targets.iter().map(|target| f64::from(target.weight)).sum::<f64>()
    }

    /// Whether a check accepts this status. False if the target has no check of the status.
    pub fn expects_status(&self, status: u16) -> bool {
        self.checks.iter().any(|check| match check {
            Check::Status(ranges) => ranges.iter().any(|(least, most)| (*least..=*most).contains(&status)),
            _ => false,
        })
    }
}

/// Number of targets of a mix that are listed in a description.
const MOST_LISTED: usize = 5;

/// The content of a file for `hoptax load --targets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// The targets, with unique names. There is at least one target.
    pub targets: Vec<Target>,
    /// For each file name in `{{line FILE}}`, the path of the file.
    pub files: BTreeMap<String, PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_described_with_its_shares() {
        let login = Target { name: "login".into(), method: "POST".into(), ..Target::get("/login") };
        let mix = [Target { weight: 2, ..Target::get("/") }, login];
        assert_eq!(Target::describe_all(&mix), "66.7 % GET /, 33.3 % login (POST /login)");
        assert_eq!(Target::describe_all(&mix[1..]), "POST /login");
        let one = |weight| Target { weight, ..Target::get(&format!("/{weight}")) };
        let many: Vec<Target> = (1..=8).map(one).collect();
        let listed =
            "22.2 % GET /8, 19.4 % GET /7, 16.7 % GET /6, 13.9 % GET /5, 11.1 % GET /4, 3 others 16.7 %";
        assert_eq!(Target::describe_all(&many), listed);
    }

    #[test]
    fn a_status_is_expected_only_by_a_check() {
        let target = Target { checks: vec![Check::Status(vec![(200, 204), (404, 404)])], ..Target::get("/") };
        assert!(target.expects_status(404) && target.expects_status(201) && !target.expects_status(302));
        assert!(!Target::get("/").expects_status(200));
    }
}
