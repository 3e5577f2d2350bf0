//! Derives the causes of failed requests from the kernel's errors.

use crate::tls::HandshakeFailed;
use hoptax_format::record::Cause;
use rustix::io::Errno;
use std::io;

/// Returns the cause of a failed connect, and its description.
pub(crate) fn of_connect(error: &io::Error) -> (Cause, String) {
    if let Some(failed) = error.get_ref().and_then(|inner| inner.downcast_ref::<HandshakeFailed>()) {
        return (failed.cause, failed.text.clone());
    }
    let cause = match Errno::from_io_error(error) {
        // ENOENT means that the Unix socket's file is missing.
        Some(Errno::CONNREFUSED | Errno::NOENT) => Cause::ConnectRefused,
        Some(Errno::TIMEDOUT) => Cause::ConnectTimeout,
        Some(Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE) => Cause::ConnectReset,
        Some(
            Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::NETDOWN
            | Errno::NODEV
            | Errno::NONET,
        ) => Cause::Unreachable,
        Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => Cause::PortsExhausted,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => Cause::DescriptorsExhausted,
        None if error.kind() == io::ErrorKind::OutOfMemory => Cause::DescriptorsExhausted,
        _ => Cause::ConnectFailed,
    };
    let text = match cause {
        // The kernel's text for this error, "Cannot assign requested address", is misleading.
        Cause::PortsExhausted => "connect: every port from this source to this address is in use".to_owned(),
        _ => format!("connect: {error}"),
    };
    (cause, text)
}

/// Returns the cause and the description of a failed request if its connection ended before the response was
/// complete. `begun` is true if at least one byte of the response had arrived.
pub(crate) fn of_end(ended: io::Result<()>, begun: bool) -> (Cause, String) {
    match (ended, begun) {
        (Ok(()), false) => {
            (Cause::ClosedBeforeResponse, "the connection was closed before the response".to_owned())
        }
        (Ok(()), true) => {
            (Cause::ClosedInResponse, "the connection was closed in the middle of the response".to_owned())
        }
        (Err(error), false) => (Cause::ResetBeforeResponse, format!("before the response: {error}")),
        (Err(error), true) => (Cause::ResetInResponse, format!("in the middle of the response: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_errors_map_to_causes() {
        for (errno, cause) in [
            (Errno::CONNREFUSED, Cause::ConnectRefused),
            (Errno::NOENT, Cause::ConnectRefused),
            (Errno::TIMEDOUT, Cause::ConnectTimeout),
            (Errno::CONNRESET, Cause::ConnectReset),
            (Errno::NETUNREACH, Cause::Unreachable),
            (Errno::ADDRNOTAVAIL, Cause::PortsExhausted),
            (Errno::MFILE, Cause::DescriptorsExhausted),
            (Errno::NFILE, Cause::DescriptorsExhausted),
            (Errno::ACCESS, Cause::ConnectFailed),
            (Errno::PERM, Cause::ConnectFailed),
        ] {
            let (found, text) = of_connect(&errno.into());
            assert_eq!(found, cause, "{errno}");
            assert!(text.starts_with("connect: "), "{text}");
        }
        assert_eq!(of_connect(&io::ErrorKind::OutOfMemory.into()).0, Cause::DescriptorsExhausted);
        assert_eq!(of_connect(&io::ErrorKind::Other.into()).0, Cause::ConnectFailed);
    }

    #[test]
    fn ends_are_classified_by_how_and_when() {
        let reset = || Err(Errno::CONNRESET.into());
        for (end, begun, cause) in [
            (Ok(()), false, Cause::ClosedBeforeResponse),
            (Ok(()), true, Cause::ClosedInResponse),
            (reset(), false, Cause::ResetBeforeResponse),
            (reset(), true, Cause::ResetInResponse),
        ] {
            assert_eq!(of_end(end, begun).0, cause);
        }
    }
}
