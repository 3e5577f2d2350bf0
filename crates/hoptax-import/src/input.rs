//! Options of an import, and its error.

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An access log, one request per line.
    Log,
    /// An HTTP archive, as browsers save it.
    Har,
    /// curl command lines, as browsers copy them.
    Curl,
    /// An OpenAPI 3 document in JSON or YAML.
    OpenApi,
}

/// How to read the files and to fold the requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Format of the log: a name of [`FORMATS`](crate::FORMATS), or a format string of nginx, Apache or
    /// Envoy. If absent, it is detected.
    pub format: Option<String>,
    /// Largest number of targets. The other classes become one target per method.
    pub top: usize,
    /// Whether values in queries are copied. Otherwise they are replaced.
    pub keep_queries: bool,
    /// Whether request bodies of HAR files are copied. Otherwise only their sizes are kept.
    pub keep_bodies: bool,
    /// Factor to multiply the rate of the log by.
    pub scale: f64,
    /// Seconds into which the time of the log is compressed.
    pub seconds: f64,
    /// The only host whose requests are read. If absent, this is the most frequent host of a HAR file, and
    /// every host of other files.
    pub host: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            top: 50,
            keep_queries: false,
            keep_bodies: false,
            scale: 1.0,
            seconds: 10.0,
            host: None,
        }
    }
}

/// Why a file cannot be imported: what is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(String);

impl ImportError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
