//! The one integration binary: the real `hoptax` binary against real gateways.

mod report;
mod support;
