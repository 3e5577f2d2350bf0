//! What tests of several crates share: retries on a disturbed machine ([`retry_if_disturbed`]), limits
//! ([`unless_it_hangs`], [`wait_until`]), addresses for servers ([`own_loopback`]), and notes that `make
//! test` prints at its end ([`skip`]).
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod disturbance;
mod loopback;
mod notes;
mod retry;
mod wait;

pub use loopback::{own_listener, own_loopback, unused_address};
pub use notes::{note_retry, skip};
pub use retry::{retry_if_disturbed, retry_only_after_stall};
pub use wait::{unless_it_hangs, wait_for, wait_until};
