//! Why a connection or a stream cannot continue, and the error codes that peers exchange.

use std::fmt;

/// An error code of RST_STREAM and GOAWAY frames (RFC 9113, section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// The stream or connection ends without an error.
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// The sender of the code failed.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer sent more data than a window allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// The peer did not acknowledge the settings in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// The peer sent a frame on a stream that it had ended.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame has the wrong length.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The server has not processed the request, so the client can send it again.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// The decoder of header blocks cannot continue.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection that a CONNECT request opened has failed.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes too much load.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The connection is not secure enough.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// The name of the code in RFC 9113, or `None` if the code is unknown.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => to.write_str(name),
            None => write!(to, "error code {:#x}", self.0),
        }
    }
}

macro_rules! faults {
    ($($name:ident: $code:ident, $rfc:literal, $section:literal, $text:literal;)*) => {
        /// What is wrong with the bytes that a peer sent. Most faults end the connection. A fault in
        /// [`Step::Failed`](super::Step::Failed) ends only one stream.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fault {
            $(#[doc = concat!("RFC ", $rfc, ", section ", $section, ": ", $text, ".")] $name,)*
        }

        impl Fault {
            /// All faults.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code that the peer receives.
            pub fn code(self) -> Code {
                match self { $(Self::$name => Code::$code),* }
            }

            /// The RFC and the section that the peer violated, for example `RFC 9113, section 6.7`.
            pub fn section(self) -> &'static str {
                match self { $(Self::$name => concat!("RFC ", $rfc, ", section ", $section)),* }
            }

            fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

faults! {
    // Connections.
    Http1Answer: PROTOCOL_ERROR, "9113", "3.4", "the server answered with HTTP/1, so it does not speak HTTP/2 here";
    Preface: PROTOCOL_ERROR, "9113", "3.4", "the connection does not begin with the preface of HTTP/2";
    FirstFrame: PROTOCOL_ERROR, "9113", "3.4", "the first frame is not SETTINGS";
    FrameTooLong: FRAME_SIZE_ERROR, "9113", "4.2", "a frame is longer than 16,384 bytes";
    BlockInterrupted: PROTOCOL_ERROR, "9113", "4.3", "a frame interrupts a header block";
    StrayContinuation: PROTOCOL_ERROR, "9113", "6.10", "a CONTINUATION frame continues no header block";
    StreamZero: PROTOCOL_ERROR, "9113", "5.1.1", "a frame that belongs to a stream has stream number 0";
    NotStreamZero: PROTOCOL_ERROR, "9113", "5.1.1", "a SETTINGS, PING or GOAWAY frame has a stream number";
    WrongStream: PROTOCOL_ERROR, "9113", "5.1.1", "a new stream has an even number, or one that was skipped before";
    IdleStream: PROTOCOL_ERROR, "9113", "5.1", "a frame has the number of a stream that does not exist yet";
    ClosedStream: STREAM_CLOSED, "9113", "5.1", "a HEADERS or DATA frame belongs to a stream that has ended";
    Padding: PROTOCOL_ERROR, "9113", "6.1", "the padding is as long as the frame, or longer";
    HeadersLength: FRAME_SIZE_ERROR, "9113", "6.2", "a HEADERS frame is shorter than its priority fields";
    DataLength: FRAME_SIZE_ERROR, "9113", "6.1", "a padded frame has no byte for the length of the padding";
    PriorityLength: FRAME_SIZE_ERROR, "9113", "6.3", "a PRIORITY frame is not 5 bytes long";
    ResetLength: FRAME_SIZE_ERROR, "9113", "6.4", "an RST_STREAM frame is not 4 bytes long";
    SettingsLength: FRAME_SIZE_ERROR, "9113", "6.5", "the length of a SETTINGS frame is not a multiple of 6, or not 0 in an acknowledgement";
    SettingsPush: PROTOCOL_ERROR, "9113", "6.5.2", "SETTINGS_ENABLE_PUSH is not 0 or 1, or a server sent 1";
    SettingsWindow: FLOW_CONTROL_ERROR, "9113", "6.5.2", "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31-1";
    SettingsFrameSize: PROTOCOL_ERROR, "9113", "6.5.2", "SETTINGS_MAX_FRAME_SIZE is not between 16,384 and 2^24-1";
    SettingsConnect: PROTOCOL_ERROR, "8441", "3", "SETTINGS_ENABLE_CONNECT_PROTOCOL is not 0 or 1";
    Push: PROTOCOL_ERROR, "9113", "8.4", "the peer sent PUSH_PROMISE, which is not allowed here";
    PingLength: FRAME_SIZE_ERROR, "9113", "6.7", "a PING frame is not 8 bytes long";
    GoAwayLength: FRAME_SIZE_ERROR, "9113", "6.8", "a GOAWAY frame is shorter than 8 bytes";
    WindowUpdateLength: FRAME_SIZE_ERROR, "9113", "6.9", "a WINDOW_UPDATE frame is not 4 bytes long";
    ConnectionWindowZero: PROTOCOL_ERROR, "9113", "6.9", "a WINDOW_UPDATE frame of the connection adds 0";
    ConnectionWindowOverflow: FLOW_CONTROL_ERROR, "9113", "6.9.1", "the window of the connection grows beyond 2^31-1";
    SettingsWindowOverflow: FLOW_CONTROL_ERROR, "9113", "6.9.2", "a new SETTINGS_INITIAL_WINDOW_SIZE makes the window of a stream grow beyond 2^31-1";
    ConnectionWindowExceeded: FLOW_CONTROL_ERROR, "9113", "6.9.1", "the peer sent more data than the window of the connection allows";
    // Header blocks.
    BlockTooLong: ENHANCE_YOUR_CALM, "9113", "10.5.1", "a header block is longer than the limit";
    IntegerTruncated: COMPRESSION_ERROR, "7541", "5.1", "the header block ends within an integer";
    IntegerOverflow: COMPRESSION_ERROR, "7541", "5.1", "an integer in a header block is 2^32 or more";
    StringTruncated: COMPRESSION_ERROR, "7541", "5.2", "the header block ends within a string";
    HuffmanPadding: COMPRESSION_ERROR, "7541", "5.2", "the padding of a Huffman-coded string is wrong";
    HuffmanEndOfString: COMPRESSION_ERROR, "7541", "5.2", "a Huffman-coded string contains the end-of-string symbol";
    Index: COMPRESSION_ERROR, "7541", "2.3.3", "a header block refers to a table entry that does not exist";
    TableSize: COMPRESSION_ERROR, "7541", "6.3", "a header block sets the size of the dynamic table above the limit";
    TableSizeLate: COMPRESSION_ERROR, "7541", "4.2", "a change of the dynamic table's size is not at the start of a header block";
    TableSizeMissing: COMPRESSION_ERROR, "7541", "4.2", "the peer did not reduce its dynamic table after SETTINGS required this";
    // Floods. They end the connection.
    SettingsFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of SETTINGS frames";
    PingFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of PING frames";
    ResetFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of RST_STREAM frames";
    ContinuationFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of CONTINUATION frames in one header block";
    EmptyDataFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of empty DATA frames";
    LateDataFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of DATA frames on streams that were reset";
    WindowUpdateFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of WINDOW_UPDATE frames";
    PriorityFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of PRIORITY frames";
    HeadersFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of interim responses, refused requests or late HEADERS frames";
    GoAwayFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of GOAWAY frames";
    UnknownFlood: ENHANCE_YOUR_CALM, "9113", "10.5", "flood of frames of unknown types";
    // Streams.
    StreamWindowZero: PROTOCOL_ERROR, "9113", "6.9", "a WINDOW_UPDATE frame of a stream adds 0";
    StreamWindowOverflow: FLOW_CONTROL_ERROR, "9113", "6.9.1", "the window of a stream grows beyond 2^31-1";
    StreamWindowExceeded: FLOW_CONTROL_ERROR, "9113", "6.9.1", "the peer sent more data than the window of the stream allows";
    EndedStream: STREAM_CLOSED, "9113", "5.1", "the peer sent more after it had ended the stream";
    DataBeforeHead: PROTOCOL_ERROR, "9113", "8.1", "the body precedes the head";
    TrailersWithoutEnd: PROTOCOL_ERROR, "9113", "8.1", "trailers do not end the stream";
    InterimWithEnd: PROTOCOL_ERROR, "9113", "8.1", "an interim response (1xx) ends the stream";
    SectionTooLong: ENHANCE_YOUR_CALM, "9113", "10.5.1", "the header fields are longer than the limit";
    BodyTooLong: PROTOCOL_ERROR, "9113", "8.1.1", "the body is longer than the content-length, or there must be no body";
    BodyTooShort: PROTOCOL_ERROR, "9113", "8.1.1", "the body is shorter than the content-length";
    ContentLength: PROTOCOL_ERROR, "9113", "8.1.1", "the content-length is not a plain decimal number, or there are different ones";
    FieldName: PROTOCOL_ERROR, "9113", "8.2.1", "a header's name has an upper-case letter or another invalid character";
    FieldValue: PROTOCOL_ERROR, "9113", "8.2.1", "a header's value has NUL, CR or LF, or in a request a space at its beginning or end";
    ConnectionField: PROTOCOL_ERROR, "9113", "8.2.2", "a header such as connection, transfer-encoding or upgrade is not allowed in HTTP/2";
    PseudoField: PROTOCOL_ERROR, "9113", "8.3", "a pseudo-header is unknown, repeated, in trailers, or after other headers";
    RequestFields: PROTOCOL_ERROR, "9113", "8.3.1", "a request lacks a valid :method, :scheme or :path";
    ConnectFields: PROTOCOL_ERROR, "9113", "8.5", "the pseudo-headers of a CONNECT request are wrong";
    Status: PROTOCOL_ERROR, "9113", "8.3.2", "a response lacks a valid :status";
    SwitchingProtocols: PROTOCOL_ERROR, "9113", "8.6", "the status is 101, which HTTP/2 does not have";
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({})", self.text(), self.section())
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_says_which_rule_was_violated() {
        let mut seen = std::collections::HashSet::new();
        for fault in Fault::ALL {
            let text = fault.to_string();
            assert!(text.ends_with(&format!("({})", fault.section())), "{text}");
            assert!(fault.code() != Code::NO_ERROR && fault.code().name().is_some(), "{text}");
            assert!(seen.insert(text.clone()), "{text}");
        }
        let text = "a PING frame is not 8 bytes long (RFC 9113, section 6.7)";
        assert_eq!(Fault::PingLength.to_string(), text);
    }

    #[test]
    fn codes_have_names() {
        assert_eq!(Code::HTTP_1_1_REQUIRED.to_string(), "HTTP_1_1_REQUIRED");
        assert_eq!(Code::ENHANCE_YOUR_CALM.to_string(), "ENHANCE_YOUR_CALM");
        assert_eq!(Code(0xbeef).to_string(), "error code 0xbeef");
    }
}
