//! The upstream's stamps: when it had read a request and when it answered, told in a header of the response, so that on one
//! host a response time can be split into the way there and the way back.

/// Header that carries the stamps: `<received> <replied>`, both nanoseconds on [`crate::clock::now`] (CLOCK_MONOTONIC) of the
/// upstream's host, in decimal digits.
pub const HEADER: &str = "hoptax-stamp";
