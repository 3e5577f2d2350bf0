//! Reads and compares run directories for responses.

use super::app::{App, aside};
use super::problem::Problem;
use axum::http::StatusCode;
use hoptax_analysis::compare::{Comparison, LEAST_CHANGE};
use hoptax_record::dir::DirError;
use hoptax_report::{Measured, NotCompared, compared};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Parameters of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareQuery {
    /// Id of the first run, which is usually the older one. If two gateways of one run are compared, the id
    /// of that run.
    pub(super) a: String,
    /// Id of the second run, which is usually the newer one. If absent, two gateways of run `a` are compared.
    #[serde(default)]
    pub(super) b: Option<String>,
    /// Labels of the two gateways to compare, separated by a comma. The first label is of run `a`, the second
    /// of run `b`. If absent, every gateway that both runs have is compared.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[^,]*[^,\s][^,]*,[^,]*[^,\s][^,]*$"))]
    pub(super) labels: Option<String>,
    /// Compare the runs even if they measured different things.
    #[serde(default)]
    pub(super) force: bool,
}

fn place(app: &App, id: &str) -> Result<PathBuf, Problem> {
    app.history_now(|store| Ok(store.path(id)?))?.ok_or_else(|| Problem::no_run(id))
}

pub(super) fn read(app: &App, id: &str) -> Result<Measured, Problem> {
    Measured::read(&place(app, id)?).map_err(|error| {
        let help = match &error {
            DirError::Newer { .. } => "use the version of hoptax that wrote the run, or a later version",
            _ => "measure it again, or delete it",
        };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string(), help)
    })
}

/// Reads a run and passes it to `draw`, on a thread that may block.
pub(super) async fn drawn<T: Send + 'static>(
    app: &Arc<App>,
    id: String,
    draw: impl FnOnce(&Measured) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let app = Arc::clone(app);
    aside(move || draw(&read(&app, &id)?)).await
}

/// Compares two runs, or two gateways of one run.
pub(super) async fn comparison(app: &Arc<App>, asked: CompareQuery) -> Result<Comparison, Problem> {
    let app = Arc::clone(app);
    aside(move || compare(&app, &asked)).await
}

fn compare(app: &App, asked: &CompareQuery) -> Result<Comparison, Problem> {
    let labels = match asked.labels.as_deref().filter(|labels| !labels.is_empty()) {
        None => None,
        Some(typed) => Some(two(typed)?),
    };
    let first = read(app, &asked.a)?;
    let second = asked.b.as_ref().filter(|b| !b.is_empty() && **b != asked.a);
    let second = second.map(|id| read(app, id)).transpose()?;
    compared(&first, second.as_ref(), labels, LEAST_CHANGE, asked.force).map_err(refused)
}

fn two(typed: &str) -> Result<(&str, &str), Problem> {
    match typed.split_once(',').map(|(one, two)| (one.trim(), two.trim())) {
        Some((one, two)) if !one.is_empty() && !two.is_empty() && !two.contains(',') => Ok((one, two)),
        _ => Err(Problem::asked("`labels` needs two labels separated by a comma, as in main,pr")),
    }
}

fn refused(refusal: NotCompared) -> Problem {
    let message = refusal.to_string();
    let problem = |status, help: String| Problem::new(status, message, help);
    match refusal {
        NotCompared::Alone { labels, .. } => problem(
            StatusCode::BAD_REQUEST,
            format!("name two of its labels in `labels`: {}", labels.join(", ")),
        ),
        NotCompared::Itself(_) => problem(StatusCode::BAD_REQUEST, "choose two different gateways".into()),
        NotCompared::NoLabel { help, .. } => problem(StatusCode::BAD_REQUEST, help),
        NotCompared::Obstacles(obstacles) => Problem {
            obstacles,
            ..problem(StatusCode::CONFLICT, "use `force=true` to compare the runs anyway".into())
        },
        NotCompared::NothingInCommon(_) => {
            problem(StatusCode::CONFLICT, "choose two runs that measured the same cases".into())
        }
    }
}
