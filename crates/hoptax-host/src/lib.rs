//! Everything that depends on the operating system of this machine: processes and their guards, threads,
//! ports, CPUs, namespaces.
#![forbid(unsafe_code)]

pub mod cpus;
pub mod guard;
pub mod guarded;
pub mod idle;
pub mod kept_shares;
pub mod listeners;
pub mod log_files;
pub mod logs;
mod maps;
pub mod namespace;
pub mod ports;
pub mod private;
pub mod probe;
pub mod profile;
pub mod programs;
pub mod signals;
pub mod switches;
pub mod threads;
pub mod tree;
mod watched;

pub use watched::Watched;
