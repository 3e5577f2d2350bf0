//! An operation of the JSON interface, as routes and their description both need it.

use super::app::App;
use axum::routing::MethodRouter;
use schemars::{Schema, SchemaGenerator};
use std::sync::Arc;

/// The type of something, as schemas are made of it.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// An operation of the JSON interface.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// As OpenAPI writes it; `{id}` is a run.
    pub(super) path: &'static str,
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: Option<Shape>,
    pub(super) body: Option<Shape>,
    pub(super) answer: Shape,
    /// Statuses other than 200 that have a meaning of their own here.
    pub(super) refusals: &'static [(u16, &'static str)],
    pub(super) handler: fn() -> MethodRouter<Arc<App>>,
}
