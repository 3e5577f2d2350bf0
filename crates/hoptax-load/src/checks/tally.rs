//! Counts of failed checks. Their memory is bounded, no matter what the responses contain.

use super::compiled::{Checks, Failed, SAW_OTHERS};
use std::collections::BTreeMap;

/// Number of different values per check that are counted separately. All further values share one count.
const COUNTED_SEPARATELY: usize = 8;

/// Numbers of failed checks, by target, check and actual value.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailedChecks(BTreeMap<(u32, u16, u64), u64>);

impl FailedChecks {
    pub(crate) fn add(&mut self, target: u32, failed: Failed, times: u64) {
        let Failed { check, saw } = failed;
        if let Some(count) = self.0.get_mut(&(target, check, saw)) {
            *count += times;
            return;
        }
        let known = self.0.range((target, check, 0)..(target, check, SAW_OTHERS)).count();
        let saw = if known < COUNTED_SEPARATELY { saw } else { SAW_OTHERS };
        *self.0.entry((target, check, saw)).or_default() += times;
    }

    pub(crate) fn add_all(&mut self, others: &Self) {
        for (&(target, check, saw), &times) in &others.0 {
            self.add(target, Failed { check, saw }, times);
        }
    }

    /// Returns the number of failures for each description. `checks` must return the checks of a target.
    /// Failures with equal descriptions are added up.
    pub(crate) fn in_words<'c>(&self, checks: impl Fn(u32) -> &'c Checks) -> BTreeMap<String, u64> {
        let mut words = BTreeMap::new();
        for (&(target, check, saw), &times) in &self.0 {
            *words.entry(checks(target).describe(Failed { check, saw })).or_default() += times;
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::spec::Check;

    #[test]
    fn descriptions_are_bounded_and_no_count_is_lost() {
        let checks = Checks::new(&[Check::BodyLength { least: 5, most: 5 }]);
        let mut first = FailedChecks::default();
        for length in 100..200 {
            first.add(0, Failed { check: 1, saw: length }, 1);
        }
        first.add(0, Failed { check: 0, saw: 404 }, 3);
        let mut sum = FailedChecks::default();
        sum.add(0, Failed { check: 1, saw: 7 }, 1);
        sum.add(1, Failed { check: 0, saw: 404 }, 1);
        sum.add_all(&first);
        let words = sum.in_words(|_| &checks);
        assert_eq!(words.values().sum::<u64>(), 105);
        assert_eq!(words.len(), COUNTED_SEPARATELY + 2);
        let lines: Vec<String> = words.iter().map(|(text, count)| format!("{count}: {text}")).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
