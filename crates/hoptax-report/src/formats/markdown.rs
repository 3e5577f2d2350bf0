//! The report for a pull request, as GitHub-flavoured Markdown. The key results are visible. Everything else
//! is folded.

use crate::failures::FailureGroup;
use crate::model::{Belief, Model};
use crate::sections::{belief, busier, capacity, found_in, gateway_pairs, precision, quiet, starts, waking};
use crate::words::figures;
use crate::words::folded::{FoldedSection, fitted};
use crate::words::format::bytes;
use crate::words::table::{self, Cell, HEADINGS, in_one_line};
use crate::words::text::{capital, inline, same_holds_for, stage_name, stop};
use hoptax_analysis::headline::for_latency;
use hoptax_analysis::{BudgetResult, Case, Load, Outcome, Severity, TargetFigures};
use std::fmt::Write;

/// Ranks of folded parts. If the report is too long, parts with the highest rank are dropped first. The plan
/// is dropped first, because readers of a pull request already have it. Findings are dropped last.
const FINDINGS: u8 = 0;
const SECTION: u8 = 1;
const LOAD: u8 = 2;
const AGAIN: u8 = 3;

/// The report as Markdown: the answer, the verdict and the table of the headline load point. The rest follows
/// in folded parts. The text always fits into a comment on GitHub.
pub fn markdown(model: &Model) -> String {
    let headline = for_latency(&mut model.loads()).map(|load| load.index);
    let mut text = format!("## {}: {}\n\n", inline(&model.name), model.question());
    // If the answer is void, the verdict comes first, so that readers do not trust a void figure.
    let is_void = model.belief() == Belief::Void;
    let (first, second) =
        if is_void { (verdict(model), answer(model)) } else { (answer(model), verdict(model)) };
    text.push_str(&if is_void { format!("{}\n", first.trim_start()) } else { first });
    text.push_str(&second);
    for load in model.loads().filter(|load| Some(load.index) == headline) {
        let _ = write!(text, "\n### {}\n\n{}", inline(&capital(&load.label)), load_table(model, load));
    }
    text.push_str(&starts::markdown(model));
    text.push_str(&capacity::markdown(model));
    if model.measured_anything() && !model.measured_starts() {
        let origin = model.origin_of_shares();
        line(&mut text, &format!("\nIn parentheses: 95 % intervals for another run.{origin}"));
    }
    let remarks = [busier::line(model), waking::line(model), precision::line(model), quiet::line(model)];
    for remark in remarks.into_iter().flatten() {
        line(&mut text, &format!("\n{}", inline(&remark)));
    }
    text.push_str(&budget(model, "Budgets that were not kept", |outcome| outcome != Outcome::Kept));
    text.push_str(&failures(model));
    fitted(&text, parts(model, headline))
}

/// Notes on the records, the answer, and one or two sentences about each gateway.
fn answer(model: &Model) -> String {
    let mut text = String::new();
    for note in &model.notes {
        line(&mut text, &format!("> {}\n", inline(note)));
    }
    if let Some(answer) = &model.answer {
        line(&mut text, &format!("**{}**\n", inline(answer)));
    }
    for (one, others) in model.summaries_outside_prices() {
        line(
            &mut text,
            format!("- {} {}", inline(&one.in_full()), inline(&same_holds_for(&others))).trim_end(),
        );
    }
    for one in &model.prices.sentences {
        line(&mut text, &format!("- {}", inline(&one.in_full())));
    }
    text
}

/// The verdict, and the codes of the findings that it is based on.
fn verdict(model: &Model) -> String {
    if !model.measured_anything() {
        return String::new();
    }
    let codes: Vec<String> = match model.belief() {
        Belief::Believable => Vec::new(),
        Belief::Warnings | Belief::Void => {
            belief::codes(model).into_iter().map(|code| format!(" `{code}`")).collect()
        }
    };
    format!("\n**{}**{}{}\n", belief::verdict(model), codes.join(","), belief::others(model))
}

