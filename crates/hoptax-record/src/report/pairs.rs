//! Gateways compared with each other.

use super::super::Metric;
use super::Load;
use serde::Serialize;

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
    /// Second − first.
    pub difference: PairDifference,
    /// p-value under the null hypothesis of no difference, adjusted for the number of pairs (Holm); absent
    /// with one round.
    pub p_value: Option<f64>,
    /// Number of rounds that both gateways have.
    pub rounds: u32,
    /// Whether the two gateways differ.
    pub verdict: PairVerdict,
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

/// A difference with the 95 % interval of this pair alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairDifference {
    /// The value.
    pub estimate: f64,
    /// Lower end; absent with one round.
    pub low: Option<f64>,
    /// Upper end; absent with one round.
    pub high: Option<f64>,
}

/// Verdict on two gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum PairVerdict {
    /// The two gateways differ.
    #[serde(rename = "distinguishable")]
    Distinguishable,
    /// The run cannot tell the two gateways apart.
    #[serde(rename = "not distinguishable")]
    NotDistinguishable,
}
