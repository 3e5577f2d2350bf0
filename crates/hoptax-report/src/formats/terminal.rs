//! The report on a terminal: a table for each load point, then the sentences, failures and findings.

use crate::failures::FailureGroup;
use crate::model::{Belief, Model};
use crate::sections::{
    belief, busier, capacity, found_in, gateway_pairs, generators, host, precision, quiet, starts, versions,
    waking,
};
use crate::words::layout::{self, MARK};
use crate::words::table;
use crate::words::text::{self, capital, same_holds_for, stage_name};
use crate::{gate, profiles, slow};
use hoptax_analysis::{Case, Finding, Load, Outcome, Severity};
use hoptax_record::report::Summary;

/// The report as text, wrapped to `width` columns. If `colour` is true, it contains ANSI colours.
pub fn terminal(model: &Model, width: u16, colour: bool) -> String {
    let page = Page { width, colour };
    let mut text = page.heading(model);
    for load in model.loads() {
        text.push('\n');
        text.push_str(&page.load(model, load));
    }
    text.push_str(&page.starts(model));
    text.push_str(&page.tables(&versions::tables(model)));
    text.push_str(&page.tables(&generators::tables(model)));
    let pairs = page.pairs(model);
    if !pairs.is_empty() {
        text.push('\n');
        text.push_str(&pairs);
    }
    let prices = page.prices(model);
    if !prices.is_empty() {
        text.push('\n');
        text.push_str(&prices);
    }
    text.push_str(&capacity::terminal(model, usize::from(width)));
    text.push_str(&page.remarked(slow::tables(model), slow::NOTE));
    text.push_str(&page.remarked(profiles::terminal(model, usize::from(width)), profiles::NOTE));
    if model.measured_anything() && !model.measured_starts() {
        let mark = match model.cases.iter().any(has_mark) || prices.contains(MARK) {
            true => format!("{MARK}: not distinguishable from this machine's noise. "),
            false => String::new(),
        };
        text.push('\n');
        text.push_str(&page.wrap(
            &format!(
                "{mark}Below each figure, or in parentheses: its 95 % interval for another run.{}",
                model.origin_of_shares()
            ),
            "",
            "",
        ));
        let lines = [busier::line(model), waking::line(model), precision::line(model), quiet::line(model)];
        text.extend(lines.into_iter().flatten().map(|line| page.wrap(&line, "", "")));
    }
    let host = page.host(model);
    let ways: String =
        crate::sections::path::terminal(model).iter().map(|line| page.wrap(line, "", "  ")).collect();
    let streams: String =
        crate::sections::http2::terminal(model).iter().map(|line| page.wrap(line, "", "  ")).collect();
    let events: String =
        crate::sections::events::terminal(model).iter().map(|line| page.wrap(line, "", "  ")).collect();
    for section in [
        page.sentences(model),
        page.hosts(model),
        events,
        ways,
        streams,
        page.messages(model),
        page.budget(model),
        page.failures(model),
        page.findings(model),
        host,
    ] {
        if !section.is_empty() {
            text.push('\n');
            text.push_str(&section);
        }
    }
    if model.measured_anything() {
        text.push('\n');
        text.push_str(&page.wrap(&belief::in_words(model), "", ""));
    }
    // Repeats the headline of the budgets, because long findings may follow the budgets, and CI logs show the
    // last lines.
    if !model.has_void_verdict() && model.budget.iter().any(|result| result.outcome != Outcome::Kept) {
        text.push_str(&page.wrap(&gate::headline(model), "", ""));
    }
    text
}

fn has_mark(case: &Case) -> bool {
    table::row(case).is_some_and(|row| row.iter().any(|cell| !cell.distinguishable))
}

struct Page {
    width: u16,
    colour: bool,
}

/// ANSI styles (ECMA-48, "select graphic rendition").
const BOLD: &str = "1";
const RED: &str = "31";
const YELLOW: &str = "33";
const DIM: &str = "2";

