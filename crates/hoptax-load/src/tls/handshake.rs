//! The handshake, which is rustls's: it is given what came, and gives what is to be sent.

use super::buffers::Buffers;
use rustls::Error;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};

/// Lets rustls go on with its handshake, on `incoming` from the front. Returns how many of those bytes it is done with, and
/// whether the peer has closed the session already; plaintext that follows the handshake of TLS 1.2 at once is in
/// `buffers.plain`.
///
/// Stops when the handshake is done and its last message encoded: what stands behind it is not for rustls.
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
                last_words(connection, &mut incoming[done_with..], &mut buffers.out);
                return (done_with, Err(error));
            }
        };
        done_with += discard;
        if !go_on || !connection.is_handshaking() && !connection.wants_write() {
            return (done_with, Ok(peer_closed));
        }
    }
}

/// The alert that tells the peer why.
fn last_words(connection: &mut UnbufferedClientConnection, incoming: &mut [u8], out: &mut Vec<u8>) {
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
    message.encode(&mut out[start..]).expect("as long as it asked for");
}
