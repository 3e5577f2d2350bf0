//! The hosts of a plan, and the commands that reach them.

use hoptax_record::plan::{LOCAL, Pods, Terraform, Workload, WorkloadKind};
use std::net::IpAddr;

/// A host of a plan: one machine, or several machines with the same role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Unique name in this plan. [`LOCAL`] is the machine that runs hoptax.
    pub name: String,
    /// How hoptax reaches the host.
    pub kind: HostKind,
    /// IP address at which the other hosts reach it. If roles are on several hosts, each host on which hoptax
    /// starts a gateway or an upstream has one.
    pub address: Option<IpAddr>,
    /// Path of the program hoptax on the host. It satisfies [`is_plain_word`]. `None` if hoptax copies itself
    /// there.
    pub hoptax: Option<String>,
}

impl Host {
    /// The machine that runs hoptax, without an address.
    pub fn local() -> Self {
        Self { name: LOCAL.to_owned(), kind: HostKind::Local, address: None, hoptax: None }
    }

    /// The command that reaches each machine of this host: see [`HostKind::command`].
    pub fn command(&self) -> Vec<Vec<String>> {
        self.kind.command()
    }

    /// The name of each machine of this host. A single machine has the name of the host. Several are numbered
    /// from 1: `clients-1`, `clients-2`.
    pub fn machine_names(&self) -> Vec<String> {
        match self.kind.machines() {
            1 => vec![self.name.clone()],
            several => (1..=several).map(|number| format!("{}-{number}", self.name)).collect(),
        }
    }
}

/// How hoptax reaches a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKind {
    /// The machine that runs hoptax.
    Local,
    /// One or more machines, by the names that the user's `ssh` knows.
    Ssh(Vec<String>),
    /// Words of a command that runs the words after them on the host, such as `ip netns exec app`.
    Command(Vec<String>),
    /// One or more machines: the words of such a command for each.
    Commands(Vec<Vec<String>>),
    /// Name or id of a running container.
    Docker(String),
    /// A container of one or more running pods.
    Kubernetes(Pods),
    /// Machines of a Terraform configuration. hoptax looks them up before a run.
    Terraform(Terraform),
    /// Pods that hoptax creates before a run.
    Workload(Workload),
}

/// Options of `ssh`. They replace what the user's configuration says about the same subject.
///
/// Standard input and output carry messages, so there is no terminal, and nothing asks for a password. A host
/// that does not answer is an error after 10 s. A connection that breaks is an error within 12 s, even if
/// nothing is sent. No process of `ssh` remains in the background, and no ports are forwarded.
const SSH_OPTIONS: [&str; 13] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=3",
    "-o",
    "ServerAliveCountMax=3",
    "-o",
    "ControlMaster=no",
    "-o",
    "ClearAllForwardings=yes",
];

impl HostKind {
    /// For each machine of the host, the words to put before the words of a command that runs there. For the
    /// local machine there are none. Machines that are not known yet have no commands: see
    /// [`Self::is_known`]. Standard input and output of the whole command are those of the command on the
    /// host.
    ///
    /// `ssh` joins the words after its own with spaces, and a shell on the host splits them again. `docker`,
    /// `kubectl` and most other commands pass the words on as they are. So all words of the command must
    /// satisfy [`is_plain_word`]: such words mean the same to both.
    pub fn command(&self) -> Vec<Vec<String>> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        match self {
            Self::Local => vec![Vec::new()],
            Self::Ssh(names) => {
                let words = |name: &String| {
                    let options = SSH_OPTIONS.map(str::to_owned);
                    owned(&["ssh"])
                        .into_iter()
                        .chain(options)
                        .chain([name.clone(), "--".to_owned()])
                        .collect()
                };
                names.iter().map(words).collect()
            }
            Self::Command(words) => vec![words.clone()],
            Self::Commands(commands) => commands.clone(),
            Self::Docker(container) => vec![owned(&["docker", "exec", "-i", container])],
            Self::Kubernetes(Pods { pods, container, namespace, context }) => {
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
            Self::Terraform(_) | Self::Workload(_) => Vec::new(),
        }
    }

    /// Number of machines. Machines of Terraform count as one until they are known.
    pub fn machines(&self) -> usize {
        match self {
            Self::Ssh(names) => names.len(),
            Self::Commands(commands) => commands.len(),
            Self::Kubernetes(pods) => pods.pods.len(),
            Self::Workload(Workload { kind: WorkloadKind::Job { parallelism }, .. }) => *parallelism as usize,
            _ => 1,
        }
    }

    /// False if hoptax must first look up the machines, or create them.
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Terraform(_) | Self::Workload(_))
    }

    /// Whether hoptax finds the address of the host itself.
    pub fn has_own_address(&self) -> bool {
        match self {
            Self::Terraform(terraform) => terraform.address.is_some(),
            Self::Workload(_) => self.machines() == 1,
            _ => false,
        }
    }
}

/// A command as messages show it: without the options that hoptax adds for `ssh`. What this does not change
/// in a terminal is whether the command works.
pub fn shown_words(words: &[String]) -> Vec<String> {
    let is_ours = words.first().is_some_and(|first| first == "ssh")
        && words.len() > SSH_OPTIONS.len() + 1
        && words[1..].iter().zip(SSH_OPTIONS).all(|(word, option)| word == option);
    if !is_ours {
        return words.to_vec();
    }
    let rest = words[SSH_OPTIONS.len() + 1..].iter().filter(|word| *word != "--");
    words[..1].iter().chain(rest).cloned().collect()
}

/// The user's `kubectl` for a namespace that a context leads to. What is absent is left to its configuration.
pub fn kubectl(context: Option<&str>, namespace: Option<&str>) -> Vec<String> {
    let options = [("context", context), ("namespace", namespace)];
    let options = options.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value?)));
    std::iter::once("kubectl".to_owned()).chain(options).collect()
}

/// True if `word` is one word for every shell, and no shell changes it. It is not an option either.
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
            let command = kind.command();
            assert_eq!(command.len(), kind.machines());
            assert_eq!(command, expected.iter().map(|text| words(text)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn messages_show_commands_without_the_options() {
        let edge = HostKind::Ssh(vec!["edge".to_owned()]).command().remove(0);
        let agent = [edge, words("/opt/hoptax agent")].concat();
        assert_eq!(shown_words(&agent), words("ssh edge /opt/hoptax agent"));
        for other in ["ssh -p 22 edge hoptax agent", "ip netns exec app hoptax agent", "ssh"] {
            assert_eq!(shown_words(&words(other)), words(other));
        }
    }

    #[test]
    fn several_machines_are_numbered() {
        let of = |kind| Host { kind, ..Host { name: "clients".into(), ..Host::local() } }.machine_names();
        assert_eq!(of(HostKind::Ssh(words("a"))), ["clients"]);
        assert_eq!(of(HostKind::Ssh(words("a b"))), ["clients-1", "clients-2"]);
        assert_eq!(of(HostKind::Commands(vec![words("a"), words("b")])), ["clients-1", "clients-2"]);
        assert_eq!(Host::local().machine_names(), ["local"]);
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
