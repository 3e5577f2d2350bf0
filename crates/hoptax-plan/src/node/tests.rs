//! Tests of the tree, of the places in it, and of `--set`.

use super::*;
use crate::tests::refusals;

fn tree(text: &str) -> Node {
    read(text, 0, 0).expect("well-formed")
}

/// Shows a node as one line, without places.
fn shown(node: &Node) -> String {
    match &node.value {
        Value::Scalar { text, plain: true } => text.clone(),
        Value::Scalar { text, plain: false } => format!("{text:?}"),
        Value::Sequence(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Mapping(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("{}: {}", key.text, shown(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn refused(text: &str) -> (u32, u32, String, String) {
    let fault = read(text, 0, 0).expect_err("must be refused");
    let place = fault.place.expect("has a place");
    (place.line, place.column, fault.message, fault.help)
}

fn with_sets(text: &str, sets: &[&str]) -> Result<String, Vec<String>> {
    let mut root = tree(text);
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    let faults = apply_sets(&mut root, &sets);
    if faults.is_empty() {
        return Ok(shown(&root));
    }
    Err(faults
        .into_iter()
        .map(|fault| {
            let place = fault.place.expect("has a place");
            format!("{}:{}+{} {}; {}", place.source, place.column, place.length, fault.message, fault.help)
        })
        .collect())
}

#[test]
fn reads_values_with_their_places() {
    let node = tree("a: 1\nb:\n  - x\n  - { c: two words }\n");
    assert_eq!(shown(&node), "{a: 1, b: [x, {c: two words}]}");
    let Value::Mapping(entries) = &node.value else { panic!("a mapping") };
    assert_eq!(entries[1].0.place, Place { source: 0, line: 2, column: 1, length: 1 });
    let Value::Sequence(items) = &entries[1].1.value else { panic!("a list") };
    assert_eq!(items[0].place, Place { source: 0, line: 3, column: 5, length: 1 });
    let Value::Mapping(inner) = &items[1].value else { panic!("a mapping") };
    assert_eq!(inner[0].1.place, Place { source: 0, line: 4, column: 10, length: 9 });
}

#[test]
fn columns_count_characters() {
    let node = tree("{ ü: é, b: x }");
    let Value::Mapping(entries) = &node.value else { panic!("a mapping") };
    assert_eq!(entries[1].0.place.column, 9);
}

#[test]
fn nothing_is_null() {
    for text in ["", "# only a comment\n", "~", "null", "---\n"] {
        assert!(tree(text).is_null(), "{text:?}");
    }
    assert!(!tree("''").is_null());
}

#[test]
fn aliases_repeat_and_merge() {
    assert_eq!(shown(&tree("a: &x [1, 2]\nb: *x\n")), "{a: [1, 2], b: [1, 2]}");
    assert_eq!(
        shown(&tree("a: &x { p: 1, q: 2 }\nb: { <<: *x, q: 3 }\n")),
        "{a: {p: 1, q: 2}, b: {q: 3, p: 1}}"
    );
}

#[test]
fn malformed_yaml_is_located() {
    let told = refusals(
        &[
            "a: 1\nb: 2\na: 3\n",
            "a:\n\tb: 1\n",
            "a: [1, 2\nb: 3\n",
            "a: 1\n---\nb: 2\n",
            "a: !!str 1\n",
            "? [a]\n: 1\n",
            "a: *unknown\n",
            "a: &x [1]\nb: { <<: *x }\n",
        ],
        |text| {
            let (line, column, message, help) = refused(text);
            format!("{line}:{column} {message}; {help}")
        },
    );
    insta::assert_snapshot!(told);
}

#[test]
fn hostile_input_is_refused() {
    let deep = "[".repeat(100_000);
    assert!(read(&deep, 0, 0).is_err());
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let item = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![item; 10].join(", "));
    }
    insta::assert_snapshot!(refused(&bomb).2);
}

#[test]
fn sets_replace_add_and_reach_into_lists() {
    let text = "trials: 5\nload:\n  - { duration: 5s }\n  - { duration: 9s }\n";
    assert_eq!(
        with_sets(text, &["trials=1", "load.1.duration=2s", "upstream.delay=uniform(1ms, 2ms)"]).unwrap(),
        "{trials: 1, load: [{duration: 5s}, {duration: 2s}], upstream: {delay: uniform(1ms, 2ms)}}"
    );
    assert_eq!(with_sets(text, &["load=[{ loop: closed }]"]).unwrap(), "{trials: 5, load: [{loop: closed}]}");
    assert_eq!(with_sets("a: 1", &["a=2", "a=3"]).unwrap(), "{a: 3}");
    assert_eq!(with_sets("a: 1", &["a="]).unwrap(), "{a: }");
    assert_eq!(with_sets("", &["a.b=1"]).unwrap(), "{a: {b: 1}}");
}

#[test]
fn errors_in_sets_point_into_the_argument() {
    let text = "trials: 5\ngateways: [nginx]\nload: [{ duration: 5s }, { duration: 6s }]\n";
    let told = refusals(
        &["trials", "load.7.duration=1s", "gateways.x=1", "gateways.0.workers=2", "load..x=1", "trials=[1"],
        |set| with_sets(text, &[set]).unwrap_err().join("\n"),
    );
    insta::assert_snapshot!(told);
    assert_eq!(with_sets(text, &["load.9=1", "trials=2", "x"]).unwrap_err().len(), 2);
}
