//! Tests of the reports of made-up profiles.

use super::*;
use crate::fixture::{Reported as _, fits};
use crate::formats::html::words;
use crate::{json, markdown, terminal};
use hoptax_analysis::fixture::profiles::profiled;
use hoptax_analysis::profiles::profiles;
use serde_json::Value;

/// nginx without and with gzip, at one load point.
fn model() -> Model {
    let (run, passes) = profiled();
    run.model().with_profiles(profiles(&run.record, &passes))
}

#[test]
fn every_format_shows_the_largest_frames_and_the_difference() {
    let model = model();
    for text in [terminal(&model, 100, false), markdown(&model), words(&model)] {
        for part in
            ["CPU time of nginx ", "deflate", "libz.so.1", "compared with nginx", "with callees", "By module"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn a_terminal_of_any_width_is_wide_enough() {
    for width in [80, 100, 140] {
        fits(&terminal(&model(), width, false), usize::from(width));
    }
}

#[test]
fn a_report_without_profiles_does_not_mention_them() {
    let model = hoptax_analysis::fixture::sample().model();
    let report: Value = serde_json::from_str(&json(&model)).expect("JSON");
    assert!(report.get("profiles").is_none() && report.get("profile_differences").is_none());
    for text in [terminal(&model, 100, false), markdown(&model), words(&model)] {
        assert!(!text.contains("With callees") && !text.contains("id=\"profiles\""), "{text}");
    }
}

#[test]
fn flame_graphs_have_their_nodes_in_order() {
    let graphs: Value = serde_json::to_value(flame_graphs(&model())).expect("JSON");
    let graphs = graphs.as_array().expect("graphs");
    assert_eq!(graphs.len(), 3);
    for graph in graphs {
        let nodes = graph["nodes"].as_array().expect("nodes");
        assert!(nodes.len() > 3 && nodes[0].get("parent").is_none());
        for (at, node) in nodes.iter().enumerate().skip(1) {
            assert!(node["parent"].as_u64().is_some_and(|parent| (parent as usize) < at), "{node}");
            assert_eq!(node.get("change").is_some(), graph["difference"] == true, "{node}");
        }
    }
}

#[test]
fn collapsed_stacks_have_nanoseconds_per_request() {
    let files = profile_files(&model().whole_profiles);
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let expected = [
        "profile-nginx-1-cpu.folded",
        "profile-nginx-1-cpu.pb",
        "profile-nginx.gzip-1-cpu.folded",
        "profile-nginx.gzip-1-cpu.pb",
    ];
    assert_eq!(names, expected);
    let text = String::from_utf8(files[2].content.clone()).expect("text");
    let line = text.lines().find(|line| line.contains(";deflate ")).expect("a stack");
    let ns: f64 = line.rsplit(' ').next().and_then(|ns| ns.parse().ok()).expect("a number");
    assert!((ns - 30_000.0).abs() < 1_500.0, "{line}");
    insta::assert_snapshot!(text);
}

/// The fields of a protocol buffers message: number and content. Numbers have no content.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        match key & 7 {
            0 => fields.push((key >> 3, varint(&mut bytes), Vec::new())),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                fields.push((key >> 3, 0, content.to_vec()));
                bytes = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    fields
}

#[test]
fn pprof_files_name_their_functions() {
    let files = profile_files(&model().whole_profiles);
    let profile = fields(&files[3].content);
    let of = |number: u64| profile.iter().filter(move |field| field.0 == number).map(|field| field.2.clone());
    let strings: Vec<String> = of(6).map(|text| String::from_utf8(text).expect("text")).collect();
    assert_eq!(strings[0], "");
    for name in ["nanoseconds", "deflate", "libz.so.1", "tcp_sendmsg"] {
        assert!(strings.iter().any(|text| text == name), "{name} in {strings:?}");
    }
    // Each location has the function with its own number, and samples refer to locations that exist.
    let locations: Vec<u64> = of(4).map(|location| fields(&location)[0].1).collect();
    let functions: Vec<u64> = of(5).map(|function| fields(&function)[0].1).collect();
    assert_eq!(locations, functions);
    let samples: Vec<Vec<(u64, u64, Vec<u8>)>> = of(2).map(|sample| fields(&sample)).collect();
    assert!(samples.len() >= 4);
    for sample in samples {
        assert!(sample[0].2.iter().all(|location| locations.contains(&u64::from(*location))), "{sample:?}");
    }
}

#[test]
fn long_names_keep_their_end() {
    let frame = Frame {
        name: "a".repeat(40) + "onData",
        module: "envoy".into(),
        kind: FrameKind::Native,
        named: true,
    };
    let short = name(&frame, 20);
    assert_eq!((short.chars().count(), short.ends_with("onData (envoy)")), (20, true), "{short}");
}

#[test]
fn long_names_lose_types_and_directories_first() {
    for (whole, shown) in [
        (
            "io.netty.buffer.ByteBuf io.netty.buffer.Unpooled.copy(byte[], int)",
            "io.netty.buffer.Unpooled.copy",
        ),
        ("JS:*next /srv/node_modules/express/lib/router/index.js:177:16", "JS:*next index.js:177:16"),
        ("std::vector<int, std::allocator<int> >::push_back(int const&)", "…:allocator<int> >::push_back"),
        ("(anonymous namespace)::a_long_name_of_a_function(int)", "…ong_name_of_a_function(int)"),
        ("deflate", "deflate"),
    ] {
        let frame =
            Frame { name: whole.into(), module: String::new(), kind: FrameKind::Generated, named: true };
        let most = if shown.starts_with('…') { shown.chars().count() } else { 29 };
        assert_eq!(name(&frame, most), shown, "{whole}");
    }
}
