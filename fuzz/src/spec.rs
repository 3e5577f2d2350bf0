//! Load specs. Parsing any JSON gives a spec or an error, and validation never panics. A spec that is
//! serialized and parsed again is unchanged.

use hoptax_format::spec::LoadSpec;
use serde_json::Value;

/// `input` is the generator's standard input.
pub fn holds(input: &[u8]) -> bool {
    let Ok(spec) = serde_json::from_slice::<LoadSpec>(input) else { return false };
    let written = serde_json::to_value(&spec).expect("a spec is JSON");
    let read: LoadSpec = serde_json::from_value(written.clone()).expect("a serialized spec can be parsed");
    let again = serde_json::to_value(&read).expect("a spec is JSON");
    assert!(alike(&written, &again), "{written} came back as {again}");
    let refused = hoptax_load::check(&spec).err();
    assert!(refused.as_ref().is_none_or(|error| !error.to_string().is_empty()));
    refused.is_none()
}

/// True if both values are equal. Fractional numbers may differ in the last digit, because serde_json does
/// not parse them exactly by default.
fn alike(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| alike(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| alike(value, other)))
        }
        (Value::Number(left), Value::Number(right)) => match (left.as_f64(), right.as_f64()) {
            (Some(left), Some(right)) => (left - right).abs() <= left.abs() * 1e-12,
            _ => left == right,
        },
        _ => left == right,
    }
}
