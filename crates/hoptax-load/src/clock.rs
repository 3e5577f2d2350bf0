//! The clock of the engine. A test can stop it for its own thread.

#[cfg(not(test))]
pub(crate) use hoptax_format::clock::now;
#[cfg(test)]
pub(crate) use stoppable::{now, skip, stop};

#[cfg(test)]
mod stoppable {
    use hoptax_format::clock;
    use std::cell::Cell;

    thread_local! {
        static SKIPPED: Cell<u64> = const { Cell::new(0) };
        static STOPPED: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// How far each reading advances a stopped clock, nanoseconds.
    const LOOK: u64 = 10_000;

    pub(crate) fn now() -> u64 {
        match STOPPED.get() {
            Some(stopped) => {
                skip(LOOK);
                stopped + SKIPPED.get()
            }
            None => clock::now() + SKIPPED.get(),
        }
    }

    /// Stops this thread's clock. From then on, the clock advances only when it is read (by `LOOK`) or by
    /// [`skip`]. A slow or busy machine then has no effect on a test.
    pub(crate) fn stop() {
        STOPPED.set(Some(clock::now()));
    }

    /// Advances this thread's clock, so that tests do not have to wait.
    pub(crate) fn skip(nanoseconds: u64) {
        SKIPPED.set(SKIPPED.get() + nanoseconds);
    }
}
