//! The JSON Schema and the reference page, held against the parser.

use super::*;

/// The schema's patterns and the parsers of units must not disagree, or editors would mark good plans as bad.
#[test]
fn patterns_of_the_schema_accept_what_the_parser_accepts() {
    let schema = schema();
    let pattern = |name: &str| {
        regex_lite::Regex::new(schema["$defs"][name]["pattern"].as_str().expect(name)).expect("valid pattern")
    };
    for (name, accepted, refused) in [
        ("Time", ["250ms", "1.5s"], ["5", "5 sec"]),
        ("Bytes", ["1KiB", "10 kB"], ["5", "1KB"]),
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

/// Every key that the schema knows, from the plan down, with the name of what holds it.
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
    assert_eq!(schema["required"], serde_json::json!(["gateways", "load"]));
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
    let reference = include_str!("../../../../../docs/reference/plan.md");
    for (holder, key) in keys(&schema()) {
        let heading = format!("## {holder}\n");
        let section = reference.split(&heading).nth(1).unwrap_or_else(|| panic!("no section `{holder}`"));
        let section = section.split("\n## ").next().unwrap();
        assert!(section.contains(&format!("| `{key}` |")), "`{key}` is not described under `{holder}`");
    }
}

#[test]
fn the_examples_of_the_reference_are_plans() {
    let reference = include_str!("../../../../../docs/reference/plan.md");
    let examples: Vec<_> =
        reference.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        good(example);
    }
}
