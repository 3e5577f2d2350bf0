//! The report for a pull request: GitHub-flavoured Markdown.

use super::capacity;
use super::figures;
use super::format::bytes;
use super::model::Model;
use super::quiet;
use super::table::{self, Cell, HEADINGS};
use super::terminal::{belief, stage_name};
use crate::analysis::{Case, Load, Outcome, TargetFigures};
use std::fmt::Write;

/// The report as Markdown.
pub fn markdown(model: &Model) -> String {
    let mut text = format!("# {}: what does each hop cost?\n\n", inline(&model.name));
    for note in &model.notes {
        line(&mut text, &format!("> {}\n", inline(note)));
    }
    if let Some(answer) = &model.answer {
        line(&mut text, &format!("**{}**\n", inline(answer)));
    }
    for one in model.told_by_itself() {
        line(&mut text, &format!("- {}", inline(&one.sentence)));
    }
    if model.measured_anything() {
        line(&mut text, &format!("\n**{}**", belief(model.belief())));
    }
    for load in model.loads() {
        text.push_str(&load_table(model, load));
    }
    text.push_str(&super::prices::markdown(model));
    text.push_str(&capacity::markdown(model));
    line(&mut text, "\nIn parentheses: 95 % interval over trials.");
    if let Some(told) = quiet::line(model) {
        line(&mut text, &format!("\n{told}"));
    }
    text.push_str(&super::events::markdown(model));
    text.push_str(&super::path::markdown(model));
    text.push_str(&budget(model));
    text.push_str(&failures(model));
    text.push_str(&findings(model));
    text.push_str(&again(model));
    text
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn load_table(model: &Model, load: &Load) -> String {
    let mut text = format!("\n## {}\n\n| gateway |", inline(&load.label));
    for heading in HEADINGS {
        let _ = write!(text, " {heading} |");
    }
    text.push_str(" throughput against direct |\n|---|");
    text.push_str(&"---:|".repeat(HEADINGS.len() + 1));
    text.push('\n');
    for case in model.at(load) {
        line(&mut text, &row(case));
        if let Some(cells) = quiet::row(case) {
            line(&mut text, &quiet_row(&cells, &quiet::ratio(case)));
        }
        for target in &case.targets {
            line(&mut text, &target_row(target));
        }
    }
    text
}

fn row(case: &Case) -> String {
    let mut text = format!("| {} |", inline(&case.gateway));
    match table::row(case) {
        Some(cells) => {
            for cell in &cells {
                let _ = write!(text, " {} |", in_one_line(cell));
            }
            let ratio = case.tax.as_ref().and_then(|tax| tax.throughput_ratio.as_ref());
            let _ = write!(text, " {} |", in_one_line(&table::ratio(ratio)));
        }
        None => {
            text.push_str(if case.failed.is_some() { " failed |" } else { " not reached |" });
            text.push_str(&" |".repeat(HEADINGS.len()));
        }
    }
    text
}

fn quiet_row(cells: &[Cell], ratio: &Cell) -> String {
    let cells: String = cells.iter().chain([ratio]).map(|cell| format!(" {} |", in_one_line(cell))).collect();
    format!("| {} |{cells}", quiet::NAME)
}

fn target_row(target: &TargetFigures) -> String {
    let (name, cells) = table::target_row(target);
    let cells: String = cells.iter().map(|cell| format!(" {} |", in_one_line(cell))).collect();
    format!("| {} |{cells} – |", inline(&name))
}

pub(super) fn in_one_line(cell: &Cell) -> String {
    let interval = match cell.interval.is_empty() {
        true => String::new(),
        false => format!(" ({})", cell.interval),
    };
    let doubt = if cell.distinguishable { "" } else { ", not distinguishable" };
    format!("{}{interval}{doubt}", cell.value)
}

fn budget(model: &Model) -> String {
    if model.budget.is_empty() {
        return String::new();
    }
    let mut text =
        String::from("\n## Budget\n\n| case | metric | limit | measured | |\n|---|---|---:|---:|---|\n");
    for result in &model.budget {
        let limit = inline(&figures::limit(result));
        let told = inline(&figures::measured(result));
        let outcome = match result.outcome {
            Outcome::Kept => "kept",
            Outcome::Breached => "**breached**",
            Outcome::Unmeasured => "**not measured**",
        };
        let case = inline(&result.case);
        line(&mut text, &format!("| {case} | {} | {limit} | {told} | {outcome} |", result.metric.name()));
    }
    text
}

fn failures(model: &Model) -> String {
    let failures = model.failures();
    if failures.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n## Not measured\n\n");
    for (label, failure) in failures {
        let (label, message) = (inline(label), inline(&failure.message));
        line(&mut text, &format!("- **{label}** ({}): {message}", stage_name(failure.stage)));
        if !failure.detail.is_empty() {
            let detail: String = failure.detail.lines().map(|one| format!("      {one}\n")).collect();
            text.push_str(&format!("\n{detail}\n"));
        }
    }
    text
}

fn findings(model: &Model) -> String {
    if model.findings.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n## Findings\n\n");
    for (finding, others) in model.findings_by_rule() {
        let case = finding.case.as_ref().map_or(String::new(), |case| format!(" {}:", inline(case)));
        let (message, advice) = (inline(&finding.message), inline(&finding.advice));
        let also = match others.is_empty() {
            true => String::new(),
            false => format!(" Also: {}.", inline(&others.join("; "))),
        };
        let severity = finding.severity.name();
        line(&mut text, &format!("- **{severity}** `{}`{case} {message}{also} *{advice}*", finding.code));
    }
    text
}

fn again(model: &Model) -> String {
    let machine = &model.environment;
    let mut text = format!(
        "\n<details><summary>How it was measured</summary>\n\n{}, {} CPUs, {}, {}; hoptax {}; started {}; seed {}; \
         {} of {} trials.\n\n",
        inline(&machine.cpu),
        machine.cpus,
        bytes(machine.memory_bytes as f64),
        inline(&machine.kernel),
        inline(&model.hoptax),
        model.started,
        model.seed,
        model.trials_recorded,
        model.trials_planned
    );
    let profile = match model.profile {
        crate::plan::Profile::Equalised => "equalised",
        crate::plan::Profile::Stock => "stock",
    };
    line(&mut text, &format!("Settings are {profile}. What differs from what is shipped, and why:\n"));
    for (labels, contender) in model.settings() {
        let version = contender.version.as_deref().unwrap_or("version unknown");
        let none = if contender.settings.is_empty() { ": nothing is on record" } else { "" };
        line(&mut text, &format!("- {} {}{none}", inline(&labels.join(", ")), inline(version)));
        for one in &contender.settings {
            line(&mut text, &format!("  - {}: {}", inline(&one.setting), inline(&one.reason)));
        }
    }
    text += &super::host::markdown(model, inline);
    // A fence longer than any in the plan, so that the plan cannot end it.
    let fence = "`".repeat(longest_run_of_ticks(&model.plan_text).max(2) + 1);
    let plan = model.plan_text.trim_end();
    let _ = write!(text, "\n{fence}yaml\n{plan}\n{fence}\n\n</details>\n");
    text
}

fn longest_run_of_ticks(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

/// Text that may come from anywhere, so that it cannot become markup.
pub(super) fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '\\' | '|' | '*' | '_' | '[' | ']' | '`' => safe.extend(['\\', letter]),
            '\n' | '\r' => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{Run, sample, via};

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_heading() {
        let text = markdown(&sample().model());
        let mut expected = 0;
        for line in text.lines() {
            if line.starts_with("| gateway |") {
                expected = line.matches('|').count();
            } else if line.starts_with('|') {
                assert_eq!(line.matches('|').count(), expected, "{line}");
            }
        }
        assert!(expected > 0);
        assert!(text.contains("- nginx adds"), "{text}");
        assert!(text.contains("**envoy** (not installed)"), "{text}");
    }

    #[test]
    fn a_mix_has_a_row_for_each_target() {
        let mut run = Run::mix(&[("read|x", 1), ("write", 1)]);
        run.push(via("direct", 0).first().target("read|x", 500, 100).target("write", 500, 400));
        let text = markdown(&run.model());
        assert!(text.contains("\n| · read\\|x | – | 100 µs (one trial) |"), "{text}");
    }

    #[test]
    fn says_not_distinguishable_in_the_cell() {
        let mut run = Run::closed(1);
        for round in 0..3 {
            run.direct(round, 100, 160);
            run.push(via("nginx", round).all_at_us(140));
        }
        assert!(markdown(&run.model()).contains("+40 µs (40–40), not distinguishable"));
    }

    #[test]
    fn text_from_outside_cannot_become_markup() {
        let mut run = Run::steady(2, 100, &[("a|b<script>", 150)]);
        run.record.plan_text = "```\nname: x\n".into();
        let text = markdown(&run.model());
        assert!(!text.contains("<script>") && text.contains("a\\|b&lt;script>"), "{text}");
        assert!(text.contains("````yaml\n```\nname: x\n````"), "{text}");
    }
}
