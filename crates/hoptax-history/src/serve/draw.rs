//! The process that draws one response: `hoptax draw`.

use super::app::App;
use super::drawing::{Head, Task};
use super::options::{Access, Options, ServeError};
use super::routes;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{HeaderName, HeaderValue};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Reads a task from `input`, draws the response in this process, and writes it to `output`.
///
/// # Errors
/// If the task cannot be read, the history cannot be opened, or the response cannot be written.
pub fn draw(input: &mut dyn Read, output: &mut dyn Write) -> Result<(), ServeError> {
    let unreadable = |error: serde_json::Error| ServeError::Start(error.into());
    let task: Task = serde_json::from_reader(input).map_err(unreadable)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = Options {
        address,
        access: Access::ReadOnly(None),
        root: task.root,
        live: None,
        keep_off: Vec::new(),
        exe: PathBuf::new(),
    };
    let app = Arc::new(App::open(&options, address)?.drawing_for(task.under_way));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.and_then(|runtime| runtime.block_on(respond(&app, &task.uri, output))).map_err(ServeError::Start)
}

async fn respond(app: &Arc<App>, uri: &str, output: &mut dyn Write) -> io::Result<()> {
    let router = TowerToHyperService::new(routes::handlers().with_state(Arc::clone(app)));
    let request = Request::builder().uri(uri).body(Body::empty()).map_err(io::Error::other)?;
    let Ok(response) = router.call(request).await;
    let (parts, body) = response.into_parts();
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    let head =
        Head { status: parts.status.as_u16(), headers: parts.headers.iter().filter_map(header).collect() };
    let body = to_bytes(body, usize::MAX).await.map_err(io::Error::other)?;
    serde_json::to_writer(&mut *output, &head)?;
    output.write_all(b"\n")?;
    output.write_all(&body)?;
    output.flush()
}
