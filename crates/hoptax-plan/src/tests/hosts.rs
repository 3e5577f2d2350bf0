//! Tests of hosts and roles, and of wrong ones.

use super::*;

/// A plan with these lines about hosts, from line 3 on.
fn with(lines: &str) -> String {
    format!("{SMALLEST}{lines}\n").replace("connections: 1 ", "connections: 8 ")
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn host(name: &str, kind: HostKind, address: Option<&str>) -> Host {
    let address = address.map(|address| address.parse().expect("an address"));
    Host { name: name.to_owned(), kind, address, hoptax: None }
}

fn roles(generator: &str, gateway: &str, upstream: &str) -> Roles {
    Roles { generator: generator.to_owned(), gateway: gateway.to_owned(), upstream: upstream.to_owned() }
}

#[test]
fn roles_can_be_on_hosts_of_each_kind() {
    let plan = good(&with(
        r#"
hosts:
  clients: { ssh: [bench1, root@bench2] }
  edge: { docker: edge, address: 10.0.0.2, hoptax: /opt/hoptax }
  app: { command: "ip netns exec 'my app'", address: "fd00::3" }
roles: { generator: clients, gateway: edge, upstream: app }"#,
    ));
    let ssh = HostKind::Ssh(words("bench1 root@bench2"));
    let edge = host("edge", HostKind::Docker("edge".to_owned()), Some("10.0.0.2"));
    let app = HostKind::Command(vec!["ip".into(), "netns".into(), "exec".into(), "my app".into()]);
    assert_eq!(
        plan.hosts,
        [
            host("clients", ssh, None),
            Host { hoptax: Some("/opt/hoptax".to_owned()), ..edge },
            host("app", app, Some("fd00::3"))
        ]
    );
    assert_eq!(plan.roles, roles("clients", "edge", "app"));
    assert!(!plan.roles.is_local());
    assert_eq!(plan.host("clients").map(|host| host.kind.machines()), Some(2));
    assert_eq!(plan.host("local"), None);
    assert_eq!(kept(&plan), plan);
}

#[test]
fn commands_reach_several_machines() {
    let plan = good(&with(
        "hosts: { clients: { commands: [ip netns exec c1, [ip, netns, exec, my c2]] }, local: { address: \
         10.0.0.1 } }\n\
         roles: { generator: clients }",
    ));
    let second = ["ip", "netns", "exec", "my c2"].map(str::to_owned).to_vec();
    let clients = plan.host("clients").expect("it has a role");
    assert_eq!(clients.kind, HostKind::Commands(vec![words("ip netns exec c1"), second]));
    assert_eq!(clients.machine_names(), ["clients-1", "clients-2"]);
    assert_eq!(kept(&plan), plan);
    let json = serde_json::to_value(&plan).expect("JSON");
    let words = serde_json::json!([["ip", "netns", "exec", "c1"], ["ip", "netns", "exec", "my c2"]]);
    assert_eq!(json["hosts"][0]["kind"]["commands"], words);
}

#[test]
fn a_load_must_be_large_enough_for_all_generators() {
    let plan = |load: &str| {
        format!(
            "gateways: [nginx]\n{load}\nhosts: {{ clients: {{ ssh: [a, b, c] }}, local: {{ address: \
             10.0.0.1 }} }}\n\
             roles: {{ generator: clients }}\n"
        )
    };
    good(&plan("load: [{ loop: closed, connections: [3, 8], requests: 3, duration: 1s }]"));
    let small = [
        "load: [{ loop: closed, connections: [8, 2] }, { loop: closed, connections: 1 }]",
        "load: [{ loop: closed, connections: 8, requests: 2, duration: 1s }]",
        "start: {}",
    ];
    insta::assert_snapshot!(refusals(&small, |load| mistake(&plan(load))));
}

#[test]
fn a_pod_has_a_container_a_namespace_and_a_context() {
    let plan = good(
        &with(
            "hosts: { edge: { kubernetes: { pod: edge-0, container: proxy, namespace: mesh, context: \
         \"arn:aws:eks/x\" } } }\n\
         roles: { generator: edge, gateway: edge }\nupstream: { url: \"http://10.0.0.9:80\" }\ngateways: []",
        )
        .replace("gateways: [nginx]\n", ""),
    );
    let pods = Pods {
        pods: vec!["edge-0".to_owned()],
        container: Some("proxy".to_owned()),
        namespace: Some("mesh".to_owned()),
        context: Some("arn:aws:eks/x".to_owned()),
    };
    assert_eq!(plan.hosts, [host("edge", HostKind::Kubernetes(pods), None)]);
    assert_eq!(kept(&plan), plan);
}

#[test]
fn a_role_without_a_host_is_on_this_machine() {
    let plan = good(&with(
        "hosts: { local: { address: 10.0.0.1 }, clients: { ssh: bench1 } }\nroles: { generator: clients }",
    ));
    let clients = host("clients", HostKind::Ssh(words("bench1")), None);
    assert_eq!(plan.hosts, [host("local", HostKind::Local, Some("10.0.0.1")), clients]);
    assert_eq!(plan.roles, roles("clients", "local", "local"));
    assert_eq!(kept(&plan), plan);
    // The generator needs no address.
    let plan = good(&with(
        "hosts: { edge: { ssh: edge, address: 10.0.0.2 } }\nroles: { gateway: edge, upstream: edge }",
    ));
    let names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!((names, plan.hosts[1].clone()), (vec!["edge", "local"], Host::local()));
    assert_eq!(plan.roles, roles("local", "edge", "edge"));
}

/// Records of plans without hosts must stay as they are.
#[test]
fn a_local_plan_records_no_hosts() {
    for lines in
        ["", "roles: { generator: local, upstream: local }", "hosts: { local: { address: 10.0.0.1 } }"]
    {
        let plan = good(&with(lines));
        assert_eq!((plan.hosts.len(), plan.roles.clone()), (0, Roles::default()), "{lines}");
        let json = serde_json::to_value(&plan).expect("JSON");
        assert_eq!((json.get("hosts"), json.get("roles")), (None, None), "{lines}");
        assert_eq!(kept(&plan), plan);
    }
}

#[test]
fn the_form_on_disk_is_fixed() {
    let plan = good(&with(
        "hosts: { clients: { ssh: [a, b], hoptax: bin/hoptax }, edge: { kubernetes: { pod: p }, address: \
         \"fd00::2\" } }\n\
         roles: { generator: clients, gateway: edge, upstream: edge }",
    ));
    let json = serde_json::to_value(&plan).expect("JSON");
    assert_eq!(
        json["hosts"],
        serde_json::json!([
            { "name": "clients", "kind": { "ssh": ["a", "b"] }, "hoptax": "bin/hoptax" },
            { "name": "edge", "kind": { "kubernetes": { "pods": ["p"] } }, "address": "fd00::2" },
        ])
    );
    let expected = serde_json::json!({ "generator": "clients", "gateway": "edge", "upstream": "edge" });
    assert_eq!(json["roles"], expected);
}

#[test]
fn an_upstream_that_already_runs_has_no_host() {
    let running = |url: &str, roles: &str| {
        with(&format!(
            "upstream: {{ url: \"http://{url}:80\" }}\nhosts: {{ edge: {{ ssh: edge, address: 10.0.0.2 }} \
             }}\n\
             roles: {{ {roles} }}"
        ))
    };
    let plan = good(&running("10.0.0.9", "generator: edge, gateway: edge"));
    assert_eq!(plan.hosts.len(), 1, "{:?}", plan.hosts);
    assert_eq!(plan.roles, roles("edge", "edge", "local"));
    assert_eq!(kept(&plan), plan);
    // Generator and gateway are on one host, so 127.0.0.1 means the same machine for both.
    good(&running("127.0.0.1", "generator: edge, gateway: edge"));
    let told = [("localhost", "gateway: edge"), ("10.0.0.9", "gateway: edge, upstream: edge")]
        .map(|(url, roles)| refusal(&format!("{url} | {roles}"), &mistake(&running(url, roles))));
    insta::assert_snapshot!(told.concat());
}

#[test]
fn gateways_that_already_run_need_no_address() {
    let plan = good(
        "gateways: [{ name: external, url: \"http://10.0.0.9:80\" }]\nload: [{ loop: closed, connections: 1 \
         }]\n\
         hosts: { a: { ssh: a }, b: { ssh: b, address: 10.0.0.2 } }\nroles: { generator: a, upstream: b }\n",
    );
    assert_eq!(plan.host("local"), Some(&Host::local()));
}

/// Lists of CPUs refer to the machine of the role. The 2 CPUs of this machine do not limit other machines.
#[test]
fn cpus_of_other_hosts_are_not_limited_by_this_machine() {
    let hosts =
        "hosts: { edge: { ssh: edge, address: 10.0.0.2 } }\nroles: { gateway: edge, upstream: edge }\n";
    let plan = good(&with(&format!("{hosts}cpus: {{ generator: 1, gateway: 0-31, upstream: 63 }}")));
    let CpuPlan::Pinned(sets) = &plan.cpus else { panic!("{:?}", plan.cpus) };
    assert_eq!((sets.gateway.len(), sets.upstream.as_slice()), (32, [63].as_slice()));
    insta::assert_snapshot!(mistake(&with(&format!("{hosts}cpus: {{ generator: 2, gateway: 0-31 }}"))));
}

#[test]
fn source_addresses_belong_to_a_local_generator() {
    let hosts = |address: &str, roles: &str, sources: &str| {
        with(&format!(
            "hosts: {{ edge: {{ ssh: edge, address: \"{address}\" }} }}\nroles: {{ {roles} }}\nsources: \
            {sources}"
        ))
    };
    let services = "gateway: edge, upstream: edge";
    let everything = "generator: edge, gateway: edge, upstream: edge";
    assert_eq!(good(&hosts("10.0.0.2", services, "[10.0.0.1]")).sources.len(), 1);
    assert_eq!(good(&hosts("fd00::2", services, "[\"fd00::1\"]")).sources.len(), 1);
    assert_eq!(good(&hosts("127.0.0.1", services, "[127.0.0.2]")).sources.len(), 1);
    let told = [
        ("10.0.0.2", everything, "[10.0.0.1]"),
        ("10.0.0.2", services, "[127.0.0.2]"),
        ("fd00::2", services, "[10.0.0.1]"),
    ]
    .map(|(address, roles, sources)| {
        refusal(&format!("{address} | {roles} | {sources}"), &mistake(&hosts(address, roles, sources)))
    })
    .concat();
    insta::assert_snapshot!(told);
}

/// The errors of a plan with one host, `edge`, that has these keys. It has all roles except the generator.
/// Its keys begin at column 17.
fn in_host(keys: &str) -> String {
    mistake(&with(&format!("hosts: {{ edge: {{ {keys} }} }}\nroles: {{ gateway: edge, upstream: edge }}")))
}

#[test]
fn mistakes_in_a_host() {
    let told = refusals(
        &[
            "address: 10.0.0.2",
            "ssh: edge, docker: edge, address: 10.0.0.2",
            "vagrant: { dir: infra }",
            "shh: edge",
            "ssh: []",
            "ssh: edge -p 22, address: 10.0.0.2",
            "ssh: -oProxyCommand=id, address: 10.0.0.2",
            "ssh: [a, a], address: 10.0.0.2",
            "command: \"\", address: 10.0.0.2",
            "command: [\"\", a], address: 10.0.0.2",
            "command: \"ip netns exec 'app\", address: 10.0.0.2",
            "command: \"cd /srv && ip\", address: 10.0.0.2",
            "command: ssh edge hoptax agent, address: 10.0.0.2",
            "commands: [], address: 10.0.0.2",
            "commands: [env A, [env, A]], address: 10.0.0.2",
            "commands: [env hoptax agent], address: 10.0.0.2",
            "docker: --privileged, address: 10.0.0.2",
            "kubernetes: { pod: deploy/edge }, address: 10.0.0.2",
            "ssh: edge, hoptax: ~/bin/hoptax, address: 10.0.0.2",
        ],
        in_host,
    );
    insta::assert_snapshot!(told);
}

#[test]
fn mistakes_in_an_address() {
    let texts = "10.0.0|10.0.0.2/24|0.0.0.0|\"::\"|224.0.0.1|255.255.255.255|\"fe80::1\"|edge.test";
    let texts: Vec<&str> = texts.split('|').collect();
    let told = refusals(&texts, |address| in_host(&format!("ssh: edge, address: {address}")));
    insta::assert_snapshot!(told);
}

#[test]
fn mistakes_in_roles() {
    const EDGE: &str = "edge: { ssh: edge, address: 10.0.0.2 }";
    const CLIENTS: &str = "clients: { ssh: [bench1, bench2] }";
    let told = [
        (EDGE, "gateway: edges"),
        (EDGE, "gateway: somewhere"),
        ("", "gateway: bench1"),
        (EDGE, "client: edge"),
        (EDGE, ""),
        ("edge: { ssh: edge }", "gateway: edge, upstream: edge"),
        (EDGE, "gateway: edge"),
        (CLIENTS, "generator: clients"),
        ("edge: { ssh: [a, b], address: 10.0.0.2 }", "generator: edge, gateway: edge, upstream: edge"),
        ("local: { ssh: a, hoptax: b, address: 10.0.0.1 }", ""),
        ("a: { ssh: [x, y] }, b: { ssh: y, address: 10.0.0.2 }", "generator: a, gateway: b, upstream: b"),
        (
            "a: { ssh: [x, y] }, a-2: { ssh: z, address: 10.0.0.2 }",
            "generator: a, gateway: a-2, upstream: a-2",
        ),
        ("../x: { ssh: x, address: 10.0.0.2 }", "gateway: ../x, upstream: ../x"),
    ]
    .map(|(hosts, roles)| {
        refusal(
            &format!("{hosts} | {roles}"),
            &mistake(&with(&format!("hosts: {{ {hosts} }}\nroles: {{ {roles} }}"))),
        )
    })
    .concat();
    insta::assert_snapshot!(told);
}

/// Plans with hosts that hoptax creates need a directory with a configuration of Terraform.
fn created(lines: &str) -> Result<Plan, String> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("infra")).expect("made");
    std::fs::create_dir(directory.path().join("empty")).expect("made");
    std::fs::write(directory.path().join("infra/main.tf"), "").expect("written");
    let context = Context { directory: directory.path().to_owned(), ..context() };
    let text = with(&format!("{lines}\nroles: {{ generator: clients, gateway: edge, upstream: edge }}"));
    let place = directory.path().display().to_string();
    let shown = |error: &PlanError| format!("{}; {}", error.message, error.help).replace(&place, "PLAN");
    let errors = |errors: PlanErrors| errors.0.iter().map(shown).collect::<Vec<_>>().join("\n");
    parse("plan.yaml", &text, &[], &context).map_err(errors)
}

