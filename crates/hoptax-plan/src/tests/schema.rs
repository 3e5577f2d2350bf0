//! Compares the JSON Schema and the reference page with the parser.

use super::*;

/// The schema's patterns must accept all values that the parsers of units accept. Otherwise editors would
/// mark valid plans as wrong.
#[test]
fn patterns_of_the_schema_accept_what_the_parser_accepts() {
    let schema = schema();
    let pattern = |name: &str| {
        regex_lite::Regex::new(schema["$defs"][name]["pattern"].as_str().expect(name)).expect("valid pattern")
    };
    for (name, accepted, refused) in [
        ("Time", ["250ms", "1.5s"], ["5", "5 sec"]),
        ("Bytes", ["1KiB", "10 kB"], ["5", "1KB"]),
        ("BytesText", ["1KiB", "64"], ["-5", "1KB"]),
        ("Rate", ["1000/s", "0.5/m"], ["5", "5/d"]),
        ("ArrivalsText", ["constant", "jitter(25%)"], ["bursts", "poison"]),
    ] {
        for text in accepted {
            assert!(pattern(name).is_match(text), "{name} {text}");
        }
        for text in refused {
            assert!(!pattern(name).is_match(text), "{name} {text}");
        }
    }
    let parses = [
        units::duration("1.5s").is_ok(),
        units::size("10 kB").is_ok(),
        units::rate("0.5/m").is_ok(),
        units::arrivals("jitter(25%)").is_ok(),
    ];
    assert_eq!(parses, [true; 4]);
}

/// All keys of the schema, each with the name of its block.
fn keys(schema: &serde_json::Value) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    let top = schema["properties"].as_object().unwrap().keys();
    keys.extend(top.map(|key| ("plan".to_owned(), key.clone())));
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        let inner = definition["properties"].as_object().into_iter().flat_map(|object| object.keys());
        keys.extend(inner.map(|key| (name.clone(), key.clone())));
    }
    keys
}

#[test]
fn the_schema_is_strict_described_and_current() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["gateways"]));
    let features = serde_json::json!({ "type": "object", "required": ["features"] });
    let ways = serde_json::json!([
        { "required": ["load"] },
        { "required": ["start"] },
        { "properties": { "gateways": { "contains": features } } },
    ]);
    assert_eq!(schema["anyOf"], ways);
    let keys = keys(&schema);
    for holder in ["plan", "upstream", "body", "gateway", "target", "load", "cpus", "budget"] {
        assert!(keys.iter().any(|(name, _)| name == holder), "{holder} is missing");
    }
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        if definition["properties"].is_object() {
            assert_eq!(definition["additionalProperties"], false, "{name}");
        }
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{name}.{key} has no description");
        }
    }
}

#[test]
fn the_reference_describes_every_key() {
    let reference = include_str!("../../../../docs/reference/plan.md");
    for (holder, key) in keys(&schema()) {
        let heading = format!("## {holder}\n");
        let section = reference.split(&heading).nth(1).unwrap_or_else(|| panic!("no section `{holder}`"));
        let section = section.split("\n## ").next().unwrap();
        let keys = section.lines().filter_map(|line| line.strip_prefix("- ")?.split(['(', ':']).next());
        let is_described = keys.flat_map(|keys| keys.split(", ")).any(|one| one.trim() == format!("`{key}`"));
        assert!(is_described, "`{key}` is not described under `{holder}`");
    }
}

#[test]
fn the_examples_of_the_reference_are_plans() {
    let reference = include_str!("../../../../docs/reference/plan.md");
    let examples: Vec<_> =
        reference.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        good(example);
    }
}

/// Checks values against a schema, as an editor does. Knows only the JSON Schema keywords that the schema of
/// plans uses.
struct Editor(serde_json::Value);

impl Editor {
    fn accepts(&self, schema: &serde_json::Value, value: &serde_json::Value) -> bool {
        let Some(words) = schema.as_object() else { return schema == true };
        words.iter().all(|(word, said)| self.word(word, said, schema, value))
    }

