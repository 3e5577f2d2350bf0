//! Differences between two profiles of CPU time.

use super::case::CaseProfile;
use super::costs::Node;
use hoptax_record::RunRecord;
use hoptax_record::profile::{Frame, PassKind};
use hoptax_stats::{Contrast, Estimate, independent_figures};
use std::collections::BTreeMap;

/// Maximum number of differences in a report.
const MOST_DIFFERENCES: usize = 12;

/// Two profiles, compared: second − first. The indices refer to the list of profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileDifference {
    /// Index of the first profile.
    pub first: usize,
    /// Index of the second profile.
    pub second: usize,
    /// Change of the CPU time of all frames, µs per request.
    pub whole: Contrast,
    /// Changes by module, the largest first.
    pub modules: Vec<ModuleChange>,
    /// Changes by frame, the largest change of own time first.
    pub frames: Vec<FrameChange>,
    /// The union of both trees. The first node is the root, and a node comes after its parent.
    pub tree: Vec<DifferenceNode>,
}

/// Change of a module's own time.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleChange {
    /// Name of the module.
    pub module: String,
    /// µs per request.
    pub own: Contrast,
}

/// Change of a frame's times.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameChange {
    /// The frame.
    pub frame: Frame,
    /// Change of the time of the function itself, µs per request.
    pub own: Contrast,
    /// Change of the time of the function and all that it calls, µs per request.
    pub total: Contrast,
}

/// A node of the union of two trees.
#[derive(Debug, Clone, PartialEq)]
pub struct DifferenceNode {
    /// Index of the caller. Absent for the root.
    pub parent: Option<usize>,
    /// The function.
    pub frame: Frame,
    /// Time in the first profile, µs per request.
    pub first_us: f64,
    /// Time in the second profile, µs per request.
    pub second_us: f64,
    /// Second − first, µs per request.
    pub total: Contrast,
}

/// True if the interval of a change does not contain zero.
fn is_certain(change: &Contrast) -> bool {
    change.interval().is_some_and(|(low, high)| low > 0.0 || high < 0.0)
}

impl DifferenceNode {
    /// True if the interval of the change does not contain zero.
    pub fn is_certain(&self) -> bool {
        is_certain(&self.total)
    }
}

impl FrameChange {
    /// True if the interval of the change of the own time, or of the total time, does not contain zero.
    pub fn is_certain(&self) -> bool {
        is_certain(&self.own) || is_certain(&self.total)
    }
}

impl ModuleChange {
    /// True if the interval of the change does not contain zero.
    pub fn is_certain(&self) -> bool {
        is_certain(&self.own)
    }
}

/// Compares the profiles that are worth comparing.
pub(super) fn differences(run: &RunRecord, cases: &[CaseProfile]) -> Vec<ProfileDifference> {
    let pairs = pairs(run, cases).into_iter().take(MOST_DIFFERENCES);
    pairs.filter_map(|(first, second)| difference(cases, first, second)).collect()
}

/// The pairs of profiles to compare. At each load point, the first gateway of a pack is compared with each
/// other gateway of the pack, for example one version with another, or a gateway without a feature with the
/// same gateway that has it. If a run has only two gateways, these two are always compared. Each gateway is
/// also compared with itself at the load point before.
fn pairs(run: &RunRecord, cases: &[CaseProfile]) -> Vec<(usize, usize)> {
    let kind = |label: &str| {
        let contender = run.contenders.iter().find(|one| one.label == label);
        contender.map_or("", |one| one.kind.split('@').next().unwrap_or_default())
    };
    let only_two = run.contenders.len() == 3;
    let cpu: Vec<usize> = (0..cases.len())
        .filter(|index| cases[*index].kind == PassKind::Cpu && cases[*index].whole.is_some())
        .collect();
    let mut pairs = Vec::new();
    for (place, &second) in cpu.iter().enumerate() {
        let earlier = &cpu[..place];
        let same_load = |first: &&usize| cases[**first].load.index == cases[second].load.index;
        let same_pack = |first: &&usize| kind(&cases[**first].gateway) == kind(&cases[second].gateway);
        let same_gateway = |first: &&usize| cases[**first].gateway == cases[second].gateway;
        let variant = earlier.iter().find(|first| same_load(first) && (only_two || same_pack(first)));
        let before = earlier.iter().rev().find(same_gateway);
        pairs.extend(variant.into_iter().chain(before).map(|&first| (first, second)));
    }
    pairs
}

