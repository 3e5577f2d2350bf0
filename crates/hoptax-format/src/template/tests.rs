//! Tests whole texts with templates: their expansion, the position of errors, and the characters that are
//! allowed.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn files() -> BTreeMap<String, String> {
    [
        ("tokens.txt", "alpha\r\nbeta\ngamma\n\n"),
        ("paths.txt", "/a\n/b?c=d\n"),
        ("words.txt", "one\ntwo words\n"),
        ("edges.txt", "one\n two\n"),
        ("holes.txt", "one\n\nthree\n"),
        ("cr.txt", "one\ntw\ro\n"),
        ("empty.txt", "\n  \n"),
        ("marked.txt", "\u{feff}first\nsecond\n"),
        ("users.csv", "\u{feff}ann,a1,\nbob,\"b \"\"2\"\",\",x\n\"cy,d\",c3,\n"),
        ("tabs.tsv", "a,b\tc\n"),
        ("short.csv", "a,b\nc\n"),
    ]
    .map(|(name, content)| (name.to_owned(), content.to_owned()))
    .into()
}

/// Returns the first `count` expansions of `text` by worker `index` of `workers`.
fn expanded(text: &str, place: Place, (index, workers): (u32, u32), count: usize) -> Vec<String> {
    let files = files();
    let files = Files::new(&files, &sources_in(text));
    let mut program = Program::default();
    program.push_template(text, place, &files).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let usage = Usage::of([&program], &files);
    let mut values = Values::new(&files, (index, workers), 7, 0);
    let mut texts = Vec::new();
    for _ in 0..count {
        let mut out = Vec::new();
        program.write(&mut values, &mut out);
        values.advance(&usage);
        texts.push(String::from_utf8(out).expect("text"));
    }
    texts
}

fn body(text: &str) -> String {
    expanded(text, Place::Body, (0, 1), 1).remove(0)
}

#[test]
fn texts_without_templates_are_literal() {
    for text in ["", "a", "{", "}}", "{ {a} }", "a \\ b", "ünïcödé {x}", "\\{a", "{\"a\":{\"b\":1}}"] {
        assert_eq!(body(text), text);
    }
    assert_eq!(body("\\{{seq}}"), "{{seq}}");
    assert_eq!(body("a\\{{b}} \\{{"), "a{{b}} {{");
    assert_eq!(body("\\\\{{"), "\\{{");
}

#[test]
fn numbers_are_distinct_over_all_workers() {
    let mut seen = BTreeSet::new();
    for worker in 0..3 {
        let numbers = expanded("{{seq}}-{{ seq }}", Place::Header, (worker, 3), 4);
        for (step, text) in numbers.iter().enumerate() {
            let number = worker as usize + 3 * step;
            assert_eq!(*text, format!("{number}-{number}"), "the same at every place of a request");
            seen.insert(number);
        }
    }
    assert_eq!(seen, (0..12).collect());
}

