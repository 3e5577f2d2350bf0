//! Adds up the stacks that perf recorded, by slice of time.

use super::folded::{Folded, Span};
use super::script::{Address, Entry, Thread};
use crate::maps::Names;
use hoptax_record::profile::{Callers, Frame, FrameKind, PassKind};
use std::collections::BTreeMap;

/// Longest name of a function, in characters. Names of C++ templates can have thousands.
const LONGEST_NAME: usize = 240;

/// A number in the name of a file with at least this many digits is random. Versions and dates have fewer.
const SHORTEST_RANDOM: usize = 10;

/// Name of the frame of threads that were ready to run and had no CPU.
const READY: &str = "waits for a CPU";

/// Longest time between the sample of a switch and the record of the same switch, ns. The kernel writes both
/// within microseconds, unless the machine takes the CPU away in between.
const SAME_SWITCH_NS: u64 = 1_000_000;

/// Adds up stacks. Times are on the clock of [`hoptax_format::clock::now`].
#[derive(Debug)]
pub(super) struct Fold<'a> {
    kind: PassKind,
    callers: Callers,
    /// Slices of the measured time, in order and without overlap.
    spans: &'a [Span],
    /// Time between two samples of a thread that uses a CPU, ns.
    sample_ns: u64,
    frames: BTreeMap<Frame, u32>,
    stacks: BTreeMap<Vec<u32>, u32>,
    slices: Vec<BTreeMap<u32, u64>>,
    /// Threads that have left their CPU, by thread id.
    away: BTreeMap<u32, Away>,
    samples: u64,
    lost: u64,
    /// Reads the names of a process's generated code.
    read_names: fn(u32) -> Option<Names>,
    /// The names that were read so far, by process id.
    names: BTreeMap<u32, Option<Names>>,
}

/// A thread that has left its CPU.
#[derive(Debug)]
struct Away {
    since_ns: u64,
    /// Index of the stack that the thread had when it left the CPU. Absent until its sample has been read.
    stack: Option<u32>,
    /// Whether the kernel took the CPU away although the thread was ready to run. Absent until the record of
    /// the switch has been read.
    ready: Option<bool>,
    thread: Thread,
}

impl<'a> Fold<'a> {
    pub(super) fn new(kind: PassKind, callers: Callers, spans: &'a [Span], sample_ns: u64) -> Self {
        Self {
            kind,
            callers,
            spans,
            sample_ns,
            frames: BTreeMap::new(),
            stacks: BTreeMap::new(),
            slices: vec![BTreeMap::new(); spans.len()],
            away: BTreeMap::new(),
            samples: 0,
            lost: 0,
            read_names: Names::read,
            names: BTreeMap::new(),
        }
    }

    /// Adds an entry. perf sorts entries by time.
    pub(super) fn add(&mut self, entry: Entry) {
        match (self.kind, entry) {
            (_, Entry::Lost(count)) => self.lost += count,
            (PassKind::Cpu, Entry::Sample { thread, at_ns, frames }) => {
                let Some(slice) = self.slice_at(at_ns) else { return };
                let stack = self.stack(&thread, &frames);
                *self.slices[slice].entry(stack).or_default() += self.sample_ns;
                self.samples += 1;
            }
            (PassKind::Cpu, Entry::Left { .. } | Entry::Came { .. } | Entry::Ended { .. }) => {}
            (PassKind::Waiting, Entry::Sample { thread, at_ns, frames }) => {
                let frames = self.trusted(frames);
                let stack = self.stack(&thread, &frames);
                self.away(thread, at_ns, |away| away.stack.is_none()).stack = Some(stack);
            }
            (PassKind::Waiting, Entry::Left { thread, at_ns, ready }) => {
                self.away(thread, at_ns, |away| away.ready.is_none()).ready = Some(ready);
            }
            // A thread ends on a CPU. If it seems to be away, the record of its return was lost.
            (PassKind::Waiting, Entry::Ended { thread }) => {
                self.away.remove(&thread);
            }
            (PassKind::Waiting, Entry::Came { thread, at_ns }) => {
                if let Some(away) = self.away.remove(&thread.id) {
                    self.back(away, at_ns);
                }
            }
        }
    }

