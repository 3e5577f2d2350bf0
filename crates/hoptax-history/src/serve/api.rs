//! Handlers of all operations of the JSON interface.

use super::app::App;
use super::extract::{BodyOf, QueryOf, RunId};
use super::problem::Problem;
use super::runs::{self, CompareQuery};
use crate::{Entry, Listing, Query, Trend, TrendChoice, TrendQuery, live};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hoptax_record::report::Comparison;
use hoptax_report as report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of runs in one response.
pub(super) const MOST_LISTED: u32 = 1000;
type Answer<T> = Result<Json<T>, Problem>;
type Asking = State<Arc<App>>;

/// Changes to the tags and the note of a run. A member that is absent is not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Annotation {
    /// The new tags, which replace all tags of the run. A run can have at most 20 tags. Each tag has 1 to 40
    /// characters: letters, digits or one of `-_.:/`.
    #[schemars(length(max = 20), inner(length(min = 1, max = 40), regex(pattern = r"^[\p{L}\p{N}_.:/-]+$")))]
    pub(super) tags: Option<Vec<String>>,
    /// The new note, at most 10,000 characters.
    #[schemars(length(max = 10_000))]
    pub(super) note: Option<String>,
}

/// The tags that runs have, sorted. Each tag is listed once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Tags {
    /// The tags.
    pub(super) tags: Vec<String>,
}

/// The available trends.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct Trends {
    /// One trend for each combination of plan, gateway and load point.
    pub(super) trends: Vec<TrendChoice>,
}

/// The run that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Deleted {
    /// Id of the run.
    pub(super) deleted: String,
}

pub(super) async fn list(State(app): Asking, QueryOf(asked): QueryOf<Query>) -> Answer<Listing> {
    let asked = Query { limit: asked.limit.min(MOST_LISTED), ..asked };
    Ok(Json(app.history(move |store| Ok(store.list(&asked)?)).await?))
}

pub(super) async fn run(State(app): Asking, RunId(id): RunId) -> Answer<Entry> {
    let found = app.history(move |store| store.get(&id)?.ok_or_else(|| Problem::no_run(&id))).await;
    Ok(Json(found?))
}

pub(super) async fn report(State(app): Asking, RunId(id): RunId) -> Result<Response, Problem> {
    let text = runs::drawn(&app, id, |measured| Ok(report::json(&measured.model()))).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

pub(super) async fn annotate(
    State(app): Asking,
    RunId(id): RunId,
    BodyOf(changes): BodyOf<Annotation>,
) -> Answer<Entry> {
    let changed = app
        .history(move |store| Ok(store.annotate(&id, changes.tags.as_deref(), changes.note.as_deref())?));
    let changed = changed.await?;
    app.forget();
    Ok(Json(changed))
}

pub(super) async fn delete(State(app): Asking, RunId(id): RunId) -> Answer<Deleted> {
    let deleted = app.history(move |store| {
        store.delete(&id)?;
        Ok(Deleted { deleted: id })
    });
    let deleted = deleted.await?;
    app.forget();
    Ok(Json(deleted))
}

pub(super) async fn compare(State(app): Asking, QueryOf(asked): QueryOf<CompareQuery>) -> Answer<Comparison> {
    Ok(Json(runs::comparison(&app, asked).await?))
}

pub(super) async fn trends(State(app): Asking) -> Answer<Trends> {
    Ok(Json(app.history(|store| Ok(Trends { trends: store.trend_choices()? })).await?))
}

pub(super) async fn trend(State(app): Asking, QueryOf(asked): QueryOf<TrendQuery>) -> Answer<Trend> {
    Ok(Json(app.history(move |store| Ok(store.trend(&asked)?)).await?))
}

pub(super) async fn live(State(app): Asking) -> Answer<live::State> {
    app.live().map(Json).ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "no run is in progress in this process",
            "`hoptax run --serve` shows a run while it is measured",
        )
    })
}

pub(super) async fn tags(State(app): Asking) -> Answer<Tags> {
    Ok(Json(app.history(|store| Ok(Tags { tags: store.tags()? })).await?))
}
