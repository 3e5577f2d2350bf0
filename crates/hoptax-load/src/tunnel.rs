//! Tunnels through a forward proxy: the request CONNECT, and its answer (RFC 9110, section 9.3.6).

use hoptax_format::field::is_field_value;
use hoptax_format::spec::Tunnel;
use hoptax_wire::http1::{ResponseDecoder, Step};

/// The answer to CONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelAnswer {
    /// The answer is incomplete.
    More,
    /// The tunnel is open.
    Open,
    /// There is no tunnel. The text says why.
    Refused(String),
}

/// The request that opens the tunnel.
pub fn request(tunnel: &Tunnel) -> Vec<u8> {
    let Tunnel { authority, authorization, .. } = tunnel;
    let credentials = authorization.as_ref().map(|value| format!("proxy-authorization: {value}\r\n"));
    let credentials = credentials.unwrap_or_default();
    format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n{credentials}\r\n").into_bytes()
}

/// Checks that the request is valid.
///
/// # Errors
/// If a part cannot be sent. The text names the part.
pub fn check(tunnel: &Tunnel) -> Result<(), String> {
    let is_authority =
        tunnel.authority.contains(':') && tunnel.authority.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_authority {
        return Err(format!("tunnel.authority: {:?} is not HOST:PORT", tunnel.authority));
    }
    match &tunnel.authorization {
        Some(value) if !is_field_value(value) => {
            Err("tunnel.authorization contains a control character".to_owned())
        }
        _ => Ok(()),
    }
}

/// Reads the answer from all bytes that have arrived.
pub fn answer(input: &[u8]) -> TunnelAnswer {
    let mut decoder = ResponseDecoder::new();
    // Like the answer to HEAD, this answer has no body.
    decoder.begin(true);
    let mut at = 0;
    loop {
        match decoder.advance(&input[at..]) {
            Ok(Step::NeedMore) => return TunnelAnswer::More,
            Ok(Step::Interim { consumed }) => at += consumed,
            Ok(Step::Head { consumed, head }) if (200..300).contains(&head.status) => {
                return match input.len() > at + consumed {
                    true => refused("the proxy sent data before the first request"),
                    false => TunnelAnswer::Open,
                };
            }
            Ok(Step::Head { head, .. }) => return refused(&refusal(head.status)),
            Ok(_) => return refused("the proxy's answer has no head"),
            Err(malformed) => {
                let why = malformed.describe(&input[at..]);
                return refused(&format!("the proxy's answer is malformed: {why}"));
            }
        }
    }
}

fn refused(why: &str) -> TunnelAnswer {
    TunnelAnswer::Refused(format!("CONNECT: {why}"))
}

fn refusal(status: u16) -> String {
    let why = match status {
        407 => ": it requires other credentials",
        403 => ": it forbids this host or port",
        502..=504 => ": it cannot reach the host",
        400 | 404 | 405 | 501 => ": it may not be a forward proxy",
        _ => "",
    };
    format!("the proxy refused with status {status}{why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answer: TunnelAnswer) -> String {
        match answer {
            TunnelAnswer::Refused(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_request_has_credentials_that_are_not_shown() {
        let tunnel = Tunnel {
            authority: "a.test:443".into(),
            authorization: Some("Basic c2VjcmV0".into()),
            tls: None,
        };
        let sent = String::from_utf8(request(&tunnel)).expect("text");
        assert_eq!(
            sent,
            "CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\nproxy-authorization: Basic c2VjcmV0\r\n\r\n"
        );
        assert!(!format!("{tunnel:?}").contains("c2VjcmV0"));
        assert_eq!(check(&tunnel), Ok(()));
        let space = Tunnel { authority: "a b:1".into(), ..tunnel.clone() };
        let line_end = Tunnel { authorization: Some("a\r\nb".into()), ..tunnel };
        let told = [space, line_end].map(|wrong| check(&wrong).expect_err("refused"));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn an_answer_is_read_in_any_pieces() {
        let open =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 Connection established\r\nproxy-agent: x\r\n\r\n";
        for length in 0..open.len() {
            assert_eq!(answer(&open[..length]), TunnelAnswer::More, "{length} bytes");
        }
        assert_eq!(answer(open), TunnelAnswer::Open);
        // A successful answer has no body, whatever its headers say (RFC 9110, section 9.3.6).
        let with_length = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        assert_eq!(answer(with_length), TunnelAnswer::Open);
    }

    #[test]
    fn a_refusal_names_its_status() {
        let refusal = |status: u16| format!("HTTP/1.1 {status} No\r\ncontent-length: 100\r\n\r\nwhy");
        let others = ["SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nSSH"].map(str::to_owned);
        let answers = [407, 403, 502, 405].map(refusal).into_iter().chain(others);
        let told: Vec<String> = answers.map(|input| text(answer(input.as_bytes()))).collect();
        insta::assert_snapshot!(told.join("\n"));
    }
}
