use super::*;
use crate::http2::{Fault, FieldList};

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn lines(list: &FieldList) -> Vec<String> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    list.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Fault> {
    let mut list = FieldList::new(10_000);
    decoder.decode(block, &mut list).map(|()| lines(&list))
}

/// Asserts that the blocks have these fields. A line of `expected` is a block, with a `|` between fields.
fn assert_blocks(blocks: &[&str], expected: &[&str]) {
    let mut decoder = Decoder::new(4096);
    assert_eq!(blocks.len(), expected.len());
    for (block, expected) in blocks.iter().zip(expected) {
        let fields: Vec<&str> = expected.split(" | ").collect();
        assert_eq!(decode(&mut decoder, &bytes(block)).expect("a valid block"), fields);
    }
}

/// RFC 7541, appendix C.2.
#[test]
fn single_fields_of_the_rfc() {
    assert_blocks(
        &["400a637573746f6d2d6b65790d637573746f6d2d686561646572", "be"],
        &["custom-key: custom-header", "custom-key: custom-header"],
    );
    assert_blocks(&["040c2f73616d706c652f70617468"], &[":path: /sample/path"]);
    assert_blocks(&["100870617373776f726406736563726574"], &["password: secret"]);
    assert_blocks(&["82"], &[":method: GET"]);
}

/// RFC 7541, appendices C.3 and C.4.
#[test]
fn requests_of_the_rfc() {
    let expected = [
        ":method: GET | :scheme: http | :path: / | :authority: www.example.com",
        ":method: GET | :scheme: http | :path: / | :authority: www.example.com | cache-control: no-cache",
        ":method: GET | :scheme: https | :path: /index.html | :authority: www.example.com | custom-key: custom-value",
    ];
    assert_blocks(
        &[
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
        &expected,
    );
    assert_blocks(
        &[
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
        &expected,
    );
}

/// RFC 7541, appendices C.5 and C.6. The table has 256 bytes, so entries are removed. The first block sets
/// this size.
#[test]
fn responses_of_the_rfc() {
    let expected = [
        ":status: 302 | cache-control: private | date: Mon, 21 Oct 2013 20:13:21 GMT | location: https://www.example.com",
        ":status: 307 | cache-control: private | date: Mon, 21 Oct 2013 20:13:21 GMT | location: https://www.example.com",
        ":status: 200 | cache-control: private | date: Mon, 21 Oct 2013 20:13:22 GMT | location: \
         https://www.example.com | content-encoding: gzip | set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ];
    assert_blocks(
        &[
            "3fe1014803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120\
             474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            "4803333037c1c0bf",
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f\
             3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076\
             657273696f6e3d31",
        ],
        &expected,
    );
    assert_blocks(
        &[
            "3fe101488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad1718\
             63c78f0b97c8e9ae82ae43d3",
            "4883640effc1c0bf",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335df\
             dfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        ],
        &expected,
    );
}

#[test]
fn malformed_blocks_are_refused() {
    for (block, fault) in [
        ("80", Fault::Index),
        ("be", Fault::Index),
        ("ffffffffff0f", Fault::IntegerOverflow),
        ("ff80808080808000", Fault::IntegerOverflow),
        ("ff", Fault::IntegerTruncated),
        ("40", Fault::IntegerTruncated),
        ("4001", Fault::StringTruncated),
        ("400161", Fault::IntegerTruncated),
        ("4001610262", Fault::StringTruncated),
        ("0f", Fault::IntegerTruncated),
        ("7f0003", Fault::Index),
        ("400182ffff00", Fault::StringTruncated),
        ("0081ff00", Fault::HuffmanPadding),
        ("0084ffffffff00", Fault::HuffmanEndOfString),
        ("3fe21f", Fault::TableSize),
        ("8220", Fault::TableSizeLate),
    ] {
        assert_eq!(decode(&mut Decoder::new(4096), &bytes(block)), Err(fault), "{block}");
    }
    // Every prefix of a valid block is either valid or cut off.
    let whole = bytes("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf");
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &bytes("828684410f7777772e6578616d706c652e636f6d58086e6f2d6361636865"))
        .expect("valid");
    for end in 0..whole.len() {
        let read = decode(&mut decoder.clone(), &whole[..end]);
        let cut = matches!(read, Err(Fault::IntegerTruncated | Fault::StringTruncated));
        assert!(read.is_ok() || cut, "{end}: {read:?}");
    }
}

#[test]
fn a_lower_limit_must_be_applied_first() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &bytes("40016101620001630164")).expect("valid");
    decoder.set_limit(100);
    assert_eq!(decode(&mut decoder.clone(), &bytes("82")), Err(Fault::TableSizeMissing));
    assert_eq!(decode(&mut decoder.clone(), &bytes("3f4682")), Err(Fault::TableSize));
    assert_eq!(decode(&mut decoder.clone(), &bytes("2082be")), Err(Fault::Index));
    let kept = vec![":method: GET".to_owned(), "a: b".to_owned()];
    assert_eq!(decode(&mut decoder.clone(), &bytes("3f4582be")), Ok(kept.clone()));
    // The size can go down and up again in one block.
    assert_eq!(decode(&mut decoder, &bytes("3e3f4582be")), Err(Fault::Index));
    assert_eq!(decode(&mut decoder, &bytes("4001610162be")).expect("valid").len(), 2);
    decoder.set_limit(8192);
    assert_eq!(decode(&mut decoder, &bytes("3fe13f82be")), Ok(kept));
}