fn parts(model: &Model, headline: Option<usize>) -> Vec<FoldedSection> {
    let mut parts = Vec::new();
    let mut add = |title: String, body: String, rank: u8| {
        if !body.is_empty() {
            parts.push(FoldedSection { title, body, rank });
        }
    };
    for load in model.loads().filter(|load| Some(load.index) != headline) {
        add(capital(&load.label), load_table(model, load), LOAD);
    }
    let (title, pairs) = gateway_pairs::markdown(model);
    add(title, pairs, SECTION);
    add(crate::sections::versions::TITLE.into(), crate::sections::versions::markdown(model), SECTION);
    add(crate::sections::generators::HEADING.into(), crate::sections::generators::markdown(model), SECTION);
    add(crate::prices::TITLE.into(), crate::prices::markdown(&model.prices), SECTION);
    add(crate::sections::events::HEADING.into(), crate::sections::events::markdown(model), SECTION);
    add(crate::sections::hosts::HEADING.into(), crate::sections::hosts::markdown(model), SECTION);
    add(crate::sections::path::HEADING.into(), crate::sections::path::markdown(model), SECTION);
    add(crate::sections::http2::HEADING.into(), crate::sections::http2::markdown(model), SECTION);
    add(crate::sections::messages::heading(model), crate::sections::messages::markdown(model), SECTION);
    for (title, table) in crate::slow::markdown(model).into_iter().chain(crate::profiles::markdown(model)) {
        add(title, table, LOAD);
    }
    add("Budgets that were kept".into(), budget(model, "", |outcome| outcome == Outcome::Kept), SECTION);
    add("Logs of what was not measured".into(), logs(model), SECTION);
    add(counted_findings(model), findings(model), FINDINGS);
    add("How it was measured".into(), again(model), AGAIN);
    parts
}

