//! Columns of the index that contain JSON.

use rusqlite::Error;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("it has only string keys")
}

/// Parses a JSON column.
pub(super) fn parsed<T: DeserializeOwned>(row: &rusqlite::Row<'_>, column: &str) -> Result<T, Error> {
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(|error| unusable(&error.to_string()))
}

pub(super) fn unusable(what: &str) -> Error {
    Error::FromSqlConversionFailure(0, Type::Text, what.to_owned().into())
}
