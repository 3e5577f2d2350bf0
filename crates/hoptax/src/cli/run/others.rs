//! Other processes of hoptax that measure on this machine at the same time.

use std::fs;
use std::path::Path;

/// Verbs that send load.
const VERBS: [&str; 5] = ["run", "profile", "bisect", "calibrate", "load"];

/// A warning for each other `hoptax` that measures on this machine. `proc` is `/proc`, and `own` is the id of
/// this process.
pub(super) fn warnings(proc: &Path, own: u32) -> Vec<String> {
    let ancestors = ancestors(proc, own);
    let mut found: Vec<(u32, String)> = fs::read_dir(proc)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| !ancestors.contains(pid))
        .filter_map(|pid| Some((pid, measuring(proc, pid)?)))
        .collect();
    found.sort_unstable();
    let words = |(pid, command): (u32, String)| {
        format!(
            "process {pid} measures on this machine too: `{command}`. Each run then measures the other's \
             load. Stop one of them, or wait until it has ended"
        )
    };
    found.into_iter().map(words).collect()
}

/// The command line of a process if it is a `hoptax` that measures. A generator with `--spec` does not count,
/// because it is a part of a run.
fn measuring(proc: &Path, pid: u32) -> Option<String> {
    let line = fs::read(proc.join(pid.to_string()).join("cmdline")).ok()?;
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let is_hoptax = Path::new(words.first()?).file_name().is_some_and(|name| name == "hoptax");
    let measures = VERBS.contains(&words.get(1)?.as_str()) && !words.iter().any(|word| word == "--spec");
    (is_hoptax && measures).then(|| format!("hoptax {}", words[1..].join(" ").trim_end()))
}

/// This process, and the processes that started it. For example, `hoptax bisect` starts runs.
fn ancestors(proc: &Path, own: u32) -> Vec<u32> {
    let mut found = vec![own];
    while let Some(parent) = parent(proc, found[found.len() - 1]).filter(|parent| !found.contains(parent)) {
        found.push(parent);
    }
    found
}

/// The fourth field of `/proc/PID/stat`. The second field is the name. It is in parentheses and may contain
/// spaces.
fn parent(proc: &Path, pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_runs_are_named_and_own_processes_are_not() {
        let proc = tempfile::tempdir().expect("a directory");
        for (pid, parent, command) in [
            (100, 1, "/usr/bin/hoptax\0run\0other.yaml\0"),
            (101, 100, "/usr/bin/hoptax\0load\0--spec\0-\0"),
            (102, 1, "hoptax\0load\0-c\08\0http://127.0.0.1:1/\0"),
            (103, 1, "hoptax\0serve\0"),
            (104, 1, "vim\0run\0hoptax\0"),
            (200, 1, "hoptax\0bisect\0plan.yaml\0"),
            (201, 200, "hoptax\0run\0mine.yaml\0"),
        ] {
            let dir = proc.path().join(pid.to_string());
            fs::create_dir(&dir).expect("made");
            fs::write(dir.join("cmdline"), command).expect("written");
            fs::write(dir.join("stat"), format!("{pid} (a ) b) S {parent} 1 1")).expect("written");
        }
        let found = warnings(proc.path(), 201);
        assert_eq!(found.len(), 2, "{found:?}");
        insta::assert_snapshot!(found.join("\n"));
    }
}
