//! Quiet windows: computes figures without the time in which the hypervisor disturbed the machine.
//!
//! On rented machines the hypervisor takes the CPU away in bursts. A burst affects only a few requests, but
//! this effect can be larger than the effect of a gateway on all requests. The rule that leaves out windows
//! was fixed before measuring. The rule looks only at steal, and it treats direct and gateways alike. A rule
//! that looked at response times could select the result. If roles are on several machines, only steal on the
//! machines that a trial's requests pass counts. So the gateway's machine does not matter for direct.
//! docs/concepts/simulations.md shows what the rule can and cannot do, with figures from the tests of this
//! module.

mod restrict;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod unfold;
mod windows;

pub(crate) use restrict::restrict;
pub use windows::{Quiet, needs_repeating};
