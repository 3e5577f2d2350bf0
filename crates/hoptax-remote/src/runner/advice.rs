//! What to try if the command of a host does not lead to an agent.

use std::path::Path;

/// Exit code of ssh if it cannot connect or log in.
const SSH_FAILED: i32 = 255;
/// Exit code of a shell that does not find a command.
const NOT_FOUND: i32 = 127;
/// Exit code of a shell that cannot execute a command.
const NOT_EXECUTABLE: i32 = 126;

/// What to try after this command has ended with this code. The code is absent if a signal ended it, or it
/// has not ended.
pub(super) fn after(command: &[String], code: Option<i32>) -> String {
    let name = |word: &String| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    let at = command.iter().rposition(|word| name(word).is_some_and(|name| name.starts_with("hoptax")));
    let (prefix, program) = match at {
        Some(at) => (&command[..at], command[at].as_str()),
        None => (command, "hoptax"),
    };
    let with = |last: &str| {
        let words: Vec<&str> = prefix.iter().map(String::as_str).chain([last]).collect();
        words.join(" ")
    };
    let is_ssh = prefix.first().and_then(name).is_some_and(|name| name == "ssh");
    match code {
        Some(SSH_FAILED) if is_ssh => format!("Check that `{}` works without a password", with("true")),
        Some(NOT_FOUND) => {
            format!("Install hoptax on this host, or write the full path instead of `{program}`")
        }
        Some(NOT_EXECUTABLE) => format!(
            "Check that `{program}` can be executed on this host: it may be built for another architecture \
            or C library"
        ),
        Some(_) => format!("Check that `{}` prints a version", with(&format!("{program} --version"))),
        None => format!("Check that the host is up, and that `{}` works", with("true")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_a_command_that_can_be_tried() {
        let told = [
            ("ssh edge hoptax agent", Some(255)),
            ("ssh -p 22 edge /opt/hoptax-1 agent", Some(127)),
            ("ip netns exec app hoptax agent", Some(255)),
            ("hoptax agent", Some(126)),
            ("hoptax agent", Some(2)),
            ("ssh edge hoptax agent", None),
            ("my-wrapper edge", Some(1)),
        ]
        .map(|(command, code)| {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            format!("{command}, {code:?}\n    {}\n", after(&words, code))
        });
        insta::assert_snapshot!(told.concat());
    }
}
