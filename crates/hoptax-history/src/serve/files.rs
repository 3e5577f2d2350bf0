//! `/assets/NAME`: style, scripts and icon of the pages.

use super::assets::content;
use super::pages::template::failed;
use super::problem::Problem;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

pub(super) async fn get(Path(name): Path<String>) -> Response {
    let Some((kind, content)) = content(&name) else {
        let error = format!("there is no file /assets/{name}");
        return failed(Problem::new(StatusCode::NOT_FOUND, error, "start at /"));
    };
    let caching = "private, max-age=31536000, immutable";
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, caching)], content).into_response()
}
