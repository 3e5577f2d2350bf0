//! The report as JSON. This is a stable interface; `docs/reference/json.md` describes it.

use crate::model::Model;

/// The report as indented JSON that ends with a newline.
pub fn json(model: &Model) -> String {
    let mut text = serde_json::to_string_pretty(&model.report).expect("the document has only string keys");
    text.push('\n');
    text
}
