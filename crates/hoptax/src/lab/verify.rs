//! Before anything is timed: does a gateway answer as direct does?
//!
//! One real request goes to both. Status, body and the headers that matter must be the same; a gateway may add
//! headers, but not content encodings. What a hop is free to change is not compared: see [`HOP_BY_HOP`].

use crate::record::{Failure, Stage};
use hoptax_load::spec::TargetSpec;
use hoptax_wire::http1::{ResponseDecoder, Step, Version, fields, request_head};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Headers that a hop may drop, add or change: those of one connection (RFC 9110 §7.6.1), message framing (RFC 9112
/// §6), and those that name the sender or the moment.
pub const HOP_BY_HOP: [&str; 12] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-powered-by",
];

/// A difference must be seen this often: an upstream with a share of failures answers differently from itself.
const ATTEMPTS: u32 = 3;

/// How much of a body is shown.
const SHOWN: usize = 300;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Values by lower-case name; several of one name in their order, joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// Body, chunks put together.
    pub body: Vec<u8>,
}

/// Sends `request` to both and compares; `timeout` is for each answer.
///
/// # Errors
/// If either cannot be asked, or they answer differently; with both answers.
pub fn verify(
    direct: SocketAddr,
    gateway: SocketAddr,
    request: &TargetSpec,
    timeout: Duration,
) -> Result<(), Failure> {
    let fail = |message: String, detail: String| Failure { stage: Stage::Verify, message, detail };
    let mut attempts_left = ATTEMPTS;
    loop {
        attempts_left -= 1;
        let expected = ask(direct, request, timeout)
            .map_err(|error| fail(format!("direct could not be asked: {error:#}"), String::new()))?;
        let failure = match ask(gateway, request, timeout) {
            Err(error) => fail(format!("it gave no answer: {error:#}"), both(&expected, None)),
            Ok(answer) => match difference(&expected, &answer) {
                None => return Ok(()),
                Some(what) => {
                    fail(format!("it answers otherwise than direct: {what}"), both(&expected, Some(&answer)))
                }
            },
        };
        if attempts_left == 0 {
            return Err(failure);
        }
    }
}

/// Sends `request` once and reads the whole answer.
///
/// # Errors
/// If there is no connection, no whole answer within `timeout`, or what comes is not HTTP/1.x.
pub fn ask(address: SocketAddr, request: &TargetSpec, timeout: Duration) -> anyhow::Result<Answer> {
    let deadline = Instant::now() + timeout;
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        anyhow::ensure!(!left.is_zero(), "no whole answer within {timeout:?}");
        Ok(left)
    };
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let length = (!request.body.is_empty()).then_some(request.body.len() as u64);
    let mut bytes = request_head(Version::Http11, &request.method, &request.path, headers, length)?;
    bytes.extend_from_slice(&request.body);
    stream.write_all(&bytes)?;
    read_answer(request.method == "HEAD", |piece| {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(piece) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                anyhow::bail!("no whole answer within {timeout:?}")
            }
            read => Ok(read?),
        }
    })
}

/// Puts an answer together from what `read` fills in.
fn read_answer(
    to_head: bool,
    mut read: impl FnMut(&mut [u8]) -> anyhow::Result<usize>,
) -> anyhow::Result<Answer> {
    let mut decoder = ResponseDecoder::new();
    decoder.begin(to_head);
    let mut answer = Answer { status: 0, headers: BTreeMap::new(), body: Vec::new() };
    let mut input = Vec::new();
    loop {
        let consumed = match decoder.advance(&input)? {
            Step::NeedMore => {
                let mut piece = [0; 16 * 1024];
                let count = read(&mut piece)?;
                if count == 0 {
                    anyhow::ensure!(decoder.end_of_input()?, "the connection was closed without an answer");
                    return Ok(answer);
                }
                input.extend_from_slice(&piece[..count]);
                0
            }
            Step::Interim { consumed } => consumed,
            Step::Head { consumed, head } => {
                answer.status = head.status;
                fields(&input[..consumed], |field| {
                    let value = String::from_utf8_lossy(field.value);
                    let known = answer.headers.entry(field.name.to_ascii_lowercase()).or_default();
                    *known = if known.is_empty() { value.into_owned() } else { format!("{known}, {value}") };
                })?;
                consumed
            }
            Step::Body { consumed, data } => {
                answer.body.extend_from_slice(&input[data]);
                consumed
            }
            Step::End { .. } => return Ok(answer),
        };
        input.drain(..consumed);
    }
}

