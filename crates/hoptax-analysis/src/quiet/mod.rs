//! Quiet windows: computes figures without the time in which the hypervisor disturbed the machine.
//!
//! On rented machines the hypervisor takes the CPU away in bursts. The effect of a burst on a few requests can be
//! larger than the effect of a gateway on all. The rule that leaves out windows was fixed before measuring. It looks
//! only at steal and treats direct and gateways alike, because a rule that looked at response times could select the
//! result. docs/concepts/simulations.md shows what the rule can and cannot do, with figures from the tests of this
//! module.

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
