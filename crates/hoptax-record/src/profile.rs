//! Profiles of gateways: what a run with `cpu_profile` records after its rounds. Each line of
//! `profiles.jsonl` is one [`PassRecord`].

use super::{Failure, HostUsage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One pass: a gateway had the load of a load point while a profiler recorded its stacks. No figure of a
/// trial comes from a pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PassRecord {
    /// Position among all passes of the run, from 0.
    pub sequence: u32,
    /// Round of passes, from 0. Each round profiles every gateway at every load point, in random order.
    pub round: u32,
    /// The gateway's label.
    pub contender: String,
    /// Index into [`super::RunRecord::load`].
    pub load: u32,
    /// What was recorded.
    pub kind: PassKind,
    /// How the callers of a function were found.
    pub callers: Callers,
    /// The profiler and its version. Empty if it did not run.
    pub profiler: String,
    /// Whether the profiler saw what the kernel does for the gateway.
    pub sees_kernel: bool,
    /// Number of samples that the profiler lost.
    pub lost: u64,
    /// Number of samples in the slices.
    pub samples: u64,
    /// What the gateway needs so that frames of generated code have names; absent if its pack does not say
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<String>,
    /// CPU use of the generator's host during the pass; absent if it failed, and in older runs. The profiler
    /// counts as a process outside of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostUsage>,
    /// CPU use of the other hosts of the run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostUsage>,
    /// Why the pass failed; absent if it succeeded.
    pub failed: Option<Failure>,
    /// The frames that stacks refer to by index.
    pub frames: Vec<Frame>,
    /// The distinct stacks, the outermost frame first. Slices refer to them by index.
    pub stacks: Vec<Vec<u32>>,
    /// Slices of the measured time, without gaps.
    pub slices: Vec<Slice>,
}

/// What a pass records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PassKind {
    /// Stacks of threads that use a CPU.
    #[default]
    Cpu,
    /// Stacks of threads that wait for an event, a lock, a disk or a CPU.
    Waiting,
}

/// How a profiler finds the callers of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Callers {
    /// From the unwind tables of the program (DWARF, in `.eh_frame`). Most packages of distributions have
    /// them.
    #[default]
    Dwarf,
    /// From frame pointers. Go keeps them, and the compilers of Node.js and of Java can.
    FramePointers,
}

/// A function, or the name of a thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Name of the function. Without a symbol, the name of its module in brackets.
    pub name: String,
    /// File that contains the function, without its directory. Empty for threads.
    pub module: String,
    /// Kind of the code.
    pub kind: FrameKind,
    /// Whether the name comes from a symbol.
    pub named: bool,
}

/// Kind of the code of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    /// No code: the thread in which the outermost function runs.
    Thread,
    /// The kernel.
    Kernel,
    /// A program or a library on disk.
    Native,
    /// Code that a program generated while it ran.
    Generated,
}

/// A slice of the measured time of a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Length, ns.
    pub length_ns: u64,
    /// Number of requests that were answered in the slice.
    pub requests: u64,
    /// CPU time of the gateway in the slice, from the CPU clocks of its processes, ns; absent if unknown.
    pub cpu_ns: Option<u64>,
    /// The stacks that were seen: index of the stack, and its time, ns. For [`PassKind::Cpu`], this is the
    /// number of samples × the time between two samples.
    pub stacks: Vec<(u32, u64)>,
}
