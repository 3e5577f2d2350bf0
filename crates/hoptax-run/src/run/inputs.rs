//! The inputs of a run.

use super::contents::Contents;
use super::progress::Progress;
use hoptax_format::clock;
use hoptax_host::probe::fitness::Moment;
use hoptax_plan::{CpuSets, Plan};
use hoptax_record::{Environment, HostLook, RunHost, Shares};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A run that is ready to start. It consists of the plan and of everything that the run depends on.
pub struct Run<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Text of the plan as the user wrote it.
    pub plan_text: String,
    /// The command line.
    pub command: Vec<String>,
    /// Contents of the files that the plan names.
    pub contents: Contents,
    /// Seed for the order of the trials and for the arrivals.
    pub seed: u64,
    /// CPUs of each role. The generator has one worker for each of its CPUs. If it has none, it has one
    /// worker, which is not pinned.
    pub cpus: CpuSets,
    /// Description of the generator's machine.
    pub environment: Environment,
    /// The hosts of the run, by name. Empty if this host has all roles.
    pub hosts: BTreeMap<String, RunHost>,
    /// How much separate runs scatter on this machine.
    pub shares: Shares,
    /// Checks whether the generator's machine is fit for measurements, at the start and at the end of the
    /// run.
    pub look: &'a dyn Fn(Moment) -> Option<HostLook>,
    /// Checks the other hosts of the run.
    pub look_at_others: &'a dyn Fn(Moment) -> BTreeMap<String, HostLook>,
    /// A signal sets this flag. The current trial then ends early, and no further trial begins.
    pub interrupted: &'a AtomicBool,
}

impl Run<'_> {
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Pairs of CPUs between which requests travel: the first CPU of each role with those of the other roles.
    pub(super) fn cpu_pairs(&self) -> BTreeSet<[u32; 2]> {
        let firsts: BTreeSet<u32> = [&self.cpus.generator, &self.cpus.gateway, &self.cpus.upstream]
            .into_iter()
            .filter_map(|cpus| cpus.first().copied())
            .collect();
        let above = |one: u32| firsts.range(one + 1..).map(move |other| [one, *other]);
        firsts.iter().flat_map(|one| above(*one)).collect()
    }

    /// Pauses between two trials. A signal ends the pause early.
    pub(super) fn pause(&self, progress: &mut dyn Progress) {
        if self.plan.pause.is_zero() {
            return;
        }
        progress.pausing();
        let until = clock::now() + self.plan.pause.as_nanos() as u64;
        while clock::now() < until && !self.is_interrupted() {
            let left = Duration::from_nanos(until.saturating_sub(clock::now()));
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}
