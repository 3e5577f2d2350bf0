//! Texts of foreign programs, made safe for a terminal.

/// `text` with its control characters escaped, as in `\u{1b}`. Line ends and tabs remain. A gateway's answer
/// or log must not be able to drive the terminal that shows it.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            _ if letter.is_control() => shown.extend(letter.escape_default()),
            _ => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_characters_are_escaped() {
        assert_eq!(printable("a\tb\n„ü“ \\ 'x'"), "a\tb\n„ü“ \\ 'x'");
        let driving = "\0\u{8}\u{1f}\u{1b}[2J\u{7f}\u{9b}1m\r";
        assert_eq!(printable(driving), "\\u{0}\\u{8}\\u{1f}\\u{1b}[2J\\u{7f}\\u{9b}1m\\r");
    }
}
