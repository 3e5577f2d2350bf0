//! Splits command lines as a shell does, as far as copied curl commands need it: quotes, `$'…'`, escapes,
//! comments and the operators that end a command. Nothing is expanded.

/// A command: the line (from 1) on which it begins, and its words.
pub(crate) type Command = (usize, Vec<String>);
/// A quote without an end: its line, and what is wrong.
pub(crate) type Unfinished = (usize, &'static str);

/// Commands with their words, and the line (from 1) on which each begins.
pub(crate) fn commands(text: &str) -> Result<Vec<Command>, Unfinished> {
    let mut reader =
        Reader { letters: text.chars().peekable(), line: 1, words: Vec::new(), word: None, begun: 1 };
    let mut commands = Vec::new();
    while let Some(letter) = reader.next() {
        match letter {
            '\\' => match reader.next() {
                // The command continues on the next line.
                Some('\n') => {}
                Some('\r') if reader.letters.peek() == Some(&'\n') => {
                    reader.next();
                }
                Some(other) => reader.push(other),
                None => {}
            },
            '\'' => reader.single()?,
            '"' => reader.double()?,
            '$' if reader.letters.peek() == Some(&'\'') => {
                reader.next();
                reader.ansi()?;
            }
            '\n' | ';' | '|' | '&' => commands.extend(reader.end_command()),
            '#' if reader.word.is_none() => {
                while reader.letters.peek().is_some_and(|next| *next != '\n') {
                    reader.next();
                }
            }
            letter if letter.is_whitespace() => reader.end_word(),
            letter => reader.push(letter),
        }
    }
    commands.extend(reader.end_command());
    Ok(commands)
}

struct Reader<'a> {
    letters: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
    words: Vec<String>,
    word: Option<String>,
    /// Line on which the command begins.
    begun: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.letters.next();
        self.line += usize::from(letter == Some('\n'));
        letter
    }

    fn push(&mut self, letter: char) {
        self.started().push(letter);
    }

    fn started(&mut self) -> &mut String {
        if self.words.is_empty() && self.word.is_none() {
            self.begun = self.line;
        }
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_command(&mut self) -> Option<Command> {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        (!words.is_empty()).then_some((self.begun, words))
    }

    fn single(&mut self) -> Result<(), Unfinished> {
        self.started();
        let from = self.line;
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(letter) => self.push(letter),
                None => return Err((from, "a quote ' has no end")),
            }
        }
    }

    fn double(&mut self) -> Result<(), Unfinished> {
        self.started();
        let from = self.line;
        loop {
            match self.next() {
                Some('"') => return Ok(()),
                Some('\\') => match self.next() {
                    Some('\n') => {}
                    Some(letter @ ('"' | '\\' | '$' | '`')) => self.push(letter),
                    Some(letter) => {
                        self.push('\\');
                        self.push(letter);
                    }
                    None => return Err((from, "a quote \" has no end")),
                },
                Some(letter) => self.push(letter),
                None => return Err((from, "a quote \" has no end")),
            }
        }
    }

    /// `$'…'`, as browsers write bodies with line breaks.
    fn ansi(&mut self) -> Result<(), Unfinished> {
        self.started();
        let from = self.line;
        loop {
            let letter = match self.next() {
                Some('\'') => return Ok(()),
                Some('\\') => match self.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some('0') => '\0',
                    Some('u') => self.hex(4),
                    Some('x') => self.hex(2),
                    Some(letter) => letter,
                    None => return Err((from, "a quote $' has no end")),
                },
                Some(letter) => letter,
                None => return Err((from, "a quote $' has no end")),
            };
            self.push(letter);
        }
    }

    fn hex(&mut self, most: usize) -> char {
        let mut number = 0;
        for _ in 0..most {
            let Some(digit) = self.letters.peek().and_then(|letter| letter.to_digit(16)) else { break };
            number = number * 16 + digit;
            self.next();
        }
        char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let words =
            |text| commands(text).expect("whole").into_iter().map(|(_, words)| words).collect::<Vec<_>>();
        assert_eq!(words("curl 'a b' \"c \\\"d\\\" \\n\" e\\ f"), [["curl", "a b", "c \"d\" \\n", "e f"]]);
        assert_eq!(words("curl $'it\\'s\\n\\u00e9' ''"), [["curl", "it's\né", ""]]);
        assert_eq!(words("# a comment\ncurl \\\n  a#b ;\ncurl c &\n"), [["curl", "a#b"], ["curl", "c"]]);
        assert_eq!(commands("curl a\n\ncurl b").expect("whole")[1].0, 3);
        assert!(matches!(commands("x\ncurl 'a"), Err((2, _))));
    }
}
