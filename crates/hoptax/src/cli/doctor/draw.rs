//! Text output of `hoptax doctor`: one line for each check. If the check is not good, the reason and the
//! advice follow.

use super::diagnosis::Diagnosis;
use crate::cli::findings::{WIDTH, wrapped};
use crate::cli::paint::{Ink, Paint};
use hoptax_record::{Fitness, FitnessStatus};
use std::fmt::Write as _;

/// The whole text, wrapped at 80 columns. A line is longer only if it contains a word of more than 80
/// characters.
pub(super) fn text(diagnosis: &Diagnosis, paint: Paint) -> String {
    let plan_items = diagnosis.plan.iter().flat_map(|plan| &plan.items);
    let all: Vec<&Fitness> = diagnosis.items.iter().chain(plan_items).collect();
    let names = all.iter().map(|item| item.name.len()).max().unwrap_or(0);
    let heading = format!("{}: fit for measurements?", diagnosis.host);
    let mut text = format!("{}\n\n", paint.ink(Ink::Strong, heading));
    for item in &diagnosis.items {
        text += &one(item, names, paint);
    }
    if let Some(plan) = &diagnosis.plan {
        let _ =
            write!(text, "\n{}\n\n", paint.ink(Ink::Strong, format!("Plan {} on this machine", plan.name)));
        for item in &plan.items {
            text += &one(item, names, paint);
        }
    }
    text.push('\n');
    text += &paint.ink(Ink::Strong, verdict(&all));
    text.push('\n');
    text
}

/// One check.
pub(in crate::cli) fn one(item: &Fitness, names: usize, paint: Paint) -> String {
    let (word, ink) = match item.status {
        FitnessStatus::Good => ("ok", None),
        FitnessStatus::Unknown => ("?", Some(Ink::Faint)),
        FitnessStatus::Warning => ("warning", Some(Ink::Doubt)),
        FitnessStatus::Bad => ("bad", Some(Ink::Failure)),
    };
    let column = "  warning  ".len();
    let word = format!("{word:<7}");
    let word = ink.map_or(word.clone(), |ink| paint.ink(ink, &word));
    let indent = column + names + 2;
    let mut lines = wrapped(&item.seen, WIDTH - indent).into_iter();
    let first = lines.next().unwrap_or_default();
    let mut text = format!("  {word}  {:<names$}  {first}\n", item.name);
    for line in lines {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
    if item.status == FitnessStatus::Good {
        return text;
    }
    for line in wrapped(&item.message, WIDTH - column - 2) {
        let _ = writeln!(text, "{:column$}  {}", "", paint.ink(Ink::Faint, line));
    }
    for (index, line) in wrapped(item.advice.as_deref().unwrap_or(""), WIDTH - column - 4).iter().enumerate()
    {
        let lead = if index == 0 { "→ " } else { "  " };
        let _ = writeln!(text, "{:column$}  {lead}{line}", "");
    }
    text
}

fn verdict(items: &[&Fitness]) -> String {
    let count = |status| items.iter().filter(|item| item.status == status).count();
    let (bad, warnings) = (count(FitnessStatus::Bad), count(FitnessStatus::Warning));
    let plural = |count: usize| if count == 1 { "1 warning".to_owned() } else { format!("{count} warnings") };
    match (bad, warnings) {
        (0, 0) => "Fit: every check that could be made is good.".to_owned(),
        (0, warnings) => {
            format!("Fit, with {}: results will be noisier than necessary.", plural(warnings))
        }
        (bad, 0) => format!("Not fit: {bad} bad. Fix this first."),
        (bad, warnings) => format!("Not fit: {bad} bad, and {}. Fix what is bad first.", plural(warnings)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::PlanDiagnosis;
    use super::*;

    fn item(name: &str, status: FitnessStatus) -> Fitness {
        let advice =
            (status != FitnessStatus::Good).then(|| "Do this at once, and then do it again. ".repeat(3));
        let message = if advice.is_some() { "It matters a great deal. ".repeat(5) } else { String::new() };
        Fitness { name: name.into(), status, seen: "so much that it is long ".repeat(4), message, advice }
    }

    fn diagnosis(statuses: &[FitnessStatus]) -> Diagnosis {
        let items: Vec<Fitness> = statuses.iter().map(|&status| item("clock-source", status)).collect();
        Diagnosis {
            schema: 1,
            hoptax: "1",
            host: "bench-1".into(),
            at_unix_ns: 0,
            fit: true,
            plan: Some(PlanDiagnosis { name: "quick".into(), items: items.clone() }),
            items,
        }
    }

    #[test]
    fn fits_the_terminal_and_says_what_to_do() {
        use FitnessStatus::{Bad, Good, Unknown, Warning};
        let drawn = text(&diagnosis(&[Good, Warning, Bad, Unknown]), Paint::OFF);
        for line in drawn.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(!drawn.contains('\u{1b}'), "{drawn}");
        insta::assert_snapshot!(drawn);
    }

    #[test]
    fn the_verdict_counts() {
        use FitnessStatus::{Bad, Good, Unknown, Warning};
        let said = |statuses: &[FitnessStatus]| {
            let items: Vec<Fitness> = statuses.iter().map(|&status| item("x", status)).collect();
            verdict(&items.iter().collect::<Vec<_>>())
        };
        let told = [&[Good, Unknown], &[Warning, Good], &[Bad, Good]].map(|statuses| said(statuses));
        insta::assert_snapshot!(told.join("\n"));
    }
}
