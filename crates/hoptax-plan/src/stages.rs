//! Rates that change over time: `100/s for 10s, ramp to 5000/s over 60s`.
//!
//! A stage is `RATE for TIME`, `ramp to RATE over TIME` or `ramp from RATE to RATE over TIME`. A ramp without
//! `from` starts at the rate where the previous stage ended, or at zero if it is the first stage.

use super::units::{UnitError, duration, nearest, rate, rate_or_zero};
use hoptax_format::spec::{Rate, Stage};
use std::time::Duration;

const FORMS: &str = "write `100/s for 10s` or `ramp to 5000/s over 60s`, with a comma between stages";

/// Parses the value of `--rate`, which is one rate or a list of stages.
///
/// # Errors
/// If the text is neither a rate nor a list of stages.
pub fn pace(text: &str) -> Result<Rate, UnitError> {
    if is_staged(text) { stages(text).map(Rate::Stages) } else { rate(text).map(Rate::Fixed) }
}

/// Whether `text` looks like stages and not like a single rate.
pub fn is_staged(text: &str) -> bool {
    let mut words =
        text.split_whitespace().filter(|word| word.len() > 1 && word.chars().all(char::is_alphabetic));
    text.contains(',') || words.any(|word| nearest(word, ["for", "over", "ramp", "to"]).is_some())
}

/// Parses stages that are separated by commas.
///
/// # Errors
/// If a part is not a stage or has no duration, or if all rates are zero.
pub fn stages(text: &str) -> Result<Vec<Stage>, UnitError> {
    let mut stages: Vec<Stage> = Vec::new();
    for part in text.split(',') {
        stages.push(stage(part, stages.last())?);
    }
    check(&stages)?;
    Ok(stages)
}

/// Parses one stage. `before` is the previous stage.
///
/// # Errors
/// If the text is not a stage, or has no duration.
pub fn stage(text: &str, before: Option<&Stage>) -> Result<Stage, UnitError> {
    let text = text.trim();
    let words: Vec<&str> = text.split_whitespace().collect();
    let (from, to, time) = match words.as_slice() {
        [] => return Err(UnitError::new("a stage is empty", "remove the extra comma")),
        ["ramp", rest @ ..] => ramp(text, rest, before)?,
        words => {
            let (steady, time) = split_at_word(words, "for")
                .ok_or_else(|| not_a_stage(text, words, ["for", "ramp"], FORMS.to_owned()))?;
            let steady = rate_or_zero(&steady)?;
            (steady, steady, time)
        }
    };
    let time = duration(&time)?;
    if time.is_zero() {
        return Err(UnitError::new(
            format!("the stage `{text}` has a duration of zero"),
            "write a longer time, such as 10s. For a jump in the rate, start the next stage at the new rate",
        ));
    }
    Ok(Stage { from, to, for_ns: time.as_nanos() as u64 })
}

/// Parses the words after `ramp`. Returns the first rate, the last rate and the duration.
fn ramp(text: &str, words: &[&str], before: Option<&Stage>) -> Result<(f64, f64, String), UnitError> {
    const FORM: &str = "write `ramp to 5000/s over 60s` or `ramp from 100/s to 5000/s over 60s`";
    let refuse = || not_a_stage(text, words, ["from", "to", "over"], FORM.to_owned());
    let (rates, time) = split_at_word(words, "over").ok_or_else(refuse)?;
    let rates: Vec<&str> = rates.split(' ').collect();
    match rates.split_first() {
        Some((&"to", to)) => {
            let from = before.map_or(0.0, |stage| stage.to);
            Ok((from, rate_or_zero(&to.join(" "))?, time))
        }
        Some((&"from", rates)) => {
            let (from, to) = split_at_word(rates, "to").ok_or_else(refuse)?;
            Ok((rate_or_zero(&from)?, rate_or_zero(&to)?, time))
        }
        _ => Err(refuse()),
    }
}

/// Splits a list of words at the first word that equals `at`. `None` if there is no such word, or if one side
/// is empty.
fn split_at_word(words: &[&str], at: &str) -> Option<(String, String)> {
    let middle = words.iter().position(|word| *word == at)?;
    let (left, right) = (&words[..middle], &words[middle + 1..]);
    (!left.is_empty() && !right.is_empty()).then(|| (left.join(" "), right.join(" ")))
}

