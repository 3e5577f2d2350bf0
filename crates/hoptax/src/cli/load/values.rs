//! Parsers of option values: counts, statuses, lengths, protocols.

use hoptax_format::field::is_token;
use hoptax_format::grpc::{self, Status};
use hoptax_format::messages::{ENDLESS, StreamKind};
use hoptax_format::spec::{Check, HttpVersion, MOST_STREAMS, ProxyProtocol, Retry, TlsVersion};
use hoptax_load::names::Use;
use hoptax_plan::calls;
use hoptax_plan::units::{self, UnitError};
use std::net::IpAddr;

/// Protocols to offer. If empty, the ALPN extension is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alpn(pub(super) Vec<String>);

/// Kind of a gRPC call. `None` is unary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallKind(pub(super) Option<StreamKind>);

/// Compression of a gRPC message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Off,
    Gzip,
}

fn wrong<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, UnitError> {
    Err(UnitError { message: message.into(), help: help.into() })
}

/// A count of at least 1: `250`, `100k`, `2M`, `1_000_000`.
pub(super) fn count(text: &str) -> Result<u64, UnitError> {
    let (digits, factor) = match text.trim().strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (text.trim(), 1),
    };
    let number = digits.replace('_', "");
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return wrong(
            format!("`{text}` is not a whole number"),
            "use a number such as 250, or 100k for 100 thousand",
        );
    }
    match number.parse().ok().and_then(|number: u64| number.checked_mul(factor)) {
        Some(0) => wrong(format!("`{text}` is too small"), "use at least 1"),
        Some(count) => Ok(count),
        None => wrong(format!("`{text}` is too large"), format!("use at most {}", u64::MAX)),
    }
}

pub(super) fn seed(text: &str) -> Result<u64, UnitError> {
    text.parse().or_else(|_| {
        wrong(format!("`{text}` is not a valid seed"), format!("use a whole number from 0 to {}", u64::MAX))
    })
}

/// Same as [`count`], limited to 32 bits.
pub(super) fn count32(text: &str) -> Result<u32, UnitError> {
    let most = u32::MAX;
    u32::try_from(count(text)?)
        .or_else(|_| wrong(format!("`{text}` is too large"), format!("use at most {most}")))
}

/// Statuses: `200`, `2xx` or `200-299`, separated by commas.
pub(super) fn statuses(text: &str) -> Result<Check, UnitError> {
    let ranges = text.split(',').map(|part| status_range(text, part.trim()));
    Ok(Check::Status(ranges.collect::<Result<_, _>>()?))
}

/// Statuses of gRPC calls: names, separated by commas.
pub(super) fn call_statuses(text: &str) -> Result<Check, UnitError> {
    let status = |part: &str| match Status::from_name(part.trim()) {
        Some(status) => Ok(status),
        None => wrong(format!("`{part}` is not a gRPC status"), "use names such as ok,not-found"),
    };
    Ok(Check::Grpc(text.split(',').map(status).collect::<Result<_, _>>()?))
}

/// A method of gRPC: `SERVICE/METHOD`. Returns its path.
pub(super) fn call(text: &str) -> Result<String, UnitError> {
    match grpc::split(text) {
        Some((service, method)) => Ok(grpc::path(service, method)),
        None => {
            wrong(format!("`{text}` is not a method of gRPC"), "use SERVICE/METHOD, such as echo.Echo/Say")
        }
    }
}

/// `unary`, `server-stream`, `client-stream` or `both-ways`.
pub(super) fn call_kind(text: &str) -> Result<CallKind, UnitError> {
    calls::kind(text).map(CallKind)
}

/// Who sends the messages of a WebSocket, and whether all connections get them at the same time: `echo`,
/// `push` or `fan-out`.
pub(super) fn socket_kind(text: &str) -> Result<(StreamKind, bool), UnitError> {
    match text {
        "echo" => Ok((StreamKind::BothWays, false)),
        "push" => Ok((StreamKind::ServerStream, false)),
        "fan-out" => Ok((StreamKind::ServerStream, true)),
        _ => wrong(format!("`{text}` is not a kind of WebSocket"), "use echo, push or fan-out"),
    }
}

