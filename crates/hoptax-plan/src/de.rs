//! A serde deserializer for the tree of nodes. Every error contains the place of the wrong value.
//!
//! Four type names have a special meaning, so that the structs of [`super::raw`] can derive `Deserialize`. A
//! [`PLACED`] type receives a value with its place. A [`SWEEP`] type accepts a single value as a list with
//! one element. A [`SHORT`] type distinguishes a bare word from a mapping. A [`JSON`] type receives
//! any value as JSON. Unknown keys are collected, so that all of them are reported at once.

use super::error::{Fault, Place};
use super::node::{Key, Node, Value};
use super::units::nearest;
use serde::de::{
    self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor,
    value::{SeqDeserializer, StrDeserializer, StringDeserializer},
};
use std::cell::RefCell;
use std::fmt;

/// Name of the struct that receives a value together with its place.
pub(crate) const PLACED: &str = "$placed";
/// Name of the newtype for a list. In YAML, users can write a single value instead of the list.
pub(crate) const SWEEP: &str = "$sweep";
/// Name of the newtype for a text with JSON. In YAML, users can write a mapping or a list instead.
pub(crate) const JSON: &str = "$json";
/// Name of the enum with two variants: `word` for a bare word, and `full` for any other value.
pub(crate) const SHORT: &str = "$short";

pub(crate) fn from_node<T: de::DeserializeOwned>(node: &Node) -> Result<T, Vec<Fault>> {
    let unknown_keys = RefCell::default();
    let outcome = T::deserialize(NodeDeserializer { node, unknown_keys: &unknown_keys, sweep: false });
    let mut faults = unknown_keys.into_inner();
    match outcome {
        Ok(value) if faults.is_empty() => Ok(value),
        // A missing key is often a mistyped key. The mistyped key is already reported as an unknown key, so
        // the missing key is not reported too.
        Err(Error(fault)) if faults.is_empty() || !fault.message.starts_with("missing key") => {
            faults.push(fault);
            Err(faults)
        }
        _ => Err(faults),
    }
}

#[derive(Debug)]
struct Error(Fault);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Fault::placeless(message.to_string(), ""))
    }

    fn missing_field(field: &'static str) -> Self {
        Self(Fault::placeless(format!("missing key `{field}`"), format!("add `{field}: …`")))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let help = nearest(variant, expected.iter().copied())
            .map_or_else(|| format!("use {}", one_of(expected)), |near| format!("did you mean `{near}`?"));
        Self(Fault::placeless(format!("unknown value `{variant}`"), help))
    }
}

/// Joins names with commas and `or`: `a`, `a or b`, `a, b or c`.
pub(crate) fn one_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

#[derive(Clone, Copy)]
struct NodeDeserializer<'a> {
    node: &'a Node,
    unknown_keys: &'a RefCell<Vec<Fault>>,
    /// Whether to accept a single value as a list with one element.
    sweep: bool,
}

impl<'a> NodeDeserializer<'a> {
    fn with(self, node: &'a Node) -> Self {
        Self { node, sweep: false, ..self }
    }

    fn placed<T>(self, outcome: Result<T, Error>) -> Result<T, Error> {
        outcome.map_err(|Error(fault)| Error(fault.at(self.node.place)))
    }

    fn expected<T>(self, what: &str, help: &str) -> Result<T, Error> {
        let message = format!("expected {what}, found {}", self.node.describe());
        Err(Error(Fault::new(self.node.place, message, help)))
    }

    fn text(self) -> Result<&'a str, Error> {
        match &self.node.value {
            Value::Scalar { text, .. } if !self.node.is_null() => Ok(text),
            _ => self.expected("a single value", "write one value, not a list or a mapping"),
        }
    }

    fn number<T: std::str::FromStr>(self, least: i128, most: i128) -> Result<T, Error> {
        let Value::Scalar { text, plain } = &self.node.value else {
            return self.expected("a whole number", "write one number, such as 8");
        };
        if !plain {
            return self.expected("a whole number", "remove the quotes");
        }
        match (text.parse::<T>(), text.parse::<i128>()) {
            (Ok(number), _) => Ok(number),
            (Err(_), Ok(_)) => {
                let message = format!("{text} is out of range");
                let help = format!("use {least} to {most}");
                Err(Error(Fault::new(self.node.place, message, help)))
            }
            (Err(_), Err(_)) => self.expected("a whole number", "write only digits, such as 8"),
        }
    }

    /// Returns the entries with keys in `fields`, and reports all other keys as unknown.
    fn known_entries(self, entries: &'a [(Key, Node)], fields: &[&str]) -> Vec<&'a (Key, Node)> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            entries.iter().partition(|(key, _)| fields.contains(&key.text.as_str()));
        for (key, _) in unknown {
            let help = if key.text.ends_with(')') {
                "inside braces, put quotes around a value with a comma: { delay: \"uniform(1ms, 5ms)\" }"
                    .to_owned()
            } else {
                nearest(&key.text, fields.iter().copied()).map_or_else(
                    || format!("known keys here: {}", fields.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                )
            };
            let message = format!("unknown key `{}`", key.text);
            self.unknown_keys.borrow_mut().push(Fault::new(key.place, message, help));
        }
        known
    }
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let number = self.number::<$type>($type::MIN.into(), $type::MAX.into())?;
            self.placed(visitor.$visit(number))
        }
    )*};
}

