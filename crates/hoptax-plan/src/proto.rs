//! Methods of `.proto` files, and their messages from JSON.
//!
//! `protox` compiles a file, and `prost-reflect` encodes messages. Both are plain Rust without TLS, threads
//! or sockets. This is a module and not a crate, because every crate that reads plans would need that crate
//! too. Messages are encoded when a plan is read. So generators and upstreams never see a `.proto` file.

use crate::units::{UnitError, nearest};
use hoptax_format::messages::StreamKind;
use prost_reflect::prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor, ServiceDescriptor,
};
use std::path::Path;

/// A compiled `.proto` file, and the files that it imports.
#[derive(Debug, Clone)]
pub struct Proto(DescriptorPool);

/// A service of a `.proto` file.
#[derive(Debug, Clone)]
pub struct Service(ServiceDescriptor);

/// A method of a service.
#[derive(Debug, Clone)]
pub struct Method(MethodDescriptor);

impl Proto {
    /// Compiles a file. Imports are looked up in its directory and in those above it, as far as `file` names
    /// them. Files such as `google/protobuf/empty.proto` are built in.
    ///
    /// # Errors
    /// If a file cannot be read, or is not valid. The message has the place of the first error.
    pub fn compile(file: &Path) -> Result<Self, UnitError> {
        if let Err(error) = std::fs::File::open(file) {
            let message = format!("cannot read {}: {error}", file.display());
            return Err(UnitError { message, help: "check the path".to_owned() });
        }
        let compiled = protox::Compiler::new(file.ancestors().skip(1)).and_then(|mut compiler| {
            compiler.open_file(file)?;
            Ok(compiler.descriptor_pool())
        });
        compiled.map(Self).map_err(|error| {
            // Only the debug format has the line and the column.
            let shown = format!("{error:?}");
            let first = shown.lines().next().unwrap_or_default();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let place = if first.starts_with(&*name) { String::new() } else { format!("{name}: ") };
            UnitError {
                message: format!("cannot compile {place}{first}"),
                help: "fix the file; imports are looked up in its directory and in those above it".to_owned(),
            }
        })
    }

    /// The service with this full name, such as `echo.Echo`.
    ///
    /// # Errors
    /// If there is no such service. The help lists the services.
    pub fn service(&self, name: &str) -> Result<Service, UnitError> {
        let service = self.0.get_service_by_name(name).map(Service);
        service.ok_or_else(|| {
            let names: Vec<String> = self.0.services().map(|one| one.full_name().to_owned()).collect();
            UnitError {
                message: format!("the `.proto` file has no service `{name}`"),
                help: one_of(name, &names),
            }
        })
    }
}

impl Service {
    /// The method with this name, such as `Say`.
    ///
    /// # Errors
    /// If there is no such method. The help lists the methods.
    pub fn method(&self, name: &str) -> Result<Method, UnitError> {
        let method = self.0.methods().find(|method| method.name() == name).map(Method);
        method.ok_or_else(|| {
            let names: Vec<String> = self.0.methods().map(|one| one.name().to_owned()).collect();
            UnitError {
                message: format!("the service `{}` has no method `{name}`", self.0.full_name()),
                help: one_of(name, &names),
            }
        })
    }
}

impl Method {
    /// Who sends a stream. `None` for a unary method.
    pub fn kind(&self) -> Option<StreamKind> {
        match (self.0.is_client_streaming(), self.0.is_server_streaming()) {
            (false, false) => None,
            (false, true) => Some(StreamKind::ServerStream),
            (true, false) => Some(StreamKind::ClientStream),
            (true, true) => Some(StreamKind::BothWays),
        }
    }

    /// Descriptors of the method's file and of the files that it imports: an encoded
    /// `google.protobuf.FileDescriptorSet`. A file comes after its imports.
    pub fn descriptors(&self) -> Vec<u8> {
        self.0.parent_pool().encode_to_vec()
    }

    /// Encodes a message of the client from JSON ([mapping](https://protobuf.dev/programming-guides/json)).
    ///
    /// # Errors
    /// If the text is not JSON, or does not fit the type of the message.
    pub fn encode(&self, json: &str) -> Result<Vec<u8>, UnitError> {
        let input = self.0.input();
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let read = DynamicMessage::deserialize(input.clone(), &mut deserializer)
            .and_then(|message| deserializer.end().map(|()| message));
        read.map(|message| message.encode_to_vec()).map_err(|error| explain(&error, &input))
    }
}

/// What is wrong with the JSON of a message.
fn explain(error: &serde_json::Error, input: &MessageDescriptor) -> UnitError {
    let (text, name) = (error.to_string(), input.full_name());
    if !error.is_data() {
        return UnitError {
            message: format!("the message is not JSON: {text}"),
            help: "write it like { \"field\": 1 }".to_owned(),
        };
    }
    // The place is left out, because a plan can have the message as YAML.
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let unknown = text.strip_prefix("unrecognized field name '").and_then(|rest| rest.strip_suffix('\''));
    match unknown {
        Some(field) => UnitError {
            message: format!("`{field}` is not a field of `{name}`, nor of the messages in it"),
            help: one_of(field, &fields(input)),
        },
        None => UnitError {
            message: format!("the message does not fit `{name}`: {text}"),
            help: "write each value as https://protobuf.dev/programming-guides/json says".to_owned(),
        },
    }
}

