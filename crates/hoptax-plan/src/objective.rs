//! Objectives: limits that a contender must meet under load, such as `p99 < 10ms and errors < 0.1%`.

use super::units::{UnitError, duration, nearest, share, show_duration, show_share};
use std::time::Duration;

/// A rate counts as reached if at least this share of the due requests succeeds. An objective can set another
/// share. The finding `rate-missed` also uses this share.
pub const REACHED: f64 = 0.99;

/// A set of limits. A trial meets the objective if it meets all limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// The objective in plan syntax.
    pub text: String,
    /// The limits. There is at least one limit.
    pub terms: Vec<Term>,
}

/// One limit of an objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Term {
    /// A statistic of the response times must be below a bound.
    Time {
        /// The statistic.
        of: Figure,
        /// The bound.
        below: Duration,
    },
    /// The share of failed requests must be below a bound.
    Errors {
        /// The bound, 0 to 1.
        below: f64,
    },
    /// At least this share of the due requests must succeed.
    Throughput {
        /// The share, 0 to 1.
        least: f64,
    },
}

/// A statistic of the response times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// A percentile, as a share from 0 to 1. For example, 0.99 is the time within which 99 % of all due
    /// requests were answered.
    Percentile(f64),
    /// The mean.
    Mean,
    /// The maximum.
    Max,
}

impl Objective {
    /// Parses an objective.
    ///
    /// # Errors
    /// If the text is wrong. Returns the wrong part of the text, which the message marks with carets, and the
    /// error.
    pub fn parse(text: &str) -> Result<Self, (&str, UnitError)> {
        let parts = split_at_and(text);
        let mut terms = Vec::new();
        for part in &parts {
            let term = term(part)?;
            let same = |other: &Term| kind(other) == kind(&term);
            if terms.iter().any(same) {
                let message = format!("the objective limits {} twice", kind(&term));
                return Err((part, UnitError::new(message, "keep only the stricter limit")));
            }
            terms.push(term);
        }
        Ok(Self::new(terms))
    }

    /// Creates an objective from these limits.
    pub fn new(terms: Vec<Term>) -> Self {
        let text = terms.iter().map(Term::show).collect::<Vec<_>>().join(" and ");
        Self { text, terms }
    }

    /// The objective that a frontier uses for this bound: `p99 < 10ms and errors < 0.1%`.
    pub fn at_bound(bound: Duration) -> Self {
        let time = Term::Time { of: Figure::Percentile(0.99), below: bound };
        Self::new(vec![time, Term::Errors { below: FRONTIER_ERRORS }])
    }

    /// Share of the due requests that must succeed.
    pub fn reached(&self) -> f64 {
        let asked = self.terms.iter().find_map(|term| match term {
            Term::Throughput { least } => Some(*least),
            _ => None,
        });
        asked.unwrap_or(REACHED)
    }

    /// The highest percentile that has a limit. `None` if no percentile has a limit.
    pub fn highest_percentile(&self) -> Option<f64> {
        let percentiles = self.terms.iter().filter_map(|term| match term {
            Term::Time { of: Figure::Percentile(share), .. } => Some(*share),
            _ => None,
        });
        percentiles.reduce(f64::max)
    }
}

/// Share of errors that a frontier's objectives allow. The finding `errors` uses the same limit.
const FRONTIER_ERRORS: f64 = 0.001;

impl Term {
    /// The limit in plan syntax.
    pub fn show(&self) -> String {
        match self {
            Self::Time { of, below } => format!("{} < {}", of.show(), show_duration(*below)),
            Self::Errors { below } => format!("errors < {}", show_share(*below)),
            Self::Throughput { least } => format!("throughput >= {}", show_share(*least)),
        }
    }

    /// Name of the limited statistic: `p99`, `mean`, `errors`, `throughput`.
    pub fn name(&self) -> String {
        kind(self)
    }
}

impl Figure {
    fn show(self) -> String {
        match self {
            Self::Percentile(share) => format!("p{}", (share * 1e8).round() / 1e6),
            Self::Mean => "mean".to_owned(),
            Self::Max => "max".to_owned(),
        }
    }
}