impl<'de> Deserializer<'de> for NodeDeserializer<'de> {
    type Error = Error;

    /// Passes a scalar as text, because the target type decides what `1024` or `off` means.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            _ if self.node.is_null() => self.placed(visitor.visit_unit()),
            Value::Scalar { text, .. } => self.placed(visitor.visit_borrowed_str(text)),
            Value::Sequence(_) => self.deserialize_seq(visitor),
            Value::Mapping(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.text()? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            "yes" | "on" => self.expected("true or false", "write true"),
            "no" | "off" => self.expected("true or false", "write false"),
            _ => self.expected("true or false", "write true or false"),
        }
    }

    whole_numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.text()?.parse::<f64>() {
            Ok(number) if number.is_finite() => visitor.visit_f64(number),
            _ => self.expected("a number", "write a number such as 0.5"),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.text()?;
        self.placed(visitor.visit_borrowed_str(text))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.is_null() { visitor.visit_unit() } else { self.expected("nothing", "") }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == JSON && !matches!(self.node.value, Value::Scalar { .. }) {
            let json: StringDeserializer<Error> = self.node.json().to_string().into_deserializer();
            return visitor.visit_newtype_struct(json);
        }
        visitor.visit_newtype_struct(Self { sweep: name == SWEEP, ..self })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let items = match &self.node.value {
            Value::Sequence(items) if self.sweep && items.is_empty() => {
                return self.expected("at least one value", "write a value, or remove the key");
            }
            Value::Sequence(items) => items.as_slice(),
            _ if self.sweep => std::slice::from_ref(self.node),
            _ => return self.expected("a list", "start each entry with `- `, or write [a, b]"),
        };
        let values = SeqDeserializer::new(items.iter().map(|node| self.with(node)));
        self.placed(visitor.visit_seq(values))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Mapping(entries) = &self.node.value else {
            return self.expected("a mapping", "write `key: value`");
        };
        let entries = entries.iter().collect();
        self.placed(visitor.visit_map(Entries { of: self, entries, next: 0 }))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == PLACED {
            return visitor.visit_seq(PlacedParts { of: self, place: self.node.place, given: 0 });
        }
        let Value::Mapping(entries) = &self.node.value else {
            return self.expected("a mapping", &format!("known keys here: {}", fields.join(", ")));
        };
        let entries = self.known_entries(entries, fields);
        self.placed(visitor.visit_map(Entries { of: self, entries, next: 0 }))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == SHORT {
            return visitor.visit_enum(ShortOrFull(self));
        }
        match self.text() {
            Ok(text) => self.placed(visitor.visit_enum(text.into_deserializer())),
            Err(_) => self.expected(&one_of(variants), ""),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    // No struct of a plan has values of these types.
    serde::forward_to_deserialize_any! { f32 char bytes byte_buf unit_struct tuple_struct identifier }
}

impl<'de> IntoDeserializer<'de, Error> for NodeDeserializer<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Entries<'a> {
    of: NodeDeserializer<'a>,
    entries: Vec<&'a (Key, Node)>,
    next: usize,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, _)) = self.entries.get(self.next) else { return Ok(None) };
        if key.place.length == 0 {
            return Err(Error(Fault::new(key.place, "an empty key", "write a key before the colon")));
        }
        seed.deserialize(KeyDeserializer(key)).map(Some).map_err(|Error(fault)| Error(fault.at(key.place)))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (_, value) = self.entries[self.next];
        self.next += 1;
        seed.deserialize(self.of.with(value))
    }
}

#[derive(Clone, Copy)]
struct KeyDeserializer<'a>(&'a Key);

impl<'de> Deserializer<'de> for KeyDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(&self.0.text)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == PLACED {
            return visitor.visit_seq(PlacedParts { of: self, place: self.0.place, given: 0 });
        }
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Supplies the two fields of a struct named [`PLACED`]: the place and the value.
struct PlacedParts<D> {
    of: D,
    place: Place,
    given: u8,
}

impl<'de, D: Deserializer<'de, Error = Error> + Copy> de::SeqAccess<'de> for PlacedParts<D> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.given += 1;
        match self.given {
            1 => {
                let Place { source, line, column, length } = self.place;
                let parts = [source, line, column, length];
                seed.deserialize(PlaceDeserializer(parts)).map(Some)
            }
            2 => seed.deserialize(self.of).map(Some),
            _ => Ok(None),
        }
    }
}

struct PlaceDeserializer([u32; 4]);

impl<'de> Deserializer<'de> for PlaceDeserializer {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter()))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Chooses between the two variants of an enum named [`SHORT`].
struct ShortOrFull<'a>(NodeDeserializer<'a>);

impl<'de> de::EnumAccess<'de> for ShortOrFull<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let variant = match self.0.node.value {
            Value::Scalar { .. } if !self.0.node.is_null() => "word",
            _ => "full",
        };
        let variant: StrDeserializer<'_, Error> = variant.into_deserializer();
        Ok((seed.deserialize(variant)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for ShortOrFull<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.0.expected("a value", "")
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_map(visitor)
    }
}
