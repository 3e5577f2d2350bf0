//! The model as JSON: the stable interface, described in `docs/reference/json.md`.

use super::Model;

/// The model as indented JSON, with a newline at its end.
pub fn json(model: &Model) -> String {
    let mut text = serde_json::to_string_pretty(model).expect("the model has only string keys");
    text.push('\n');
    text
}
