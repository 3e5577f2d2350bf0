//! The precision of a tax. With `trials: auto`, a run stops when its taxes are precise enough.

use super::Estimate;

/// A tax, and the figure of direct from which the tax is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Precision {
    /// The tax.
    pub estimate: Estimate,
    /// The value of the tax that means "the gateway adds nothing".
    pub neutral: f64,
    /// Direct's median response time, µs. If the tax is a ratio, this is 1.
    pub direct: f64,
    /// True if the tax is a time, in µs, and false if it is a ratio.
    pub is_time: bool,
}

impl Precision {
    /// True if the half-width of the interval is at most `share` × the tax, or at most `share` × direct's
    /// figure. The second limit is for gateways that cost almost nothing. The interval of such a gateway is
    /// never small compared with the tax, and the tax needs no more precision because it is tiny compared
    /// with direct's figure.
    pub fn is_within(&self, share: f64) -> bool {
        let tax = (self.estimate.estimate - self.neutral).abs();
        self.estimate.half_width().is_some_and(|half| half <= share * tax.max(self.direct))
    }

    /// True if the half-width of the interval is at most `limit` µs.
    pub fn is_within_us(&self, limit: f64) -> bool {
        self.estimate.half_width().is_some_and(|half| half <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_relative_to_the_tax_or_to_direct() {
        let known = |estimate: f64, half: f64| Precision {
            estimate: Estimate {
                low: Some(estimate - half),
                high: Some(estimate + half),
                ..Estimate::bare(estimate, 5)
            },
            neutral: 0.0,
            direct: 100.0,
            is_time: true,
        };
        assert!(known(400.0, 19.0).is_within(0.05) && !known(400.0, 21.0).is_within(0.05));
        assert!(known(0.5, 4.9).is_within(0.05) && !known(0.5, 5.1).is_within(0.05));
        let bare = Precision { estimate: Estimate::bare(400.0, 1), ..known(400.0, 0.0) };
        assert!(!bare.is_within(0.5) && !bare.is_within_us(1e9), "without an interval nothing is known");
        assert!(known(400.0, 5.0).is_within_us(5.0) && !known(400.0, 5.1).is_within_us(5.0));
    }
}
