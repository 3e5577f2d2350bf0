//! Lays out the main table on a terminal of any width. Cells are never wrapped, because a figure that is
//! split across two lines cannot be read.
//!
//! There are three layouts, and the first layout that fits is used. In the first layout, each figure and its
//! interval are on one line. In the second layout, the interval is below the figure. In the third layout, the
//! columns are split into blocks, and each block repeats the gateways' names.

use crate::words::table::{Cell, in_one_line};
use crate::words::text::inline;
use minijinja::{HtmlEscape, Value, context};

/// Marks a tax that is not distinguishable from noise.
pub(crate) const MARK: &str = "~";

/// A row of the table. It contains its name and its figures, or words if there are no figures.
pub(crate) type Line = (String, Result<Vec<Cell>, &'static str>);

/// A table with a title.
pub(crate) struct Table {
    pub(crate) title: String,
    /// The heading of the names.
    pub(crate) first: &'static str,
    pub(crate) headings: &'static [&'static str],
    pub(crate) rows: Vec<Line>,
    /// Explains the figures.
    pub(crate) note: String,
}

impl Table {
    /// The head and the rows as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let headings: String = self.headings.iter().map(|heading| format!(" {heading} |")).collect();
        let rule = "---:|".repeat(self.headings.len());
        let row = |(name, cells): &Line| {
            let cells: String = match cells {
                Ok(cells) => cells.iter().map(|cell| format!(" {} |", in_one_line(cell))).collect(),
                Err(words) => format!(" {words} |{}", "  |".repeat(self.headings.len() - 1)),
            };
            format!("| {} |{cells}\n", inline(name))
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!("| {} |{headings}\n|---|{rule}\n{rows}", self.first)
    }

    /// A section of the page.
    pub(crate) fn html(&self) -> String {
        let Self { title, first, headings, rows, note } = self;
        let heading = |heading: &&str| format!("<th scope=\"col\">{heading}</th>");
        let headings: String = headings.iter().map(heading).collect();
        let rows: String = rows.iter().map(html_row).collect();
        format!(
            "<section class=\"card\"><h3>{}</h3>\n<div class=\"scroll\"><table>\n<thead><tr><th \
             scope=\"col\" class=\"words\">{first}</th>{headings}</tr></thead>\n<tbody>{rows}</tbody>\
             </table></div>\n<p class=\"quiet\">{}</p></section>\n",
            HtmlEscape(title),
            HtmlEscape(note),
        )
    }
}

/// A table with a sentence above it and sentences below it.
pub(crate) struct RemarkedTable {
    pub(crate) title: String,
    /// The sentence above the table. Empty if there is none.
    pub(crate) sentence: String,
    /// The heading of the names.
    pub(crate) first: &'static str,
    pub(crate) headings: &'static [&'static str],
    pub(crate) rows: Vec<(String, Vec<Cell>)>,
    /// Sentences below the table.
    pub(crate) remarks: Vec<String>,
}

impl RemarkedTable {
    /// The title, and everything below it as Markdown. `note` explains the figures.
    pub(crate) fn markdown(self, note: &str) -> (String, String) {
        let mut text = String::new();
        if !self.sentence.is_empty() {
            text.push_str(&format!("{}\n\n", inline(&self.sentence)));
        }
        let rule = " ---: |".repeat(self.headings.len());
        text.push_str(&format!("| {} | {} |\n| --- |{rule}\n", self.first, self.headings.join(" | ")));
        for (name, cells) in &self.rows {
            let cells: Vec<String> = cells.iter().map(in_one_line).collect();
            text.push_str(&format!("| {} | {} |\n", inline(name), cells.join(" | ")));
        }
        for remark in self.remarks.iter().map(String::as_str).chain([note]) {
            text.push_str(&format!("\n{}\n", inline(remark)));
        }
        (self.title, text)
    }

    /// Values for the page.
    pub(crate) fn values(&self) -> Value {
        let row = |(name, cells): &(String, Vec<Cell>)| context! { name, cells };
        context! {
            title => &self.title,
            sentence => &self.sentence,
            headings => std::iter::once(self.first).chain(self.headings.iter().copied()).collect::<Vec<_>>(),
            rows => self.rows.iter().map(row).collect::<Vec<_>>(),
            remarks => &self.remarks,
        }
    }
}

