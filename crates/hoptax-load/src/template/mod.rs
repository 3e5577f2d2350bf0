//! Templates: requests that differ from one another.
//!
//! | template | stands for |
//! | --- | --- |
//! | `{{seq}}` | the request's number: no two requests of a load have the same one |
//! | `{{uuid}}` | a random UUID (version 4, RFC 9562), another one at each place |
//! | `{{random LOW HIGH}}` | a random whole number, ends included, another one at each place |
//! | `{{line FILE}}` | a line of that file, the next one for each request, from the beginning again after the last |
//! | `{{base64 TEXT}}` | the text in base64 (RFC 4648 §4, with padding); templates may stand in it |
//! | `\{{` | `{{` itself; and within `base64`, `\}}` is `}}` itself |
//!
//! Numbers and lines hold for a whole request: `{{seq}}` in its path and `{{seq}}` in its body are the same, and so are
//! two times `{{line FILE}}` of the same file. Worker `w` of `n` takes the numbers, and the lines, `w`, `w + n`,
//! `w + 2n`, …, so that all workers together count without a gap and walk each file from its beginning. A request that
//! does not ask for a number or a line takes none. The warm-up takes numbers and lines too, so that nothing is sent twice.
//!
//! Blanks next to the braces, and at the ends of what `base64` encodes, have no meaning. Blank lines at the end of a file
//! are no lines.
//!
//! Whatever a template stands for cannot break out of its place: every line of a file is looked at beforehand, and the
//! other templates have no character that any place would not take.

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
pub(crate) use expand::{Program, Takes, Values, push_decimal};
pub(crate) use files::Files;
pub(crate) use parse::names_in;
pub use place::Place;
