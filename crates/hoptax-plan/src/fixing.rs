//! Fixes a plan that cannot be read, so that the mistakes in its other parts are found too.
//!
//! A mistyped key gets the name that it resembles. Other parts that cannot be read are left out. Errors that
//! may only be a consequence of these changes are not reported.

use super::error::{Fault, Place};
use super::node::{Key, Node, Value};

/// Lists of a plan whose items can be checked one by one.
const LISTS: [&str; 3] = ["gateways", "load", "target"];
/// Keys without which nothing else can be checked.
const REQUIRED: [&str; 2] = ["gateways", "load"];
/// Keys whose parts belong together. With a mistake in them, nothing else can be checked.
const WHOLE: [&str; 2] = ["hosts", "roles"];
/// If one of these keys has a mistake, the keys in `REFERRING` are not checked. They refer to these keys, and
/// would seem wrong.
const REFERRED: [&str; 4] = ["gateways", "load", "start", "target"];
const REFERRING: [&str; 3] = ["budget", "events", "roles"];

/// A plan that is fixed step by step.
pub(crate) struct Fixing {
    pub(crate) root: Node,
    /// The parts with mistakes: items of [`LISTS`], and values of other keys of the plan.
    touched: Vec<Node>,
    /// Values of mistyped keys that were renamed.
    guessed: Vec<Node>,
}

impl Fixing {
    pub(crate) fn new(root: Node) -> Self {
        Self { root, touched: Vec::new(), guessed: Vec::new() }
    }

    /// True if this reading error is not a consequence of an earlier fix.
    pub(crate) fn is_new(&self, fault: &Fault) -> bool {
        let is_in = |nodes: &[Node]| is_in(nodes, fault);
        let follows = is_in(&self.guessed) || is_missing_key(fault) && is_in(&self.touched);
        !follows
    }

    /// True if this error in the meaning is not a consequence of a fix.
    pub(crate) fn is_independent(&self, fault: &Fault) -> bool {
        fault.place.is_some() && !is_in(&self.touched, fault)
    }

    /// Fixes the part with this fault. Returns false if the rest of the plan cannot be checked without this
    /// part.
    pub(crate) fn fix(&mut self, fault: &Fault) -> bool {
        let (Some(place), Value::Mapping(entries)) = (fault.place, &mut self.root.value) else {
            return false;
        };
        // The fix of an earlier fault may have removed this part already.
        let Some(at) = position(entries, place) else { return is_in(&self.touched, fault) };
        let (key, value) = &mut entries[at];
        if WHOLE.contains(&&*key.text) {
            return false;
        }
        let is_of_plan = key.place == place && !is_missing_key(fault);
        let item = match &value.value {
            Value::Sequence(items) if !is_of_plan && LISTS.contains(&&*key.text) => {
                items.iter().position(|item| item.contains(place))
            }
            _ => None,
        };
        let part = match (&mut value.value, item) {
            (Value::Sequence(items), Some(index)) => &mut items[index],
            _ => &mut *value,
        };
        self.touched.push(part.clone());
        let name = key.text.clone();
        let is_fixed = !is_of_plan && !is_missing_key(fault) && fix_in(part, fault, place, &mut self.guessed);
        if !is_fixed {
            match (&mut value.value, item) {
                (Value::Sequence(items), Some(index)) if items.len() > 1 => drop(items.remove(index)),
                _ if REQUIRED.contains(&&*name) => return false,
                _ => drop(entries.remove(at)),
            }
        }
        if REFERRED.contains(&&*name) {
            entries.retain(|(key, _)| !REFERRING.contains(&&*key.text));
        }
        true
    }
}

fn is_in(nodes: &[Node], fault: &Fault) -> bool {
    nodes.iter().any(|node| fault.place.is_some_and(|place| node.contains(place)))
}

fn is_missing_key(fault: &Fault) -> bool {
    fault.message.starts_with("missing key")
}

/// Index of the entry whose key has this place, or whose value contains it.
fn position(entries: &[(Key, Node)], place: Place) -> Option<usize> {
    entries.iter().position(|(key, value)| key.place == place || value.contains(place))
}

/// Renames or removes the innermost entry or item with the fault. False if `node` itself is wrong.
fn fix_in(node: &mut Node, fault: &Fault, place: Place, guessed: &mut Vec<Node>) -> bool {
    match &mut node.value {
        Value::Scalar { .. } => false,
        Value::Sequence(items) => {
            let Some(at) = items.iter().position(|item| item.contains(place)) else { return false };
            if !fix_in(&mut items[at], fault, place, guessed) {
                items.remove(at);
            }
            true
        }
        Value::Mapping(entries) => {
            let Some(at) = position(entries, place) else { return false };
            if entries[at].0.place == place {
                let near = meant(fault).filter(|near| entries.iter().all(|(key, _)| key.text != *near));
                match near.map(str::to_owned) {
                    Some(near) => {
                        guessed.push(entries[at].1.clone());
                        entries[at].0.text = near;
                    }
                    None => drop(entries.remove(at)),
                }
            } else if !fix_in(&mut entries[at].1, fault, place, guessed) {
                entries.remove(at);
            }
            true
        }
    }
}

/// The key that the help of a fault proposes.
fn meant(fault: &Fault) -> Option<&str> {
    fault.help.strip_prefix("did you mean `")?.strip_suffix("`?")
}
