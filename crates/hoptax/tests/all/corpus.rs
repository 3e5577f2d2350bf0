//! Checks the properties of all fuzz targets on the inputs in `fuzz/corpus/`. These inputs are seeds, and
//! inputs that once broke a parser.

// This file belongs to the crate of the fuzzers. Here it is included as a module.
#[allow(unreachable_pub)]
#[path = "../../../../fuzz/src/lib.rs"]
mod properties;

use properties::{chunked, grpc, histogram, hpack, http2, plan, request, response, spec, template};
use std::fs;
use std::path::Path;

/// Panics if the input violates the property. Returns whether the parser accepted the input.
type Property = fn(&[u8]) -> bool;

const TARGETS: [(&str, Property); 10] = [
    ("chunked", chunked::holds),
    ("grpc", grpc::holds),
    ("histogram", histogram::holds),
    ("hpack", hpack::holds),
    ("http2", http2::holds),
    ("plan", plan::holds),
    ("request", request::holds),
    ("response", response::holds),
    ("spec", spec::holds),
    ("template", template::holds),
];

fn fuzz() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn properties_hold_for_the_whole_corpus() {
    for (target, property) in TARGETS {
        let directory = fuzz().join("corpus").join(target);
        let inputs = names(&directory);
        let (mut accepted, all) = (0, inputs.len());
        for name in inputs {
            println!("{target}/{name}");
            let input = fs::read(directory.join(&name)).expect("a file");
            accepted += usize::from(property(&input));
            // Prefixes of the input are tried too, because a parser reads its input in parts.
            for cut in (0..input.len()).step_by(input.len().div_ceil(16).max(1)) {
                property(&input[..cut]);
            }
        }
        // Many properties are only about input that is accepted, and others only about input that is refused.
        println!("{target}: {accepted} of {all} accepted");
        assert!(accepted >= 2 && all - accepted >= 2, "{target}: {accepted} of {all} accepted");
    }
}

#[test]
fn every_fuzz_target_is_listed() {
    let named: Vec<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz().join("corpus")), named);
    let files: Vec<String> = named.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names(&fuzz().join("targets")), files);
}

#[test]
fn the_corpus_stays_small() {
    let size = |target: &str| -> u64 {
        let directory = fuzz().join("corpus").join(target);
        names(&directory).iter().map(|name| fs::metadata(directory.join(name)).expect("a file").len()).sum()
    };
    let all: u64 = TARGETS.iter().map(|(target, _)| size(target)).sum();
    assert!(all < 200 * 1024, "{all} bytes");
}
