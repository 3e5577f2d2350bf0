//! Gateways that replace other gateways that are not installed.

use super::*;

const PLAN: &str = "\
gateways:
  - haproxy
  - { name: nginx, label: stand-in, instead_of: haproxy, not_comparable: \"  its\\n  routes \\e[31m\" }
  - { name: envoy, workers: 2 }
load: [{ loop: closed, connections: 1 }]
budget:
  - { gateway: stand-in, metric: p99, max: 1ms }
  - { gateway: envoy, metric: p99, against: stand-in, max: +10% }
  - { gateway: haproxy, metric: p99, max: 1ms }
";

fn labels(plan: &Plan) -> Vec<&str> {
    plan.gateways.iter().map(|gateway| &*gateway.label).collect()
}

/// The plan and the printed lines if the gateways in `missing` are not installed.
fn replaced(missing: &[&str]) -> (Plan, Vec<String>) {
    let mut plan = good(PLAN);
    let lines = plan.replace_missing(|gateway| missing.contains(&&*gateway.label));
    (plan, lines)
}

#[test]
fn a_missing_gateway_is_replaced() {
    let (plan, lines) = replaced(&["haproxy"]);
    assert_eq!(labels(&plan), ["stand-in", "envoy"]);
    insta::assert_snapshot!(lines.join("\n"));
    let expected = Replacement {
        gateway: "stand-in".into(),
        instead_of: "haproxy".into(),
        not_comparable: "its routes \\u{1b}[31m".into(),
    };
    assert_eq!(plan.replacements, [expected]);
    assert_eq!(plan.budget.len(), 3, "the budget of haproxy cannot be kept, and must not vanish");
    assert_eq!(kept(&plan), plan);
}

#[test]
fn an_installed_gateway_is_not_replaced() {
    insta::assert_snapshot!(replaced(&[]).1.join("\n"));
    let cases: [&[&str]; 3] = [&[], &["stand-in"], &["envoy"]];
    for missing in cases {
        let (plan, lines) = replaced(missing);
        assert_eq!(labels(&plan), ["haproxy", "envoy"]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(plan.replacements, []);
        assert_eq!(plan.budget.len(), 1, "{:?}", plan.budget);
        assert_eq!(plan.budget[0].gateway.as_deref(), Some("haproxy"));
    }
}

#[test]
fn two_missing_gateways_remain() {
    let (plan, lines) = replaced(&["haproxy", "stand-in"]);
    assert_eq!(labels(&plan), ["haproxy", "stand-in", "envoy"]);
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!((plan.replacements.len(), plan.budget.len()), (0, 3));
}

#[test]
fn a_gateway_whose_partner_was_removed_is_measured() {
    for removed in ["haproxy", "stand-in"] {
        let mut plan = good(PLAN);
        plan.gateways.retain(|gateway| gateway.label != removed);
        let lines = plan.replace_missing(|_| true);
        assert_eq!((plan.gateways.len(), lines, plan.replacements), (2, vec![], vec![]), "{removed}");
    }
}

#[test]
fn mistakes_in_replacements() {
    let why = "not_comparable: its routes";
    let pair = format!("[haproxy, {{ name: nginx, instead_of: haproxy, {why} }}");
    let told = refusals(
        &[
            &format!("[haproxy, {{ name: nginx, instead_of: haprox, {why} }}]"),
            &format!("[haproxy, {{ name: nginx, instead_of: zzzzzz, {why} }}]"),
            &format!("[{{ name: nginx, instead_of: kong, {why} }}]"),
            &format!("[haproxy, {{ name: nginx, instead_of: nginx, {why} }}]"),
            "[haproxy, { name: nginx, instead_of: haproxy }]",
            "[haproxy, { name: nginx, instead_of: haproxy, not_comparable: \" \" }]",
            &format!("[haproxy, {{ name: nginx, {why} }}]"),
            &format!("[hop-l4, {{ name: nginx, instead_of: hop-l4, {why} }}]"),
            &format!("[haproxy, {{ name: nginx, features: each, instead_of: haproxy, {why} }}]"),
            &format!("[{{ name: nginx, features: each }}, {{ name: envoy, instead_of: nginx, {why} }}]"),
            &format!("[{{ name: nginx, version: [1, 2] }}, {{ name: envoy, instead_of: nginx, {why} }}]"),
            &format!("{pair}, {{ name: envoy, instead_of: nginx, {why} }}]"),
            &format!("{pair}, {{ name: envoy, instead_of: haproxy, {why} }}]"),
        ],
        |gateways| mistake(&format!("gateways: {gateways}\nload: [{{ loop: closed, connections: 1 }}]\n")),
    );
    insta::assert_snapshot!(told);
}