/// A number of messages in a stream, or `endless`.
pub(super) fn messages(text: &str) -> Result<u32, UnitError> {
    if text == "endless" {
        return Ok(ENDLESS);
    }
    match count32(text)? {
        messages if messages > calls::MOST_MESSAGES => wrong(
            format!("{messages} messages are too many for a stream"),
            format!("use at most {}, or endless", calls::MOST_MESSAGES),
        ),
        messages => Ok(messages),
    }
}

/// `off` or `gzip`.
pub(super) fn compression(text: &str) -> Result<Compression, UnitError> {
    match text {
        "off" => Ok(Compression::Off),
        "gzip" => Ok(Compression::Gzip),
        _ => wrong(format!("`{text}` is not a supported compression"), "use off or gzip"),
    }
}

fn status_range(text: &str, part: &str) -> Result<(u16, u16), UnitError> {
    const HELP: &str = "use 200, 2xx or 200-299, separated by commas";
    // A larger number before `xx` is never a valid class, and 100 times this number could overflow 16 bits.
    let class =
        part.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok().filter(|class| *class < 600));
    let range = match (class, part.split_once('-')) {
        (Some(class), _) => Some((class * 100, class * 100 + 99)),
        (None, Some((from, to))) => from.trim().parse().ok().zip(to.trim().parse().ok()),
        (None, None) => part.parse().ok().map(|status| (status, status)),
    };
    match range {
        None => wrong(format!("`{part}` in `{text}` is not a status"), HELP),
        Some((from, to)) if from > to => {
            wrong(format!("`{part}` ends before it starts"), format!("did you mean {to}-{from}?"))
        }
        Some((from, to)) if from < 200 || to > 599 => {
            wrong(format!("`{part}` is out of range"), "statuses of responses are 200 to 599")
        }
        Some(range) => Ok(range),
    }
}

/// Lengths of a body: `1KiB`, or a range `1B-64KiB`.
pub(super) fn lengths(text: &str) -> Result<Check, UnitError> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (units::size(least)?, units::size(most)?);
    if least > most {
        let (least, most) = (units::show_size(least), units::show_size(most));
        return wrong(format!("`{text}` ends before it starts"), format!("did you mean {most}-{least}?"));
    }
    Ok(Check::BodyLength { least, most })
}

/// A header that a response must have: `name`, or `name: value`.
pub(super) fn expected_header(text: &str) -> Result<Check, UnitError> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
        None => (text.trim(), None),
    };
    if !is_token(name) {
        return wrong(
            format!("`{name}` is not a valid header name"),
            "use a name such as 'content-type', or a name with a value: 'content-type: text/plain'",
        );
    }
    Ok(Check::Header { name: name.to_owned(), value })
}

pub(super) fn address(text: &str) -> Result<IpAddr, UnitError> {
    let bare = text.trim().trim_start_matches('[').trim_end_matches(']');
    bare.parse().or_else(|_| {
        let help = "use addresses of this machine, such as 127.0.0.1,127.0.0.2; `ip addr` lists them";
        match text.parse::<std::net::SocketAddr>() {
            Ok(address) => wrong(
                format!("`{text}` has a port, but each connection gets a different port"),
                format!("use {}", address.ip()),
            ),
            Err(_) => wrong(format!("`{text}` is not an IP address"), help),
        }
    })
}

/// `1.0`, `1.1` or `2`.
pub(super) fn http_version(text: &str) -> Result<HttpVersion, UnitError> {
    match text.trim().trim_start_matches("HTTP/") {
        "1.0" => Ok(HttpVersion::Http10),
        "1.1" | "1" => Ok(HttpVersion::Http11),
        "2" | "2.0" => Ok(HttpVersion::Http2),
        "3" | "3.0" => wrong(format!("HTTP/{text} is not supported"), "use 2, 1.1 or 1.0"),
        _ => wrong(format!("`{text}` is not a version of HTTP"), "use 2, 1.1 or 1.0"),
    }
}

