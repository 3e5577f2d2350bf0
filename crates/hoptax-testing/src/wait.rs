//! Waiting with a limit. This does not measure, so nothing is retried.

use crate::disturbance::Watch;
use crate::notes::note_retry;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Shortest and longest sleep between two looks at a condition.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Waits until a condition is true; panics after `bound`.
#[track_caller]
pub fn wait_until(what: &str, bound: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, bound, || condition().then_some(()));
}

/// Like [`wait_until`], for a value. Returns the value as soon as there is one.
#[track_caller]
pub fn wait_for<T>(what: &str, bound: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        let waited = begun.elapsed();
        assert!(waited < bound, "not within {bound:?}: {what}");
        // Some conditions read all of `/proc`. This sleep leaves the CPU to the process under test, and makes
        // a long wait longer by a twentieth at most.
        thread::sleep((waited / 20).clamp(SHORTEST_SLEEP, LONGEST_SLEEP));
    }
}

/// Runs `work` on its own thread. Panics if it takes longer than `most` although the machine was not stalled
/// meanwhile.
#[track_caller]
pub fn unless_it_hangs<T: Send + 'static>(most: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let working = thread::spawn(move || {
        let _ = send.send(work());
    });
    loop {
        let watch = Watch::start();
        match receive.recv_timeout(most) {
            Ok(result) => return result,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                std::panic::resume_unwind(working.join().expect_err("it sends unless it panics"))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let disturbance = watch.end();
                // A delay of a few milliseconds does not explain a timeout of minutes.
                assert!(
                    disturbance.overslept > most / 2,
                    "it hangs: no result in {most:?}, with {disturbance}"
                );
                note_retry(&format!("keeps waiting: {disturbance}"));
            }
        }
    }
}
