//! Reads plans from YAML and checks them. A plan that has been read has the types of [`hoptax_record::plan`].
//!
//! `raw` mirrors the YAML. `meaning` converts it to those types, or to errors that show a line, a column
//! and a fix. Code outside this crate does not need to know YAML, units or defaults.
#![forbid(unsafe_code)]

pub mod calls;
mod de;
mod error;
pub mod event_streams;
mod fixing;
mod hop_delay;
mod host;
mod image;
pub mod llm;
mod meaning;
mod node;
mod objective;
mod pack_info;
mod parse;
mod proto;
mod raw;
pub mod selector;
pub mod stages;
mod target;
pub mod units;

pub use error::{PlanError, PlanErrors};
pub use hop_delay::{
    LONGEST_HOP_DELAY, LONGEST_WARMING, MOST_WARMING_REQUESTS, SHORTEST_WARMING, check_hop_delay,
};
pub use host::{commands, is_plain_word, kubectl, shown_words};
pub use image::check_image;
pub use meaning::tail_obstacle;
pub use objective::objective;
pub use pack_info::{ClientHttp2, LlmGateway, PackInfo, variant_name};
pub use parse::{
    BudgetContext, Context, LoadError, TEMPLATE, load, load_budget, load_targets, parse, parse_answer,
    parse_budget, parse_targets, read_as,
};
pub use proto::{Method, Proto, Service};
pub use raw::schema;
pub use target::Targets;

// A plan that has been read has the types of its record.
pub use hoptax_record::plan::*;
pub use hoptax_record::{Metric, Quantity};

#[cfg(test)]
mod tests;
