//! Retries. A disturbance of the machine can spoil a test that measures. Such a test may retry only if the
//! machine's own counters show a disturbance. A test that fails on a quiet machine is not retried.

use crate::disturbance::{Disturbance, Watch};
use crate::notes;
use std::time::Duration;

/// Maximum number of retries of an attempt. `scripts/run-tests.py` also limits retries of a test in one run
/// and in its last runs.
const MOST_RETRIES: usize = 2;

/// Returns the result of an attempt. If an attempt fails on a disturbed machine, tries again. Panics if an
/// attempt fails on an undisturbed machine, or if all attempts fail (inconclusive).
#[track_caller]
pub fn retry_if_disturbed<T>(attempt: impl FnMut() -> Result<T, String>) -> T {
    noted(Disturbance::is_significant, attempt)
}

/// Like [`retry_if_disturbed`], but retries only after a stall that lasted at least `least`.
#[track_caller]
pub fn retry_only_after_stall<T>(least: Duration, attempt: impl FnMut() -> Result<T, String>) -> T {
    noted(|disturbance| disturbance.overslept >= least, attempt)
}

/// Retries until an attempt succeeds. Notes each retry and the success.
#[track_caller]
fn noted<T>(excuses: impl Fn(&Disturbance) -> bool, attempt: impl FnMut() -> Result<T, String>) -> T {
    let (result, disturbance) = retry_until_success(&excuses, notes::note_retry, attempt);
    let is_disturbed = if excuses(&disturbance) { "disturbed" } else { "quiet" };
    notes::success(&format!("{is_disturbed}: {disturbance}"));
    result
}

/// Retries until an attempt succeeds. `note` receives the reason for each retry. Also returns how much the
/// machine was disturbed during the attempt that succeeded.
#[track_caller]
fn retry_until_success<T>(
    excuses: impl Fn(&Disturbance) -> bool,
    note: impl Fn(&str),
    mut attempt: impl FnMut() -> Result<T, String>,
) -> (T, Disturbance) {
    let mut seen = Vec::new();
    loop {
        let watch = Watch::start();
        let outcome = attempt();
        let disturbance = watch.end();
        let complaint = match outcome {
            Ok(found) => return (found, disturbance),
            Err(complaint) => complaint,
        };
        assert!(
            excuses(&disturbance),
            "{complaint}\nThe machine is not to blame: {disturbance}.{}",
            listed(&seen)
        );
        seen.push(format!("{disturbance}: {complaint}"));
        assert!(
            seen.len() <= MOST_RETRIES,
            "inconclusive: the machine was disturbed in every attempt.{}",
            listed(&seen)
        );
        note(&seen[seen.len() - 1]);
    }
}

fn listed(seen: &[String]) -> String {
    seen.iter().zip(1..).map(|(seen, number)| format!("\nattempt {number}: {seen}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Runs a test whose first `complaints` attempts fail. Returns the panic message, the number of attempts
    /// and the notes.
    fn attempts(excused: bool, complaints: usize) -> (Option<String>, usize, Vec<String>) {
        let (mut count, noted) = (0, RefCell::new(Vec::new()));
        let attempt = || {
            count += 1;
            if count > complaints { Ok(()) } else { Err(format!("complaint {count}")) }
        };
        let note = |seen: &str| noted.borrow_mut().push(seen.to_owned());
        let outcome = catch_unwind(AssertUnwindSafe(|| retry_until_success(|_| excused, note, attempt)));
        let words = outcome.err().map(|panic| *panic.downcast::<String>().expect("words"));
        (words, count, noted.into_inner())
    }

    #[test]
    fn a_failure_on_a_quiet_machine_is_not_retried() {
        let (words, count, noted) = attempts(false, 1);
        let words = words.expect("it fails");
        assert!(words.starts_with("complaint 1\n"), "{words}");
        assert_eq!((count, noted.len()), (1, 0));
    }

    #[test]
    fn retries_are_noted_and_limited() {
        for complaints in 0..=MOST_RETRIES {
            let (words, count, noted) = attempts(true, complaints);
            assert_eq!((words, count, noted.len()), (None, complaints + 1, complaints));
            assert!(noted.iter().zip(1..).all(|(seen, it)| seen.ends_with(&format!(": complaint {it}"))));
        }
        let (words, count, noted) = attempts(true, MOST_RETRIES + 1);
        let words = words.expect("it is inconclusive");
        assert!(words.starts_with("inconclusive: ") && words.ends_with(": complaint 3"), "{words}");
        assert_eq!((count, noted.len()), (MOST_RETRIES + 1, MOST_RETRIES));
    }
}
