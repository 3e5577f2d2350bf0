//! `hoptax run --serve`: the run under way as a web page, beside those before it.

use crate::cli::serve::{page, token};
use hoptax_history::live::Board;
use hoptax_history::serve::{Options, ServeError, Server};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where the run is served, and to whom.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// Show the run in a browser too, while it goes on; its address is told before the run begins. Loopback, unless an
    /// address is given
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:0")]
    serve: Option<SocketAddr>,
    /// File with the token that browsers must show; beyond loopback one is made where there is no file
    #[arg(long, value_name = "FILE", requires = "serve")]
    token_file: Option<PathBuf>,
}

impl ServeArgs {
    /// What was asked for, looked at before anything starts; absent where nothing was.
    ///
    /// # Errors
    /// If the file holds no token.
    pub(super) fn read(&self) -> anyhow::Result<Option<Service>> {
        let service = |address| Ok(Service { address, token: token(self.token_file.as_deref(), address)? });
        self.serve.map(service).transpose()
    }
}

/// Where the run will be served.
#[derive(Debug)]
pub(super) struct Service {
    address: SocketAddr,
    token: Option<String>,
}

impl Service {
    /// Serves the runs below `root`, and the one on `board`, and tells where. The server's threads stay off the CPUs of
    /// `workers`.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub(super) fn start(self, root: &Path, board: Board, workers: &[u32]) -> Result<Server, ServeError> {
        let server = Server::start(Options {
            address: self.address,
            token: self.token.clone(),
            root: root.to_path_buf(),
            live: Some(board),
            keep_off: workers.to_vec(),
        })?;
        eprintln!("Live: {}", page(server.address(), "/live", self.token.as_deref()));
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
    fn an_address_stands_with_its_flag() {
        assert!(typed(&["p.yaml"]).args.read().expect("nothing is asked").is_none());
        let typed_alone = typed(&["--serve", "p.yaml"]);
        assert_eq!(typed_alone.plan.as_deref(), Some("p.yaml"));
        assert_eq!(typed_alone.args.serve, Some(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert_eq!(typed(&["--serve=[::1]:80"]).args.serve.map(|address| address.port()), Some(80));
        assert!(
            Typed::try_parse_from(["run", "--token-file", "f"]).is_err(),
            "there is nothing to show it to"
        );
    }
}
