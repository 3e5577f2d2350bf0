//! Tests on made-up passes.

use super::*;
use crate::fixture::profiles::{PLAIN, passes, profiled};
use hoptax_record::Stage;
use hoptax_record::profile::FrameKind;
use hoptax_stats::Estimate;

fn run() -> RunRecord {
    profiled().0.record
}

fn both() -> Profiles {
    profiles(&run(), &profiled().1)
}

fn cost<'p>(profile: &'p CaseProfile, name: &str) -> &'p FrameCost {
    let found = profile.frames.iter().find(|cost| cost.frame.name == name);
    found.unwrap_or_else(|| panic!("{name} in {:#?}", profile.frames))
}

#[test]
fn shares_of_samples_become_microseconds_of_the_cpu_clocks() {
    let all = both();
    let profile = &all.cases[0];
    assert_eq!((profile.passes, profile.failed, profile.samples), (6, 0, 2400));
    let near = |estimate: &Estimate, expected: f64| (estimate.estimate - expected).abs() < 0.05 * expected;
    assert!(near(profile.whole.as_ref().expect("measured"), 35.0), "{:?}", profile.whole);
    let (looping, sending) = (cost(profile, "loop"), cost(profile, "tcp_sendmsg"));
    assert!(near(&looping.own, 10.0) && near(&looping.total, 35.0), "{looping:?}");
    assert!(near(&sending.own, 20.0) && near(&sending.total, 20.0), "{sending:?}");
    assert!(sending.own.interval().is_some_and(|(low, high)| low < 20.3 && 19.7 < high && low > 19.0));
    assert_eq!(profile.frames[0].frame.name, "tcp_sendmsg", "the largest own time comes first");
    assert!(profile.frames.iter().all(|cost| cost.frame.kind != FrameKind::Thread));
    let modules: Vec<&str> = profile.modules.iter().map(|one| one.module.as_str()).collect();
    assert_eq!(modules, ["kernel", "nginx"]);
}

#[test]
fn the_tree_adds_up() {
    let all = both();
    let tree = &all.cases[1].tree;
    assert!(tree[0].parent.is_none() && tree.iter().skip(1).all(|node| node.parent.is_some()));
    for (index, node) in tree.iter().enumerate() {
        let below = tree.iter().filter(|one| one.parent == Some(index)).map(|one| one.total.estimate);
        let sum = node.own_us + below.sum::<f64>();
        assert!((node.total.estimate - sum).abs() < 1e-6, "{node:?}: {sum}");
        assert!(node.parent.is_none_or(|parent| parent < index));
    }
}

#[test]
fn the_frames_of_a_feature_are_its_difference() {
    let all = both();
    let [difference] = &all.differences[..] else { panic!("{:#?}", all.differences) };
    assert_eq!((difference.first, difference.second), (0, 1));
    assert!((difference.whole.estimate - 70.0).abs() < 2.0, "{:?}", difference.whole);
    let libz = difference.modules.iter().find(|one| one.module == "libz.so.1").expect("a module");
    assert!(libz.is_certain() && (libz.own.estimate - 70.0).abs() < 2.0, "{libz:?}");
    let deflate = difference.frames.iter().find(|one| one.frame.name == "deflate").expect("a frame");
    assert!((deflate.own.estimate - 30.0).abs() < 1.0 && (deflate.total.estimate - 70.0).abs() < 2.0);
    let sending = difference.frames.iter().find(|one| one.frame.name == "tcp_sendmsg").expect("a frame");
    assert!(!sending.is_certain(), "both spend the same time on it: {sending:?}");
    let names: Vec<&str> = difference.tree.iter().map(|node| node.frame.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "loop").count(), 1, "{names:?}");
    let node = difference.tree.iter().find(|node| node.frame.name == "filter").expect("a node");
    assert!(node.is_certain() && node.first_us == 0.0, "{node:?}");
    assert!(difference.tree.iter().enumerate().all(|(at, node)| node.parent.is_none_or(|one| one < at)));
}

#[test]
fn a_frame_that_is_too_small_to_be_listed_on_one_side_is_not_zero_in_the_difference() {
    // The frame `small` has 0.04 % of the first profile, and 5 % of the second.
    let first = passes("nginx", &[("main;loop", 99.96), ("main;small", 0.04), ("main;tiny", 0.01)], 7);
    let second = passes("nginx.gzip", &[("main;loop", 0.71), ("main;small", 0.04)], 8);
    let all = profiles(&run(), &[first, second].concat());
    let names =
        |profile: &CaseProfile| profile.frames.iter().map(|cost| cost.frame.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(&all.cases[0]).len(), names(&all.cases[1]).len()), (2, 3));
    let [difference] = &all.differences[..] else { panic!("{:#?}", all.differences) };
    let small = difference.frames.iter().find(|one| one.frame.name == "small").expect("a frame");
    assert!(small.own.estimate.abs() < 0.005 && !small.is_certain(), "{small:?}");
    assert!(difference.frames.iter().all(|one| one.frame.name != "tiny"), "too small on both sides");
}

#[test]
fn frames_without_symbols_or_the_kernel_are_reported() {
    let all = both();
    let missing = &all.cases[1].missing;
    let names: Vec<&str> = missing.iter().map(|one| one.module.as_str()).collect();
    assert_eq!(names, ["libz.so.1", "nginx"]);
    assert!((missing[0].own_us - 40.0).abs() < 2.0 && (missing[0].share - 40.0 / 105.0).abs() < 0.02);
    let mut hidden = passes("nginx", &PLAIN, 3);
    for pass in &mut hidden {
        pass.sees_kernel = false;
    }
    let all = profiles(&run(), &hidden);
    let kernel = cost(&all.cases[0], "[kernel, not visible]");
    // Samples are a third of the CPU time here, so the rest is hidden.
    assert!((kernel.own.estimate - 35.0 * 2.0 / 3.0).abs() < 1.0, "{kernel:?}");
    assert!((all.cases[0].whole.as_ref().expect("measured").estimate - 35.0).abs() < 1.0);
}

#[test]
fn a_case_whose_passes_all_failed_says_why() {
    let mut failed = passes("nginx", &[], 4);
    for pass in &mut failed {
        pass.slices.clear();
        pass.failed = Some(crate::fixture::failure(Stage::Trial, "`perf` is not installed"));
    }
    let all = profiles(&run(), &failed);
    let profile = &all.cases[0];
    assert_eq!((profile.passes, profile.failed, profile.whole), (0, 6, None));
    assert_eq!(profile.failure.as_deref(), Some("`perf` is not installed"));
    assert!(profile.tree.is_empty() && profile.frames.is_empty() && all.differences.is_empty());
}

#[test]
fn frames_that_call_themselves_count_once_and_wrong_indices_not_at_all() {
    let all = profiles(&run(), &passes("nginx", &[("main;walk;walk;walk", 9.0)], 5));
    let walk = cost(&all.cases[0], "walk");
    assert!(walk.total.estimate < 9.5 && walk.own.estimate > 8.5, "{walk:?}");
    let mut wrong = passes("nginx", &PLAIN, 6);
    wrong[0].stacks[0] = vec![0, 999];
    wrong[0].slices[0].stacks.push((77, 5));
    assert!(profiles(&run(), &wrong).cases[0].whole.is_some());
}
