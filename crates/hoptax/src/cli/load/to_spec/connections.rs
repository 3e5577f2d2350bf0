//! Connection options: the addresses to connect to.

use super::super::args::{Args, ConnectionArgs};
use super::super::url::{Url, split_authority};
use super::proxy::Proxy;
use crate::cli::exit::BadInput;
use hoptax_format::Address;
use hoptax_format::spec::{HttpVersion, MOST_IN_FLIGHT, Retry, TargetSpec, is_idempotent};
use hoptax_load::names;
use std::net::SocketAddr;

/// The addresses to connect to. Host names are resolved to addresses.
///
/// # Errors
/// If a name does not resolve, or if an address and a source address are not both IPv4 or both IPv6.
pub(super) fn addresses(
    args: &ConnectionArgs,
    url: &Url,
    proxy: Option<&Proxy>,
) -> Result<Vec<Address>, BadInput> {
    if let Some(path) = &args.unix {
        return unix(path).map(|address| vec![address]);
    }
    let addresses = match (args.connect_to.as_slice(), proxy) {
        ([], Some(proxy)) => resolve(args, &proxy.host, proxy.port)?,
        ([], None) => resolve(args, &url.host, url.port)?,
        (typed, _) => {
            let each = typed.iter().map(|typed| connect_to(args, typed)).collect::<Result<Vec<_>, _>>()?;
            each.concat()
        }
    };
    for source in &args.source {
        for address in &addresses {
            match address {
                Address::Tcp(to) if to.is_ipv4() != source.is_ipv4() => {
                    return Err(BadInput(format!(
                        "--source {source} cannot connect to {to}: one is IPv4, the other IPv6; change \
                         --source, or choose another address with --connect-to"
                    )));
                }
                Address::Unix(path) => {
                    return Err(BadInput(format!(
                        "--source does not apply to the Unix socket {}; leave it out",
                        path.display()
                    )));
                }
                Address::Tcp(_) => {}
            }
        }
    }
    Ok(addresses)
}

/// Checks the number of streams.
///
/// # Errors
/// If there are several streams without HTTP/2, too many requests in flight, or more streams than requests
/// that a connection may carry.
pub(super) fn check_streams(args: &Args) -> Result<(), BadInput> {
    let (streams, connections) = (args.connection.streams, args.load.connections);
    if streams == 1 {
        return Ok(());
    }
    let in_flight = u64::from(streams) * u64::from(connections);
    if args.connection.http != HttpVersion::Http2 {
        return Err(BadInput(format!(
            "--streams {streams} needs HTTP/2, because HTTP/1 sends one request at a time on a connection; \
             add --http 2, or use more connections (-c {in_flight})"
        )));
    }
    if in_flight > MOST_IN_FLIGHT {
        return Err(BadInput(format!(
            "{connections} connections with --streams {streams} are {in_flight} requests in flight; use at \
             most {MOST_IN_FLIGHT}"
        )));
    }
    let (most, option) = match (args.connection.no_keepalive, args.connection.requests_per_connection) {
        (true, _) => (1, "--no-keepalive".to_owned()),
        (false, Some(most)) => (most, format!("--requests-per-connection {most}")),
        (false, None) => return Ok(()),
    };
    if most < streams {
        return Err(BadInput(format!(
            "with {option}, a connection never has the {streams} requests in flight of --streams {streams}; \
             use at most --streams {most}, or leave out {option}"
        )));
    }
    Ok(())
}

/// Which requests are sent again.
///
/// # Errors
/// If retries were requested, but no target has an idempotent method.
pub(super) fn retry(args: &ConnectionArgs, targets: &[TargetSpec]) -> Result<Retry, BadInput> {
    if args.retry == Retry::IdleClose && !targets.iter().any(|target| is_idempotent(&target.method)) {
        let method = targets.first().map_or("these", |target| target.method.as_str());
        return Err(BadInput(format!(
            "--retry idle-close has no effect on {method} requests, because sending them twice could change \
             data twice; leave it out, or use GET, HEAD, OPTIONS, PUT, DELETE or TRACE"
        )));
    }
    Ok(args.retry)
}

/// Maximum length of the path of a Unix socket in bytes: `sun_path` in unix(7), without the final zero.
const LONGEST_SOCKET_PATH: usize = 107;

fn unix(path: &std::path::Path) -> Result<Address, BadInput> {
    use std::os::unix::fs::FileTypeExt as _;
    let shown = path.display();
    if path.as_os_str().len() > LONGEST_SOCKET_PATH {
        return Err(BadInput(format!(
            "--unix {shown} is longer than the {LONGEST_SOCKET_PATH} bytes that the kernel accepts; use a \
             relative path or a symbolic link"
        )));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(Address::Unix(path.to_owned())),
        Ok(_) => {
            Err(BadInput(format!("--unix {shown} is not a socket; name the socket that the server created")))
        }
        Err(error) => {
            Err(BadInput(format!("--unix {shown}: {error}; check the path, and that the server is running")))
        }
    }
}

fn connect_to(args: &ConnectionArgs, typed: &str) -> Result<Vec<Address>, BadInput> {
    if typed.starts_with("unix:") {
        let path = typed.trim_start_matches("unix:");
        return unix(std::path::Path::new(path)).map(|address| vec![address]);
    }
    let wrong = |help: String| BadInput(format!("--connect-to {typed} is not a valid address; {help}"));
    if let Ok(address) = typed.parse::<SocketAddr>() {
        return Ok(vec![address.into()]);
    }
    if typed.contains("://") {
        return Err(wrong("use HOST:PORT, without a scheme".to_owned()));
    }
    // The user typed the syntax of curl: HOST1:PORT1:HOST2:PORT2.
    if let Some((_, to)) = typed.match_indices(':').nth(1).map(|(at, _)| typed.split_at(at + 1))
        && !typed.starts_with('[')
    {
        return Err(wrong(format!("use only the address to connect to: {to}")));
    }
    match split_authority(typed) {
        Some((host, Some(port))) => resolve(args, host, port),
        Some((host, None)) => Err(wrong(format!("add the port: {host}:80"))),
        None => Err(wrong("use HOST:PORT, with an IPv6 address in brackets".to_owned())),
    }
}

/// The addresses of a host to connect to. Prints a note if it has several.
fn resolve(args: &ConnectionArgs, host: &str, port: u16) -> Result<Vec<Address>, BadInput> {
    let found = names::find(host, port, args.resolve, args.source.first().copied()).map_err(|error| {
        BadInput(format!(
            "cannot resolve {host:?}: {error}; check the name, or use --connect-to ADDRESS:PORT"
        ))
    })?;
    if let Some(note) = found.note(host) {
        eprintln!("note: {note}");
    }
    if found.used.is_empty() {
        // The load fails, and its error names all these addresses.
        return Ok(found.refused.into_iter().map(|(address, _)| address.into()).collect());
    }
    Ok(found.used.into_iter().map(Address::from).collect())
}
