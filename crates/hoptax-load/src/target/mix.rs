//! The mix of targets: chooses the next target and provides the bytes of its request.

use super::encoding::Protocol;
use super::error::{TargetError, TargetPart};
use super::{Target, http2};
use hoptax_format::random::Random;
use hoptax_format::spec::{MOST_TARGETS, TargetSpec};
use hoptax_format::template::{Files, Values, sources_in};
use std::collections::{BTreeMap, BTreeSet};

/// Makes this stream of random numbers different from other streams that use the same seed.
const CHOICE: u64 = 0x0063_686f_6963_6500;

/// The targets of a load, shared by all workers.
#[derive(Debug)]
pub(crate) struct Mix<'a> {
    targets: Vec<Target>,
    /// Cumulative weights: element `i` is the sum of the weights of targets 0 to `i`.
    sums: Vec<u64>,
    files: Files<'a>,
    seed: u64,
    /// Number of requests on a connection before the connection is closed. `u32::MAX` means that there is no
    /// limit.
    last: u32,
}

impl<'a> Mix<'a> {
    /// Prepares `targets`. There must be at least one target.
    ///
    /// # Errors
    /// If a target cannot be requested, or if two targets have the same name.
    pub(crate) fn new(
        targets: &'a [TargetSpec],
        files: &'a BTreeMap<String, String>,
        seed: u64,
        protocol: Protocol,
    ) -> Result<Self, TargetError> {
        let texts = targets.iter().flat_map(TargetSpec::templates);
        let files = Files::new(files, &texts.flat_map(sources_in).collect());
        let (mut ready, mut sums, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for target in targets {
            let fault = |part, message: String, help| Err(TargetError::new(target, part, message, help));
            if target.name.is_empty() {
                return fault(TargetPart::Name, "it is empty".into(), "give each target a name");
            }
            if !seen.insert(&target.name) {
                return fault(
                    TargetPart::Name,
                    "another target has the same name".into(),
                    "give each target its own name",
                );
            }
            if seen.len() > MOST_TARGETS {
                let message = format!("there are more than {MOST_TARGETS} targets");
                return fault(
                    TargetPart::Name,
                    message,
                    "move the differences into a file and use `{{line FILE}}`",
                );
            }
            if target.weight == 0 {
                return fault(
                    TargetPart::Weight,
                    "it is 0".into(),
                    "give at least 1, or leave the target out",
                );
            }
            ready.push(Target::new(ready.len() as u32, target, &files, protocol)?);
            sums.push(sums.last().unwrap_or(&0) + u64::from(target.weight));
        }
        http2::share(ready.iter_mut().filter_map(|target| match &mut target.encoded.request {
            super::Request::Streamed(request) => Some(&mut **request),
            _ => None,
        }));
        Ok(Self { targets: ready, sums, files, seed, last: protocol.per_connection.unwrap_or(u32::MAX) })
    }

    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter()
    }

    pub(crate) fn target(&self, index: u32) -> &Target {
        &self.targets[index as usize]
    }

    /// True if the connection closes after this request to `target`. `carried` is the number of requests on
    /// the connection, including this request.
    #[inline]
    pub(crate) fn closes(&self, target: u32, carried: u32) -> bool {
        self.target(target).encoded(carried >= self.last).closes
    }

    /// The bytes of each request to `target`, if they are always the same. `carried` is as in
    /// [`Mix::closes`].
    pub(crate) fn fixed(&self, target: u32, carried: u32) -> Option<&[u8]> {
        match &self.target(target).encoded(carried >= self.last).request {
            super::Request::Fixed(bytes) => Some(bytes),
            super::Request::Made(_) | super::Request::Streamed(_) => None,
        }
    }

    /// HTTP/2: the body of each request to `target`, if it is always the same.
    pub(crate) fn fixed_body(&self, target: u32) -> Option<&[u8]> {
        match &self.target(target).encoded.request {
            super::Request::Streamed(request) => request.fixed_body(),
            _ => None,
        }
    }

    /// True if a connection that has carried this number of requests gets no other one.
    #[inline]
    pub(crate) fn is_last(&self, carried: u32) -> bool {
        carried >= self.last
    }

    /// True if requests to some target are sent in pieces.
    pub(crate) fn has_pieces(&self) -> bool {
        self.targets.iter().any(|target| target.pieces.is_some())
    }

    /// True if clients pause within the responses of some target.
    pub(crate) fn has_pauses(&self) -> bool {
        let mut tokens = self.targets.iter().filter_map(|target| target.stream.as_ref()?.spec.tokens);
        tokens.any(|tokens| tokens.pause.is_some())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(|target| target.name.as_str())
    }

    /// Number of counters that a connection needs for checks. It is the maximum over all targets.
    pub(crate) fn room_for_checks(&self) -> usize {
        self.targets.iter().map(|target| target.checks.room).max().unwrap_or(0)
    }
}

/// Checks all targets of a spec, as [`crate::run`] does, but starts nothing. `files` are the files of the
/// spec.
///
/// # Errors
/// The first error that was found.
pub fn check(targets: &[TargetSpec], files: &BTreeMap<String, String>) -> Result<(), TargetError> {
    Mix::new(targets, files, 0, Protocol::default()).map(drop)
}

#[derive(Debug)]
pub(crate) struct Requests<'a> {
    mix: &'a Mix<'a>,
    pub(super) choice: Random,
    values: Values<'a>,
    /// Buffers for a request and for its body. They are large enough for the longest request and the longest
    /// body.
    pub(super) made: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl<'a> Requests<'a> {
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

    /// Chooses the next target at random, by weight. If there is a single target, no random number is drawn.
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

    /// Returns the bytes of the next request to `target`. `carried` is the number of requests on the
    /// connection, including this request.
    #[inline]
    pub(crate) fn next(&mut self, target: u32, carried: u32) -> &[u8] {
        let target = self.mix.target(target).encoded(carried >= self.mix.last);
        target.write(&mut self.values, &mut self.made, &mut self.body)
    }

    /// HTTP/2: returns the parts of the next request to `target`.
    #[inline]
    pub(crate) fn next_parts(&mut self, target: u32) -> http2::Parts<'_> {
        match &self.mix.target(target).encoded.request {
            super::Request::Streamed(request) => {
                request.write(&mut self.values, &mut self.made, &mut self.body)
            }
            _ => unreachable!("only HTTP/2 has requests of several parts"),
        }
    }
}
