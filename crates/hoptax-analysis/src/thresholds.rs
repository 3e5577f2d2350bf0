//! Thresholds that several findings, the search for a capacity and `hoptax load` share, so that all of them
//! doubt the same load.

pub use hoptax_plan::REACHED;

/// Share of the time that a thread spends on a CPU. Above this share, a worker of the generator cannot send
/// requests on time, and an instance of the upstream answers with a delay.
pub const BUSY: f64 = 0.85;
/// The p99 of the send lag ÷ the median response time. Above this ratio, delays in the generator are visible
/// in the figures.
pub const LATE: f64 = 0.1;
/// Mean number of responses per connection, over the connections that got responses. From this number on, a
/// connection without a response counts as not served, because chance does not explain it.
pub const SERVED: u64 = 3;
/// Share of redirects among the answers. Above this share, the figures describe the redirect.
pub const REDIRECTED: f64 = 0.5;
/// Share of failed, rejected or unexpected answers. Above this share, they change the figures: the slow end
/// of the distribution consists of them.
pub const DOUBTFUL: f64 = 0.001;
/// Share of such answers, and of answers that did not come from the upstream. Above this share, the case is
/// void.
pub const MOST: f64 = 0.5;
/// Status of a server that does not serve the requested host on this connection (RFC 9110, section 15.5.20).
pub const MISDIRECTED: u16 = 421;

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "on a CPU for more than {} of the time" percent(BUSY);
    BIAS "saturated above {} of a CPU" percent(BUSY);
    METHODOLOGY "above {} a finding says that the percentiles cover only the survivors" percent(DOUBTFUL);
    BIAS "errors are doubted above {}. No pack" percent(DOUBTFUL);
}
