//! The YAML as a tree of nodes with their places. `--set` edits this tree.

use super::error::{Fault, Place, lines};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};
use std::collections::HashMap;

/// Maximum depth of nesting. No real plan is nested this deeply. The limit prevents hostile input from
/// overflowing the stack.
const DEEPEST: usize = 32;

/// Maximum number of nodes. No real plan has this many nodes. The limit prevents aliases of aliases from
/// using up the memory.
const MOST_NODES: usize = 100_000;

/// Help for a template without quotes. Because of its braces, YAML reads such a template as a mapping.
const TEMPLATE_HELP: &str =
    "a key must be a word; put quotes around a value with `{{…}}`: \"/items/{{seq}}\"";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Text without its quotes. `plain` is true if the text had no quotes.
    Scalar {
        text: String,
        plain: bool,
    },
    Sequence(Vec<Node>),
    /// Keys and values in the order of the input, without duplicate keys.
    Mapping(Vec<(Key, Node)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) place: Place,
    pub(crate) text: String,
}

impl Node {
    /// Whether the value is empty, `~` or `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// The node as JSON. Words without quotes are numbers, `true`, `false` and `null` if JSON has them.
    pub(crate) fn json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            _ if self.is_null() => Json::Null,
            Value::Scalar { text, plain } => match serde_json::from_str(text) {
                Ok(json @ (Json::Bool(_) | Json::Number(_))) if *plain => json,
                _ => Json::String(text.clone()),
            },
            Value::Sequence(items) => items.iter().map(Self::json).collect(),
            Value::Mapping(entries) => {
                entries.iter().map(|(key, value)| (key.text.clone(), value.json())).collect()
            }
        }
    }

    /// Whether this is the place of the node, or of a key or a node in it.
    pub(crate) fn contains(&self, place: Place) -> bool {
        self.place == place
            || match &self.value {
                Value::Scalar { .. } => false,
                Value::Sequence(items) => items.iter().any(|item| item.contains(place)),
                Value::Mapping(entries) => {
                    entries.iter().any(|(key, value)| key.place == place || value.contains(place))
                }
            }
    }

    pub(crate) fn describe(&self) -> String {
        match &self.value {
            _ if self.is_null() => "nothing".to_owned(),
            Value::Scalar { text, .. } => format!("`{text}`"),
            Value::Sequence(items) if items.is_empty() => "an empty list".to_owned(),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(_) => "a mapping".to_owned(),
        }
    }

    fn size(&self) -> usize {
        1 + match &self.value {
            Value::Scalar { .. } => 0,
            Value::Sequence(items) => items.iter().map(Self::size).sum(),
            Value::Mapping(entries) => entries.iter().map(|(_, value)| value.size()).sum(),
        }
    }
}

/// Reads one YAML document. `source` and `column` are the place in the user's input where `text` begins. This
/// can be the middle of a `--set` argument, where the value begins.
pub(crate) fn read(text: &str, source: u32, column: u32) -> Result<Node, Fault> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        text,
        source,
        column,
        anchors: HashMap::new(),
        nodes: 0,
    };
    let node = loop {
        match reader.next()? {
            (Event::StreamEnd, span) => {
                let place = reader.place(span);
                return Ok(Node { place, value: Value::Scalar { text: String::new(), plain: true } });
            }
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            (event, span) => break reader.node(event, span, 0)?,
        }
    };
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(node),
            (Event::DocumentStart(_), span) => {
                return Err(Fault::new(
                    reader.place(span),
                    "a second document begins here",
                    "a plan is one YAML document; remove `---`",
                ));
            }
            _ => {}
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    text: &'a str,
    source: u32,
    column: u32,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.malformed(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn malformed(&self, error: &ScanError) -> Fault {
        let marker = error.marker();
        let line = lines(self.text).nth(marker.line().saturating_sub(1)).unwrap_or_default();
        let indent_holds_tab = line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t');
        // YAML accepts tabs inside brackets and braces.
        let indent_holds_tab = indent_holds_tab && !error.info().contains("flow");
        let help = if indent_holds_tab {
            "indent with spaces; YAML does not allow tabs here"
        } else if error.info().contains("anchor") {
            "define the anchor first, with `&name`"
        } else if line.contains("{{") {
            TEMPLATE_HELP
        } else {
            "look for a missing quote, bracket or colon here or on the line before"
        };
        Fault::new(self.place(Span::empty(*marker)), format!("malformed YAML: {}", error.info()), help)
    }

    fn place(&self, span: Span) -> Place {
        let start: Marker = span.start;
        let line = start.line().max(1) as u32;
        // In a `--set` argument, the key comes before the value. The key shifts the columns of the value's
        // first line only.
        let shift = if line == 1 { self.column } else { 0 };
        Place { source: self.source, line, column: start.col() as u32 + 1 + shift, length: span.len() as u32 }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        let place = self.place(span);
        self.nodes += 1;
        if depth > DEEPEST || self.nodes > MOST_NODES {
            let help =
                format!("use at most {DEEPEST} levels and {MOST_NODES} values, counting those of aliases");
            return Err(Fault::new(place, "the plan is nested too deeply or too large", help));
        }
        let (value, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                (Value::Scalar { text: text.into_owned(), plain }, anchor, tag)
            }
            Event::SequenceStart(anchor, tag) => (self.sequence(depth)?, anchor, tag),
            Event::MappingStart(anchor, tag) => (self.mapping(depth)?, anchor, tag),
            Event::Alias(anchor) => return self.alias(anchor, place),
            other => unreachable!("the parser emits no {other:?} inside a document"),
        };
        if tag.is_some() {
            return Err(Fault::new(place, "YAML tags are not supported", "remove the `!…`"));
        }
        let node = Node { place, value };
        // In the parser's events, the number 0 means that there is no anchor.
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    /// Copies the node with this anchor. The places in it are copied too, so that errors point to the
    /// original text.
    fn alias(&mut self, anchor: usize, place: Place) -> Result<Node, Fault> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(Fault::new(
                place,
                "this alias is inside its own anchor",
                "use the alias of another anchor",
            ));
        };
        self.nodes += node.size();
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Sequence(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut merged = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => break,
                (event, span) => key(&self.node(event, span, depth + 1)?)?,
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            if key.text == "<<" {
                let Value::Mapping(base) = value.value else {
                    let message = format!("`<<` needs a mapping, found {}", value.describe());
                    return Err(Fault::new(
                        value.place,
                        message,
                        "give the anchor of a mapping: `<<: *base`",
                    ));
                };
                merged.extend(base);
                continue;
            }
            if let Some((first, _)) = entries.iter().find(|(other, _)| other.text == key.text) {
                return Err(Fault::new(
                    key.place,
                    format!("the key `{}` appears twice", key.text),
                    format!("the key is also on line {}; remove one of the two", first.place.line),
                ));
            }
            entries.push((key, value));
        }
        for (key, value) in merged {
            if !entries.iter().any(|(other, _)| other.text == key.text) {
                entries.push((key, value));
            }
        }
        Ok(Value::Mapping(entries))
    }
}

