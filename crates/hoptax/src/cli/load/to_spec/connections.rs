//! Where connections go.

use super::super::args::ConnectionArgs;
use super::super::url::{Url, split_authority};
use crate::cli::exit::BadInput;
use hoptax_load::Address;
use std::net::{SocketAddr, ToSocketAddrs as _};

/// The addresses to connect to, checked against the sources.
///
/// # Errors
/// If a name does not resolve, or an address cannot be reached from a source.
pub(super) fn addresses(args: &ConnectionArgs, url: &Url) -> Result<Vec<Address>, BadInput> {
    if let Some(path) = &args.unix {
        return unix(path).map(|address| vec![address]);
    }
    let addresses = match args.connect_to.as_slice() {
        [] => vec![resolve(&url.host, url.port)?.into()],
        typed => typed.iter().map(|typed| connect_to(typed)).collect::<Result<_, _>>()?,
    };
    for source in &args.source {
        for address in &addresses {
            match address {
                Address::Tcp(to) if to.is_ipv4() != source.is_ipv4() => {
                    return Err(BadInput(format!(
                        "--source {source} cannot connect to {to}: one is IPv4 and the other IPv6; use a source like the \
                         address, or --connect-to an address like the source"
                    )));
                }
                Address::Unix(path) => {
                    return Err(BadInput(format!(
                        "--source has no meaning for the Unix socket {}; leave it out",
                        path.display()
                    )));
                }
                Address::Tcp(_) => {}
            }
        }
    }
    Ok(addresses)
}

/// Longest path of a Unix socket: `sun_path` of `sockaddr_un` (unix(7)), without its closing zero.
const LONGEST_SOCKET_PATH: usize = 107;

fn unix(path: &std::path::Path) -> Result<Address, BadInput> {
    use std::os::unix::fs::FileTypeExt as _;
    let shown = path.display();
    if path.as_os_str().len() > LONGEST_SOCKET_PATH {
        return Err(BadInput(format!(
            "--unix {shown} is longer than the {LONGEST_SOCKET_PATH} bytes that the kernel takes; use a relative path or a \
             link"
        )));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(Address::Unix(path.to_owned())),
        Ok(_) => Err(BadInput(format!("--unix {shown} is not a socket; name the one that the server made"))),
        Err(error) => {
            Err(BadInput(format!("--unix {shown}: {error}; does the server run, and is the path right?")))
        }
    }
}

fn connect_to(typed: &str) -> Result<Address, BadInput> {
    if typed.starts_with("unix:") {
        let path = typed.trim_start_matches("unix:");
        return unix(std::path::Path::new(path));
    }
    let wrong = |help: String| BadInput(format!("--connect-to {typed} is not an address; {help}"));
    if let Ok(address) = typed.parse::<SocketAddr>() {
        return Ok(address.into());
    }
    if typed.contains("://") {
        return Err(wrong("write HOST:PORT, without a scheme".to_owned()));
    }
    // As curl has it: HOST:PORT:TO[:PORT].
    if let Some((_, to)) = typed.match_indices(':').nth(1).map(|(at, _)| typed.split_at(at + 1))
        && !typed.starts_with('[')
    {
        return Err(wrong(format!("write only where to connect: {to}")));
    }
    match split_authority(typed) {
        Some((host, Some(port))) => Ok(resolve(host, port)?.into()),
        Some((host, None)) => Err(wrong(format!("add the port: {host}:80"))),
        None => Err(wrong("write HOST:PORT, an IPv6 address in brackets".to_owned())),
    }
}

/// The address of a host: of several only the first, so that all connections go the same way.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, BadInput> {
    let mut found = (host, port)
        .to_socket_addrs()
        .map_err(|error| BadInput(format!("cannot resolve {host:?}: {error}; is the name right?")))?;
    found.next().ok_or_else(|| BadInput(format!("{host:?} has no address; use --connect-to ADDRESS:PORT")))
}
