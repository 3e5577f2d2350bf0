//! Work that mostly waits, on several threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Calls `run` for every item, on at most `at_once` threads. Returns the results in the order of the items.
pub fn concurrently<T: Sync, R: Send>(at_once: usize, items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (left, done) = (Mutex::new(items.iter().enumerate()), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..at_once.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((index, item)) = next else { return };
                    let result = run(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// The items of a pair wait for each other, so one thread alone would never end.
    #[test]
    fn items_run_at_once_and_their_results_keep_the_order() {
        let barrier = Barrier::new(2);
        let doubled = concurrently(2, &[1, 2, 3, 4], |item| {
            barrier.wait();
            item * 2
        });
        assert_eq!(doubled, [2, 4, 6, 8]);
        assert_eq!(concurrently(1, &[1, 2, 3], |item| item + 1), [2, 3, 4]);
        assert_eq!(concurrently(2, &[0; 0], |item| item + 1), [0; 0]);
    }
}
