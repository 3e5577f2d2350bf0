//! Lists of versions: each becomes a gateway of its own.

use super::*;

fn plan(gateway: &str) -> String {
    format!("gateways:\n  - {gateway}\nload:\n  - {{ loop: closed, connections: 1 }}\n")
}

fn drivers(gateway: &str) -> Vec<(String, PackDriver)> {
    let plan = parsed(&plan(gateway), &[]).expect("a good plan");
    let driver = |gateway: Gateway| match gateway.kind {
        GatewayKind::Pack { driver, .. } => (gateway.label, driver),
        other => panic!("{other:?}"),
    };
    plan.gateways.into_iter().map(driver).collect()
}

fn labels(gateway: &str) -> Vec<String> {
    drivers(gateway).into_iter().map(|(label, _)| label).collect()
}

fn mistake(gateway: &str) -> String {
    parsed(&plan(gateway), &[]).expect_err("a mistake").to_string()
}

#[test]
fn a_list_of_versions_gives_several_gateways() {
    let found = drivers("{ name: nginx, version: [1.22.1, \"1.30\"] }");
    let installed = |name: &str| {
        PackDriver::Version(ProgramVersion { name: name.into(), source: ProgramSource::Installed })
    };
    let expected = [("nginx-1.22.1", "1.22.1"), ("nginx-1.30", "1.30")];
    assert_eq!(found, expected.map(|(label, version)| (label.to_owned(), installed(version))));
    assert_eq!(labels("{ name: nginx, version: 1.22.1 }"), ["nginx"], "one version keeps the label");
}

#[test]
fn images_and_tags_are_versions() {
    let image = |image: &str| PackDriver::Docker { image: Some(image.into()) };
    let of_pack = drivers("{ name: nginx, driver: docker, version: [1.26, 1.27] }");
    let expected = [("nginx-1.26", "nginx:1.26"), ("nginx-1.27", "nginx:1.27")];
    assert_eq!(of_pack, expected.map(|(label, one)| (label.to_owned(), image(one))));
    let of_plan = drivers("{ name: nginx, driver: docker, image: \"here:5000/mine:old\", version: [a, b] }");
    assert_eq!(of_plan[1], ("nginx-b".to_owned(), image("here:5000/mine:b")));
    let listed = drivers("{ name: nginx, driver: docker, image: [\"nginx:1\", \"nginx:2\"] }");
    assert_eq!(listed[1], ("nginx-2".to_owned(), image("nginx:2")));
    let single = drivers("{ name: nginx, driver: docker, image: \"nginx:1\" }");
    assert_eq!(single, [("nginx".to_owned(), image("nginx:1"))]);
    let text = mistake("{ name: nginx, driver: docker, image: [a, b], version: [1, 2] }");
    insta::assert_snapshot!(text);
}

#[test]
fn binaries_are_named_after_the_part_that_differs() {
    let found = labels("{ name: nginx, binary: [/opt/nginx-1.22/sbin/nginx, /opt/nginx-1.26/sbin/nginx] }");
    assert_eq!(found, ["nginx-nginx-1.22", "nginx-nginx-1.26"]);
    assert_eq!(labels("{ name: nginx, label: x, binary: [a/one, a/two] }"), ["x-one", "x-two"]);
    let relative = drivers("{ name: nginx, binary: bin/nginx }");
    let PackDriver::Version(version) = &relative[0].1 else { panic!("a version") };
    assert_eq!(version.source, ProgramSource::Binary("no-such-directory/bin/nginx".into()));
}

const GIT: &str =
    "git: { repository: ../proxy, refs: [v1.4, feature/x, HEAD], build: make, binary: bin/proxy }";

#[test]
fn refs_are_versions_that_are_built() {
    let found = drivers(&format!("{{ name: nginx, label: proxy, {GIT} }}"));
    let labels: Vec<&str> = found.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["proxy-v1.4", "proxy-feature-x", "proxy-HEAD"]);
    let git = found[1].1.git().expect("a build");
    let expected = GitBuild {
        repository: "no-such-directory/../proxy".into(),
        reference: "feature/x".into(),
        commit: None,
        build: "make".into(),
        binary: "bin/proxy".into(),
    };
    assert_eq!(*git, expected);
    assert_eq!(found[1].1.version_name(), Some("feature/x"));
}

#[test]
fn versions_and_features_multiply() {
    let found = labels("{ name: nginx, version: [1, 2], features: each }");
    assert_eq!(
        found,
        [
            "nginx-1",
            "nginx-1.key-auth",
            "nginx-1.rate-limit",
            "nginx-2",
            "nginx-2.key-auth",
            "nginx-2.rate-limit"
        ]
    );
}

#[test]
fn mistakes_say_what_to_write() {
    let told = refusals(
        &[
            "{ name: hop-l7, version: [1, 2] }",
            "{ name: nginx, version: 1, binary: /a }",
            "{ name: nginx, driver: docker, binary: /a }",
            "{ name: nginx, version: [1, 1] }",
            "{ name: nginx, version: [\"a b\"] }",
            "{ name: nginx, git: { repository: r, refs: [--x], build: make, binary: b } }",
            "{ name: nginx, git: { repository: r, refs: a, build: make, binary: ../b } }",
            "{ name: nginx, git: { repository: \"https://x/y\", refs: a, build: make, binary: b } }",
            "{ name: nginx, git: { repository: r, refs: a, build: \"\", binary: b } }",
            "{ name: nginx, image: a }",
        ],
        mistake,
    );
    insta::assert_snapshot!(told);
    let long = "x".repeat(70);
    let text = mistake(&format!("{{ name: nginx, version: [{long}, 2] }}"));
    insta::assert_snapshot!(text);
}
