//! OpenAPI 3 documents. An operation becomes a target if each of its parameters has an example, a default, or
//! a type from which a value can be made.

use crate::input::ImportError;
use crate::mix::Mix;
use crate::seen::{Seen, url_parts};
use serde_json::{Map, Value};

/// Depth to which schemas are followed. Schemas may contain themselves.
const DEEPEST: usize = 8;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Reads each operation as one request.
pub(crate) fn read(
    name: &str,
    text: &str,
    mix: &mut Mix,
    notes: &mut Vec<String>,
) -> Result<(), ImportError> {
    let document = parse(name, text)?;
    let version = document.get("openapi").map(shown).unwrap_or_default();
    if !version.starts_with("3.") {
        let found = document
            .get("swagger")
            .map_or("no `openapi` version".to_owned(), |old| format!("Swagger {}", shown(old)));
        return Err(ImportError::new(format!(
            "{name} has {found}. Only OpenAPI 3 is read; convert it first"
        )));
    }
    let paths = document.get("paths").and_then(Value::as_object);
    let paths = paths
        .filter(|paths| !paths.is_empty())
        .ok_or_else(|| ImportError::new(format!("{name} has no paths")))?;
    let server = document.pointer("/servers/0/url").map(shown).unwrap_or_default();
    let (host, base) = match url_parts(&server) {
        Some((host, path)) => (Some(host.to_owned()), path.trim_end_matches('/').to_owned()),
        None => (None, server.trim_end_matches('/').to_owned()),
    };
    let of = Document { root: &document, base: &base, host };
    for (path, item) in paths {
        for method in METHODS {
            let Some(operation) = of.resolved(item).get(method) else { continue };
            match of.request(method, path, of.resolved(item), operation) {
                Ok(seen) => mix.add(seen),
                Err(why) => {
                    notes.push(format!("{name}: {} {path} was left out: {why}", method.to_uppercase()));
                }
            }
        }
    }
    Ok(())
}

/// JSON, or YAML whose scalars are typed as JSON would type them.
fn parse(name: &str, text: &str) -> Result<Value, ImportError> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|error| ImportError::new(format!("{name} is not JSON: {error}")));
    }
    let untyped: Value =
        hoptax_plan::read_as(name, text).map_err(|errors| ImportError::new(errors.to_string()))?;
    Ok(typed(untyped))
}

fn typed(value: Value) -> Value {
    match value {
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(scalar @ (Value::Number(_) | Value::Bool(_))) => scalar,
            _ => Value::String(text),
        },
        Value::Array(items) => items.into_iter().map(typed).collect(),
        Value::Object(keys) => {
            Value::Object(keys.into_iter().map(|(key, value)| (key, typed(value))).collect())
        }
        other => other,
    }
}

struct Document<'a> {
    root: &'a Value,
    base: &'a str,
    host: Option<String>,
}

impl<'a> Document<'a> {
    fn request(
        &self,
        method: &str,
        path: &str,
        item: &'a Value,
        operation: &'a Value,
    ) -> Result<Seen, String> {
        let mut target = format!("{}{path}", self.base);
        let (mut query, mut headers) = (Vec::new(), Vec::new());
        let list = |of: &'a Value| {
            of.get("parameters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
        };
        let own = list(operation).iter().map(|parameter| self.resolved(parameter));
        let shared = list(item).iter().map(|parameter| self.resolved(parameter));
        let mut known = Vec::new();
        for parameter in own.chain(shared) {
            let (Some(name), Some(place)) = (text(parameter, "name"), text(parameter, "in")) else {
                continue;
            };
            // A parameter of the operation replaces the path's own.
            if known.contains(&(name, place)) {
                continue;
            }
            known.push((name, place));
            let is_required = place == "path" || parameter.get("required") == Some(&Value::Bool(true));
            let value = self.value_of(parameter).map(|value| plain(&value));
            match (place, value) {
                ("path", Some(value)) => target = target.replace(&format!("{{{name}}}"), &encoded(&value)),
                ("query", Some(value)) if is_required || self.has_example(parameter) => {
                    query.push(format!("{}={}", encoded(name), encoded(&value)));
                }
                ("header", Some(value)) if is_required || self.has_example(parameter) => {
                    headers.push((name.to_owned(), value));
                }
                (_, None) if is_required => {
                    return Err(format!("the parameter `{name}` has no example and no type"));
                }
                _ => {}
            }
        }
        if target.contains('{') {
            return Err("a parameter of its path is not described".to_owned());
        }
        if !query.is_empty() {
            target = format!("{target}?{}", query.join("&"));
        }
        let (content_type, body) = self.body(operation)?;
        headers.extend(content_type.map(|kind| ("content-type".to_owned(), kind)));
        let (status, length) = self.answer(operation);
        Ok(Seen {
            method: method.to_uppercase(),
            target,
            host: self.host.clone(),
            status,
            response_bytes: length,
            request_bytes: body.as_ref().map(|body| body.len() as u64),
            headers,
            body,
            ..Seen::default()
        })
    }

