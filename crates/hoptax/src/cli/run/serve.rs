//! `hoptax run --serve`: serves the run in progress and earlier runs in a browser.

use crate::cli::help;
use crate::cli::serve::{own_program, page, token};
use hoptax_history::live::Board;
use hoptax_history::serve::{Access, Options, ServeError, Server};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// Also show the run in a browser; prints the address before the run starts [default if no value: a free
    /// port on loopback]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:0")]
    serve: Option<SocketAddr>,
    #[arg(long, value_name = "FILE", requires = "serve", help = help::TOKEN_FILE)]
    token_file: Option<PathBuf>,
}

impl ServeArgs {
    /// The address and the token of the server. `None` if the user did not type `--serve`. Fails if the file
    /// contains no valid token.
    pub(super) fn read(&self) -> anyhow::Result<Option<Service>> {
        let service = |address| {
            Ok(Service { address, token: token(self.token_file.as_deref())?, program: own_program()? })
        };
        self.serve.map(service).transpose()
    }
}

#[derive(Debug)]
pub(super) struct Service {
    address: SocketAddr,
    token: String,
    program: PathBuf,
}

impl Service {
    /// Starts a server for the runs in `root` and for the run on `board`, and prints its address. The
    /// server's threads avoid the CPUs of the generator's `workers`. Fails if the server cannot listen on the
    /// address.
    pub(super) fn start(self, root: &Path, board: Board, workers: &[u32]) -> Result<Server, ServeError> {
        let server = Server::start(Options {
            address: self.address,
            access: Access::Token(self.token.clone()),
            root: root.to_path_buf(),
            live: Some(board),
            keep_off: workers.to_vec(),
            exe: self.program,
        })?;
        eprintln!("Live: {}", page(server.address(), "/live", Some(&self.token)));
        Ok(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Typed {
        plan: Option<String>,
        #[command(flatten)]
        args: ServeArgs,
    }

    fn typed(arguments: &[&str]) -> Typed {
        Typed::try_parse_from(std::iter::once(&"run").chain(arguments))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn serve_takes_its_address_after_an_equals_sign() {
        assert!(typed(&["p.yaml"]).args.read().expect("--serve is not typed").is_none());
        let typed_alone = typed(&["--serve", "p.yaml"]);
        assert_eq!(typed_alone.plan.as_deref(), Some("p.yaml"));
        assert_eq!(typed_alone.args.serve, Some(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert_eq!(typed(&["--serve=[::1]:80"]).args.serve.map(|address| address.port()), Some(80));
        assert!(
            Typed::try_parse_from(["run", "--token-file", "f"]).is_err(),
            "--token-file requires --serve"
        );
    }
}
