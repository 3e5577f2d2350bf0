//! Decodes header blocks of other encoders. The blocks in `hpack/vectors.txt` are from Python's `hpack`. The
//! variable HPACK_VECTORS names another file, for example with the stories of hpack-test-case (see
//! `hpack/vectors.py`).

use hoptax_wire::http2::FieldList;
use hoptax_wire::http2::hpack::Decoder;

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap_or_else(|_| panic!("{hex:?}"));
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Decodes all blocks of the file. Returns the number of stories and of blocks.
fn decode(text: &str) -> (usize, usize) {
    let (mut decoder, mut list) = (Decoder::new(4096), FieldList::new(1 << 20));
    let (mut story, mut stories, mut blocks) = ("", 0, 0);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("story ") {
            (decoder, story) = (Decoder::new(4096), name);
            stories += 1;
        } else if let Some(limit) = line.strip_prefix("limit ") {
            decoder.set_limit(limit.parse().expect("a size"));
        } else {
            list.clear();
            let decoded = decoder.decode(&bytes(line), &mut list);
            decoded.unwrap_or_else(|fault| panic!("story {story}, block {line}: {fault}"));
            for (name, value) in list.iter() {
                let expected = lines.next().and_then(|line| line.split_once('\t')).expect("a field");
                assert_eq!((name, value), (expected.0.as_bytes(), expected.1.as_bytes()), "story {story}");
            }
            let more = lines.peek().is_some_and(|line| line.contains('\t'));
            assert!(!more, "story {story}, block {line}: a field is missing");
            blocks += 1;
        }
    }
    (stories, blocks)
}

#[test]
fn blocks_of_other_encoders_have_the_expected_fields() {
    let (stories, blocks) = decode(include_str!("hpack/vectors.txt"));
    assert_eq!((stories, blocks), (12, 180));
    if let Some(path) = std::env::var_os("HPACK_VECTORS") {
        let (stories, blocks) = decode(&std::fs::read_to_string(path).expect("a file"));
        println!("{stories} stories, {blocks} blocks");
        assert!(stories > 0 && blocks > 0);
    }
}
