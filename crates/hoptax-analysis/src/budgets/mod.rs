//! Budgets, and the limits that decide them.

pub(crate) mod budget;
pub(crate) mod limits;
pub(crate) mod start_budget;
