//! Capacity: the highest rate at which an objective holds for a contender, computed from the trials of a
//! search.

pub mod judge;
mod limit;
mod search;

pub use search::capacities;
