//! Output in the formats of other programs: fortio, HdrHistogram, and Kong's performance test framework.

mod fortio;
mod hgrm;
mod kong;

pub use fortio::{Facts, fortio};
pub use hgrm::hgrm;
pub use kong::kong;

use hoptax_analysis::Pooled;
use hoptax_format::spec::HttpVersion;
use hoptax_plan::Target;
use hoptax_record::RunRecord;

/// Converts a case of a run to a fortio result. The result covers all trials of the case. The URL is only the
/// requested path, because a run does not record the address on which a gateway listened.
///
/// # Errors
/// If a figure is not a number.
pub fn fortio_of_case(run: &RunRecord, case: &Pooled) -> serde_json::Result<String> {
    let point = &run.load[case.load.index];
    let trials = case.trials.len() as u32;
    fortio(&Facts {
        labels: &case.case,
        url: &Target::describe_all(&run.plan.targets),
        started_unix_ns: case.started_unix_ns,
        shape: &point.shape,
        requests: point.requests.map(|requests| requests * u64::from(trials)),
        duration: point.duration * trials,
        measured_ns: case.measured_ns,
        completed: case.completed,
        connections: point.connections,
        opened: case.opened,
        counts: &case.counts,
        response_time: &case.response_time,
        connect: &case.connect,
        http10: point.http == HttpVersion::Http10,
        keep_alive_off: point.requests_per_connection == Some(1),
        insecure: false,
        timeout_ns: run.plan.timeout.total.as_nanos() as u64,
    })
}

/// The file name of a case, without an extension. It consists of letters, digits and hyphens.
pub fn file_name(case: &str) -> String {
    let mut name = String::new();
    for letter in case.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() => name.push(letter.to_ascii_lowercase()),
            // A comma between thousands is removed. It does not become a hyphen.
            ',' if name.ends_with(|last: char| last.is_ascii_digit()) => {}
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
    }
    name.truncate(name.trim_end_matches('-').len());
    if name.is_empty() { "case".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::fixture::Run;
    use serde_json::Value;

    #[test]
    fn a_fortio_result_includes_all_trials() {
        let run = Run::steady(3, 100, &[("nginx", 150)]);
        let pooled = Pooled::all(&run.record, &run.trials);
        let text = fortio_of_case(&run.record, &pooled[1]).expect("drawn");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(told["Labels"], "nginx, closed loop, 32 connections");
        assert_eq!(told["DurationHistogram"]["Count"], pooled[1].response_time.len());
        assert_eq!(told["ActualDuration"], pooled[1].measured_ns);
        let p50 = told["DurationHistogram"]["Percentiles"][0]["Value"].as_f64().expect("a number");
        assert!((p50 - 150e-6).abs() < 1e-6, "{p50}");
        let all = run.record.load[0].duration * 3;
        assert_eq!(told["RequestedDuration"], hoptax_plan::units::show_duration(all));
    }

    #[test]
    fn names_of_files_are_plain() {
        for (case, name) in [
            ("nginx, closed loop, 32 connections", "nginx-closed-loop-32-connections"),
            (
                "direct, open loop, 1,000/s, jitter ±10 %, 8 connections",
                "direct-open-loop-1000-s-jitter-10-8-connections",
            ),
            ("../../etc/passwd", "etc-passwd"),
            ("é", "case"),
        ] {
            assert_eq!(file_name(case), name);
        }
    }
}
