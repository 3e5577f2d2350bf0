//! placeholder
/// Readiness by epoll.
#[derive(Debug)]
pub struct Epoll;
