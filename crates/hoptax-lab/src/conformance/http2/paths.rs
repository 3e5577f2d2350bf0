//! Paths at the upstream that the cases request.

pub(super) const ECHO: &str = "/.hoptax/echo";
pub(super) const TRAILERS: &str = "/.hoptax/trailers";
pub(super) const HINTS: &str = "/.hoptax/hints";
pub(super) const EARLY: &str = "/.hoptax/early";
pub(super) const GOAWAY: &str = "/.hoptax/goaway";
/// A response that is in flight while the client does something else.
pub(super) const SOON: &str = "/.hoptax/slow/500ms";
/// A response that the client does not wait for.
pub(super) const LATE: &str = "/.hoptax/slow/20s";

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_servers::upstream::MARK;

    #[test]
    fn all_are_verification_paths() {
        for path in [ECHO, TRAILERS, HINTS, EARLY, GOAWAY, SOON, LATE] {
            assert!(path.starts_with(MARK), "{path}");
        }
    }
}
