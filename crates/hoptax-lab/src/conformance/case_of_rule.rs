//! The form of cases that test one rule of a protocol.

/// Declares such a case, and its constructor `case`. The module has a type `Side` and the type `Outcome`.
macro_rules! case_of_rule {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name {
            /// Name of the case, as packs list it under `differences`.
            pub name: &'static str,
            /// Short description of the case.
            pub about: &'static str,
            /// Where the rule is written, such as an RFC.
            pub rule: &'static str,
            test: fn(&Side<'_>) -> Outcome,
        }

        const fn case(
            name: &'static str,
            about: &'static str,
            rule: &'static str,
            test: fn(&Side<'_>) -> Outcome,
        ) -> $name {
            $name { name, about, rule, test }
        }
    };
}
pub(super) use case_of_rule;