    /// Returns the sums. Threads that are still away count as waiting until the end of the last slice.
    pub(super) fn finish(mut self) -> Folded {
        let end_ns = self.spans.last().map_or(0, |span| span.to_ns);
        for away in std::mem::take(&mut self.away).into_values() {
            self.back(away, end_ns);
        }
        Folded {
            frames: in_order(self.frames),
            stacks: in_order(self.stacks),
            slices: self.slices.into_iter().map(|slice| slice.into_iter().collect()).collect(),
            samples: self.samples,
            lost: self.lost,
            unreadable: 0,
        }
    }

    fn slice_at(&self, at_ns: u64) -> Option<usize> {
        self.spans.iter().position(|span| (span.from_ns..span.to_ns).contains(&at_ns))
    }

    /// The entry of a thread that leaves its CPU. perf reports this as a sample and as the record of a
    /// switch, in any order, at about the same time. `lacks` returns true if an entry still lacks the half
    /// that is to be added. If the thread was already away, the record of its return was lost. That wait does
    /// not count, because its length is unknown.
    fn away(&mut self, thread: Thread, at_ns: u64, lacks: fn(&Away) -> bool) -> &mut Away {
        let id = thread.id;
        let is_same = |away: &mut Away| lacks(away) && at_ns.abs_diff(away.since_ns) <= SAME_SWITCH_NS;
        if !self.away.get_mut(&id).is_some_and(is_same) {
            self.away.insert(id, Away { since_ns: at_ns, stack: None, ready: None, thread });
        }
        self.away.get_mut(&id).expect("it was there or is there now")
    }

    /// Adds the time for which a thread was away to the slices that overlap it.
    fn back(&mut self, away: Away, until_ns: u64) {
        let stack = match (away.stack, away.ready) {
            (_, Some(true)) => {
                let frame = Frame {
                    name: READY.to_owned(),
                    module: String::new(),
                    kind: FrameKind::Kernel,
                    named: true,
                };
                let path = vec![self.thread_frame(&away.thread), number(&mut self.frames, frame)];
                number(&mut self.stacks, path)
            }
            (Some(stack), _) => stack,
            // Without a sample, the reason for the wait is unknown.
            (None, _) => return,
        };
        self.samples += 1;
        for (span, slice) in self.spans.iter().zip(&mut self.slices) {
            let (from, to) = (away.since_ns.max(span.from_ns), until_ns.min(span.to_ns));
            if to > from {
                *slice.entry(stack).or_default() += to - from;
            }
        }
    }

    /// The frames that can be trusted. In passes of waiting, perf finds callers only by frame pointers,
    /// because it would otherwise have to copy a whole stack at each switch. If the program has no frame
    /// pointers, only the kernel's frames and the function that called the kernel are right.
    fn trusted(&self, mut frames: Vec<Address>) -> Vec<Address> {
        if self.callers == Callers::Dwarf {
            let first_of_program = frames.iter().position(|frame| !is_kernel(frame));
            frames.truncate(first_of_program.map_or(frames.len(), |at| at + 1));
        }
        frames
    }

    /// Index of a stack. `frames` begins with the innermost frame.
    fn stack(&mut self, thread: &Thread, frames: &[Address]) -> u32 {
        let mut path = vec![self.thread_frame(thread)];
        for frame in frames.iter().rev() {
            let frame = self.named(frame);
            path.push(number(&mut self.frames, frame));
        }
        number(&mut self.stacks, path)
    }

