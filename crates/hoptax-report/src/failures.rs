//! Groups failures that have the same cause, so that each cause is shown only once.
//!
//! The messages and logs of two variants of a gateway are alike, except for the label, ports, process IDs and
//! times.

use hoptax_record::Failure;

/// A cause, and the contenders that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup<'m> {
    /// The first contender that failed.
    pub label: &'m str,
    /// Its failure.
    pub failure: &'m Failure,
    /// Labels of the other contenders that failed with the same cause.
    pub others: Vec<&'m str>,
}

/// True if two contenders failed with the same cause. Each contender is given by its label and its failure.
/// `variants` is true if the contenders are variants of the same gateway. Their labels may then differ in
/// messages and logs.
pub fn same_cause(one: (&str, &Failure), other: (&str, &Failure), variants: bool) -> bool {
    let of = |pick: fn(&Failure) -> &str, simplify: fn(&str) -> String| {
        same_text((one.0, pick(one.1)), (other.0, pick(other.1)), variants, simplify)
    };
    one.1.stage == other.1.stage
        && of(|failure| &failure.message, without_ports)
        && of(|failure| &failure.detail, without_digits)
}

/// True if two contenders have the same message. Parameters are as in [`same_cause`].
pub fn same_message(one: (&str, &str), other: (&str, &str), variants: bool) -> bool {
    same_text(one, other, variants, without_ports)
}

fn same_text(
    (label, text): (&str, &str),
    (other_label, other): (&str, &str),
    variants: bool,
    simplify: fn(&str) -> String,
) -> bool {
    let same = |one: &str, other: &str| simplify(one) == simplify(other);
    // If a label is also the name of the pack, it appears in places that do not differ. So two ways are
    // tried: the label is replaced in the first text, or in the second.
    same(text, other)
        || variants
            && (same(&text.replace(label, other_label), other)
                || same(text, &other.replace(other_label, label)))
}

/// Removes the digits of ports, such as in `127.0.0.1:8080`. Other numbers may be a part of the cause, such
/// as a status.
fn without_ports(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut in_port = false;
    for letter in text.chars() {
        in_port = letter.is_ascii_digit() && (in_port || ends_address(&kept));
        if !in_port {
            kept.push(letter);
        }
    }
    kept
}

/// True if the text ends with a colon after an IP address.
fn ends_address(text: &str) -> bool {
    let address = text.strip_suffix(':').and_then(|address| address.chars().next_back());
    address.is_some_and(|last| last.is_ascii_digit() || last == ']')
}

/// Removes all digits. Logs contain process IDs, times and ports.
fn without_digits(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_record::Stage;

    fn started(label: &str, line: u32, directive: &str) -> Failure {
        Failure {
            stage: Stage::Start,
            message: format!("{label} exited with code 1. See `start` in gateways/nginx/gateway.yaml:9"),
            detail: format!(
                "logs/{label}/stderr.log:\n  10:00:0{line} [emerg] {line}#0: unknown {directive}\n"
            ),
        }
    }

    #[test]
    fn variants_may_differ_in_labels_ports_and_process_ids() {
        let bare = started("nginx", 1, "\"foo\"");
        for (label, other) in
            [("nginx.tls", started("nginx.tls", 2, "\"foo\"")), ("b", started("b", 3, "\"foo\""))]
        {
            assert!(same_cause(("nginx", &bare), (label, &other), true), "{label}");
            assert!(same_cause((label, &other), ("nginx", &bare), true), "{label}");
            assert!(!same_cause(("nginx", &bare), (label, &other), false), "another gateway");
        }
        let other = started("nginx.tls", 2, "\"bar\"");
        assert!(!same_cause(("nginx", &bare), ("nginx.tls", &other), true), "another log");
    }

    #[test]
    fn numbers_that_are_no_ports_are_a_part_of_the_cause() {
        let same = |one: &str, other: &str| same_message(("a", one), ("b", other), false);
        assert!(same("nothing listens on 127.0.0.1:4001", "nothing listens on 127.0.0.1:38211"));
        assert!(same("http://[::1]:1/ answered 404", "http://[::1]:22/ answered 404"));
        assert!(!same("http://[::1]:1/ answered 404", "http://[::1]:1/ answered 503"));
        assert!(!same("see gateway.yaml:7", "see gateway.yaml:8"));
        assert!(!same("nothing listens on 127.0.0.1:1", "nothing listens on 127.0.0.2:1"));
    }
}
