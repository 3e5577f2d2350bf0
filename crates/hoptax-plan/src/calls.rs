//! Kinds of gRPC calls, and limits of messages, for plans and for `hoptax load`.

use crate::units::{UnitError, show_size};
use hoptax_format::messages::{Stamp, StreamKind};

/// Number of messages of a stream, if nothing else is said.
pub const USUAL_MESSAGES: u32 = 10;
/// Maximum number of messages of a stream. Instead of an endless stream, a load can send several calls of
/// this length.
pub const MOST_MESSAGES: u32 = 1_000_000;
/// Maximum length of a message of a stream, with its stamp, bytes. By default, gRPC's servers and clients
/// refuse longer messages. Events and messages of WebSockets have the same limit.
pub const LONGEST_MESSAGE: u64 = 4 << 20;

/// The kinds of calls. `None` is a unary call.
const KINDS: [Option<StreamKind>; 4] =
    [None, Some(StreamKind::ServerStream), Some(StreamKind::ClientStream), Some(StreamKind::BothWays)];

/// Name of a kind of call. `None` is a unary call.
pub fn kind_name(kind: Option<StreamKind>) -> &'static str {
    kind.map_or("unary", StreamKind::name)
}

/// The kind of call with this name. `None` is a unary call.
///
/// # Errors
/// If there is no such kind. The help lists them.
pub fn kind(name: &str) -> Result<Option<StreamKind>, UnitError> {
    let known = KINDS.into_iter().find(|known| kind_name(*known) == name);
    known.ok_or_else(|| {
        let names = KINDS.map(kind_name).join(", ");
        UnitError::new(format!("`{name}` is not a kind of call"), format!("use one of {names}"))
    })
}

/// Checks the length of a message of a gRPC stream, bytes. A filler contains the stamp; other content follows
/// it.
///
/// # Errors
/// If the message has no room for its stamp, or is too long.
pub fn check_message(content: u64, is_filler: bool) -> Result<(), UnitError> {
    check(content, is_filler, ", as gRPC accepts by default")
}

/// As [`check_message`], for a message of a WebSocket.
///
/// # Errors
/// If the message has no room for its stamp, or is too long.
pub fn check_websocket_message(content: u64, is_filler: bool) -> Result<(), UnitError> {
    check(content, is_filler, "")
}

/// Checks the length of a message. `reason` is the reason of the limit, for the help.
fn check(content: u64, is_filler: bool, reason: &str) -> Result<(), UnitError> {
    let stamp = Stamp::LENGTH as u64;
    if is_filler && content < stamp {
        return Err(UnitError::new(
            format!("a message of {content}B has no room for its number and its time"),
            format!("use at least {stamp}B in a stream"),
        ));
    }
    let length = if is_filler { content } else { content.saturating_add(stamp) };
    if length > LONGEST_MESSAGE {
        return Err(UnitError::new(
            format!("a message of a stream has {length} bytes with its number and its time"),
            format!("use at most {}{reason}", show_size(LONGEST_MESSAGE)),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name() {
        for expected in KINDS {
            assert_eq!(kind(kind_name(expected)), Ok(expected));
        }
        insta::assert_snapshot!(kind("bidi").expect_err("another name"));
    }

    #[test]
    fn messages_of_streams_have_room_for_stamps() {
        assert_eq!(check_message(19, true), Ok(()));
        assert_eq!((check_message(0, false), check_message(LONGEST_MESSAGE, true)), (Ok(()), Ok(())));
        let wrong = [check_message(18, true), check_message(LONGEST_MESSAGE, false)];
        insta::assert_snapshot!(wrong.map(|result| result.expect_err("refused").to_string()).join("\n"));
    }
}
