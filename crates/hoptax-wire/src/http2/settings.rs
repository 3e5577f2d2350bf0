//! SETTINGS frames (RFC 9113, section 6.5): our settings and the peer's.

use super::Fault;
use super::frame::{self, kind};

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;

/// The initial window of each stream and of the connection.
pub(super) const DEFAULT_WINDOW: u32 = 65_535;
/// The initial size of the dynamic table.
pub(super) const DEFAULT_TABLE: u32 = 4096;
/// The largest window.
pub(super) const MAX_WINDOW: u32 = 0x7fff_ffff;

/// Which side of the connection we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We send requests.
    Client,
    /// We answer requests.
    Server,
}

/// Who returns window space to the peer after data was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The connection, as soon as it has returned the data.
    AtOnce,
    /// The caller, with [`Connection::release`](super::Connection::release), for example when the data has
    /// been forwarded.
    ByCaller,
}

/// Our settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Client: maximum number of requests in flight. The server's limit can be lower. Server: the limit that
    /// we announce to clients.
    pub streams: u32,
    /// Window for the data that each stream receives, in bytes: at most 2^31-1.
    pub window: u32,
    /// Window for the data that the connection receives, in bytes: 65,535 to 2^31-1.
    pub connection_window: u32,
    /// Size of the dynamic table for received header blocks.
    pub header_table: u32,
    /// Maximum size of received header fields, as RFC 9113, section 6.5.2, counts it. Also the maximum length
    /// of a block.
    pub max_fields: u32,
    /// Who gives windows back.
    pub release: Release,
    /// Server: whether clients may use the extended CONNECT method (RFC 8441).
    pub connect_protocol: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            streams: 100,
            window: 1 << 20,
            connection_window: 1 << 24,
            header_table: DEFAULT_TABLE,
            max_fields: 64 * 1024,
            release: Release::AtOnce,
            connect_protocol: false,
        }
    }
}

/// What a peer has announced. Before its first SETTINGS frame, these are the initial values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Size of the dynamic table of the peer's decoder.
    pub header_table_size: u32,
    /// Maximum number of streams that the peer accepts at a time. `None` if the peer has set no limit.
    pub max_concurrent_streams: Option<u32>,
    /// Initial window of the streams on which the peer receives data.
    pub initial_window_size: u32,
    /// Maximum length of a frame that the peer accepts.
    pub max_frame_size: u32,
    /// Maximum size of header fields that the peer accepts. `None` if the peer has set no limit.
    pub max_header_list_size: Option<u32>,
    /// True if the peer accepts the extended CONNECT method (RFC 8441).
    pub connect_protocol: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            header_table_size: DEFAULT_TABLE,
            max_concurrent_streams: None,
            initial_window_size: DEFAULT_WINDOW,
            max_frame_size: frame::MAX_PAYLOAD as u32,
            max_header_list_size: None,
            connect_protocol: false,
        }
    }
}

impl Settings {
    /// Applies the payload of a SETTINGS frame, in order. Unknown settings are ignored.
    ///
    /// # Errors
    /// If a value is not allowed. `from` is the role of the sender.
    pub(super) fn apply(&mut self, payload: &[u8], from: Role) -> Result<(), Fault> {
        for entry in payload.chunks_exact(6) {
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            match u16::from_be_bytes([entry[0], entry[1]]) {
                HEADER_TABLE_SIZE => self.header_table_size = value,
                ENABLE_PUSH if value > 1 || (value == 1 && from == Role::Server) => {
                    return Err(Fault::SettingsPush);
                }
                MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = Some(value),
                INITIAL_WINDOW_SIZE if value > MAX_WINDOW => return Err(Fault::SettingsWindow),
                INITIAL_WINDOW_SIZE => self.initial_window_size = value,
                MAX_FRAME_SIZE if !(16_384..1 << 24).contains(&value) => {
                    return Err(Fault::SettingsFrameSize);
                }
                MAX_FRAME_SIZE => self.max_frame_size = value,
                MAX_HEADER_LIST_SIZE => self.max_header_list_size = Some(value),
                ENABLE_CONNECT_PROTOCOL if value > 1 => return Err(Fault::SettingsConnect),
                ENABLE_CONNECT_PROTOCOL => self.connect_protocol = value == 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends the SETTINGS frame of our side. Settings with their initial value are left out.
pub(super) fn write(output: &mut Vec<u8>, config: &Config, role: Role) {
    let entries = [
        (HEADER_TABLE_SIZE, config.header_table, config.header_table != DEFAULT_TABLE),
        (ENABLE_PUSH, 0, role == Role::Client),
        (MAX_CONCURRENT_STREAMS, config.streams, role == Role::Server),
        (INITIAL_WINDOW_SIZE, config.window, config.window != DEFAULT_WINDOW),
        (MAX_HEADER_LIST_SIZE, config.max_fields, true),
        (ENABLE_CONNECT_PROTOCOL, 1, role == Role::Server && config.connect_protocol),
    ];
    let mut payload = [0; 36];
    let mut length = 0;
    for (id, value, is_sent) in entries {
        if is_sent {
            payload[length..length + 2].copy_from_slice(&id.to_be_bytes());
            payload[length + 2..length + 6].copy_from_slice(&u32::to_be_bytes(value));
            length += 6;
        }
    }
    frame::write(output, kind::SETTINGS, 0, 0, &payload[..length]);
}

/// Appends a SETTINGS frame that changes only the initial window of streams.
pub(super) fn write_window(output: &mut Vec<u8>, window: u32) {
    let mut payload = [0; 6];
    payload[..2].copy_from_slice(&INITIAL_WINDOW_SIZE.to_be_bytes());
    payload[2..].copy_from_slice(&window.to_be_bytes());
    frame::write(output, kind::SETTINGS, 0, 0, &payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(entries: &[(u16, u32)], from: Role) -> Result<Settings, Fault> {
        let mut payload = Vec::new();
        for (id, value) in entries {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let mut settings = Settings::default();
        settings.apply(&payload, from).map(|()| settings)
    }

    #[test]
    fn values_are_checked() {
        let allowed = applied(
            &[(1, 0), (2, 0), (3, 7), (4, 0x7fff_ffff), (5, 0xff_ffff), (6, 99), (8, 1), (0xf0, 9), (3, 8)],
            Role::Server,
        );
        let expected = Settings {
            header_table_size: 0,
            max_concurrent_streams: Some(8),
            initial_window_size: 0x7fff_ffff,
            max_frame_size: 0xff_ffff,
            max_header_list_size: Some(99),
            connect_protocol: true,
        };
        assert_eq!(allowed, Ok(expected));
        assert!(applied(&[(2, 1)], Role::Client).is_ok());
        for (entry, from, fault) in [
            ((2, 1), Role::Server, Fault::SettingsPush),
            ((2, 2), Role::Client, Fault::SettingsPush),
            ((4, 0x8000_0000), Role::Client, Fault::SettingsWindow),
            ((5, 16_383), Role::Client, Fault::SettingsFrameSize),
            ((5, 1 << 24), Role::Client, Fault::SettingsFrameSize),
            ((8, 2), Role::Server, Fault::SettingsConnect),
        ] {
            assert_eq!(applied(&[entry], from), Err(fault));
        }
    }
}
