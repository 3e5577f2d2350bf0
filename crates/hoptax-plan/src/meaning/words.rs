//! Splits a command into words, as a shell does.

use crate::units::UnitError;

/// Characters that mean something to a shell, even inside a word. hoptax starts commands without a shell.
const OF_SHELLS: &str = "|&;<>()$`";

/// Characters that a backslash between double quotes escapes.
const ESCAPED_IN_QUOTES: &str = "\"\\$`";

/// Splits a command at spaces. Quotes and backslashes work as in a POSIX shell. Variables, pipes and
/// everything else that only a shell does are refused.
pub(super) fn split(text: &str) -> Result<Vec<String>, UnitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => quoted(&mut letters, word.get_or_insert_default(), text)?,
            '"' => double_quoted(&mut letters, word.get_or_insert_default(), text)?,
            '\\' => {
                let Some(escaped) = letters.next() else {
                    let message = format!("the command `{text}` ends in a backslash");
                    return Err(UnitError::new(message, "write two backslashes for one, or remove it"));
                };
                word.get_or_insert_default().push(escaped);
            }
            _ if OF_SHELLS.contains(letter) => return Err(needs_shell(letter)),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads to the closing single quote.
fn quoted(letters: &mut std::str::Chars<'_>, word: &mut String, text: &str) -> Result<(), UnitError> {
    loop {
        match letters.next() {
            Some('\'') => return Ok(()),
            Some(letter) => word.push(letter),
            None => return Err(unclosed('\'', text)),
        }
    }
}

/// Reads to the closing double quote.
fn double_quoted(letters: &mut std::str::Chars<'_>, word: &mut String, text: &str) -> Result<(), UnitError> {
    loop {
        match letters.next() {
            Some('"') => return Ok(()),
            Some('\\') => match letters.next() {
                Some(escaped) if ESCAPED_IN_QUOTES.contains(escaped) => word.push(escaped),
                Some(other) => word.extend(['\\', other]),
                None => return Err(unclosed('"', text)),
            },
            Some(letter @ ('$' | '`')) => return Err(needs_shell(letter)),
            Some(letter) => word.push(letter),
            None => return Err(unclosed('"', text)),
        }
    }
}

fn unclosed(quote: char, text: &str) -> UnitError {
    UnitError::new(
        format!("the command `{text}` has no closing {quote}"),
        "close the quote, or write a list of words: [ip, netns, exec, app]",
    )
}

fn needs_shell(letter: char) -> UnitError {
    UnitError::new(
        format!("`{letter}` means something only to a shell, and hoptax starts the command without one"),
        "put it between single quotes, or start a shell: [sh, -c, 'cd /srv && exec \"$@\"', sh]",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The words of a real shell.
    fn of_shell(text: &str) -> Vec<String> {
        let script = format!("for word in {text}; do printf '%s\\0' \"$word\"; done");
        let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
        assert!(output.status.success(), "{text}");
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        printed.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for text in [
            "ip netns exec app",
            "  ssh -p 2222\tedge --  ",
            r#"a 'b c' "d e" f\ g"#,
            r#"'' "" x''y"#,
            r#"'it'\''s' "a \"b\" \\ \$c \`d\` \e""#,
            r#"'|&;<>()$`' \| \$x"#,
            r"é 'ü ß'",
        ] {
            assert_eq!(split(text).expect(text), of_shell(text), "{text}");
        }
        assert_eq!(split("").expect("no words"), Vec::<String>::new());
        assert_eq!(split(" \n ").expect("no words"), Vec::<String>::new());
    }

    #[test]
    fn what_only_a_shell_does_is_refused() {
        let told = [
            "ssh edge | cat",
            "cd /srv && ip",
            "ip netns exec $NAME",
            "ip netns exec \"$NAME\"",
            "ip netns exec `name`",
            "a; b",
            "a 'b",
            "a \"b\\",
            "a \\",
        ]
        .map(|text| format!("{text}\n=> {}\n", split(text).expect_err(text)));
        insta::assert_snapshot!(told.concat());
    }
}