    fn word(
        &self,
        word: &str,
        said: &serde_json::Value,
        schema: &serde_json::Value,
        value: &serde_json::Value,
    ) -> bool {
        let listed = || said.as_array().expect("a list");
        let number = || said.as_f64().expect("a number");
        match word {
            "$schema" | "$defs" | "title" | "description" | "format" | "default" => true,
            "$ref" => {
                let pointer =
                    said.as_str().and_then(|text| text.strip_prefix('#')).expect("within the schema");
                self.accepts(self.0.pointer(pointer).expect("defined"), value)
            }
            "type" => match said {
                serde_json::Value::Array(types) => types.iter().any(|said| is_a(said, value)),
                one => is_a(one, value),
            },
            // In JSON Schema, 1 and 1.0 are the same number.
            "enum" => listed()
                .iter()
                .any(|one| one == value || one.as_f64().is_some_and(|one| value.as_f64() == Some(one))),
            "const" => said == value,
            "anyOf" => listed().iter().any(|schema| self.accepts(schema, value)),
            "oneOf" => listed().iter().filter(|schema| self.accepts(schema, value)).count() == 1,
            "pattern" => value.as_str().is_none_or(|text| {
                regex_lite::Regex::new(said.as_str().expect("text")).expect("a pattern").is_match(text)
            }),
            "minimum" => value.as_f64().is_none_or(|value| value >= number()),
            "maximum" => value.as_f64().is_none_or(|value| value <= number()),
            "minItems" => value.as_array().is_none_or(|items| items.len() as f64 >= number()),
            "contains" => {
                value.as_array().is_none_or(|items| items.iter().any(|item| self.accepts(said, item)))
            }
            "items" => value.as_array().is_none_or(|items| items.iter().all(|item| self.accepts(said, item))),
            "minProperties" => value.as_object().is_none_or(|entries| entries.len() as f64 >= number()),
            "required" => value.as_object().is_none_or(|entries| {
                listed().iter().all(|key| entries.contains_key(key.as_str().expect("a key")))
            }),
            "properties" => value.as_object().is_none_or(|entries| {
                entries
                    .iter()
                    .all(|(key, value)| said.get(key).is_none_or(|schema| self.accepts(schema, value)))
            }),
            "additionalProperties" => value.as_object().is_none_or(|entries| {
                let known = |key: &String| schema["properties"].get(key).is_some();
                entries.iter().filter(|(key, _)| !known(key)).all(|(_, value)| self.accepts(said, value))
            }),
            other => panic!("the schema says `{other}`, which this test does not understand"),
        }
    }

    /// Whether an editor would accept this plan.
    fn accepts_plan(&self, text: &str, sets: &[String]) -> bool {
        let Ok(mut root) = node::read(text, 0, 0) else { return false };
        node::apply_sets(&mut root, sets).is_empty() && self.accepts(&self.0, &json(&root))
    }
}

fn is_a(kind: &serde_json::Value, value: &serde_json::Value) -> bool {
    match kind.as_str().expect("text") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("there is no type `{other}`"),
    }
}

/// Converts a node to the JSON value that an editor reads, by YAML's core schema (YAML 1.2, section 10.3).
fn json(node: &node::Node) -> serde_json::Value {
    match &node.value {
        node::Value::Sequence(items) => items.iter().map(json).collect(),
        node::Value::Mapping(entries) => {
            entries.iter().map(|(key, value)| (key.text.clone(), json(value))).collect()
        }
        node::Value::Scalar { text, plain: false } => text.clone().into(),
        node::Value::Scalar { text, .. } => match text.as_str() {
            "" | "~" | "null" => serde_json::Value::Null,
            "true" => true.into(),
            "false" => false.into(),
            text => match serde_json::from_str::<serde_json::Value>(text) {
                Ok(number) if number.is_number() => number,
                _ => text.into(),
            },
        },
    }
}

