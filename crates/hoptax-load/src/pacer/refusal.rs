//! Explains why the pacer refuses a rate.

use hoptax_format::spec::{HIGHEST_RATE, LOWEST_RATE, Rate, Stage};

pub(crate) fn refusal(rate: &Rate, duration_ns: u64) -> Option<String> {
    let stages = match rate {
        Rate::Fixed(rate) if possible(*rate) => return None,
        Rate::Fixed(rate) => return Some(format!("rate is {rate}; {}", range())),
        Rate::Stages(stages) => stages,
    };
    for (index, Stage { from, to, for_ns }) in stages.iter().enumerate() {
        if let Some(rate) = [from, to].into_iter().find(|rate| **rate != 0.0 && !possible(**rate)) {
            return Some(format!("stage {} has rate {rate}; {}, or 0 for a pause", index + 1, range()));
        }
        if *for_ns == 0 {
            return Some(format!("stage {} takes 0 ns; give at least 1", index + 1));
        }
    }
    if stages.iter().all(|stage| stage.from == 0.0 && stage.to == 0.0) {
        return Some("no stage has a rate above 0; at least one must".into());
    }
    let sum: u128 = stages.iter().map(|stage| u128::from(stage.for_ns)).sum();
    (sum != u128::from(duration_ns))
        .then(|| format!("duration_ns is {duration_ns}, but the stages take {sum}; the two must be equal"))
}

fn possible(rate: f64) -> bool {
    (LOWEST_RATE..=HIGHEST_RATE).contains(&rate)
}

fn range() -> String {
    format!("use {LOWEST_RATE} to {HIGHEST_RATE} requests per second")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::clock::SECOND;

    fn stages(stages: &[(f64, f64, u64)]) -> Rate {
        let stage = |&(from, to, for_ns)| Stage { from, to, for_ns };
        Rate::Stages(stages.iter().map(stage).collect())
    }

    #[test]
    fn possible_rates_are_accepted() {
        for rate in [
            Rate::Fixed(LOWEST_RATE),
            Rate::Fixed(HIGHEST_RATE),
            stages(&[(5.0, 5.0, SECOND)]),
            stages(&[(0.0, HIGHEST_RATE, 1), (0.0, 0.0, SECOND - 1)]),
        ] {
            assert_eq!(refusal(&rate, SECOND), None, "{rate:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no snapshots")]
    fn a_refusal_names_the_stage_and_the_value() {
        let told = [
            Rate::Fixed(0.0),
            Rate::Fixed(f64::NAN),
            stages(&[]),
            stages(&[(0.0, 0.0, SECOND)]),
            stages(&[(1.0, 1.0, 5), (1.0, -2.0, 5)]),
            stages(&[(1.0, f64::INFINITY, 5)]),
            stages(&[(f64::NAN, 1.0, 5)]),
            stages(&[(0.0005, 1.0, 5)]),
            stages(&[(1.0, 1.0, 0)]),
            stages(&[(1.0, 1.0, 7), (2.0, 2.0, 8)]),
            stages(&[(1.0, 1.0, u64::MAX), (1.0, 1.0, u64::MAX)]),
        ]
        .map(|rate| refusal(&rate, SECOND).unwrap_or_else(|| panic!("{rate:?} is not refused")) + "\n")
        .concat();
        insta::assert_snapshot!(told);
    }
}
