//! Load specs: whatever JSON comes is a spec or an error, a spec that is written is read again as it was, and looking
//! whether it can be carried out never panics.

use hoptax_load::spec::LoadSpec;
use serde_json::Value;

/// `input` is what a generator is given on its standard input.
pub fn holds(input: &[u8]) {
    let Ok(spec) = serde_json::from_slice::<LoadSpec>(input) else { return };
    let written = serde_json::to_value(&spec).expect("a spec is JSON");
    let read: LoadSpec = serde_json::from_value(written.clone()).expect("a spec that was written is read");
    let again = serde_json::to_value(&read).expect("a spec is JSON");
    assert!(alike(&written, &again), "{written} came back as {again}");
    if let Err(error) = hoptax_load::check(&spec) {
        assert!(!error.to_string().is_empty());
    }
}

/// Equal, but for the last digit of numbers that are not whole: reading decimals is exact only where asked for.
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
