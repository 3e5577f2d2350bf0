//! Adds up counts: those of the workers of a generator, and those of the generators of a load.

use crate::record::{Bytes, Connections, Counts, Lifetime, StampTally, TlsTally, Window};
use std::collections::BTreeMap;

/// Maximum number of distinct error texts. Further texts are counted as [`OTHER_ERRORS`].
pub(super) const ERROR_TEXTS: usize = 16;
pub(super) const OTHER_ERRORS: &str = "other errors";

pub(super) fn add_error(errors: &mut BTreeMap<String, u64>, text: &str, times: u64) {
    let text = if errors.len() < ERROR_TEXTS || errors.contains_key(text) { text } else { OTHER_ERRORS };
    count(errors, text, times);
}

/// Adds `times` to the count of `name`. Allocates only if `name` is new.
pub(super) fn count(counts: &mut BTreeMap<String, u64>, name: &str, times: u64) {
    match counts.get_mut(name) {
        Some(count) => *count += times,
        None => {
            counts.insert(name.to_owned(), times);
        }
    }
}

pub(crate) fn add_counts(mine: &mut Counts, theirs: Counts) {
    mine.scheduled += theirs.scheduled;
    mine.sent += theirs.sent;
    mine.retried += theirs.retried;
    mine.completed += theirs.completed;
    mine.ok += theirs.ok;
    mine.timeouts += theirs.timeouts;
    mine.connect_errors += theirs.connect_errors;
    mine.resets += theirs.resets;
    mine.bad_responses += theirs.bad_responses;
    mine.unsent += theirs.unsent;
    mine.in_flight += theirs.in_flight;
    for (status, count) in theirs.status {
        *mine.status.entry(status).or_default() += count;
    }
    for (cause, count) in theirs.causes {
        *mine.causes.entry(cause).or_default() += count;
    }
    for (check, count) in theirs.failed_checks {
        *mine.failed_checks.entry(check).or_default() += count;
    }
    for (text, count) in theirs.errors {
        add_error(&mut mine.errors, &text, count);
    }
}

pub(crate) fn add_lifetime(mine: &mut Lifetime, theirs: Lifetime) {
    mine.sent += theirs.sent;
    mine.completed += theirs.completed;
    mine.opened += theirs.opened;
}

pub(crate) fn add_connections(mine: &mut Connections, theirs: Connections) {
    mine.asked += theirs.asked;
    mine.established += theirs.established;
    mine.opened += theirs.opened;
    mine.reused += theirs.reused;
    mine.closed_by_peer += theirs.closed_by_peer;
    mine.closed_after_first += theirs.closed_after_first;
    mine.closed_on_reuse += theirs.closed_on_reuse;
    mine.unasked += theirs.unasked;
}

pub(crate) fn add_bytes(mine: &mut Bytes, theirs: Bytes) {
    mine.sent += theirs.sent;
    mine.received += theirs.received;
    mine.body += theirs.body;
}

pub(crate) fn add_tls(mine: &mut TlsTally, theirs: &TlsTally) {
    mine.handshakes += theirs.handshakes;
    mine.resumed += theirs.resumed;
    for (mine, theirs) in [
        (&mut mine.versions, &theirs.versions),
        (&mut mine.cipher_suites, &theirs.cipher_suites),
        (&mut mine.alpn, &theirs.alpn),
    ] {
        for (name, times) in theirs {
            count(mine, name, *times);
        }
    }
}

/// Adds the counts, and leaves the clock as it is.
pub(crate) fn add_stamps(mine: &mut StampTally, theirs: &StampTally) {
    mine.used += theirs.used;
    mine.missing += theirs.missing;
    mine.impossible += theirs.impossible;
}

/// Adds the counts of a window, and leaves the response times as they are.
pub(crate) fn add_window_counts(mine: &mut Window, theirs: Window) {
    mine.sent += theirs.sent;
    mine.completed += theirs.completed;
    mine.ok += theirs.ok;
    mine.timeouts += theirs.timeouts;
    mine.errors += theirs.errors;
    mine.opened += theirs.opened;
    for (cause, count) in theirs.causes {
        *mine.causes.entry(cause).or_default() += count;
    }
}
