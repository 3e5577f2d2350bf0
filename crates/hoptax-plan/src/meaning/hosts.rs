//! Reads the hosts and their roles.

use super::host_kind;
use super::reader::{Reader, UpstreamRead};
use crate::de::one_of;
use crate::error::Place;
use crate::host::{commands, is_plain_word};
use crate::raw::{HostAddress, Ordered, Placed, RawHost, RawLoad, RawRoles};
use crate::units::{self, nearest};
use crate::{Gateway, GatewayKind, Host, HostKind, LOCAL, Roles, Upstream};
use std::net::IpAddr;

/// The hosts of a plan, and their roles.
pub(super) struct HostsRead {
    /// The hosts that have a role. Empty if all roles are local.
    pub(super) hosts: Vec<Host>,
    /// The name of each role's host.
    pub(super) roles: Roles,
    /// The hosts that loads name in `from`.
    from: Vec<String>,
    /// The services that hoptax starts.
    pub(super) services: Services,
}

impl HostsRead {
    /// Number of machines of a host.
    pub(super) fn machines(&self, name: &str) -> usize {
        let host = self.hosts.iter().find(|host| host.name == name);
        host.map_or(1, |host| host.kind.machines())
    }

    /// The first host with generators that is not this machine. `None` if all load comes from this machine.
    pub(super) fn generator_elsewhere(&self) -> Option<&str> {
        let names = std::iter::once(&self.roles.generator).chain(&self.from);
        names.map(String::as_str).find(|name| *name != LOCAL)
    }

    /// True if all roles are on this machine, and all load comes from it.
    pub(super) fn is_local(&self) -> bool {
        self.roles.is_local() && self.generator_elsewhere().is_none()
    }

    /// The host of each service that hoptax starts.
    pub(super) fn of_services(&self) -> impl Iterator<Item = &Host> {
        let names = self.services.each(&self.roles).into_iter().map(|(_, host)| host);
        names.filter_map(|name| self.hosts.iter().find(|host| host.name == *name))
    }
}

/// Which services hoptax starts. The other services already run.
#[derive(Clone, Copy)]
pub(super) struct Services {
    pub(super) gateway: bool,
    pub(super) upstream: bool,
}

impl Services {
    fn of(upstream: &Upstream, gateways: &[Gateway]) -> Self {
        let starts = |gateway: &Gateway| !matches!(gateway.kind, GatewayKind::External { .. });
        let upstream = matches!(upstream, Upstream::BuiltIn(_));
        Self { gateway: gateways.iter().any(starts), upstream }
    }

    /// True if hoptax starts at least one service.
    pub(super) fn any(self) -> bool {
        self.gateway || self.upstream
    }

    /// The roles of these services, each with the name of its host.
    fn each(self, roles: &Roles) -> Vec<(&'static str, &String)> {
        let gateway = self.gateway.then_some(("gateway", &roles.gateway));
        let upstream = self.upstream.then_some(("upstream", &roles.upstream));
        gateway.into_iter().chain(upstream).collect()
    }
}

/// What the plan says about hosts.
pub(super) struct Typed {
    pub(super) hosts: Option<Ordered<RawHost>>,
    pub(super) roles: Option<RawRoles>,
    /// The hosts in `from` of all loads: see [`sending`].
    pub(super) from: Vec<Placed<String>>,
}

/// The hosts that a load names in `from`.
pub(super) fn sending(load: Option<&Placed<Vec<Placed<RawLoad>>>>) -> Vec<Placed<String>> {
    let entries = load.iter().flat_map(|load| &load.value);
    let hosts = entries.flat_map(|entry| entry.value.from.iter().flat_map(|from| &from.0));
    hosts.map(|host| Placed { place: host.place, value: host.value.0.clone() }).collect()
}

/// A host of the plan.
struct Declared {
    /// The place of its name.
    place: Place,
    host: Host,
    /// Whether the plan gives an address, even a wrong one.
    has_address: bool,
}

