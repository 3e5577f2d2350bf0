//! Timestamps of a request, and data about its response.

use crate::checks::Failed;
use hoptax_format::grpc::Status;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) scheduled: u64,
    /// Time when the first byte of the request was first passed to the kernel. Absent while the request waits
    /// for its first connection. A retry does not change this time.
    pub(crate) sent: Option<u64>,
    /// Time when the first byte of the response was read.
    pub(crate) first_byte: Option<u64>,
    /// Length of the request including its head, bytes. 0 while the request waits for a connection.
    pub(crate) length: u64,
    pub(crate) target: u32,
}

impl Times {
    pub(crate) fn new(scheduled: u64, target: u32) -> Self {
        Self { scheduled, target, ..Self::default() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Length of the response including its heads, bytes.
    pub(crate) bytes: u64,
    /// Length of the body, bytes.
    pub(crate) body: u64,
    /// The first check that the response fails. Absent if the response is a success.
    pub(crate) failed: Option<Failed>,
    /// The outcome of a gRPC call. Absent for other requests.
    pub(crate) call: Option<Call>,
}

/// The outcome of a gRPC call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) status: Status,
    /// True if the response had the status 200, but no status of the call.
    pub(crate) trailers_lost: bool,
}
