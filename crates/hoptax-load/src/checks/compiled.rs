//! Checks in a form that can be executed. They process each response once, piece by piece, and store no part
//! of it.

use super::contains::Needle;
use hoptax_format::grpc::{self, Status};
use hoptax_format::spec::Check;
use hoptax_wire::http1::fields;

/// Statuses that count as success if the target has no check of the status.
const SUCCESSES: (u16, u16) = (200, 399);
/// Value of the counter of [`Compiled::Equals`] if the body is already known to differ.
const DIFFERS: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Checks {
    list: Vec<Compiled>,
    /// Number of counters that a response needs: one for each check of the body's text or of a header.
    pub(crate) room: usize,
    looks_at_head: bool,
    looks_at_body: bool,
    /// The accepted range of statuses, if the status is the only check and has a single range. Most loads use
    /// this fast path.
    only_statuses: Option<(u16, u16)>,
}

/// A compiled check. `at` is the index of its counter.
#[derive(Debug)]
enum Compiled {
    Status(Vec<(u16, u16)>),
    /// The counter is the state of the search for the text.
    Contains {
        text: String,
        needle: Box<Needle>,
        at: usize,
    },
    /// The counter is the number of bytes that are equal so far, or [`DIFFERS`].
    Equals {
        text: String,
        at: usize,
    },
    Length {
        least: u64,
        most: u64,
    },
    /// The counter is 1 once the header was found.
    Header {
        name: String,
        value: Option<String>,
        at: usize,
    },
    /// The accepted statuses of a gRPC call.
    Grpc(Vec<Status>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Index of the failed check in its target.
    pub(crate) check: u16,
    /// The value that failed the check: the status of the response or of the gRPC call, or the length of the
    /// body. 0 for other checks.
    pub(crate) saw: u64,
}

/// Value of [`Failed::saw`] if the actual value is not counted separately.
pub(super) const SAW_OTHERS: u64 = u64::MAX;

impl Checks {
    /// Compiles the checks of a target. They must already be validated by [`super::check`]. If the target has
    /// no check of the status, a check for success is added as the first check.
    pub(crate) fn new(checks: &[Check]) -> Self {
        let says_status = checks.iter().any(|check| matches!(check, Check::Status(_)));
        Self::compile(checks, (!says_status).then(|| Compiled::Status(vec![SUCCESSES])))
    }

    /// Like [`Checks::new`], for gRPC calls. If the target has no check of the call's status, a check for OK
    /// is added as the first check.
    pub(crate) fn of_calls(checks: &[Check]) -> Self {
        let says_status = checks.iter().any(|check| matches!(check, Check::Grpc(_)));
        Self::compile(checks, (!says_status).then(|| Compiled::Grpc(vec![Status::Ok])))
    }

    /// Like [`Checks::new`], for handshakes of WebSockets, which succeed with `status`.
    pub(crate) fn of_handshakes(checks: &[Check], status: u16) -> Self {
        let says_status = checks.iter().any(|check| matches!(check, Check::Status(_)));
        Self::compile(checks, (!says_status).then(|| Compiled::Status(vec![(status, status)])))
    }

    fn compile(checks: &[Check], added: Option<Compiled>) -> Self {
        let mut list: Vec<Compiled> = added.into_iter().collect();
        let (mut looks_at_head, mut looks_at_body, mut room) = (false, false, 0);
        for check in checks {
            let at = room;
            list.push(match check {
                Check::Status(ranges) => Compiled::Status(ranges.clone()),
                Check::Grpc(statuses) => Compiled::Grpc(statuses.clone()),
                Check::BodyLength { least, most } => Compiled::Length { least: *least, most: *most },
                Check::BodyContains(text) => {
                    (looks_at_body, room) = (true, room + 1);
                    let needle = Box::new(Needle::new(text.as_bytes()));
                    Compiled::Contains { text: text.clone(), needle, at }
                }
                Check::BodyEquals(text) => {
                    (looks_at_body, room) = (true, room + 1);
                    Compiled::Equals { text: text.clone(), at }
                }
                Check::Header { name, value } => {
                    (looks_at_head, room) = (true, room + 1);
                    Compiled::Header { name: name.clone(), value: value.clone(), at }
                }
            });
        }
        let only_statuses = match list.as_slice() {
            [Compiled::Status(ranges)] if ranges.len() == 1 => Some(ranges[0]),
            _ => None,
        };
        Self { list, room, looks_at_head, looks_at_body, only_statuses }
    }

