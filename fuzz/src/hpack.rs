//! HPACK. What a decoder reads can be encoded again, with and without the dynamic table. Memory is bounded.

use hoptax_wire::http2::hpack::{Block, Decoder, OutField};
use hoptax_wire::http2::{Config, Connection, FieldList, Sections, Step};

/// Maximum size of the fields of a block.
const LIMIT: usize = 2000;

/// `input` is a sequence of blocks. Each begins with its length, one byte.
pub fn holds(input: &[u8]) -> bool {
    let (mut decoder, mut list) = (Decoder::new(4096), FieldList::new(LIMIT));
    let mut rest = input;
    while let Some((&length, behind)) = rest.split_first() {
        let (block, next) = behind.split_at(behind.len().min(length as usize));
        rest = next;
        list.clear();
        if decoder.decode(block, &mut list).is_err() {
            return false;
        }
        let size: usize = list.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert!(size <= LIMIT && (list.is_too_long() || list.len() <= LIMIT / 32));
        encode_again(&list);
    }
    true
}

/// Encodes the fields, and decodes them again. Only text can be encoded.
fn encode_again(list: &FieldList) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let fields: Option<Vec<OutField>> =
        list.iter().map(|(name, value)| Some(OutField { name: text(name)?, value: text(value)? })).collect();
    let Some(fields) = fields else { return };
    let block = Block::shared(&[&fields]).remove(0);
    let (mut client, mut output) = (Connection::client(Config::default(), &mut Vec::new()), Vec::new());
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let step = client.advance(&settings, &mut Sections::new(), &mut Vec::new());
    assert_eq!(step, Ok((settings.len(), Step::Settings)));
    let mut decoder = Decoder::new(4096);
    // The first request can add the fields to the table, the second then refers to them.
    for _ in 0..2 {
        output.clear();
        client.request(0, false, &block, &[], true, &mut output).expect("a free stream");
        let mut again = FieldList::new(usize::MAX);
        decoder.decode(&output[9..], &mut again).expect("our own block");
        assert!(again.iter().eq(list.iter()), "{fields:?}");
    }
    let mut again = FieldList::new(usize::MAX);
    Decoder::new(4096).decode(block.bytes(), &mut again).expect("our own block");
    assert!(again.iter().eq(list.iter()), "{fields:?}");
}
