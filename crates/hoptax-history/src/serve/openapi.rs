//! The OpenAPI description of the JSON interface, generated from the table of operations.

use super::operation::{Operation, Shape};
use super::problem::Problem;
use schemars::generate::{Contract, SchemaSettings};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Path of shared schemas in the document.
const SHARED: &str = "/components/schemas";

/// Summary of the interface, and the headers that it needs.
const ABOUT: &str = "Runs below one directory, their reports, comparisons and trends, and the run in \
                     progress. A change (PATCH, DELETE) needs `Content-Type: application/json`, and \
                     `X-Hoptax: 1` unless a browser sends it. If the server listens on an address other \
                     than loopback, every request needs `Authorization: Bearer TOKEN`. See \
                     docs/reference/serve.md.";

pub(super) fn document(operations: &[Operation]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let described = described(operation, &mut schemas);
        let path = paths.entry(operation.path).or_insert_with(|| {
            let shared = if operation.path.contains("{id}") { json!([id()]) } else { json!([]) };
            json!({ "parameters": shared })
        });
        path[operation.method] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "hoptax",
            "version": "1",
            "summary": "The history of measurements that `hoptax serve` shows.",
            "description": ABOUT,
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas.all(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// The schemas of data that the server receives, and the schemas of data that it sends. In received data, a
/// member may be absent. In sent data, every member is present.
struct Schemas {
    sent: SchemaGenerator,
    received: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let of = |contract: Contract| {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = SHARED.into();
                settings.contract = contract;
                settings.meta_schema = None;
            });
            settings.into_generator()
        };
        Self { sent: of(Contract::Serialize), received: of(Contract::Deserialize) }
    }

    fn all(mut self) -> Map<String, Value> {
        let mut all = self.received.take_definitions(true);
        all.extend(self.sent.take_definitions(true));
        all
    }
}

fn described(operation: &Operation, schemas: &mut Schemas) -> Value {
    let mut answers = Map::new();
    answers.insert("200".into(), answer("Done.", (operation.answer)(&mut schemas.sent)));
    let problem = schemas.sent.subschema_for::<Problem>();
    for (status, meaning) in operation.refusals {
        answers.insert(status.to_string(), answer(meaning, problem.clone()));
    }
    answers.insert("default".into(), answer("The request failed.", problem));
    let mut described = json!({
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": answers,
    });
    if let Some(query) = operation.query {
        described["parameters"] = parameters(query, &mut schemas.received);
    }
    if let Some(body) = operation.body {
        let schema = body(&mut schemas.received);
        described["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    if matches!(operation.method, "patch" | "delete") {
        described["parameters"] = json!([own_header()]);
    }
    described
}

fn answer(meaning: &str, schema: Schema) -> Value {
    json!({ "description": meaning, "content": { "application/json": { "schema": schema } } })
}

/// Turns each member of a query into a parameter.
fn parameters(query: Shape, received: &mut SchemaGenerator) -> Value {
    let schema = query(received).to_value();
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|required| required == name))
    };
    let members = schema["properties"].as_object().into_iter().flatten();
    members
        .map(|(name, member)| {
            let mut schema = member.clone();
            let about = schema.as_object_mut().and_then(|member| member.remove("description"));
            json!({ "name": name, "in": "query", "required": required(name), "description": about, "schema": schema })
        })
        .collect()
}

fn id() -> Value {
    json!({ "name": "id", "in": "path", "required": true, "description": "Id of a run: the name of its \
        directory.",
        "schema": { "type": "string", "pattern": "^[^./\\\\][^/\\\\]*$" } })
}

fn own_header() -> Value {
    json!({ "name": "X-Hoptax", "in": "header", "required": false,
        "description": "Shows that the request does not come from a page of another site. Browsers show \
                        this with the header `Origin`.",
        "schema": { "type": "string", "enum": ["1"] } })
}