/// A number of streams on a connection.
pub(super) fn streams(text: &str) -> Result<u32, UnitError> {
    match count32(text)? {
        streams if streams > MOST_STREAMS => wrong(
            format!("{streams} streams are more than servers allow on a connection"),
            format!("use at most {MOST_STREAMS}, and more connections (-c)"),
        ),
        streams => Ok(streams),
    }
}

/// `v1` or `v2`.
pub(super) fn proxy_protocol(text: &str) -> Result<ProxyProtocol, UnitError> {
    match text {
        "v1" | "1" => Ok(ProxyProtocol::V1),
        "v2" | "2" => Ok(ProxyProtocol::V2),
        _ => wrong(format!("`{text}` is not a version of the PROXY protocol"), "use v1 or v2"),
    }
}

/// `off` or `idle-close`.
pub(super) fn retry(text: &str) -> Result<Retry, UnitError> {
    match text {
        "off" => Ok(Retry::Off),
        "idle-close" => Ok(Retry::IdleClose),
        _ => wrong(format!("`{text}` is not a kind of retry"), "use off or idle-close"),
    }
}

/// Protocols offered by ALPN, or `none`.
pub(super) fn alpn(text: &str) -> Result<Alpn, UnitError> {
    if text == "none" {
        return Ok(Alpn(Vec::new()));
    }
    let names = text.split(',').map(|name| match name.trim() {
        name @ ("http/1.1" | "http/1.0" | "h2") => Ok(name.to_owned()),
        "" => wrong("the name of a protocol is empty", "use http/1.1, or none to offer no protocol"),
        other => wrong(
            format!("`{other}` is not supported, so the server must not choose it"),
            "use http/1.1, http/1.0, h2 or none",
        ),
    });
    Ok(Alpn(names.collect::<Result<_, _>>()?))
}

/// `1.2` or `1.3`.
pub(super) fn tls_version(text: &str) -> Result<TlsVersion, UnitError> {
    match text.trim().trim_start_matches("TLSv").trim_start_matches('v') {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        "1.0" | "1.1" | "1" => {
            wrong(format!("TLS {text} is insecure and not supported"), "use 1.2, 1.3 or 1.2,1.3")
        }
        _ => wrong(format!("`{text}` is not a version of TLS"), "use 1.2, 1.3 or 1.2,1.3"),
    }
}

/// Which addresses of a name are used.
pub(super) fn resolve(typed: &str) -> Result<Use, String> {
    match typed {
        "all" => Ok(Use::All),
        "first" => Ok(Use::First),
        _ => Err("write all or first".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Each of these texts with its error, for a snapshot.
    fn refused<T: Debug>(parse: impl Fn(&str) -> Result<T, UnitError>, texts: &[&str]) -> String {
        texts.iter().map(|text| format!("{text}\n=> {}\n", parse(text).expect_err(text))).collect()
    }

    #[test]
    fn counts() {
        for (text, expected) in [("1", 1), ("100k", 100_000), ("2M", 2_000_000), ("1_000", 1000)] {
            assert_eq!(count(text), Ok(expected));
        }
        let mut told = refused(
            count,
            &["0", "0k", "-5", "1.5k", "ten", "", "k", "99999999999999999999", "99999999999999999M"],
        );
        told += &refused(count32, &["5000M", "0"]);
        insta::assert_snapshot!(told);
    }

    #[test]
    fn statuses_and_classes() {
        assert_eq!(
            statuses("200,204, 3xx,500-503"),
            Ok(Check::Status(vec![(200, 200), (204, 204), (300, 399), (500, 503)]))
        );
        let told = refused(statuses, &["ok", "200,", "6xx", "1xx", "20", "299-200", "2xxx", "-"]);
        insta::assert_snapshot!(told);
    }
}
