//! `hoptax load --spec -` against the real nginx, in HTTP/1.1 and HTTP/2: mixes, templates and checks. The
//! tests compare the results with the requests that nginx received.

use crate::load::{record_of, spec_with};
use crate::support::{PATIENCE, nginx, wait_for};
use crate::world::is_missing;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_format::spec::{Check, TargetSpec};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;

pub(crate) const REQUESTS: u64 = 900;

/// HTTP versions, and streams on each connection.
const VERSIONS: [(&str, u32); 2] = [("1.1", 1), ("2", 4)];

/// nginx on a Unix socket for HTTP/1.1, and on one for HTTP/2. It answers with the path and the token of the
/// request, and logs each request.
pub(crate) struct Nginx(nginx::Nginx);

impl Nginx {
    pub(crate) fn start() -> Self {
        let http = "default_type text/plain; log_format seen \
            '$request_method|$request_uri|$http_authorization|$content_length';
            access_log ROOT/access.log seen;
            server { listen unix:ROOT/socket; listen unix:ROOT/socket-2 http2;
            location / { add_header x-token \"$http_x_token\"; return 200 \"$request_uri $http_x_token\"; }
            location /gone { return 410 gone; } }";
        // nginx opens its sockets in the order of its configuration.
        Self(nginx::Nginx::start_with(&[], http, |root| UnixStream::connect(root.join("socket-2")).is_ok()))
    }

    pub(crate) fn socket(&self) -> String {
        self.socket_of("1.1")
    }

    /// The socket for this HTTP version.
    fn socket_of(&self, http: &str) -> String {
        let name = if http == "2" { "socket-2" } else { "socket" };
        self.0.file(name).display().to_string()
    }

    fn load(&self, (http, streams): (&str, u32), targets: &Value, files: &Value) -> Value {
        let record = record_of(&spec_with(json!({
            "http": http,
            "streams": streams,
            "addresses": [format!("unix:{}", self.socket_of(http))],
            "targets": targets,
            "files": files,
            "connections": 6,
            "requests": REQUESTS,
            "workers": 3
        })));
        assert_eq!(record["counts"]["completed"], REQUESTS, "{}", record["counts"]);
        record
    }

    /// The fields of nginx's log lines. Waits until the lines are complete.
    pub(crate) fn seen(&self) -> Vec<Vec<String>> {
        wait_for("every request is logged", PATIENCE, || {
            let text = std::fs::read_to_string(self.0.file("access.log")).expect("a log");
            let whole = text.lines().count() as u64 >= REQUESTS && text.ends_with('\n');
            whole.then(|| text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
        })
    }
}

fn target(name: &str, weight: u32, method: &str, path: &str, headers: Value) -> Value {
    let mut all = vec![json!(["host", "test"])];
    all.extend(headers.as_array().expect("pairs").clone());
    json!({"name": name, "weight": weight, "method": method, "path": path, "headers": all, "body": ""})
}

#[test]
fn nginx_sees_each_number_once_and_every_line() {
    if !is_missing("nginx") {
        VERSIONS.into_iter().for_each(sees_each_number_once);
    }
}

fn sees_each_number_once(version: (&str, u32)) {
    let nginx = Nginx::start();
    let authorization = json!([["authorization", "Basic {{base64 user-{{seq}}:{{line tokens.txt}}}}"]]);
    let mut order = target("order", 2, "POST", "/orders/{{seq}}?t={{line tokens.txt}}", authorization);
    order["body"] = STANDARD.encode("{\"id\":\"{{uuid}}\"}").into();
    order["body_is_template"] = true.into();
    let item = target("item", 1, "GET", "/items/{{random 1 3}}", json!([]));
    let tokens: String = (0..100).map(|index| format!("token{index}\n")).collect();
    let record = nginx.load(version, &json!([order, item]), &json!({"tokens.txt": tokens}));

    let (mut numbers, mut lines, mut items) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    let (mut orders, mut seen_items) = (0, 0);
    for line in nginx.seen() {
        let [method, uri, authorization, length] = line.as_slice() else { panic!("{line:?}") };
        if method == "GET" {
            seen_items += 1;
            items.insert(uri.clone());
            continue;
        }
        orders += 1;
        let (number, token) = uri.trim_start_matches("/orders/").split_once("?t=").expect("both");
        assert!(numbers.insert(number.to_owned()), "{number} twice");
        *lines.entry(token.to_owned()).or_insert(0) += 1;
        let decoded = STANDARD.decode(authorization.trim_start_matches("Basic ")).expect("base64");
        assert_eq!(String::from_utf8_lossy(&decoded), format!("user-{number}:{token}"));
        assert_eq!(length, "45", "of the braces, the name and a UUID");
    }
    assert_eq!(items.into_iter().collect::<Vec<_>>(), ["/items/1", "/items/2", "/items/3"]);
    assert_eq!(lines.len(), 100);
    let of = |index: usize, member: &str| record["targets"][index][member].clone();
    assert_eq!((of(0, "name"), of(0, "completed")), ("order".into(), json!(orders)));
    assert_eq!((of(1, "name"), of(1, "completed")), ("item".into(), json!(seen_items)));
    assert!((500..700).contains(&orders), "{orders} of {REQUESTS} should be about two thirds");
}

#[test]
fn the_example_on_the_reference_page_works() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/requests.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let example = page.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let mut example: Value = serde_json::from_str(example).expect("JSON");
    let files: BTreeMap<String, String> =
        serde_json::from_value(example["files"].take()).expect("files by name");
    let targets: Vec<TargetSpec> = serde_json::from_value(example["targets"].take()).expect("targets");
    hoptax_load::target::check(&targets, &files).expect("can be requested");
    assert_eq!(targets[0].body, b"{\"id\":\"{{uuid}}\"}");
    let checks = page.split("## Checks").nth(1).and_then(|rest| rest.split("```").nth(1)).expect("a block");
    let rows: Vec<&str> = checks.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(rows.len(), 6);
    for row in rows {
        // Each row begins with JSON. An explanation follows it.
        let check = serde_json::Deserializer::from_str(row).into_iter().next();
        let check: Check = check.expect("a check").unwrap_or_else(|error| panic!("{row}: {error}"));
        hoptax_format::checks::check(&check).expect("some response could pass it");
    }
}
