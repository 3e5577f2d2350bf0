//! Templates: placeholders that make requests different from each other.
//!
//! | template | expands to |
//! | --- | --- |
//! | `{{seq}}` | the number of the request, unique within the load |
//! | `{{uuid}}` | a random UUID (version 4, RFC 9562), different in each place |
//! | `{{random LOW HIGH}}` | a random whole number from LOW to HIGH (both included), different in each place |
//! | `{{line FILE}}` | a line of the file: each request uses the next line, and the first line follows the last |
//! | `{{line FILE COLUMN}}` | a column of that line, counted from 1: columns are separated by commas, in `.tsv` files by tabs |
//! | `{{base64 TEXT}}` | the text in base64 (RFC 4648 §4, with padding); the text can contain templates |
//! | `\{{` | a literal `{{`; inside `base64`, `\}}` is a literal `}}` |
//!
//! Within one request, a number or line never changes: `{{seq}}` in the path equals `{{seq}}` in the body,
//! and `{{line FILE}}` in the path equals `{{line FILE}}` in the body. Worker `w` of `n` uses the numbers and
//! lines `w`, `w + n`, `w + 2n` and so on. All workers together therefore count without gaps, and read each
//! file from its beginning. A request advances only the numbers and lines that it uses. The warm-up also
//! advances them, so that the measured time does not repeat the requests of the warm-up.
//!
//! Columns of one file always come from the same line. A column can be in double quotes (RFC 4180).
//!
//! Spaces next to the braces, and at the ends of the text in `base64`, are ignored. A byte order mark at
//! the beginning of a file and blank lines at its end are also ignored.
//!
//! An expanded template is always valid in its place. Every line of a file is checked in advance, and all
//! other templates produce only characters that are allowed everywhere.

mod check;
mod error;
mod expand;
mod files;
mod parse;
mod place;
#[cfg(test)]
mod tests;

pub use check::{check, files_named, unequal_files};
pub use error::TemplateError;
pub use expand::{Program, Usage, Values, push_decimal};
pub use files::{Files, Source};
pub use parse::sources_in;
pub use place::Place;
