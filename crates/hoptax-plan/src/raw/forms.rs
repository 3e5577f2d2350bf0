//! Wrappers of values: a value with its place, a sweep, and a word or a mapping.

use super::texts::Text;
use crate::error::Place;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename = "$placed")]
pub(crate) struct Placed<T> {
    pub(crate) place: Place,
    pub(crate) value: T,
}

/// One value, or a list of values for a sweep.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "$sweep", bound = "T: DeserializeOwned")]
pub(crate) struct Sweep<T>(pub(crate) Vec<Placed<T>>);

/// A bare word, or a mapping or list with more settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "$short", rename_all = "lowercase")]
pub(crate) enum Short<T, W = String> {
    Word(W),
    Full(T),
}

/// JSON as a text, or as a mapping in YAML.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "$json")]
pub(crate) struct JsonText(pub(crate) String);

/// A mapping with any keys, in the order of the input.
#[derive(Debug, Clone)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(Placed<String>, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// YAML reads a text such as `1.0` as a number, so a `String` has the schema of [`Text`].
fn is_text<T: JsonSchema>() -> bool {
    T::schema_id() == String::schema_id()
}

impl<T: JsonSchema> JsonSchema for Placed<T> {
    fn inline_schema() -> bool {
        if is_text::<T>() { Text::inline_schema() } else { T::inline_schema() }
    }
    fn schema_name() -> Cow<'static, str> {
        if is_text::<T>() { Text::schema_name() } else { T::schema_name() }
    }
    fn schema_id() -> Cow<'static, str> {
        if is_text::<T>() { Text::schema_id() } else { T::schema_id() }
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if is_text::<T>() { Text::json_schema(generator) } else { T::json_schema(generator) }
    }
}

impl<T: JsonSchema> JsonSchema for Sweep<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Sweep_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

impl<T: JsonSchema, W: JsonSchema> JsonSchema for Short<T, W> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Short_{}_{}", T::schema_name(), W::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (word, full) = (generator.subschema_for::<W>(), generator.subschema_for::<T>());
        json_schema!({ "anyOf": [word, full] })
    }
}

impl JsonSchema for JsonText {
    fn schema_name() -> Cow<'static, str> {
        "json".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "object"], "description": "JSON as a text, or as a mapping." })
    }
}

impl<T: JsonSchema> JsonSchema for Ordered<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Ordered_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": value })
    }
}

/// Adds to a schema the rule that exactly one of `keys` is set. The keys are separated by spaces. They are a
/// text and not an array, because the attribute of schemars can contain arrays only if another crate enables
/// a feature of its parser.
pub(super) fn one_of(keys: &'static str) -> impl Fn(&mut Schema) {
    let one = |key: &str| serde_json::json!({ "required": [key] });
    move |schema| {
        schema.insert("oneOf".to_owned(), keys.split(' ').map(one).collect::<Vec<_>>().into());
    }
}
