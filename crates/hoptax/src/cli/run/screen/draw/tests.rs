use super::*;
use crate::cli::terminal::drawn::lines as drawn_lines;
use hoptax_history::live::{Role, Round, SCHEMA, Second, TrialPhase};

const LOADS: [&str; 3] = [
    "closed loop, 16 connections",
    "open loop, 1,000/s, constant, 16 connections",
    "open loop, 5,000/s, poisson, 64 connections",
];

fn case(gateway: &str, load: &str, p50: f64) -> LiveCase {
    LiveCase {
        gateway: gateway.to_owned(),
        load: load.to_owned(),
        trials: 2,
        rate: Some(998.4),
        p50_us: Some(p50),
        p99_us: Some(p50 * 4.0),
        added_p50_us: (gateway != "direct").then_some(p50 - 120.0),
        added_p50_half_width_us: None,
    }
}

fn finding(severity: Severity, code: &str, case: &str) -> Finding {
    let message = format!(
        "{case} gives reason to doubt: a hypervisor took a good part of the time that was to be measured"
    );
    Finding { severity, code: code.to_owned(), case: Some(case.to_owned()), message }
}

/// The state in the middle of a run: three gateways, three load points.
fn state() -> State {
    let second = |rate| Second { rate, failed: 0.5, p50_us: Some(210.0), p99_us: Some(1_203.0) };
    let gateways = [("direct", 120.0), ("nginx", 210.0), ("haproxy", 190.0), ("hop-l7", 1_160.0)];
    let cases = LOADS.iter().flat_map(|load| gateways.map(|(gateway, p50)| case(gateway, load, p50)));
    let role = |role: &str, cpus| Role { role: role.to_owned(), cpus, memory_bytes: 12 << 20 };
    State {
        schema: SCHEMA,
        run: "20261122T101500Z-three".to_owned(),
        name: "three gateways".to_owned(),
        stage: Stage::Measuring,
        trials_done: 12,
        trials_planned: 45,
        round: "1/3".to_owned(),
        elapsed_s: 150.0,
        left_s: 405.0,
        trial: Some(Trial {
            number: 13,
            gateway: "nginx".to_owned(),
            load: LOADS[2].to_owned(),
            phase: TrialPhase::Measuring,
            elapsed_s: 6.2,
            duration_s: 10.0,
            due: Some(5_000.0),
            by_round: false,
            seconds: [4_800.0, 5_000.0, 5_010.0, 4_100.0, 5_000.0, 4_990.0].map(second).to_vec(),
        }),
        cpu: vec![role("generator", 0.31), role("gateway", 0.52), role("upstream", 0.2)],
        steal: Some(0.0123),
        cases: cases.collect(),
        findings: vec![
            finding(Severity::Void, "rate-missed", "hop-l7, open loop"),
            finding(Severity::Warning, "few-quiet-windows", "direct, closed loop"),
            finding(Severity::Warning, "few-quiet-windows", "nginx, closed loop"),
        ],
        failures: vec![Failure { label: "envoy".to_owned(), message: "envoy is not installed".to_owned() }],
        ..State::default()
    }
}

fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    drawn_lines(width, height, |frame| draw(frame, state))
}

#[test]
fn a_screen_of_80_columns_shows_everything() {
    let lines = screen(&state(), 80, 24);
    insta::assert_snapshot!(lines.join("\n"));
    assert!(lines.iter().any(|line| line.contains("████")), "{lines:#?}");
}

#[test]
fn short_trials_are_shown_by_round() {
    let mut state = state();
    let trial = state.trial.as_mut().expect("one");
    (trial.by_round, trial.duration_s, trial.elapsed_s, trial.seconds) = (true, 0.3, 0.2, Vec::new());
    let lines = screen(&state, 80, 24);
    insta::assert_snapshot!(lines.join("\n"));
    assert!(!lines.iter().any(|line| line.contains("0.3 s")), "{lines:#?}");
    let round = |gateway: &str, round, rate| Round {
        gateway: gateway.to_owned(),
        round,
        figures: Second { rate, failed: 0.0, p50_us: Some(210.0), p99_us: Some(1_203.0) },
    };
    state.rounds = vec![round("nginx", 1, 4_800.0), round("direct", 2, 9.0), round("nginx", 2, 4_990.0)];
    let lines = screen(&state, 80, 24);
    insta::assert_snapshot!(lines.join("\n"));
    assert!(lines.iter().any(|line| line.contains("████")), "{lines:#?}");
    insta::assert_snapshot!(screen(&state, 40, 12).join("\n"));
}

