//! The state of a search on disk. It is written after each measurement, so that a search can be interrupted
//! at any time.

use super::question::Question;
use anyhow::Context as _;
use hoptax_record::are_apart;
use hoptax_stats::{Estimate, Measured};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the file's format.
const SCHEMA: u32 = 1;

/// The file in the directory of a search.
const FILE: &str = "bisect.json";

/// What a search knows so far.
#[derive(Debug)]
pub(super) struct State {
    directory: PathBuf,
    kept: Kept,
    /// Number of measurements that earlier invocations made.
    earlier: usize,
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    schema: u32,
    measurements: Vec<Measurement>,
    skipped: Vec<Skipped>,
}

/// A commit that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Measurement {
    /// Full name of the commit.
    pub(super) commit: String,
    /// Figure of the commit − figure of the good commit, in the same rounds, with its 95 % interval.
    pub(super) difference: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) rounds: u32,
    /// Figure of the good commit.
    pub(super) good: f64,
    /// Name of the run's directory.
    pub(super) run: String,
    /// How far CPUs were from each other. Empty if it was not measured.
    #[serde(default)]
    pub(super) distances: Vec<Distance>,
}

/// How far two CPUs are from each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Distance {
    /// The two CPUs, the lower number first.
    pub(super) cpus: [u32; 2],
    /// Median time that a cache line takes from one CPU to the other and back, ns.
    pub(super) ns: f64,
}

impl Distance {
    /// True if the distance of the same two CPUs was clearly different in the other measurement, so the
    /// hypervisor has moved them.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        self.cpus == other.cpus && are_apart(self.ns, other.ns)
    }
}

impl Measurement {
    /// The measurement of the commit with this number, in the machine's state with this number. Starts of the
    /// processes shift the difference by `of_starts` (standard deviation), in addition to its interval.
    pub(super) fn weighed(&self, commit: usize, state: usize, of_starts: f64) -> Option<Measured> {
        let (low, high) = (Some(self.low), Some(self.high));
        let difference = Estimate { estimate: self.difference, low, high, trials: self.rounds };
        let one = Measured::new(commit, &difference, state)?;
        Some(Measured { error: one.error.hypot(of_starts), ..one })
    }

    /// True if the hypervisor has moved CPUs between the two measurements.
    fn is_apart(&self, other: &Self) -> bool {
        self.distances.iter().any(|one| other.distances.iter().any(|other| one.is_apart(other)))
    }
}

/// For each measurement, the number of the state that the machine was in. Two states differ in the placement
/// of the CPUs.
pub(super) fn states(measurements: &[Measurement]) -> Vec<usize> {
    let mut states: Vec<usize> = Vec::new();
    for one in measurements {
        let count = states.iter().max().map_or(0, |last| last + 1);
        let is_elsewhere = |state: usize| {
            measurements.iter().zip(&states).any(|(other, of)| *of == state && one.is_apart(other))
        };
        states.push((0..count).find(|state| !is_elsewhere(*state)).unwrap_or(count));
    }
    states
}

/// A commit that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Skipped {
    /// Full name of the commit.
    pub(super) commit: String,
    /// Why it cannot be measured.
    pub(super) reason: String,
}

impl State {
    /// Reads the state of a search, or begins it. With `again`, earlier measurements are forgotten. Fails if
    /// the file cannot be read, or was not written by a search.
    pub(super) fn open(out: &Path, plan: &str, question: &Question, again: bool) -> anyhow::Result<Self> {
        Self::open_at(out.join(format!("bisect-{plan}-{}", question.digest)), again)
    }

    fn open_at(directory: PathBuf, again: bool) -> anyhow::Result<Self> {
        let path = directory.join(FILE);
        let fresh = Kept { schema: SCHEMA, measurements: Vec::new(), skipped: Vec::new() };
        let kept = match fs::read(&path) {
            Ok(bytes) if !again => {
                let damaged = || format!("{} is damaged; --again begins the search again", path.display());
                let kept: Kept = serde_json::from_slice(&bytes).with_context(damaged)?;
                anyhow::ensure!(kept.schema == SCHEMA, "{}: another version of hoptax wrote it", damaged());
                kept
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
            _ => fresh,
        };
        fs::create_dir_all(&directory).with_context(|| {
            format!("cannot create {}; choose another directory with --out", directory.display())
        })?;
        let state = Self { directory, earlier: kept.measurements.len(), kept };
        if again {
            // If the search is interrupted before its first measurement, the earlier measurements must not
            // return.
            state.write()?;
        }
        Ok(state)
    }

    pub(super) fn earlier(&self) -> usize {
        self.earlier
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn measurements(&self) -> &[Measurement] {
        &self.kept.measurements
    }

    pub(super) fn skipped(&self) -> &[Skipped] {
        &self.kept.skipped
    }

    /// Adds a measurement, and writes the state.
    pub(super) fn add(&mut self, measurement: Measurement) -> anyhow::Result<()> {
        self.kept.measurements.push(measurement);
        self.write()
    }

    /// Adds a commit that cannot be measured, and writes the state.
    pub(super) fn skip(&mut self, commit: &str, reason: &str) -> anyhow::Result<()> {
        self.kept.skipped.push(Skipped { commit: commit.to_owned(), reason: reason.to_owned() });
        self.write()
    }

    /// Replaces the file at once, so that it is never half written.
    fn write(&self) -> anyhow::Result<()> {
        let (path, draft) = (self.directory.join(FILE), self.directory.join(format!("{FILE}.new")));
        let text = serde_json::to_vec_pretty(&self.kept)?;
        fs::write(&draft, text)
            .and_then(|()| fs::rename(&draft, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
impl Measurement {
    /// A measurement for tests.
    pub(super) fn example(distances: Vec<Distance>) -> Self {
        Self {
            commit: "a1".to_owned(),
            difference: 40.0,
            low: 30.0,
            high: 50.0,
            rounds: 9,
            good: 100.0,
            run: "a-run".to_owned(),
            distances,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_with_other_distances_of_cpus_are_in_another_state() {
        let at = |distances: &[([u32; 2], f64)]| {
            let distance = |&(cpus, ns): &([u32; 2], f64)| Distance { cpus, ns };
            Measurement::example(distances.iter().map(distance).collect())
        };
        let measured = [110.0, 400.0, 95.0, 380.0].map(|ns| at(&[([0, 1], ns)]));
        assert_eq!(states(&measured), [0, 1, 0, 1]);
        let unknown = [at(&[]), at(&[([0, 1], 400.0)]), at(&[([0, 2], 90.0)]), at(&[([0, 1], 90.0)])];
        assert_eq!(
            states(&unknown),
            [0, 0, 0, 1],
            "without a common pair of CPUs, nothing is known to differ"
        );
    }

    #[test]
    fn measurements_are_kept_until_the_search_begins_again() {
        let scratch = tempfile::tempdir().expect("made");
        let open = |again: bool| State::open_at(scratch.path().join("search"), again).expect("opened");
        let one = Measurement::example(Vec::new());
        let mut state = open(false);
        state.add(one.clone()).expect("written");
        assert_eq!((state.measurements().len(), state.earlier()), (1, 0));
        let state = open(false);
        assert_eq!((state.measurements(), state.earlier()), (&[one][..], 1));
        assert_eq!(open(true).measurements(), []);
        assert_eq!(open(false).measurements(), [], "the fresh state is on disk at once");
    }
}
