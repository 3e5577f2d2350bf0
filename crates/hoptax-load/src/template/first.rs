//! A request on its own: what templates stand for outside of any load.

use super::expand::{Files, Program, Values, names};
use super::{Place, TemplateError};
use std::collections::BTreeMap;

/// What `text` stands for in the first request of a load of one worker: for asking once, before anything is timed.
///
/// # Errors
/// As [`super::check`].
pub fn first(
    text: &str,
    place: Place,
    files: &BTreeMap<String, String>,
    seed: u64,
) -> Result<Vec<u8>, TemplateError> {
    let files = Files::new(files, &names(text));
    let mut program = Program::default();
    program.push_template(text, place, &files)?;
    let mut bytes = Vec::new();
    program.write(&mut Values::new(&files, (0, 1), seed), &mut bytes);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stands_for_what_the_first_request_has() {
        let files = BTreeMap::from([("names.txt".to_owned(), "ann\nbob\n".to_owned())]);
        let bytes = first("/{{seq}}/{{line names.txt}}?{{random 3 3}}", Place::Path, &files, 1);
        assert_eq!(bytes.expect("a good template"), b"/0/ann?3");
        first("/{{line other.txt}}", Place::Path, &files, 1).expect_err("no such file");
    }
}
