//! The formats of `hoptax history` and of its changes.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Text for a terminal
    #[default]
    Terminal,
    /// JSON for programs
    Json,
}
