//! The Huffman code for strings (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: symbols are sorted by the length of their code, then by value, and each code is the
//! previous code plus one. The lengths therefore determine all codes.

use super::super::Fault;

/// Number of symbols: all bytes, and the end of the string.
const SYMBOLS: usize = 257;
/// The symbol for the end of a string. It must never be sent. Its first bits are used as padding.
const END: u16 = 256;
/// Length of the longest code, in bits.
const LONGEST: usize = 30;
/// Length of the codes that [`SHORT`] decodes, in bits. They include the codes of all letters and digits, and
/// of most punctuation.
const SHORT_BITS: u32 = 8;

/// The length of each symbol's code, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The canonical code in three forms.
struct Tables {
    /// The code of each symbol, in its low bits.
    codes: [u32; SYMBOLS],
    /// The symbols in the order of their codes.
    sorted: [u16; SYMBOLS],
    /// For each length: the first code of this length, and the position of its symbol in `sorted`.
    first: [(u32, u16); LONGEST + 1],
    /// Number of codes of each length.
    count: [u16; LONGEST + 1],
}

const TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        codes: [0; SYMBOLS],
        sorted: [0; SYMBOLS],
        first: [(0, 0); LONGEST + 1],
        count: [0; LONGEST + 1],
    };
    let (mut code, mut position, mut length) = (0, 0, 1);
    while length <= LONGEST {
        code <<= 1;
        tables.first[length] = (code, position as u16);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                tables.codes[symbol] = code;
                tables.sorted[position] = symbol as u16;
                tables.count[length] += 1;
                code += 1;
                position += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    tables
}

/// For each byte: the symbol whose code the byte begins with, and the length of this code. The length is 0 if
/// the code is longer than a byte.
static SHORT: [(u8, u8); 1 << SHORT_BITS] = short();

const fn short() -> [(u8, u8); 1 << SHORT_BITS] {
    let mut table = [(0, 0); 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let length = LENGTHS[symbol] as u32;
        if length <= SHORT_BITS {
            let first = (TABLES.codes[symbol] << (SHORT_BITS - length)) as usize;
            let mut offset = 0;
            while offset < 1 << (SHORT_BITS - length) {
                table[first + offset] = (symbol as u8, length as u8);
                offset += 1;
            }
        }
        symbol += 1;
    }
    table
}

static CODES: [u32; SYMBOLS] = TABLES.codes;
static SORTED: [u16; SYMBOLS] = TABLES.sorted;
static FIRST: [(u32, u16); LONGEST + 1] = TABLES.first;
static COUNT: [u16; LONGEST + 1] = TABLES.count;

/// Appends the decoded `input` to `output`.
///
/// # Errors
/// If the padding is wrong, or the input contains the end-of-string symbol.
pub(super) fn decode(input: &[u8], output: &mut Vec<u8>) -> Result<(), Fault> {
    output.reserve(decoded_at_most(input.len()));
    let mut input = input.iter();
    // The next bits of the input, from the highest bit down. `available` bits are valid, the others are 0.
    let (mut bits, mut available) = (0u64, 0u32);
    loop {
        while available <= 56 {
            let Some(&byte) = input.next() else { break };
            bits |= u64::from(byte) << (56 - available);
            available += 8;
        }
        let (symbol, length) = SHORT[(bits >> (64 - SHORT_BITS)) as usize];
        let (symbol, length) = (u16::from(symbol), u32::from(length));
        let (symbol, length) = if length == 0 { long(bits) } else { (symbol, length) };
        if length > available {
            // At most 7 bits remain, all of them 1: they are the padding.
            let is_padding = available < 8 && bits == !(u64::MAX >> available);
            return if is_padding { Ok(()) } else { Err(Fault::HuffmanPadding) };
        }
        if symbol == END {
            return Err(Fault::HuffmanEndOfString);
        }
        output.push(symbol as u8);
        bits <<= length;
        available -= length;
    }
}

/// The symbol whose code `bits` begin with, and the length of this code.
#[cold]
fn long(bits: u64) -> (u16, u32) {
    for length in SHORT_BITS as usize + 1..=LONGEST {
        let code = (bits >> (64 - length)) as u32;
        let (first, position) = FIRST[length];
        if code.wrapping_sub(first) < u32::from(COUNT[length]) {
            return (SORTED[position as usize + (code - first) as usize], length as u32);
        }
    }
    unreachable!("the code is complete: every sequence of {LONGEST} bits begins with a code")
}

/// Maximum length of a string whose code has `encoded` bytes. The shortest codes have 5 bits.
fn decoded_at_most(encoded: usize) -> usize {
    encoded * 8 / 5
}

/// Length of the code of `text`, in bytes.
pub(super) fn encoded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[byte as usize])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `text`, and padding up to the next whole byte.
pub(super) fn encode(text: &[u8], output: &mut Vec<u8>) {
    let (mut bits, mut used) = (0u64, 0u32);
    for &byte in text {
        let length = u32::from(LENGTHS[byte as usize]);
        bits = bits << length | u64::from(CODES[byte as usize]);
        used += length;
        while used >= 8 {
            used -= 8;
            output.push((bits >> used) as u8);
        }
    }
    if used > 0 {
        output.push((bits << (8 - used)) as u8 | (0xff >> used));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        encode(text, &mut output);
        assert_eq!(output.len(), encoded_length(text));
        output
    }

    fn decoded(input: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut output = Vec::new();
        decode(input, &mut output).map(|()| output)
    }

    #[test]
    fn codes_are_those_of_the_rfc() {
        for (symbol, code) in [
            (0, 0x1ff8),
            (usize::from(b'0'), 0x0),
            (usize::from(b' '), 0x14),
            (usize::from(b'~'), 0x1ffd),
            (127, 0xfff_fffc),
            (255, 0x3ff_ffee),
            (256, 0x3fff_ffff),
        ] {
            assert_eq!(CODES[symbol], code, "symbol {symbol}");
        }
    }

    #[test]
    fn every_byte_at_every_offset_can_be_decoded() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(&encoded(&all)), Ok(all));
        for byte in 0..=255 {
            // `0` has 5 bits, so the next code begins at each of the 8 positions in a byte.
            for before in 0..8 {
                let text = [vec![b'0'; before], vec![byte, b'a']].concat();
                assert_eq!(decoded(&encoded(&text)), Ok(text));
            }
        }
    }

    #[test]
    fn wrong_padding_is_refused() {
        // `0` is 00000, and the padding must be 111.
        assert_eq!(decoded(&[0b0000_0111]), Ok(b"0".to_vec()));
        assert_eq!(decoded(&[0b0000_0110]), Err(Fault::HuffmanPadding));
        assert_eq!(decoded(&[0b0000_0111, 0xff]), Err(Fault::HuffmanPadding));
        assert_eq!(decoded(&[0xff]), Err(Fault::HuffmanPadding));
        // The code of NUL has 13 bits, and the padding must be 111.
        assert_eq!(decoded(&[0xff, 0xc0]), Err(Fault::HuffmanPadding));
        assert_eq!(decoded(&[0xff; 4]), Err(Fault::HuffmanEndOfString));
    }
}
