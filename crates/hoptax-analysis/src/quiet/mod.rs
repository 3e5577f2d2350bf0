//! Quiet windows: figures from those parts of a trial in which the hypervisor left the machine alone.
//!
//! On rented machines the CPU is taken away in bursts, and what a burst does to a few requests can outweigh what a gateway
//! does to all. Windows are left out by a rule that was fixed beforehand, looks at steal and nothing else, and is the same
//! for direct and for gateways: a rule that looked at response times would choose its result. METHODOLOGY.md says what the
//! rule can and cannot do, with figures from simulations in this module's tests.

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