#[test]
fn lines_are_used_in_order_and_repeat() {
    let alone = expanded("{{line tokens.txt}} {{line tokens.txt}}", Place::Header, (0, 1), 4);
    assert_eq!(alone, ["alpha alpha", "beta beta", "gamma gamma", "alpha alpha"]);
    assert_eq!(expanded("{{line tokens.txt}}", Place::Body, (0, 2), 3), ["alpha", "gamma", "beta"]);
    assert_eq!(expanded("{{line tokens.txt}}", Place::Body, (1, 2), 3), ["beta", "alpha", "gamma"]);
    let fifth = expanded("{{line paths.txt}}", Place::Path, (4, 5), 2);
    assert_eq!(fifth, ["/a", "/b?c=d"]);
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_line() {
    assert_eq!(expanded("{{line marked.txt}}", Place::Header, (0, 1), 3), ["first", "second", "first"]);
    assert_eq!(check("{{line marked.txt}}x", Place::Header, &files()), Ok(()));
}

#[test]
fn columns_of_a_line_stay_together() {
    let text =
        "{{line users.csv 1}}:{{ line users.csv  2 }}:{{base64 {{line users.csv 1}}}}:{{line users.csv 3}}.";
    let all = ["ann:a1:YW5u:.", "bob:b \"2\",:Ym9i:x.", "cy,d:c3:Y3ksZA==:."];
    assert_eq!(expanded(text, Place::Body, (0, 1), 4), [all[0], all[1], all[2], all[0]]);
    assert_eq!(expanded(text, Place::Body, (1, 2), 3), [all[1], all[0], all[2]]);
    assert_eq!(expanded("{{line tabs.tsv 1}} {{line tabs.tsv 2}}", Place::Body, (0, 1), 1), ["a,b c"]);
    let whole = expanded("{{line tokens.txt}} {{line tokens.txt 1}}", Place::Body, (0, 1), 2);
    assert_eq!(whole, ["alpha alpha", "beta beta"]);
}

#[test]
#[cfg_attr(miri, ignore = "Miri reads no snapshots")]
fn files_of_different_length_in_one_request_get_a_note() {
    let of = |path: &str, value: &str| {
        let headers = vec![("x".to_owned(), value.to_owned())];
        let target = crate::spec::TargetSpec::only("GET", path, headers, Vec::new());
        unequal_files(&[crate::spec::TargetSpec::only("GET", "/", Vec::new(), Vec::new()), target], &files())
    };
    insta::assert_snapshot!(of("/{{line tokens.txt}}", "{{line marked.txt}}").expect("3 and 2 lines"));
    assert_eq!(of("/{{line tokens.txt}}", "{{line users.csv 2}}"), None);
    assert_eq!(of("/{{line marked.txt}}", "x"), None);
}

#[test]
fn base64_encodes_its_expanded_content() {
    assert_eq!(body("Basic {{base64 Aladdin:open sesame}}"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_eq!(body("{{base64 user-{{seq}}:secret}}"), "dXNlci0wOnNlY3JldA==");
    assert_eq!(body("{{ base64  {{seq}} }}"), "MA==");
    assert_eq!(body("{{base64 {{base64 {{line tokens.txt}}}}!}}."), "WVd4d2FHRT0h.");
    assert_eq!(body("{{base64 {\\}}\\{{}}"), "e319e3s=");
    assert_eq!(expanded("{{base64 {{line holes.txt}}}}", Place::Body, (1, 3), 1), [""]);
}

#[test]
fn random_numbers_stay_within_their_bounds_and_reach_both() {
    let numbers: Vec<i64> = expanded("{{random -2 3}}", Place::Body, (0, 1), 500)
        .iter()
        .map(|text| text.parse().expect("a number"))
        .collect();
    let seen: BTreeSet<i64> = numbers.iter().copied().collect();
    assert_eq!(seen, (-2..=3).collect());
    assert_eq!(body("{{random 5 5}}"), "5");
    let whole = format!("{{{{random {} {}}}}}", i64::MIN, i64::MAX);
    assert!(body(&whole).parse::<i64>().is_ok());
    assert_eq!(body(&format!("{{{{random {0} {0}}}}}", i64::MIN)), i64::MIN.to_string());
}

#[test]
fn uuids_are_random_and_of_version_4() {
    let uuids: BTreeSet<String> = expanded("{{uuid}} {{uuid}}", Place::Header, (0, 1), 100)
        .iter()
        .flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(uuids.len(), 200, "a different one at each place");
    for uuid in uuids {
        let groups: Vec<&str> = uuid.split('-').collect();
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{uuid}");
        assert!(groups.concat().bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
        assert!(groups[2].starts_with('4') && groups[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
    }
}

#[test]
fn the_seed_decides_what_is_random_and_workers_differ() {
    let of = |worker| expanded("{{uuid}}", Place::Body, (worker, 2), 2);
    assert_eq!(of(0), of(0));
    assert_ne!(of(0), of(1));
}

#[test]
#[cfg_attr(miri, ignore = "Miri reads no snapshots")]
fn errors_include_their_offset_and_a_remedy() {
    let mut told = String::new();
    let table: &[(&str, Place, usize)] = &[
        ("/{{sqe}}", Place::Path, 3),
        ("/{{SEQ}}", Place::Path, 3),
        ("/{{nothing-like-it}}", Place::Path, 3),
        ("{\"a\":{{\"b\":1}}}", Place::Body, 7),
        ("/{{}}", Place::Path, 1),
        ("/{{ }}", Place::Path, 1),
        ("/{{", Place::Path, 1),
        ("/{{seq", Place::Path, 1),
        ("/{{seq}", Place::Path, 1),
        ("/{{base64 a{{seq}}", Place::Path, 1),
        ("/{{base64 a{{base64 b}}", Place::Path, 1),
        ("/{{base64}}", Place::Path, 1),
        ("/{{base64  }}", Place::Path, 1),
        ("/{{seq 1}}", Place::Path, 3),
        ("/{{uuid v7}}", Place::Path, 3),
        ("/{{random}}", Place::Path, 3),
        ("/{{random 5}}", Place::Path, 3),
        ("/{{random 1 2 3}}", Place::Path, 3),
        ("/{{random 5 1}}", Place::Path, 3),
        ("/{{random 1 x}}", Place::Path, 3),
        ("/{{random 1 9999999999999999999}}", Place::Path, 3),
        ("/{{line short.csv 2}}", Place::Path, 1),
        ("/{{line short.csv 0}}", Place::Path, 3),
        ("/{{line}}", Place::Path, 3),
        ("/{{line other.txt}}", Place::Path, 1),
        ("/{{line empty.txt}}", Place::Path, 1),
        ("/{{base64 {{line empty.txt}}}}", Place::Path, 10),
        ("/{{line {{seq}}}}", Place::Path, 8),
        ("", Place::Path, 0),
        ("{{seq}}", Place::Path, 0),
        ("a/{{seq}}", Place::Path, 0),
        ("{{line tokens.txt}}", Place::Path, 0),
        ("/a b", Place::Path, 2),
        ("/ä\r\n", Place::Path, 3),
        ("/{{line words.txt}}", Place::Path, 1),
        ("/{{line cr.txt}}", Place::Path, 1),
        ("{{line cr.txt}}", Place::Header, 0),
        ("a\nb", Place::Header, 1),
        ("a\0b", Place::Header, 1),
        ("a {{seq}} ", Place::Header, 9),
        (" {{seq}}", Place::Header, 0),
        ("{{line edges.txt}}", Place::Header, 0),
        ("{{line holes.txt}} x", Place::Header, 18),
        ("x {{base64 {{line holes.txt}}}}", Place::Header, 0),
    ];
    for (text, place, at) in table {
        let error = check(text, *place, &files()).expect_err(text);
        assert_eq!(error.at, *at, "{text:?}: {error}");
        assert!(!error.help.is_empty());
        told += &format!("{text:?}\n    {error}\n");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn valid_texts_are_accepted() {
    for (text, place) in [
        ("/", Place::Path),
        ("/ä?x={{random 1 2}}&y={{uuid}}#{{base64 a b}}", Place::Path),
        ("{{line paths.txt}}", Place::Path),
        ("/{{base64 {{line words.txt}}}}", Place::Path),
        ("", Place::Header),
        ("{{line words.txt}}", Place::Header),
        ("x {{line edges.txt}} y", Place::Header),
        ("x{{line holes.txt}}", Place::Header),
        ("{{line cr.txt}} \r\n\0", Place::Body),
    ] {
        assert_eq!(check(text, place, &files()), Ok(()), "{text:?}");
    }
}

#[test]
fn lists_the_files_that_a_text_reads() {
    let text = "{{line b c.txt}}{{seq}}{{base64 {{line a}}:{{line b c.txt}}}}\\{{line no}}";
    let expected: BTreeSet<String> = ["a", "b c.txt"].map(str::to_owned).into();
    assert_eq!(files_named(text), Ok(expected));
    assert!(files_named("{{line").is_err());
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}x{}", "{{base64 ".repeat(depth), "}}".repeat(depth));
    assert_eq!(check(&nested(8), Place::Body, &files()), Ok(()));
    let error = check(&nested(9), Place::Body, &files()).expect_err("too deep");
    assert!(error.message.contains("more than 8 deep"), "{error}");
    assert!(check(&"{{base64 ".repeat(1_000_000), Place::Body, &files()).is_err());
}
