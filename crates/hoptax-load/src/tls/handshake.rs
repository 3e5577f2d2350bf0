//! The TLS handshake, which rustls performs.

use super::buffers::Buffers;
use rustls::Error;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};

/// Passes `incoming` to rustls and continues the handshake. Returns the number of bytes that rustls has
/// consumed, and whether the peer has already closed the session. In TLS 1.2, plaintext that directly follows
/// the handshake is appended to `buffers.plain`.
///
/// Stops when the handshake is complete and its last message is encoded. rustls must not read the records
/// that follow.
pub(super) fn drive(
    connection: &mut UnbufferedClientConnection,
    incoming: &mut [u8],
    buffers: &mut Buffers,
) -> (usize, Result<bool, Error>) {
    let (mut done_with, mut peer_closed) = (0, false);
    loop {
        let UnbufferedStatus { discard, state } = connection.process_tls_records(&mut incoming[done_with..]);
        let go_on = match state {
            Ok(ConnectionState::EncodeTlsData(mut message)) => {
                encode(&mut message, &mut buffers.out);
                true
            }
            Ok(ConnectionState::TransmitTlsData(sent)) => {
                sent.done();
                true
            }
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(Ok(record)) = traffic.next_record() {
                    buffers.plain.extend_from_slice(record.payload);
                }
                true
            }
            Ok(ConnectionState::PeerClosed) => {
                peer_closed = true;
                true
            }
            Ok(_) => false,
            Err(error) => {
                encode_alert(connection, &mut incoming[done_with..], &mut buffers.out);
                return (done_with, Err(error));
            }
        };
        done_with += discard;
        if !go_on || !connection.is_handshaking() && !connection.wants_write() {
            return (done_with, Ok(peer_closed));
        }
    }
}

/// Encodes the alert that reports the failure to the peer.
fn encode_alert(connection: &mut UnbufferedClientConnection, incoming: &mut [u8], out: &mut Vec<u8>) {
    while connection.wants_write() {
        let state = connection.process_tls_records(incoming).state;
        let Ok(ConnectionState::EncodeTlsData(mut message)) = state else { return };
        encode(&mut message, out);
    }
}

fn encode(message: &mut EncodeTlsData<'_, ClientConnectionData>, out: &mut Vec<u8>) {
    let start = out.len();
    let Err(EncodeError::InsufficientSize(needed)) = message.encode(&mut []) else { return };
    out.resize(start + needed.required_size, 0);
    message.encode(&mut out[start..]).expect("the buffer has the required size");
}
