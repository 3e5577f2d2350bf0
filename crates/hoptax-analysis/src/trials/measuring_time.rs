//! How long a run measured.

use hoptax_format::clock::SECOND;
use hoptax_record::TrialRecord;

/// The time from the start of the first trial to the end of the last trial, s. It includes everything between
/// the trials, such as warm-ups, pauses and starts of generators, because more rounds need this time too.
/// Steps of searches are left out, because no tax is computed from them. Absent if no trial has a record of
/// the generator.
pub(crate) fn seconds<'a>(records: impl IntoIterator<Item = &'a TrialRecord>) -> Option<f64> {
    let in_rounds = records.into_iter().filter(|record| record.step.is_none());
    let measured = in_rounds.filter_map(|record| record.load_record.as_ref());
    let span =
        |load: &hoptax_format::record::LoadRecord| (load.started_ns, load.started_ns + load.measured_ns);
    let whole = |(start, end): (u64, u64), next: (u64, u64)| (start.min(next.0), end.max(next.1));
    let (start, end) = measured.map(span).reduce(whole)?;
    Some((end - start) as f64 / SECOND as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, via};

    #[test]
    fn is_the_time_from_the_first_trial_to_the_last_trial() {
        let mut run = Run::closed(1);
        assert_eq!(seconds(&run.trials), None);
        run.push(via("direct", 0).first().at_s(10.0)).push(via("nginx", 0).at_s(12.5));
        assert_eq!(seconds(&run.trials), Some(3.5), "trials take one second");
        run.push(via("nginx", 1).at_s(40.0).step(500.0));
        assert_eq!(seconds(&run.trials), Some(3.5), "a search is no part of it");
    }
}
