//! Style and scripts of the report's page that the server's pages are built from too.

/// The style.
pub const STYLE: &str = include_str!("../assets/report/report.css");
/// The chart library, built by `scripts/chart-library.sh`.
pub const CHARTS: &str = include_str!("../assets/vendor/echarts.min.js");
/// How numbers are written.
pub const NUMBERS: &str = include_str!("../assets/report/numbers.js");
/// What charts look like.
pub const LOOKS: &str = include_str!("../assets/report/looks.js");
