//! Templates: placeholders that make requests differ.
//!
//! | template | expands to |
//! | --- | --- |
//! | `{{seq}}` | the request's number, unique within the load |
//! | `{{uuid}}` | a random UUID (version 4, RFC 9562), different at each place |
//! | `{{random LOW HIGH}}` | a random whole number, bounds included, different at each place |
//! | `{{line FILE}}` | a line of the file: the next line for each request, from the first again after the last |
//! | `{{base64 TEXT}}` | the text in base64 (RFC 4648 §4, with padding); the text can contain templates |
//! | `\{{` | a literal `{{`; inside `base64`, `\}}` is a literal `}}` |
//!
//! A number or line is the same throughout a request: `{{seq}}` in the path equals `{{seq}}` in the body, and so does
//! `{{line FILE}}` of the same file. Worker `w` of `n` uses the numbers and lines `w`, `w + n`, `w + 2n`, …, so that
//! all workers together count without a gap and read each file from its beginning. A request that uses no number or
//! line does not advance the counters. The warm-up advances them, so that nothing is sent twice.
//!
//! Spaces next to the braces, and at the ends of the text in `base64`, are ignored. Blank lines at the end of a file
//! are ignored.
//!
//! An expanded template never breaks the syntax of its place: every line of a file is checked in advance, and the
//! other templates produce only characters that are allowed everywhere.

mod check;
mod error;
mod expand;
mod files;
mod parse;
mod place;
#[cfg(test)]
mod tests;

pub use check::{check, files_named};
pub use error::TemplateError;
pub(crate) use expand::{Program, Usage, Values, push_decimal};
pub(crate) use files::Files;
pub(crate) use parse::names_in;
pub use place::Place;