#[test]
fn machines_can_come_from_terraform_and_from_kubernetes() {
    let lines = r#"
hosts:
  clients: { hoptax: /hoptax, kubernetes: { namespace: bench, job: { image: "hoptax:1", parallelism: 3, pull: never,
    pull_secrets: [key], requests: { cpu: 2, memory: 1Gi }, limits: { cpu: 1.5 }, node_selector: { "a.b/c": d },
    tolerations: [{ key: x, value: y, effect: NoSchedule }, {}], labels: { e: f }, annotations: { g: "h i" }, at_most: 1h } } }
  edge: { terraform: { dir: infra, outputs: { ssh: edge_ip, address: edge_private_ip }, user: ubuntu, apply: true, destroy: after } }"#;
    let plan = created(lines).unwrap_or_else(|error| panic!("{error}"));
    let HostKind::Workload(workload) = &plan.hosts[0].kind else { panic!("{:?}", plan.hosts) };
    let map = |pairs: &[(&str, &str)]| {
        let owned = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        owned.collect::<std::collections::BTreeMap<_, _>>()
    };
    let text = |text: &str| Some(text.to_owned());
    let expected = Workload {
        kind: WorkloadKind::Job { parallelism: 3 },
        image: "hoptax:1".into(),
        pull: Some(Pull::Never),
        pull_secrets: vec!["key".into()],
        requests: map(&[("cpu", "2"), ("memory", "1Gi")]),
        limits: map(&[("cpu", "1.5")]),
        node_selector: map(&[("a.b/c", "d")]),
        tolerations: vec![
            Toleration { key: text("x"), value: text("y"), effect: text("NoSchedule") },
            Toleration { key: None, value: None, effect: None },
        ],
        labels: map(&[("e", "f")]),
        annotations: map(&[("g", "h i")]),
        at_most: Duration::from_secs(3600),
        namespace: text("bench"),
        context: None,
    };
    assert_eq!(*workload, expected);
    assert_eq!((plan.hosts[0].kind.machines(), commands(&plan.hosts[0].kind).len()), (3, 0));
    let HostKind::Terraform(terraform) = &plan.hosts[1].kind else { panic!("{:?}", plan.hosts) };
    assert!(terraform.dir.ends_with("infra") && terraform.apply && terraform.destroy, "{terraform:?}");
    assert_eq!(terraform.reach, TerraformReach::Ssh("edge_ip".into()));
    assert_eq!(
        (terraform.address.as_deref(), terraform.user.as_deref()),
        (Some("edge_private_ip"), Some("ubuntu"))
    );
    assert_eq!(kept(&plan), plan);
}

