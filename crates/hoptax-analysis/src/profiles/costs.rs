//! Adds up the stacks of a case's passes: by node of the tree of calls, by frame, and by module.

use hoptax_record::profile::{Frame, FrameKind, PassKind, PassRecord};
use hoptax_stats::{Estimate, Slices};
use std::collections::{BTreeMap, BTreeSet};

/// Nanoseconds in a microsecond.
const MICROSECOND: f64 = 1e3;

/// Name of the frame for the kernel's part, if the profiler may not see it.
const HIDDEN: &str = "[kernel, not visible]";

/// A frame or a module is listed if it has at least this share of the whole time. In a difference, it must
/// have this share on one side.
pub(super) const LEAST_SHARE: f64 = 0.0005;

/// Missing symbols are reported if they concern at least this share of the whole time.
const LEAST_MISSING: f64 = 0.01;

/// A node of the tree of calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Index of the caller. Absent for the root.
    pub parent: Option<usize>,
    /// The function.
    pub frame: Frame,
    /// Time of the function itself, µs per request.
    pub own_us: f64,
    /// Time of the function and all that it calls, µs per request.
    pub total: Estimate,
}

/// Times of a frame, wherever it is called.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameCost {
    /// The frame.
    pub frame: Frame,
    /// Time of the function itself, µs per request.
    pub own: Estimate,
    /// Time of the function and all that it calls, µs per request.
    pub total: Estimate,
}

/// Own times of all functions of a module.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleCost {
    /// Name of the module.
    pub module: String,
    /// µs per request.
    pub own: Estimate,
}

/// A module whose frames have no names.
#[derive(Debug, Clone, PartialEq)]
pub struct MissingSymbols {
    /// Name of the module.
    pub module: String,
    /// Kind of its code.
    pub kind: FrameKind,
    /// Own time of its frames without a name, µs per request.
    pub own_us: f64,
    /// This time as a share of the whole time.
    pub share: f64,
}

/// Sums of all passes. Each sum has one value for each slice, in µs.
pub(super) struct Costs {
    slices: Slices,
    all: Vec<f64>,
    /// The frames of all passes, by their index.
    frames: Vec<Frame>,
    own: Vec<Vec<f64>>,
    total: Vec<Vec<f64>>,
    nodes: Vec<NodeSums>,
}

/// Sums of a node of the tree.
struct NodeSums {
    parent: Option<usize>,
    frame: usize,
    own: f64,
    total: Vec<f64>,
}

impl Costs {
    pub(super) fn of(passes: &[&PassRecord]) -> Self {
        let slices = passes
            .iter()
            .flat_map(|pass| pass.slices.iter().map(move |slice| (pass.sequence, slice.requests as f64)));
        let slices = Slices::new(slices);
        let mut building = Building::new(slices.count());
        let mut first = 0;
        for pass in passes {
            building.add(pass, first);
            first += pass.slices.len();
        }
        let Building { frames, own, total, nodes, all, .. } = building;
        let mut known: Vec<(Frame, usize)> = frames.into_iter().collect();
        known.sort_by_key(|(_, index)| *index);
        Self { slices, all, frames: known.into_iter().map(|(frame, _)| frame).collect(), own, total, nodes }
    }

    pub(super) fn whole(&self) -> Option<Estimate> {
        self.estimate(&self.all)
    }

    pub(super) fn nothing(&self) -> Estimate {
        let none = vec![0.0; self.slices.count()];
        self.slices.per_request(&none).unwrap_or(Estimate::bare(0.0, 0))
    }

    fn estimate(&self, amounts: &[f64]) -> Option<Estimate> {
        Some(self.slices.per_request(amounts)?.at_least(0.0))
    }

    /// All frames, however small.
    pub(super) fn frames(&self) -> Vec<FrameCost> {
        let cost = |(index, frame): (usize, &Frame)| {
            let (own, total) = (self.estimate(&self.own[index])?, self.estimate(&self.total[index])?);
            Some(FrameCost { frame: frame.clone(), own, total })
        };
        let is_code = |(_, frame): &(usize, &Frame)| frame.kind != FrameKind::Thread;
        let mut frames: Vec<FrameCost> =
            self.frames.iter().enumerate().filter(is_code).filter_map(cost).collect();
        frames.sort_by(|one, other| {
            let by_total = || other.total.estimate.total_cmp(&one.total.estimate);
            other.own.estimate.total_cmp(&one.own.estimate).then_with(by_total)
        });
        frames
    }

