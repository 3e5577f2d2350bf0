//! The known delays, warm-ups and faults of built-in hops.

use super::reader::Reader;
use crate::hop_delay::{check_hop_delay, check_hop_faults, check_hop_warming};
use crate::raw::{DeadlineText, Placed, RawGateway, RawHopDelay, RawHopFaults, RawHopWarming};
use crate::{GatewayKind, HopDeadline, HopDelay, HopFaults, HopKind, HopLlm, HopWarming, ProxyForm, units};
use hoptax_format::spec::HttpVersion;
use std::time::Duration;

/// Adds the plan's delay, warm-up and faults to `hop-l7` or `hop-h2`. Reports an error if another gateway has
/// them. Returns `kind` unchanged after an error, or if the plan has none.
pub(super) fn read(reader: &mut Reader<'_>, typed: &RawGateway, kind: GatewayKind) -> GatewayKind {
    refuse_message_delay(reader, typed, &kind);
    let can_have_faults = check_faults_of_kind(reader, typed, &kind);
    let can_delay = matches!(
        kind,
        GatewayKind::Hop(HopKind::L7) | GatewayKind::ForwardingHop { .. } | GatewayKind::Http2Hop { .. }
    );
    if !can_delay {
        let delay = typed.delay.as_ref().map(|delay| ("a `delay`", "`delay`", delay.place));
        let warming = typed.warming.as_ref().map(|warming| ("`warming`", "`warming`", warming.place));
        for (what, key, place) in delay.into_iter().chain(warming) {
            let message =
                format!("`{}` cannot have {what}, only `hop-l7` and `hop-h2` can", typed.name.value);
            reader.fault(place, message, format!("remove {key}, or write name: hop-l7"));
        }
        return kind;
    }
    let delay = typed.delay.clone().and_then(|delay| read_delay(reader, delay));
    let warming = typed.warming.clone().and_then(|warming| read_warming(reader, warming));
    let faults = typed.faults.clone().filter(|_| can_have_faults);
    let faults = faults.and_then(|faults| read_faults(reader, faults));
    if delay.is_none() && warming.is_none() && faults.is_none() {
        return kind;
    }
    let delay = HopDelay { warming, faults, ..delay.unwrap_or_default() };
    match kind {
        GatewayKind::Http2Hop { upstream, .. } => GatewayKind::Http2Hop { upstream, delay: Some(delay) },
        GatewayKind::ForwardingHop { proxy: ProxyForm::Forward, .. } => {
            GatewayKind::ForwardingHop { proxy: ProxyForm::Forward, delay: Some(delay) }
        }
        GatewayKind::ForwardingHop { proxy: ProxyForm::Connect, .. } => {
            let message = "`hop-l7` cannot delay requests in tunnels, because it does not read them";
            let help = "write proxy: forward, or remove `delay` and `warming`";
            reader.fault(typed.name.place, message, help);
            kind
        }
        _ => GatewayKind::DelayingHop(delay),
    }
}

/// Refuses delays of messages, unless the hop forwards gRPC calls.
fn refuse_message_delay(reader: &mut Reader<'_>, typed: &RawGateway, kind: &GatewayKind) {
    let Some(message) = typed.delay.as_ref().and_then(|delay| delay.value.message.as_ref()) else { return };
    let what = "`message` in `delay`";
    let name = &typed.name.value;
    let (fault, help) = match kind {
        GatewayKind::Http2Hop { upstream: HttpVersion::Http2, .. } => return,
        GatewayKind::Http2Hop { .. } => {
            (format!("{what} needs HTTP/2 to the upstream"), "remove `upstream_http`")
        }
        _ => (format!("`{name}` cannot have {what}, only `hop-h2` can"), "write name: hop-h2"),
    };
    reader.fault(message.place, fault, format!("{help}, or remove {what}"));
}

/// Refuses faults that the hop cannot plant. Returns false if it can plant none.
fn check_faults_of_kind(reader: &mut Reader<'_>, typed: &RawGateway, kind: &GatewayKind) -> bool {
    let Some(Placed { place, value: faults }) = &typed.faults else { return true };
    let of_streams = faults.merge.is_some()
        || faults.bunch.is_some()
        || faults.refuse.is_some()
        || faults.cut.is_some()
        || faults.deflate.is_some()
        || faults.hold_first.is_some()
        || faults.retry.is_some()
        || [faults.false_end, faults.ignore_abort, faults.rewrite_usage].iter().any(Option::is_some)
        || [faults.add_field, faults.alter_response].iter().any(Option::is_some)
        || [faults.drop_comments, faults.unbounded].iter().any(Option::is_some);
    let name = &typed.name.value;
    let (message, help) = match kind {
        GatewayKind::Http2Hop { upstream: HttpVersion::Http2, .. } if of_streams => (
            format!("`{name}` cannot plant {}, only `hop-l7` can", HopFaults::OF_STREAMS),
            "write name: hop-l7, or remove them".to_owned(),
        ),
        GatewayKind::Hop(HopKind::L7) if faults.deadline.is_some() => (
            format!("`{name}` cannot plant {}, only `hop-h2` can", HopFaults::OF_CALLS),
            "write name: hop-h2, or remove it".to_owned(),
        ),
        GatewayKind::Http2Hop { upstream: HttpVersion::Http2, .. } | GatewayKind::Hop(HopKind::L7) => {
            return true;
        }
        GatewayKind::Http2Hop { .. } => (
            "`faults` needs HTTP/2 to the upstream".to_owned(),
            "remove `upstream_http`, or remove `faults`".to_owned(),
        ),
        GatewayKind::ForwardingHop { .. } => (
            "`hop-l7` with `proxy` cannot have `faults`".to_owned(),
            "remove `proxy`, or remove `faults`".to_owned(),
        ),
        _ => (
            format!("`{name}` cannot have `faults`, only `hop-l7` and `hop-h2` can"),
            "write name: hop-h2 for gRPC calls or name: hop-l7 for event streams and WebSockets, or remove \
             `faults`"
                .to_owned(),
        ),
    };
    reader.fault(*place, message, help);
    false
}

