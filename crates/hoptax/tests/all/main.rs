//! The one integration binary: the real `hoptax` binary against real gateways.

mod load;
mod support;
