//! Timeouts and source addresses.

use super::hosts::HostsRead;
use super::reader::{Reader, UpstreamRead};
use crate::error::Place;
use crate::raw::{AddressText, Placed, RawTimeouts, Short, Time};
use crate::units::{self, show_duration};
use crate::{LOCAL, Timeouts, Upstream};
use std::net::IpAddr;
use std::time::Duration;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn timeouts(
    reader: &mut Reader<'_>,
    typed: Option<Placed<Short<RawTimeouts, Time>>>,
    upstream: &UpstreamRead,
) -> Timeouts {
    let Some(Placed { place, value }) = typed else {
        check_delay(reader, upstream.delay_place, "timeout", DEFAULT_TIMEOUT, upstream);
        return Timeouts::all(DEFAULT_TIMEOUT);
    };
    let typed = match value {
        Short::Word(all) => {
            RawTimeouts { connect: None, first_byte: None, total: Some(Placed { place, value: all }) }
        }
        Short::Full(each) => each,
    };
    if typed.connect.is_none() && typed.first_byte.is_none() && typed.total.is_none() {
        reader.fault(
            place,
            "`timeout` is empty",
            "add `connect`, `first_byte` or `total`, or write a time such as 3s",
        );
    }
    let total = read_one(reader, typed.total.as_ref()).unwrap_or(DEFAULT_TIMEOUT);
    let connect = read_one(reader, typed.connect.as_ref()).unwrap_or(total);
    let first_byte = read_one(reader, typed.first_byte.as_ref()).unwrap_or(total);
    if let Some(typed) = typed.first_byte.as_ref().filter(|_| first_byte > total) {
        reader.fault(
            typed.place,
            format!(
                "`first_byte` ({}) is above `total` ({})",
                show_duration(first_byte),
                show_duration(total)
            ),
            "lower `first_byte` or raise `total`",
        );
    } else if let Some(typed) = &typed.first_byte {
        check_delay(reader, Some(typed.place), "timeout.first_byte", first_byte, upstream);
    }
    let total_place = typed.total.as_ref().map_or(place, |total| total.place);
    check_delay(reader, Some(total_place), "timeout", total, upstream);
    Timeouts { connect, first_byte, total }
}

fn read_one(reader: &mut Reader<'_>, typed: Option<&Placed<Time>>) -> Option<Duration> {
    let typed = typed?;
    let timeout = reader.unit(typed, units::duration)?;
    if timeout.is_zero() {
        reader.fault(typed.place, "the timeout is zero", "write a longer time, such as 3s");
        return None;
    }
    Some(timeout)
}

/// Refuses a delay of the upstream that would make every request time out.
fn check_delay(
    reader: &mut Reader<'_>,
    place: Option<Place>,
    key: &str,
    timeout: Duration,
    upstream: &UpstreamRead,
) {
    let Upstream::BuiltIn(built_in) = &upstream.value else { return };
    let least = built_in.delay.least();
    if let Some(place) = place.filter(|_| timeout <= least) {
        reader.fault(
            place,
            format!(
                "every request would time out: the upstream delays each response by at least {}, and the \
                timeout is {}",
                show_duration(least),
                show_duration(timeout)
            ),
            format!("raise `{key}` above the delay"),
        );
    }
}

/// Checks and converts the source addresses. Only a generator on this machine can have some.
pub(super) fn sources(
    reader: &mut Reader<'_>,
    typed: Vec<Placed<AddressText>>,
    hosts: &HostsRead,
    upstream: &Upstream,
) -> Vec<IpAddr> {
    if let (Some(first), true) = (typed.first(), upstream.is_on_unix_socket()) {
        let message = "direct connects to a Unix socket, and such connections have no source address";
        reader.fault(first.place, message, "remove `sources`");
        return Vec::new();
    }
    if let (Some(first), Some(host)) = (typed.first(), hosts.generator_elsewhere()) {
        let message = format!("`sources` are addresses of this machine, but the generator is on `{host}`");
        let help = "remove `sources`; several machines have several addresses";
        reader.fault(first.place, message, help);
        return Vec::new();
    }
    let mut sources = Vec::new();
    for Placed { place, value } in typed {
        let Ok(address) = value.0.parse::<IpAddr>() else {
            let message = format!("`{}` is not an IP address", value.0);
            reader.fault(place, message, "write addresses of this machine, such as 127.0.0.2");
            continue;
        };
        if address.is_unspecified() || address.is_multicast() {
            let message = format!("{address} cannot be a source address");
            reader.fault(place, message, "write an address of this machine, such as 127.0.0.2");
        } else if sources.contains(&address) {
            reader.fault(place, format!("{address} appears twice"), "remove one of the two");
        } else if hosts.is_local() && hosts.services.any() && address.is_ipv6() {
            reader.fault(
                place,
                format!("{address} cannot connect to 127.0.0.1, where hoptax starts upstream and gateways"),
                "write an IPv4 address, such as 127.0.0.2",
            );
        } else if let Some((host, at)) = unreachable(address, hosts) {
            let message = format!("{address} cannot connect to `{host}` at {at}");
            let version = if at.is_ipv4() { "IPv4" } else { "IPv6" };
            let help =
                format!("write an {version} address of this machine from which `{host}` can be reached");
            reader.fault(place, message, help);
        }
        sources.push(address);
    }
    sources
}

/// The first host with a service that the source address cannot reach, and the host's address.
fn unreachable(source: IpAddr, hosts: &HostsRead) -> Option<(&str, IpAddr)> {
    let others = hosts.of_services().filter(|host| host.name != LOCAL);
    let mut addresses = others.filter_map(|host| Some((host.name.as_str(), host.address?)));
    addresses.find(|(_, address)| {
        source.is_ipv4() != address.is_ipv4() || source.is_loopback() && !address.is_loopback()
    })
}
