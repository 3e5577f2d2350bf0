//! The targets together: which is requested next, and its bytes.

use super::Target;
use super::encoding::Protocol;
use super::error::{Part, TargetError};
use crate::random::Random;
use crate::spec::TargetSpec;
use crate::template::{Files, Values, names_in};
use std::collections::{BTreeMap, BTreeSet};

/// Most targets in one load: each worker keeps two histograms of 216 KiB for each of several.
pub const MOST_TARGETS: usize = 256;
/// Tells this stream of randomness apart from the others that hang on the same seed.
const CHOICE: u64 = 0x0063_686f_6963_6500;

/// The targets of a load, which all workers share.
#[derive(Debug)]
pub(crate) struct Mix<'a> {
    targets: Vec<Target>,
    /// Sums of the weights up to and with each target.
    sums: Vec<u64>,
    files: Files<'a>,
    seed: u64,
    /// Which request of a connection is its last; `u32::MAX`: none is.
    last: u32,
}

impl<'a> Mix<'a> {
    /// Makes `targets`, at least one, ready.
    ///
    /// # Errors
    /// If one of them cannot be requested, or two have the same name.
    pub(crate) fn new(
        targets: &'a [TargetSpec],
        files: &'a BTreeMap<String, String>,
        seed: u64,
        protocol: Protocol,
    ) -> Result<Self, TargetError> {
        let texts = targets.iter().flat_map(TargetSpec::templates);
        let files = Files::new(files, &texts.flat_map(names_in).collect());
        let (mut ready, mut sums, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for target in targets {
            let fault = |part, message: String, help| Err(TargetError::new(target, part, message, help));
            if target.name.is_empty() {
                return fault(Part::Name, "it is empty".into(), "give each target a name");
            }
            if !seen.insert(&target.name) {
                return fault(Part::Name, "another target has it too".into(), "give each target its own");
            }
            if seen.len() > MOST_TARGETS {
                let message = format!("there are more than {MOST_TARGETS} targets");
                return fault(Part::Name, message, "take what differs from files, by `{{line FILE}}`");
            }
            if target.weight == 0 {
                return fault(Part::Weight, "it is 0".into(), "give at least 1, or leave the target out");
            }
            ready.push(Target::new(ready.len() as u32, target, &files, protocol)?);
            sums.push(sums.last().unwrap_or(&0) + u64::from(target.weight));
        }
        Ok(Self { targets: ready, sums, files, seed, last: protocol.per_connection.unwrap_or(u32::MAX) })
    }

    /// How many targets there are.
    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    /// The target of this index.
    pub(crate) fn target(&self, index: u32) -> &Target {
        &self.targets[index as usize]
    }

    /// Whether the request to this target that was the `carried`th of its connection asks for the connection to be closed.
    #[inline]
    pub(crate) fn closes(&self, target: u32, carried: u32) -> bool {
        self.target(target).encoded(carried >= self.last).closes
    }

    /// Names in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(|target| target.name.as_str())
    }

    /// Numbers that a connection must keep for the checks of whatever target it has.
    pub(crate) fn room_for_checks(&self) -> usize {
        self.targets.iter().map(|target| target.checks.room).max().unwrap_or(0)
    }
}

/// Checks all targets of a spec: what [`crate::run`] would refuse of them, without starting anything. `files` are those of
/// the spec.
///
/// # Errors
/// At the first thing that is wrong.
pub fn check(targets: &[TargetSpec], files: &BTreeMap<String, String>) -> Result<(), TargetError> {
    Mix::new(targets, files, 0, Protocol::default()).map(drop)
}

/// What one worker requests, one after the other.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    mix: &'a Mix<'a>,
    pub(super) choice: Random,
    values: Values<'a>,
    /// Room for requests and their bodies, of which the longest fits.
    pub(super) made: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl<'a> Requests<'a> {
    /// Those of worker `index` of `workers`.
    pub(crate) fn new(mix: &'a Mix<'a>, (index, workers): (u32, u32)) -> Self {
        let longest = mix.targets.iter().map(|target| target.longest(&mix.files));
        let (made, body) = longest.fold((0, 0), |most, this| (most.0.max(this.0), most.1.max(this.1)));
        Self {
            mix,
            choice: Random::stream(mix.seed ^ CHOICE, u64::from(index)),
            values: Values::new(&mix.files, (index, workers), mix.seed, made.max(body)),
            made: Vec::with_capacity(made),
            body: Vec::with_capacity(body),
        }
    }

    /// Which target is next: each as often as its weight says. Nothing is drawn where there is no choice.
    #[inline]
    pub(crate) fn choose(&mut self) -> u32 {
        match self.mix.sums.as_slice() {
            [_] => 0,
            sums => {
                let drawn = self.choice.below(sums[sums.len() - 1]);
                sums.partition_point(|sum| *sum <= drawn) as u32
            }
        }
    }

    /// The bytes of the next request to this target, which will be the `carried`th of its connection.
    #[inline]
    pub(crate) fn next(&mut self, target: u32, carried: u32) -> &[u8] {
        let target = self.mix.target(target).encoded(carried >= self.mix.last);
        target.write(&mut self.values, &mut self.made, &mut self.body)
    }
}