/// Checks and converts the hosts and the roles.
pub(super) fn read(
    reader: &mut Reader<'_>,
    Typed { hosts, roles, from }: Typed,
    upstream: &UpstreamRead,
    gateways: &[Gateway],
) -> HostsRead {
    let services = Services::of(&upstream.value, gateways);
    let mut declared: Vec<Declared> = Vec::new();
    for (name, typed) in hosts.map(|hosts| hosts.0).unwrap_or_default() {
        let mistakes = reader.faults.len();
        let host = read_host(reader, &name, &typed);
        // Without these mistakes, hoptax might find the host's address itself, so do not also report a
        // missing address.
        let could_have_address =
            reader.faults.len() > mistakes && (typed.terraform.is_some() || typed.kubernetes.is_some());
        check_machines(reader, &declared, &name, &host);
        check_machine_names(reader, &declared, &name, &host);
        let has_address = typed.address.is_some() || host.kind.has_own_address() || could_have_address;
        declared.push(Declared { place: name.place, host, has_address });
    }
    let RawRoles { generator, gateway, upstream: of_upstream } = roles.unwrap_or_default();
    let typed = [("generator", generator), ("gateway", gateway), ("upstream", of_upstream)];
    let typed: Vec<_> = typed.into_iter().filter_map(|(role, host)| Some((role, host?))).collect();
    let mut all_known = true;
    for (role, host) in &typed {
        all_known &= check_role(reader, &declared, role, host, services);
    }
    for host in &from {
        all_known &= check_role(reader, &declared, "generator", host, services);
    }
    let host_of = |role: &str| {
        let host = typed.iter().find(|(one, _)| *one == role).map(|(_, host)| host.value.clone());
        host.unwrap_or_else(|| LOCAL.to_owned())
    };
    let (generator, gateway) = (host_of("generator"), host_of("gateway"));
    let of_upstream = if services.upstream { host_of("upstream") } else { LOCAL.to_owned() };
    let roles = Roles { generator, gateway, upstream: of_upstream };
    let named = typed.iter().map(|(_, host)| host).chain(&from);
    let elsewhere = named.clone().find(|host| host.value != LOCAL).map(|host| host.place);
    let from: Vec<String> = from.iter().map(|host| host.value.clone()).collect();
    let generators: Vec<&str> = std::iter::once(&roles.generator).chain(&from).map(String::as_str).collect();
    if all_known {
        check_use(reader, &declared, &roles, &generators);
        if let Some(elsewhere) = elsewhere {
            check_addresses(reader, &declared, &roles, services, elsewhere);
        }
        check_upstream_url(reader, upstream, &roles, &generators, services);
        if let (Some(place), true) = (elsewhere, upstream.value.is_on_unix_socket()) {
            check_unix_socket(reader, place, &roles, &generators, services);
        }
    }
    HostsRead { hosts: used(declared, &roles, &generators, services), roles, from, services }
}

fn read_host(reader: &mut Reader<'_>, name: &Placed<String>, typed: &RawHost) -> Host {
    reader.check_file_name(name, "name of the host");
    let kind = host_kind::read(reader, name, typed).unwrap_or(HostKind::Local);
    let machines = kind.machines();
    let address = typed.address.as_ref().and_then(|address| {
        if machines > 1 {
            let message =
                format!("`{}` is {machines} machines, which do not have the same address", name.value);
            reader.fault(address.place, message, "remove `address`; generators do not need one");
        }
        if kind.has_own_address() {
            let message = format!("hoptax looks up the address of `{}`", name.value);
            reader.fault(address.place, message, "remove `address`");
        }
        read_address(reader, address)
    });
    let hoptax = typed.hoptax.as_ref().map(|path| {
        check_path(reader, name, path);
        path.value.clone()
    });
    Host { name: name.value.clone(), kind, address, hoptax }
}

fn read_address(reader: &mut Reader<'_>, typed: &Placed<HostAddress>) -> Option<IpAddr> {
    const HELP: &str = "write the IP address at which the other hosts reach this host, such as 10.0.0.2";
    let text = typed.value.0.trim();
    let Ok(address) = text.parse::<IpAddr>() else {
        let help = match text.chars().any(|letter| letter.is_ascii_alphabetic()) && !text.contains(':') {
            true => format!("{HELP}; `getent ahosts NAME` prints the addresses of a name"),
            false => HELP.to_owned(),
        };
        reader.fault(typed.place, format!("`{text}` is not an IP address"), help);
        return None;
    };
    let why = match address {
        _ if address.is_unspecified() => "means all addresses of a machine",
        _ if address.is_multicast() => "is a multicast address",
        IpAddr::V4(address) if address.is_broadcast() => "is the broadcast address",
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            "is a link-local address without an interface"
        }
        _ => return Some(address),
    };
    reader.fault(typed.place, format!("{address} {why}, so no host can connect to it"), HELP);
    None
}