fn difference(cases: &[CaseProfile], first: usize, second: usize) -> Option<ProfileDifference> {
    let (a, b) = (&cases[first], &cases[second]);
    let change = |one: Option<&Estimate>, other: Option<&Estimate>| {
        independent_figures(one.unwrap_or(&a.nothing), other.unwrap_or(&b.nothing))
    };
    Some(ProfileDifference {
        first,
        second,
        whole: independent_figures(a.whole.as_ref()?, b.whole.as_ref()?),
        modules: modules(a, b, &change),
        frames: frames(a, b, &change),
        tree: tree(&a.tree, &b.tree, &change),
    })
}

type Change<'c> = dyn Fn(Option<&Estimate>, Option<&Estimate>) -> Contrast + 'c;

fn modules(a: &CaseProfile, b: &CaseProfile, change: &Change<'_>) -> Vec<ModuleChange> {
    let (least_a, least_b) = (a.least_us(), b.least_us());
    let sides = by_key(
        a.modules.iter().map(|one| (&one.module, &one.own)),
        b.modules.iter().map(|one| (&one.module, &one.own)),
    );
    let one = |(module, (a, b)): (&String, Sides<'_, Estimate>)| ModuleChange {
        module: module.clone(),
        own: change(a, b),
    };
    let is_listed =
        |(_, (a, b)): &(&String, Sides<'_, Estimate>)| exceeds(*a, least_a) || exceeds(*b, least_b);
    let mut changes: Vec<ModuleChange> = sides.into_iter().filter(is_listed).map(one).collect();
    changes.sort_by(|one, other| larger_first(&one.own, &other.own));
    changes
}

fn frames(a: &CaseProfile, b: &CaseProfile, change: &Change<'_>) -> Vec<FrameChange> {
    let (least_a, least_b) = (a.least_us(), b.least_us());
    let sides =
        by_key(a.frames.iter().map(|one| (&one.frame, one)), b.frames.iter().map(|one| (&one.frame, one)));
    let mut changes: Vec<FrameChange> = sides
        .into_iter()
        .filter(|(_, (a, b))| {
            exceeds(a.map(|one| &one.total), least_a) || exceeds(b.map(|one| &one.total), least_b)
        })
        .map(|(frame, (a, b))| FrameChange {
            frame: frame.clone(),
            own: change(a.map(|one| &one.own), b.map(|one| &one.own)),
            total: change(a.map(|one| &one.total), b.map(|one| &one.total)),
        })
        .collect();
    changes.sort_by(|one, other| larger_first(&one.own, &other.own));
    changes
}

fn exceeds(time: Option<&Estimate>, least_us: f64) -> bool {
    time.is_some_and(|time| time.estimate > least_us)
}

fn larger_first(one: &Contrast, other: &Contrast) -> std::cmp::Ordering {
    other.estimate.abs().total_cmp(&one.estimate.abs())
}

/// The values of the first side and of the second side for a key.
type Sides<'v, V> = (Option<&'v V>, Option<&'v V>);

fn by_key<'v, K: Ord + 'v, V: 'v>(
    first: impl Iterator<Item = (&'v K, &'v V)>,
    second: impl Iterator<Item = (&'v K, &'v V)>,
) -> BTreeMap<&'v K, Sides<'v, V>> {
    let mut sides: BTreeMap<&K, Sides<'v, V>> = BTreeMap::new();
    first.for_each(|(key, value)| sides.entry(key).or_default().0 = Some(value));
    second.for_each(|(key, value)| sides.entry(key).or_default().1 = Some(value));
    sides
}

/// The union of two trees. Nodes belong together if their frames and all callers are equal.
fn tree(a: &[Node], b: &[Node], change: &Change<'_>) -> Vec<DifferenceNode> {
    let mut places: BTreeMap<(Option<usize>, &Frame), usize> = BTreeMap::new();
    let mut parents: Vec<(Option<usize>, &Frame)> = Vec::new();
    let mut sides: Vec<Sides<'_, Estimate>> = Vec::new();
    for (side, nodes) in [a, b].into_iter().enumerate() {
        // For each node of this side, its place in the union. Callers come before the functions that they
        // call.
        let mut own_places: Vec<usize> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let key = (node.parent.map(|parent| own_places[parent]), &node.frame);
            let next = places.len();
            let place = *places.entry(key).or_insert(next);
            if place == next {
                parents.push(key);
                sides.push((None, None));
            }
            match side {
                0 => sides[place].0 = Some(&node.total),
                _ => sides[place].1 = Some(&node.total),
            }
            own_places.push(place);
        }
    }
    let us = |one: Option<&Estimate>| one.map_or(0.0, |one| one.estimate);
    let node = |((parent, frame), (a, b)): ((Option<usize>, &Frame), Sides<'_, Estimate>)| DifferenceNode {
        parent,
        frame: frame.clone(),
        first_us: us(a),
        second_us: us(b),
        total: change(a, b),
    };
    parents.into_iter().zip(sides).map(node).collect()
}