    /// Content type and text of the request's body.
    fn body(&self, operation: &'a Value) -> Result<(Option<String>, Option<String>), String> {
        let Some(body) = operation.get("requestBody").map(|body| self.resolved(body)) else {
            return Ok((None, None));
        };
        let contents = body.get("content").and_then(Value::as_object);
        let json = contents.and_then(|contents| contents.iter().find(|(kind, _)| kind.contains("json")));
        let is_required = body.get("required") == Some(&Value::Bool(true));
        match json {
            Some((kind, media)) => {
                let value = self.value_of(media);
                if value.is_none() && is_required {
                    return Err("its body has no example and no schema".to_owned());
                }
                Ok(value.map_or((None, None), |value| (Some(kind.clone()), Some(value.to_string()))))
            }
            None if is_required => Err("its body is not JSON".to_owned()),
            None => Ok((None, None)),
        }
    }

    /// The first status from 200 to 399, and the length of its example.
    fn answer(&self, operation: &'a Value) -> (Option<u16>, Option<u64>) {
        let responses = operation.get("responses").and_then(Value::as_object);
        let number = |status: &str| status.replace(['X', 'x'], "0").parse::<u16>().ok();
        let good = responses.and_then(|responses| {
            responses
                .iter()
                .filter_map(|(status, answer)| Some((number(status)?, answer)))
                .find(|(status, _)| (200..400).contains(status))
        });
        let Some((status, answer)) = good else { return (None, None) };
        let contents = self.resolved(answer).get("content").and_then(Value::as_object);
        let media = contents.and_then(|contents| contents.values().next());
        (
            Some(status),
            media.and_then(|media| self.value_of(media)).map(|value| value.to_string().len() as u64),
        )
    }

    fn has_example(&self, of: &Value) -> bool {
        ["example", "examples"].iter().any(|key| of.get(*key).is_some())
    }

    /// The example of a parameter or a media type, or a value made from its schema.
    fn value_of(&self, of: &'a Value) -> Option<Value> {
        let first = || of.get("examples")?.as_object()?.values().next().map(|example| self.resolved(example));
        let example = of.get("example").cloned().or_else(|| first()?.get("value").cloned());
        example.or_else(|| self.made_of(of.get("schema")?, 0))
    }

