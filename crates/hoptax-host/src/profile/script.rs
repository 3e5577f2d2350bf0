//! Reads the text that `perf script -F comm,pid,tid,time,event,ip,sym,dso --ns` prints.
//!
//! Each sample is a line with the thread and the time, then a line for each frame, the innermost first, then
//! an empty line. `--show-switch-events`, `--show-task-events` and `--show-lost-events` add lines without
//! frames. perf's sources define the format (`tools/perf/builtin-script.c` and
//! `tools/perf/util/evsel_fprintf.c`); it is the same from perf 4.13 on.

use std::io::{self, BufRead};

/// Something that perf recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A sample with its frames, the innermost first.
    Sample { thread: Thread, at_ns: u64, frames: Vec<Address> },
    /// A thread left its CPU. `ready` is true if it was taken off, and false if it waits for something.
    Left { thread: Thread, at_ns: u64, ready: bool },
    /// A thread got a CPU.
    Came { thread: Thread, at_ns: u64 },
    /// The thread with this id ended.
    Ended { thread: u32 },
    /// The kernel dropped this number of records, because perf was too slow.
    Lost(u64),
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) id: u32,
}

/// A frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) address: u64,
    /// Name of the function. Absent if perf found no symbol.
    pub(super) symbol: Option<String>,
    /// The file with the function, or a name in brackets.
    pub(super) module: String,
}

/// Passes each entry of the text to `each`. Returns the number of lines that are in no known form. Fails if
/// the text cannot be read.
pub(super) fn read(mut text: impl BufRead, mut each: impl FnMut(Entry)) -> io::Result<u64> {
    let mut unreadable = 0;
    let mut sample: Option<Entry> = None;
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if text.read_until(b'\n', &mut bytes)? == 0 {
            sample.into_iter().for_each(&mut each);
            return Ok(unreadable);
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        // perf indents a frame with a tab. It pads the name of a thread with spaces.
        if let (true, Some(Entry::Sample { frames, .. })) = (line.starts_with('\t'), &mut sample) {
            match frame(line) {
                Some(frame) => frames.push(frame),
                None => unreadable += 1,
            }
            continue;
        }
        sample.take().into_iter().for_each(&mut each);
        if line.trim().is_empty() {
            continue;
        }
        match head(line) {
            Some(Head::Sample(entry)) => sample = Some(entry),
            Some(Head::Alone(entry)) => each(entry),
            Some(Head::Nothing) => {}
            None => unreadable += 1,
        }
    }
}

/// The first line of an entry.
enum Head {
    /// Lines with frames follow.
    Sample(Entry),
    /// The entry is complete.
    Alone(Entry),
    /// The line says nothing about stacks.
    Nothing,
}

/// Parses a line such as `nginx 4711/4711 1234.567890123: cpu-clock:ppp: `. The name of a thread may contain
/// spaces.
fn head(line: &str) -> Option<Head> {
    let (thread, at_ns, rest) = moment(line)?;
    let Some((_, record)) = rest.split_once("PERF_RECORD_") else {
        return Some(Head::Sample(Entry::Sample { thread, at_ns, frames: Vec::new() }));
    };
    // `EXIT(PID:TID):(PPID:PTID)`, and `COMM: NAME:PID/TID` or `COMM exec: …`.
    let end = record.find([' ', '(', ':'])?;
    let (kind, detail) = record.split_at(end);
    let entry = match (kind, detail.trim()) {
        ("EXIT", detail) => {
            let (_, thread) = detail.strip_prefix('(')?.split_once(')')?.0.split_once(':')?;
            Entry::Ended { thread: thread.parse().ok()? }
        }
        ("FORK" | "COMM", _) => return Some(Head::Nothing),
        ("SWITCH" | "SWITCH_CPU_WIDE", detail) if detail.starts_with("IN") => Entry::Came { thread, at_ns },
        ("SWITCH" | "SWITCH_CPU_WIDE", detail) if detail.starts_with("OUT") => {
            Entry::Left { thread, at_ns, ready: detail.starts_with("OUT preempt") }
        }
        ("LOST" | "LOST_SAMPLES", detail) => {
            Entry::Lost(detail.split_whitespace().next_back()?.parse().ok()?)
        }
        _ => return None,
    };
    Some(Head::Alone(entry))
}

