//! Timestamps that the upstream sends in a response header: the time when it had read the request, and the
//! time when it replied. If generator and upstream run on one host, the timestamps split a service time into
//! request path, the upstream's own time, and response path.
//!
//! ```text
//!   sent ──────────► received ─────────────► replied ──────────► completed
//!     request path    the upstream's own time    response path
//! ```
//!
//! The sum of the three parts is exactly the service time, to the nanosecond. The upstream's own time belongs
//! to neither path.

mod clock_id;

pub use clock_id::ClockId;

/// Name of the header. Its value is `<received> <replied>`. Both are decimal numbers of nanoseconds on
/// [`crate::clock::now`] (CLOCK_MONOTONIC) of the upstream's host.
pub const HEADER: &str = "hoptax-stamp";

/// Number of digits of each of the two numbers, including leading zeros. The upstream always writes all of
/// them. The kernel counts time in 63 bits (`ktime_t`), which fits into 19 digits. The value of the header
/// therefore has a fixed length and can be overwritten in place.
pub const DIGITS: usize = 19;

/// Length of the header's value when the upstream writes it.
pub const LENGTH: usize = 2 * DIGITS + 1;

/// Placeholder for a value, with the same length ([`LENGTH`]).
pub const BLANK: &str = "0000000000000000000 0000000000000000000";

/// Maximum number of digits accepted when a number is read. A 64-bit number has at most 20 digits.
const MOST_DIGITS: usize = 20;

/// The upstream's timestamps for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Time when the upstream had read the whole request.
    pub received: u64,
    /// Time when the upstream passed the first byte of its response to the kernel.
    pub replied: u64,
}

/// Durations of the request path and the response path, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paths {
    /// Received − sent.
    pub request: u64,
    /// Completed − replied.
    pub response: u64,
}

impl Stamp {
    /// Overwrites the whole value, which has [`LENGTH`] bytes.
    #[inline]
    pub fn write(self, value: &mut [u8; LENGTH]) {
        write_digits(&mut value[..DIGITS], self.received);
        value[DIGITS] = b' ';
        write_digits(&mut value[DIGITS + 1..], self.replied);
    }

    /// Parses a value: two numbers of 1 to 20 digits, separated by a space. Returns `None` if the value is
    /// invalid.
    #[inline]
    pub fn read(value: &[u8]) -> Option<Self> {
        let blank = value.iter().position(|&byte| byte == b' ')?;
        Some(Self { received: number(&value[..blank])?, replied: number(&value[blank + 1..])? })
    }

    /// Splits the service time of a request that the generator sent at `sent` and that was complete at
    /// `completed`. Returns `None` if the timestamps contradict these times: a request cannot be received
    /// before it was sent, and a response cannot be complete before the upstream sent it.
    #[inline]
    pub fn split(self, sent: u64, completed: u64) -> Option<Paths> {
        if self.replied < self.received {
            return None;
        }
        Some(Paths {
            request: self.received.checked_sub(sent)?,
            response: completed.checked_sub(self.replied)?,
        })
    }
}

/// Writes `value` with leading zeros, two digits at a time. If `value` is too long, only its last digits are
/// written.
#[inline]
fn write_digits(place: &mut [u8], mut value: u64) {
    for pair in place.rchunks_mut(2) {
        let two = (value % 100) as u8;
        value /= 100;
        match pair {
            [tens, ones] => (*tens, *ones) = (b'0' + two / 10, b'0' + two % 10),
            [ones] => *ones = b'0' + two % 10,
            _ => {}
        }
    }
}

#[inline]
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > MOST_DIGITS {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn written(received: u64, replied: u64) -> String {
        let mut value = *b"xxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxxxxx";
        Stamp { received, replied }.write(&mut value);
        String::from_utf8(value.to_vec()).expect("digits")
    }

    #[test]
    fn numbers_are_written_with_fixed_length() {
        assert_eq!(BLANK.len(), LENGTH);
        assert_eq!(written(0, 0), BLANK);
        assert_eq!(written(7, i64::MAX as u64), "0000000000000000007 9223372036854775807");
        let mut random = Random::new(1);
        for _ in 0..1000 {
            let (received, replied) =
                (random.next_u64() >> 1, random.next_u64() >> (1 + random.next_u64() % 60));
            let text = written(received, replied);
            assert_eq!(text, format!("{received:019} {replied:019}"));
            assert_eq!(Stamp::read(text.as_bytes()), Some(Stamp { received, replied }));
        }
    }

    #[test]
    fn only_two_numbers_are_accepted() {
        assert_eq!(Stamp::read(b"1 22"), Some(Stamp { received: 1, replied: 22 }));
        assert_eq!(Stamp::read(b"18446744073709551615 0"), Some(Stamp { received: u64::MAX, replied: 0 }));
        for wrong in [
            "",
            " ",
            "1",
            "1 ",
            " 1",
            "1  2",
            "1 2 ",
            "1 2 3",
            "1,2",
            "-1 2",
            "1 0x2",
            "18446744073709551616 1",
        ] {
            assert_eq!(Stamp::read(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    /// The sum of the three parts is exactly the service time, for any four times in order.
    #[test]
    fn the_parts_add_up_to_the_service_time() {
        let mut random = Random::new(2);
        for _ in 0..1000 {
            let mut next = random.next_u64() >> 2;
            let [sent, received, replied, completed] = std::array::from_fn(|_| {
                next += random.next_u64() >> (8 + random.next_u64() % 56);
                next
            });
            let paths = Stamp { received, replied }.split(sent, completed).expect("in order");
            assert_eq!(paths.request + (replied - received) + paths.response, completed - sent);
        }
    }

    #[test]
    fn timestamps_that_contradict_the_generators_clock_are_refused() {
        let split = |received, replied| Stamp { received, replied }.split(100, 200);
        assert_eq!(split(100, 200), Some(Paths { request: 0, response: 0 }));
        assert_eq!(split(99, 150), None, "received before it was sent");
        assert_eq!(split(150, 201), None, "replied after the response was complete");
        assert_eq!(split(151, 150), None, "replied before it was received");
    }
}
