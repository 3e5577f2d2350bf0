//! Plans: no text makes the parser panic, and every error points into the text.

use hoptax_plan::{Context, PackInfo, Plan, PlanError, parse};
use std::path::PathBuf;

/// `input` is the text of a plan. Values of `--set` can follow, each after a NUL.
pub fn holds(input: &[u8]) -> bool {
    let Ok(typed) = std::str::from_utf8(input) else { return false };
    let mut parts = typed.split('\0');
    let text = parts.next().unwrap_or_default();
    let sets: Vec<String> = parts.map(str::to_owned).collect();
    let pack = |name: &str, features: &[&str]| PackInfo {
        name: name.to_owned(),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        reloads: name == "nginx",
        has_metrics: name == "nginx",
        unsupported: Default::default(),
        always_tls: false,
        docker: name == "nginx",
        image: (name == "nginx").then(|| "nginx:1.27".to_owned()),
        variants: Vec::new(),
        intercepts: false,
        unix_upstream: name == "nginx",
        proxy: Default::default(),
        http2: Default::default(),
        upstream_http2: name == "envoy",
        grpc: name == "envoy",
        websocket: name != "haproxy",
        llm: None,
        llm_variants: Default::default(),
    };
    let context = Context {
        cpus: 2,
        known: vec![pack("nginx", &["key-auth", "rate-limit"]), pack("haproxy", &[]), pack("envoy", &[])],
        directory: PathBuf::from("no-such-directory"),
    };
    match parse("plan.yaml", text, &sets, &context) {
        Ok(plan) => {
            assert!(!plan.load.is_empty() && plan.trials.at_least() > 0);
            let json = serde_json::to_string(&plan).expect("a plan is JSON");
            serde_json::from_str::<Plan>(&json).expect("a serialized plan can be parsed");
            true
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            errors.0.iter().for_each(|error| points_inside(error, text, &sets));
            assert!(errors.to_string().contains(&errors.0[0].message));
            false
        }
    }
}

fn points_inside(error: &PlanError, text: &str, sets: &[String]) {
    assert!(!error.message.is_empty());
    // In YAML, a carriage return without a line feed also ends a line.
    let lines = |text: &str| -> Vec<String> {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        text.lines().map(str::to_owned).collect()
    };
    let line = if error.line == 0 {
        let set = error.file.strip_prefix("--set ").unwrap_or_else(|| panic!("a line: {error:?}"));
        assert!(sets.iter().any(|given| given == set), "{error:?}");
        let shown = |line: &String| line.replace('\t', " ").trim_end() == error.excerpt;
        // The excerpt has no trailing spaces, so several lines can match it. Take the longest line.
        lines(set).into_iter().filter(shown).max_by_key(String::len).unwrap_or_default()
    } else {
        assert_eq!(error.file, "plan.yaml");
        let line = lines(text).into_iter().nth(error.line as usize - 1);
        line.unwrap_or_else(
            || if error.line == 1 { String::new() } else { panic!("no such line: {error:?}") },
        )
    };
    let room = line.chars().count() + 1;
    assert!((1..=room).contains(&(error.column as usize)), "{error:?} in {line:?}");
    let room = (room - error.column as usize).max(1);
    assert!((1..=room).contains(&(error.span as usize)), "{error:?} in {line:?}");
}