    /// All modules, however small.
    pub(super) fn modules(&self) -> Vec<ModuleCost> {
        let mut sums: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (frame, own) in self.frames.iter().zip(&self.own) {
            let sum = sums.entry(frame.module.as_str()).or_insert_with(|| vec![0.0; own.len()]);
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        let cost = |(module, own): (&str, Vec<f64>)| {
            Some(ModuleCost { module: module.to_owned(), own: self.estimate(&own)? })
        };
        let mut modules: Vec<ModuleCost> = sums.into_iter().filter_map(cost).collect();
        modules.sort_by(|one, other| other.own.estimate.total_cmp(&one.own.estimate));
        modules
    }

    pub(super) fn missing(&self) -> Vec<MissingSymbols> {
        let Some(whole) = self.whole().filter(|whole| whole.estimate > 0.0) else { return Vec::new() };
        let mut sums: BTreeMap<(&str, FrameKind), f64> = BTreeMap::new();
        for (frame, own) in self.frames.iter().zip(&self.own).filter(|(frame, _)| !frame.named) {
            let own = self.slices.per_request(own).map_or(0.0, |own| own.estimate);
            *sums.entry((frame.module.as_str(), frame.kind)).or_default() += own;
        }
        let missing = |((module, kind), own_us): ((&str, FrameKind), f64)| {
            let share = own_us / whole.estimate;
            let module = module.to_owned();
            (share >= LEAST_MISSING).then_some(MissingSymbols { module, kind, own_us, share })
        };
        let mut missing: Vec<MissingSymbols> = sums.into_iter().filter_map(missing).collect();
        missing.sort_by(|one, other| other.share.total_cmp(&one.share));
        missing
    }

    pub(super) fn tree(&self) -> Vec<Node> {
        let requests = self.slices.per_request(&vec![1.0; self.slices.count()]);
        let Some(requests) = requests else { return Vec::new() };
        // `per_request` of ones is the number of slices ÷ the number of requests.
        let per_request = requests.estimate / self.slices.count() as f64;
        let node = |sums: &NodeSums| {
            Some(Node {
                parent: sums.parent,
                frame: self.frames[sums.frame].clone(),
                own_us: sums.own * per_request,
                total: self.estimate(&sums.total)?,
            })
        };
        self.nodes.iter().filter_map(node).collect()
    }
}

/// Sums that are being added up.
struct Building {
    count: usize,
    frames: BTreeMap<Frame, usize>,
    own: Vec<Vec<f64>>,
    total: Vec<Vec<f64>>,
    all: Vec<f64>,
    nodes: Vec<NodeSums>,
    /// For a parent node and a frame, the child node.
    children: BTreeMap<(usize, usize), usize>,
}

impl Building {
    fn new(count: usize) -> Self {
        let mut building = Self {
            count,
            frames: BTreeMap::new(),
            own: Vec::new(),
            total: Vec::new(),
            all: vec![0.0; count],
            nodes: Vec::new(),
            children: BTreeMap::new(),
        };
        let root = building.frame(&plain("all", FrameKind::Thread));
        building.nodes.push(NodeSums { parent: None, frame: root, own: 0.0, total: vec![0.0; count] });
        building
    }

    /// Adds a pass whose first slice has this index.
    fn add(&mut self, pass: &PassRecord, first: usize) {
        let frames: Vec<usize> = pass.frames.iter().map(|frame| self.frame(frame)).collect();
        let factor = factor(pass);
        for (slice, index) in pass.slices.iter().zip(first..) {
            let mut seen = 0.0;
            for (stack, ns) in &slice.stacks {
                // A record from another machine or program may contain invalid indices.
                let Some(stack) = pass.stacks.get(*stack as usize) else { continue };
                let path: Vec<usize> =
                    stack.iter().filter_map(|frame| frames.get(*frame as usize).copied()).collect();
                let us = *ns as f64 * factor / MICROSECOND;
                seen += us;
                self.add_path(&path, index, us);
            }
            let hidden = slice.cpu_ns.map_or(0.0, |cpu| cpu as f64 / MICROSECOND - seen);
            if pass.kind == PassKind::Cpu && !pass.sees_kernel && hidden > 0.0 {
                let frame =
                    self.frame(&Frame { module: "kernel".into(), ..plain(HIDDEN, FrameKind::Kernel) });
                self.add_path(&[frame], index, hidden);
            }
        }
    }

    fn add_path(&mut self, path: &[usize], slice: usize, us: f64) {
        self.all[slice] += us;
        self.nodes[0].total[slice] += us;
        let mut at = 0;
        for &frame in path {
            at = self.child(at, frame);
            self.nodes[at].total[slice] += us;
        }
        self.nodes[at].own += us;
        // A function that calls itself counts once.
        for frame in path.iter().copied().collect::<BTreeSet<usize>>() {
            self.total[frame][slice] += us;
        }
        if let Some(last) = path.last() {
            self.own[*last][slice] += us;
        }
    }

    fn child(&mut self, parent: usize, frame: usize) -> usize {
        let next = self.nodes.len();
        let node = *self.children.entry((parent, frame)).or_insert(next);
        if node == next {
            let total = vec![0.0; self.count];
            self.nodes.push(NodeSums { parent: Some(parent), frame, own: 0.0, total });
        }
        node
    }

    fn frame(&mut self, frame: &Frame) -> usize {
        if let Some(known) = self.frames.get(frame) {
            return *known;
        }
        let next = self.frames.len();
        self.frames.insert(frame.clone(), next);
        self.own.push(vec![0.0; self.count]);
        self.total.push(vec![0.0; self.count]);
        next
    }
}

fn plain(name: &str, kind: FrameKind) -> Frame {
    Frame { name: name.to_owned(), module: String::new(), kind, named: true }
}

/// The factor that turns sampled time of a pass into CPU time. Samples show where a gateway spends its CPU
/// time, and its CPU clocks show how much. The factor is 1 for waiting, and for passes that do not see the
/// kernel.
fn factor(pass: &PassRecord) -> f64 {
    if pass.kind == PassKind::Waiting || !pass.sees_kernel {
        return 1.0;
    }
    let sampled: u64 = pass.slices.iter().flat_map(|slice| &slice.stacks).map(|(_, ns)| ns).sum();
    let used: Option<u64> = pass.slices.iter().map(|slice| slice.cpu_ns).sum();
    used.filter(|_| sampled > 0).map_or(1.0, |used| used as f64 / sampled as f64)
}
