//! `hoptax serve`.

use super::exit::{BadInput, Exit};
use super::help;
use super::results_dir::ResultsDir;
use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hoptax_history::serve::{Access, Options, Server};
#[cfg(target_os = "linux")]
use hoptax_host::threads::StopSignals;
use hoptax_record::bounded;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Minimum length of a token, in characters. Shorter tokens could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Show all runs in a browser: reports, comparisons, trends, notes
///
/// Prints the address, with the token that clients must send, and serves until Ctrl-C or SIGTERM.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 stopped by a signal; 1 cannot listen on the address; 2 the command line is \
        wrong."
)]
pub(super) struct Args {
    #[command(flatten)]
    results: ResultsDir,

    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7300")]
    listen: SocketAddr,

    #[arg(long, value_name = "FILE", help = help::TOKEN_FILE)]
    token_file: Option<PathBuf>,

    /// Only show runs. Without --token-file, everybody who can reach the address may read
    #[arg(long)]
    read_only: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let root = self.results.existing()?;
        let access = match (self.read_only, self.token_file.as_deref()) {
            (true, file) => Access::ReadOnly(file.map(read_token).transpose()?),
            (false, file) => Access::Token(token(file)?),
        };
        let signals = StopSignals::catch()?;
        let options = Options {
            address: self.listen,
            access: access.clone(),
            root,
            live: None,
            keep_off: Vec::new(),
            exe: own_program()?,
        };
        let server = Server::start(options)?;
        print_address(server.address(), access.token())?;
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

/// The running program. The server runs it to draw reports. Fails if the system does not say where it is.
pub(super) fn own_program() -> anyhow::Result<PathBuf> {
    // This path refers to the running program even if its file is replaced.
    #[cfg(target_os = "linux")]
    return Ok(PathBuf::from("/proc/self/exe"));
    #[cfg(not(target_os = "linux"))]
    std::env::current_exe().context("cannot find the program of hoptax")
}

/// The token that clients must send. It is read from `file`. Without `file`, it is random. Fails with
/// [`BadInput`] if `file` cannot be read or contains no valid token.
pub(super) fn token(file: Option<&Path>) -> anyhow::Result<String> {
    match file {
        Some(path) => read_token(path),
        None => {
            let mut bytes = [0; 24];
            SystemRandom::new().fill(&mut bytes).ok().context(
                "cannot create a token: the system returns no random numbers; give a token with --token-file",
            )?;
            Ok(URL_SAFE_NO_PAD.encode(bytes))
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
            "{shown} contains no valid token: it must be one line of {SHORTEST_TOKEN} or more ASCII \
             characters without spaces\nhelp: create a token with: openssl rand -hex 16"
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
    fn a_token_is_read_from_a_file_or_random() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        let of = |text: &str| {
            std::fs::write(&file, text).expect("written");
            token(Some(&file))
        };
        assert_eq!(of("0123456789abcdef\n").expect("a token"), "0123456789abcdef");
        assert!(of("short").is_err() && of("0123456789 abcdef").is_err() && of("").is_err());
        let (one, other) = (token(None).expect("made"), token(None).expect("made"));
        assert!(one.len() >= SHORTEST_TOKEN && one != other);
    }

    #[test]
    fn a_token_in_a_url_is_percent_encoded() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        assert_eq!(page(address, "/live", None), "http://127.0.0.1:80/live");
        assert_eq!(page(address, "/", Some("a&b=c d")), "http://127.0.0.1:80/?token=a%26b%3Dc%20d");
    }
}
