//! Validation of the checks of responses.

use crate::field::{is_field_value, is_token};
use crate::spec::Check;

/// Reason why a check is invalid: no response could pass it, or it cannot be executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct CheckError {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

/// Valid status codes of final responses (RFC 9110 §15).
const STATUSES: std::ops::RangeInclusive<u16> = 200..=999;
/// Status of the answer to an accepted handshake of a WebSocket. Other 1xx responses are not final.
const SWITCHED: u16 = 101;

/// Validates a check: it must be executable, and at least one response must be able to pass it.
///
/// # Errors
/// If a status is invalid, if a range of statuses or lengths is reversed, if a text to find is empty, or if a
/// header is invalid.
pub fn check(check: &Check) -> Result<(), CheckError> {
    let wrong = |message: String, help: &str| Err(CheckError { message, help: help.to_owned() });
    match check {
        Check::Status(ranges) if ranges.is_empty() => {
            wrong("a status check accepts no status".into(), "give at least one")
        }
        Check::Status(ranges) => {
            for (low, high) in ranges {
                for status in [low, high] {
                    if !STATUSES.contains(status) && *status != SWITCHED {
                        let help = "use 200 to 599, at most 999";
                        return wrong(format!("{status} is not the status of a response"), help);
                    }
                }
                if low > high {
                    return wrong(
                        format!("the range of statuses {low} to {high} is empty"),
                        "put the lower number first",
                    );
                }
            }
            Ok(())
        }
        Check::BodyContains(text) if text.is_empty() => wrong(
            "every body contains an empty text".into(),
            "give the text that the body must contain, or leave the check out",
        ),
        Check::BodyContains(text) | Check::BodyEquals(text) if text.len() >= u32::MAX as usize => {
            wrong("the text of a check is 4 GiB or longer".into(), "check the body's length instead")
        }
        Check::BodyLength { least, most } if least > most => wrong(
            format!("no body is at least {least} and at most {most} bytes long"),
            "put the lower number first",
        ),
        Check::Header { name, .. } if !is_token(name) => {
            wrong(format!("{name:?} is not a header name"), "use letters, digits and !#$%&'*+-.^_`|~")
        }
        Check::Header { name, value: Some(value) } if !is_field_value(value) => wrong(
            format!("header {name} cannot have the value {value:?}"),
            "a value has no control characters, and no spaces or tabs at its ends",
        ),
        Check::Grpc(statuses) if statuses.is_empty() => {
            wrong("a check of the gRPC status accepts no status".into(), "give at least one, such as OK")
        }
        Check::BodyContains(_)
        | Check::BodyEquals(_)
        | Check::BodyLength { .. }
        | Check::Header { .. }
        | Check::Grpc(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: Option<&str>) -> Check {
        Check::Header { name: name.into(), value: value.map(str::to_owned) }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no snapshots")]
    fn refuses_checks_that_no_response_could_pass() {
        let told = [
            Check::Status(vec![]),
            Check::Status(vec![(200, 200), (42, 42)]),
            Check::Status(vec![(100, 200)]),
            Check::Status(vec![(200, 1000)]),
            Check::Status(vec![(299, 200)]),
            Check::BodyContains(String::new()),
            Check::Grpc(vec![]),
            Check::BodyLength { least: 5, most: 4 },
            header("a b", None),
            header("etag", Some("x\ny")),
            header("etag", Some(" x")),
        ]
        .map(|bad| format!("{bad:?}\n    {}\n", check(&bad).expect_err("wrong")))
        .concat();
        insta::assert_snapshot!(told);
    }

    #[test]
    fn accepts_checks_that_a_response_could_pass() {
        for good in [
            Check::Status(vec![(200, 200), (404, 499)]),
            Check::BodyContains("x".into()),
            Check::BodyEquals(String::new()),
            Check::BodyLength { least: 5, most: 5 },
            header("ETag", None),
            header("etag", Some("")),
        ] {
            assert_eq!(check(&good), Ok(()), "{good:?}");
        }
    }
}
