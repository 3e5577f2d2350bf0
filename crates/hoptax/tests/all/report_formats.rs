//! `hoptax report` in the formats of other tools, and on terminals of different widths.

use crate::report::fixture::{Run, sample};
use crate::report::on_disk;
use crate::support::{Scratch, hoptax};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn report(dir: &Path, arguments: &[&str]) -> Output {
    run_report(&mut hoptax(), dir, arguments)
}

fn run_report(command: &mut Command, dir: &Path, arguments: &[&str]) -> Output {
    command.arg("report").arg(dir).args(arguments).output().expect("the binary runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Each of these lines of arguments with its error, for a snapshot.
fn refusals(dir: &Path, lines: &[&[&str]]) -> String {
    let name = dir.file_name().expect("a name").to_string_lossy();
    let shown = |line: &&[&str]| format!("{}\n=> {}", line.join(" "), refused(&report(dir, line)));
    let all: String = lines.iter().map(shown).collect();
    all.replace(&dir.display().to_string(), "RUN").replace(&*name, "RUN")
}

#[test]
fn fortio_and_hgrm_have_a_file_for_each_case() {
    let (_below, dir) = on_disk(&Run::steady(3, 100, &[("nginx", 150)]));
    let report_json: Value = serde_json::from_str(&text(&report(&dir, &["--format", "json"]))).expect("JSON");
    for format in ["fortio", "hgrm"] {
        let scratch = Scratch::new();
        let folder = scratch.path().join("deep/er");
        text(&report(&dir, &["--format", format, "--output", &folder.to_string_lossy()]));
        let mut names: Vec<String> = fs::read_dir(&folder)
            .expect("made")
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        let ending = if format == "fortio" { "json" } else { "hgrm" };
        let expected = ["direct", "nginx"].map(|name| format!("{name}-closed-loop-32-connections.{ending}"));
        assert_eq!(names, expected);
        let nginx = fs::read_to_string(folder.join(&expected[1])).expect("text");
        let alone = text(&report(&dir, &["--format", format, "--case", "nginx"]));
        assert_eq!(alone, nginx, "one case is the same on standard output");
        let samples = &report_json["cases"][1]["response_time"]["samples"];
        if format == "fortio" {
            let reported: Value = serde_json::from_str(&nginx).expect("JSON");
            assert_eq!(&reported["DurationHistogram"]["Count"], samples);
            let (qps, throughput) =
                (&reported["ActualQPS"], &report_json["cases"][1]["throughput"]["estimate"]);
            assert!(
                (qps.as_f64().expect("a number") / throughput.as_f64().expect("a number") - 1.0).abs() < 1e-9
            );
        } else {
            assert!(
                nginx.contains(&format!("Total count    = {:>12}]", samples.as_u64().expect("a count"))),
                "{nginx}"
            );
        }
    }
}

#[test]
fn kong_has_one_document() {
    let (_below, dir) = on_disk(&Run::steady(3, 100, &[("nginx", 150)]));
    let reported: Value = serde_json::from_str(&text(&report(&dir, &["--format", "kong"]))).expect("JSON");
    let rows = reported["data"].as_array().expect("rows");
    assert_eq!((&rows[0]["version"], &rows[1]["version"]), (&"direct".into(), &"nginx".into()));
    for name in ["suite", "rpss", "rps", "latencies_p90", "latencies_p99", "latency_avg", "latency_max"] {
        assert!(!rows[1][name].is_null(), "`{name}` is missing: {reported}");
    }
    let p90 = rows[1]["latencies_p90"].as_array().expect("one per trial");
    assert!(
        p90.len() == 3 && p90.iter().all(|ms| (ms.as_f64().expect("ms") - 0.15).abs() < 0.002),
        "{reported}"
    );
}

#[test]
fn ambiguous_arguments_are_refused_with_the_choices() {
    let (_below, dir) = on_disk(&Run::steady(2, 100, &[("nginx", 150)]));
    let file = dir.join("run.json");
    insta::assert_snapshot!(refusals(
        &dir,
        &[
            &["--format", "fortio"][..],
            &["--format", "hgrm", "--case", "ngnix"],
            &["--format", "hgrm", "--output", &file.to_string_lossy()],
            &["--format", "fortio", "--case", "nginx", "--output", &dir.to_string_lossy()],
            &["--format", "csv", "--case", "nginx"],
        ],
    ));
    let (_below, empty) = on_disk(&Run::closed(4));
    assert!(refused(&report(&empty, &["--format", "kong"])).contains("no measured case"));
}

#[test]
fn the_terminal_report_is_as_wide_as_columns_say() {
    let (_below, dir) = on_disk(&sample());
    let widest = |columns: &str| {
        let text = text(&run_report(hoptax().env("COLUMNS", columns), &dir, &[]));
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    };
    let at = ["60", "80", "120"].map(widest);
    assert!(at[0] <= 60 && at[1] <= 80 && at[2] <= 120, "{at:?}");
    assert!(at[0] < at[1] && at[1] < at[2], "{at:?}");
    assert!(widest("nonsense") <= 80);
}

#[test]
fn colours_are_for_terminals_unless_they_are_asked_for() {
    let (_below, dir) = on_disk(&sample());
    let coloured = |arguments: &[&str], no_color: bool| {
        let mut command = hoptax();
        command.env_remove("NO_COLOR").env("TERM", "xterm");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        text(&run_report(&mut command, &dir, arguments)).contains('\u{1b}')
    };
    // In a test, standard output is a pipe, so the output has no colours.
    assert!(
        !coloured(&[], false)
            && !coloured(&["--color", "auto"], false)
            && !coloured(&["--color", "never"], false)
    );
    assert!(coloured(&["--color", "always"], false) && coloured(&["--color", "always"], true));
}

#[test]
fn a_chart_is_drawn_as_svg_and_png_in_the_format_of_its_name() {
    let (_below, dir) = on_disk(&sample());
    let listed = text(&report(&dir, &["--chart", "list"]));
    insta::assert_snapshot!(listed);
    let scratch = Scratch::new();
    for name in listed.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split(' ').next()) {
        let svg = text(&report(&dir, &["--chart", name]));
        let document = roxmltree::Document::parse(&svg).expect("XML");
        assert!(document.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")), "{svg}");
    }
    let file = scratch.path().join("tax.PNG");
    text(&report(&dir, &["--chart", "tax", "--theme", "dark", "--output", &file.to_string_lossy()]));
    let png = fs::read(&file).expect("written");
    assert!(
        png.starts_with(b"\x89PNG\r\n\x1a\n") && png[16..20] == 1920_u32.to_be_bytes(),
        "{:?}",
        &png[..24]
    );
    assert_eq!(png, {
        let piped = report(&dir, &["--chart", "tax", "--theme", "dark", "--format", "png"]);
        piped.stdout
    });
}

#[test]
fn wrong_chart_arguments_are_reported_with_a_fix() {
    let (_below, dir) = on_disk(&Run::steady(3, 100, &[("nginx", 150)]));
    let lines = [
        &["--chart", "txa"][..],
        &["--chart", "frontier"],
        &["--chart", "tax", "--load", "7"],
        &["--chart", "tax", "--output", "tax.gif"],
        &["--chart", "tax", "--format", "csv"],
        &["--format", "png"],
        &["--theme", "dark"],
    ];
    insta::assert_snapshot!(refusals(&dir, &lines));
    assert!(!Path::new("tax.gif").exists());
}