    fn named(&mut self, frame: &Address) -> Frame {
        let (kind, module) = module(frame);
        let symbol = match process_of_map(&frame.module) {
            Some(pid) => {
                let names = self.names.entry(pid).or_insert_with(|| (self.read_names)(pid));
                names.as_ref().and_then(|names| names.at(frame.address))
            }
            None => frame.symbol.as_deref(),
        };
        let name = match symbol {
            Some(symbol) => symbol.chars().take(LONGEST_NAME).collect(),
            None => format!("[{module}]"),
        };
        Frame { name, module, kind, named: symbol.is_some() }
    }

    fn thread_frame(&mut self, thread: &Thread) -> u32 {
        let frame = Frame {
            name: without_numbers(&thread.name),
            module: String::new(),
            kind: FrameKind::Thread,
            named: true,
        };
        number(&mut self.frames, frame)
    }
}

/// The number of a value. A new value gets the next number.
fn number<T: Ord>(known: &mut BTreeMap<T, u32>, value: T) -> u32 {
    let next = known.len() as u32;
    *known.entry(value).or_insert(next)
}

/// The values by their numbers.
fn in_order<T>(known: BTreeMap<T, u32>) -> Vec<T> {
    let mut values: Vec<(T, u32)> = known.into_iter().collect();
    values.sort_by_key(|(_, number)| *number);
    values.into_iter().map(|(value, _)| value).collect()
}

/// The upper half of the address space belongs to the kernel, on x86-64 and on arm64.
fn is_kernel(frame: &Address) -> bool {
    frame.address >> 63 == 1
}

/// The process id in the name of a map, `/tmp/perf-PID.map`. perf reports this map as the file of generated
/// code.
fn process_of_map(module: &str) -> Option<u32> {
    let file = module.rsplit('/').next()?;
    file.strip_prefix("perf-")?.strip_suffix(".map")?.parse().ok()
}

/// Kind and short name of the module of a frame.
fn module(frame: &Address) -> (FrameKind, String) {
    let text = frame.module.as_str();
    let file = text.rsplit('/').next().unwrap_or(text);
    if is_kernel(frame) {
        // Modules of the kernel have names such as `[nf_conntrack]`.
        let name = text.trim_matches(['[', ']']);
        let is_core = name.starts_with("kernel") || name == "unknown" || name == "guest.kernel.kallsyms";
        return (FrameKind::Kernel, if is_core { "kernel".to_owned() } else { name.to_owned() });
    }
    // perf finds generated code in maps `/tmp/perf-PID.map`, or only knows that the memory belongs to no
    // file.
    let is_memory = text.starts_with("//anon") || text.starts_with("[anon") || text.contains("memfd:");
    if process_of_map(text).is_some() || is_memory || matches!(text, "[unknown]" | "[heap]" | "[stack]") {
        return (FrameKind::Generated, "generated code".to_owned());
    }
    (FrameKind::Native, without_random_numbers(file))
}

/// Replaces long numbers in the name of a file. Netty unpacks its library under a new name at each start, so
/// the same functions would be in another module in each process.
fn without_random_numbers(file: &str) -> String {
    let mut text = String::new();
    let mut rest = file;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let digits = rest[at..].find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len() - at);
        let (number, after) = rest[at..].split_at(digits);
        text.push_str(&rest[..at]);
        text.push_str(if digits < SHORTEST_RANDOM { number } else { "#" });
        rest = after;
    }
    text + rest
}

