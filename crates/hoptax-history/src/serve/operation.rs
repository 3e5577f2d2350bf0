//! An operation of the JSON interface, for the routes and for their description.

use super::app::App;
use axum::routing::MethodRouter;
use schemars::{Schema, SchemaGenerator};
use std::sync::Arc;

/// Generates the schema of a type.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

pub(super) struct Operation {
    pub(super) method: &'static str,
    /// Path as OpenAPI writes it; `{id}` is a run.
    pub(super) path: &'static str,
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: Option<Shape>,
    pub(super) body: Option<Shape>,
    pub(super) answer: Shape,
    /// Statuses other than 200 with a meaning specific to this operation.
    pub(super) refusals: &'static [(u16, &'static str)],
    pub(super) handler: fn() -> MethodRouter<Arc<App>>,
}