fn read_delay(reader: &mut Reader<'_>, typed: Placed<RawHopDelay>) -> Option<HopDelay> {
    let Placed { place, value } = typed;
    if value.inbound.is_none() && value.outbound.is_none() && value.message.is_none() {
        reader.fault(
            place,
            "`delay` needs `in`, `out` or `message`",
            "write `in: 2ms` to delay requests, `out: 2ms` to delay responses, or `message: 2ms` to delay \
             gRPC messages (hop-h2)",
        );
        return None;
    }
    let RawHopDelay { inbound, outbound, message, share, how } = value;
    let delay = HopDelay {
        inbound: reader.time(inbound, Duration::ZERO),
        outbound: reader.time(outbound, Duration::ZERO),
        share: share.and_then(|share| reader.unit(&share, units::share)).unwrap_or(1.0),
        how: how.unwrap_or_default(),
        message: reader.time(message, Duration::ZERO),
        ..HopDelay::default()
    };
    reader.accept(place, check_hop_delay(&delay));
    Some(delay)
}

fn read_warming(reader: &mut Reader<'_>, typed: Placed<RawHopWarming>) -> Option<HopWarming> {
    let Placed { place, value: RawHopWarming { requests, extra, fall } } = typed;
    let extra = reader.unit(&extra, units::duration)?;
    let warming = HopWarming { requests: requests.value.0, extra, fall: fall.unwrap_or_default() };
    reader.accept(place, check_hop_warming(&warming));
    Some(warming)
}

fn read_faults(reader: &mut Reader<'_>, typed: Placed<RawHopFaults>) -> Option<HopFaults> {
    let Placed { place, value } = typed;
    let faults_before = reader.faults.len();
    let llm = read_llm(reader, &value);
    let RawHopFaults { drop, repeat, hold, deadline, merge, bunch, refuse, cut, deflate, .. } = value;
    let deadline = match deadline {
        Some(deadline) => Some(read_deadline(reader, &deadline)?),
        None => None,
    };
    let faults = HopFaults {
        drop: drop.and_then(|share| reader.unit(&share, units::share)).unwrap_or(0.0),
        repeat: repeat.and_then(|share| reader.unit(&share, units::share)).unwrap_or(0.0),
        hold: reader.time(hold, Duration::ZERO),
        deadline,
        merge: merge.and_then(|share| reader.unit(&share, units::share)).unwrap_or(0.0),
        // A bunch of 0 is refused like a bunch of 1.
        bunch: bunch.map_or(0, |count| count.value.max(1)),
        refuse: refuse.and_then(|share| reader.unit(&share, units::share)).unwrap_or(0.0),
        cut: reader.time(cut, Duration::ZERO),
        deflate,
        llm,
    };
    // A value that cannot be read was reported.
    if reader.faults.len() == faults_before {
        reader.accept(place, check_hop_faults(&faults));
    }
    Some(faults)
}

/// The faults of AI gateways, if there is one.
fn read_llm(reader: &mut Reader<'_>, typed: &RawHopFaults) -> Option<HopLlm> {
    let is_on = |typed: Option<bool>| typed.unwrap_or(false);
    let llm = HopLlm {
        hold_first: reader.time(typed.hold_first.clone(), Duration::ZERO),
        false_end: is_on(typed.false_end),
        ignore_abort: is_on(typed.ignore_abort),
        retry: typed.retry.unwrap_or(0),
        rewrite_usage: is_on(typed.rewrite_usage),
        add_field: is_on(typed.add_field),
        alter_response: is_on(typed.alter_response),
        drop_comments: is_on(typed.drop_comments),
        unbounded: is_on(typed.unbounded),
    };
    Some(llm).filter(|llm| *llm != HopLlm::default())
}

fn read_deadline(reader: &mut Reader<'_>, typed: &Placed<DeadlineText>) -> Option<HopDeadline> {
    reader.unit(typed, |text| match text {
        "drop" => Ok(HopDeadline::Drop),
        time => units::duration(time).map(HopDeadline::Replace),
    })
}