fn repository() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The facts about the pack in this folder that are needed to check a plan.
fn described(folder: &std::path::Path) -> PackInfo {
    let text = std::fs::read_to_string(folder.join("gateway.yaml")).expect("a manifest");
    let manifest = node::read(&text, 0, 0).expect("YAML");
    let node::Value::Mapping(members) = &manifest.value else { panic!("a mapping") };
    let member = |name: &str| members.iter().find(|(key, _)| key.text == name).map(|(_, node)| node);
    let words = |name: &str| match member(name).map(|node| &node.value) {
        Some(node::Value::Sequence(items)) => items.iter().filter_map(word).collect(),
        _ => Vec::new(),
    };
    let unsupported = match member("unsupported").map(|node| &node.value) {
        Some(node::Value::Mapping(reasons)) => reasons.as_slice(),
        _ => &[],
    };
    PackInfo {
        name: folder.file_name().expect("named").to_string_lossy().into_owned(),
        features: words("features"),
        unsupported: unsupported.iter().map(|(key, _)| (key.text.clone(), "no".to_owned())).collect(),
        variants: words("variants"),
        http2: match member("http2").and_then(word).as_deref() {
            Some("shared") => ClientHttp2::Shared,
            Some("exclusive") => ClientHttp2::Exclusive,
            _ => ClientHttp2::No,
        },
        upstream_http2: member("upstream_http2").is_some(),
        always_tls: member("tls").is_some(),
        docker: member("docker").is_some(),
        reloads: member("reload").is_some(),
        has_metrics: member("metrics").is_some(),
        intercepts: member("intercept").is_some(),
        unix_upstream: member("unix_upstream").is_some(),
        grpc: member("grpc").is_some(),
        websocket: member("websocket").is_some(),
        ..PackInfo::default()
    }
}

fn word(node: &node::Node) -> Option<String> {
    match &node.value {
        node::Value::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// The plans of this repository, by name. Plans for the Kubernetes lab refer to the lab's directory, which
/// may not exist. Here they refer to `lab` instead.
fn plans(lab: &std::path::Path) -> Vec<(String, String)> {
    let mut plans = vec![("hoptax init".to_owned(), TEMPLATE.to_owned())];
    for entry in std::fs::read_dir(repository().join("plans")).expect("there") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).expect("readable");
            let text = text.replace("../.kubernetes-lab", &lab.display().to_string());
            plans.push((path.display().to_string(), text));
        }
    }
    let reference = include_str!("../../../../docs/reference/plan.md");
    for example in reference.split("```yaml\n").skip(1) {
        plans.push(("the reference".to_owned(), example.split("```").next().expect("closed").to_owned()));
    }
    plans
}

/// Parses a plan as if it were in the directory `plans/`, with all packs known.
fn understood(text: &str, sets: &[String]) -> Result<Plan, PlanErrors> {
    static PACKS: std::sync::LazyLock<Vec<PackInfo>> = std::sync::LazyLock::new(|| {
        let folders = std::fs::read_dir(repository().join("gateways")).expect("there");
        folders.map(|folder| described(&folder.expect("listed").path())).collect()
    });
    let known = PACKS.clone();
    let directory = repository().join("plans");
    parse("plans/x.yaml", text, sets, &Context { directory, known, ..context() })
}