/// Creates the error for text that is not a stage. If a keyword is misspelled, the error suggests the right
/// keyword.
fn not_a_stage<const N: usize>(text: &str, words: &[&str], known: [&str; N], help: String) -> UnitError {
    let misspelt = words.iter().find_map(|word| {
        let is_word = word.len() > 1 && word.chars().all(char::is_alphabetic) && !known.contains(word);
        Some((word, nearest(word, known).filter(|_| is_word)?))
    });
    let help = misspelt.map_or(help, |(word, meant)| format!("did you mean `{meant}` instead of `{word}`?"));
    UnitError::new(format!("`{text}` is not a stage"), help)
}

/// Checks that stages cause at least some requests.
///
/// # Errors
/// If there is no stage, or all rates are zero.
pub fn check(stages: &[Stage]) -> Result<(), UnitError> {
    if stages.is_empty() {
        return Err(UnitError::new("there is no stage", FORMS));
    }
    if stages.iter().all(|stage| stage.from == 0.0 && stage.to == 0.0) {
        return Err(UnitError::new(
            "these stages send no request",
            "give at least one stage a rate above zero",
        ));
    }
    Ok(())
}

/// Total duration of stages.
pub fn length(stages: &[Stage]) -> Duration {
    Duration::from_nanos(stages.iter().map(|stage| stage.for_ns).fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::refusals;
    use crate::units::show_pace;

    fn second(from: f64, to: f64, seconds: u64) -> Stage {
        Stage { from, to, for_ns: seconds * 1_000_000_000 }
    }

    #[test]
    fn stages_follow_one_another() {
        let text = "100/s for 10s, ramp to 5000/s over 60s, ramp from 1000/s to 0/s over 1m, 0/s for 2s,ramp \
            to 60/m over 5s";
        let expected = [
            second(100.0, 100.0, 10),
            second(100.0, 5000.0, 60),
            second(1000.0, 0.0, 60),
            second(0.0, 0.0, 2),
            second(0.0, 1.0, 5),
        ];
        assert_eq!(stages(text).expect("stages"), expected);
        assert_eq!(length(&expected), Duration::from_secs(137));
    }

    #[test]
    fn a_first_ramp_begins_at_zero() {
        assert_eq!(stages("ramp to 10/s over 1s").expect("a stage"), [second(0.0, 10.0, 1)]);
    }

    #[test]
    fn spaces_inside_values_are_ignored() {
        assert_eq!(
            stages("  10 / s for 1 s ,  ramp   to 20 /s over 2 s").expect("stages"),
            [second(10.0, 10.0, 1), second(10.0, 20.0, 2)]
        );
    }

    #[test]
    fn one_rate_is_not_a_stage() {
        assert_eq!(pace("1000/s"), Ok(Rate::Fixed(1000.0)));
        assert_eq!(pace("5/s for 2s"), Ok(Rate::Stages(vec![second(5.0, 5.0, 2)])));
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        for text in [
            "1000/s",
            "100/s for 10s, ramp to 5000/s over 1m",
            "ramp from 10/s to 5/s over 1.5s, 5/s for 250ms, ramp from 9/s to 0/s over 1s",
        ] {
            assert_eq!(show_pace(&pace(text).expect(text)), text);
        }
    }

    #[test]
    fn errors_say_how_to_fix_the_stage() {
        let texts = "1000|0/s|100/s for 10s,|100/s for 10s, , 5/s for 1s|100/s fro 10s|rmap to 5/s over 1s|\
                     ramp too 5/s over 1s|ramp to 5/s|ramp to 5/s in 10s|ramp 5/s over 10s|\
                     ramp from 5/s over 10s|for 10s|100/s for|100 for 10s|100/s for 10|100/s for 0s|\
                     ramp to 5/x over 1s|100/s, 5/s for 1s|0/s for 1s";
        let texts: Vec<&str> = texts.split('|').collect();
        let told = refusals(&texts, |text| pace(text).expect_err(text).to_string());
        insta::assert_snapshot!(told);
    }
}
