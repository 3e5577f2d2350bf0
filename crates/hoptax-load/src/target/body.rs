//! Bodies with templates.

use super::error::{TargetError, TargetPart};
use hoptax_format::spec::TargetSpec;
use hoptax_format::template::{Files, Place, Program};

/// Compiles the body of a target that has templates.
pub(super) fn body_program(target: &TargetSpec, files: &Files<'_>) -> Result<Program, TargetError> {
    let text = std::str::from_utf8(&target.body).map_err(|error| TargetError {
        at: Some(error.valid_up_to()),
        ..TargetError::new(
            target,
            TargetPart::Body,
            "it is not UTF-8 text, so it cannot have templates",
            "send it as it is, without `body_is_template`",
        )
    })?;
    let mut body = Program::default();
    body.push_template(text, Place::Body, files)
        .map_err(|error| TargetError::template(target, TargetPart::Body, error))?;
    Ok(body)
}
