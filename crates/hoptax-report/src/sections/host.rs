//! Describes how suitable the host was for measurements. The host was checked before the first trial and
//! after the last trial.

use hoptax_record::report::HostLooks;
use hoptax_record::{Fitness, FitnessStatus};

/// Items that one of the two checks rated as bad or as a warning. Each item appears once, and the worst items
/// come first.
pub(crate) fn doubts(looks: &HostLooks) -> Vec<&Fitness> {
    let mut doubts: Vec<&Fitness> = Vec::new();
    for item in [&looks.at_start, &looks.at_end].into_iter().flatten().flat_map(|look| &look.items) {
        let doubted = matches!(item.status, FitnessStatus::Bad | FitnessStatus::Warning);
        if doubted && !doubts.iter().any(|known| known.name == item.name) {
            doubts.push(item);
        }
    }
    doubts.sort_by_key(|item| item.status);
    doubts
}

/// A sentence for the terminal. Empty if there are no problems.
pub(crate) fn sentence(looks: &HostLooks) -> String {
    let doubted = doubts(looks);
    if doubted.is_empty() {
        return String::new();
    }
    let each: Vec<String> = doubted.iter().map(|item| format!("{} ({})", item.name, item.seen)).collect();
    format!("Host not ideal: {}. Run `hoptax doctor` for advice.", each.join(", "))
}

/// A Markdown list. Empty if there are no problems. `safe` escapes text, so that it does not become markup.
pub(crate) fn markdown(looks: &HostLooks, safe: impl Fn(&str) -> String) -> String {
    let line = |item: &&Fitness| {
        let advice = item.advice.as_deref().unwrap_or("");
        format!(
            "- host: **{}** {}. {} *{}*\n",
            item.name,
            safe(&item.seen),
            safe(&item.message),
            safe(advice)
        )
    };
    doubts(looks).iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;
    use hoptax_record::HostLook;

    fn item(name: &str, status: FitnessStatus, seen: &str) -> Fitness {
        let (message, advice) = ("It matters.".into(), Some("Fix it.".into()));
        Fitness { name: name.into(), status, seen: seen.into(), message, advice }
    }

    #[test]
    fn doubts_of_both_checks_are_listed_once_worst_first() {
        let mut run = sample();
        let look = |items| Some(HostLook { at_unix_ns: 1, items });
        let governor = item("governor", FitnessStatus::Warning, "<powersave>");
        run.record.host_at_start = look(vec![item("cpus", FitnessStatus::Good, "8"), governor.clone()]);
        run.record.host_at_end = look(vec![governor, item("memory", FitnessStatus::Bad, "1 MiB")]);
        let model = run.model();
        let names: Vec<&str> = doubts(&model.host).iter().map(|item| &*item.name).collect();
        assert_eq!(names, ["memory", "governor"]);
        let terminal = crate::terminal(&model, 80, false);
        let line = "Host not ideal: memory (1 MiB), governor (<powersave>).";
        assert!(terminal.contains(line), "{terminal}");
        let page = crate::markdown(&model);
        assert!(page.contains("- host: **memory** 1 MiB. "), "{page}");
        let html = crate::html(&model).expect("drawn");
        assert!(html.contains("&lt;powersave&gt;") && !html.contains("<powersave>"));
        let json: serde_json::Value = serde_json::from_str(&crate::json(&model)).expect("JSON");
        assert_eq!(json["host"]["at_end"]["items"][1]["status"], "bad");
    }

    #[test]
    fn older_runs_have_no_line_about_the_host() {
        let model = sample().model();
        assert_eq!(sentence(&model.host), "");
        assert_eq!(markdown(&model.host, str::to_owned), "");
    }
}