/// Replaces numbers, so that the threads of a pool have the same name.
fn without_numbers(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        match letter.is_ascii_digit() {
            true if text.ends_with('#') => {}
            true => text.push('#'),
            false => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: [Span; 2] = [Span { from_ns: 100, to_ns: 200 }, Span { from_ns: 200, to_ns: 300 }];

    fn thread(id: u32) -> Thread {
        Thread { name: format!("worker-{id}"), id }
    }

    fn address(symbol: Option<&str>, module: &str) -> Address {
        let kernel = module.starts_with("[k");
        Address {
            address: if kernel { 1 << 63 } else { 0x5000 },
            symbol: symbol.map(str::to_owned),
            module: module.into(),
        }
    }

    fn sample(id: u32, at_ns: u64, frames: &[Address]) -> Entry {
        Entry::Sample { thread: thread(id), at_ns, frames: frames.to_vec() }
    }

    fn folded(kind: PassKind, callers: Callers, entries: Vec<Entry>) -> Folded {
        let mut fold = Fold::new(kind, callers, &SPANS, 10);
        entries.into_iter().for_each(|entry| fold.add(entry));
        fold.finish()
    }

    /// The stacks of a slice as text, with their times.
    fn shown(folded: &Folded, slice: usize) -> Vec<(String, u64)> {
        let name = |frame: &u32| folded.frames[*frame as usize].name.as_str();
        let text = |stack: u32| folded.stacks[stack as usize].iter().map(name).collect::<Vec<_>>().join(";");
        let mut all: Vec<_> = folded.slices[slice].iter().map(|(stack, ns)| (text(*stack), *ns)).collect();
        all.sort();
        all
    }

    #[test]
    fn samples_count_in_the_slice_of_their_time() {
        let frames = [address(Some("deflate"), "/lib/libz.so.1"), address(None, "/usr/sbin/nginx")];
        let entries = vec![
            sample(1, 99, &frames),
            sample(1, 100, &frames),
            sample(2, 150, &frames),
            sample(1, 200, &frames[1..]),
            sample(1, 300, &frames),
            Entry::Lost(4),
        ];
        let folded = folded(PassKind::Cpu, Callers::Dwarf, entries);
        assert_eq!((folded.samples, folded.lost, folded.stacks.len()), (3, 4, 2));
        assert_eq!(shown(&folded, 0), [("worker-#;[nginx];deflate".to_owned(), 20)]);
        assert_eq!(shown(&folded, 1), [("worker-#;[nginx]".to_owned(), 10)]);
        let unnamed = folded.frames.iter().find(|frame| frame.name == "[nginx]").expect("a frame");
        assert!(!unnamed.named && unnamed.kind == FrameKind::Native);
    }

    #[test]
    fn waiting_lasts_from_a_switch_to_the_next_and_is_cut_at_the_slices() {
        let stack =
            [address(Some("schedule"), "[kernel.kallsyms]"), address(Some("epoll_wait"), "/lib/libc.so.6")];
        let left = |id, at_ns, ready| Entry::Left { thread: thread(id), at_ns, ready };
        let came = |id, at_ns| Entry::Came { thread: thread(id), at_ns };
        let entries = vec![
            sample(1, 50, &stack),
            left(1, 50, false),
            came(1, 130),
            left(1, 190, true),
            sample(1, 190, &stack),
            came(1, 210),
            left(2, 290, false),
            sample(2, 290, &stack),
            came(3, 250),
        ];
        let folded = folded(PassKind::Waiting, Callers::FramePointers, entries);
        let waits = "worker-#;epoll_wait;schedule".to_owned();
        let ready = format!("worker-#;{READY}");
        assert_eq!(shown(&folded, 0), [(waits.clone(), 30), (ready.clone(), 10)]);
        assert_eq!(shown(&folded, 1), [(waits, 10), (ready, 10)]);
    }

    #[test]
    fn a_wait_whose_end_was_lost_does_not_count() {
        let ms = 1_000_000;
        let spans = [Span { from_ns: 0, to_ns: 100 * ms }];
        let stack = |name| [address(Some(name), "/lib/libc.so.6")];
        let left = |id, at_ns| Entry::Left { thread: thread(id), at_ns, ready: false };
        let mut fold = Fold::new(PassKind::Waiting, Callers::FramePointers, &spans, 10);
        let entries = [
            sample(1, 10 * ms, &stack("read")),
            left(1, 10 * ms + 900),
            // The record of its return is lost. In the next switch, the record comes before the sample.
            left(1, 60 * ms),
            sample(1, 60 * ms + 900, &stack("write")),
            Entry::Came { thread: thread(1), at_ns: 65 * ms },
            // The record of the first switch and that of the return are lost.
            sample(2, 20 * ms, &stack("read")),
            left(2, 70 * ms),
            sample(2, 70 * ms, &stack("write")),
            Entry::Came { thread: thread(2), at_ns: 73 * ms },
            // A thread ends.
            sample(3, 30 * ms, &stack("exit")),
            left(3, 30 * ms),
            Entry::Ended { thread: 3 },
            // A thread waits longer than the pass.
            sample(4, 90 * ms, &stack("accept")),
            left(4, 90 * ms),
        ];
        entries.into_iter().for_each(|entry| fold.add(entry));
        let folded = fold.finish();
        let expected = [("worker-#;accept".to_owned(), 10 * ms), ("worker-#;write".to_owned(), 8 * ms)];
        assert_eq!(shown(&folded, 0), expected);
    }

    #[test]
    fn without_frame_pointers_only_the_innermost_frame_of_the_program_counts() {
        let stack = [
            address(Some("schedule"), "[kernel.kallsyms]"),
            address(Some("epoll_wait"), "/lib/libc.so.6"),
            address(Some("garbage"), "/usr/sbin/nginx"),
        ];
        let entries = vec![sample(1, 110, &stack), Entry::Came { thread: thread(1), at_ns: 120 }];
        let folded = folded(PassKind::Waiting, Callers::Dwarf, entries);
        assert_eq!(shown(&folded, 0), [("worker-#;epoll_wait;schedule".to_owned(), 10)]);
    }

    #[test]
    fn names_of_generated_code_come_from_the_map_and_not_from_perf() {
        let mut fold = Fold::new(PassKind::Cpu, Callers::FramePointers, &SPANS, 10);
        fold.read_names = |pid| (pid == 78).then(|| Names::parse(b"4f00 100 old\n4ff0 100 new\n"));
        let frames = ["/tmp/perf-77.map", "/tmp/perf-78.map"].map(|map| address(Some("old"), map));
        fold.add(sample(1, 150, &frames));
        let folded = fold.finish();
        assert_eq!(shown(&folded, 0), [("worker-#;new;[generated code]".to_owned(), 10)]);
        assert!(folded.frames.iter().any(|frame| frame.name == "[generated code]" && !frame.named));
    }

    #[test]
    fn modules_have_short_names_and_kinds() {
        let of = |address: u64, name: &str| module(&Address { address, symbol: None, module: name.into() });
        let (user, kernel) = (0x7000, u64::MAX);
        assert_eq!(of(user, "/usr/lib/libz.so.1"), (FrameKind::Native, "libz.so.1".into()));
        assert_eq!(of(user, "/lib/libssl-20251126.so").1, "libssl-20251126.so");
        assert_eq!(of(user, "/tmp/libnetty_x86_642256815487722663149.so").1, "libnetty_x86_#.so");
        assert_eq!(of(user, "[vdso]"), (FrameKind::Native, "[vdso]".into()));
        assert_eq!(of(kernel, "[kernel.kallsyms]"), (FrameKind::Kernel, "kernel".into()));
        assert_eq!(of(kernel, "[nf_conntrack]"), (FrameKind::Kernel, "nf_conntrack".into()));
        for generated in ["/tmp/perf-77.map", "//anon", "[anon:.bss]", "[unknown]", "/memfd:jit"] {
            assert_eq!(of(user, generated).0, FrameKind::Generated, "{generated}");
        }
    }

    #[test]
    fn threads_of_a_pool_share_a_name() {
        assert_eq!(without_numbers("reactor-http-epoll-12"), "reactor-http-epoll-#");
        assert_eq!(without_numbers("wrk:worker_0"), "wrk:worker_#");
        assert_eq!(without_numbers("nginx"), "nginx");
    }
}
