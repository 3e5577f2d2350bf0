//! nginx as a single process with a configuration of the test.

use crate::load::KilledOnDrop;
use crate::support::{PATIENCE, Scratch, wait_until};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A running nginx. Killing its only process stops everything.
pub(crate) struct Nginx {
    process: KilledOnDrop,
    scratch: Scratch,
}

impl Nginx {
    /// Starts nginx, which listens at `address`. `http` is the content of its block `http`; `ROOT` in it is
    /// its directory.
    pub(crate) fn start(address: SocketAddr, http: &str) -> Self {
        Self::start_with(&[], http, |_| TcpStream::connect(address).is_ok())
    }

    /// Like [`start`](Self::start), with these files in its directory. Waits until `is_ready` is true of this
    /// directory.
    pub(crate) fn start_with(files: &[(&str, &str)], http: &str, is_ready: impl Fn(&Path) -> bool) -> Self {
        let scratch = Scratch::new();
        for (name, content) in files {
            scratch.file(name, content);
        }
        let root = scratch.path().display().to_string();
        let config = format!(
            "daemon off; master_process off; pid {root}/nginx.pid; error_log {root}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ client_body_temp_path {root}/1; proxy_temp_path {root}/2;\n\
             fastcgi_temp_path {root}/3; uwsgi_temp_path {root}/4; scgi_temp_path {root}/5;\n{} }}\n",
            http.replace("ROOT", &root)
        );
        let config = scratch.file("nginx.conf", &config);
        let mut command = Command::new("nginx");
        command.arg("-p").arg(scratch.path()).arg("-c").arg(config);
        command.arg("-e").arg(scratch.path().join("error.log"));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut nginx = Self { process: KilledOnDrop(process.expect("nginx starts")), scratch };
        wait_until("nginx listens", PATIENCE, || {
            assert!(nginx.process.try_wait().expect("a child").is_none(), "{}", nginx.errors());
            is_ready(nginx.scratch.path())
        });
        nginx
    }

    /// A file in its directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(self.file("error.log")).unwrap_or_default()
    }
}
