//! The JSON interface, checked against its own OpenAPI description.

use super::lab::{
    analyse, analysed, changed_history, current_state, get, history, put, request, run, served,
    served_history,
};
use crate::report::fixture::starts::{Cold, started};
use crate::support::{Json, Scratch};
use hoptax_history::live::{Board, State};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

const OWN: [(&str, &str); 2] = [("Content-Type", "application/json"), ("X-Hoptax", "1")];
const NIGHTLY: &str = "20261101T000000Z-nightly";

#[test]
fn runs_are_listed_searched_and_classified() {
    let (_history, _server, to) = served_history();
    analysed(to);
    let ids = |query: &str| -> Vec<String> {
        let listing = get(to, &format!("/api/v1/runs{query}")).json();
        let runs = listing["runs"].as_array().expect("runs").iter();
        runs.map(|run| run["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids("").len(), 9);
    assert_eq!(ids("?limit=2"), ["20261202T000000Z-newer", "20261201T000000Z-broken"]);
    assert_eq!(ids("?limit=1&offset=2"), ["20261112T000000Z-other"]);
    assert_eq!(ids("?state=broken"), ["20261201T000000Z-broken"]);
    assert_eq!(ids("?text=NIGHT+1.24").len(), 2);
    assert_eq!(ids("?gateway=nginx").len(), 7);
    assert_eq!(ids("?gateway=envoy").len(), 0);
    let run = get(to, &format!("/api/v1/runs/{NIGHTLY}")).json();
    assert_eq!((&run["name"], &run["state"]), (&json!("nightly"), &json!("whole")));
    assert_eq!(run["contenders"][1]["version"], "1.24");
    let broken = get(to, "/api/v1/runs/20261201T000000Z-broken/report");
    assert_eq!(broken.status, 422, "{}", broken.text());
}

#[test]
fn a_run_is_tagged_annotated_and_deleted() {
    let (history, _server, to) = served_history();
    let path = format!("/api/v1/runs/{NIGHTLY}");
    let changed = request(to, "PATCH", &path, &OWN, r#"{"tags":["b","a","a"],"note":"ü"}"#);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!((&changed.json()["tags"], &changed.json()["note"]), (&json!(["a", "b"]), &json!("ü")));
    assert_eq!(request(to, "PATCH", &path, &OWN, r#"{"note":""}"#).json()["tags"], json!(["a", "b"]));
    assert_eq!(get(to, "/api/v1/tags").json(), json!({ "tags": ["a", "b"] }));
    assert_eq!(get(to, "/api/v1/runs?tag=b").json()["total"], 1);
    assert_eq!(request(to, "DELETE", &path, &OWN, "").json(), json!({ "deleted": NIGHTLY }));
    assert!(!history.path().join(NIGHTLY).exists());
    assert_eq!(request(to, "DELETE", &path, &OWN, "").status, 404);
    assert_eq!(get(to, &path).status, 404);
}

#[test]
fn the_report_equals_the_commands() {
    let (history, _server, to) = served_history();
    let dir = history.path().join(NIGHTLY);
    for (format, path) in [
        ("json", format!("/api/v1/runs/{NIGHTLY}/report")),
        ("json", format!("/runs/{NIGHTLY}/report.json")),
        ("csv", format!("/runs/{NIGHTLY}/report.csv")),
        ("markdown", format!("/runs/{NIGHTLY}/report.md")),
        ("html", format!("/runs/{NIGHTLY}/report.html")),
    ] {
        let made = crate::support::hoptax().arg("report").arg(&dir).args(["--format", format]).output();
        assert!(get(to, &path).body == made.expect("the binary runs").stdout, "{path} differs");
    }
}

#[test]
fn runs_are_compared_or_the_reason_against_it_is_given() {
    let (_history, _server, to) = served_history();
    let compare = |query: &str| get(to, &format!("/api/v1/compare?{query}"));
    let slower = compare("a=20261101T000000Z-nightly&b=20261104T000000Z-nightly").json();
    assert_eq!(slower["verdict"], "worse", "{slower}");
    let within = compare("a=20261104T000000Z-nightly&labels=nginx,haproxy").json();
    assert_eq!((&within["paired"], &within["verdict"]), (&json!(true), &json!("better")));
    let refused = compare("a=20261101T000000Z-nightly&b=20261111T000000Z-other");
    assert_eq!(refused.status, 409);
    assert_eq!(refused.json()["obstacles"][0]["what"], "target", "{}", refused.text());
    let forced = compare("a=20261101T000000Z-nightly&b=20261111T000000Z-other&force=true").json();
    assert_eq!(forced["forced"][0]["what"], "target");
    let unknown = compare("a=20261101T000000Z-nightly&labels=ngin,haproxy");
    insta::assert_snapshot!(format!("{}: {}", unknown.status, unknown.text()));
}

#[test]
fn a_trend_leads_from_run_to_run() {
    let (_history, _server, to) = served_history();
    analysed(to);
    let choices = get(to, "/api/v1/trends").json();
    let choices = choices["trends"].as_array().expect("a list");
    let nginx =
        choices.iter().find(|one| one["name"] == "nightly" && one["gateway"] == "nginx").expect("measured");
    assert_eq!(nginx["runs"], 5);
    let load = nginx["load"].as_str().expect("words").replace(' ', "+");
    let trend =
        get(to, &format!("/api/v1/trend?name=nightly&gateway=nginx&load={load}&metric=added_p50")).json();
    let points = trend["points"].as_array().expect("points");
    assert_eq!((points.len(), &trend["unit"]), (5, &json!("us")));
    assert!(points[3]["estimate"].as_f64() > points[2]["estimate"].as_f64(), "{trend}");
    assert_eq!(points[2]["changed"], json!(["nginx 1.24 → 1.26"]));
    assert_eq!((&points[0]["bound"], &trend["changes"]), (&Json::Null, &json!([])));
}

#[test]
fn a_trend_has_the_changes_of_its_level() {
    let scratch = changed_history();
    let server = served(scratch.path(), None);
    let to = server.address();
    analysed(to);
    let address =
        "/api/v1/trend?name=nightly&gateway=nginx&load=closed+loop,+32+connections&metric=added_p50";
    let trend = get(to, address).json();
    let described = hoptax_history::serve::openapi();
    assert_eq!(mismatch(&trend, &json!({ "$ref": "#/Trend" }), &described, "trend"), None);
    let changes = trend["changes"].as_array().expect("a list");
    assert_eq!(changes.len(), 1, "{trend}");
    assert_eq!(
        (&changes[0]["cause"], &changes[0]["after"]),
        (&json!("gateway"), &json!("20261105T000000Z-nightly"))
    );
}

#[test]
fn runs_of_starts_count_starts() {
    let scratch = Scratch::new();
    let id = "20261101T000000Z-cold";
    let mut cold = started(6, &[("nginx", Cold::native())]);
    cold.record.trials_planned = 24;
    put(scratch.path(), id, 0, cold, "1.26");
    analyse(scratch.path());
    let board = Board::new(State { starts: true, ..current_state() });
    let server = served(scratch.path(), Some(board));
    let to = server.address();
    let entry = get(to, "/api/v1/runs").json()["runs"][0].clone();
    assert_eq!((&entry["starts"], &entry["trials"]), (&json!(true), &json!(24)), "{entry}");
    let list = get(to, "/").text();
    assert!(list.contains(" 24 starts") && list.contains("3 of 20 starts"), "{list}");
    assert!(get(to, &format!("/runs/{id}")).text().contains(" 24 starts"));
}

#[test]
fn the_current_run_is_reported() {
    let history = history();
    let board = Board::new(current_state());
    let server = served(history.path(), Some(board.clone()));
    let reported = get(server.address(), "/api/v1/live").json();
    assert_eq!(reported, serde_json::to_value(current_state()).expect("plain"));
    board.change(|state| state.trials_done = 4);
    assert_eq!(get(server.address(), "/api/v1/live").json()["trials_done"], 4);
}

/// Compares a value with a schema: types, members and references. Returns a description of the first
/// mismatch.
fn mismatch(value: &Json, schema: &Json, all: &Json, place: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = &all["components"]["schemas"][name.rsplit('/').next().expect("a name")];
        assert!(schema.is_object(), "{name} is nowhere");
        return mismatch(value, schema, all, place);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(either) = schema[key].as_array()
            && either.iter().all(|one| mismatch(value, one, all, place).is_some())
        {
            return Some(format!("{place} is none of {key}: {value}"));
        }
    }
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let allowed = |one: &Json| one == kind || kind == "integer" && one == "number";
    let fits = match &schema["type"] {
        Json::Null => true,
        Json::Array(several) => several.iter().any(allowed),
        one => allowed(one),
    };
    if !fits {
        return Some(format!("{place} is {kind}, and should be {}", schema["type"]));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
    if let Some(absent) =
        value.as_object().and_then(|members| required.into_iter().find(|name| !members.contains_key(*name)))
    {
        return Some(format!("{place} lacks {absent}"));
    }
    let inside = schema["properties"].as_object().into_iter().flatten();
    let members = inside
        .filter_map(|(name, schema)| mismatch(value.get(name)?, schema, all, &format!("{place}.{name}")));
    let items = value.as_array().into_iter().flatten();
    let items = items.filter_map(|item| mismatch(item, schema.get("items")?, all, &format!("{place}[]")));
    members.chain(items).next()
}

/// Fills in a path of the description, so that the resulting address exists on the test's server.
fn example(path: &str) -> String {
    let query = match path {
        "/api/v1/compare" => "?a=20261102T000000Z-nightly&b=20261104T000000Z-nightly",
        "/api/v1/trend" => "?name=nightly&gateway=nginx&load=closed+loop,+32+connections&metric=p99.9",
        _ => "",
    };
    path.replace("{id}", "20261102T000000Z-nightly") + query
}

#[test]
fn every_answer_matches_its_description() {
    let history = history();
    analyse(history.path());
    let server = served(history.path(), Some(Board::new(current_state())));
    let to = server.address();
    let described = get(to, "/api/v1/openapi.json").json();
    assert_eq!(described, hoptax_history::serve::openapi());
    let mut seen = 0;
    let paths = described["paths"].as_object().expect("paths");
    for (path, operations) in paths {
        // Deletes the run in the last request, because the other requests need the run.
        for method in ["get", "patch", "delete"].into_iter().filter(|method| operations[method].is_object()) {
            let body = if method == "patch" { r#"{"tags":["a"]}"# } else { "" };
            let answer = request(to, &method.to_uppercase(), &example(path), &OWN, body);
            assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
            let schema = &operations[method]["responses"]["200"]["content"]["application/json"]["schema"];
            assert_eq!(mismatch(&answer.json(), schema, &described, path), None);
            // Sends the same request again, for a run that does not exist.
            if path.contains("{id}") {
                let refused = request(to, &method.to_uppercase(), &path.replace("{id}", "gone"), &OWN, body);
                let schema = &operations[method]["responses"]["404"]["content"]["application/json"]["schema"];
                assert_eq!(
                    (refused.status, mismatch(&refused.json(), schema, &described, path)),
                    (404, None)
                );
            }
            seen += 1;
            if method == "delete" {
                put(history.path(), "20261102T000000Z-nightly", 1, run("nightly", 150), "1.24");
                analyse(history.path());
            }
        }
    }
    assert_eq!(seen, 11, "operations");
}

#[test]
fn the_kept_description_equals_the_served_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let kept = std::fs::read_to_string(&path).expect("docs/reference/openapi.json");
    let made = crate::support::hoptax()
        .args(["generate", "reference", "openapi"])
        .output()
        .expect("the binary runs");
    assert!(
        kept == String::from_utf8_lossy(&made.stdout),
        "run `make docs`: docs/reference/openapi.json is out of date"
    );
}

/// Sends the same request several times. Returns the shortest duration.
fn fastest(to: SocketAddr, path: &str) -> Duration {
    let once = || {
        let begun = Instant::now();
        assert_eq!(get(to, path).status, 200, "{path}");
        begun.elapsed()
    };
    (0..5).map(|_| once()).min().expect("some")
}

#[test]
fn a_thousand_runs_are_listed_page_by_page() {
    let scratch = Scratch::new();
    let one = run("many", 150);
    put(scratch.path(), "first", 0, one, "1");
    let text = std::fs::read(scratch.path().join("first/run.json")).expect("written");
    for number in 0..1000 {
        let dir = scratch.path().join(format!("20261101T{number:06}Z-many"));
        std::fs::create_dir(&dir).expect("made");
        std::fs::write(dir.join("run.json"), &text).expect("written");
        std::fs::write(dir.join("trials.jsonl"), "").expect("written");
    }
    let server = served(scratch.path(), None);
    let page = get(server.address(), "/").text();
    assert_eq!(page.matches("class=\"run\"").count(), 50, "{page}");
    assert!(page.contains("1001 runs") && page.contains("offset=50"));
    assert_eq!(get(server.address(), "/?offset=1000").text().matches("class=\"run\"").count(), 1);
    // The limit is generous, because the test checks the amount of work and not the speed of the machine.
    let took = fastest(server.address(), "/");
    println!("1001 runs: listed in {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}
