//! Constructors of the results of checks.

use super::host::Host;
use hoptax_record::{Fitness, FitnessStatus};

/// Files that exist only in a container: of Docker, of Podman, of Kubernetes.
const OF_CONTAINERS: [&str; 3] = [".dockerenv", "run/.containerenv", "var/run/secrets/kubernetes.io"];

/// Adapts advice with `sudo` to this user: root needs no `sudo`, and a container cannot change the settings
/// of its kernel.
pub(super) fn for_this_user(item: &mut Fitness, host: &Host) {
    let Some(advice) = item.advice.as_mut().filter(|advice| advice.contains("sudo ")) else { return };
    if OF_CONTAINERS.iter().any(|file| host.root.join(file).exists()) {
        *advice = format!("On the machine that runs this container: {advice}");
    } else if host.is_root {
        *advice = advice.replace("sudo ", "");
    }
}

pub(super) fn good(name: &str, seen: impl Into<String>) -> Fitness {
    let (name, seen) = (name.to_owned(), seen.into());
    Fitness { name, status: FitnessStatus::Good, seen, message: String::new(), advice: None }
}

pub(super) fn unknown(name: &str, why: impl Into<String>) -> Fitness {
    let (name, message) = (name.to_owned(), why.into());
    Fitness { name, status: FitnessStatus::Unknown, seen: "unknown".into(), message, advice: None }
}

pub(super) fn doubt(
    name: &str,
    status: FitnessStatus,
    seen: impl Into<String>,
    message: impl Into<String>,
    advice: impl Into<String>,
) -> Fitness {
    let (name, seen, message) = (name.to_owned(), seen.into(), message.into());
    Fitness { name, status, seen, message, advice: Some(advice.into()) }
}

/// Returns the status `Bad` if the value exceeds the bound `bad`. Otherwise returns `Warning` if it exceeds
/// the bound `warning`, and `None` if it exceeds neither.
pub(super) fn graded(value: f64, warning: f64, bad: f64) -> Option<FitnessStatus> {
    if value > bad { Some(FitnessStatus::Bad) } else { (value > warning).then_some(FitnessStatus::Warning) }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