    /// Prepares for the next response.
    #[inline]
    pub(crate) fn begin(&self, progress: &mut [u32]) {
        if self.room > 0 {
            progress[..self.room].fill(0);
        }
    }

    #[inline]
    pub(crate) fn head(&self, head: &[u8], progress: &mut [u32]) {
        if self.looks_at_head {
            self.look_at_head(head, progress);
        }
    }

    #[inline]
    pub(crate) fn body(&self, piece: &[u8], progress: &mut [u32]) {
        if self.looks_at_body {
            self.look_at_body(piece, progress);
        }
    }

    /// Looks at the fields of an HTTP/2 head.
    #[inline]
    pub(crate) fn fields<'f>(
        &self,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        progress: &mut [u32],
    ) {
        if self.looks_at_head {
            for (name, value) in fields {
                self.look_at_field(name, value, progress);
            }
        }
    }

    fn look_at_head(&self, head: &[u8], progress: &mut [u32]) {
        // This cannot fail, because the decoder has already accepted this head. If it did fail, headers would
        // count as absent.
        let _ = fields(head, |field| self.look_at_field(field.name.as_bytes(), field.value, progress));
    }

    fn look_at_field(&self, field: &[u8], content: &[u8], progress: &mut [u32]) {
        for check in &self.list {
            if let Compiled::Header { name, value, at } = check
                && field.eq_ignore_ascii_case(name.as_bytes())
                && value.as_ref().is_none_or(|value| value.as_bytes() == content)
            {
                progress[*at] = 1;
            }
        }
    }

    fn look_at_body(&self, piece: &[u8], progress: &mut [u32]) {
        for check in &self.list {
            match check {
                Compiled::Contains { needle, at, .. } => {
                    progress[*at] = needle.advance(progress[*at], piece);
                }
                Compiled::Equals { text, at } if progress[*at] != DIFFERS => {
                    let rest = &text.as_bytes()[progress[*at] as usize..];
                    progress[*at] =
                        if rest.starts_with(piece) { progress[*at] + piece.len() as u32 } else { DIFFERS };
                }
                _ => {}
            }
        }
    }

    /// Returns the first check that a complete response fails. `length` is the length of the response's body,
    /// bytes.
    #[inline]
    pub(crate) fn verdict(&self, status: u16, length: u64, progress: &[u32]) -> Option<Failed> {
        match self.only_statuses {
            Some((low, high)) if low <= status && status <= high => None,
            _ => self.look_at_all((status, None), length, progress),
        }
    }

    /// Like [`Checks::verdict`], for a gRPC call that ended with `call`.
    #[inline]
    pub(crate) fn verdict_of_call(
        &self,
        (status, call): (u16, Status),
        length: u64,
        progress: &[u32],
    ) -> Option<Failed> {
        self.look_at_all((status, Some(call)), length, progress)
    }

    fn look_at_all(
        &self,
        (status, call): (u16, Option<Status>),
        length: u64,
        progress: &[u32],
    ) -> Option<Failed> {
        let failed = self.list.iter().position(|check| !check.passes((status, call), length, progress))?;
        let saw = match self.list[failed] {
            Compiled::Status(_) => u64::from(status),
            Compiled::Grpc(_) => call.map_or(0, |call| call.number() as u64),
            Compiled::Length { .. } => length,
            _ => 0,
        };
        Some(Failed { check: failed as u16, saw })
    }

