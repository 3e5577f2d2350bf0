//! Answers a request with an error response: JSON for programs, or a page for people.

use super::pages;
use super::problem::Problem;
use axum::response::{IntoResponse as _, Response};

/// The error response to a request for `path`.
pub(super) fn refusal(path: &str, problem: Problem) -> Response {
    if is_for_program(path) { problem.into_response() } else { pages::template::failed(problem) }
}

/// Whether the clients of this path are programs and not people.
pub(super) fn is_for_program(path: &str) -> bool {
    path.starts_with("/api/") || path == "/metrics"
}
