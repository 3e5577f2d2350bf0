//! Causes and the answer, in words.

use crate::words::format::Scale;
use crate::words::text::listed;
use hoptax_record::report::{SlowCause, SlowFigures};
use hoptax_record::tail::{Holder, TailCause, TailKind};
use hoptax_record::{DIRECT, Role};

/// Smallest share of a cause that the sentence names. All smaller ones are added up.
const NAMED: f64 = 0.03;

/// Maximum number of causes that the sentence names.
const MOST_NAMED: usize = 5;

/// A cause in words that can end a sentence: `kdamond had the CPU`.
pub(super) fn cause_in_words(cause: &SlowCause) -> String {
    words(cause.kind, cause.role.map(Role::name), cause.holder.as_deref())
}

/// A cause of a single request in words.
pub(super) fn piece_in_words(cause: &TailCause) -> String {
    let holder = match &cause.holder {
        Some(Holder::Role(role)) => Some(role.name()),
        Some(Holder::Other(name)) => Some(name.as_str()),
        None => None,
    };
    words(cause.kind, cause.role.map(Role::name), holder)
}

fn words(kind: TailKind, role: Option<&str>, holder: Option<&str>) -> String {
    let role = role.unwrap_or("role");
    match kind {
        TailKind::Running => format!("the {role} ran"),
        TailKind::Neighbour => format!("the {role} served another request"),
        TailKind::Waiting => match holder {
            Some(role @ ("generator" | "gateway" | "upstream")) => format!("the {role} had the CPU"),
            Some(name) => format!("{name} had the CPU"),
            None => "another thread had the CPU".to_owned(),
        },
        TailKind::Asleep => format!("the {role} slept"),
        TailKind::Connection => "no connection was free".to_owned(),
        TailKind::Nobody => "no thread had the CPU (idle, or taken by the hypervisor)".to_owned(),
        TailKind::Unknown => "unknown".to_owned(),
    }
}

/// The answer: the extra time of the slow requests, by cause.
pub(crate) fn sentence(one: &SlowFigures) -> String {
    let (Some(slow), Some(usual)) = (&one.slow_us, one.usual_us) else { return String::new() };
    let more = slow.estimate - usual;
    let percent = Scale::percent();
    let named: Vec<&SlowCause> =
        one.causes.iter().filter(|cause| cause.share.estimate >= NAMED).take(MOST_NAMED).collect();
    let mut parts: Vec<String> = named
        .iter()
        .map(|cause| format!("{} {}", percent.value(cause.share.estimate), cause_in_words(cause)))
        .collect();
    let rest = 1.0 - named.iter().map(|cause| cause.share.estimate).sum::<f64>();
    if rest >= NAMED / 3.0 {
        parts.push(format!("{} other causes", percent.value(rest)));
    }
    let requests = match one.contender.as_str() {
        DIRECT => "Direct requests".to_owned(),
        label => format!("Requests through {label}"),
    };
    format!(
        "{requests} beyond p99 took {} longer than those at the median: {}.",
        Scale::of_us(more).value(more),
        listed(&parts)
    )
}
