//! What the fuzzers ask of every parser, asked of all the input in `fuzz/corpus/`: seeds, and whatever was found to break one.

// Public for the fuzzers, whose crate this is.
#[allow(unreachable_pub)]
#[path = "../../../../fuzz/src/lib.rs"]
mod properties;

use properties::{chunked, histogram, plan, request, response, spec, template};
use std::fs;
use std::path::Path;

/// Panics where its input makes a parser break its word.
type Property = fn(&[u8]);

/// Every fuzz target, and what must hold of its input.
const TARGETS: [(&str, Property); 7] = [
    ("chunked", chunked::holds),
    ("histogram", histogram::holds),
    ("plan", plan::holds),
    ("request", request::holds),
    ("response", response::holds),
    ("spec", spec::holds),
    ("template", template::holds),
];

fn fuzz() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}

/// The names in a directory, in order.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn all_that_was_found_and_all_seeds_hold() {
    for (target, holds) in TARGETS {
        let directory = fuzz().join("corpus").join(target);
        let inputs = names(&directory);
        assert!(inputs.len() >= 7, "{target}: {} inputs", inputs.len());
        for name in inputs {
            println!("{target}/{name}");
            let input = fs::read(directory.join(&name)).expect("a file");
            holds(&input);
            // The front of what is whole is what comes in first; so much of it, here.
            for cut in (0..input.len()).step_by(input.len().div_ceil(16).max(1)) {
                holds(&input[..cut]);
            }
        }
    }
}

#[test]
fn every_target_is_asked() {
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
