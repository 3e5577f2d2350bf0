//! The upstream's stamps: when it had read a request and when it answered, told in a header of the response, so that on one
//! host a response time can be split into the way there and the way back.
//!
//! ```text
//!   sent ──────────► received ─────────────► replied ──────────► completed
//!     request path    the upstream's own time    response path
//! ```
//!
//! The three parts of a request add up to its service time, to the nanosecond. The upstream's own time belongs to neither path.

mod clock_id;

pub use clock_id::ClockId;

use hoptax_wire::http1::fields;

/// Header that carries the stamps: `<received> <replied>`, both nanoseconds on [`crate::clock::now`] (CLOCK_MONOTONIC) of the
/// upstream's host, in decimal digits.
pub const HEADER: &str = "hoptax-stamp";

/// Digits of each number as the upstream writes them, with zeros in front: the kernel counts time in 63 bits (`ktime_t`), which
/// are 19 digits, so that the value always has the same length and can be written over in its place.
pub const DIGITS: usize = 19;

/// Length of the header's value as the upstream writes it.
pub const LENGTH: usize = 2 * DIGITS + 1;

/// A value to be written over.
pub const BLANK: &str = "0000000000000000000 0000000000000000000";

/// Most digits that a number is read from: as many as 64 bits can have.
const MOST_DIGITS: usize = 20;

/// What the upstream says of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// When it had read the request whole.
    pub received: u64,
    /// When it handed the first byte of its answer to the kernel.
    pub replied: u64,
}

/// A request's two ways, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paths {
    /// Received − sent.
    pub request: u64,
    /// Completed − replied.
    pub response: u64,
}

impl Stamp {
    /// Writes it into a value of [`LENGTH`], of which it leaves nothing as it was.
    pub fn write(self, value: &mut [u8; LENGTH]) {
        write_digits(&mut value[..DIGITS], self.received);
        value[DIGITS] = b' ';
        write_digits(&mut value[DIGITS + 1..], self.replied);
    }

    /// Reads a value: two numbers of 1 to 20 digits with a blank between them. `None`: it is none.
    pub fn read(value: &[u8]) -> Option<Self> {
        let blank = value.iter().position(|&byte| byte == b' ')?;
        Some(Self { received: number(&value[..blank])?, replied: number(&value[blank + 1..])? })
    }

    /// The two ways of a request that was sent and whose response was complete at these moments of the generator's clock.
    /// `None`: the stamps contradict that clock, as nothing is received before it is sent, and nothing complete before it is
    /// answered.
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

/// Writes `value` with zeros in front, two digits at a time; of one that has more digits, the last ones.
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

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > MOST_DIGITS {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// What a response's head says of stamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stamped {
    /// It has no such header.
    #[default]
    No,
    /// It has one whose value is not two numbers.
    Unreadable,
    /// These.
    With(Stamp),
}

/// Where the header stood in the last head: the heads of one target mostly have it in the same place.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place(usize);

impl Place {
    /// Finds the header in a whole head, and remembers where.
    #[inline]
    pub(crate) fn find(&mut self, head: &[u8]) -> Stamped {
        match self.look(head) {
            Some(stamp) => Stamped::With(stamp),
            None => self.search(head),
        }
    }

    /// Looks where it stood last. A line that begins there as it should is the header whatever stands before it: no value has a
    /// line feed in it.
    fn look(self, head: &[u8]) -> Option<Stamp> {
        const COLON: &[u8] = b": ";
        let before = self.0.checked_sub(1)?;
        let line = head.get(self.0..)?;
        if head[before] != b'\n' || !line.get(..HEADER.len())?.eq_ignore_ascii_case(HEADER.as_bytes()) {
            return None;
        }
        let value = line[HEADER.len()..].strip_prefix(COLON)?;
        (value.get(LENGTH..)?.starts_with(b"\r\n")).then(|| Stamp::read(&value[..LENGTH]))?
    }

    fn search(&mut self, head: &[u8]) -> Stamped {
        let mut found = Stamped::No;
        let mut place = None;
        // The decoder has read this head before, so it can be read; if it could not, no header would be there.
        let _ = fields(head, |field| {
            if field.name.eq_ignore_ascii_case(HEADER) && found == Stamped::No {
                place = Some(field.name.as_ptr() as usize - head.as_ptr() as usize);
                found = Stamp::read(field.value).map_or(Stamped::Unreadable, Stamped::With);
            }
        });
        *self = Self(place.unwrap_or(0));
        found
    }
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
    fn is_written_in_digits_of_fixed_number() {
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
    fn reads_two_numbers_and_nothing_else() {
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

    /// Over any four moments in order: the three parts are the service time, to the nanosecond.
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
    fn what_contradicts_the_generators_clock_is_no_split() {
        let split = |received, replied| Stamp { received, replied }.split(100, 200);
        assert_eq!(split(100, 200), Some(Paths { request: 0, response: 0 }));
        assert_eq!(split(99, 150), None, "received before it was sent");
        assert_eq!(split(150, 201), None, "answered after the response was there");
        assert_eq!(split(151, 150), None, "answered before it was received");
    }

    fn head(lines: &[&str]) -> Vec<u8> {
        format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            lines.iter().map(|line| format!("{line}\r\n")).collect::<String>()
        )
        .into()
    }

    #[test]
    fn is_found_wherever_it_stands_and_however_it_is_written() {
        let stamp = |text: &str| format!("hoptax-stamp: {text}");
        let (first, second) = (stamp(&written(5, 9)), stamp(&written(123, 456)));
        let upper = first.to_uppercase();
        let with = |received, replied| Stamped::With(Stamp { received, replied });
        // One place for all of them: what it remembers must never make a difference.
        let mut place = Place::default();
        for (lines, expected) in [
            (vec!["a: b", &*first], with(5, 9)),
            (vec!["a: c", &*second], with(123, 456)),
            (vec!["a: bb", &*second, "x: y"], with(123, 456)),
            (vec!["a: bb", &*upper, "x: y"], with(5, 9)),
            (vec!["a: bb", "hoptax-stamp:5 9", "x: y"], with(5, 9)),
            (vec!["a: bb", "hoptax-stamp: 5 9 ", "x: y"], with(5, 9)),
            (vec!["a: bb", "hoptax-stamp: soon", "x: y"], Stamped::Unreadable),
            (vec!["a: bb", "hoptax-stamps: 5 9", "x: y"], Stamped::No),
            (vec!["a: bb", "x-hoptax-stamp: 5 9"], Stamped::No),
            (vec![], Stamped::No),
            (vec![&*first, &*second], with(5, 9)),
            (vec![&*second], with(123, 456)),
        ] {
            let head = head(&lines);
            assert_eq!(place.find(&head), expected, "{lines:?}");
            assert_eq!(place.find(&head), expected, "{lines:?}, again");
            assert_eq!(Place::default().find(&head), expected, "{lines:?}, afresh");
        }
    }
}
