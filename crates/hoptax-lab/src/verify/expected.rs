//! Compares a response with the checks of its target.

use super::{Answer, translation};
use hoptax_format::grpc::{self, Status};
use hoptax_format::spec::Check;
use hoptax_wire::grpc::STATUS;

/// Describes the first check that `answer` fails; `None` if it passes all checks.
pub(super) fn unmet(checks: &[Check], answer: &Answer) -> Option<String> {
    checks.iter().find_map(|check| match check {
        Check::Status(ranges) => {
            (!ranges.iter().any(|(least, most)| (*least..=*most).contains(&answer.status)))
                .then(|| wrong_status(answer.status, ranges))
        }
        Check::BodyContains(text) => {
            (!contains(&answer.body, text.as_bytes())).then(|| format!("the body does not contain `{text}`"))
        }
        Check::BodyEquals(text) => {
            (answer.body != text.as_bytes()).then(|| format!("the body is not `{text}`"))
        }
        Check::BodyLength { least, most } => (!(*least..=*most).contains(&(answer.body.len() as u64)))
            .then(|| format!("the body has {} bytes", answer.body.len())),
        Check::Header { name, value } => header(name, value.as_deref(), answer),
        Check::Grpc(statuses) => wrong_call(call_status(answer), statuses),
    })
}

fn wrong_status(status: u16, expected: &[(u16, u16)]) -> String {
    let range = |(least, most): &(u16, u16)| match least == most {
        true => least.to_string(),
        false => format!("{least}-{most}"),
    };
    let expected: Vec<String> = expected.iter().map(range).collect();
    format!(
        "status {status} instead of {}. If {status} is right, add expect: {{ status: {status} }} to the \
        target",
        expected.join(", ")
    )
}

/// The status of the gRPC call that `answer` answers.
pub(super) fn call_status(answer: &Answer) -> Status {
    let of_web = translation::web_status(answer);
    let value = of_web.as_ref().or_else(|| answer.headers.get(STATUS));
    grpc::status_of(value.map(String::as_bytes), answer.status)
}

fn wrong_call(found: Status, expected: &[Status]) -> Option<String> {
    if expected.contains(&found) {
        return None;
    }
    let names: Vec<&str> = expected.iter().map(|status| status.name()).collect();
    Some(format!("{}{} instead of {}", grpc::FAILED, found.name(), names.join(", ")))
}

fn header(name: &str, value: Option<&str>, answer: &Answer) -> Option<String> {
    let found = answer.headers.get(&name.to_ascii_lowercase());
    match (found, value) {
        (None, _) => Some(format!("there is no header `{name}`")),
        (Some(found), Some(value)) if found != value => {
            Some(format!("header `{name}` is `{found}` instead of `{value}`"))
        }
        _ => None,
    }
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    part.is_empty() || body.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_check_is_described() {
        let answer = Answer {
            status: 404,
            headers: [("etag".to_owned(), "\"x\"".to_owned())].into(),
            body: b"hello".to_vec(),
        };
        let header = |name: &str, value: Option<&str>| Check::Header {
            name: name.into(),
            value: value.map(str::to_owned),
        };
        for met in [
            Check::Status(vec![(200, 204), (404, 404)]),
            Check::BodyContains("ell".into()),
            Check::BodyEquals("hello".into()),
            Check::BodyLength { least: 5, most: 5 },
            header("ETag", None),
            header("ETag", Some("\"x\"")),
        ] {
            assert_eq!(unmet(&[met], &answer), None);
        }
        let told = [
            Check::Status(vec![(200, 204), (301, 301)]),
            Check::BodyContains("help".into()),
            Check::BodyEquals("hell".into()),
            Check::BodyLength { least: 6, most: 9 },
            header("age", None),
            header("etag", Some("y")),
        ]
        .map(|check| unmet(&[Check::Status(vec![(404, 404)]), check], &answer).expect("not met"));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn the_status_of_a_call_is_read_or_mapped() {
        let answer = |status, headers: &[(&str, &str)]| Answer {
            status,
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ..Answer::default()
        };
        let ok = [Check::Grpc(vec![Status::Ok])];
        assert_eq!(unmet(&ok, &answer(200, &[("grpc-status", "0")])), None);
        let both = [Check::Grpc(vec![Status::Ok, Status::Unavailable])];
        assert_eq!(unmet(&both, &answer(503, &[])), None);
        let web = |body: &[u8]| Answer {
            body: body.to_vec(),
            ..answer(200, &[("content-type", "application/grpc-web+proto")])
        };
        assert_eq!(unmet(&ok, &web(b"\x80\0\0\0\x0fgrpc-status:0\r\n")), None);
        let lost = [answer(200, &[]), web(b"")].map(|lost| unmet(&ok, &lost).expect("lost"));
        insta::assert_snapshot!(lost.join("\n"));
    }
}
