//! Holds the decoder to the table in docs/reference/odd-answers.md, which says which odd answers hoptax
//! accepts. The answers are in scripts/odd-answers/answers.txt. The script there printed the columns of other
//! programs.

use hoptax_wire::http1::{ResponseDecoder, Step};
use std::collections::BTreeMap;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The bytes that a line of answers.txt describes.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        rest = &rest[1..];
        match next {
            '[' if rest.starts_with(|first: char| first.is_ascii_digit()) => {
                let (times, tail) = rest.split_once('*').expect("[N*TEXT]");
                let end = closing(tail);
                bytes.extend(unescaped(&tail[..end]).repeat(times.parse().expect("a number")));
                rest = &tail[end + 1..];
            }
            '\\' => {
                let (byte, length) = match rest.as_bytes()[0] {
                    b'r' => (b'\r', 1),
                    b'n' => (b'\n', 1),
                    b't' => (b'\t', 1),
                    b'0' => (0, 1),
                    b'x' => (u8::from_str_radix(&rest[1..3], 16).expect("hexadecimal"), 3),
                    other => panic!("unknown escape {other}"),
                };
                bytes.push(byte);
                rest = &rest[length..];
            }
            plain => bytes.push(plain.try_into().expect("ASCII")),
        }
    }
    bytes
}

/// Position of the bracket that closes a repetition.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    let place = text.bytes().position(|byte| {
        depth += i32::from(byte == b'[') - i32::from(byte == b']');
        depth < 0
    });
    place.expect("a closing bracket")
}

/// Whether the answer, after which the connection ends, is status 200 with the body `ok` and nothing more.
fn is_accepted(answer: &[u8]) -> bool {
    let mut decoder = ResponseDecoder::new();
    decoder.begin(false);
    let (mut at, mut status, mut body) = (0, 0, Vec::new());
    let ended = loop {
        at += match decoder.advance(&answer[at..]) {
            Err(_) => return false,
            Ok(Step::NeedMore) => break decoder.end_of_input() == Ok(true),
            Ok(Step::Interim { consumed }) => consumed,
            Ok(Step::Head { consumed, head }) => {
                status = head.status;
                consumed
            }
            Ok(Step::Body { consumed, data }) => {
                body.extend_from_slice(&answer[at..][data]);
                consumed
            }
            Ok(Step::End { consumed, .. }) => {
                at += consumed;
                break true;
            }
        };
    };
    ended && at == answer.len() && status == 200 && body == b"ok"
}

#[test]
fn the_table_of_odd_answers_is_right() {
    let page = read("docs/reference/odd-answers.md");
    let of_table = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.trim_end_matches(" |").split(" | ").collect();
        let [name, .., last @ ("yes" | "no")] = cells.as_slice() else { return None };
        Some(((*name).to_owned(), *last == "yes"))
    });
    let mut rows: BTreeMap<String, bool> = of_table.collect();
    // Answers that all programs treat alike are in lists, whose lines are wrapped.
    for (list, is_accepted) in [("All accept: ", true), ("None accepts: ", false)] {
        let (_, list) = page.split_once(list).expect("a list");
        let list = list.split(".\n").next().expect("its end").replace('\n', " ");
        rows.extend(list.split("; ").map(|name| (name.to_owned(), is_accepted)));
    }
    let answers = read("scripts/odd-answers/answers.txt");
    let actual: BTreeMap<String, bool> = answers
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').expect("a name and an answer"))
        .map(|(name, text)| (name.to_owned(), is_accepted(&unescaped(text))))
        .collect();
    assert!(actual.len() > 40, "{}", actual.len());
    assert_eq!(rows, actual);
}
