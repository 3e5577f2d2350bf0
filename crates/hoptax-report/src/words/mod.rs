//! Figures and findings in words, in tables and in sentences.

pub(crate) mod answer;
pub(crate) mod figures;
pub(crate) mod folded;
pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod measure;
pub(crate) mod over_load;
pub(crate) mod sentence;
pub(crate) mod sweeps;
pub(crate) mod table;
pub(crate) mod tail;
pub(crate) mod text;
pub(crate) mod void;
