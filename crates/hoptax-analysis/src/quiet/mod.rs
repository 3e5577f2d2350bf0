//! Quiet windows: figures without the time in which the hypervisor disturbed the machine.
//!
//! On rented machines the hypervisor takes the CPU away in bursts, and the effect of a burst on a few requests can
//! outweigh the effect of a gateway on all. The rule that leaves windows out was fixed beforehand. It uses steal only
//! and treats direct and gateways alike: a rule that used response times would choose its result.
//! docs/concepts/simulations.md shows what it can and cannot do, with figures from this module's tests.

mod figures;
mod restrict;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod unfold;
mod windows;

pub use figures::QuietFigures;
pub(crate) use restrict::restrict;
pub use windows::{Quiet, needs_repeating};
