//! Limits of what counts as a difference.

/// Changes below this share of the first figure are never reported as differences. The memory layout of a
/// process alone can change figures by this much (T. Mytkowicz and others, "Producing wrong data without
/// doing anything obviously wrong!", ASPLOS 2009).
pub const LEAST_CHANGE: f64 = 0.01;

/// If nothing differs, at most this share of the verdicts on a whole family of differences is wrong. This
/// holds only for noise that is visible between the rounds of a run.
pub(crate) const ALPHA: f64 = 0.05;

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "exceeds the noise floor and {} of the bare gateway's own figure" percent(LEAST_CHANGE);
    METHODOLOGY "by more than `max(f, {})`, beyond chance" percent(LEAST_CHANGE);
    BIAS "**Comparisons overlook {} of change**" percent(LEAST_CHANGE);
    METHODOLOGY "in at most {} of comparisons is *any* row called wrongly" percent(ALPHA);
    METHODOLOGY "Student's t gives p < {} after Holm's correction" number(ALPHA);
    METHODOLOGY "exceeds {} of the smaller of the two gateways' figures" percent(LEAST_CHANGE);
}
