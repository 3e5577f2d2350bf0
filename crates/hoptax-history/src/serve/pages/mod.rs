//! The server's pages: templates that are filled from the history. Without scripts, the pages show everything
//! except charts. Scripts add charts and search as you type. They also let the user change tags and notes,
//! and delete runs.

pub(super) mod compare;
pub(super) mod list;
pub(super) mod live;
pub(super) mod run;
pub(super) mod template;
pub(super) mod trends;

use super::app::App;
use super::assets::ADDRESSES;
use crate as history;
use crate::live::Stage;
use axum::response::{Html, IntoResponse as _};
use minijinja::{Value, context};
use template::{Page, draw};

/// Maximum number of characters of a note that are shown in a list.
const OF_A_NOTE: usize = 200;

/// Fills a template; `here` is the page's name in the navigation.
fn filled(app: &App, template: &str, here: &str, with: Value) -> Page {
    // A run that has ended is no longer marked as in progress.
    let run = app.live().filter(|state| state.stage != Stage::Ended);
    let (under_way, read_only) = (app.is_under_way(), app.guard.is_read_only());
    let common = context! { here, under_way, run_under_way => run, read_only, assets => &*ADDRESSES, version => env!("CARGO_PKG_VERSION") };
    Ok(Html(draw(template, context! { ..with, ..common })?).into_response())
}

/// The values of a run that lists and headings show.
fn shown(entry: &history::Entry) -> Value {
    let state = match entry.state {
        history::State::Whole => None,
        history::State::Running => Some("running"),
        history::State::Interrupted => Some("interrupted"),
        history::State::Damaged => Some("damaged"),
        history::State::Broken => Some("broken"),
        history::State::Newer => Some("from a newer version"),
        history::State::Foreign => Some("not from hoptax"),
    };
    let verdict = entry.verdict.as_deref().map(|verdict| match verdict {
        "warnings" => "with warnings",
        other => other,
    });
    let readable =
        !matches!(entry.state, history::State::Broken | history::State::Newer | history::State::Foreign);
    let note: String = entry.note.chars().take(OF_A_NOTE).collect();
    let note = if note.len() < entry.note.len() { format!("{note} …") } else { note };
    context! { entry, state, verdict, readable, note }
}
