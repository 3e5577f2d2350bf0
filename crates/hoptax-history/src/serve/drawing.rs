//! Draws reports and comparisons in processes of their own.
//!
//! A run may be so large that its report takes minutes, and a thread cannot be stopped. So each of these responses is made by
//! `hoptax draw`, which the server kills after the time limit, or when the client has gone. Pages that only read the index do
//! not wait for it.

use super::app::App;
use super::options::{Access, Options, ServeError};
use super::problem::Problem;
use super::routes;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Maximum number of processes that draw at the same time. Further requests wait.
pub(super) const DRAWING: usize = 4;

/// What a process should draw: one line of JSON on its standard input.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    root: PathBuf,
    /// Path and query of the request.
    uri: String,
    /// Whether the server's process measures a run.
    under_way: bool,
}

/// The first line of a process's standard output, JSON. The body of the response follows.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
}

/// Starts the processes.
#[derive(Debug)]
pub(super) struct Drawing {
    exe: PathBuf,
    places: Semaphore,
}

impl Drawing {
    pub(super) fn new(exe: &Path) -> Self {
        Self { exe: exe.to_owned(), places: Semaphore::new(DRAWING) }
    }
}

/// A process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process of its own draws the response.
pub(super) fn is_drawn_apart(request: &Request) -> bool {
    let parts: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    matches!(*request.method(), Method::GET | Method::HEAD)
        && matches!(
            parts[..],
            ["compare"] | ["api", "v1", "compare"] | ["api", "v1", "runs", _, "report"] | ["runs", _, _]
        )
}

/// The response to a request that [`is_drawn_apart`]. If the future is dropped, the process is killed.
pub(super) async fn apart(app: &App, uri: &Uri) -> Result<Response, Problem> {
    let fault =
        |error: io::Error| Problem::fault(format!("cannot start the process that draws this: {error}"));
    let _place = app.drawing.places.acquire().await;
    let task = Task { root: app.root().to_owned(), uri: uri.to_string(), under_way: app.is_under_way() };
    let mut command = Command::new(&app.drawing.exe);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::arg0(&mut command, "hoptax");
    command.arg("draw").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = Process(command.spawn().map_err(fault)?);
    let (stdin, stdout) = (process.0.stdin.take(), process.0.stdout.take());
    let (stdin, stdout) = (stdin.expect("piped"), stdout.expect("piped"));
    let output = tokio::task::spawn_blocking(move || ask(&task, stdin, stdout)).await;
    let output = output.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(fault)?;
    response(output).ok_or_else(|| Problem::fault("the process that draws this ended without a response"))
}

fn ask(task: &Task, mut stdin: ChildStdin, mut stdout: ChildStdout) -> io::Result<Vec<u8>> {
    serde_json::to_writer(&mut stdin, task)?;
    drop(stdin);
    let mut output = Vec::new();
    stdout.read_to_end(&mut output)?;
    Ok(output)
}

fn response(mut output: Vec<u8>) -> Option<Response> {
    let end = memchr::memchr(b'\n', &output)?;
    let body = output.split_off(end + 1);
    let head: Head = serde_json::from_slice(&output).ok()?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(head.status).ok()?;
    for (name, value) in &head.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        response.headers_mut().insert(name, HeaderValue::from_str(value).ok()?);
    }
    Some(response)
}

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
