//! Styles and scripts of the report page. The server's pages use them too.

/// The style sheet.
pub const STYLE: &str = include_str!("../assets/report/report.css");
/// The chart library, built by `scripts/chart-library.sh`.
pub const CHARTS: &str = include_str!("../assets/vendor/echarts.min.js");
/// The script that formats numbers.
pub const NUMBERS: &str = include_str!("../assets/report/numbers.js");
/// The script that defines the colours, fonts and marks of charts.
pub const LOOKS: &str = include_str!("../assets/report/looks.js");
