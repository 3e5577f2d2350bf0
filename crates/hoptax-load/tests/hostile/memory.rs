//! Compares the memory that the engine uses in a flood with the memory that it uses with a well-behaved
//! server. Each load runs in a process of its own.

use super::floods::floods;
use super::server::Server;
use super::{AT_ONCE, Case, IMPATIENT, answers, shapes};
use crate::Outcome::Answered;
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::LoadSpec;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

/// Environment variable with the path of the load spec for the child process. The child prints [`MARK`] and
/// then its record to standard output.
const SPEC_FILE: &str = "HOPTAX_TEST_SPEC";
const MARK: &str = "record: ";
/// Number of connections of each load. Memory that is used per connection is multiplied by this number.
const CONNECTIONS: u32 = 8;
/// Maximum memory per connection for a response, bytes. A head has 64 KiB, and the data after it has the same
/// length. Both are doubled, because vectors double their capacity when they grow.
const MOST_PER_CONNECTION: u64 = 4 * 64 * 1024;
/// Difference in memory between two processes that do the same work, bytes.
const NOISE: u64 = 2 << 20;

/// Runs one load. The other test in this file starts this test in a child process; it never runs on its own.
#[test]
#[ignore = "a part of a_flood_leaves_memory_bounded"]
fn child() {
    let path = std::env::var(SPEC_FILE).expect("started by the other test");
    let spec: LoadSpec = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("a spec");
    let record = super::load(spec).expect("a load");
    println!("{MARK}{}", serde_json::to_string(&record).expect("a record is JSON"));
}

fn in_a_child(case: &Case) -> LoadRecord {
    let server = Server::start(&case.behaviour);
    let [closed, _] = shapes();
    let spec = case.spec(server.address, closed);
    let mut spec = LoadSpec { connections: CONNECTIONS, requests: Some(2 * u64::from(CONNECTIONS)), ..spec };
    if case.timeout == IMPATIENT {
        // Eight connections receive tens of MiB in this time, which is many times the allowed memory.
        spec.timeouts.total_ns = IMPATIENT / 4;
    }
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&serde_json::to_vec(&spec).expect("a spec is JSON")).expect("room");
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "memory::child", "--ignored", "--nocapture", "--test-threads=1"])
        .env(SPEC_FILE, file.path())
        .stderr(Stdio::inherit())
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {text}", case.name);
    let json = text.lines().find_map(|line| line.split_once(MARK)).expect("a record").1;
    let record = serde_json::from_str(json).expect("a record");
    super::adds_up(&record);
    record
}

#[test]
fn a_flood_leaves_memory_bounded() {
    let good = answers("well-behaved", Answered(200), b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let record = in_a_child(&good);
    let (usual, all) = (record.rss_bytes_max, record.counts.scheduled);
    assert_eq!(record.counts.ok, all);
    let check = |case: &Case| {
        let record = in_a_child(case);
        assert_eq!((record.counts.scheduled, record.counts.ok), (all, 0), "{}", case.name);
        let more = record.rss_bytes_max.saturating_sub(usual);
        let most = NOISE + u64::from(CONNECTIONS) * MOST_PER_CONNECTION;
        println!("{}: {} KiB more than {} KiB", case.name, more / 1024, usual / 1024);
        assert!(more <= most, "{}: {more} bytes more", case.name);
    };
    // A flood that lasts until a timeout uses a whole CPU until then.
    for floods in floods().chunks(AT_ONCE) {
        thread::scope(|scope| {
            for case in floods {
                scope.spawn(move || check(case));
            }
        });
    }
}