    fn made_of(&self, schema: &'a Value, depth: usize) -> Option<Value> {
        let schema = self.resolved(schema);
        let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|list| list.first());
        let given = schema.get("example").or_else(|| first("examples")).or_else(|| schema.get("default"));
        if let Some(given) = given.or_else(|| schema.get("const")).or_else(|| first("enum")) {
            return Some(given.clone());
        }
        if depth > DEEPEST {
            return None;
        }
        if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
            let mut merged = Map::new();
            for part in all.iter().filter_map(|part| self.made_of(part, depth + 1)) {
                merged.extend(part.as_object().cloned().unwrap_or_default());
            }
            return Some(Value::Object(merged));
        }
        if let Some(one) = first("oneOf").or_else(|| first("anyOf")) {
            return self.made_of(one, depth + 1);
        }
        let kind =
            schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.as_array()?.first()?.as_str()));
        match kind.or_else(|| schema.get("properties").map(|_| "object"))? {
            "integer" => Some(schema.get("minimum").cloned().unwrap_or_else(|| 1.into())),
            "number" => Some(schema.get("minimum").cloned().unwrap_or_else(|| 1.5.into())),
            "boolean" => Some(true.into()),
            "array" => {
                let item = schema.get("items").and_then(|items| self.made_of(items, depth + 1));
                Some(Value::Array(item.into_iter().collect()))
            }
            "object" => {
                let keys = schema.get("properties").and_then(Value::as_object);
                let made =
                    |(key, of): (&String, &'a Value)| Some((key.clone(), self.made_of(of, depth + 1)?));
                Some(Value::Object(keys.into_iter().flatten().filter_map(made).collect()))
            }
            "string" => Some(
                match text(schema, "format") {
                    Some("uuid") => "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
                    Some("date") => "2026-01-31",
                    Some("date-time") => "2026-01-31T12:00:00Z",
                    Some("email") => "user@example.com",
                    Some("uri") => "https://example.com/",
                    _ => "text",
                }
                .into(),
            ),
            _ => None,
        }
    }

    /// Follows `$ref` within the document.
    fn resolved(&self, mut value: &'a Value) -> &'a Value {
        for _ in 0..DEEPEST {
            let pointer = text(value, "$ref").and_then(|reference| reference.strip_prefix('#'));
            match pointer.and_then(|pointer| self.root.pointer(pointer)) {
                Some(next) => value = next,
                None => break,
            }
        }
        value
    }
}

fn text<'a>(of: &'a Value, key: &str) -> Option<&'a str> {
    of.get(key)?.as_str()
}

/// A scalar as text.
fn shown(value: &Value) -> String {
    plain(value)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~,:@".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r##"openapi: 3.0.3
servers: [{ url: "https://shop.test/v1/" }]
paths:
  /items/{id}:
    parameters:
      - { name: id, in: path, required: true, schema: { type: integer } }
    get:
      parameters: [{ $ref: "#/components/parameters/page" }]
      responses: { "200": { description: ok, content: { application/json: { example: { a: 1 } } } } }
    delete: { responses: { "204": { description: gone } } }
  /orders:
    post:
      requestBody: { required: true, content: { application/json: { schema: { $ref: "#/components/schemas/order" } } } }
      responses: { "201": { description: made } }
  /upload:
    post: { requestBody: { required: true, content: { image/png: {} } }, responses: {} }
components:
  parameters: { page: { name: page, in: query, example: 2 } }
  schemas:
    order: { type: object, properties: { id: { type: string, format: uuid }, count: { type: integer }, next: { $ref: "#/components/schemas/order" } } }
"##;

    #[test]
    fn each_operation_is_a_request() {
        let (mut mix, mut notes) = (Mix::new(true), Vec::new());
        read("shop.yaml", SHOP, &mut mix, &mut notes).expect("read");
        insta::assert_snapshot!(notes.join("\n"));
        let chosen = mix.choose(9);
        let mut methods: Vec<&str> = chosen.targets.iter().map(|(key, ..)| key.method.as_str()).collect();
        methods.sort_unstable();
        assert_eq!(methods, ["DELETE", "GET", "POST"]);
        let of = |method: &str| chosen.targets.iter().find(|(key, ..)| key.method == method).expect("there");
        let (key, get, _) = of("GET");
        assert_eq!(key.host.as_deref(), Some("shop.test"));
        assert!(format!("{:?}", key.parts).contains("?page=2"), "{key:?}");
        assert_eq!(get.answers[&Some(200)].bytes.mean(), Some(7.0));
        let body = of("POST").1.body.as_deref().expect("a body");
        assert!(body.starts_with(r#"{"count":1,"id":"3f2504e0"#), "{body}");
        let old = read("old.json", r#"{"swagger":"2.0","paths":{}}"#, &mut mix, &mut notes);
        assert!(old.is_err_and(|error| error.to_string().contains("Swagger 2")));
    }
}
