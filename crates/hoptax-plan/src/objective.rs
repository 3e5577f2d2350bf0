//! Parses objectives, such as `p99 < 10ms and errors < 0.1%`.

use super::units::{UnitError, duration, nearest, share};
use crate::{Figure, Objective, Term};

/// Parses an objective.
///
/// # Errors
/// If the text is wrong. Returns the wrong part of the text, which the message marks with carets, and the
/// error.
pub fn objective(text: &str) -> Result<Objective, (&str, UnitError)> {
    let parts = split_at_and(text);
    let mut terms = Vec::new();
    for part in &parts {
        let term = term(part)?;
        let same = |other: &Term| other.name() == term.name();
        if terms.iter().any(same) {
            let message = format!("the objective limits {} twice", term.name());
            return Err((part, UnitError::new(message, "keep only the stricter limit")));
        }
        terms.push(term);
    }
    Ok(Objective::new(terms))
}

/// Splits a text at each `and` and at each comma. A comma that is followed by `and` separates only once. The
/// parts are trimmed.
fn split_at_and(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at, mut after_comma) = (0, 0, false);
    for word in text.split_inclusive([' ', '\t', ',']) {
        let end = at + word.len();
        let (is_and, comma) = (word.trim_end_matches([' ', '\t', ',']) == "and", word.ends_with(','));
        if is_and || comma {
            let part = text[start..if is_and { at } else { end - 1 }].trim();
            if !(part.is_empty() && after_comma && is_and) {
                parts.push(part);
            }
            start = end;
        }
        after_comma = comma || (after_comma && word.trim().is_empty());
        at = end;
    }
    parts.push(text[start..].trim());
    parts
}

const FORM: &str = "write p99 < 10ms; join several limits with `and`: p99 < 10ms and errors < 0.1%";

fn term(part: &str) -> Result<Term, (&str, UnitError)> {
    let Some(at) = part.find(['<', '>', '=']) else {
        let message = match part {
            "" => "a part of the objective is empty".to_owned(),
            _ => format!("`{part}` is not a limit"),
        };
        return Err((part, UnitError::new(message, FORM)));
    };
    let name = part[..at].trim();
    let rest = &part[at..];
    let bound = rest.trim_start_matches(['<', '>', '=']);
    let sign = &rest[..rest.len() - bound.len()];
    let bound = bound.trim();
    if name == "throughput" || name == "goodput" {
        let least = limit(part, bound, sign, &[">=", ">"], share)?;
        return Ok(if name == "goodput" { Term::Goodput { least } } else { Term::Throughput { least } });
    }
    if name == "errors" {
        return Ok(Term::Errors { below: limit(part, bound, sign, &["<", "<="], share)? });
    }
    let content = ["first_content_", "first_token_"].iter().find_map(|of| name.strip_prefix(of));
    let of = figure(content.unwrap_or(name))?;
    let below = limit(part, bound, sign, &["<", "<="], duration)?;
    if below.is_zero() {
        return Err((part, UnitError::new("the bound is zero", "write a bound above zero")));
    }
    Ok(if content.is_some() { Term::FirstContent { of, below } } else { Term::Time { of, below } })
}

/// Checks the comparison sign, and then parses the bound.
fn limit<'t, T>(
    part: &'t str,
    bound: &'t str,
    sign: &'t str,
    known: &[&str],
    understand: fn(&str) -> Result<T, UnitError>,
) -> Result<T, (&'t str, UnitError)> {
    if !known.contains(&sign) {
        let message = format!("`{sign}` is the wrong sign in `{part}`");
        return Err((sign, UnitError::new(message, format!("write {}", known[0]))));
    }
    understand(bound).map_err(|error| (if bound.is_empty() { part } else { bound }, error))
}

/// Parses `p99`, `p99.9`, `mean` or `max`.
fn figure(name: &str) -> Result<Figure, (&str, UnitError)> {
    match name {
        "mean" => return Ok(Figure::Mean),
        "max" => return Ok(Figure::Max),
        _ => {}
    }
    let percentile =
        name.strip_prefix('p').filter(|digits| digits.bytes().all(|c| c.is_ascii_digit() || c == b'.'));
    match percentile.and_then(|digits| digits.parse::<f64>().ok()) {
        Some(percent) if (1.0..=99.999).contains(&percent) => {
            Ok(Figure::Percentile((percent * 1e9).round() / 1e11))
        }
        Some(_) => Err((
            name,
            UnitError::new(
                format!("there is no percentile `{name}`"),
                "use p1 to p99.999; for p100 write max",
            ),
        )),
        None => {
            let known =
                ["p50", "p90", "p95", "p99", "p99.9", "mean", "max", "errors", "throughput", "goodput"];
            let help = nearest(name, known).filter(|_| !name.is_empty()).map_or_else(
                || "use p1 to p99.999, mean, max, errors or throughput".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            Err((name, UnitError::new(format!("an objective cannot limit `{name}`"), help)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn objectives_are_parsed_and_shown() {
        let parsed = objective("p99 < 10ms and errors < 0.1%").expect("an objective");
        let time = Term::Time { of: Figure::Percentile(0.99), below: ms(10) };
        assert_eq!(parsed.terms, [time, Term::Errors { below: 0.001 }]);
        assert_eq!(parsed.text, "p99 < 10ms and errors < 0.1%");
        assert_eq!(parsed, Objective::at_bound(ms(10)));
        for (typed, shown) in [
            ("p99.9<=1.5s", "p99.9 < 1.5s"),
            ("  mean < 2ms ,max < 1s", "mean < 2ms and max < 1s"),
            ("first_token_p99<=1.5s and p99 < 9ms", "first_content_p99 < 1.5s and p99 < 9ms"),
            ("goodput>=99%", "goodput >= 99%"),
            (
                "p50 < 1ms, and errors < 1% and throughput > 99.9%",
                "p50 < 1ms and errors < 1% and throughput >= 99.9%",
            ),
        ] {
            let parsed = objective(typed).unwrap_or_else(|(at, error)| panic!("{typed}: {at}: {error}"));
            assert_eq!(parsed.text, shown);
            assert_eq!(objective(shown).expect("shown"), parsed);
        }
    }

    #[test]
    fn a_rate_is_reached_at_99_percent_by_default() {
        assert_eq!(objective("p99 < 1ms").expect("an objective").reached(), 0.99);
        assert_eq!(objective("throughput >= 95%").expect("an objective").reached(), 0.95);
        let two = objective("p50 < 1ms and p99.9 < 2ms").expect("an objective");
        assert_eq!(two.highest_percentile(), Some(0.999));
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        let told = [
            ("p99 < 10", "10"),
            ("p99 < 10ms adn errors < 1%", "10ms adn errors < 1%"),
            ("p99 < 10ms and eror < 1%", "eror"),
            ("p99 > 10ms", ">"),
            ("throughput < 90%", "<"),
            ("p99", "p99"),
            ("p99 < 1ms and", ""),
            ("", ""),
            ("p100 < 1s", "p100"),
            ("p99 < 1ms and p99 < 2ms", "p99 < 2ms"),
            ("errors < 200%", "200%"),
            ("p99 <", "p99 <"),
            ("p99 < 0ms", "p99 < 0ms"),
            ("latency < 1ms", "latency"),
        ]
        .map(|(text, part)| {
            let (at, error) = objective(text).expect_err(text);
            assert_eq!(at, part, "{text}");
            format!("{text}\n=> {error}\n")
        });
        insta::assert_snapshot!(told.concat());
    }
}
