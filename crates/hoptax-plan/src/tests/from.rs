//! Tests of loads that come from several hosts.

use super::*;

const HOSTS: &str = "hosts:\n  client: { ssh: client }\n  edge: { ssh: edge, address: 10.0.0.2 }\n  app: { \
                     ssh: app, address: 10.0.0.3 }\nroles: { generator: client, gateway: edge, upstream: \
                     app }\n";

/// A plan with this `load` on line 2, and with these hosts.
fn plan(load: &str, hosts: &str) -> String {
    format!("gateways: [nginx]\nload: {load}\n{hosts}")
}

/// The host that sends each load point, and the description of the load point.
fn origins(plan: &Plan) -> Vec<(&str, String)> {
    plan.load.iter().map(|point| (plan.generator(point), point.describe())).collect()
}

#[test]
fn each_host_has_a_load_point_of_its_own() {
    let sweep = good(&plan("[{ loop: closed, connections: [1, 8], from: [client, edge] }]", HOSTS));
    let expected = [
        ("client", "closed, 1 connection".to_owned()),
        ("edge", "closed, 1 connection, from edge".to_owned()),
        ("client", "closed, 8 connections".to_owned()),
        ("edge", "closed, 8 connections, from edge".to_owned()),
    ];
    assert_eq!(origins(&sweep), expected);
    assert_eq!(sweep.generators(), ["client", "edge"]);
    assert_eq!(
        sweep.each_role(),
        [("generator", "client"), ("generator", "edge"), ("gateway", "edge"), ("upstream", "app")]
    );
    assert_eq!(kept(&sweep), sweep);
    let json = serde_json::to_value(&sweep).expect("JSON");
    assert_eq!((json["load"][0].get("from"), &json["load"][1]["from"]), (None, &"edge".into()));
    // If `from` names the generator's host, the load is the same as without `from`.
    let named = good(&plan("[{ loop: closed, connections: 1, from: client }]", HOSTS));
    let silent = good(&plan("[{ loop: closed, connections: 1 }]", HOSTS));
    assert_eq!(named, silent);
}

#[test]
fn a_search_comes_from_several_hosts_too() {
    let search = good(&plan(
        "[{ loop: open, connections: 8, search: { slo: p99 < 10ms, from: 100/s, to: 2000/s }, from: [client, \
        edge] }]",
        HOSTS,
    ));
    let from: Vec<_> = search.load.iter().map(|point| point.from.as_deref()).collect();
    assert_eq!(from, [None, Some("edge")]);
}

#[test]
fn a_host_that_only_sends_load_has_a_role() {
    let hosts = HOSTS.replace("generator: client, ", "");
    let read = good(&plan("[{ loop: closed, connections: 1, from: [local, client] }]", &hosts));
    let names: Vec<&str> = read.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!((names, read.generators()), (vec!["client", "edge", "app", "local"], vec!["local", "client"]));
    // Gateway and upstream are on this machine, and the client's host must reach them.
    let here = "hosts: { client: { ssh: client }, local: { address: 10.0.0.1 } }\n";
    let read = good(&plan("[{ loop: closed, connections: 1, from: client }]", here));
    assert!(read.roles.is_local() && !read.is_local());
    assert_eq!(read.hosts.len(), 2, "{:?}", read.hosts);
    assert_eq!(kept(&read), read);
    // All roles are on this machine.
    let read = good(&plan("[{ loop: closed, connections: 1, from: local }]", ""));
    assert!(read.is_local() && read.hosts.is_empty() && read.load[0].from.is_none());
}

#[test]
fn each_host_divides_its_own_load() {
    let hosts = "hosts: { clients: { ssh: [a, b, c] }, edge: { ssh: edge, address: 10.0.0.2 } }\n\
                 roles: { generator: edge, gateway: edge, upstream: edge }\n";
    let load = "[{ loop: closed, connections: 8, from: [edge, clients] }, { loop: closed, connections: 1 }]";
    let read = good(&plan(load, hosts));
    assert_eq!(read.machines_of("clients"), ["clients-1", "clients-2", "clients-3"]);
    let few = "[{ loop: closed, connections: 2, from: [edge, clients] }]";
    insta::assert_snapshot!(mistake(&plan(few, hosts)));
}

#[test]
fn mistakes_in_from() {
    let load = |from: &str| format!("[{{ loop: closed, connections: 8, from: {from} }}]");
    let no_client = HOSTS.replace("  client: { ssh: client }\n", "").replace("generator: client, ", "");
    let running = format!("{HOSTS}upstream: {{ url: \"http://127.0.0.1:80\" }}\n")
        .replace(", upstream: app", "")
        .replace("  app: { ssh: app, address: 10.0.0.3 }\n", "")
        .replace("gateway: edge", "gateway: client")
        .replace("{ ssh: client }", "{ ssh: client, address: 10.0.0.1 }");
    let told = refusals(
        &[
            &plan(&load("[client, edgr]"), HOSTS),
            &plan(&load("edge"), ""),
            &plan(
                "[{ loop: closed, connections: 8 }, { loop: closed, connections: 8, from: client }]",
                HOSTS,
            ),
            &plan(&load("[edge, client, edge]"), HOSTS),
            &plan("[{ loop: closed, connections: 8, from: edge }]\nstart: {}", HOSTS),
            &plan(&load("[local, edge]"), &format!("{no_client}sources: [10.0.0.1]\n")),
            &plan(&load("client"), "hosts: { client: { ssh: client } }\n"),
            &plan(&load("[client, edge]"), &running),
            &plan(&load("client"), &HOSTS.replace("  app:", "  idle: { ssh: idle }\n  app:")),
        ],
        mistake,
    );
    insta::assert_snapshot!(told);
}
