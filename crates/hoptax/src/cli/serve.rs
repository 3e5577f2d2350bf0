//! `hoptax serve`.

use super::exit::{BadInput, Exit};
use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hoptax_history::serve::{Options, Server};
use hoptax_host::threads::StopSignals;
use hoptax_record::bounded;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Letters of a token at least: fewer could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Show all runs in a browser: list and search, reports, comparisons, trends, tags and notes.
///
/// Prints the address to open, and serves until Ctrl-C or SIGTERM. On loopback nobody else can reach it; elsewhere whoever asks
/// must show a token, which is made anew at each start unless a file holds one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 it was ended; 1 it cannot serve there; 2 the command line is wrong.")]
pub(super) struct Args {
    /// The directory that holds the run directories.
    #[arg(long, value_name = "DIR", default_value = "results")]
    root: PathBuf,

    /// Where to listen; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7300")]
    listen: SocketAddr,

    /// A file that holds the token to ask for: at least 16 letters on one line.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if !self.root.is_dir() {
            let root = self.root.display();
            let help =
                "name the one that holds run directories with --root, or measure first: hoptax run PLAN";
            return Err(BadInput(format!("there is no directory {root}\nhelp: {help}")).into());
        }
        let token = token(self.token_file.as_deref(), self.listen)?;
        let signals = StopSignals::catch()?;
        let options = Options {
            address: self.listen,
            token: token.clone(),
            root: self.root,
            live: None,
            keep_off: Vec::new(),
        };
        let server = Server::start(options)?;
        tell(server.address(), token.as_deref())?;
        signals.wait();
        Ok(Exit::Success)
    }
}

/// The token: the file's, or one made now where others can reach us.
///
/// # Errors
/// [`BadInput`] if the file holds none.
pub(super) fn token(file: Option<&Path>, listen: SocketAddr) -> anyhow::Result<Option<String>> {
    match file {
        Some(path) => read_token(path).map(Some),
        None if listen.ip().is_loopback() => Ok(None),
        None => {
            let mut bytes = [0; 24];
            SystemRandom::new()
                .fill(&mut bytes)
                .ok()
                .context("the system gives no random numbers for a token")?;
            Ok(Some(URL_SAFE_NO_PAD.encode(bytes)))
        }
    }
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text = bounded::read_text(path, bounded::TOKEN).map_err(|error| {
        BadInput(format!("cannot read the token in {shown}: {error}; choose another with --token-file"))
    })?;
    let token = text.trim();
    let is_good = token.len() >= SHORTEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_good {
        let help = "openssl rand -hex 16 makes one";
        let told = format!(
            "{shown} holds no token: one line of {SHORTEST_TOKEN} or more letters without spaces\nhelp: {help}"
        );
        return Err(BadInput(told).into());
    }
    Ok(token.to_owned())
}

/// Prints the address to open.
fn tell(address: SocketAddr, token: Option<&str>) -> anyhow::Result<()> {
    // At once: who reads the first line may not stay for the second.
    let text = format!("Serving at {}\nCtrl-C ends it.\n", page(address, "/", token));
    super::output::print(&text)
}

/// The address of a page; with a token the one by which a browser is let in.
pub(super) fn page(address: SocketAddr, path: &str, token: Option<&str>) -> String {
    let shown = token.map_or_else(String::new, |token| format!("?token={}", escaped(token)));
    format!("http://{address}{path}{shown}")
}

/// A token as a part of an address.
fn escaped(token: &str) -> String {
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
        assert_eq!(of("0123456789abcdef\n").expect("one").as_deref(), Some("0123456789abcdef"));
        assert!(of("short").is_err() && of("0123456789 abcdef").is_err() && of("").is_err());
        assert_eq!(token(None, here).expect("none is needed"), None);
        let (one, other) = (token(None, anywhere).expect("made"), token(None, anywhere).expect("made"));
        assert!(one.is_some() && one != other);
    }

    #[test]
    fn a_token_stands_in_an_address_as_one_part_of_it() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        assert_eq!(page(address, "/live", None), "http://127.0.0.1:80/live");
        assert_eq!(page(address, "/", Some("a&b=c d")), "http://127.0.0.1:80/?token=a%26b%3Dc%20d");
    }
}
