//! Parses texts with templates.

use super::error::TemplateError;
use super::files::Source;
use std::collections::BTreeSet;

const WORDS: [&str; 5] = ["seq", "uuid", "random", "line", "base64"];
const KNOWN: &str = "templates are `seq`, `uuid`, `random LOW HIGH`, `line FILE`, `line FILE COLUMN` and \
    `base64 TEXT`; write `\\{{` for a literal `{{`";
/// Maximum nesting of `base64`. Nobody needs three levels, but a malicious text must not exhaust the stack.
const DEEPEST: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) at: usize,
    pub(super) part: TemplatePart<'t>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplatePart<'t> {
    /// Literal text, never empty.
    Text(&'t str),
    Seq,
    Uuid,
    /// The lowest and the highest number. Both are possible.
    Random(i64, i64),
    /// A line of a file, or one column of it.
    Line(Source<'t>),
    Base64(Vec<Piece<'t>>),
}

/// Splits `text` into literal text and templates.
///
/// # Errors
/// The first template that is not closed, is unknown or lacks an argument.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    Parser { text, at: 0 }.pieces(&mut Vec::new())
}

pub(super) fn collect_sources<'t>(pieces: &[Piece<'t>], sources: &mut BTreeSet<Source<'t>>) {
    for piece in pieces {
        match &piece.part {
            TemplatePart::Line(source) => {
                sources.insert(*source);
            }
            TemplatePart::Base64(inner) => collect_sources(inner, sources),
            TemplatePart::Text(_) | TemplatePart::Seq | TemplatePart::Uuid | TemplatePart::Random(..) => {}
        }
    }
}

/// Returns what `text` reads from files. The result is empty if the text cannot be parsed.
pub fn sources_in(text: &str) -> BTreeSet<Source<'_>> {
    let mut sources = BTreeSet::new();
    if let Ok(pieces) = pieces(text) {
        collect_sources(&pieces, &mut sources);
    }
    sources
}

