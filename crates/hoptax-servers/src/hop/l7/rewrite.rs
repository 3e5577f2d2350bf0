//! Rewrites heads: `hop-l7` changes only the fields that apply to a single connection.

use crate::hop::forward::Asked;
use hoptax_wire::http1::{
    Field, Framing, Malformed, RequestHead, ResponseHead, Version, fields, has_token, start_line_length,
};
use hoptax_wire::websocket::EXTENSIONS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// The body is sent unchanged. Its length is known, or it ends with the connection.
    Raw,
    /// The body is sent in chunks.
    Chunks,
}

impl Coding {
    pub(super) fn write(self, out: &mut Vec<u8>, data: &[u8]) {
        match self {
            // An empty chunk would end the body.
            _ if data.is_empty() => {}
            Coding::Raw => out.extend_from_slice(data),
            Coding::Chunks => {
                hoptax_wire::http1::chunk_size_line(out, data.len());
                out.extend_from_slice(data);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    pub(super) fn end(self, out: &mut Vec<u8>) {
        if self == Coding::Chunks {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// Appends the head for the upstream. `host` is used if an HTTP/1.0 client sent no host.
pub(super) fn request(
    out: &mut Vec<u8>,
    raw: &[u8],
    head: &RequestHead,
    host: &str,
) -> Result<Coding, Malformed> {
    request_line(out, raw, head, &[&raw[head.target.clone()]]);
    let has_host = end_to_end(out, raw, Host::Keep)?;
    if !has_host {
        write(out, Field { name: "host", value: host.as_bytes() });
    }
    Ok(end_request(out, head))
}

/// Appends the head for the upstream of a request with the whole URL. The host of the URL replaces that of
/// the header (RFC 9112 §3.2.2).
pub(super) fn request_for(
    out: &mut Vec<u8>,
    raw: &[u8],
    head: &RequestHead,
    asked: &Asked<'_>,
) -> Result<Coding, Malformed> {
    let slash: &[u8] = match (asked.path.first(), &raw[head.method.clone()]) {
        (Some(b'/'), _) => b"",
        (None, b"OPTIONS") => b"*",
        _ => b"/",
    };
    request_line(out, raw, head, &[slash, asked.path]);
    write(out, Field { name: "host", value: asked.authority });
    end_to_end(out, raw, Host::Drop)?;
    Ok(end_request(out, head))
}

/// Appends the head of a WebSocket's handshake for the upstream. `host` is used if the client sent no host.
pub(super) fn handshake(
    out: &mut Vec<u8>,
    raw: &[u8],
    head: &RequestHead,
    host: &str,
    has_extensions: bool,
) -> Result<(), Malformed> {
    request_line(out, raw, head, &[&raw[head.target.clone()]]);
    let mut has_host = false;
    fields(raw, |field| {
        has_host |= field.name.eq_ignore_ascii_case("host");
        let is_dropped = !has_extensions && field.name.eq_ignore_ascii_case(EXTENSIONS);
        if !is_dropped && !of_one_connection(field.name) {
            write(out, field);
        }
    })?;
    if !has_host {
        write(out, Field { name: "host", value: host.as_bytes() });
    }
    out.extend_from_slice(b"connection: Upgrade\r\nupgrade: websocket\r\n\r\n");
    Ok(())
}

fn request_line(out: &mut Vec<u8>, raw: &[u8], head: &RequestHead, target: &[&[u8]]) {
    out.extend_from_slice(&raw[head.method.clone()]);
    out.push(b' ');
    target.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

fn end_request(out: &mut Vec<u8>, head: &RequestHead) -> Coding {
    let coding = frame(out, head.framing);
    out.extend_from_slice(b"\r\n");
    coding
}

/// What happens to the header `host`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Keep,
    Drop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) version: Version,
    pub(super) keep_alive: bool,
}

impl Client {
    /// True if the client's connection stays open after a response with this framing.
    pub(super) fn stays(self, framing: Framing) -> bool {
        let unframed = matches!(framing, Framing::Chunked | Framing::UntilClose);
        self.keep_alive && !(unframed && self.version == Version::Http10)
    }
}

/// Appends the head for the client, in HTTP/1.1.
pub(super) fn response(
    out: &mut Vec<u8>,
    raw: &[u8],
    head: &ResponseHead,
    client: Client,
) -> Result<Coding, Malformed> {
    status_line(out, raw)?;
    end_to_end(out, raw, Host::Keep)?;
    let coding = match (head.framing, client.version) {
        // HTTP/1.0 has no chunks; the end of the connection ends the body.
        (Framing::Chunked | Framing::UntilClose, Version::Http10) => Coding::Raw,
        (Framing::UntilClose, Version::Http11) => frame(out, Framing::Chunked),
        // There is no body (HEAD, 304). The length in the head describes the body that a GET would return, so
        // it is kept.
        (Framing::None, _) => {
            let mut length = None;
            fields(raw, |field| {
                if field.name.eq_ignore_ascii_case("content-length") {
                    length = Some(field.value.to_vec());
                }
            })?;
            if let Some(value) = length.filter(|_| head.status != 204) {
                write(out, Field { name: "content-length", value: &value });
            }
            Coding::Raw
        }
        (framing, _) => frame(out, framing),
    };
    match (client.stays(head.framing), client.version) {
        (true, Version::Http11) => {}
        (true, Version::Http10) => out.extend_from_slice(b"connection: keep-alive\r\n"),
        (false, _) => out.extend_from_slice(b"connection: close\r\n"),
    }
    out.extend_from_slice(b"\r\n");
    Ok(coding)
}

/// Appends an interim (1xx) head.
pub(super) fn interim(out: &mut Vec<u8>, raw: &[u8]) -> Result<(), Malformed> {
    status_line(out, raw)?;
    end_to_end(out, raw, Host::Keep)?;
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn status_line(out: &mut Vec<u8>, raw: &[u8]) -> Result<(), Malformed> {
    let line = raw[..start_line_length(raw).ok_or(Malformed::CutShort)?].trim_ascii();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(line["HTTP/1.x".len().min(line.len())..].trim_ascii_start());
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends all fields except hop-by-hop fields (RFC 9110 §7.6.1) and framing fields, which are written
/// separately. Returns true if the head has a host field.
fn end_to_end(out: &mut Vec<u8>, raw: &[u8], keep: Host) -> Result<bool, Malformed> {
    let mut named = Vec::new();
    fields(raw, |field| {
        if field.name.eq_ignore_ascii_case("connection") {
            named.push(field.value);
        }
    })?;
    let mut host = false;
    fields(raw, |field| {
        let is_host = field.name.eq_ignore_ascii_case("host");
        // Leave out hop-by-hop fields and fields listed in `connection`. Always keep the host, because it
        // routes the request.
        let ends_here = of_one_connection(field.name)
            || (is_host && keep == Host::Drop)
            || (!is_host && named.iter().any(|list| has_token(list, field.name)));
        if !ends_here {
            write(out, field);
        }
        host |= is_host;
    })?;
    Ok(host)
}

fn of_one_connection(name: &str) -> bool {
    const NAMES: [&str; 7] =
        ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length"];
    NAMES.iter().any(|own| name.eq_ignore_ascii_case(own))
        || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("proxy-"))
}

fn write(out: &mut Vec<u8>, field: Field<'_>) {
    for part in [field.name.as_bytes(), b": ", &field.unfolded(), b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn frame(out: &mut Vec<u8>, framing: Framing) -> Coding {
    match framing {
        Framing::Length(length) => {
            out.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
            Coding::Raw
        }
        Framing::Chunked => {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
            Coding::Chunks
        }
        Framing::None | Framing::UntilClose => Coding::Raw,
    }
}

/// Caches the last rewritten head, because usually the same head arrives again. Also stores the kind of
/// recipient for which the head was rewritten.
#[derive(Debug)]
pub(super) struct Last<K> {
    raw: Vec<u8>,
    rewritten: Option<(K, Vec<u8>, Coding)>,
}

impl<K> Default for Last<K> {
    fn default() -> Self {
        Self { raw: Vec::new(), rewritten: None }
    }
}

impl<K: PartialEq> Last<K> {
    /// Appends the head `raw`, rewritten for `kind`. Takes the rewritten head from the cache if possible, and
    /// otherwise calls `rewrite`.
    pub(super) fn or_rewrite<E>(
        &mut self,
        out: &mut Vec<u8>,
        raw: &[u8],
        kind: K,
        rewrite: impl FnOnce(&mut Vec<u8>) -> Result<Coding, E>,
    ) -> Result<Coding, E> {
        if let Some((last, rewritten, coding)) = &self.rewritten
            && *last == kind
            && self.raw == raw
        {
            out.extend_from_slice(rewritten);
            return Ok(*coding);
        }
        let start = out.len();
        let coding = rewrite(out)?;
        self.raw.clear();
        self.raw.extend_from_slice(raw);
        self.rewritten = Some((kind, out[start..].to_vec(), coding));
        Ok(coding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_wire::http1::{RequestDecoder, RequestStep, ResponseDecoder, Step};

    fn request_of(raw: &str) -> (String, Coding) {
        let Ok(RequestStep::Head { head, .. }) = RequestDecoder::new().advance(raw.as_bytes()) else {
            panic!("a head: {raw}")
        };
        let mut out = Vec::new();
        let coding = request(&mut out, raw.as_bytes(), &head, "up:1").expect("well-formed");
        (String::from_utf8(out).expect("text"), coding)
    }

    fn response_of(raw: &str, to_head: bool, version: Version, keep_alive: bool) -> (String, Coding) {
        let mut decoder = ResponseDecoder::new();
        decoder.begin(to_head);
        let Ok(Step::Head { head, .. }) = decoder.advance(raw.as_bytes()) else { panic!("a head: {raw}") };
        let mut out = Vec::new();
        let client = Client { version, keep_alive };
        let coding = response(&mut out, raw.as_bytes(), &head, client).expect("well-formed");
        (String::from_utf8(out).expect("text"), coding)
    }

    #[test]
    fn passes_on_end_to_end_fields() {
        let (text, coding) = request_of(
            "GET /a HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nConnection: keep-alive, X-Mine, host\r\nx-mine: \
             1\r\n\
             Keep-Alive: 5\r\nProxy-Connection: y\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Other: 2\r\n\r\n",
        );
        assert_eq!(text, "GET /a HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nX-Other: 2\r\n\r\n");
        assert_eq!(coding, Coding::Raw);
    }

    #[test]
    fn requests_with_the_whole_url_get_its_host_and_path() {
        for (method, path, target) in
            [("GET", "/a?b", "/a?b"), ("GET", "", "/"), ("GET", "?b", "/?b"), ("OPTIONS", "", "*")]
        {
            let raw = format!(
                "{method} http://A.test{path} HTTP/1.1\r\nHost: b.test\r\nX: y\r\nProxy-Authorization: z\r\n\r\n"
            );
            let Ok(RequestStep::Head { head, .. }) = RequestDecoder::new().advance(raw.as_bytes()) else {
                panic!("a head: {raw}")
            };
            let asked = Asked { authority: b"A.test", path: path.as_bytes() };
            let mut out = Vec::new();
            request_for(&mut out, raw.as_bytes(), &head, &asked).expect("well-formed");
            let expected = format!("{method} {target} HTTP/1.1\r\nhost: A.test\r\nX: y\r\n\r\n");
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }

    #[test]
    fn writes_the_framing_of_requests() {
        let (text, coding) =
            request_of("POST / HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: Chunked\r\nTrailer: a\r\n\r\n");
        assert_eq!(text, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        assert_eq!(coding, Coding::Chunks);
        let (text, _) = request_of("POST / HTTP/1.0\r\ncontent-length: 3, 3\r\n\r\n");
        assert_eq!(text, "POST / HTTP/1.1\r\nhost: up:1\r\ncontent-length: 3\r\n\r\n");
    }

    #[test]
    fn writes_the_framing_that_the_client_supports() {
        use Version::{Http10, Http11};
        let chunked = "HTTP/1.1 200 Fine\r\na: b\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
        let until_close = "HTTP/1.0 200 Fine\r\na: b\r\n\r\n";
        let counted = "HTTP/1.0 200 Fine\r\na: b\r\ncontent-length: 3\r\n\r\n";
        let head = |rest: &str| format!("HTTP/1.1 200 Fine\r\na: b\r\n{rest}\r\n");
        let table = [
            (chunked, false, Http11, true, "transfer-encoding: chunked\r\n", Coding::Chunks),
            (
                chunked,
                false,
                Http11,
                false,
                "transfer-encoding: chunked\r\nconnection: close\r\n",
                Coding::Chunks,
            ),
            (chunked, false, Http10, true, "connection: close\r\n", Coding::Raw),
            (until_close, false, Http11, true, "transfer-encoding: chunked\r\n", Coding::Chunks),
            (until_close, false, Http10, true, "connection: close\r\n", Coding::Raw),
            (counted, false, Http11, true, "content-length: 3\r\n", Coding::Raw),
            (counted, false, Http10, true, "content-length: 3\r\nconnection: keep-alive\r\n", Coding::Raw),
            (counted, true, Http11, true, "content-length: 3\r\n", Coding::Raw),
            (chunked, true, Http11, true, "", Coding::Raw),
        ];
        for (raw, to_head, version, keep_alive, rest, coding) in table {
            assert_eq!(response_of(raw, to_head, version, keep_alive), (head(rest), coding), "{raw}");
        }
    }

    #[test]
    fn caches_only_identical_heads() {
        let mut last = Last::default();
        let mut make = |raw: &[u8], kind: u8, made: &str| {
            let mut out = b"before ".to_vec();
            last.or_rewrite(&mut out, raw, kind, |out| {
                out.extend_from_slice(made.as_bytes());
                Ok::<_, Malformed>(Coding::Raw)
            })
            .expect("well-formed");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(make(b"a", 1, "first"), "before first");
        assert_eq!(make(b"a", 1, "unused"), "before first");
        assert_eq!(make(b"a", 2, "second"), "before second");
        assert_eq!(make(b"b", 2, "third"), "before third");
    }
}
