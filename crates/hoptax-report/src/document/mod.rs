//! Converts figures of the analysis for the JSON documents. Each topic has its own file.

mod hosts;
mod profiles;

pub(super) use hosts::hosts;
pub use hosts::leg;
pub(super) use profiles::{difference, profile};
