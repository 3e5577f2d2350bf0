//! The known delays and the known warm-ups of built-in hops.

use super::reader::Reader;
use crate::hop_delay::{check_hop_delay, check_hop_warming};
use crate::raw::{Placed, RawGateway, RawHopDelay, RawHopWarming};
use crate::{GatewayKind, HopDelay, HopKind, HopWarming, ProxyForm, units};
use std::time::Duration;

/// Adds the plan's delay and warm-up to `hop-l7` or `hop-h2`. A delay or warm-up of any other gateway is
/// reported as an error. Without both, or after an error, returns `kind` unchanged.
pub(super) fn read(reader: &mut Reader<'_>, typed: &RawGateway, kind: GatewayKind) -> GatewayKind {
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
    if delay.is_none() && warming.is_none() {
        return kind;
    }
    let delay = HopDelay { warming, ..delay.unwrap_or_default() };
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

fn read_delay(reader: &mut Reader<'_>, typed: Placed<RawHopDelay>) -> Option<HopDelay> {
    let Placed { place, value } = typed;
    if value.inbound.is_none() && value.outbound.is_none() {
        reader.fault(
            place,
            "`delay` needs `in` or `out`",
            "write `in: 2ms` to delay requests, `out: 2ms` to delay responses, or both",
        );
        return None;
    }
    let RawHopDelay { inbound, outbound, share, how } = value;
    let delay = HopDelay {
        inbound: reader.time(inbound, Duration::ZERO),
        outbound: reader.time(outbound, Duration::ZERO),
        share: share.and_then(|share| reader.unit(&share, units::share)).unwrap_or(1.0),
        how: how.unwrap_or_default(),
        warming: None,
    };
    if let Err((message, help)) = check_hop_delay(&delay) {
        reader.fault(place, message, help);
    }
    Some(delay)
}

fn read_warming(reader: &mut Reader<'_>, typed: Placed<RawHopWarming>) -> Option<HopWarming> {
    let Placed { place, value: RawHopWarming { requests, extra, fall } } = typed;
    let extra = reader.unit(&extra, units::duration)?;
    let warming = HopWarming { requests: requests.value.0, extra, fall: fall.unwrap_or_default() };
    if let Err((message, help)) = check_hop_warming(&warming) {
        reader.fault(place, message, help);
    }
    Some(warming)
}
