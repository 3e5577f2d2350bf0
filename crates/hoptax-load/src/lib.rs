//! The load engine: what is asked of it ([`spec`]), what it answers ([`record`]), and the event loops on which the
//! generator, the built-in upstream and the hops all stand ([`event_loop`]).
//!
//! Depends on `hoptax-wire` alone. Knows no gateways, plans or reports.

pub mod clock;
pub mod event_loop;
pub mod histogram;
pub mod random;
pub mod record;
pub mod spec;
