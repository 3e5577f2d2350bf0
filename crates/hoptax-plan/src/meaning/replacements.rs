//! Reads which gateways replace other gateways that are not installed.

use super::reader::Reader;
use super::{features, versions};
use crate::de::one_of;
use crate::raw::{Placed, RawGateway, Short};
use crate::units::nearest;
use crate::{Gateway, GatewayKind, Replacement};
use hoptax_record::printable;

/// The keys of one entry of `gateways` that matter for replacements.
pub(super) struct Entry {
    label: String,
    /// Whether the entry gives several gateways, because of `features: each`, `all-pairs` or a list of
    /// versions.
    is_several: bool,
    instead_of: Option<Placed<String>>,
    not_comparable: Option<Placed<String>>,
}

/// The entries of `gateways`, in the order of the plan.
pub(super) fn entries(gateways: &[Placed<Short<RawGateway>>]) -> Vec<Entry> {
    let entry = |typed: &Placed<Short<RawGateway>>| match &typed.value {
        Short::Word(name) => {
            Entry { label: name.clone(), is_several: false, instead_of: None, not_comparable: None }
        }
        Short::Full(typed) => Entry {
            label: typed.label.as_ref().unwrap_or(&typed.name).value.clone(),
            is_several: typed.features.as_ref().and_then(features::matrix).is_some()
                || versions::are_several(typed),
            instead_of: typed.instead_of.clone(),
            not_comparable: typed.not_comparable.clone(),
        },
    };
    gateways.iter().map(entry).collect()
}

/// Checks and converts the replacements. `gateways` are the gateways of the plan.
pub(super) fn read(reader: &mut Reader<'_>, entries: &[Entry], gateways: &[Gateway]) -> Vec<Replacement> {
    let mut replacements: Vec<Replacement> = Vec::new();
    for entry in entries {
        let Some(label) = &entry.instead_of else {
            if let Some(text) = &entry.not_comparable {
                let help = "add `instead_of` with the label of the gateway that this one replaces, or remove \
                            `not_comparable`";
                reader.fault(text.place, "`not_comparable` needs `instead_of`", help);
            }
            continue;
        };
        if let Some((message, help)) = mistake(label, entry, entries, gateways, &replacements) {
            reader.fault(label.place, message, help);
        }
        replacements.push(Replacement {
            gateway: entry.label.clone(),
            instead_of: label.value.clone(),
            not_comparable: not_comparable(reader, label, entry.not_comparable.as_ref()),
        });
    }
    replacements
}

/// What is wrong with `instead_of`, and how to fix it.
fn mistake(
    label: &Placed<String>,
    entry: &Entry,
    entries: &[Entry],
    gateways: &[Gateway],
    earlier: &[Replacement],
) -> Option<(String, String)> {
    let name = &label.value;
    if *name == entry.label {
        let help = "name another gateway of the plan";
        return Some((format!("`{name}` cannot replace itself"), help.to_owned()));
    }
    let Some(replaced) = entries.iter().find(|other| other.label == *name) else {
        return Some((format!("no gateway has the label `{name}`"), unknown_help(name, entry, entries)));
    };
    if entry.is_several || replaced.is_several {
        return Some((
            "`instead_of` cannot be combined with `features: each`, `all-pairs` or a list of versions"
                .to_owned(),
            "list the gateways one by one, each with a label".to_owned(),
        ));
    }
    if let Some(other) = &replaced.instead_of {
        let help = format!("write `instead_of: {}`, or remove one of the two", other.value);
        return Some((format!("`{name}` itself replaces `{}`", other.value), help));
    }
    if let Some(other) = earlier.iter().find(|other| other.instead_of == *name) {
        let message = format!("two gateways replace `{name}`: `{}` and `{}`", other.gateway, entry.label);
        return Some((message, "remove `instead_of` and `not_comparable` from one of them".to_owned()));
    }
    let replaced = gateways.iter().find(|gateway| gateway.label == *name);
    if replaced.is_some_and(|gateway| !matches!(gateway.kind, GatewayKind::Pack { .. })) {
        let message = format!("`{name}` is never missing, because it is not installed from a pack");
        return Some((message, "remove `instead_of` and `not_comparable`".to_owned()));
    }
    None
}

fn unknown_help(name: &str, entry: &Entry, entries: &[Entry]) -> String {
    let others = entries.iter().map(|other| other.label.as_str()).filter(|one| *one != entry.label);
    let others: Vec<&str> = others.collect();
    match nearest(name, others.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if others.is_empty() => format!("add `{name}` to `gateways`"),
        None => format!("use {}, or add `{name}` to `gateways`", one_of(&others)),
    }
}

/// The text of `not_comparable`, in one line without control characters, because reports quote it.
fn not_comparable(reader: &mut Reader<'_>, label: &Placed<String>, typed: Option<&Placed<String>>) -> String {
    const HELP: &str = "write in a sentence what cannot be compared; the report quotes it";
    let Some(typed) = typed else {
        reader.fault(label.place, "`instead_of` needs `not_comparable`", HELP);
        return String::new();
    };
    let words: Vec<&str> = typed.value.split_whitespace().collect();
    if words.is_empty() {
        reader.fault(typed.place, "`not_comparable` is empty", HELP);
    }
    printable(&words.join(" "))
}
