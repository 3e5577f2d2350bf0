//! The delay planted in `hop-l7`.

use super::reader::Reader;
use crate::raw::{Placed, RawGateway, RawHopDelay};
use crate::{GatewayKind, HopDelay, HopKind, units};
use std::time::Duration;

/// What a gateway that was given a delay comes to be: `kind`, unless it is the hop that can have one.
pub(super) fn read(reader: &mut Reader<'_>, typed: &RawGateway, kind: GatewayKind) -> GatewayKind {
    let Some(Placed { place, value }) = typed.delay.clone() else { return kind };
    if kind != GatewayKind::Hop(HopKind::L7) {
        let message = format!("`{}` cannot be given a delay: only `hop-l7` can", typed.name.value);
        reader.fault(place, message, "leave out `delay`, or write name: hop-l7");
        return kind;
    }
    if value.inbound.is_none() && value.outbound.is_none() {
        reader.fault(
            place,
            "this delay holds nothing back",
            "write `in: 2ms` for requests, `out: 2ms` for answers, or both",
        );
        return kind;
    }
    let RawHopDelay { inbound, outbound, share, how } = value;
    let delay = HopDelay {
        inbound: reader.time(inbound, Duration::ZERO),
        outbound: reader.time(outbound, Duration::ZERO),
        share: share.and_then(|share| reader.unit(&share, units::share)).unwrap_or(1.0),
        how: how.unwrap_or_default(),
    };
    if let Err((message, help)) = delay.check() {
        reader.fault(place, message, help);
    }
    GatewayKind::DelayingHop(delay)
}
