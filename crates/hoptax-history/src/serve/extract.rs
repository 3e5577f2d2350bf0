//! Reads the path, the query and the body of a request. If one of them is not valid, the error describes the
//! problem in words.

use super::problem::Problem;
use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A run's id in a path.
pub(super) struct RunId(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for RunId {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        // Read the parameter by its name, because a path may have several parameters.
        let found = Path::<Named>::from_request_parts(parts, state).await;
        let found = found.map_err(|rejection| Problem::asked(rejection.body_text()));
        found
            .and_then(
                |Path(Named { id })| if is_name(&id) { Ok(Self(id)) } else { Err(Problem::no_run(&id)) },
            )
            .map_err(|problem| super::refusal::refusal(parts.uri.path(), problem))
    }
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// True if a run can have this name. The history checks the name again.
fn is_name(id: &str) -> bool {
    !id.is_empty() && !id.starts_with('.') && !id.contains(['/', '\\']) && !id.chars().any(char::is_control)
}

/// The parsed query of a request.
pub(super) struct QueryOf<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Query::try_from_uri(&parts.uri)
            .map(|Query(asked)| Self(asked))
            .map_err(|rejection| Problem::asked(rejection.body_text()))
    }
}

/// The parsed JSON body of a request.
pub(super) struct BodyOf<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for BodyOf<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        // Parse the body as an object first, because Serde would also accept a list.
        let Json(object) =
            Json::<Map<String, Value>>::from_request(request, state).await.map_err(|rejection| Problem {
                status: rejection.status(),
                ..Problem::asked(rejection.body_text())
            })?;
        serde_json::from_value(Value::Object(object)).map(Self).map_err(|error| Problem {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            ..Problem::asked(format!("the body is not valid: {error}"))
        })
    }
}