    pub(super) fn describe(&self, failed: Failed) -> String {
        self.list[usize::from(failed.check)].describe(failed.saw)
    }
}

impl Compiled {
    fn passes(&self, (status, call): (u16, Option<Status>), length: u64, progress: &[u32]) -> bool {
        match self {
            Self::Grpc(accepted) => call.is_some_and(|call| accepted.contains(&call)),
            Self::Status(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&status)),
            Self::Contains { needle, at, .. } => needle.is_found(progress[*at]),
            Self::Equals { text, at } => progress[*at] as usize == text.len(),
            Self::Length { least, most } => (*least..=*most).contains(&length),
            Self::Header { at, .. } => progress[*at] == 1,
        }
    }

    fn describe(&self, saw: u64) -> String {
        match self {
            Self::Status(ranges) => {
                let expected: Vec<String> = ranges.iter().map(|&(low, high)| range(low, high)).collect();
                let expected = expected.join(", ");
                match saw {
                    SAW_OTHERS => format!("another status, not {expected}"),
                    status => format!("status {status} is not {expected}"),
                }
            }
            Self::Contains { text, .. } => format!("body does not contain {}", quoted(text)),
            Self::Equals { text, .. } => format!("body is not {}", quoted(text)),
            Self::Length { least, most } => {
                let expected = match *most {
                    u64::MAX => format!("at least {least}"),
                    most => range(*least, most),
                };
                match saw {
                    SAW_OTHERS => format!("body has another length, not {expected}"),
                    1 => format!("body is 1 byte long, not {expected}"),
                    length => format!("body is {length} bytes long, not {expected}"),
                }
            }
            Self::Grpc(accepted) => {
                let expected: Vec<&str> = accepted.iter().map(|status| status.name()).collect();
                let seen = usize::try_from(saw).ok().and_then(|number| Status::ALL.get(number));
                let seen = seen.map_or("of another kind", |status| status.name());
                format!("{}{seen} is not {}", grpc::FAILED, expected.join(", "))
            }
            Self::Header { name, value: None, .. } => format!("no header {name}"),
            Self::Header { name, value: Some(value), .. } => {
                format!("no header {name} with the value {}", quoted(value))
            }
        }
    }
}

fn range<T: PartialEq + std::fmt::Display>(low: T, high: T) -> String {
    if low == high { low.to_string() } else { format!("{low} to {high}") }
}

fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\nvary: x\r\nVary: y\r\nempty:\r\n\r\n";

    fn header(name: &str, value: Option<&str>) -> Check {
        Check::Header { name: name.into(), value: value.map(str::to_owned) }
    }

    /// Returns the check that a response fails. The body arrives in pieces, and the result must be the same
    /// for every size of the pieces.
    fn verdict(checks: &[Check], status: u16, body: &[u8]) -> Option<String> {
        let checks = Checks::new(checks);
        let mut verdicts = (1..=body.len().max(1)).map(|size| {
            // The counters are not zero, as if another response had used them before.
            let mut progress = vec![7; checks.room + 2];
            checks.begin(&mut progress);
            checks.head(HEAD, &mut progress);
            body.chunks(size).for_each(|piece| checks.body(piece, &mut progress));
            checks.verdict(status, body.len() as u64, &progress)
        });
        let first = verdicts.next().expect("at least one size");
        assert!(verdicts.all(|other| other == first), "{checks:?}");
        first.map(|failed| checks.describe(failed))
    }

    #[test]
    fn good_responses_pass() {
        for checks in [
            vec![],
            vec![Check::BodyContains("lo wo".into())],
            vec![Check::BodyEquals("hello world".into())],
            vec![Check::BodyLength { least: 11, most: 11 }],
            vec![header("etag", None), header("ETAG", Some("\"a\"")), header("vary", Some("y"))],
            vec![header("empty", Some(""))],
            vec![Check::Status(vec![(200, 200)])],
        ] {
            assert_eq!(verdict(&checks, 200, b"hello world"), None, "{checks:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no snapshots")]
    fn the_first_failed_check_is_described() {
        let contains = |text: &str| Check::BodyContains(text.into());
        let equals = |text: &str| Check::BodyEquals(text.into());
        let length = |least, most| Check::BodyLength { least, most };
        let told = [
            vec![contains("low")],
            vec![equals("hello world!")],
            vec![equals("hello worl")],
            vec![equals("")],
            vec![length(0, 10)],
            vec![length(12, 12)],
            vec![length(12, u64::MAX)],
            vec![header("x-none", None)],
            vec![header("etag", Some("\"A\""))],
            vec![Check::Status(vec![(404, 404), (500, 599)])],
            vec![contains("low"), length(5, 5)],
            vec![length(5, 5), contains("low")],
        ]
        .map(|checks| verdict(&checks, 200, b"hello world").unwrap_or_else(|| panic!("{checks:?} passed")));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no snapshots")]
    fn the_default_status_check_comes_first_unless_a_check_is_about_the_status() {
        let contains = Check::BodyContains("x".into());
        let said = |checks: &[Check], status| verdict(checks, status, b"y");
        let checks = [contains, Check::Status(vec![(404, 404)])];
        assert_eq!((said(&[], 399), said(&checks[1..], 404)), (None, None));
        let told = [said(&checks[..1], 404), said(&[], 500), said(&checks, 404)];
        insta::assert_snapshot!(told.map(|text| text.expect("it failed")).join("\n"));
    }

    #[test]
    fn a_handshake_succeeds_with_one_status() {
        let said = |checks: &[Check], status| {
            let checks = Checks::of_handshakes(checks, 101);
            checks.verdict(status, 0, &[]).map(|failed| checks.describe(failed))
        };
        assert_eq!(said(&[], 101), None);
        assert_eq!(said(&[], 200).as_deref(), Some("status 200 is not 101"));
        assert_eq!(said(&[Check::Status(vec![(403, 403)])], 403), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no snapshots")]
    fn a_call_is_checked_by_its_own_status() {
        let said = |checks: &[Check], call| {
            let checks = Checks::of_calls(checks);
            checks.verdict_of_call((503, call), 9, &[]).map(|failed| checks.describe(failed))
        };
        assert_eq!(said(&[], Status::Ok), None);
        let length = [Check::BodyLength { least: 5, most: 5 }];
        let two = [Check::Grpc(vec![Status::Ok, Status::NotFound])];
        assert_eq!(said(&two, Status::NotFound), None);
        let told = [
            said(&[], Status::Unavailable),
            said(&length, Status::Unavailable),
            said(&length, Status::Ok),
            said(&two, Status::Internal),
        ];
        insta::assert_snapshot!(told.map(|text| text.expect("it failed")).join("\n"));
    }

    #[test]
    fn the_fields_of_http2_are_checked_as_heads_are() {
        let checks = Checks::new(&[header("ETag", Some("\"a\"")), header("vary", Some("y"))]);
        let mut progress = vec![0; checks.room];
        let fields = [(&b"etag"[..], &b"\"a\""[..]), (b"vary", b"x"), (b"vary", b"y")];
        checks.fields(fields[..2].iter().copied(), &mut progress);
        assert!(checks.verdict(200, 0, &progress).is_some());
        checks.fields(fields[2..].iter().copied(), &mut progress);
        assert_eq!(checks.verdict(200, 0, &progress), None);
    }

    #[test]
    fn an_empty_body_can_pass_checks() {
        assert_eq!(verdict(&[Check::BodyEquals(String::new())], 204, b""), None);
        assert_eq!(verdict(&[Check::BodyLength { least: 0, most: 0 }], 204, b""), None);
    }

    #[test]
    fn long_texts_are_shortened() {
        let said = verdict(&[Check::BodyContains("ä".repeat(100))], 200, b"x").expect("fails");
        insta::assert_snapshot!(said);
    }
}
