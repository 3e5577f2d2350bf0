//! The finding about profiling passes.

use super::{CODE, DISTURBED, LEAST_DISTURBED, QUIETER, about_run, is_taken};
use crate::checks::{Concerns, Figures, Finding, MANY, Severity, evidence, percent};
use hoptax_record::HostUsage;
use hoptax_record::profile::PassRecord;

/// The finding about passes that the hypervisor disturbed. The profiler is a process outside of the run, so
/// CPU time of such processes does not count.
pub fn of_passes(passes: &[PassRecord]) -> Option<Finding> {
    let known: Vec<Vec<&HostUsage>> = passes.iter().map(machines).filter(|hosts| !hosts.is_empty()).collect();
    let disturbed = known.iter().filter(|hosts| hosts.iter().any(|host| is_taken(host))).count();
    let worst = known.iter().flatten().map(|host| host.steal).fold(0.0, f64::max);
    let is_more = |share: f64| disturbed as f64 > share * known.len() as f64;
    let (severity, so) = match () {
        () if disturbed >= LEAST_DISTURBED && is_more(DISTURBED) => {
            (Severity::Void, " The times per request are those of a disturbed machine.")
        }
        () if is_more(MANY) => (Severity::Warning, ""),
        () if disturbed > 0 => (Severity::Note, ""),
        () => return None,
    };
    let evidence = evidence([
        ("passes", known.len().into()),
        ("noisy_passes", disturbed.into()),
        ("worst_steal", worst.into()),
    ]);
    Some(Finding {
        concerns: Concerns { figures: Figures::Profiles, answer: false },
        evidence,
        message: format!(
            "The hypervisor took CPU time in {disturbed} of {} profiling passes, up to {} of all CPU time.{so}",
            known.len(),
            percent(worst)
        ),
        advice: QUIETER.into(),
        ..about_run(CODE, severity)
    })
}

fn machines(pass: &PassRecord) -> Vec<&HostUsage> {
    pass.host.iter().chain(pass.hosts.values()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::profiles::{PLAIN, passes};

    #[test]
    fn void_if_too_many_passes_were_disturbed() {
        let (note, warning, void) = (Some(Severity::Note), Some(Severity::Warning), Some(Severity::Void));
        for (noisy, expected) in [(0, None), (1, note), (2, note), (3, warning), (4, void)] {
            let mut all: Vec<PassRecord> = (0..4).flat_map(|seed| passes("nginx", &PLAIN, seed)).collect();
            assert_eq!((all.len(), of_passes(&all)), (24, None), "runs of older versions");
            for (at, pass) in all.iter_mut().enumerate() {
                let steal = if at < noisy { 0.06 } else { 0.0 };
                pass.host = Some(HostUsage { steal, foreign: 0.5, ..HostUsage::default() });
            }
            let found = of_passes(&all);
            assert_eq!(found.as_ref().map(|one| one.severity), expected, "{noisy} of 24: {found:?}");
        }
    }
}
