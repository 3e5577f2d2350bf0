//! Hosts that hoptax looks up or creates before a run: machines of Terraform, pods of Kubernetes.
//!
//! [`up()`] turns them into hosts that a command reaches. Everything else knows only those. What was created
//! is removed when the returned [`Up`] is dropped, and [`down()`] removes what a killed run has left.

mod applied;
mod cluster;
mod command;
mod kubernetes;
mod objects;
mod outputs;
mod pods;
mod setup;
mod terraform;
mod up;

pub use setup::Setup;
pub use up::{Up, down, up};