fn check_path(reader: &mut Reader<'_>, name: &Placed<String>, path: &Placed<String>) {
    if name.value == LOCAL {
        let message = format!("`{LOCAL}` always runs this hoptax");
        reader.fault(path.place, message, "remove `hoptax`");
    } else if !is_plain_word(&path.value) {
        let message = format!("a shell on the host could change `{}`", path.value.escape_debug());
        let help = "write a path of letters, digits and `_./:@%+,-`, such as /usr/local/bin/hoptax; with \
                    ssh, a relative path starts from the home directory";
        reader.fault(path.place, message, help);
    }
}

/// Refuses a machine that also belongs to an earlier host, because its CPU time would count twice.
fn check_machines(reader: &mut Reader<'_>, earlier: &[Declared], name: &Placed<String>, host: &Host) {
    let others = earlier.iter().filter(|other| other.host.kind != HostKind::Local);
    let reached = commands(&host.kind);
    if let Some(other) = others.into_iter().find(|other| {
        host.kind != HostKind::Local && commands(&other.host.kind).iter().any(|one| reached.contains(one))
    }) {
        let other = &other.host.name;
        let message = format!("`{}` and `{other}` have a machine in common", name.value);
        let help =
            "keep one of the two hosts, and give it both roles; or remove the machine from one of them";
        reader.fault(name.place, message, help);
    }
}

/// Refuses a host if one of its machines has the same name as a machine of an earlier host. Directories get
/// these names.
fn check_machine_names(reader: &mut Reader<'_>, earlier: &[Declared], name: &Placed<String>, host: &Host) {
    let names = host.machine_names();
    let taken = earlier.iter().find_map(|other| {
        let taken = other.host.machine_names().into_iter().find(|one| names.contains(one))?;
        Some((&other.host.name, taken))
    });
    // A host name that is used twice is reported elsewhere.
    if let Some((other, taken)) = taken.filter(|(other, _)| **other != name.value) {
        let message = format!("`{}` and `{other}` both have a machine with the name `{taken}`", name.value);
        let help = "several machines of a host are numbered from 1; give one of the two hosts another name";
        reader.fault(name.place, message, help);
    }
}

/// Checks the host of a role. Returns whether it is known.
fn check_role(
    reader: &mut Reader<'_>,
    declared: &[Declared],
    role: &str,
    host: &Placed<String>,
    services: Services,
) -> bool {
    let found = declared.iter().find(|one| one.host.name == host.value);
    if found.is_none() && host.value != LOCAL {
        let names = || declared.iter().map(|one| one.host.name.as_str()).filter(|name| *name != LOCAL);
        let known: Vec<&str> = names().chain([LOCAL]).collect();
        let help = match nearest(&host.value, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use {}, or add `{}` to `hosts`", one_of(&known), host.value),
        };
        reader.fault(host.place, format!("unknown host `{}`", host.value), help);
        return false;
    }
    if role == "upstream" && !services.upstream {
        let help = "remove `upstream` from `roles`, or remove `upstream.url` to start the built-in upstream";
        reader.fault(host.place, "the upstream already runs, and hoptax does not start it on a host", help);
    }
    let machines = found.map_or(1, |one| one.host.kind.machines());
    if machines > 1 && role != "generator" {
        let message = format!("`{}` is {machines} machines, but the {role} needs one", host.value);
        reader.fault(host.place, message, "add a host with one machine, and write its name here");
    }
    true
}

/// Refuses a host that has no role and sends no load. Otherwise, a plan in which the user forgot `roles`
/// would measure this machine.
fn check_use(reader: &mut Reader<'_>, declared: &[Declared], roles: &Roles, generators: &[&str]) {
    let has_role =
        |name: &str| roles.each().iter().any(|(_, host)| *host == name) || generators.contains(&name);
    for Declared { place, host, .. } in declared {
        if !has_role(&host.name) {
            let name = &host.name;
            let help = format!("add it to `roles`, such as roles: {{ gateway: {name} }}, or remove it");
            reader.fault(*place, format!("no role is on the host `{name}`"), help);
        }
    }
}

