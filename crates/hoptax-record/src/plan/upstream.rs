//! The service behind the gateways, and how to reach what already runs.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The service behind the gateways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upstream {
    /// `hoptax upstream`, started and stopped by the run.
    BuiltIn(BuiltInUpstream),
    /// One that already runs.
    Running(Running),
}

/// Settings of the built-in upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuiltInUpstream {
    /// Listeners.
    pub instances: u32,
    /// Status answered.
    pub status: u16,
    /// Headers added to every answer.
    pub headers: Vec<(String, String)>,
    /// Body answered.
    pub body: Body,
    /// How long each answer is held back.
    pub delay: Delay,
    /// Share of requests, 0 to 1, answered with 500 instead.
    pub failures: f64,
    /// First instance's port; absent where the kernel chose.
    pub port: Option<u16>,
}

/// Bytes of a request or an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// This many bytes of a fixed printable pattern.
    Size(u64),
    /// This text.
    Text(String),
    /// The content of a file, read once before anything starts.
    File(PathBuf),
}

/// How long an answer is held back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// Always the same.
    Fixed(Duration),
    /// Uniform between two bounds.
    Uniform {
        /// Least.
        from: Duration,
        /// Most.
        to: Duration,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: Duration,
    },
    /// One of several, each with its share; shares add up to 1.
    Choice(Vec<(f64, Duration)>),
}

/// An upstream that already runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// `http://host:port` or `https://host:port`, without a path.
    pub url: String,
    /// How one is let in.
    #[serde(default)]
    pub access: Access,
    /// A process whose CPU and memory (with its descendants') are watched.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Where it tells how many requests it has answered; without it there is no ledger.
    #[serde(default)]
    pub ledger: Option<ToldLedger>,
}

/// What it takes to be let in by something that already runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// TLS; absent for plain connections.
    pub tls: Option<TlsAccess>,
    /// File whose one line is a bearer token.
    pub token_file: Option<PathBuf>,
}

/// TLS towards something that already runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsAccess {
    /// Name (or address) that its certificate must be for.
    pub server_name: String,
    /// Certificates of the authorities that may have signed it, PEM; absent for those that the system trusts.
    pub authority: Option<PathBuf>,
    /// Shown to it.
    pub client_certificate: Option<CertificateFiles>,
}

/// A certificate chain and its private key, PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFiles {
    /// The chain, the client's own first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A count of requests that an upstream tells over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldLedger {
    /// Where, as `http://host:port`, when it is not the upstream's own address.
    pub url: Option<String>,
    /// Path, beginning with `/`.
    pub path: String,
    /// What the answer is.
    pub kind: SelectorKind,
    /// What of it is a count of requests; the ledger is their sum.
    pub select: Vec<String>,
}

impl ToldLedger {
    /// Path that is asked unless said otherwise: where Prometheus looks.
    pub const USUAL_PATH: &str = "/metrics";
}

/// What a number is read in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "selector-kind")]
#[serde(rename_all = "lowercase")]
pub enum SelectorKind {
    /// Text for Prometheus.
    #[default]
    Prometheus,
    /// A table with a line of names.
    Csv,
    /// A JSON document.
    Json,
    /// Any text.
    Regex,
}