/// Finds `PID/TID SECONDS.NANOSECONDS:` in a line. Returns the thread, the time, and the rest of the line.
fn moment(line: &str) -> Option<(Thread, u64, &str)> {
    let mut from = 0;
    loop {
        let slash = from + line[from..].find('/')?;
        from = slash + 1;
        let before = &line[..slash];
        let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (name, process) = before.split_at(before.len() - digits);
        let Some((thread, rest)) = line[from..].split_once(char::is_whitespace) else { continue };
        let Some((time, rest)) = rest.trim_start().split_once(':') else { continue };
        let found = (process.parse::<u32>(), thread.parse::<u32>(), nanoseconds(time));
        if let (Ok(_), Ok(id), Some(at_ns)) = found
            && name.ends_with(char::is_whitespace)
        {
            return Some((Thread { name: name.trim().to_owned(), id }, at_ns, rest));
        }
    }
}

/// Parses `1234.567890123`, in seconds. The fraction may have fewer digits.
pub(crate) fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let fraction: u64 = fraction.parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(hoptax_format::clock::SECOND)?.checked_add(fraction * 10_u64.pow(9 - digits))
}

/// Parses a line such as `\t    7f2c41d0a3b2 deflate+0x10 (/usr/lib/libz.so.1)`. Names of functions and of
/// files may contain spaces and parentheses.
fn frame(line: &str) -> Option<Address> {
    let line = line.trim();
    let (address, rest) = line.split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let inside = rest.strip_suffix(')')?;
    let inside = inside.strip_suffix(" (deleted)").unwrap_or(inside);
    let begins_module = |at: &usize| inside[at + 2..].starts_with(['/', '[']);
    let places = || inside.rmatch_indices(" (").map(|(at, _)| at);
    let (symbol, module) = match places().find(begins_module).or_else(|| places().next()) {
        Some(at) => (inside[..at].trim(), &inside[at + 2..]),
        // A frame without a symbol may have only a module.
        None => ("", inside.strip_prefix('(')?),
    };
    let symbol = (!symbol.is_empty() && symbol != "[unknown]").then(|| without_offset(symbol).to_owned());
    Some(Address { address, symbol, module: module.to_owned() })
}

