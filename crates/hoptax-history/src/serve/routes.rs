//! What can be asked, and where: the one table from which the JSON interface and its description are made, and the pages.

use super::app::App;
use super::guard::MOST_BODY;
use super::operation::{Operation, Shape};
use super::problem::Problem;
use super::refusal::refusal;
use super::{api, check, files, metrics, openapi, pages};
use crate::live;
use crate::{Entry, Listing, Query, Trend, TrendQuery};
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, patch};
use axum::{Json, Router};
use hoptax_record::report::Comparison;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;
use std::sync::Arc;

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Members themselves, and no reference to them.
fn members<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

const NO_RUN: (u16, &str) = (404, "There is no such run.");
const UNREADABLE: (u16, &str) = (422, "The directory holds no run that this version can read.");
const MALFORMED: (u16, &str) = (400, "What was asked cannot be understood.");
const FOREIGN: (u16, &str) = (403, "Another site's page asked for it, or nothing says who did.");
const NO_JSON: (u16, &str) = (415, "The body is not declared to be JSON.");

/// Every operation.
pub(super) fn operations() -> Vec<Operation> {
    let plain = |method, path, name, summary, answer: Shape, handler| Operation {
        method,
        path,
        name,
        summary,
        query: None,
        body: None,
        answer,
        refusals: &[],
        handler,
    };
    vec![
        Operation {
            query: Some(members::<Query>),
            refusals: &[MALFORMED],
            ..plain(
                "get",
                "/api/v1/runs",
                "listRuns",
                "The runs that fit a query, the newest first",
                of::<Listing>,
                || get(api::list),
            )
        },
        Operation {
            refusals: &[NO_RUN],
            ..plain(
                "get",
                "/api/v1/runs/{id}",
                "getRun",
                "A run as it stands in the list",
                of::<Entry>,
                || get(api::run),
            )
        },
        Operation {
            body: Some(of::<api::Annotation>),
            refusals: &[
                MALFORMED,
                FOREIGN,
                NO_RUN,
                (409, "The directory holds no run."),
                (413, "It is too long."),
                NO_JSON,
                (422, "The body has other members."),
            ],
            ..plain(
                "patch",
                "/api/v1/runs/{id}",
                "annotateRun",
                "Writes tags and a note to a run",
                of::<Entry>,
                || patch(api::annotate),
            )
        },
        Operation {
            refusals: &[FOREIGN, NO_RUN, (409, "It is still going on, or is no run."), NO_JSON],
            ..plain(
                "delete",
                "/api/v1/runs/{id}",
                "deleteRun",
                "Deletes a run: its directory with everything in it",
                of::<api::Deleted>,
                || delete(api::delete),
            )
        },
        Operation {
            refusals: &[NO_RUN, UNREADABLE],
            ..plain(
                "get",
                "/api/v1/runs/{id}/report",
                "getReport",
                "The JSON report of a run",
                report,
                || get(api::report),
            )
        },
        Operation {
            query: Some(members::<super::runs::CompareQuery>),
            refusals: &[
                MALFORMED,
                NO_RUN,
                (409, "They cannot be compared, or answer different questions."),
                UNREADABLE,
            ],
            ..plain(
                "get",
                "/api/v1/compare",
                "compareRuns",
                "Two runs, or two gateways of one, set against each other",
                of::<Comparison>,
                || get(api::compare),
            )
        },
        plain(
            "get",
            "/api/v1/trends",
            "listTrends",
            "The cases of which there are trends",
            of::<api::Trends>,
            || get(api::trends),
        ),
        Operation {
            query: Some(members::<TrendQuery>),
            refusals: &[MALFORMED],
            ..plain(
                "get",
                "/api/v1/trend",
                "getTrend",
                "How a metric of a case went over time, the oldest run first",
                of::<Trend>,
                || get(api::trend),
            )
        },
        plain("get", "/api/v1/tags", "listTags", "Every tag of any run", of::<api::Tags>, || get(api::tags)),
        Operation {
            refusals: &[(404, "No run is under way in this process.")],
            ..plain("get", "/api/v1/live", "getLive", "The run under way", of::<live::State>, || {
                get(api::live)
            })
        },
        plain("get", "/api/v1/openapi.json", "getDescription", "This description", object, || get(described)),
    ]
}

/// The description of the JSON interface, OpenAPI 3.1.
pub fn description() -> Value {
    openapi::document(&operations())
}

async fn described() -> Json<Value> {
    Json(description())
}

fn object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object" })
}

/// The JSON report, which a page of its own describes.
fn report(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "object",
        "description": "The JSON report, as `hoptax report --format json` writes it and docs/reference/json.md describes it.",
        "required": ["schema", "name", "interrupted", "hoptax", "started", "contenders", "cases", "findings", "environment"],
        "properties": {
            "schema": { "type": "integer", "description": "Version of the report." },
            "name": { "type": "string", "description": "The plan's name." },
            "cases": { "type": "array", "items": { "type": "object" } },
            "findings": { "type": "array", "items": { "type": "object" } },
        },
    })
}

/// Everything that is answered.
pub(super) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for operation in operations() {
        router = router.route(operation.path, (operation.handler)());
    }
    router
        .route("/", get(pages::list::page))
        .route("/runs/{id}", get(pages::run::page))
        .route("/runs/{id}/{file}", get(pages::run::file))
        .route("/compare", get(pages::compare::page))
        .route("/trends", get(pages::trends::page))
        .route("/live", get(pages::live::page))
        .route("/assets/{name}", get(files::get))
        .route("/metrics", get(metrics::scrape))
        .fallback(nothing_there)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), check::check))
        .with_state(Arc::clone(app))
}

async fn nothing_there(request: Request) -> Response {
    let path = request.uri().path();
    let problem = Problem::new(StatusCode::NOT_FOUND, format!("there is nothing at {path}"), "begin at /");
    refusal(path, problem)
}

async fn not_so(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let error = format!("{path} does not answer to {method}");
    refusal(
        path,
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, error, "the header Allow names what it answers to"),
    )
}
