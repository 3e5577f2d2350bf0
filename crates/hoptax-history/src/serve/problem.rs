//! What is answered where something cannot be.

use crate::HistoryError;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// Why a request was not answered, as the interface tells it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct Problem {
    #[serde(skip)]
    pub(super) status: StatusCode,
    /// What is wrong, in a sentence.
    pub(super) error: String,
    /// What to do about it.
    pub(super) help: String,
    /// What forbids a comparison; absent where it is about something else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub(super) obstacles: Vec<hoptax_record::report::Obstacle>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, help: impl Into<String>) -> Self {
        Self { status, error: error.into(), help: help.into(), obstacles: Vec::new() }
    }

    /// What was asked for cannot be understood.
    pub(super) fn asked(error: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            error,
            "the interface is described at /api/v1/openapi.json, and in docs/reference/serve.md",
        )
    }

    /// There is no such run.
    pub(super) fn no_run(id: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            format!("there is no run {id}"),
            "/api/v1/runs lists those that there are",
        )
    }

    /// A fault of ours, or of the disk.
    pub(super) fn fault(error: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error,
            "look at the run directory by hand, or rebuild the index with `hoptax history rebuild`",
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
        let told = error.to_string();
        match error {
            HistoryError::NoRun { .. } => {
                Self::new(StatusCode::NOT_FOUND, told, "/api/v1/runs lists those that there are")
            }
            HistoryError::Invalid(_) => Self::asked(told),
            HistoryError::Running { .. } | HistoryError::NotOurs { .. } => {
                Self::new(StatusCode::CONFLICT, told, "nothing was changed")
            }
            _ => Self::fault(told),
        }
    }
}