/// Invariant: the parser cuts the text only at character boundaries, because it searches only for ASCII
/// characters.
struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn looks_at(&self, what: &str) -> bool {
        self.text.as_bytes()[self.at..].starts_with(what.as_bytes())
    }

    /// Parses until the end of the text. Inside `base64`, parses until the braces that close the innermost
    /// `base64`. `open` holds the offsets of all `base64` templates that are not closed yet.
    fn pieces(&mut self, open: &mut Vec<usize>) -> Result<Vec<Piece<'t>>, TemplateError> {
        let mut pieces = Vec::new();
        let mut from = self.at;
        loop {
            if self.at == self.text.len() {
                return match open.last() {
                    Some(&opened) => Err(self.not_closed(opened)),
                    None => {
                        push_text(&mut pieces, from, &self.text[from..]);
                        Ok(pieces)
                    }
                };
            }
            let inner = !open.is_empty();
            if self.looks_at("\\{{") || (inner && self.looks_at("\\}}")) {
                push_text(&mut pieces, from, &self.text[from..self.at]);
                from = self.at + 1;
                self.at += 3;
            } else if self.looks_at("{{") {
                push_text(&mut pieces, from, &self.text[from..self.at]);
                let at = self.at;
                let part = self.template(open)?;
                pieces.push(Piece { at, part });
                from = self.at;
            } else if inner && self.looks_at("}}") {
                push_text(&mut pieces, from, &self.text[from..self.at]);
                self.at += 2;
                return Ok(pieces);
            } else {
                self.at += 1;
            }
        }
    }

    fn template(&mut self, open: &mut Vec<usize>) -> Result<TemplatePart<'t>, TemplateError> {
        let opened = self.at;
        self.at += 2;
        self.skip_blanks();
        let begin = self.at;
        let rest = &self.text[begin..];
        let length = rest.find(|c: char| c.is_whitespace() || matches!(c, '{' | '}')).unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        if word == "base64" {
            return self.base64(opened, open);
        }
        if !WORDS.contains(&word) {
            return Err(self.unknown(word, opened, begin));
        }
        let rest = &self.text[self.at..];
        let arguments = rest.find("}}").map(|end| &rest[..end]);
        let Some(arguments) = arguments else { return Err(self.not_closed(opened)) };
        if let Some(nested) = arguments.find("{{") {
            return Err(TemplateError::new(
                self.at + nested,
                format!("`{word}` cannot contain other templates"),
                "only `base64` can contain another template; close this template with `}}` first",
            ));
        }
        self.at += arguments.len() + 2;
        let wrong = |message: String, help: &str| Err(TemplateError::new(begin, message, help));
        let arguments = arguments.trim();
        match word {
            "random" => random(arguments, begin),
            "line" if arguments.is_empty() => {
                wrong("`line` needs the name of a file".into(), "write `{{line FILE}}`")
            }
            "line" => match source(arguments) {
                (_, Some(0)) => wrong("there is no column 0".into(), "count columns from 1"),
                source => Ok(TemplatePart::Line(source)),
            },
            _ if !arguments.is_empty() => {
                wrong(format!("`{word}` takes no arguments, but has `{arguments}`"), "remove them")
            }
            "seq" => Ok(TemplatePart::Seq),
            _ => Ok(TemplatePart::Uuid),
        }
    }

    fn base64(&mut self, opened: usize, open: &mut Vec<usize>) -> Result<TemplatePart<'t>, TemplateError> {
        if open.len() == DEEPEST {
            return Err(TemplateError::new(
                opened,
                format!("`base64` is nested more than {DEEPEST} deep"),
                "encode the constant part in advance",
            ));
        }
        self.skip_blanks();
        open.push(opened);
        let mut inner = self.pieces(open)?;
        open.pop();
        if let Some(Piece { part: TemplatePart::Text(last), .. }) = inner.last_mut() {
            *last = last.trim_end_matches([' ', '\t']);
            if last.is_empty() {
                inner.pop();
            }
        }
        if inner.is_empty() {
            return Err(TemplateError::new(
                opened,
                "`base64` has nothing to encode",
                "write `{{base64 TEXT}}`",
            ));
        }
        Ok(TemplatePart::Base64(inner))
    }

    fn skip_blanks(&mut self) {
        while self.looks_at(" ") || self.looks_at("\t") {
            self.at += 1;
        }
    }

    fn not_closed(&self, opened: usize) -> TemplateError {
        TemplateError::new(
            opened,
            "a template is not closed",
            "write `}}` at its end, or `\\{{` for a literal `{{`",
        )
    }

    fn unknown(&self, word: &str, opened: usize, begin: usize) -> TemplateError {
        if word.is_empty() {
            return TemplateError::new(opened, "a template is empty", KNOWN);
        }
        let near = WORDS
            .into_iter()
            .map(|known| (strsim::damerau_levenshtein(&word.to_ascii_lowercase(), known), known))
            .min()
            .filter(|(distance, known)| *distance <= 2 && *distance < known.len());
        let help = match near {
            Some((_, known)) => format!("did you mean `{known}`? {KNOWN}"),
            None => KNOWN.to_owned(),
        };
        TemplateError::new(begin, format!("there is no template `{}`", shown(word)), help)
    }
}

/// Returns the beginning of `word`, short enough for an error message. The word can be any text if the user
/// meant `{{` literally.
fn shown(word: &str) -> String {
    const MOST: usize = 40;
    if word.chars().count() <= MOST {
        return word.to_owned();
    }
    word.chars().take(MOST).chain(['…']).collect()
}

fn random<'t>(arguments: &str, at: usize) -> Result<TemplatePart<'t>, TemplateError> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let help = "write `{{random LOW HIGH}}`: two whole numbers, the lower number first";
    let &[low, high] = words.as_slice() else {
        return Err(TemplateError::new(at, format!("`random` takes two numbers, not {}", words.len()), help));
    };
    let number = |word: &str| {
        word.parse::<i64>().map_err(|_| {
            let message = format!("`{}` is not a 64-bit integer", shown(word));
            TemplateError::new(at, message, help)
        })
    };
    let (low, high) = (number(low)?, number(high)?);
    if low > high {
        return Err(TemplateError::new(at, format!("{low} is above {high}"), help));
    }
    Ok(TemplatePart::Random(low, high))
}

/// Splits the arguments of `line` into the name of the file, which can contain spaces, and the number of a
/// column.
fn source(arguments: &str) -> Source<'_> {
    let split = arguments.rsplit_once(char::is_whitespace).and_then(|(name, last)| {
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        Some((name.trim_end(), Some(last.parse().ok().filter(|_| is_number)?)))
    });
    split.unwrap_or((arguments, None))
}

fn push_text<'t>(pieces: &mut Vec<Piece<'t>>, at: usize, text: &'t str) {
    if !text.is_empty() {
        pieces.push(Piece { at, part: TemplatePart::Text(text) });
    }
}
