//! An operation of the JSON interface. The routes and the OpenAPI description are generated from it.

use super::app::App;
use axum::routing::MethodRouter;
use schemars::{Schema, SchemaGenerator};
use std::sync::Arc;

/// Generates the schema of a type.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

pub(super) struct Operation {
    pub(super) method: &'static str,
    /// Path in the notation of OpenAPI; `{id}` is the id of a run.
    pub(super) path: &'static str,
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: Option<Shape>,
    pub(super) body: Option<Shape>,
    pub(super) answer: Shape,
    /// Error statuses that have a special meaning for this operation, and their meanings.
    pub(super) refusals: &'static [(u16, &'static str)],
    pub(super) handler: fn() -> MethodRouter<Arc<App>>,
}
