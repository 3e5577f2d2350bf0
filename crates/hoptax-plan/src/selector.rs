//! Selectors find a number in the response of a status endpoint. The response can be Prometheus text, CSV,
//! JSON or any text.

pub use hoptax_record::plan::SelectorKind;
use regex_lite::Regex;

/// Finds a number in a response.
#[derive(Debug)]
pub struct Selector(Kind);

#[derive(Debug)]
enum Kind {
    Prometheus(PrometheusSelector),
    Csv(CsvSelector),
    Json(String),
    Regex(Regex),
}

impl Selector {
    /// Parses `text`, a selector of this kind.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    pub fn parse(kind: SelectorKind, text: &str) -> Result<Self, String> {
        Ok(Self(match kind {
            SelectorKind::Prometheus => Kind::Prometheus(PrometheusSelector::parse(text)?),
            SelectorKind::Csv => Kind::Csv(CsvSelector::parse(text)?),
            SelectorKind::Json if text.starts_with('/') => Kind::Json(text.to_owned()),
            SelectorKind::Json => {
                return Err("start the JSON pointer with `/`, as in /server/requests".into());
            }
            SelectorKind::Regex => match pattern(text)? {
                regex if regex.captures_len() < 2 => {
                    return Err("put parentheses around the number, as in `dropped: ([0-9]+)`".into());
                }
                regex => Kind::Regex(regex),
            },
        }))
    }

    /// The sum of all matching numbers. `None` if no number matches.
    pub fn value(&self, answer: &str) -> Option<f64> {
        match &self.0 {
            Kind::Prometheus(selector) => selector.value(answer),
            Kind::Csv(selector) => selector.value(answer),
            Kind::Json(pointer) => {
                serde_json::from_str::<serde_json::Value>(answer).ok()?.pointer(pointer)?.as_f64()
            }
            Kind::Regex(regex) => {
                sum(regex.captures_iter(answer).filter_map(|found| found.get(1)?.as_str().parse().ok()))
            }
        }
    }
}

/// The sum of the numbers. `None` if there are no numbers.
fn sum(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    numbers.fold(None, |sum, number| Some(sum.unwrap_or(0.0) + number))
}

/// Compiles a regular expression.
///
/// # Errors
/// If it is not valid.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("not a valid regular expression: {error}"))
}

/// A selector `name` or `name{label="value",…}`. It selects the sum of all series with this name and these
/// labels.
#[derive(Debug, PartialEq, Eq)]
struct PrometheusSelector {
    name: String,
    labels: Vec<(String, String)>,
}

impl PrometheusSelector {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, labels) = match text.split_once('{') {
            None => (text, Vec::new()),
            Some((name, rest)) => {
                let inside = rest.strip_suffix('}').and_then(labels);
                (name, inside.ok_or("write labels as `name=\"value\"`, all in one pair of braces")?)
            }
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("start with the metric's name, as in `requests_total{code=\"503\"}`".into());
        }
        Ok(Self { name: name.to_owned(), labels })
    }

    fn value(&self, answer: &str) -> Option<f64> {
        sum(answer.lines().filter(|line| !line.starts_with('#')).filter_map(|line| self.series(line)))
    }

    fn series(&self, line: &str) -> Option<f64> {
        let rest = line.strip_prefix(&self.name)?;
        let (has, rest) = match rest.strip_prefix('{') {
            // The last brace ends the labels, because the value of a label can contain a brace.
            Some(rest) => rest.rsplit_once('}').and_then(|(inside, rest)| Some((labels(inside)?, rest)))?,
            None if rest.starts_with(char::is_whitespace) => (Vec::new(), rest),
            None => return None,
        };
        let fits = self.labels.iter().all(|wanted| has.contains(wanted));
        // A time stamp can follow the value.
        fits.then(|| rest.split_whitespace().next()?.parse().ok())?
    }
}

/// Parses `a="b",c="d"`. Returns `None` if the text has another form.
fn labels(text: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"")?;
        let end = closing_quote(after)?;
        found.push((name.trim().to_owned(), unescaped(&after[..end])));
        rest = after[end + 1..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(found)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return Some(at),
            _ => escaped = letter == '\\' && !escaped,
        }
    }
    None
}

fn unescaped(text: &str) -> String {
    text.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\")
}

