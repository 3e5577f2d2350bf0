//! The report as JSON: the stable interface, described in `docs/reference/json.md`.

use super::document::report;
use super::model::Model;

/// The report as indented JSON, with a newline at its end.
pub fn json(model: &Model) -> String {
    let mut text = serde_json::to_string_pretty(&report(model)).expect("the document has only string keys");
    text.push('\n');
    text
}