/// Names of the fields of a message and of the messages in it.
fn fields(message: &MessageDescriptor) -> Vec<String> {
    let (mut messages, mut names) = (vec![message.clone()], Vec::new());
    let mut next = 0;
    while let Some(message) = messages.get(next).cloned() {
        next += 1;
        for field in message.fields() {
            names.push(field.name().to_owned());
            if let Kind::Message(inner) = field.kind()
                && !messages.contains(&inner)
            {
                messages.push(inner);
            }
        }
    }
    names
}

/// Largest number of names that an error lists.
const MOST_LISTED: usize = 12;

/// Says which of these names the user can mean.
fn one_of(typed: &str, known: &[String]) -> String {
    if known.is_empty() {
        return "declare it in the file, or name another file".to_owned();
    }
    let more = if known.len() > MOST_LISTED { ", …" } else { "" };
    let listed = known[..known.len().min(MOST_LISTED)].join(", ");
    match nearest(typed, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? The names are {listed}{more}"),
        None => format!("use one of {listed}{more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::refusals;

    const ECHO: &str = r#"syntax = "proto3";
package echo;
import "shared/item.proto";
service Echo {
  rpc Say (Request) returns (Request);
  rpc Watch (Request) returns (stream Request);
  rpc Upload (stream Request) returns (Request);
  rpc Chat (stream Request) returns (stream Request);
}
message Request {
  string text = 1;
  int32 count = 2;
  repeated shared.Item items = 3;
}
"#;
    const ITEM: &str = "syntax = \"proto3\";\npackage shared;\nmessage Item { int64 item_id = 1; }\n";

    fn echo() -> Proto {
        let directory = tempfile::tempdir().expect("a directory");
        for folder in ["shared", "echo"] {
            std::fs::create_dir(directory.path().join(folder)).expect("created");
        }
        std::fs::write(directory.path().join("shared/item.proto"), ITEM).expect("written");
        let file = directory.path().join("echo/echo.proto");
        std::fs::write(&file, ECHO).expect("written");
        Proto::compile(&file).expect("valid")
    }

    fn method(name: &str) -> Method {
        echo().service("echo.Echo").and_then(|service| service.method(name)).expect("declared")
    }

    #[test]
    fn a_method_has_its_kind() {
        let kinds = ["Say", "Watch", "Upload", "Chat"].map(|name| method(name).kind());
        let expected = [StreamKind::ServerStream, StreamKind::ClientStream, StreamKind::BothWays].map(Some);
        assert_eq!((kinds[0], &kinds[1..]), (None, &expected[..]));
    }

    #[test]
    fn messages_are_encoded_from_json() {
        let say = method("Say");
        let json = r#"{ "text": "hi", "count": "300", "items": [{ "itemId": 1 }, { "item_id": "2" }] }"#;
        let expected = b"\x0a\x02hi\x10\xac\x02\x1a\x02\x08\x01\x1a\x02\x08\x02";
        assert_eq!(say.encode(json).expect("fits"), expected);
        assert_eq!(say.encode("{}").expect("fits"), b"");
    }

    #[test]
    fn descriptors_include_imported_files() {
        let pool = DescriptorPool::decode(method("Say").descriptors().as_slice()).expect("descriptors");
        let names: Vec<String> = pool.files().map(|file| file.name().to_owned()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[0].ends_with("item.proto"), "{names:?}");
        assert!(pool.get_service_by_name("echo.Echo").is_some());
    }

    #[test]
    fn wrong_messages_are_explained() {
        let told = refusals(
            &[
                r#"{ "txet": "hi" }"#,
                r#"{ "items": [{ "identifier": 1 }] }"#,
                r#"{ "count": "many" }"#,
                r#"{ "text": 5 }"#,
                r#"{ "text": "hi" "#,
                r#"{} {}"#,
            ],
            |json| method("Say").encode(json).expect_err(json).to_string(),
        );
        insta::assert_snapshot!(told);
    }

    #[test]
    fn missing_names_are_listed() {
        let error = echo().service("echo.Ehco").expect_err("another name").to_string();
        let found = echo().service("echo.Echo").and_then(|service| service.method("Listen"));
        insta::assert_snapshot!(format!("{error}\n{}", found.expect_err("another name")));
    }

    #[test]
    fn a_file_with_a_mistake_is_named_with_its_place() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = |name: &str, text: &str| {
            let file = directory.path().join(name);
            std::fs::write(&file, text).expect("written");
            Proto::compile(&file).expect_err(text).message
        };
        let wrong = error("wrong.proto", "syntax = \"proto3\";\nmessge A {}\n");
        assert!(wrong.contains(" wrong.proto:2:1: "), "{wrong}");
        let wrong = error("missing.proto", "syntax = \"proto3\";\nimport \"no.proto\";\n");
        assert!(wrong.contains(" missing.proto:") && wrong.contains("no.proto"), "{wrong}");
        let file = directory.path().join("binary.proto");
        std::fs::write(&file, [0xff, 0xfe]).expect("written");
        let wrong = Proto::compile(&file).expect_err("not text").message;
        assert!(wrong.contains(" binary.proto: "), "{wrong}");
    }
}
