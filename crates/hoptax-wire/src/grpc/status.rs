//! The status of a call.

use crate::http1::decimal;

/// The status of a call ([status codes](https://github.com/grpc/grpc/blob/master/doc/statuscodes.md)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "gRPC's document defines them")]
pub enum Status {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

/// The names, in the order of the numbers.
const NAMES: [&str; Status::COUNT] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Status {
    /// Number of statuses.
    pub const COUNT: usize = 17;

    /// All statuses, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The number, 0 to 16.
    #[inline]
    pub fn number(self) -> usize {
        self as usize
    }

    /// The name, such as `DEADLINE_EXCEEDED`.
    pub fn name(self) -> &'static str {
        NAMES[self.number()]
    }

    /// The status with this name. Upper and lower case are the same, and so are `-` and `_`.
    pub fn from_name(name: &str) -> Option<Self> {
        let is_same = |known: &str| {
            let same = |(a, b): (u8, u8)| a.eq_ignore_ascii_case(&if b == b'-' { b'_' } else { b });
            known.len() == name.len() && known.bytes().zip(name.bytes()).all(same)
        };
        Self::ALL.into_iter().find(|status| is_same(status.name()))
    }

    /// Reads the value of `grpc-status`. Numbers that gRPC does not define, and other values, are UNKNOWN, as
    /// in gRPC's clients.
    #[inline]
    pub fn read(value: &[u8]) -> Self {
        match value {
            b"0" => Self::Ok,
            _ => decimal(value)
                .and_then(|number| Self::ALL.get(usize::try_from(number).ok()?).copied())
                .unwrap_or(Self::Unknown),
        }
    }

    /// The status of a response without `grpc-status`
    /// ([mapping](https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md)).
    pub fn of_http(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502 | 503 | 504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_belong_together() {
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status.number(), number);
            assert_eq!(Status::read(number.to_string().as_bytes()), status);
            assert_eq!(Status::from_name(status.name()), Some(status));
            let other = status.name().to_ascii_lowercase().replace('_', "-");
            assert_eq!(Status::from_name(&other), Some(status), "{other}");
        }
        assert_eq!((Status::DeadlineExceeded.number(), Status::Unavailable.number()), (4, 14));
        assert_eq!(Status::Unauthenticated.name(), "UNAUTHENTICATED");
        for wrong in ["", "okay", "NOT FOUND", "14"] {
            assert_eq!(Status::from_name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_undefined_number_is_unknown() {
        for value in ["", "17", "99", "-1", "+0", "ok", " 0", "18446744073709551616"] {
            assert_eq!(Status::read(value.as_bytes()), Status::Unknown, "{value}");
        }
    }

    #[test]
    fn a_response_without_a_status_is_mapped() {
        for (http, status) in [
            (200, Status::Unknown),
            (400, Status::Internal),
            (401, Status::Unauthenticated),
            (403, Status::PermissionDenied),
            (404, Status::Unimplemented),
            (429, Status::Unavailable),
            (500, Status::Unknown),
            (502, Status::Unavailable),
            (503, Status::Unavailable),
            (504, Status::Unavailable),
        ] {
            assert_eq!(Status::of_http(http), status, "{http}");
        }
    }
}
