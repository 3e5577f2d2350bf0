//! Parses YAML, so that tests can check rendered configurations.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// Parses `text`, which must contain exactly one document.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    loop {
        match reader.next()? {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            Event::StreamEnd => return Ok(Value::Null),
            event => {
                let value = reader.value(event)?;
                return match (reader.next()?, reader.next()?) {
                    (Event::DocumentEnd, Event::StreamEnd) => Ok(value),
                    other => Err(format!("more follows: {other:?}")),
                };
            }
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>, String> {
        match self.parser.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(Event::StreamEnd),
        }
    }

    fn value(&mut self, event: Event<'a>) -> Result<Value, String> {
        match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(plain(&text)),
            Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => return Ok(Value::Array(items)),
                        event => items.push(self.value(event)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut map = Map::new();
                loop {
                    let key = match self.next()? {
                        Event::MappingEnd => return Ok(Value::Object(map)),
                        Event::Scalar(key, ..) => key.into_owned(),
                        other => return Err(format!("a key is {other:?}")),
                    };
                    let event = self.next()?;
                    let value = self.value(event)?;
                    if map.insert(key.clone(), value).is_some() {
                        return Err(format!("`{key}` stands twice"));
                    }
                }
            }
            other => Err(format!("{other:?} is no value")),
        }
    }
}

/// Parses an unquoted value. Follows the core schema of YAML 1.2 as far as configurations need it.
fn plain(text: &str) -> Value {
    match text {
        "" | "null" | "~" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match text.parse::<i64>() {
            Ok(number) => Value::Number(Number::from(number)),
            Err(_) => Value::String(text.to_owned()),
        },
    }
}