#[test]
fn variants_that_failed_with_the_same_cause_share_a_line() {
    let failure = |label: &str, code: u32| Failure {
        label: label.to_owned(),
        message: format!("{label} exited with code {code}"),
    };
    let failures =
        vec![failure("nginx", 1), failure("nginx.tls", 1), failure("nginx.gzip", 2), failure("envoy", 1)];
    let lines = super::failures(&State { failures, ..state() });
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn half_widths_have_a_column_as_soon_as_there_are_any() {
    let mut state = state();
    assert!(screen(&state, 80, 24).iter().all(|line| !line.contains("± 95 %")));
    for case in state.cases.iter_mut().filter(|case| case.gateway == "nginx") {
        case.added_p50_half_width_us = Some(6.1);
    }
    let lines = screen(&state, 80, 24);
    insta::assert_snapshot!(lines.join("\n"));
    assert!(
        lines.iter().any(|line| line.starts_with("  haproxy ×2") && line.trim_end().ends_with("+70.0 µs"))
    );
    assert!(screen(&state, 60, 24).iter().all(|line| !line.contains("±")), "there is no room");
}

#[test]
fn large_screens_show_every_case_and_small_ones_the_most_important_parts() {
    let lines = screen(&state(), 120, 40);
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(lines.iter().filter(|line| line.contains("haproxy ×2")).count(), 3, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains('▸')).count(), 1, "{lines:#?}");
    let lines = screen(&state(), 40, 12);
    insta::assert_snapshot!(lines.join("\n"));
    let lines = screen(&state(), 20, 5);
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_current_load_point_is_always_visible() {
    for height in 17..40 {
        for load in LOADS {
            for gateway in ["direct", "hop-l7"] {
                let mut state = state();
                if let Some(trial) = &mut state.trial {
                    (trial.gateway, trial.load) =
                        (gateway.to_owned(), format!("searching at 12/s, step 3: {load}"));
                }
                let lines = screen(&state, 80, height);
                assert!(
                    lines.iter().any(|line| line.starts_with('▸')),
                    "{height} {load} {gateway}: {lines:#?}"
                );
            }
        }
    }
}

#[test]
fn every_size_and_stage_can_be_drawn() {
    let blank = State { trial: None, cpu: Vec::new(), steal: None, cases: Vec::new(), ..state() };
    let none_yet = |phase| {
        let mut state = state();
        if let Some(trial) = &mut state.trial {
            (trial.phase, trial.due) = (phase, None);
            trial.seconds.clear();
        }
        state
    };
    let states = [
        state(),
        State { stage: Stage::Pausing, open_ended: true, ..state() },
        State { stage: Stage::Ended, findings: Vec::new(), failures: Vec::new(), ..state() },
        State {
            stage: Stage::Preparing,
            doing: "starting nginx".to_owned(),
            elapsed_s: 0.0,
            left_s: 0.0,
            ..blank
        },
        none_yet(TrialPhase::Starting),
        none_yet(TrialPhase::Warmup),
    ];
    for state in &states {
        for (width, height) in [(1, 1), (2, 30), (200, 1), (59, 16), (60, 16), (80, 24), (300, 100)] {
            assert_eq!(screen(state, width, height).len(), usize::from(height));
        }
    }
    insta::assert_snapshot!(screen(&states[1], 80, 24).join("\n"));
    insta::assert_snapshot!(screen(&states[3], 80, 24).join("\n"));
    insta::assert_snapshot!(screen(&states[4], 80, 24).join("\n"));
}

#[test]
fn lines_that_do_not_fit_are_counted() {
    let lines = |count: usize| (0..count).map(|index| Line::from(index.to_string())).collect::<Vec<_>>();
    let texts = |lines: Vec<Line<'static>>| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(fewer(lines(3), 3)), ["0", "1", "2"]);
    assert_eq!(texts(fewer(lines(5), 3)), ["0", "1", "and 3 more"]);
    assert_eq!(texts(fewer(lines(5), 0)), [""; 0]);
    assert_eq!(clip("abcdef", 4), "abc…");
    assert_eq!((clip("abc", 3), clip("abc", 0)), ("abc".to_owned(), String::new()));
}

#[test]
fn wide_lines_are_wrapped_if_there_are_rows() {
    let line = Line::styled("warning host-noisy: others used the machine", DUE);
    let texts: Vec<String> = wrapped(&line, 20).iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["warning host-noisy:", "  others used the", "  machine"]);
    assert_eq!(wrapped(&line, 1).len(), 6, "a word that is wider than the screen gets its own line");
    let roomy = State { cases: Vec::new(), ..state() };
    insta::assert_snapshot!(screen(&roomy, 80, 24).join("\n"));
}
