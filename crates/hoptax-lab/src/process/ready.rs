//! Readiness checks over TLS, and whether the gateway itself passed its readiness check.

use crate::features::{Change, SERVER_NAME};
use crate::packs::manifest::{Ready, ReadyPort};
use hoptax_format::spec::{HttpVersion, TargetSpec, TlsSpec, TlsVersion, Verify};
use hoptax_host::{listeners, tree};
use hoptax_load::target;
use hoptax_servers::readiness::{OverTls, Probe};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Pause before a second look at the processes that listen.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// The readiness request over TLS, if the pack asks for it and the port uses TLS. `change` is the change that
/// the gateway's features require in requests to the main port.
pub(super) fn over_tls(ready: &Ready, change: &Change, path: &str) -> anyhow::Result<Option<OverTls>> {
    let change = match ready.port {
        ReadyPort::Main => Change { prefix: String::new(), ..change.clone() },
        ReadyPort::Admin => Change { tls: Some(any_certificate()), ..Change::default() },
    };
    let Some(tls) = change.tls.clone().filter(|_| ready.tls) else { return Ok(None) };
    let headers = vec![("host".to_owned(), SERVER_NAME.to_owned())];
    let mut targets = [TargetSpec::only("GET", path, headers, Vec::new())];
    let mut files = BTreeMap::new();
    change.apply_to(&mut targets, &mut files);
    let request = target::first_request(&targets[0], &files, 0, HttpVersion::Http11)?;
    Ok(Some(OverTls { tls, request }))
}

/// TLS settings for the admin port, whose certificate the gateway may have made itself.
fn any_certificate() -> TlsSpec {
    TlsSpec {
        server_name: SERVER_NAME.to_owned(),
        verify: Verify::Nothing,
        client_certificate: None,
        resumption: false,
        alpn: Vec::new(),
        versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
        cipher_suites: Vec::new(),
    }
}

/// Returns a message if a process that is no descendant of `root` listens in the gateway's place, because
/// hoptax would measure that process. The message names it, and the process that `guard` started.
pub(super) fn answered_by_another(probe: &Probe, root: u32, guard: u32) -> Option<String> {
    let stranger = |address| listeners::stranger(address, &tree::descendants(root));
    [probe.address, probe.accepting].into_iter().find_map(|address| {
        stranger(address)?;
        // A process that the gateway has just started may have been missed.
        std::thread::sleep(SECOND_LOOK);
        let other = listeners::described(stranger(address)?);
        let own = tree::session_below(guard).map_or_else(|| "the gateway".to_owned(), listeners::described);
        Some(format!(
            "another process answers: {other} listens on {address}, and not {own}, which hoptax started. \
             Stop the other process, or correct the port in the pack"
        ))
    })
}

/// Returns a message if the process that `guard` started does not listen, but a child that runs another
/// program does. The message names both processes. An example is a script that starts its gateway twice, the
/// first time only to configure it: hoptax would measure the first instance. Forked workers are allowed,
/// because they run the same program as their master. Their master may have closed the socket, as HAProxy's
/// does.
pub(super) fn answered_by_child(probe: &Probe, guard: u32) -> Option<String> {
    let own = tree::session_below(guard)?;
    [probe.address, probe.accepting].into_iter().find_map(|address| {
        let child = listeners::stranger(address, &BTreeSet::from([own]))?;
        if listeners::addresses(&BTreeSet::from([own])).contains(&address) || tree::same_program(own, child) {
            return None;
        }
        Some(format!(
            "a child answers: {} listens on {address}, and not {}, which hoptax started. Start the gateway \
             with `exec` in its script. If a child must listen, set `ready.by_child: true` in the pack",
            listeners::described(child),
            listeners::described(own)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Credentials;
    use hoptax_plan::Feature;

    fn ready(port: ReadyPort, tls: bool) -> Ready {
        Ready { path: "/up".into(), port, status: 200, tls, by_child: false, timeout: "10s".into() }
    }

    #[test]
    fn the_request_over_tls_carries_the_clients_credentials_to_the_main_port_only() {
        let made = Credentials::placeholders(1);
        let features = [Feature::KeyAuth, Feature::Tls, Feature::Mtls, Feature::PathRewrite];
        let change = Change::new(&features, &made);
        let asked = |port, change: &Change| over_tls(&ready(port, true), change, "/up").expect("built");
        let main = asked(ReadyPort::Main, &change).expect("over TLS");
        assert_eq!(Some(&main.tls), change.tls.as_ref(), "with the client's certificate");
        let text = String::from_utf8(main.request).expect("text");
        assert!(text.starts_with("GET /up HTTP/1.1\r\n") && text.contains("host: hoptax.test\r\n"), "{text}");
        assert!(text.contains("x-api-key: "), "{text}");

        let admin = asked(ReadyPort::Admin, &change).expect("over TLS");
        assert_eq!((&admin.tls.verify, &admin.tls.client_certificate), (&Verify::Nothing, &None));
        let text = String::from_utf8(admin.request).expect("text");
        assert!(!text.contains("x-api-key"), "{text}");

        assert_eq!(asked(ReadyPort::Main, &Change::default()), None, "this port does not use TLS");
        assert_eq!(over_tls(&ready(ReadyPort::Admin, false), &change, "/up").expect("built"), None);
    }
}