fn kind(term: &Term) -> String {
    match term {
        Term::Time { of, .. } => of.show(),
        Term::Errors { .. } => "errors".to_owned(),
        Term::Throughput { .. } => "throughput".to_owned(),
    }
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
    if name == "throughput" {
        let least = limit(part, bound, sign, &[">=", ">"], share)?;
        return Ok(Term::Throughput { least });
    }
    if name == "errors" {
        return Ok(Term::Errors { below: limit(part, bound, sign, &["<", "<="], share)? });
    }
    let of = figure(name)?;
    let below = limit(part, bound, sign, &["<", "<="], duration)?;
    if below.is_zero() {
        return Err((part, UnitError::new("the bound is zero", "write a bound above zero")));
    }
    Ok(Term::Time { of, below })
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
            let known = ["p50", "p90", "p95", "p99", "p99.9", "mean", "max", "errors", "throughput"];
            let help = nearest(name, known).filter(|_| !name.is_empty()).map_or_else(
                || "use p1 to p99.999, mean, max, errors or throughput".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            Err((name, UnitError::new(format!("an objective cannot limit `{name}`"), help)))
        }
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "limits are kept and {} of the requests due were answered successfully" percent(REACHED);
    BIAS "trials hold**, with {} of the requests answered" percent(REACHED);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn objectives_are_parsed_and_shown() {
        let objective = Objective::parse("p99 < 10ms and errors < 0.1%").expect("an objective");
        let time = Term::Time { of: Figure::Percentile(0.99), below: ms(10) };
        assert_eq!(objective.terms, [time, Term::Errors { below: 0.001 }]);
        assert_eq!(objective.text, "p99 < 10ms and errors < 0.1%");
        assert_eq!(objective, Objective::at_bound(ms(10)));
        for (typed, shown) in [
            ("p99.9<=1.5s", "p99.9 < 1.5s"),
            ("  mean < 2ms ,max < 1s", "mean < 2ms and max < 1s"),
            (
                "p50 < 1ms, and errors < 1% and throughput > 99.9%",
                "p50 < 1ms and errors < 1% and throughput >= 99.9%",
            ),
        ] {
            let objective =
                Objective::parse(typed).unwrap_or_else(|(at, error)| panic!("{typed}: {at}: {error}"));
            assert_eq!(objective.text, shown);
            assert_eq!(Objective::parse(shown).expect("shown"), objective);
        }
    }

    #[test]
    fn a_rate_is_reached_at_99_percent_by_default() {
        assert_eq!(Objective::parse("p99 < 1ms").expect("an objective").reached(), 0.99);
        assert_eq!(Objective::parse("throughput >= 95%").expect("an objective").reached(), 0.95);
        let two = Objective::parse("p50 < 1ms and p99.9 < 2ms").expect("an objective");
        assert_eq!(two.highest_percentile(), Some(0.999));
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        for (text, part, help) in [
            ("p99 < 10", "10", "10s for seconds"),
            ("p99 < 10ms adn errors < 1%", "10ms adn errors < 1%", "ms"),
            ("p99 < 10ms and eror < 1%", "eror", "did you mean `errors`?"),
            ("p99 > 10ms", ">", "write <"),
            ("throughput < 90%", "<", "write >="),
            ("p99", "p99", "write p99 < 10ms"),
            ("p99 < 1ms and", "", "write p99 < 10ms"),
            ("", "", "write p99 < 10ms"),
            ("p100 < 1s", "p100", "write max"),
            ("p99 < 1ms and p99 < 2ms", "p99 < 2ms", "keep only the stricter limit"),
            ("errors < 200%", "200%", "at most 100%"),
            ("p99 <", "p99 <", "number and a unit"),
            ("p99 < 0ms", "p99 < 0ms", "above zero"),
            ("latency < 1ms", "latency", "use p1 to p99.999"),
        ] {
            let (at, error) = Objective::parse(text).expect_err(text);
            assert_eq!(at, part, "{text}");
            assert!(error.to_string().contains(help), "{text}: {error}");
        }
    }
}