#[test]
fn a_deployment_and_a_job_of_one_pod_have_an_address() {
    let plan = created(
        "hosts: { clients: { kubernetes: { pod: [gen-0, gen-1] } }, edge: { kubernetes: { deployment: { \
         image: a, service: up }, context: kind } } }",
    );
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<String> = commands(&plan.hosts[0].kind).iter().map(|words| words[4].clone()).collect();
    assert_eq!(names, ["gen-0", "gen-1"]);
    let HostKind::Workload(workload) = &plan.hosts[1].kind else { panic!("{:?}", plan.hosts) };
    assert_eq!(workload.kind, WorkloadKind::Deployment { service: Some("up".into()) });
    assert_eq!(kept(&plan), plan);
}

#[test]
fn mistakes_in_hosts_that_hoptax_creates() {
    let wrong = |edge: &str| {
        let lines = format!("hosts: {{ clients: {{ ssh: c }}, edge: {{ {edge} }} }}");
        refusal(edge, &created(&lines).expect_err(edge))
    };
    let terraform = |keys: &str| wrong(&format!("terraform: {{ {keys} }}"));
    let job = |keys: &str| wrong(&format!("kubernetes: {{ job: {{ image: a, {keys} }} }}"));
    const ADDRESS: &str = "outputs: { ssh: a, address: b }";
    let told = [
        terraform("dir: none, outputs: { ssh: a, address: b }"),
        terraform("dir: empty, outputs: { ssh: a, address: b }"),
        terraform("dir: infra, outputs: { ssh: a }"),
        terraform("dir: infra, outputs: { address: a }"),
        terraform("dir: infra, outputs: { ssh: a, command: c, address: b }"),
        terraform("dir: infra, outputs: { ssh: 10.0.0.2, address: b }"),
        terraform(&format!("dir: infra, {ADDRESS}, destroy: after")),
        terraform(&format!("dir: infra, {ADDRESS}, user: \"-x\"")),
        wrong(&format!("terraform: {{ dir: infra, {ADDRESS} }}, address: 10.0.0.2")),
        job("parallelism: 2"),
        job("parallelism: 0"),
        job("service: a"),
        job("requests: { cpu: 1GB }"),
        job("node_selector: { a: b c }"),
        job("labels: { hoptax.io/run: a }"),
        job("annotations: { \"a b\": c }"),
        job("tolerations: [{ effect: Never }]"),
        job("tolerations: [{ value: a }]"),
        job("at_most: 5s"),
        job("pull_secrets: [A]"),
        wrong("kubernetes: { job: { image: -a } }"),
        wrong("kubernetes: { pod: a, job: { image: a } }"),
        wrong("kubernetes: { job: { image: a }, container: b }"),
        wrong("kubernetes: { deployment: { image: a, parallelism: 2 } }"),
        wrong("kubernetes: { deployment: { image: a, service: a.b } }"),
        wrong("kubernetes: { namespace: b }"),
        wrong("kubernetes: { pod: [a, a] }"),
    ]
    .concat();
    insta::assert_snapshot!(told);
}
