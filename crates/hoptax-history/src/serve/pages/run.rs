//! `/runs/{id}`: a run with its report and downloads.

use super::super::app::App;
use super::super::extract::RunId;
use super::super::problem::Problem;
use super::super::runs;
use super::template::Page;
use super::{filled, shown};
use crate::{Entry, Query};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hoptax_report::{self as report, Measured};
use minijinja::context;
use std::sync::Arc;

/// Maximum number of runs that are searched for the previous and the next run of the same plan.
const NEIGHBOURS: u32 = 1000;

/// Content security policy of reports. A report cannot reach this server. It may save files, and run the
/// script whose digest the report itself declares.
const OF_A_REPORT: &str = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'";

type Draw = fn(&Measured) -> Result<String, Problem>;

pub(in crate::serve) async fn page(State(app): State<Arc<App>>, RunId(id): RunId) -> Page {
    let found = app.history(move |store| {
        let entry = store.get(&id)?.ok_or_else(|| Problem::no_run(&id))?;
        let query = Query { text: entry.name.clone(), limit: NEIGHBOURS, ..Query::default() };
        let of_the_plan = match entry.name.is_empty() {
            true => Vec::new(),
            false => store.list(&query)?.runs,
        };
        Ok((entry, of_the_plan, store.tags()?))
    });
    let (entry, of_the_plan, known_tags) = found.await?;
    let (earlier, later) = neighbours(&entry, &of_the_plan);
    let with = context! { run => shown(&entry), earlier, later, known_tags };
    filled(&app, "run.html", "runs", with)
}

/// The previous and the next run of the same plan as `entry`. In `all`, the newest run comes first.
fn neighbours<'r>(entry: &Entry, all: &'r [Entry]) -> (Option<&'r Entry>, Option<&'r Entry>) {
    let same: Vec<&Entry> = all.iter().filter(|one| one.name == entry.name).collect();
    match same.iter().position(|one| one.id == entry.id) {
        Some(place) => (same.get(place + 1).copied(), place.checked_sub(1).map(|later| same[later])),
        None => (None, None),
    }
}

/// The report of a run, in the format that the file's name requests.
pub(in crate::serve) async fn file(
    State(app): State<Arc<App>>,
    RunId(id): RunId,
    Path((_, file)): Path<(String, String)>,
) -> Page {
    let (kind, draw): (&str, Draw) = match file.as_str() {
        "report.html" => ("text/html; charset=utf-8", html),
        "report.json" => ("application/json", |run| Ok(report::json(&run.model()))),
        "report.csv" => ("text/csv; charset=utf-8", |run| Ok(report::csv(&run.model()))),
        "report.md" => ("text/markdown; charset=utf-8", |run| Ok(report::markdown(&run.model()))),
        _ => {
            let help = "choose report.html, report.json, report.csv or report.md";
            return Err(Problem::new(StatusCode::NOT_FOUND, format!("a run has no file {file}"), help).into());
        }
    };
    let text = runs::drawn(&app, id.clone(), draw).await?;
    let answer = ([(header::CONTENT_TYPE, kind)], text).into_response();
    Ok(if file == "report.html" { apart(answer) } else { saved(answer, &id, &file) })
}

fn html(run: &Measured) -> Result<String, Problem> {
    report::html(&run.model()).map_err(|error| Problem::fault(error.to_string()))
}

fn apart(mut answer: Response) -> Response {
    let policy = header::HeaderValue::from_static(OF_A_REPORT);
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    answer
}

/// Turns an answer into a download that is named after the run.
fn saved(mut answer: Response, id: &str, file: &str) -> Response {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let id: String = id.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
    let ending = file.trim_start_matches("report");
    if let Ok(value) = format!("attachment; filename=\"{id}{ending}\"").parse() {
        answer.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    answer
}
