//! Middleware for all requests and responses: refuses requests that are not allowed, and adds headers to
//! responses.

use super::app::App;
use super::drawing;
use super::guard::admit;
use super::problem::Problem;
use super::refusal::refusal;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for a response. It is long enough for the largest report on a busy machine. At the limit, a
/// process that draws is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Content security policy of pages. A page may load resources only from this server. Style attributes are
/// allowed, because charts need them.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr \
    'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";

/// Checks each request before it is handled, and completes the headers of each response.
pub(super) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let answer = match admit(&app.guard, &request) {
        Ok(None) => match tokio::time::timeout(PATIENCE, answer(&app, request, next)).await {
            Ok(answer) => answer.unwrap_or_else(|problem| refusal(&path, problem)),
            Err(_) => refusal(
                &path,
                Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "the answer took longer than a minute",
                    "send the whole request at once; for a very large run use `hoptax report`",
                ),
            ),
        },
        Ok(Some(answer)) => answer,
        Err(problem) => refusal(&path, problem),
    };
    with_headers(answer)
}

async fn answer(app: &App, request: Request, next: Next) -> Result<Response, Problem> {
    if drawing::is_drawn_apart(&request) {
        let uri = request.uri().clone();
        return drawing::apart(app, &uri).await;
    }
    Ok(next.run(request).await)
}

fn with_headers(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    let mut default = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    default(header::CONTENT_SECURITY_POLICY, POLICY);
    default(header::CACHE_CONTROL, "no-store");
    default(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    default(header::REFERRER_POLICY, "same-origin");
    default(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    default(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    answer
}
