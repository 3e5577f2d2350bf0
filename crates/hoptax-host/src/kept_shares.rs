//! The shares of scatter of this machine, from `hoptax calibrate` or from earlier runs. They are kept in
//! `scatter.json` in the user's [data directory](crate::programs::data_directory), one entry for each
//! machine, because several machines may share a home directory.

use crate::programs::data_directory;
use anyhow::Context as _;
use hoptax_record::{Environment, Machine, Origin, Shares};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Largest file that is read, bytes. An entry takes 400 bytes.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    machine: Machine,
    shares: Shares,
}

/// The file, `None` if there is no data directory because neither `HOPTAX_HOME` nor `XDG_DATA_HOME` nor
/// `HOME` is set.
pub fn file() -> Option<PathBuf> {
    Some(data_directory()?.join("scatter.json"))
}

/// The shares of a machine: the built-in ones if it was not calibrated.
///
/// # Errors
/// If the file cannot be read.
pub fn read(file: &Path, environment: &Environment) -> anyhow::Result<Shares> {
    let machine = Machine::of(environment);
    let kept = all(file)?.into_iter().find(|one| one.machine == machine);
    Ok(kept.map(|one| one.shares).unwrap_or_default())
}

/// Keeps the shares of a machine, and replaces earlier ones of the same machine.
///
/// # Errors
/// If the file cannot be read or written.
pub fn write(file: &Path, environment: &Environment, shares: &Shares) -> anyhow::Result<()> {
    let machine = Machine::of(environment);
    let mut kept = all(file)?;
    kept.retain(|one| one.machine != machine);
    kept.push(Kept { machine, shares: shares.clone() });
    let folder = file.parent().context("the file has no directory")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Replace the file at once, because another hoptax may read it at the same time.
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut draft, &kept)?;
    draft.persist(file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

/// Keeps the shares that `runs` earlier runs show, unless a calibration with more runs is kept. Returns the
/// shares that are then kept.
///
/// # Errors
/// If the file cannot be read or written.
pub fn learn(file: &Path, environment: &Environment, learned: Shares, runs: u32) -> anyhow::Result<Shares> {
    let kept = read(file, environment)?;
    if matches!(kept.origin, Origin::Calibrated { runs: calibrated, .. } if calibrated > runs) {
        return Ok(kept);
    }
    if kept != learned {
        write(file, environment, &learned)?;
    }
    Ok(learned)
}

fn all(file: &Path) -> anyhow::Result<Vec<Kept>> {
    let what = || format!("cannot read {}; correct or delete it", file.display());
    match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(what),
        Ok(metadata) => {
            anyhow::ensure!(
                metadata.is_file() && metadata.len() <= LARGEST,
                "{}: it is not a file of at most 1 MiB",
                what()
            );
        }
    }
    let kept: Vec<Kept> = serde_json::from_slice(&fs::read(file).with_context(what)?).with_context(what)?;
    // A share that is not a number between 0 and 1 would make every interval senseless.
    let shares = kept.iter().map(|one| &one.shares);
    let is_wrong = |one: &f64| !(0.0..=1.0).contains(one);
    let wrong = shares.flat_map(|one| [one.times, one.times_jit, one.throughput, one.cpu]).find(is_wrong);
    anyhow::ensure!(wrong.is_none(), "{}: a share must be between 0 and 1", what());
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe;
    use hoptax_record::{Origin, plan::Idle};

    #[test]
    fn each_machine_keeps_its_own_shares() {
        let scratch = tempfile::tempdir().expect("made");
        let file = scratch.path().join("new/scatter.json");
        let here = probe::environment(Idle::Sleep);
        let other = Environment { kernel: "Linux 9".into(), ..here.clone() };
        assert_eq!(read(&file, &here).expect("no file"), Shares::BUILT_IN);
        let shares = |times| Shares {
            times,
            origin: Origin::Calibrated { date: "2026-11-28".into(), runs: 12 },
            ..Shares::BUILT_IN
        };
        for (machine, times) in [(&here, 0.5), (&other, 0.2), (&here, 0.03)] {
            write(&file, machine, &shares(times)).expect("written");
        }
        assert_eq!(read(&file, &here).expect("kept"), shares(0.03));
        assert_eq!(read(&file, &other).expect("kept"), shares(0.2));
        assert_eq!(all(&file).expect("two entries").len(), 2);
    }

    #[test]
    fn only_a_calibration_with_more_runs_outlasts_what_earlier_runs_show() {
        let scratch = tempfile::tempdir().expect("made");
        let file = scratch.path().join("scatter.json");
        let here = probe::environment(Idle::Sleep);
        let day = || "2026-11-28".to_owned();
        let learned = |plan: &str, runs| Shares {
            times: 0.04,
            origin: Origin::History { plan: plan.into(), since: day(), date: day(), runs },
            ..Shares::BUILT_IN
        };
        let calibrated =
            Shares { times: 0.02, origin: Origin::Calibrated { date: day(), runs: 12 }, ..Shares::BUILT_IN };
        let learn = |plan, runs| learn(&file, &here, learned(plan, runs), runs).expect("kept");
        assert_eq!(learn("nightly", 8), learned("nightly", 8));
        write(&file, &here, &calibrated).expect("written");
        assert_eq!(learn("nightly", 11), calibrated);
        assert_eq!(read(&file, &here).expect("kept"), calibrated);
        for (plan, runs) in [("nightly", 12), ("other", 9), ("nightly", 8)] {
            assert_eq!(learn(plan, runs), learned(plan, runs));
            assert_eq!(read(&file, &here).expect("kept"), learned(plan, runs));
        }
    }

    #[test]
    fn a_spoilt_file_is_an_error_and_is_not_replaced() {
        let scratch = tempfile::tempdir().expect("made");
        let file = scratch.path().join("scatter.json");
        let here = probe::environment(Idle::Sleep);
        write(&file, &here, &Shares { times: 7.0, ..Shares::BUILT_IN }).expect("written");
        let wrong = read(&file, &here).expect_err("700 %").to_string();
        assert!(wrong.contains("between 0 and 1"), "{wrong}");
        fs::write(&file, "[").expect("written");
        assert!(write(&file, &here, &Shares::BUILT_IN).is_err());
        assert_eq!(fs::read_to_string(&file).expect("kept"), "[");
    }
}