fn html_row((name, cells): &Line) -> String {
    let cell = |cell: &Cell| {
        let mark = if cell.distinguishable { "" } else { MARK };
        let interval = match cell.interval.is_empty() {
            true => String::new(),
            false => format!("<br><span class=\"quiet\">{}</span>", HtmlEscape(&cell.interval)),
        };
        format!("<td>{mark}{}{interval}</td>", HtmlEscape(&cell.value))
    };
    let cells: String = cells.iter().flatten().map(cell).collect();
    format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", HtmlEscape(name))
}

/// Numbers of spaces between columns, in the order in which they are tried.
const GAPS: [usize; 2] = [2, 1];

/// The lines of the table, at most `width` columns wide. At least one column of figures must fit beside the
/// names. `first` is the heading of the names, and `headings` are the headings of the figures.
pub(crate) fn table(first: &str, headings: &[&str], lines: &[Line], width: usize) -> Vec<String> {
    let headings = Headings { first, rest: headings };
    let names = lines.iter().map(|(name, _)| length(name)).max().unwrap_or(0).max(length(first));
    let all: Vec<usize> = (0..headings.rest.len()).collect();
    for in_one_line in [true, false] {
        let columns = Columns::new(headings, lines, names, in_one_line);
        for gap in GAPS {
            if columns.width(&all, gap) <= width {
                return columns.draw(lines, &all, gap);
            }
        }
    }
    let columns = Columns::new(headings, lines, names, false);
    let mut drawn = Vec::new();
    let mut rest = &all[..];
    while !rest.is_empty() {
        let fit = (1..=rest.len()).rev().find(|count| columns.width(&rest[..*count], 1) <= width);
        let (block, others) = rest.split_at(fit.unwrap_or(1));
        if !drawn.is_empty() {
            drawn.push(String::new());
        }
        drawn.extend(columns.draw(lines, block, if columns.width(block, 2) <= width { 2 } else { 1 }));
        rest = others;
    }
    drawn
}

#[derive(Clone, Copy)]
struct Headings<'h> {
    first: &'h str,
    rest: &'h [&'h str],
}

struct Columns<'h> {
    headings: Headings<'h>,
    names: usize,
    in_one_line: bool,
    widths: Vec<usize>,
}

impl<'h> Columns<'h> {
    fn new(headings: Headings<'h>, lines: &[Line], names: usize, in_one_line: bool) -> Self {
        let widest = |column: usize| {
            let cells = lines.iter().filter_map(|(_, row)| row.as_ref().ok()).map(|row| &row[column]);
            let texts = cells.flat_map(|cell| texts(cell, in_one_line));
            texts.map(|text| length(&text)).max().unwrap_or(0).max(length(headings.rest[column]))
        };
        Self { headings, names, in_one_line, widths: (0..headings.rest.len()).map(widest).collect() }
    }

    fn width(&self, block: &[usize], gap: usize) -> usize {
        self.names + block.iter().map(|column| gap + self.widths[*column]).sum::<usize>()
    }

    fn draw(&self, lines: &[Line], block: &[usize], gap: usize) -> Vec<String> {
        let one = |name: &str, cells: &dyn Fn(usize) -> String| {
            let mut text = format!("{name:<0$}", self.names);
            for column in block {
                text.push_str(&format!("{:>1$}", cells(*column), gap + self.widths[*column]));
            }
            text.trim_end().to_string()
        };
        let mut drawn = vec![one(self.headings.first, &|column| self.headings.rest[column].into())];
        drawn.push("─".repeat(self.width(block, gap)));
        for (name, row) in lines {
            match row {
                Ok(row) => {
                    let texts: Vec<Vec<String>> =
                        row.iter().map(|cell| texts(cell, self.in_one_line)).collect();
                    let part = |column: usize, at: usize| texts[column].get(at).cloned().unwrap_or_default();
                    drawn.push(one(name, &|column| part(column, 0)));
                    if !self.in_one_line && block.iter().any(|column| texts[*column].len() > 1) {
                        drawn.push(one("", &|column| part(column, 1)));
                    }
                }
                Err(words) => drawn.push(format!("{name:<0$}  {words}", self.names)),
            }
        }
        drawn
    }
}

