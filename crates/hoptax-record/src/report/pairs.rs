//! Gateways compared with each other.

use super::super::Metric;
use super::{Estimate, Load};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

/// Two gateways at one load point, compared in one metric, over the rounds that both have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewayPair {
    /// The load point.
    pub load: Load,
    /// Label of the gateway that the plan lists first.
    pub first: String,
    /// Label of the other gateway.
    pub second: String,
    /// The metric.
    pub metric: Metric,
    /// The second gateway's figure − the first gateway's figure. Its interval accounts for the number of
    /// pairs (Holm), and holds for another run of the same plan. If the difference is at most 1 % of the
    /// smaller of the two gateways' own figures (response time, throughput ratio, CPU time per request), the
    /// interval is at least ± this 1 %. In JSON, it has no number of trials.
    #[serde(serialize_with = "interval")]
    pub difference: Estimate,
    /// `difference` with the 95 % interval of this pair alone, without the 1 %.
    #[serde(skip)]
    pub alone: Estimate,
    /// p-value under the null hypothesis of no difference, adjusted for the number of pairs (Holm); absent
    /// with one round.
    pub p_value: Option<f64>,
    /// Number of rounds that both gateways have.
    pub rounds: u32,
    /// True if the interval of the difference excludes zero. In JSON, in words.
    #[serde(rename = "verdict", serialize_with = "verdict")]
    pub distinguishable: bool,
    /// True if both gateways are candidates for the answer.
    #[serde(skip)]
    pub competes: bool,
}

impl GatewayPair {
    /// True if this is the pair of these two gateways.
    pub fn is_of(&self, one: &str, other: &str) -> bool {
        (self.first == one && self.second == other) || (self.first == other && self.second == one)
    }

    /// The figure of `gateway` − the figure of the other gateway.
    pub fn difference_of(&self, gateway: &str) -> Estimate {
        self.minus_other(gateway, self.difference)
    }

    /// Like [`Self::difference_of`], with the interval of this pair alone.
    pub fn alone_of(&self, gateway: &str) -> Estimate {
        self.minus_other(gateway, self.alone)
    }

    fn minus_other(&self, gateway: &str, second_minus_first: Estimate) -> Estimate {
        if gateway == self.second {
            return second_minus_first;
        }
        let Estimate { estimate, low, high, trials } = second_minus_first;
        Estimate { estimate: -estimate, low: high.map(|high| -high), high: low.map(|low| -low), trials }
    }

    /// True if the figure of `gateway` is distinguishable from that of the other gateway, and larger.
    pub fn is_larger(&self, gateway: &str) -> bool {
        self.distinguishable && self.difference_of(gateway).estimate > 0.0
    }
}

/// The versions of one gateway at one load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Versions {
    /// The load point.
    pub load: Load,
    /// Name of the gateway: its pack and its features.
    pub name: String,
    /// The versions, in the plan's order.
    pub versions: Vec<Version>,
    /// Each measured version compared with the measured version before it. p-values are adjusted for the
    /// number of these changes (Holm).
    pub changes: Vec<GatewayPair>,
}

/// A version of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Label of the gateway.
    pub gateway: String,
    /// Name of the version: a number, a tag or a ref.
    pub name: String,
    /// The commit that the program was built from; absent for programs that hoptax did not build.
    pub commit: Option<String>,
}

fn interval<S: Serializer>(difference: &Estimate, serializer: S) -> Result<S::Ok, S::Error> {
    let mut members = serializer.serialize_struct("Interval", 3)?;
    members.serialize_field("estimate", &difference.estimate)?;
    members.serialize_field("low", &difference.low)?;
    members.serialize_field("high", &difference.high)?;
    members.end()
}

fn verdict<S: Serializer>(distinguishable: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *distinguishable { "distinguishable" } else { "not distinguishable" })
}
