//! `/live`: the run in progress.

use super::super::app::App;
use super::filled;
use super::template::Page;
use crate::{Query, State as RunState};
use axum::extract::State;
use minijinja::{Value, context};
use std::sync::Arc;

pub(in crate::serve) async fn page(State(app): State<Arc<App>>) -> Page {
    let state = app.live();
    // hoptax knows only the name and the number of trials of a run that another process measures.
    let elsewhere = match &state {
        Some(_) => Vec::new(),
        None => {
            let query = Query { state: Some(RunState::Running), limit: 5, ..Query::default() };
            app.history(move |store| Ok(store.list(&query)?.runs)).await?
        }
    };
    let data = state.as_ref().map(Value::from_serialize);
    filled(&app, "live.html", "live", context! { state, data, elsewhere })
}
