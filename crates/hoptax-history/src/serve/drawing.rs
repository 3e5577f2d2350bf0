//! Draws reports and comparisons in separate processes.
//!
//! A run may be so large that its report takes minutes, and a thread cannot be stopped. So `hoptax draw`
//! makes each of these responses. The server kills this process after the time limit, or when the client has
//! gone. Pages that only read the index do not wait for such processes.

use super::app::App;
use super::problem::Problem;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a process should draw: one line of JSON on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) root: PathBuf,
    /// Path and query of the request.
    pub(super) uri: String,
    /// Whether the server's process measures a run.
    pub(super) under_way: bool,
}

/// The first line of a process's standard output, JSON. The body of the response follows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

/// A process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a separate process draws the response.
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
