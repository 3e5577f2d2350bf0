//! Proofs that TLS is on, on either side of the gateway.

use super::scene::{Proof, Request, Scene, is, not_on};
use crate::features::CIPHER_SUITE;
use hoptax_format::spec::ProxyProtocol;
use hoptax_plan::Feature;
use hoptax_servers::http_client::ProxyHeader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The TLS version that every gateway must use.
const VERSION: &str = "TLSv1_3";
/// The header in which gateways name the client to the upstream.
const FORWARDED_FOR: &str = "x-forwarded-for";
/// Addresses of clients that do not exist (RFC 5737, RFC 3849). An upstream can see them only if the gateway
/// reads the PROXY protocol's header.
const CLIENT_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const CLIENT_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7));
/// The same version in the upstream's spelling.
const VERSION_AT_UPSTREAM: &str = "TLSv1.3";

/// All gateways must use the same TLS version and cipher suite, and must refuse requests without TLS. The
/// handshake itself verifies the certificate.
pub(super) fn prove_tls(scene: &Scene<'_>, feature: Feature) -> Proof {
    let request = scene.request("echo");
    let (answer, agreed) = scene
        .send_noting_tls(&request)
        .map_err(|error| not_on(feature, &format!("no answer over TLS: {error:#}"), &[]))?;
    let agreed = agreed.map(|agreed| {
        let version = agreed.version.map_or_else(String::new, |version| format!("{version:?}"));
        let cipher = agreed.cipher.map_or_else(String::new, |cipher| format!("{cipher:?}"));
        (version, cipher)
    });
    let wanted = (VERSION.to_owned(), CIPHER_SUITE.replacen("TLS_", "TLS13_", 1));
    let what = format!("TLS agreed on {agreed:?} instead of {wanted:?}");
    is(feature, agreed == Some(wanted), &what, &[("it answered", &answer)])?;

    let plain = Request { tls: None, ..request };
    match scene.answer(&plain) {
        Ok(refusal) if refusal.status < 400 => {
            let what = format!("it answers {} to a request without TLS", refusal.status);
            Err(not_on(feature, &what, &[("over TLS", &answer), ("without", &refusal)]))
        }
        _ => Ok(()),
    }
}

/// The gateway must refuse requests without a certificate.
pub(super) fn prove_mtls(scene: &Scene<'_>, feature: Feature) -> Proof {
    let mut request = scene.request("echo");
    let good = scene.must_accept(feature, &request)?;
    if let Some(tls) = &mut request.tls {
        tls.client_certificate = None;
        tls.resumption = false;
    }
    match scene.answer(&request) {
        Ok(refusal) if refusal.status < 400 => {
            let what = format!("it answers {} to a client without a certificate", refusal.status);
            Err(not_on(feature, &what, &[("with a certificate", &good), ("without", &refusal)]))
        }
        _ => Ok(()),
    }
}

/// The gateway must pass on the source address in the PROXY protocol's header.
pub(super) fn prove_proxy_protocol(scene: &Scene<'_>, feature: Feature, version: ProxyProtocol) -> Proof {
    let is_ipv6 = scene.gateway.tcp().is_some_and(|address| address.is_ipv6());
    let source = SocketAddr::from((if is_ipv6 { CLIENT_V6 } else { CLIENT_V4 }, 4711));
    let proxy_header = Some(ProxyHeader { version, source: Some(source) });
    let stranger = Request { proxy_header, ..scene.request("echo") };
    // With the feature `ip-allow`, the gateway may refuse the address in the header. The refusal shows that
    // the gateway reads the header. The proof then continues with the client's own address, which is allowed.
    let allows_few = scene.change.features.contains(&Feature::IpAllow);
    let refused = allows_few && scene.answer(&stranger).is_ok_and(|answer| answer.status == 403);
    let (request, client) = match refused {
        true => (scene.request("echo"), IpAddr::V4(Ipv4Addr::LOCALHOST)),
        false => (stranger, source.ip()),
    };
    if !scene.echoes {
        return scene.must_accept(feature, &request).map(drop);
    }
    let (echo, answer) = scene.echo(feature, &request)?;
    let passed_on = echo.header(FORWARDED_FOR).unwrap_or("nothing");
    let what = format!(
        "the header of the connection names the client {client}, but the upstream received \
        `{FORWARDED_FOR}: {passed_on}`"
    );
    is(feature, passed_on == client.to_string(), &what, &[("it answered", &answer)])
}

/// The upstream must receive requests over TLS, with the required TLS version.
pub(super) fn prove_upstream_tls(scene: &Scene<'_>, feature: Feature) -> Proof {
    if !scene.echoes {
        return Ok(());
    }
    let (echo, answer) = scene.echo(feature, &scene.request("echo"))?;
    let tls = &echo.0["tls"];
    is(feature, !tls.is_null(), "it connects to the upstream without TLS", &[("it answered", &answer)])?;
    let version = tls["version"].as_str().unwrap_or_default();
    let what = format!("it uses {version} to the upstream; all gateways must use {VERSION_AT_UPSTREAM}");
    is(feature, version == VERSION_AT_UPSTREAM, &what, &[("it answered", &answer)])
}
