use super::super::model::tests::{open, phase, spec, window};
use super::*;
use crate::cli::terminal::drawn::lines as drawn_lines;
use hoptax_format::record::Cause;
use hoptax_format::spec::{Rate, Shape};

const S: u64 = 1_000_000_000;
const START: u64 = 1_000 * S;

/// State of the view four seconds after the start of a load of ten seconds, with a few failures.
fn model() -> Model {
    let mut model =
        Model::new("http://127.0.0.1:8080/orders?id={{seq}}", &spec(open(Rate::Fixed(1000.0)), 1, 10, None));
    model.update(phase(Phase::Measuring, START));
    for index in 0..40 {
        let times: Vec<u64> = (0..80 + index).map(|at| 80 + at * at / 3).collect();
        model.update(window(index, &times, (index == 7).then_some((Cause::ClosedBeforeResponse, 3))));
    }
    model
}

fn screen(model: &Model, width: u16, height: u16, now: u64) -> Vec<String> {
    drawn_lines(width, height, |frame| draw(frame, model, now))
}

#[test]
fn a_screen_of_80_columns_shows_everything() {
    let lines = screen(&model(), 80, 24, START + 4 * S);
    insta::assert_snapshot!(lines.join("\n"));
    assert!(lines.iter().filter(|line| line.contains('█')).count() > 8, "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.contains('·')),
        "marks show where less was done than was due: {lines:#?}"
    );
}

#[test]
fn a_small_screen_shows_the_most_important_parts() {
    let lines = screen(&model(), 20, 5, START + 4 * S);
    insta::assert_snapshot!(lines.join("\n"));
    let lines = screen(&model(), 40, 12, START + 4 * S);
    insta::assert_snapshot!(lines.join("\n"));
    let lines = screen(&model(), 200, 50, START + 4 * S);
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_size_and_state_can_be_drawn() {
    let states = [
        Model::new("u", &spec(Shape::Closed, 1, 10, None)),
        {
            let mut model = Model::new("http://[::1]/ü", &spec(Shape::Closed, 2, 10, Some(5)));
            model.update(phase(Phase::Connecting, START));
            model
        },
        {
            let mut model = Model::new("u", &spec(Shape::Closed, 1, 10, None));
            model.update(phase(Phase::Measuring, START));
            model.update(window(0, &[], Some((Cause::ConnectRefused, 1_000_000_000))));
            model
        },
        {
            let mut model = model();
            model.update(phase(Phase::Draining, START + 10 * S));
            model
        },
        model(),
    ];
    for model in &states {
        for (width, height) in [
            (0, 0),
            (1, 1),
            (2, 3),
            (10, 2),
            (20, 5),
            (59, 16),
            (60, 15),
            (60, 16),
            (61, 21),
            (300, 4),
            (3, 80),
        ] {
            let lines = screen(model, width, height, START + S);
            assert_eq!(lines.len(), usize::from(height));
        }
    }
    insta::assert_snapshot!(screen(&states[1], 80, 24, START + S).join("\n"));
    insta::assert_snapshot!(screen(&states[2], 80, 24, START + S).join("\n"));
    insta::assert_snapshot!(screen(&states[0], 40, 6, START).join("\n"));
    insta::assert_snapshot!(screen(&states[3], 80, 24, START + 11 * S).join("\n"));
}

#[test]
fn times_are_short() {
    let texts = [0, 9_960_000_000, 10 * S, 599 * S, 61 * 60 * S, 659 * S].map(seconds);
    assert_eq!(texts, ["0.0 s", "9.9 s", "10 s", "599 s", "1 h 1 m", "10 m 59 s"].map(str::to_owned));
}
