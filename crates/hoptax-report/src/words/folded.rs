//! Fits a report into a comment on GitHub. The key results come first, followed by folded parts. If there is
//! not enough room, the parts with the highest rank are dropped.

use crate::words::text::inline;

/// Maximum number of characters in a comment, pull request or issue on GitHub.
pub(crate) const MOST_CHARACTERS: usize = 65_536;
/// Number of characters reserved for text that a bot adds, such as a marker that identifies its comment.
const SPARE: usize = 1_000;

/// A folded part of the report.
#[derive(Debug)]
pub(crate) struct FoldedSection {
    /// The title, as plain text.
    pub(crate) title: String,
    /// The content, as Markdown.
    pub(crate) body: String,
    /// Decides the order in which parts are dropped. The part with the highest rank is dropped first.
    pub(crate) rank: u8,
}

impl FoldedSection {
    fn text(&self) -> String {
        let title = minijinja::HtmlEscape(&self.title);
        format!("\n<details><summary>{title}</summary>\n\n{}\n\n</details>\n", self.body.trim())
    }
}

/// Returns the first part and as many of the other parts as fit. If parts are dropped, a line at the end
/// names them.
pub(crate) fn fitted(first: &str, mut parts: Vec<FoldedSection>) -> String {
    let mut left_out = Vec::new();
    loop {
        let text: String = parts.iter().map(FoldedSection::text).collect();
        let text = format!("{first}{text}{}", about(&left_out));
        if text.chars().count() + SPARE <= MOST_CHARACTERS {
            return text;
        }
        // If several parts have the same rank, the last part is dropped first. Load points are in the plan's
        // order.
        let next = parts.iter().enumerate().max_by_key(|(_, part)| part.rank).map(|(at, _)| at);
        match next {
            Some(at) => left_out.push(parts.remove(at).title),
            None => return cut(first),
        }
    }
}

/// A line that names the dropped parts. Empty if no part was dropped.
fn about(left_out: &[String]) -> String {
    const NAMED: usize = 3;
    if left_out.is_empty() {
        return String::new();
    }
    let named: Vec<String> = left_out.iter().take(NAMED).map(|title| inline(title)).collect();
    let more = left_out.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!(
        "\nLeft out, because a comment on GitHub is limited to {MOST_CHARACTERS} characters: {}{more}. The \
        HTML and JSON reports are complete.\n",
        named.join("; ")
    )
}

/// The beginning of the text: as many whole lines as fit.
fn cut(text: &str) -> String {
    let note = about(&["the rest".to_owned()]);
    let room = MOST_CHARACTERS - SPARE - note.chars().count();
    let mut kept = String::new();
    let mut used = 0;
    for line in text.split_inclusive('\n') {
        used += line.chars().count();
        if used > room {
            break;
        }
        kept.push_str(line);
    }
    kept + &note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(title: &str, rank: u8, characters: usize) -> FoldedSection {
        FoldedSection { title: title.into(), body: "µ".repeat(characters), rank }
    }

    #[test]
    fn the_least_important_part_is_dropped_and_named() {
        let parts =
            vec![part("a", 1, 20_000), part("b<", 2, 20_000), part("c", 2, 20_000), part("d", 0, 20_000)];
        let text = fitted("first\n", parts);
        assert!(text.chars().count() <= MOST_CHARACTERS);
        assert!(text.starts_with("first\n\n<details><summary>a</summary>\n\nµ"), "it begins otherwise");
        assert!(text.contains("<summary>b&lt;</summary>") && text.contains("<summary>d</summary>"));
        assert!(!text.contains("<summary>c</summary>"), "the last of those with the highest rank");
        assert!(text.contains("characters: c. "));
    }

    #[test]
    fn a_report_that_fits_is_unchanged() {
        let text = fitted("first\n", vec![part("a", 1, 100)]);
        assert!(text.ends_with("</details>\n") && !text.contains("Left out"), "{text}");
    }

    #[test]
    fn a_first_part_that_is_too_long_is_cut_between_lines() {
        let text = fitted(&"a line\n".repeat(20_000), vec![part("a", 1, 100)]);
        assert!(text.chars().count() <= MOST_CHARACTERS);
        assert!(
            text.lines()
                .filter(|line| !line.is_empty())
                .all(|line| line == "a line" || line.starts_with("Left out"))
        );
    }
}
