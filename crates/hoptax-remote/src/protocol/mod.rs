//! The messages between runner and agent, over standard input and output of a command.

pub(crate) mod files;
pub mod frame;
pub(crate) mod greeting;
pub(crate) mod inspection;
pub(crate) mod machine;
pub mod message;
pub(crate) mod offset;
pub(crate) mod receiver;
pub(crate) mod silence;

pub use greeting::Versions;
pub use inspection::{Inspection, Program};
pub use message::{RunId, Welcome};
pub use offset::Offset;