impl Page {
    fn style(&self, style: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.into() }
    }

    /// A bold line, wrapped like the rest of the text.
    fn title(&self, text: &str) -> String {
        self.style(BOLD, self.wrap(text, "", "").trim_end()) + "\n"
    }

    fn heading(&self, model: &Model) -> String {
        let mut text = self.title(&format!("{}: {}", model.name, model.question()));
        let trials = format!(
            "{}, {} settings{}, {}, seed {}.",
            model.target,
            match model.profile {
                hoptax_plan::Profile::Equalised => "equalised",
                hoptax_plan::Profile::Stock => "stock",
            },
            model.cpus_in_words(),
            model.trials_in_words(),
            model.seed
        );
        text.push_str(&self.wrap(&trials, "", ""));
        // If the answer is void, the verdict comes first, so that readers do not trust a void figure.
        if model.measured_anything() && model.belief() == Belief::Void {
            text.push_str(&self.wrap(&belief::verdict(model), &self.style(RED, "void"), "  "));
        }
        if let Some(answer) = &model.answer {
            text.push_str(&self.title(answer));
        }
        for note in &model.notes {
            text.push_str(&self.wrap(note, "", ""));
        }
        text
    }

    fn load(&self, model: &Model, load: &Load) -> String {
        let lines: Vec<layout::Line> = model
            .at(load)
            .flat_map(|case| {
                let reason = if case.failed.is_some() { "failed" } else { "not reached" };
                let targets =
                    case.targets.iter().map(table::target_row).map(|(name, row)| (name, Ok(row.to_vec())));
                let quiet = quiet::row(case).map(|row| (quiet::NAME.to_string(), Ok(row.to_vec())));
                std::iter::once((
                    case.gateway.clone(),
                    table::row(case).map(|row| row.to_vec()).ok_or(reason),
                ))
                .chain(quiet)
                .chain(targets)
            })
            .collect();
        let mut text = self.title(&capital(&load.label));
        for line in layout::table("gateway", &table::HEADINGS, &lines, usize::from(self.width)) {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn sentences(&self, model: &Model) -> String {
        let of = |(one, others): (&Summary, Vec<&str>)| {
            self.wrap(&format!("{} {}", one.in_full(), same_holds_for(&others)), "", "  ")
        };
        model.summaries_outside_prices().into_iter().map(of).collect()
    }

    fn starts(&self, model: &Model) -> String {
        let mut text = String::new();
        for table in starts::tables(model) {
            let lines: Vec<layout::Line> =
                table.rows.into_iter().map(|row| (row.name, Ok(row.cells))).collect();
            text.push_str(&format!("\n{}", self.title(&table.title)));
            for line in layout::table("gateway", table.headings, &lines, usize::from(self.width)) {
                text.push_str(&format!("{line}\n"));
            }
        }
        if !text.is_empty() {
            text.push_str(&format!("\n{}", self.wrap(starts::NOTE, "", "")));
        }
        text
    }

    /// Tables with the same note, which is printed once, after all of them.
    fn remarked(&self, tables: Vec<layout::RemarkedTable>, note: &str) -> String {
        let mut text = String::new();
        for table in tables {
            text.push_str(&format!("\n{}", self.title(&table.title)));
            if !table.sentence.is_empty() {
                text.push_str(&self.wrap(&table.sentence, "", ""));
            }
            let lines: Vec<layout::Line> =
                table.rows.into_iter().map(|(name, cells)| (name, Ok(cells))).collect();
            if !lines.is_empty() {
                for line in layout::table(table.first, table.headings, &lines, usize::from(self.width)) {
                    text.push_str(&format!("{line}\n"));
                }
            }
            text.extend(table.remarks.iter().map(|remark| self.wrap(remark, "", "")));
        }
        if !text.is_empty() {
            text.push_str(&format!("\n{}", self.wrap(note, "", "")));
        }
        text
    }

    fn pairs(&self, model: &Model) -> String {
        gateway_pairs::PairTable::new(model).map_or_else(String::new, |pairs| self.table(&pairs.table()))
    }

    fn prices(&self, model: &Model) -> String {
        let table = |rows: &[(String, Vec<table::Cell>)]| {
            let lines: Vec<layout::Line> =
                rows.iter().map(|(name, row)| (name.clone(), Ok(row.clone()))).collect();
            layout::table("feature", &crate::prices::HEADINGS, &lines, usize::from(self.width))
        };
        crate::prices::terminal(
            &model.prices,
            |text| self.title(text),
            table,
            |text| self.wrap(text, "", "  "),
        )
    }

    fn hosts(&self, model: &Model) -> String {
        let sentences = crate::sections::hosts::sentences(model);
        if sentences.is_empty() {
            return String::new();
        }
        let mut text = self.title(crate::sections::hosts::HEADING);
        text.extend(sentences.iter().map(|line| self.wrap(line, "", "  ")));
        for table in crate::sections::hosts::tables(model) {
            text.push_str(&format!("\n{}", self.table(&table)));
        }
        text
    }

    fn messages(&self, model: &Model) -> String {
        let tables = crate::sections::messages::tables(model);
        tables.iter().map(|table| self.table(table)).collect::<Vec<_>>().join("\n")
    }

    /// A table with its title.
    fn titled(&self, table: &layout::Table) -> String {
        let mut text = self.title(&table.title);
        for line in layout::table(table.first, table.headings, &table.rows, usize::from(self.width)) {
            text.push_str(&format!("{line}\n"));
        }
        text
    }

    /// A table with its title and its note.
    fn table(&self, table: &layout::Table) -> String {
        self.titled(table) + &self.wrap(&table.note, "", "")
    }

    /// Tables with the same note, which is printed once.
    fn tables(&self, tables: &[layout::Table]) -> String {
        let text: String = tables.iter().map(|table| format!("\n{}", self.titled(table))).collect();
        text + &tables.first().map_or_else(String::new, |table| self.wrap(&table.note, "", ""))
    }

    /// What makes the host less fit for measurements. Empty if there are several hosts, because they have a
    /// section of their own.
    fn host(&self, model: &Model) -> String {
        if model.hosts.is_some() {
            return String::new();
        }
        let sentence = host::sentence(&model.host);
        if sentence.is_empty() { sentence } else { self.wrap(&sentence, "", "  ") }
    }

    fn budget(&self, model: &Model) -> String {
        let mut text = String::new();
        for result in model.budget.iter().filter(|result| result.outcome != Outcome::Kept) {
            let line = crate::words::figures::sentence(result);
            let colour = if result.outcome == Outcome::Inconclusive { YELLOW } else { RED };
            text.push_str(&self.wrap(&line, &self.style(colour, result.outcome.words()), "  "));
        }
        text
    }

    fn failures(&self, model: &Model) -> String {
        let mut text = String::new();
        for FailureGroup { label, failure, others } in model.failures() {
            text.push_str(&self.wrap(
                &format!("{label} ({}): {}", stage_name(failure.stage), failure.message),
                &self.style(RED, "failed"),
                "  ",
            ));
            for line in failure.detail.lines() {
                text.push_str(&self.style(DIM, &format!("    {line}")));
                text.push('\n');
            }
            if !others.is_empty() {
                text.push_str(&self.wrap(&same_holds_for(&others), " ", "  "));
            }
        }
        text
    }

    fn findings(&self, model: &Model) -> String {
        model
            .findings_by_rule()
            .iter()
            .map(|(finding, others)| self.finding(model, finding, others))
            .collect()
    }

    fn finding<'m>(&self, model: &'m Model, finding: &'m Finding, others: &[&'m str]) -> String {
        let style = match finding.severity {
            Severity::Void => RED,
            Severity::Warning => YELLOW,
            Severity::Note => DIM,
        };
        let about = finding.case.as_ref().map_or(String::new(), |case| format!("{case}: "));
        let more = found_in::sentence(model, finding.case.as_deref(), others);
        let line = format!("{}: {about}{}{more} {}", finding.code, finding.message, finding.advice);
        self.wrap(&line, &self.style(style, finding.severity.name()), "  ")
    }

    /// Wraps a text at spaces. `lead` comes before the text, and may contain styles. `indent` comes before
    /// each further line.
    fn wrap(&self, text: &str, lead: &str, indent: &str) -> String {
        text::filled(text, lead, indent, usize::from(self.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;
    use hoptax_analysis::fixture::features::matrix;

    #[test]
    fn fits_into_eighty_columns_and_says_everything() {
        let text = terminal(&sample().model(), 80, false);
        fits(&text, 80);
        insta::assert_snapshot!(text);
        assert!(!text.contains('\u{1b}'), "no colours were asked for");
        assert!(!text.contains("NaN"), "{text}");
    }

    #[test]
    fn a_mix_has_a_row_for_each_target() {
        let mut run = Run::mix(&[("read", 3), ("write", 1)]);
        for round in 0..3 {
            let trial = |who: &str| via(who, round).target("read", 750, 100).target("write", 250, 400);
            run.push(trial("direct").first()).push(trial("direct").last()).push(trial("nginx"));
        }
        let text = terminal(&run.model(), 100, false);
        assert_eq!(text.matches("\n· read").count(), 2, "{text}");
        let write = text.lines().rfind(|line| line.starts_with("· write")).expect("a row");
        assert!(write.contains("400 µs"), "{text}");
        insta::assert_snapshot!(text);
    }

    /// Labels can be very long because of stages, names and searches.
    #[test]
    fn headings_fit_too() {
        let stages = "100/s for 10s, ramp to 5000/s over 60s, 5000/s for 10s, ramp to 100/s over 60s";
        let mut run = Run::with_load(vec![staged_point(stages, 8), searched_point()]);
        run.record.plan.name = "a name with more words than anybody would type ".repeat(3);
        run.push(via("direct", 0).first().at_load(0).all_at_us(100));
        run.push(via("direct", 0).step(1000.0).at_load(1).all_at_us(100));
        let (model, prices) = (run.model(), matrix(60, 20).model());
        for width in [50, 80] {
            for text in [terminal(&model, width, false), terminal(&prices, width, false)] {
                fits(&text, usize::from(width));
            }
        }
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let model = sample().model();
        let mut text = terminal(&model, 80, true);
        assert!(text.contains('\u{1b}'));
        for style in [BOLD, RED, YELLOW, DIM, "0"] {
            text = text.replace(&format!("\u{1b}[{style}m"), "");
        }
        assert_eq!(text, terminal(&model, 80, false));
    }

    #[test]
    fn marks_and_names_what_is_not_distinguishable() {
        let mut run = Run::closed(1);
        for round in 0..3 {
            run.direct(round, 100, 160);
            run.push(via("nginx", round).all_at_us(140));
        }
        insta::assert_snapshot!(terminal(&run.model(), 80, false));
    }

    #[test]
    fn a_figure_of_one_trial_says_so() {
        insta::assert_snapshot!(terminal(&Run::steady(1, 100, &[("nginx", 150)]).model(), 80, false));
    }

    #[test]
    fn an_exceeded_budget_is_shown_with_its_limit() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.contender("envoy", Some(failure(hoptax_record::Stage::Start, "did not start")));
        let metric = hoptax_plan::Metric::AddedP50;
        run.record.plan.budget =
            vec![hoptax_plan::Budget { max: Some(20.0), ..hoptax_plan::Budget::of(metric) }];
        let text = terminal(&run.model(), 200, false);
        insta::assert_snapshot!(text);
        let last = text.trim_end().lines().last().expect("a last line");
        assert!(last.contains("of 2 budgets, 1 exceeded, 1 "), "{last}");
        let page = crate::formats::html::words(&run.model());
        let first = page.split("<nav class=\"contents\"").next().expect("a first screen");
        assert!(first.contains("Over budget.") && first.contains("at most 20 µs"), "{first}");
        assert!(page.contains("<a href=\"#budget\">Budget</a>"), "{page}");
    }
}
