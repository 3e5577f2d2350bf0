//! Colors for terminals that support colors, unless the user has switched colors off.

use std::fmt;
use std::io::IsTerminal;

/// Applies colors, or leaves text unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Paint {
    on: bool,
}

/// Meaning of a text, which decides its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Ink {
    /// The most important text.
    Strong,
    /// Labels and explanations.
    Faint,
    Doubt,
    Failure,
}

impl Paint {
    #[cfg(test)]
    pub(in crate::cli) const OFF: Self = Self { on: false };

    /// Applies colors if they are [wanted](is_wanted) on `out`.
    pub(in crate::cli) fn on(out: &impl IsTerminal) -> Self {
        Self { on: is_wanted(out) }
    }

    /// Returns `text` in the color for `ink`.
    pub(in crate::cli) fn ink<T: fmt::Display>(self, ink: Ink, text: T) -> String {
        if !self.on {
            return text.to_string();
        }
        let code = match ink {
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Doubt => "33",
            Ink::Failure => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// True if `out` is a terminal, and neither `NO_COLOR` (no-color.org) nor `TERM=dumb` is set.
pub(in crate::cli) fn is_wanted(out: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    out.is_terminal() && !set("NO_COLOR") && !dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colors_text_is_unchanged() {
        assert_eq!(Paint::OFF.ink(Ink::Failure, "no"), "no");
        assert_eq!(Paint { on: true }.ink(Ink::Failure, "no"), "\x1b[31mno\x1b[0m");
    }
}
