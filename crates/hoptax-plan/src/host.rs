//! The commands that reach the hosts of a plan.

use crate::{HostKind, Pods};

/// Options of `ssh`. They replace what the user's configuration says about the same subject.
///
/// Standard input and output carry messages, so there is no terminal, and nothing asks for a password. A host
/// that does not answer is an error after 10 s. A connection that breaks is an error within 12 s, even if
/// nothing is sent. No process of `ssh` remains in the background, and no ports are forwarded.
const SSH_OPTIONS: &str = "-T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 \
    -o ServerAliveCountMax=3 -o ControlMaster=no -o ClearAllForwardings=yes";

/// For each machine of the host, the words that must precede a command to run it there. The list of words is
/// empty for the local machine. Machines that are not known yet are left out: see [`HostKind::is_known`]. The
/// standard input and output of the whole command belong to the command on the host.
///
/// `ssh` joins the words after its own with spaces, and a shell on the host splits them again. `docker`,
/// `kubectl` and most other commands pass the words on as they are. So all words of the command must satisfy
/// [`is_plain_word`]: such words mean the same to a shell and to other commands.
pub fn commands(kind: &HostKind) -> Vec<Vec<String>> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    match kind {
        HostKind::Local => vec![Vec::new()],
        HostKind::Ssh(names) => {
            let words = |name: &String| {
                let options = SSH_OPTIONS.split(' ').map(str::to_owned);
                owned(&["ssh"]).into_iter().chain(options).chain([name.clone(), "--".to_owned()]).collect()
            };
            names.iter().map(words).collect()
        }
        HostKind::Command(words) => vec![words.clone()],
        HostKind::Commands(commands) => commands.clone(),
        HostKind::Docker(container) => vec![owned(&["docker", "exec", "-i", container])],
        HostKind::Kubernetes(Pods { pods, container, namespace, context }) => {
            let of = |pod: &String| {
                let mut words = kubectl(context.as_deref(), namespace.as_deref());
                // Without `--quiet`, kubectl prints a line about the container that it chooses.
                words.extend(owned(&["exec", "--quiet", "-i", pod]));
                words.extend(container.iter().map(|name| format!("--container={name}")));
                words.push("--".to_owned());
                words
            };
            pods.iter().map(of).collect()
        }
        HostKind::Terraform(_) | HostKind::Workload(_) => Vec::new(),
    }
}

/// A command as messages show it: without the options that hoptax adds for `ssh`. Users can still run the
/// shown command in a terminal.
pub fn shown_words(words: &[String]) -> Vec<String> {
    let options: Vec<&str> = SSH_OPTIONS.split(' ').collect();
    let is_ours = words.first().is_some_and(|first| first == "ssh")
        && words.len() > options.len() + 1
        && words[1..].iter().zip(&options).all(|(word, option)| word == option);
    if !is_ours {
        return words.to_vec();
    }
    let rest = words[options.len() + 1..].iter().filter(|word| *word != "--");
    words[..1].iter().chain(rest).cloned().collect()
}

/// The command `kubectl` with options for a context and a namespace. If one is absent, `kubectl` uses the
/// user's configuration.
pub fn kubectl(context: Option<&str>, namespace: Option<&str>) -> Vec<String> {
    let options = [("context", context), ("namespace", namespace)];
    let options = options.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value?)));
    std::iter::once("kubectl".to_owned()).chain(options).collect()
}

/// True if every shell reads `word` as one word and does not change it, and `word` does not look like an
/// option.
pub fn is_plain_word(word: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:@%+,-".contains(letter);
    !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn each_kind_has_its_command() {
        let ssh = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 -o \
                   ServerAliveCountMax=3 -o ControlMaster=no -o ClearAllForwardings=yes";
        let pod = |container: Option<&str>, namespace: Option<&str>, context: Option<&str>| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            HostKind::Kubernetes(Pods {
                pods: vec!["edge-0".to_owned()],
                container: owned(container),
                namespace: owned(namespace),
                context: owned(context),
            })
        };
        for (kind, expected) in [
            (HostKind::Local, vec![String::new()]),
            (HostKind::Ssh(words("a root@b")), vec![format!("{ssh} a --"), format!("{ssh} root@b --")]),
            (HostKind::Command(words("ip netns exec app")), vec!["ip netns exec app".to_owned()]),
            (
                HostKind::Commands(vec![words("ip netns exec a"), words("env")]),
                vec!["ip netns exec a".to_owned(), "env".to_owned()],
            ),
            (HostKind::Docker("edge".to_owned()), vec!["docker exec -i edge".to_owned()]),
            (pod(None, None, None), vec!["kubectl exec --quiet -i edge-0 --".to_owned()]),
            (
                pod(Some("proxy"), Some("mesh"), Some("kind@home")),
                vec![
                    "kubectl --context=kind@home --namespace=mesh exec --quiet -i edge-0 --container=proxy --"
                        .to_owned(),
                ],
            ),
        ] {
            let command = commands(&kind);
            assert_eq!(command.len(), kind.machines());
            assert_eq!(command, expected.iter().map(|text| words(text)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn messages_show_commands_without_the_options() {
        let edge = commands(&HostKind::Ssh(vec!["edge".to_owned()])).remove(0);
        let agent = [edge, words("/opt/hoptax agent")].concat();
        assert_eq!(shown_words(&agent), words("ssh edge /opt/hoptax agent"));
        for other in ["ssh -p 22 edge hoptax agent", "ip netns exec app hoptax agent", "ssh"] {
            assert_eq!(shown_words(&words(other)), words(other));
        }
    }

    #[test]
    fn a_shell_does_not_change_plain_words() {
        for word in ["hoptax", "/opt/hoptax-1.2/bin/hoptax", "C+_@%,:.a"] {
            assert!(is_plain_word(word), "{word}");
            let echo = Command::new("sh").args(["-c", &format!("printf '<%s>' {word}")]).output();
            assert_eq!(String::from_utf8_lossy(&echo.expect("a shell").stdout), format!("<{word}>"));
        }
        for word in ["", "-x", "a b", "~/hoptax", "$HOME", "a;b", "a'b", "a*", "a=b", "é", "a\n"] {
            assert!(!is_plain_word(word), "{word}");
        }
    }
}