/// Wrong values that the schema refuses too.
const MISTAKEN: [&str; 38] = [
    "trials=many",
    "trials=-1",
    "trials=0",
    "trials={ within: 5%, atmost: 1m }",
    "tirals=1",
    "name=[a]",
    "upstream={ status: 70000 }",
    "upstream={ instances: two }",
    "upstream={ body: 1024 }",
    "upstream={ body: { text: a, size: 1B } }",
    "upstream={ events: { bytes: 34 } }",
    "upstream={ events: { count: 0 } }",
    "gateways=nginx",
    "gateways=[{ label: a }]",
    "gateways=[{ name: nginx, worker: 1 }]",
    "gateways=[{ name: hop-l7, delay: { in: 2 } }]",
    "gateways=[{ name: hop-l7, warming: { requests: 0, extra: 1ms } }]",
    "gateways=[{ name: hop-h2, faults: { deadline: lose } }]",
    "target={ weight: 0 }",
    "target={ websocket: { kind: stream } }",
    "target={ expect: { status: 99 } }",
    "target={ expect: { body: { } } }",
    "load=[{ connections: 1 }]",
    "load=[{ loop: closed, connections: 0 }]",
    "load=[{ loop: open, connections: 1, rate: 1000 }]",
    "load=[{ loop: closed, connections: 1, http: 3 }]",
    "load=[{ loop: closed, connections: 1, http: 2, streams: 0 }]",
    "timeout=3",
    "profile=equalized",
    "cpu_profile=yes",
    "tail=yes",
    "cpus=all",
    "hosts={ a: { terraform: b } }",
    "hosts={ a: { kubernetes: { container: b } } }",
    "hosts={ a: { kubernetes: { job: { image: b }, pod: c } } }",
    "hosts={ a: { terraform: { dir: ., outputs: { address: b } } } }",
    "gateways=[{ name: external, url: \"http://a:1\", watch: {} }]",
    "roles={ client: local }",
];

#[test]
fn the_schema_and_the_parser_judge_the_same_plans() {
    let editor = Editor(schema());
    let lab = running::directory();
    let plans = plans(lab.path());
    assert!(plans.len() >= 7, "{}", plans.len());
    for (name, text) in &plans {
        understood(text, &[]).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert!(editor.accepts_plan(text, &[]), "{name} is marked by an editor");
    }
    for mistake in MISTAKEN {
        let sets = [mistake.to_owned()];
        assert!(understood(SMALLEST, &sets).is_err(), "{mistake} is accepted");
        assert!(!editor.accepts_plan(SMALLEST, &sets), "{mistake}");
    }
}

/// Collects all paths of a plan, in the form that `--set` uses.
fn places(node: &node::Node, path: &str, places: &mut Vec<String>) {
    let mut inner = |step: &str, node| {
        let path = if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
        self::places(node, &path, places);
        places.push(path);
    };
    match &node.value {
        node::Value::Scalar { .. } => {}
        node::Value::Sequence(items) => {
            items.iter().enumerate().for_each(|(index, item)| inner(&index.to_string(), item));
        }
        node::Value::Mapping(entries) => {
            let steps = entries.iter().filter(|(key, _)| !key.text.contains(['.', '=']));
            steps.for_each(|(key, value)| inner(&key.text, value));
        }
    }
}

/// An editor must not mark a plan that the parser accepts.
#[test]
fn the_schema_refuses_nothing_that_the_parser_understands() {
    let values = "|~|[]|{}|0|1|7|-1|1.0|1.5|70000|true|off|\"1\"|a|nginx|[nginx]|[1, 2]|[[1]]|5s|250ms|1KiB|\
                  1%|100/s|[100/s for 1s]|closed|open|auto|{ size: 1B }|{ text: a }|{ total: 1s }|\
                  { name: hop-l4 }|200-204|4xx|stock";
    let values: Vec<&str> = values.split('|').collect();
    let lab = running::directory();
    let (editor, plans) = (Editor(schema()), plans(lab.path()));
    let mut random = hoptax_format::random::Random::new(23);
    let mut counts = [0; 3];
    for _ in 0..3000 {
        let (name, text) = &plans[random.below(plans.len() as u64) as usize];
        let mut steps = Vec::new();
        places(&node::read(text, 0, 0).expect("a plan"), "", &mut steps);
        let step = &steps[random.below(steps.len() as u64) as usize];
        let sets = [format!("{step}={}", values[random.below(values.len() as u64) as usize])];
        let (understood, unmarked) = (understood(text, &sets).is_ok(), editor.accepts_plan(text, &sets));
        assert!(unmarked || !understood, "{name} with {}: marked by an editor, yet it runs", sets[0]);
        counts[usize::from(understood) + usize::from(unmarked)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?} say too little");
}