/// The first difference that matters, in words.
pub fn difference(direct: &Answer, gateway: &Answer) -> Option<String> {
    if direct.status != gateway.status {
        return Some(format!("status {} instead of {}", gateway.status, direct.status));
    }
    let shown =
        |value: Option<&String>| value.map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"));
    let compared = direct.headers.keys().map(String::as_str).chain(["content-encoding"]);
    for name in compared.filter(|name| !HOP_BY_HOP.contains(name)) {
        let (there, here) = (direct.headers.get(name), gateway.headers.get(name));
        if there != here {
            return Some(format!("header `{name}` is {} instead of {}", shown(here), shown(there)));
        }
    }
    if direct.body != gateway.body {
        let at = direct.body.iter().zip(&gateway.body).take_while(|(a, b)| a == b).count();
        return Some(format!(
            "the body has {} bytes instead of {}, and differs from byte {at} on",
            gateway.body.len(),
            direct.body.len()
        ));
    }
    None
}

fn both(direct: &Answer, gateway: Option<&Answer>) -> String {
    let gateway = gateway.map_or_else(|| "no answer\n".to_owned(), show);
    format!("direct:\n{}gateway:\n{gateway}", show(direct))
}

/// An answer for people: indented, the body shortened.
fn show(answer: &Answer) -> String {
    let mut text = format!("  {}\n", answer.status);
    for (name, value) in &answer.headers {
        let _ = writeln!(text, "  {name}: {value}");
    }
    let shown = String::from_utf8_lossy(&answer.body[..answer.body.len().min(SHOWN)]).into_owned();
    for line in shown.lines() {
        let _ = writeln!(text, "  | {line}");
    }
    if answer.body.len() > SHOWN {
        let _ = writeln!(text, "  | … {} bytes in all", answer.body.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn request() -> TargetSpec {
        TargetSpec::only("GET", "/", vec![("host".into(), "echo.com".into())], vec![])
    }

    /// Answers connection after connection with `answers` in turn, then closes.
    fn serve(answers: &[&str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("told");
        let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
        std::thread::spawn(move || {
            for (stream, answer) in listener.incoming().zip(answers.iter().cycle()) {
                let mut stream = stream.expect("accepted");
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    const TIMEOUT: Duration = Duration::from_secs(20);
    const DIRECT: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-own: 1\r\ncontent-length: 5\r\n\r\nhello";

    fn against_direct(answer: &str) -> Result<(), Failure> {
        verify(serve(&[DIRECT]), serve(&[answer]), &request(), TIMEOUT)
    }

    #[test]
    fn what_a_hop_may_change_is_not_a_difference() {
        let chunked = "HTTP/1.1 200 OK\r\nServer: gateway\r\nVia: 1.1 gateway\r\nDate: today\r\nContent-Type: \
                       text/plain\r\nX-Own: 1\r\nx-added: yes\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        assert_eq!(against_direct(chunked), Ok(()));
        let until_close = "HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\nx-own: 1\r\n\r\nhello";
        assert_eq!(against_direct(until_close), Ok(()));
    }

    #[test]
    fn each_difference_is_told_with_both_answers() {
        let table = [
            (DIRECT.replace("200 OK", "404 Not Found"), "status 404 instead of 200"),
            (
                DIRECT.replace("text/plain", "text/html"),
                "header `content-type` is `text/html` instead of `text/plain`",
            ),
            (DIRECT.replace("x-own: 1\r\n", ""), "header `x-own` is nothing instead of `1`"),
            (
                DIRECT.replace("x-own: 1", "x-own: 1\r\ncontent-encoding: gzip"),
                "header `content-encoding` is `gzip` instead of nothing",
            ),
            (
                DIRECT.replace("5\r\n\r\nhello", "4\r\n\r\nhelp"),
                "the body has 4 bytes instead of 5, and differs from byte 3 on",
            ),
        ];
        for (answer, difference) in table {
            let failure = against_direct(&answer).expect_err("they differ");
            assert_eq!(failure.stage, Stage::Verify);
            assert_eq!(failure.message, format!("it answers otherwise than direct: {difference}"));
            let (direct, gateway) = failure.detail.split_once("gateway:\n").expect("both");
            assert!(direct.starts_with("direct:\n  200\n  content-length: 5\n"), "{}", failure.detail);
            assert!(gateway.contains("  | hel"), "{}", failure.detail);
        }
    }

    #[test]
    fn no_answer_and_half_an_answer_are_failures() {
        let failure = against_direct("").expect_err("it closes");
        assert_eq!(failure.message, "it gave no answer: the connection ended before the message did");
        assert!(failure.detail.ends_with("gateway:\nno answer\n"), "{}", failure.detail);
        let failure = against_direct(&DIRECT.replace("hello", "he")).expect_err("cut short");
        assert!(failure.message.starts_with("it gave no answer: "), "{failure:?}");
    }

    #[test]
    fn silence_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let silent = listener.local_addr().expect("told");
        let error = ask(silent, &request(), Duration::from_millis(50)).expect_err("nothing comes");
        assert_eq!(error.to_string(), "no whole answer within 50ms");
    }

    #[test]
    fn an_upstream_that_sometimes_fails_is_given_further_chances() {
        let failing = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(verify(serve(&[DIRECT]), serve(&[failing, DIRECT]), &request(), TIMEOUT), Ok(()));
    }
}
