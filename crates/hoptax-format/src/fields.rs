//! A macro for types with many counts.

/// Adds these fields of `theirs` to the same fields of `mine`. With `all`, the type must have no other field.
macro_rules! add_fields {
    ($mine:expr, $theirs:ident: all $($field:ident)*) => {
        let Self { $($field: _),* } = $theirs;
        $($mine.$field += $theirs.$field;)*
    };
    ($mine:expr, $theirs:ident: $($field:ident)*) => { $($mine.$field += $theirs.$field;)* };
}
pub(crate) use add_fields;
