//! Trials as the analysis reads them, and figures of one trial or of trials together.

pub(crate) mod counts;
pub(crate) mod latency_metric;
pub(crate) mod measuring_time;
pub(crate) mod merged;
pub(crate) mod metric;
pub(crate) mod pairs;
pub(crate) mod pooled;
pub(crate) mod source;
pub(crate) mod trial;
pub(crate) mod warm_ups;
