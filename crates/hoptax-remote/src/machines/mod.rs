//! Hosts that hoptax looks up or creates before a run: machines of Terraform, pods of Kubernetes.
//!
//! [`up()`] turns them into hosts that a command reaches. All other code knows only such hosts. Dropping the
//! returned [`Up`] removes what was created. [`down()`] removes what a killed run has left.

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
