//! Shows the figures of quiet windows. If some windows of a case were left out, the case has a second row.
//! The report also has one line about all windows of the run.

use crate::model::Model;
use crate::words::format::Scale;
use crate::words::table::{self, Cell, none};
use hoptax_analysis::Case;

/// Name of the row that shows a case's quiet windows.
pub(crate) const NAME: &str = "· quiet";

/// The case's row in the main table, computed only from quiet windows. `None` if no window was left out, or
/// if so many windows were left out that no trial remains.
pub(crate) fn row(case: &Case) -> Option<[Cell; 7]> {
    let quiet = case.quiet.as_ref().filter(|quiet| quiet.leaves_out() && quiet.trials > 0)?;
    let response = quiet.response_time.as_ref()?;
    let tax = quiet.tax.as_ref();
    Some([
        quiet.throughput.as_ref().map_or_else(none, |throughput| table::rate(&throughput.estimate)),
        table::time(response.p50.as_ref()),
        table::time(response.p99.as_ref()),
        table::added(tax.and_then(|tax| tax.added_p50.as_ref())),
        table::added(tax.and_then(|tax| tax.added_p99.as_ref())),
        tax.and_then(|tax| tax.cpu_us_per_request.as_ref())
            .map_or_else(none, |cpu| table::time(Some(&cpu.estimate))),
        none(),
    ])
}

/// Throughput in quiet windows, relative to direct.
pub(crate) fn ratio(case: &Case) -> Cell {
    let tax = case.quiet.as_ref().and_then(|quiet| quiet.tax.as_ref());
    table::ratio(tax.and_then(|tax| tax.throughput_ratio.as_ref()))
}

/// A line about the run's windows. `None` if no trial recorded steal.
pub(crate) fn line(model: &Model) -> Option<String> {
    let cases = || model.cases.iter().filter_map(|case| case.quiet.as_ref());
    let windows: u64 = cases().map(|quiet| quiet.windows).sum();
    let left_out: u64 = cases().map(|quiet| quiet.left_out).sum();
    Some(match (windows, left_out) {
        (0, _) => return None,
        (_, 0) => "All windows were quiet: the kernel reported no CPU time taken by the hypervisor.".into(),
        _ => format!(
            "{NAME}: leaves out windows where the hypervisor took CPU time and the windows next to them, {} \
            of all.",
            Scale::percent().value(left_out as f64 / windows as f64)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::fixture::*;
    use crate::{html, markdown, terminal};

    /// Three rounds of ten windows. The gateway's fifth window is slow. In this window, the hypervisor takes
    /// `stolen_ms` milliseconds of CPU time.
    fn run(stolen_ms: u64) -> Run {
        let trial = |who: &str, round: u32, usual_us: u64, fifth_us: u64, ms: u64| -> MadeTrial {
            let windows: Vec<Vec<u64>> =
                (0..10).map(|window| vec![if window == 4 { fifth_us } else { usual_us }; 100]).collect();
            via(who, round).windows_us(&windows).stolen_ms(&[0, 0, 0, 0, ms, 0, 0, 0, 0, 0])
        };
        let mut run = Run::closed(32);
        for round in 0..3 {
            run.push(trial("direct", round, 1000, 1000, 0).first());
            run.push(trial("direct", round, 1000, 1000, 0).last());
            run.push(trial("nginx", round, 1500, 70_000, stolen_ms));
        }
        run
    }

    #[test]
    fn every_format_shows_quiet_figures_below_those_of_all_windows() {
        let model = run(80).model();
        let text = terminal(&model, 80, false);
        fits(&text, 80);
        let row = text.lines().find(|line| line.starts_with("· quiet ")).expect("a row");
        assert!(row.contains("1.5 ms") && !row.contains("70"), "{text}");
        insta::assert_snapshot!(text);
        let wide = terminal(&model, 200, false);
        assert_eq!(wide.matches("\n· quiet ").count(), 1, "direct has lost no window: {wide}");

        let text = markdown(&model);
        let columns = |start: &str| {
            text.lines().find(|line| line.starts_with(start)).expect(start).matches('|').count()
        };
        assert_eq!(columns("| · quiet | 1,000"), columns("| gateway |"));
        insta::assert_snapshot!(text);

        let page = html(&model).expect("drawn");
        assert!(page.contains("· quiet</th>") && page.contains("10 % of all."));
    }

    #[test]
    fn one_line_says_that_all_windows_were_quiet() {
        let model = run(0).model();
        let line = line(&model).expect("there are windows");
        insta::assert_snapshot!(line);
        for text in [terminal(&model, 80, false), markdown(&model), html(&model).expect("drawn")] {
            assert!(one_line(&text).contains(&line), "{text}");
            assert!(!text.contains("· quiet"), "{text}");
        }
    }
}