#[test]
fn fields_beyond_the_limit_are_not_kept_but_change_the_table() {
    let mut decoder = Decoder::new(4096);
    let mut list = FieldList::new(2 * 34);
    decoder.decode(&bytes("400161016240016301644001650166be"), &mut list).expect("valid");
    assert_eq!(lines(&list), ["a: b", "c: d"]);
    assert!(list.is_too_long());
    assert!(list.bytes.len() <= 4);
    assert_eq!(decode(&mut decoder, &bytes("bebf")), Ok(vec!["e: f".to_owned(), "c: d".to_owned()]));
    // A block of 16 KiB that refers to a large entry again and again.
    let mut block = bytes("4001617f81");
    block.push(0x1e);
    block.extend_from_slice(&[b'x'; 3968]);
    block.extend_from_slice(&vec![0xbe; if cfg!(miri) { 100 } else { 16_000 }]);
    let mut list = FieldList::new(64 * 1024);
    decoder.decode(&block, &mut list).expect("valid");
    assert!(list.is_too_long() && list.bytes.capacity() < 256 * 1024, "{} bytes", list.bytes.capacity());
}

fn field(name: &str, value: &str) -> OutField {
    OutField { name: name.into(), value: value.into() }
}

#[test]
fn blocks_have_the_same_fields_in_every_encoding() {
    let get = [
        field(":method", "GET"),
        field(":path", "/"),
        field(":authority", "example.com"),
        field("accept", "*/*"),
        field("x-get", "1"),
        field("user-agent", "hoptax"),
        field("twice", "1"),
        field("twice", "1"),
    ];
    let post = [
        field(":method", "POST"),
        field(":authority", "example.com"),
        field(":path", "/post"),
        field("content-length", "5"),
        field("accept", "*/*"),
        field("user-agent", "hoptax"),
        field("twice", "1"),
    ];
    let messages = [&get[..], &post[..]];
    let blocks = Block::shared(&messages);
    let expected = messages.map(|fields| {
        fields.iter().map(|field| format!("{}: {}", field.name, field.value)).collect::<Vec<_>>()
    });
    let size = ":authorityexample.comaccept*/*user-agenthoptax".len() + 3 * 32;
    for first in 0..2 {
        let mut decoder = Decoder::new(4096);
        let mut read = |bytes: &[u8]| decode(&mut decoder, bytes).expect("valid");
        let indexed = |place: usize| blocks[place].indexed.as_ref().expect("they have fields in common");
        assert_eq!(indexed(first).size as usize, size);
        assert_eq!(indexed(0).set, indexed(1).set);
        assert_eq!(read(&indexed(first).first.bytes), expected[first]);
        for place in [0, 1, 1, 0] {
            assert_eq!(read(&indexed(place).later.bytes), expected[place]);
            assert_eq!(read(blocks[place].bytes()), expected[place]);
            let Encoding { bytes, pseudo } = &indexed(place).later;
            assert!(read(&bytes[..*pseudo]).iter().all(|line| line.starts_with(':')));
            assert!(read(&bytes[*pseudo..]).iter().all(|line| !line.starts_with(':')));
        }
    }
    let alone = &Block::shared(&[&get[..]])[0];
    assert_eq!(alone.indexed.as_ref().expect("indexed").later.bytes.len(), 6 + 2 * 8);
    assert!(Block::shared(&[]).is_empty());
    assert!(Block::shared(&[&get[..2]])[0].indexed.is_none());
}

#[test]
fn literals_can_be_decoded() {
    let mut block = Vec::new();
    write_literal(&mut block, ":path", b"/a?b");
    write_literal(&mut block, "x-mine", &[b'y'; 300]);
    let expected = vec![":path: /a?b".to_owned(), format!("x-mine: {}", "y".repeat(300))];
    assert_eq!(decode(&mut Decoder::new(4096), &block), Ok(expected));
}
