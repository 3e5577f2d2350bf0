//! Pipy.

use super::{cases, complaint, over_http2, pack};

/// Pipy's language has JavaScript's syntax, so Node.js can check it.
#[test]
fn pipys_script_is_javascript() {
    // Node.js starts slowly, so only some cases are checked: without features, with all features, and with
    // each feature alone.
    let with_log = cases("pipy").into_iter().filter(|case| case.upstreams == 2 && case.access_log);
    for case in with_log.chain(over_http2("pipy")) {
        let script = case.text("main.js");
        assert_eq!(complaint("node", &["--check", "-"], script), None, "{}\n{script}", case.what);
    }
}

/// With a constant, Pipy compresses for clients that do not accept gzip too.
#[test]
fn compresses_only_for_clients_that_accept_it() {
    for case in cases("pipy") {
        let script = case.text("main.js");
        assert_eq!(script.contains(".compressHTTP(() => "), case.has("gzip"), "{}", case.what);
        assert!(!script.contains("compressHTTP('gzip')"), "{}", case.what);
    }
}

/// `docs/reference/api/Configuration`: `demuxHTTP` recognizes HTTP/2, and `acceptTLS` selects from `alpn`.
#[test]
fn selects_http2_by_alpn() {
    for case in over_http2("pipy") {
        let script = case.text("main.js");
        assert_eq!(script.contains("alpn: ['h2', 'http/1.1'],"), case.has("tls"), "{}", case.what);
        assert_eq!(case.reports("alpn h2, http/1.1"), case.has("tls"), "{}", case.what);
        assert!(script.contains("delete headers['transfer-encoding']"), "{}", case.what);
    }
}

/// The command sometimes prints its version and then hangs.
#[test]
fn its_version_command_has_a_time_limit() {
    let command = &pack("pipy").manifest().version.command;
    assert_eq!(command[..2], ["timeout", "2"], "{command:?}");
}
