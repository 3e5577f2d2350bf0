//! Integers (RFC 7541, section 5.1): the low bits of a byte, and more bytes if these bits are all 1.

use super::super::Fault;

/// Reads the integer in the low `bits` of the first byte of `input`. Returns the integer and the rest of the
/// input. Integers of 2^32 and above are refused, whatever their length.
///
/// # Errors
/// If the input ends within the integer, or the integer is too large.
#[inline]
pub(super) fn read(input: &[u8], bits: u32) -> Result<(u32, &[u8]), Fault> {
    let Some((&first, mut rest)) = input.split_first() else { return Err(Fault::IntegerTruncated) };
    let most = (1u32 << bits) - 1;
    let low = u32::from(first) & most;
    if low < most {
        return Ok((low, rest));
    }
    let mut value = u64::from(most);
    // Five bytes hold 35 bits. More bytes can only add zeros, which nobody needs.
    for shift in (0..35).step_by(7) {
        let Some((&byte, behind)) = rest.split_first() else { return Err(Fault::IntegerTruncated) };
        rest = behind;
        value += u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((u32::try_from(value).map_err(|_| Fault::IntegerOverflow)?, rest));
        }
    }
    Err(Fault::IntegerOverflow)
}

/// Appends `value` with a prefix of `bits` bits. `pattern` has the high bits of the first byte.
pub(super) fn write(output: &mut Vec<u8>, pattern: u8, bits: u32, value: u32) {
    let most = (1u32 << bits) - 1;
    if value < most {
        return output.push(pattern | value as u8);
    }
    output.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        output.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    output.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pattern: u8, bits: u32, value: u32) -> Vec<u8> {
        let mut output = Vec::new();
        write(&mut output, pattern, bits, value);
        output
    }

    /// RFC 7541, appendix C.1.
    #[test]
    fn examples_of_the_rfc() {
        for (bits, value, bytes) in
            [(5, 10, &[0b01010][..]), (5, 1337, &[0b11111, 0b1001_1010, 0b1010]), (8, 42, &[0b10_1010])]
        {
            assert_eq!(written(0, bits, value), bytes);
            assert_eq!(read(bytes, bits), Ok((value, &[][..])));
        }
    }

    #[test]
    fn every_length_can_be_read_again() {
        for bits in 4..=8 {
            for value in (0..32).flat_map(|shift| [(1u32 << shift) - 1, 1 << shift]).chain([u32::MAX]) {
                let mut bytes = written(0, bits, value);
                assert!(bytes.len() <= 6);
                for end in 0..bytes.len() {
                    assert_eq!(read(&bytes[..end], bits), Err(Fault::IntegerTruncated));
                }
                bytes.push(7);
                assert_eq!(read(&bytes, bits), Ok((value, &[7][..])), "{value} in {bits} bits");
            }
        }
    }

    #[test]
    fn large_integers_are_refused() {
        for bytes in [
            &[0x1f, 0xff, 0xff, 0xff, 0xff, 0x0f][..],
            &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
            &[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            assert_eq!(read(bytes, 5), Err(Fault::IntegerOverflow));
        }
    }
}
