//! `hoptax serve`.

use super::exit::{BadInput, Exit};
use super::help;
use super::results_dir::ResultsDir;
use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hoptax_history::serve::{Options, Server};
#[cfg(target_os = "linux")]
use hoptax_host::threads::StopSignals;
use hoptax_record::bounded;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Minimum length of a token, in characters. Shorter tokens could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Show all runs in a browser: list, search, reports, comparisons, trends, tags and notes
///
/// Prints the address to open, and serves until Ctrl-C or SIGTERM. On a loopback address, all local users have access,
/// and nobody else. On any other address, clients must send a token: the token in --token-file, or a random token that
/// is printed at the start.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 stopped by a signal; 1 cannot listen on the address; 2 the command line is wrong."
)]
pub(super) struct Args {
    #[command(flatten)]
    results: ResultsDir,

    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7300")]
    listen: SocketAddr,

    #[arg(long, value_name = "FILE", help = help::TOKEN_FILE)]
    token_file: Option<PathBuf>,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let root = self.results.existing()?;
        let token = token(self.token_file.as_deref(), self.listen)?;
        let signals = StopSignals::catch()?;
        let options =
            Options { address: self.listen, token: token.clone(), root, live: None, keep_off: Vec::new() };
        let server = Server::start(options)?;
        print_address(server.address(), token.as_deref())?;
        signals.wait();
        Ok(Exit::Success)
    }
}

/// Without handlers, the signals end the process at once.
#[cfg(not(target_os = "linux"))]
struct StopSignals;

#[cfg(not(target_os = "linux"))]
impl StopSignals {
    fn catch() -> anyhow::Result<Self> {
        Ok(Self)
    }

    fn wait(self) {
        loop {
            std::thread::park();
        }
    }
}

/// The token that clients must send. It is read from `file`. Without `file`, there is no token for a loopback address,
/// and a random token for any other address.
///
/// # Errors
/// [`BadInput`] if `file` cannot be read or contains no valid token.
pub(super) fn token(file: Option<&Path>, listen: SocketAddr) -> anyhow::Result<Option<String>> {
    match file {
        Some(path) => read_token(path).map(Some),
        None if listen.ip().is_loopback() => Ok(None),
        None => {
            let mut bytes = [0; 24];
            SystemRandom::new().fill(&mut bytes).ok().context(
                "cannot create a token: the system returns no random numbers; give a token with --token-file",
            )?;
            Ok(Some(URL_SAFE_NO_PAD.encode(bytes)))
        }
    }
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text = bounded::read_value(path, bounded::TOKEN).map_err(|error| {
        BadInput(format!("cannot read the token in {shown}: {error}; choose another file with --token-file"))
    })?;
    let token = text.trim();
    let is_good = token.len() >= SHORTEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_good {
        return Err(BadInput(format!(
            "{shown} contains no valid token: it must be one line of {SHORTEST_TOKEN} or more ASCII characters without \
             spaces\nhelp: create a token with: openssl rand -hex 16"
        ))
        .into());
    }
    Ok(token.to_owned())
}

fn print_address(address: SocketAddr, token: Option<&str>) -> anyhow::Result<()> {
    // Print both lines with one write, because a script may close the pipe after it has read the first line.
    let text = format!("Serving at {}\nPress Ctrl-C to stop.\n", page(address, "/", token));
    super::output::print(&text)
}

/// URL of a page. With a token, opening the URL logs the browser in.
pub(super) fn page(address: SocketAddr, path: &str, token: Option<&str>) -> String {
    let query = token.map_or_else(String::new, |token| format!("?token={}", percent_encoded(token)));
    format!("http://{address}{path}{query}")
}

fn percent_encoded(token: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    token
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_there_is_always_a_token() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        let (here, anywhere) = (SocketAddr::from(([127, 0, 0, 1], 80)), SocketAddr::from(([0, 0, 0, 0], 80)));
        let of = |text: &str| {
            std::fs::write(&file, text).expect("written");
            token(Some(&file), anywhere)
        };
        assert_eq!(of("0123456789abcdef\n").expect("a token").as_deref(), Some("0123456789abcdef"));
        assert!(of("short").is_err() && of("0123456789 abcdef").is_err() && of("").is_err());
        assert_eq!(token(None, here).expect("no token is needed"), None);
        let (one, other) = (token(None, anywhere).expect("made"), token(None, anywhere).expect("made"));
        assert!(one.is_some() && one != other);
    }

    #[test]
    fn a_token_in_a_url_is_percent_encoded() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        assert_eq!(page(address, "/live", None), "http://127.0.0.1:80/live");
        assert_eq!(page(address, "/", Some("a&b=c d")), "http://127.0.0.1:80/?token=a%26b%3Dc%20d");
    }
}
