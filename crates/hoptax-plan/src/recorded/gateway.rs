//! Conversions of gateways.

use super::kept;
use super::shared::UnknownWord;
use crate::{Feature, Gateway, GatewayKind, HopDelay, HopDelayHow, HopWarming, HopWarmingFall};

impl From<&Gateway> for kept::Gateway {
    fn from(gateway: &Gateway) -> Self {
        Self { label: gateway.label.clone(), kind: (&gateway.kind).into() }
    }
}

impl TryFrom<kept::Gateway> for Gateway {
    type Error = UnknownWord;

    fn try_from(gateway: kept::Gateway) -> Result<Self, UnknownWord> {
        Ok(Self { label: gateway.label, kind: gateway.kind.try_into()? })
    }
}

impl From<&GatewayKind> for kept::GatewayKind {
    fn from(kind: &GatewayKind) -> Self {
        match kind.clone() {
            GatewayKind::Pack { pack, workers, features, instances, driver } => {
                let features = features.iter().map(Feature::to_string).collect();
                Self::Pack { pack, workers, features, instances, driver }
            }
            GatewayKind::Hop(kind) => Self::Hop(kind),
            GatewayKind::DelayingHop(delay) => Self::DelayingHop(delay.into()),
            GatewayKind::ForwardingHop { proxy, delay } => {
                Self::ForwardingHop { proxy, delay: delay.map(kept::HopDelay::from) }
            }
            GatewayKind::External { url, pid, access, prometheus, pods } => {
                Self::External { url, pid, access, prometheus, pods }
            }
        }
    }
}

impl TryFrom<kept::GatewayKind> for GatewayKind {
    type Error = UnknownWord;

    fn try_from(kind: kept::GatewayKind) -> Result<Self, UnknownWord> {
        Ok(match kind {
            kept::GatewayKind::Pack { pack, workers, features, instances, driver } => {
                let features = features.iter().map(|word| word.parse().map_err(UnknownWord));
                let features = features.collect::<Result<_, _>>()?;
                Self::Pack { pack, workers, features, instances, driver }
            }
            kept::GatewayKind::Hop(kind) => Self::Hop(kind),
            kept::GatewayKind::DelayingHop(delay) => Self::DelayingHop(delay.into()),
            kept::GatewayKind::ForwardingHop { proxy, delay } => {
                Self::ForwardingHop { proxy, delay: delay.map(HopDelay::from) }
            }
            kept::GatewayKind::External { url, pid, access, prometheus, pods } => {
                Self::External { url, pid, access, prometheus, pods }
            }
        })
    }
}

impl From<HopDelay> for kept::HopDelay {
    fn from(delay: HopDelay) -> Self {
        let HopDelay { inbound, outbound, share, how, warming } = delay;
        let how = match how {
            HopDelayHow::Sleep => kept::HopDelayHow::Sleep,
            HopDelayHow::Spin => kept::HopDelayHow::Spin,
        };
        Self { inbound, outbound, share, how, warming: warming.map(kept::HopWarming::from) }
    }
}

impl From<kept::HopDelay> for HopDelay {
    fn from(delay: kept::HopDelay) -> Self {
        let kept::HopDelay { inbound, outbound, share, how, warming } = delay;
        let how = match how {
            kept::HopDelayHow::Sleep => HopDelayHow::Sleep,
            kept::HopDelayHow::Spin => HopDelayHow::Spin,
        };
        Self { inbound, outbound, share, how, warming: warming.map(HopWarming::from) }
    }
}

impl From<HopWarming> for kept::HopWarming {
    fn from(warming: HopWarming) -> Self {
        let HopWarming { requests, extra, fall } = warming;
        let fall = match fall {
            HopWarmingFall::Linear => kept::HopWarmingFall::Linear,
            HopWarmingFall::Step => kept::HopWarmingFall::Step,
        };
        Self { requests, extra, fall }
    }
}

impl From<kept::HopWarming> for HopWarming {
    fn from(warming: kept::HopWarming) -> Self {
        let kept::HopWarming { requests, extra, fall } = warming;
        let fall = match fall {
            kept::HopWarmingFall::Linear => HopWarmingFall::Linear,
            kept::HopWarmingFall::Step => HopWarmingFall::Step,
        };
        Self { requests, extra, fall }
    }
}