/// A selector `column[other=value,…]`. It selects the sum of a column over all rows that have these values in
/// the other columns.
#[derive(Debug, PartialEq, Eq)]
struct CsvSelector {
    column: String,
    rows: Vec<(String, String)>,
}

impl CsvSelector {
    fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "write a column, and conditions for its rows in brackets: econ[pxname=main,svname=BACKEND]";
        let (column, rows) = match text.split_once('[') {
            None => (text, Some(Vec::new())),
            Some((column, rest)) => (column, rest.strip_suffix(']').and_then(conditions)),
        };
        match rows {
            Some(rows) if !column.is_empty() => Ok(Self { column: column.to_owned(), rows }),
            _ => Err(FORM.into()),
        }
    }

    /// The first line contains the names of the columns. HAProxy starts this line with `# `.
    fn value(&self, answer: &str) -> Option<f64> {
        let mut lines = answer.lines();
        let names: Vec<&str> = lines.next()?.trim_start_matches("# ").split(',').collect();
        let index = |name: &str| names.iter().position(|known| *known == name);
        let column = index(&self.column)?;
        let rows: Option<Vec<(usize, &str)>> =
            self.rows.iter().map(|(name, value)| Some((index(name)?, value.as_str()))).collect();
        let rows = rows?;
        sum(lines.filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let fits = rows.iter().all(|(index, value)| cells.get(*index) == Some(value));
            fits.then(|| cells.get(column)?.parse().ok())?
        }))
    }
}

fn conditions(text: &str) -> Option<Vec<(String, String)>> {
    let condition = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    text.split(',').map(condition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# TYPE overflow counter\n\
        overflow{cluster=\"a\",zone=\"x,}\"} 2\noverflow{cluster=\"b\"} 5 1700000000000\n\
        overflow_total 100\nplain 7\noverflow{cluster=\"q\\\"q\"} 11\n";

    #[test]
    fn series_are_found_by_name_and_labels() {
        let value = |select| PrometheusSelector::parse(select).expect("right").value(METRICS);
        assert_eq!(value("overflow"), Some(18.0), "all of that name, and no longer name");
        assert_eq!(value("overflow{cluster=\"b\"}"), Some(5.0));
        assert_eq!(value("overflow{zone=\"x,}\"}"), Some(2.0));
        assert_eq!(value("overflow{cluster=\"q\\\"q\"}"), Some(11.0));
        assert_eq!((value("plain"), value("none"), value("plain{a=\"b\"}")), (Some(7.0), None, None));
    }

    #[test]
    fn numbers_are_found_in_json_and_in_any_text() {
        let value =
            |kind, select: &str, answer: &str| Selector::parse(kind, select).expect("right").value(answer);
        let text = "cluster.a.overflow: 3\ncluster.b.overflow: 4\n";
        assert_eq!(value(SelectorKind::Regex, r"cluster\.\w+\.overflow: ([0-9]+)", text), Some(7.0));
        assert_eq!(value(SelectorKind::Regex, "nothing ([0-9]+)", text), None);
        let json = r#"{"pool": {"refused": 12}}"#;
        assert_eq!(value(SelectorKind::Json, "/pool/refused", json), Some(12.0));
        assert_eq!(value(SelectorKind::Json, "/pool/none", json), None);
        assert_eq!(value(SelectorKind::Json, "/pool", "no json"), None);
    }

    #[test]
    fn errors_say_how_to_write_the_selector() {
        let told = [
            (SelectorKind::Json, "pool"),
            (SelectorKind::Regex, "dropped"),
            (SelectorKind::Regex, "("),
            (SelectorKind::Csv, "econ["),
            (SelectorKind::Prometheus, "x{y}"),
        ]
        .map(|(kind, select)| Selector::parse(kind, select).expect_err("wrong"));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn cells_are_found_by_column_and_row() {
        let csv = "# pxname,svname,econ,eresp\nmain,FRONTEND,,0\nup,one,2,3\nup,two,5,\nup,BACKEND,7,3\n";
        let value = |select| CsvSelector::parse(select).expect("right").value(csv);
        assert_eq!(value("econ[pxname=up,svname=BACKEND]"), Some(7.0));
        assert_eq!(value("econ[pxname=up]"), Some(14.0));
        assert_eq!(value("econ[pxname=main]"), None, "an empty cell is not a number");
        assert_eq!((value("none"), value("econ[no=x]")), (None, None));
    }
}
