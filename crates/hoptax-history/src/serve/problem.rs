//! Error responses of the server.

use crate::HistoryError;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// An error response of the JSON interface. It says why the request failed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct Problem {
    #[serde(skip)]
    pub(super) status: StatusCode,
    /// Description of the error, in one sentence.
    pub(super) error: String,
    /// What the client can do about the error.
    pub(super) help: String,
    /// Differences that prevent a comparison. Absent for other errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub(super) obstacles: Vec<hoptax_record::report::Obstacle>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, help: impl Into<String>) -> Self {
        Self { status, error: error.into(), help: help.into(), obstacles: Vec::new() }
    }

    /// The request is malformed.
    pub(super) fn asked(error: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            error,
            "see /api/v1/openapi.json or docs/reference/serve.md for what the interface accepts",
        )
    }

    /// There is no such run.
    pub(super) fn no_run(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no run {id}"), "/api/v1/runs lists all runs")
    }

    /// An error for a failure of the server, because of a bug in hoptax or a problem with the disk.
    pub(super) fn fault(error: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error,
            "check the run directory, or rebuild the index with `hoptax history rebuild`",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

impl From<HistoryError> for Problem {
    fn from(error: HistoryError) -> Self {
        let message = error.to_string();
        match error {
            HistoryError::NoRun { .. } => {
                Self::new(StatusCode::NOT_FOUND, message, "/api/v1/runs lists all runs")
            }
            HistoryError::Invalid(_) => Self::asked(message),
            HistoryError::Running { .. } | HistoryError::NotOurs { .. } => {
                Self::new(StatusCode::CONFLICT, message, "nothing was changed")
            }
            _ => Self::fault(message),
        }
    }
}
