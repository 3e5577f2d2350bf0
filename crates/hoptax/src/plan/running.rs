//! Upstreams and gateways that already run: where they are, how one is let in, and where they tell their counts.

use super::selector::SelectorKind;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
