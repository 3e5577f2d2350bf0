//! The report as one page.

use super::Model;

/// Why the page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HtmlError {}

/// The page.
pub fn html(_model: &Model) -> Result<String, HtmlError> {
    Ok(String::new())
}