/// Removes `+0x1f` from the end of a symbol. perf adds it unless fields are chosen.
fn without_offset(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) && !name.is_empty() => {
            name
        }
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of perf 6.1, shortened.
    const CPU: &str = "\
nginx  4712/4712  91042.118303511: cpu-clock:ppp:\x20
\tffffffff8163c2a4 finish_task_switch.isra.0 ([kernel.kallsyms])
\tffffffff81e3b0c5 schedule ([kernel.kallsyms])
\t    7f2c41fd5e26 epoll_wait (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    55a2f0c7a1d0 [unknown] (/usr/sbin/nginx)

nginx worker p  4712/4713  91042.120311: cpu-clock:ppp:\x20
\t    7f2c41d0a3b2 deflate (/usr/lib/x86_64-linux-gnu/libz.so.1.2.13)
\t    55a2f0c8b111 Envoy::Http::(anonymous namespace)::Codec::onData(Envoy::Buffer::Instance&, bool) (/tmp/my (old) files/envoy (deleted))
\t    7f2c40001234 LazyCompile:*handle /srv/app (v2)/index.js:12 (/tmp/perf-4712.map)

";

    fn entries(text: &str) -> (Vec<Entry>, u64) {
        let mut entries = Vec::new();
        let unreadable = read(text.as_bytes(), |entry| entries.push(entry)).expect("text in memory");
        (entries, unreadable)
    }

    fn address(address: u64, symbol: Option<&str>, module: &str) -> Address {
        Address { address, symbol: symbol.map(str::to_owned), module: module.to_owned() }
    }

    #[test]
    fn samples_have_threads_times_and_frames() {
        let (entries, unreadable) = entries(CPU);
        assert_eq!((entries.len(), unreadable), (2, 0));
        let Entry::Sample { thread, at_ns, frames } = &entries[0] else { panic!("{entries:?}") };
        assert_eq!((thread.name.as_str(), thread.id, *at_ns), ("nginx", 4712, 91_042_118_303_511));
        let kernel = "[kernel.kallsyms]";
        let expected = [
            address(0xffff_ffff_8163_c2a4, Some("finish_task_switch.isra.0"), kernel),
            address(0xffff_ffff_81e3_b0c5, Some("schedule"), kernel),
            address(0x7f2c_41fd_5e26, Some("epoll_wait"), "/usr/lib/x86_64-linux-gnu/libc.so.6"),
            address(0x55a2_f0c7_a1d0, None, "/usr/sbin/nginx"),
        ];
        assert_eq!(frames[..], expected);
    }

    #[test]
    fn names_may_contain_spaces_and_parentheses() {
        let (entries, _) = entries(CPU);
        let Entry::Sample { thread, at_ns, frames } = &entries[1] else { panic!("{entries:?}") };
        assert_eq!((thread.name.as_str(), thread.id), ("nginx worker p", 4713));
        assert_eq!(*at_ns, 91_042_120_311_000, "microseconds are read too");
        let cpp = "Envoy::Http::(anonymous namespace)::Codec::onData(Envoy::Buffer::Instance&, bool)";
        assert_eq!(frames[1], address(0x55a2_f0c8_b111, Some(cpp), "/tmp/my (old) files/envoy"));
        assert_eq!(frames[2].symbol.as_deref(), Some("LazyCompile:*handle /srv/app (v2)/index.js:12"));
        assert_eq!(frames[2].module, "/tmp/perf-4712.map");
    }

    #[test]
    fn switches_and_lost_records_are_entries_of_their_own() {
        let text = "\
           nginx  4712/4712  10.000000001: PERF_RECORD_SWITCH OUT         \x20
nginx  4712/4712  10.000000002: context-switches:\x20
\tffffffff81e3b0c5 schedule ([kernel.kallsyms])

           nginx  4712/4712  10.250000000: PERF_RECORD_SWITCH IN          \x20
           nginx  4712/4712  10.300000000: PERF_RECORD_SWITCH OUT preempt
           nginx  4712/4712  10.400000000: PERF_RECORD_LOST lost 17
";
        let (entries, unreadable) = entries(text);
        let thread = || Thread { name: "nginx".into(), id: 4712 };
        let ns = |ms: u64| (10_000 + ms) * 1_000_000;
        assert_eq!(unreadable, 0);
        assert_eq!(entries.len(), 5, "{entries:?}");
        assert_eq!(entries[0], Entry::Left { thread: thread(), at_ns: ns(0) + 1, ready: false });
        assert!(matches!(&entries[1], Entry::Sample { frames, .. } if frames.len() == 1));
        assert_eq!(entries[2], Entry::Came { thread: thread(), at_ns: ns(250) });
        assert_eq!(entries[3], Entry::Left { thread: thread(), at_ns: ns(300), ready: true });
        assert_eq!(entries[4], Entry::Lost(17));
    }

    #[test]
    fn the_end_of_a_thread_is_an_entry_and_its_begin_is_none() {
        let text = "\
         python3 30722/30722   909.491551593: PERF_RECORD_FORK(30722:30953):(30722:30722)
         python3 30722/30953   909.491600000: PERF_RECORD_COMM: worker 1:30722/30953
         python3 30722/30953   909.491600001: PERF_RECORD_COMM exec: sh:30722/30953
         python3 30722/30953   909.496875849: PERF_RECORD_EXIT(30722:30953):(30716:30716)
";
        assert_eq!(entries(text), (vec![Entry::Ended { thread: 30953 }], 0));
    }

    #[test]
    fn an_empty_text_has_no_entries_and_a_cut_one_keeps_its_last_sample() {
        assert_eq!(entries(""), (Vec::new(), 0));
        let cut = CPU.split_once("\tffffffff81e3b0c5").expect("a second frame").0;
        let (entries, unreadable) = entries(cut);
        assert!(matches!(&entries[..], [Entry::Sample { frames, .. }] if frames.len() == 1), "{entries:?}");
        assert_eq!(unreadable, 0);
    }

    #[test]
    fn lines_in_another_form_are_counted() {
        let text = "warning: something\nnginx  1/1  5.000000000: cpu-clock: \n\tnot an address (x)\n\t 12 f \
            (/x)\n\n";
        let (entries, unreadable) = entries(text);
        assert_eq!(unreadable, 2);
        assert!(matches!(&entries[..], [Entry::Sample { frames, .. }] if frames.len() == 1), "{entries:?}");
    }

    #[test]
    fn offsets_are_removed_and_operators_are_kept() {
        assert_eq!(frame("\t 1f deflate+0x10 (libz)").expect("a frame").symbol.as_deref(), Some("deflate"));
        assert_eq!(frame("\t 1f operator+ (a)").expect("a frame").symbol.as_deref(), Some("operator+"));
        assert_eq!(frame("\t 1f (/a)").expect("a frame"), address(0x1f, None, "/a"));
        assert_eq!(frame("\t xyz f (/a)"), None);
    }

    #[test]
    fn times_have_up_to_nine_digits() {
        assert_eq!(nanoseconds("1.000000001"), Some(1_000_000_001));
        assert_eq!(nanoseconds("1.5"), Some(1_500_000_000));
        assert_eq!([nanoseconds("1"), nanoseconds("1."), nanoseconds("a.1")], [None, None, None]);
    }
}
