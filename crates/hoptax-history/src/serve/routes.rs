//! All routes of the server. One table defines the JSON interface and its description. The routes of pages
//! and files follow the table.

use super::app::App;
use super::guard::MOST_BODY;
use super::operation::{Operation, Shape};
use super::problem::Problem;
use super::refusal::refusal;
use super::{api, check, files, metrics, openapi, pages};
use crate::{Entry, Listing, Query, Trend, TrendQuery, live};
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

/// The schema with all members inline, instead of a reference to a shared schema.
fn members<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

const NO_RUN: (u16, &str) = (404, "There is no such run.");
const UNREADABLE: (u16, &str) = (422, "The directory has no run that this version of hoptax can read.");
const MALFORMED: (u16, &str) = (400, "The request is malformed.");
const FOREIGN: (u16, &str) = (
    403,
    "The server only shows runs, the request comes from another site's page, or it does not say where it \
    comes from.",
);
const NO_JSON: (u16, &str) = (415, "The body's content type is not JSON.");

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
                "Runs that match a query, newest first",
                of::<Listing>,
                || get(api::list),
            )
        },
        Operation {
            refusals: &[NO_RUN],
            ..plain("get", "/api/v1/runs/{id}", "getRun", "A run, as in the list", of::<Entry>, || {
                get(api::run)
            })
        },
        Operation {
            body: Some(of::<api::Annotation>),
            refusals: &[
                MALFORMED,
                FOREIGN,
                NO_RUN,
                (409, "The directory has no run."),
                (413, "The body is too long."),
                NO_JSON,
                (422, "The body has unknown members."),
            ],
            ..plain(
                "patch",
                "/api/v1/runs/{id}",
                "annotateRun",
                "Sets tags and note of a run",
                of::<Entry>,
                || patch(api::annotate),
            )
        },
        Operation {
            refusals: &[
                FOREIGN,
                NO_RUN,
                (409, "The run is still in progress, or the directory has no run."),
                NO_JSON,
            ],
            ..plain(
                "delete",
                "/api/v1/runs/{id}",
                "deleteRun",
                "Deletes a run: its directory and everything in it",
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
                (409, "The runs cannot be compared, or they measured different things."),
                UNREADABLE,
            ],
            ..plain(
                "get",
                "/api/v1/compare",
                "compareRuns",
                "Comparison of two runs, or of two gateways of one run",
                of::<Comparison>,
                || get(api::compare),
            )
        },
        plain("get", "/api/v1/trends", "listTrends", "The cases that have trends", of::<api::Trends>, || {
            get(api::trends)
        }),
        Operation {
            query: Some(members::<TrendQuery>),
            refusals: &[MALFORMED],
            ..plain(
                "get",
                "/api/v1/trend",
                "getTrend",
                "A metric of a case over time, oldest run first",
                of::<Trend>,
                || get(api::trend),
            )
        },
        plain("get", "/api/v1/tags", "listTags", "All tags of all runs", of::<api::Tags>, || get(api::tags)),
        Operation {
            refusals: &[(404, "No run is in progress in this process.")],
            ..plain("get", "/api/v1/live", "getLive", "The run in progress", of::<live::State>, || {
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

/// Schema of the JSON report. docs/reference/json.md describes it in full.
fn report(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "object",
        "description": "The JSON report, as printed by `hoptax report --format json`; see \
            docs/reference/json.md.",
        "required": ["schema", "name", "interrupted", "hoptax", "started", "contenders", "cases", "findings", "environment"],
        "properties": {
            "schema": { "type": "integer", "description": "Version of the report." },
            "name": { "type": "string", "description": "The plan's name." },
            "cases": { "type": "array", "items": { "type": "object" } },
            "findings": { "type": "array", "items": { "type": "object" } },
        },
    })
}

pub(super) fn router(app: &Arc<App>) -> Router {
    handlers()
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), check::check))
        .with_state(Arc::clone(app))
}

/// The handlers of all routes, without the checks of requests.
pub(super) fn handlers() -> Router<Arc<App>> {
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
}

async fn nothing_there(request: Request) -> Response {
    let path = request.uri().path();
    let problem = Problem::new(StatusCode::NOT_FOUND, format!("there is no page at {path}"), "start at /");
    refusal(path, problem)
}

async fn not_so(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let error = format!("{path} does not accept {method}");
    refusal(
        path,
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            error,
            "the header Allow lists the methods that it accepts",
        ),
    )
}