/// Checks that each host with a service has an address. `elsewhere` is the place of a role that is not on
/// this machine.
fn check_addresses(
    reader: &mut Reader<'_>,
    declared: &[Declared],
    roles: &Roles,
    services: Services,
    elsewhere: Place,
) {
    let each = services.each(roles);
    let mut names: Vec<&String> = each.iter().map(|(_, host)| *host).collect();
    names.dedup();
    for name in names {
        let found = declared.iter().find(|one| one.host.name == *name);
        // For a host with several machines, an address is reported elsewhere as an error.
        if found.is_some_and(|one| one.has_address || one.host.kind.machines() > 1) {
            continue;
        }
        let on_it = each.iter().filter(|(_, host)| *host == name);
        let services: Vec<String> = on_it.map(|(role, _)| format!("the {role}")).collect();
        let verb = if services.len() == 1 { "is" } else { "are" };
        let message =
            format!("the host `{name}` needs an `address`, because {} {verb} on it", services.join(" and "));
        let help = match name == LOCAL {
            true => {
                "add local: { address: … } to `hosts`, with the IP address at which the other hosts reach \
                     this machine"
            }
            false => "add the IP address at which the other hosts reach it, such as address: 10.0.0.2",
        };
        reader.fault(found.map_or(elsewhere, |one| one.place), message, help);
    }
}

/// Refuses a loopback address of a running upstream if generators and gateways are on different hosts: each
/// host would connect to itself.
fn check_upstream_url(
    reader: &mut Reader<'_>,
    upstream: &UpstreamRead,
    roles: &Roles,
    generators: &[&str],
    services: Services,
) {
    let (Upstream::Running(running), Some(place)) = (&upstream.value, upstream.url_place) else { return };
    let Ok(origin) = units::origin(&running.url) else { return };
    let is_loopback = origin.host.eq_ignore_ascii_case("localhost")
        || origin.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let of_gateway = services.gateway.then_some(roles.gateway.as_str());
    let of_others = generators.get(1..).unwrap_or_default().iter().copied();
    let other = of_gateway.map(|host| ("gateway", host)).into_iter();
    let mut other = other.chain(of_others.map(|host| ("generator", host)));
    if let Some((role, host)) = other.find(|(_, host)| is_loopback && *host != roles.generator) {
        let message = format!(
            "{} is another machine for the generator on `{}` than for the {role} on `{host}`",
            origin.host, roles.generator
        );
        reader.fault(place, message, "write the address at which both hosts reach the upstream");
    }
}

/// Refuses a Unix socket between roles on different hosts.
fn check_unix_socket(
    reader: &mut Reader<'_>,
    place: Place,
    roles: &Roles,
    generators: &[&str],
    services: Services,
) {
    let of_upstream = if services.upstream { roles.upstream.as_str() } else { generators[0] };
    let of_gateway = services.gateway.then_some(roles.gateway.as_str());
    if generators.iter().copied().chain(of_gateway).any(|host| host != of_upstream) {
        let message = "the upstream is on a Unix socket, which only processes of its own host can reach";
        reader.fault(place, message, "give all roles to one host, or let the upstream listen on a port");
    }
}

/// The hosts that have a role or send load, in the order of the plan. `local` comes last if it is not
/// declared.
fn used(declared: Vec<Declared>, roles: &Roles, generators: &[&str], services: Services) -> Vec<Host> {
    if roles.is_local() && generators.iter().all(|name| *name == LOCAL) {
        return Vec::new();
    }
    // If the upstream already runs, its role is local in name only.
    let of_roles = roles.each().into_iter().filter(|(role, _)| *role != "upstream" || services.upstream);
    let names: Vec<&str> = of_roles.map(|(_, host)| host).chain(generators.iter().copied()).collect();
    let mut hosts: Vec<Host> = declared.into_iter().map(|one| one.host).collect();
    if hosts.iter().all(|host| host.name != LOCAL) {
        hosts.push(Host::local());
    }
    hosts.retain(|host| names.contains(&host.name.as_str()));
    hosts
}