/// The number of findings in words: `Findings: 2 warnings, 1 note`.
fn counted_findings(model: &Model) -> String {
    let counted = |severity: Severity, one: &str, many: &str| {
        let count = model.findings.iter().filter(|finding| finding.severity == severity).count();
        (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
    };
    let each = [
        counted(Severity::Void, "void", "void"),
        counted(Severity::Warning, "warning", "warnings"),
        counted(Severity::Note, "note", "notes"),
    ];
    format!("Findings: {}", each.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn load_table(model: &Model, load: &Load) -> String {
    let mut text = String::from("| gateway |");
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

/// Lists the budgets that `of` selects by their outcome, below an optional heading. Empty if it selects none.
fn budget(model: &Model, heading: &str, of: impl Fn(Outcome) -> bool) -> String {
    let results: Vec<&BudgetResult> = model.budget.iter().filter(|result| of(result.outcome)).collect();
    if results.is_empty() {
        return String::new();
    }
    let heading = if heading.is_empty() { String::new() } else { format!("\n### {heading}\n\n") };
    let mut text = format!("{heading}| case | metric | limit | measured | |\n|---|---|---:|---:|---|\n");
    for result in results {
        let limit = inline(&figures::limit(result));
        let measured = inline(&figures::measured(result));
        let outcome = match (result.outcome, figures::reason(result)) {
            (Outcome::Kept, _) => "kept".to_owned(),
            (outcome, None) => format!("**{}**", outcome.words()),
            (outcome, Some(reason)) => format!("**{}**: {}", outcome.words(), inline(&reason)),
        };
        let case = inline(&result.case);
        line(&mut text, &format!("| {case} | {} | {limit} | {measured} | {outcome} |", result.metric.name()));
    }
    text
}

fn failures(model: &Model) -> String {
    let failures = model.failures();
    if failures.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n### Not measured\n\n");
    for FailureGroup { label, failure, others } in failures {
        let (label, stage) = (inline(label), stage_name(failure.stage));
        let message = match others.is_empty() {
            true => inline(&failure.message),
            false => inline(&format!("{} {}", stop(&failure.message), same_holds_for(&others))),
        };
        line(&mut text, &format!("- **{label}** ({stage}): {message}"));
    }
    text
}

/// The log or the answer for each reason why contenders could not be measured.
fn logs(model: &Model) -> String {
    let mut text = String::new();
    let with_log = |group: &FailureGroup<'_>| !group.failure.detail.is_empty();
    for FailureGroup { label, failure, others } in model.failures().into_iter().filter(with_log) {
        let labels = std::iter::once(label).chain(others).collect::<Vec<_>>().join(", ");
        let _ = write!(text, "- {} ({})\n\n", inline(&labels), stage_name(failure.stage));
        text.extend(failure.detail.lines().map(|one| format!("      {one}\n")));
        text.push('\n');
    }
    text
}

fn findings(model: &Model) -> String {
    if model.findings.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for (finding, others) in model.findings_by_rule() {
        let case = finding.case.as_ref().map_or(String::new(), |case| format!(" {}:", inline(case)));
        let (message, advice) = (inline(&finding.message), inline(&finding.advice));
        let also = inline(&found_in::sentence(model, finding.case.as_deref(), &others));
        let severity = finding.severity.name();
        line(&mut text, &format!("- **{severity}** `{}`{case} {message}{also} *{advice}*", finding.code));
    }
    text
}

fn again(model: &Model) -> String {
    let machine = &model.environment;
    let mut text = format!(
        "{}, {} CPUs, {}, {}; hoptax {}; started {}; seed {}; \
         {}.\n\n",
        inline(&machine.cpu),
        machine.cpus,
        bytes(machine.memory_bytes as f64),
        inline(&machine.kernel),
        inline(&model.hoptax),
        model.started,
        model.seed,
        match model.measured_starts() {
            true => model.trials_in_words(),
            false => format!("{} of {} trials", model.trials_recorded, model.trials_planned),
        }
    );
    let profile = match model.profile {
        hoptax_plan::Profile::Equalised => "equalised",
        hoptax_plan::Profile::Stock => "stock",
    };
    let idle = model.cpus_in_words();
    line(
        &mut text,
        &format!(
            "Settings are {profile}{idle}. Settings that differ from what the gateway ships, and why:\n"
        ),
    );
    for (labels, contender) in model.settings() {
        let version = contender.version.as_deref().unwrap_or("version unknown");
        let none = if contender.settings.is_empty() { ": none recorded" } else { "" };
        line(&mut text, &format!("- {} {}{none}", inline(&labels.join(", ")), inline(version)));
        for one in &contender.settings {
            line(&mut text, &format!("  - {}: {}", inline(&one.setting), inline(&one.reason)));
        }
    }
    if model.hosts.is_none() {
        text += &crate::sections::host::markdown(&model.host, inline);
    }
    // The code fence has more backticks than any sequence in the plan's text, so that the plan cannot close
    // it.
    let fence = "`".repeat(longest_run_of_ticks(&model.plan_text).max(2) + 1);
    let plan = model.plan_text.trim_end();
    let _ = write!(text, "\n{fence}yaml\n{plan}\n{fence}\n");
    text
}

fn longest_run_of_ticks(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;
    use hoptax_record::Stage;

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_heading() {
        let text = markdown(&sample().model());
        let mut tables = 0;
        let lines: Vec<&str> = text.lines().collect();
        for table in lines.chunk_by(|one, other| one.starts_with('|') == other.starts_with('|')) {
            tables += usize::from(table[0].starts_with("| gateway"));
            for line in table.iter().filter(|line| line.starts_with('|')) {
                assert_eq!(line.matches('|').count(), table[0].matches('|').count(), "{line}");
            }
        }
        assert!(tables > 0);
        insta::assert_snapshot!(text);
    }

    /// The answer comes first, and everything appears only once.
    #[test]
    fn answer_verdict_and_table_are_visible_and_first() {
        let mut run = Run::with_load(vec![closed_point(1, 5), closed_point(32, 5)]);
        for round in 0..3 {
            for load in 0..2 {
                run.push(via("direct", round).first().at_load(load).all_at_us(100));
                run.push(via("nginx", round).at_load(load).all_at_us(150));
                run.push(via("direct", round).last().at_load(load).all_at_us(101));
            }
        }
        run.contender("envoy", Some(failure(Stage::Start, "exited")));
        let text = markdown(&run.model());
        let (open, folded) = text.split_once("<details>").expect("something is folded");
        let words = "## ;- nginx ;**Believable, with;### Closed loop, 1 connection\n;| nginx | ;\
                     ### Not measured";
        for part in words.split(';') {
            assert!(open.contains(part), "`{part}` is not open: {open}");
        }
        for part in
            ["<summary>Closed loop, 32 connections<", "<summary>Findings: ", "<summary>How it was measured<"]
        {
            assert!(folded.contains(part) && !open.contains(part), "`{part}` is not folded: {text}");
        }
        assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
        assert_eq!(text.matches("| gateway |").count(), 2);
        assert_eq!(
            text.matches("exited").count() - 1,
            text.matches("was not measured: exited").count(),
            "{text}"
        );
    }

    #[test]
    fn a_run_of_any_size_fits_into_a_comment() {
        for (gateways, loads) in [(3, 6), (20, 20)] {
            let mut run =
                Run::with_load((1..=loads).map(|connections| closed_point(connections, 5)).collect());
            for load in 0..loads {
                for round in 0..3 {
                    let trial = |who: &str, us: u64| {
                        via(who, round)
                            .at_load(load)
                            .response_times_us((us..us + 900).step_by(7))
                            .stolen_ms(&[0, 90])
                    };
                    run.push(trial("direct", 100).first());
                    for gateway in 0..gateways {
                        run.push(trial(&format!("a-gateway-{gateway}"), 200 + gateway * 30));
                    }
                    run.push(trial("direct", 110).last());
                }
            }
            run.record.plan_text = "# a plan with many words\n".repeat(200);
            let text = markdown(&run.model());
            assert!(text.chars().count() <= 65_536, "{gateways} × {loads}: {}", text.chars().count());
            let whole = gateways * u64::from(loads) <= 24;
            assert_eq!(text.contains("Left out"), !whole, "{gateways} × {loads}");
            assert!(text.contains("<summary>Findings: "), "they are dropped last");
        }
    }

    #[test]
    fn a_mix_has_a_row_for_each_target() {
        let mut run = Run::mix(&[("read|x", 1), ("write", 1)]);
        run.push(via("direct", 0).first().target("read|x", 500, 100).target("write", 500, 400));
        insta::assert_snapshot!(markdown(&run.model()));
    }

    #[test]
    fn void_comes_before_any_sentence() {
        let mut run = Run::steady(4, 100, &[("nginx", 150), ("haproxy", 160)]);
        for round in 4..9 {
            run.push(via("nginx", round).all_at_us(3).status(500, 999));
        }
        let model = run.model();
        for text in
            [markdown(&model), crate::terminal(&model, 200, false), crate::formats::html::words(&model)]
        {
            let verdict = text.find("Void: do not use these figures").expect("a verdict");
            let sentence = text.find(" is void at 32 connections: ").expect("a sentence");
            assert!(verdict < sentence, "{text}");
            assert!(!text.contains("less than direct") && !text.contains("more throughput"), "{text}");
        }
    }

    #[test]
    fn untrusted_text_cannot_become_markup() {
        let mut run = Run::steady(2, 100, &[("a|b<script>", 150)]);
        run.record.plan_text = "```\nname: x\n".into();
        let text = markdown(&run.model());
        insta::assert_snapshot!(text);
        assert!(!text.contains("<script>"), "{text}");
    }
}