fn key(node: &Node) -> Result<Key, Fault> {
    match &node.value {
        Value::Scalar { text, .. } => Ok(Key { place: node.place, text: text.clone() }),
        Value::Mapping(_) => {
            Err(Fault::new(node.place, format!("{} cannot be a key", node.describe()), TEMPLATE_HELP))
        }
        Value::Sequence(_) => Err(Fault::new(
            node.place,
            format!("{} cannot be a key", node.describe()),
            "a key must be a word",
        )),
    }
}

pub(crate) fn apply_sets(root: &mut Node, sets: &[String]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, argument) in sets.iter().enumerate() {
        if let Err(fault) = apply_set(root, argument, index as u32 + 1) {
            faults.push(fault);
        }
    }
    faults
}

fn apply_set(root: &mut Node, argument: &str, source: u32) -> Result<(), Fault> {
    const FORM: &str = "write --set key=value, for example --set trials=1 or --set load.0.duration=2s";
    let whole = Place { source, line: 1, column: 1, length: argument.chars().count() as u32 };
    let Some((path, value)) = argument.split_once('=') else {
        return Err(Fault::new(whole, "there is no `=`", FORM));
    };
    let value = read(value, source, path.chars().count() as u32 + 1)?;
    let mut node = root;
    let mut column = 1;
    let mut walked = String::new();
    for step in path.split('.') {
        let place = Place { source, line: 1, column, length: step.chars().count() as u32 };
        if step.trim().is_empty() {
            return Err(Fault::new(place, "a part of the key is empty", FORM));
        }
        node = descend(node, step, &walked, place)?;
        column += place.length + 1;
        walked = if walked.is_empty() { step.to_owned() } else { format!("{walked}.{step}") };
    }
    *node = value;
    Ok(())
}

/// Returns the entry `step` of `node`. If `node` is a mapping without this key, creates the entry.
fn descend<'a>(node: &'a mut Node, step: &str, walked: &str, place: Place) -> Result<&'a mut Node, Fault> {
    if node.is_null() {
        node.value = Value::Mapping(Vec::new());
        node.place = place;
    }
    match &mut node.value {
        Value::Mapping(entries) => {
            let found = entries.iter().position(|(key, _)| key.text == step);
            let index = found.unwrap_or_else(|| {
                let key = Key { place, text: step.to_owned() };
                let empty = Value::Scalar { text: String::new(), plain: true };
                entries.push((key, Node { place, value: empty }));
                entries.len() - 1
            });
            Ok(&mut entries[index].1)
        }
        Value::Sequence(items) => {
            let count = items.len();
            let help = match count {
                0 => format!("the list is empty; set the whole list: --set {walked}=[…]"),
                1 => "use 0, its only entry".to_owned(),
                _ => format!("use 0 to {}", count - 1),
            };
            step.parse::<usize>()
                .ok()
                .and_then(|index| items.get_mut(index))
                .ok_or_else(|| Fault::new(place, format!("the list `{walked}` has no entry `{step}`"), help))
        }
        Value::Scalar { .. } => Err(Fault::new(
            place,
            format!("`{walked}` is a single value and has no `{step}`"),
            format!("set the whole value: --set '{walked}={{ … }}'"),
        )),
    }
}

#[cfg(test)]
mod tests;
