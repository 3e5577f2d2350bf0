//! `/compare`: two runs, or two gateways of one run, side by side.

use super::super::app::App;
use super::super::extract::QueryOf;
use super::super::problem::Problem;
use super::super::runs::{self, CompareQuery};
use super::filled;
use super::template::Page;
use crate::{Entry, Query, State as RunState};
use axum::extract::State;
use axum::http::StatusCode;
use hoptax_analysis::compare::Comparison;
use hoptax_report::comparison::words;
use minijinja::{Value, context};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of runs in the selection lists. An older run can be compared through the link on its own
/// page.
const CHOICES: u32 = 200;

/// Parameters of the page's address.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(in crate::serve) struct Typed {
    a: String,
    b: String,
    label_a: String,
    label_b: String,
    force: bool,
}

impl Typed {
    fn query(&self) -> CompareQuery {
        let labels = match (self.label_a.as_str(), self.label_b.as_str()) {
            ("", "") => None,
            // If only one label is given, it applies to both runs.
            (one, "") | ("", one) => Some(format!("{one},{one}")),
            (one, other) => Some(format!("{one},{other}")),
        };
        CompareQuery { a: self.a.clone(), b: Some(self.b.clone()), labels, force: self.force }
    }
}

pub(in crate::serve) async fn page(State(app): State<Arc<App>>, QueryOf(typed): QueryOf<Typed>) -> Page {
    let chosen = [typed.a.clone(), typed.b.clone()];
    let found = app.history(move |store| {
        let query = Query { limit: CHOICES, ..Query::default() };
        let mut runs: Vec<Entry> = store.list(&query)?.runs;
        runs.retain(can_be_compared);
        for id in chosen.iter().filter(|id| !id.is_empty()) {
            if !runs.iter().any(|one| one.id == *id) {
                runs.extend(store.get(id)?);
            }
        }
        Ok(runs)
    });
    let choices = found.await?;
    let labels = |id: &str| -> Vec<String> {
        let one = choices.iter().find(|one| one.id == id);
        one.map_or_else(Vec::new, |one| one.contenders.iter().map(|who| who.label.clone()).collect())
    };
    let (labels_a, labels_b) =
        (labels(&typed.a), labels(if typed.b.is_empty() { &typed.a } else { &typed.b }));
    let outcome = match typed.a.is_empty() {
        true => None,
        false => Some(runs::comparison(&app, typed.query()).await),
    };
    let (comparison, refused) = match outcome {
        None => (None, None),
        Some(Ok(comparison)) => {
            let text = words(&comparison);
            // The chart is drawn only if at least one row has a change in percent.
            let drawn = text.rows.iter().any(|row| row.relative.is_some());
            let Comparison { verdict, paired, .. } = comparison;
            (Some(context! { verdict, paired, words => text, drawn }), None)
        }
        Some(Err(problem)) => (None, Some(refusal(&problem))),
    };
    let with = context! { typed, choices, labels_a, labels_b, comparison, refused };
    filled(&app, "compare.html", "compare", with)
}

fn can_be_compared(entry: &Entry) -> bool {
    entry.trials > 0 && !matches!(entry.state, RunState::Broken | RunState::Newer | RunState::Foreign)
}

/// Explains why there is no comparison. If only settings differ, the page has a link that forces the
/// comparison.
fn refusal(problem: &Problem) -> Value {
    let Problem { error, help, obstacles, status } = problem;
    let by_force = !obstacles.is_empty();
    // The help for a bad request is written for programs, so the page does not show this help.
    let help = (!by_force && *status != StatusCode::BAD_REQUEST).then_some(help);
    context! { error, help, obstacles, by_force }
}
