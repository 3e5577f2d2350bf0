//! `/`: the list of runs.

use super::super::api::MOST_LISTED;
use super::super::app::App;
use super::super::extract::QueryOf;
use super::super::problem::Problem;
use super::template::Page;
use super::{filled, shown};
use crate::{Query, State as RunState};
use axum::extract::State;
use minijinja::{Value, context};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of runs per page.
const AT_ONCE: u32 = 50;

/// Parameters of the page's address. They can be empty, because a form also sends empty fields.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(in crate::serve) struct Typed {
    text: String,
    tag: String,
    gateway: String,
    state: String,
    offset: u32,
}

impl Typed {
    fn query(&self) -> Result<Query, Problem> {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        let state: Option<RunState> = match given(&self.state) {
            None => None,
            Some(name) => {
                let unknown = |_| Problem::asked(format!("there is no state {name}"));
                Some(serde_json::from_value(serde_json::Value::from(name.as_str())).map_err(unknown)?)
            }
        };
        Ok(Query {
            text: self.text.clone(),
            tag: given(&self.tag),
            gateway: given(&self.gateway),
            state,
            limit: AT_ONCE.min(MOST_LISTED),
            offset: self.offset,
        })
    }

    fn is_narrow(&self) -> bool {
        [&self.text, &self.tag, &self.gateway, &self.state].iter().any(|part| !part.is_empty())
    }
}

pub(in crate::serve) async fn page(State(app): State<Arc<App>>, QueryOf(typed): QueryOf<Typed>) -> Page {
    let query = typed.query()?;
    let found = app.history(move |store| {
        let gateways: BTreeSet<String> = store.trend_choices()?.into_iter().map(|one| one.gateway).collect();
        Ok((store.list(&query)?, store.tags()?, gateways))
    });
    let (listing, tags, mut gateways) = found.await?;
    gateways.remove(hoptax_record::DIRECT);
    gateways.extend([typed.gateway.clone()].into_iter().filter(|one| !one.is_empty()));
    let next = typed.offset.saturating_add(u32::try_from(listing.runs.len()).unwrap_or(u32::MAX));
    let runs: Vec<Value> = listing.runs.iter().map(shown).collect();
    let with = context! {
        runs, tags, gateways, typed,
        narrow => typed.is_narrow(),
        total => listing.total,
        all => listing.all,
        pending => listing.pending,
        next => (next < listing.total && !listing.runs.is_empty()).then_some(next),
        root => app.root().display().to_string(),
    };
    filled(&app, "list.html", "runs", with)
}
