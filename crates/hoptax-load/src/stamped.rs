//! Finds the upstream's timestamps ([`hoptax_format::stamp`]) in the head of a response.

use hoptax_format::stamp::{HEADER, LENGTH, Stamp};
use hoptax_wire::http1::fields;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stamped {
    #[default]
    No,
    /// The header is present, but its value is not two numbers.
    Unreadable,
    With(Stamp),
}

impl Stamped {
    /// Reads the value of the header [`HEADER`].
    pub(crate) fn of_value(value: Option<&[u8]>) -> Self {
        value.map_or(Self::No, |value| Stamp::read(value).map_or(Self::Unreadable, Self::With))
    }
}

/// Offset of the header in the last head, in bytes. In the heads of one target, the header usually has the
/// same position.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place(usize);

impl Place {
    #[inline]
    pub(crate) fn find(&mut self, head: &[u8]) -> Stamped {
        match self.look(head) {
            Some(stamp) => Stamped::With(stamp),
            None => self.search(head),
        }
    }

    /// Looks for the header at the remembered position. If a line there begins with the header's name, it
    /// must be the header, because values of headers never contain a line feed.
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
        // This cannot fail, because the decoder has already accepted this head. If it did fail, the header
        // would count as absent.
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

    fn written(received: u64, replied: u64) -> String {
        let mut value = *b"xxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxxxxx";
        Stamp { received, replied }.write(&mut value);
        String::from_utf8(value.to_vec()).expect("digits")
    }

    fn head(lines: &[&str]) -> Vec<u8> {
        format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            lines.iter().map(|line| format!("{line}\r\n")).collect::<String>()
        )
        .into()
    }

    #[test]
    fn a_value_is_read_or_unreadable() {
        let with = Stamped::With(Stamp { received: 5, replied: 9 });
        assert_eq!(Stamped::of_value(Some(written(5, 9).as_bytes())), with);
        assert_eq!(Stamped::of_value(Some(b"soon")), Stamped::Unreadable);
        assert_eq!(Stamped::of_value(None), Stamped::No);
    }

    #[test]
    fn is_found_at_any_position_in_any_case() {
        let stamp = |text: &str| format!("hoptax-stamp: {text}");
        let (first, second) = (stamp(&written(5, 9)), stamp(&written(123, 456)));
        let upper = first.to_uppercase();
        let with = |received, replied| Stamped::With(Stamp { received, replied });
        // All heads use the same `Place`, because the remembered position must not affect the result.
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
            assert_eq!(Place::default().find(&head), expected, "{lines:?}, without a remembered offset");
        }
    }
}
