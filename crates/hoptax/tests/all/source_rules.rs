//! Rules for the source that the compiler cannot check: where random numbers come from, what `rsa` is used
//! for, and which files modules and their tests have.

use std::fs;
use std::path::{Path, PathBuf};

/// All Rust files below a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// All Rust files of all crates below these folders.
fn of_all_crates(folders: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(crates).expect("crates").flatten() {
        let roots = folders.iter().map(|folder| entry.path().join(folder));
        roots.filter(|root| root.is_dir()).for_each(|root| sources(&root, &mut files));
    }
    files
}

/// The arguments of each call of `function` in `text`, without white space.
fn arguments(text: &str, function: &str) -> Vec<String> {
    let dense: String = text.split_whitespace().collect();
    let after = dense.split(function).skip(1);
    let is_end = |depth: &mut i32, letter: char| {
        *depth += i32::from(letter == '(') - i32::from(letter == ')');
        *depth < 0
    };
    let end = |rest: &&str| {
        let mut depth = 0;
        rest.char_indices().find(|&(_, letter)| is_end(&mut depth, letter)).map(|(at, _)| at)
    };
    after.filter_map(|rest| Some(rest[..end(&rest)?].to_owned())).collect()
}

#[test]
fn no_random_number_begins_with_the_clock_or_a_process_id() {
    let mut calls = 0;
    for file in of_all_crates(&["src"]) {
        let text = fs::read_to_string(&file).expect("text");
        for argument in ["Random::new(", "Random::stream("].iter().flat_map(|call| arguments(&text, call)) {
            calls += 1;
            let can_be_guessed =
                ["clock::", "process::id", "SystemTime"].iter().any(|one| argument.contains(one));
            assert!(!can_be_guessed, "{}: {argument}: use random::from_system", file.display());
        }
    }
    assert!(calls > 30, "only {calls} calls were found");
}

#[test]
fn arguments_are_found_across_lines() {
    let text = "let a = Random::stream(\n    clock::unix(),\n    u64::from(id()),\n).next_u64();";
    assert_eq!(arguments(text, "Random::stream("), ["clock::unix(),u64::from(id()),"]);
}

/// `deny.toml` accepts an advisory that the time of signing or decrypting depends on the private key. This is
/// safe only as long as hoptax uses `rsa` only to make keys.
#[test]
fn rsa_only_makes_keys() {
    let rules =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml")).expect("rules");
    assert!(rules.contains(r#"id = "RUSTSEC-2023-0071", reason ="#), "{rules}");
    let mut uses = Vec::new();
    for file in of_all_crates(&["src"]) {
        let text = fs::read_to_string(&file).expect("text");
        let after = text
            .match_indices("rsa::")
            .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric()));
        let path = |rest: &str| rest.split([' ', '(', ';', '{', ',']).next().unwrap_or_default().to_owned();
        uses.extend(after.map(|(at, _)| path(&text[at..])));
    }
    uses.sort();
    uses.dedup();
    assert_eq!(
        uses,
        ["rsa::RsaPrivateKey::new", "rsa::pkcs8::", "rsa::rand_core::OsRng", "rsa::traits::PublicKeyParts"]
    );
}

/// Unit tests of more lines than this have a file of their own.
const MOST_LINES_OF_TESTS: usize = 200;

#[test]
fn modules_and_unit_tests_have_one_form() {
    for file in of_all_crates(&["src", "tests"]) {
        let folder = file.with_extension("");
        assert!(!folder.is_dir(), "{0}.rs has files of its own: write it as {0}/mod.rs", folder.display());
        let is_apart = folder.to_string_lossy().ends_with("_tests");
        assert!(!is_apart, "{}: tests of a module are in tests.rs in the module's folder", file.display());
        let text = fs::read_to_string(&file).expect("text");
        let tests = text.split("#[cfg(test)]\nmod tests {\n").nth(1).unwrap_or_default();
        let lines = tests.lines().count();
        assert!(lines <= MOST_LINES_OF_TESTS, "{}: {lines} lines of tests: move them", file.display());
    }
}
