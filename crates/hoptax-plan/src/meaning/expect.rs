//! Reads `expect` of a target: the checks that its responses must pass.

use super::reader::Reader;
use crate::Upstream;
use crate::error::Place;
use crate::raw::{Bytes, Placed, RawBodyExpect, RawExpect, RawLength, Short, StatusText, Sweep};
use crate::units::{self, UnitError};
use hoptax_format::checks;
use hoptax_format::field::is_token;
use hoptax_format::spec::Check;

/// Word that accepts any value of a header.
const ANY: &str = "any";

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: RawExpect,
    method: &str,
    upstream: &Upstream,
) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(typed) = typed.status {
        checks.push(statuses(reader, &typed, upstream));
    }
    for (name, value) in typed.headers.map(|headers| headers.0).unwrap_or_default() {
        let place = if is_token(&name.value) { value.place } else { name.place };
        let value = (value.value.0 != ANY).then_some(value.value.0);
        push(reader, &mut checks, place, Check::Header { name: name.value, value });
    }
    if let Some(typed) = typed.body {
        if method == "HEAD" {
            reader.fault(typed.place, "the response to HEAD has no body", "remove `body`, or use GET");
        }
        body(reader, typed, &mut checks);
    }
    checks
}

/// The names of the headers that gateways may change, in lower case.
pub(super) fn ignored_headers(reader: &mut Reader<'_>, typed: Option<&RawExpect>) -> Vec<String> {
    let names =
        typed.and_then(|typed| typed.ignore_headers.as_ref()).map_or(&[][..], |names| names.0.as_slice());
    for name in names.iter().filter(|name| !is_token(&name.value.0)) {
        let message = format!("`{}` is not a header name", name.value.0);
        reader.fault(name.place, message, "write names such as cache-control, without values");
    }
    names.iter().map(|name| name.value.0.to_ascii_lowercase()).collect()
}

fn push(reader: &mut Reader<'_>, checks: &mut Vec<Check>, place: Place, check: Check) {
    match checks::check(&check) {
        Ok(()) => checks.push(check),
        Err(error) => reader.fault(place, error.message, error.help),
    }
}

fn statuses(reader: &mut Reader<'_>, typed: &Sweep<StatusText>, upstream: &Upstream) -> Check {
    let ranges: Vec<(u16, u16)> = typed.0.iter().filter_map(|typed| reader.unit(typed, status)).collect();
    let expected = |status: u16| ranges.iter().any(|(least, most)| (*least..=*most).contains(&status));
    if let Upstream::BuiltIn(upstream) = upstream
        && upstream.failures < 1.0
        && ranges.len() == typed.0.len()
        && !expected(upstream.status)
    {
        reader.fault(
            typed.0[0].place,
            format!("`expect` does not include {}, the status that the upstream returns", upstream.status),
            format!("add {} to `expect.status`, or change `upstream.status`", upstream.status),
        );
    }
    Check::Status(ranges)
}

/// Parses `200`, `2xx` or `200-204`.
fn status(text: &str) -> Result<(u16, u16), UnitError> {
    let refuse = |help: &str| Err(UnitError::new(format!("`{text}` is not a status"), help));
    let text = text.trim();
    let whole = |text: &str| text.trim().parse::<u16>().ok().filter(|status| (200..=599).contains(status));
    if let Some(class) = text.strip_suffix("xx") {
        return match class.parse::<u16>() {
            Ok(class @ 2..=5) => Ok((class * 100, class * 100 + 99)),
            _ => refuse("use a class from 2xx to 5xx"),
        };
    }
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    match (whole(least), whole(most)) {
        (Some(least), Some(most)) if least <= most => Ok((least, most)),
        (Some(least), Some(most)) => refuse(&format!("write {most}-{least}")),
        _ => refuse("write a status from 200 to 599, a class such as 2xx, or a range such as 200-204"),
    }
}

fn body(reader: &mut Reader<'_>, typed: Placed<RawBodyExpect>, checks: &mut Vec<Check>) {
    let Placed { place, value: RawBodyExpect { contains, equals, length } } = typed;
    if contains.is_none() && equals.is_none() && length.is_none() {
        reader.fault(place, "`body` is empty", "add `contains: …`, `equals: …` or `length: …`");
    }
    if let (Some(other), Some(_)) = (
        contains.as_ref().map(|contains| contains.0[0].place).or(length.as_ref().map(|length| length.place)),
        &equals,
    ) {
        let message = "`equals` cannot be combined with `contains` or `length`";
        reader.fault(other, message, "remove this key, or remove `equals`");
    }
    if let Some(length) = length {
        let (least, most) = bounds(reader, length);
        checks.push(Check::BodyLength { least, most });
    }
    for part in contains.map(|contains| contains.0).unwrap_or_default() {
        push(reader, checks, part.place, Check::BodyContains(part.value.0));
    }
    checks.extend(equals.map(|equals| Check::BodyEquals(equals.value.0)));
}

fn bounds(reader: &mut Reader<'_>, typed: Placed<Short<RawLength, Bytes>>) -> (u64, u64) {
    let place = typed.place;
    let RawLength { least, most } = match typed.value {
        Short::Word(exact) => {
            let exact = reader.unit(&Placed { place, value: exact }, units::size).unwrap_or(0);
            return (exact, exact);
        }
        Short::Full(bounds) => bounds,
    };
    if least.is_none() && most.is_none() {
        reader.fault(place, "`length` is empty", "add `least: …` or `most: …`");
    }
    let most_place = most.as_ref().map(|most| most.place);
    let least = least.and_then(|least| reader.unit(&least, units::size)).unwrap_or(0);
    let most = most.and_then(|most| reader.unit(&most, units::size)).unwrap_or(u64::MAX);
    if let Some(place) = most_place.filter(|_| least > most) {
        let (least, most) = (units::show_size(least), units::show_size(most));
        reader.fault(place, format!("`least` ({least}) is above `most` ({most})"), "swap `least` and `most`");
    }
    (least, most)
}

#[cfg(test)]
mod tests {
    use super::status;

    #[test]
    fn a_status_is_a_number_a_class_or_a_range() {
        for (text, range) in
            [("200", (200, 200)), ("2xx", (200, 299)), ("200-204", (200, 204)), ("200 - 599", (200, 599))]
        {
            assert_eq!(status(text), Ok(range), "{text}");
        }
        for (text, help) in [
            ("204-200", "write 200-204"),
            ("1xx", "use a class"),
            ("xx", "use a class"),
            ("600", "write a status"),
            ("101", "write a status"),
            ("ok", "write a status"),
            ("-", "write a status"),
            ("", "write a status"),
        ] {
            assert!(status(text).expect_err(text).help.starts_with(help), "{text}");
        }
    }
}