/// The text of a cell, on one line or on two lines. The unit of memory is shortened to one letter, because
/// the heading already says that the column shows memory.
fn texts(cell: &Cell, in_one_line: bool) -> Vec<String> {
    let mark = if cell.distinguishable { "" } else { MARK };
    let value = ["Ki", "Mi", "Gi"]
        .iter()
        .fold(cell.value.clone(), |value, unit| value.replace(&format!(" {unit}B"), &unit[..1]));
    let interval = cell.interval.replace(" to ", "…");
    match (cell.interval.is_empty(), in_one_line) {
        (true, _) => vec![format!("{mark}{value}")],
        (false, true) => vec![format!("{mark}{value} ({interval})")],
        (false, false) => vec![format!("{mark}{value}"), interval],
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::table::{HEADINGS, difference, none, rate, time};
    use hoptax_stats::Estimate;

    fn estimate(estimate: f64, half: f64) -> Estimate {
        Estimate { estimate, low: Some(estimate - half), high: Some(estimate + half), trials: 3 }
    }

    fn line(name: &str, us: f64, half: f64, per_second: f64) -> Line {
        let time_of = |share: f64| time(Some(&estimate(us * share, half)));
        let tax = |share: f64| difference(&estimate(us * share, half), share > 1.0);
        let memory = Cell { value: "4.86 MiB".into(), ..none() };
        let throughput = rate(&estimate(per_second, per_second * 0.07));
        let row = [throughput, time_of(1.0), time_of(2.0), tax(1.0), tax(2.0), time_of(0.3), memory];
        (name.into(), Ok(row.to_vec()))
    }

    /// True if the table contains the whole content of a cell, in any layout.
    fn shown(lines: &[String], cell: &Cell) -> bool {
        let text = lines.join("\n");
        let interval = cell.interval.replace(" to ", "…");
        text.contains(cell.value.trim_end_matches(" MiB")) && text.contains(&interval)
    }

    #[test]
    fn no_cell_is_ever_wrapped() {
        let names = ["hop-l4", "a-label-of-20-letters"];
        for name in names {
            for (us, half) in [
                (0.4, 0.1),
                (44.5, 31.0),
                (62.4, 4000.0),
                (999.6, 1.2),
                (8.1e4, 3e5),
                (9e7, 8e8),
                (3.6e9, 7e7),
            ] {
                for per_second in [1.0, 999.9, 19_999.0, 1e6, 2e7] {
                    let lines = [line("direct", 53.8, 2.0, per_second), line(name, us, half, per_second)];
                    for width in [40, 60, 80, 120, 200] {
                        let drawn = table("gateway", &HEADINGS, &lines, width);
                        for one in &drawn {
                            assert!(length(one) <= width, "{} columns of {width}: {one}", length(one));
                        }
                        for cell in lines.iter().flat_map(|(_, row)| row.as_ref().expect("figures")) {
                            assert!(shown(&drawn, cell), "{cell:?} at {width}:\n{}", drawn.join("\n"));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn wide_terminals_have_one_line_per_gateway_and_narrow_ones_blocks() {
        let lines = [line("nginx", 44.5, 31.0, 64_000.0), ("envoy".into(), Err("failed"))];
        assert_eq!(table("gateway", &HEADINGS, &lines, 160).len(), 4, "heading, rule, two gateways");
        let at_80 = table("gateway", &HEADINGS, &lines, 80);
        assert_eq!(at_80.len(), 5, "{}", at_80.join("\n"));
        assert_eq!(at_80.last().map(String::as_str), Some("envoy    failed"));
        let headings =
            table("gateway", &HEADINGS, &lines, 40).iter().filter(|line| line.starts_with("gateway")).count();
        assert!(headings > 1);
    }
}
