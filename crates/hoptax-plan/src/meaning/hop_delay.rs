//! The known delay of `hop-l7`.

use super::reader::Reader;
use crate::raw::{Placed, RawGateway, RawHopDelay};
use crate::{GatewayKind, HopDelay, HopKind, units};
use std::time::Duration;

/// Adds the plan's delay to `hop-l7`. A delay of any other gateway is reported as an error. Without a delay, or after
/// an error, returns `kind` unchanged.
pub(super) fn read(reader: &mut Reader<'_>, typed: &RawGateway, kind: GatewayKind) -> GatewayKind {
    let Some(Placed { place, value }) = typed.delay.clone() else { return kind };
    if kind != GatewayKind::Hop(HopKind::L7) {
        let message = format!("`{}` cannot have a `delay`, only `hop-l7` can", typed.name.value);
        reader.fault(place, message, "remove `delay`, or write name: hop-l7");
        return kind;
    }
    if value.inbound.is_none() && value.outbound.is_none() {
        reader.fault(
            place,
            "`delay` needs `in` or `out`",
            "write `in: 2ms` to delay requests, `out: 2ms` to delay responses, or both",
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
