//! Events of a plan: what they mean, and what is said of wrong ones.

use super::*;

fn with(events: &str) -> String {
    format!(
        "upstream: {{ instances: 2 }}\ngateways: [{{ name: routed, label: nginx, features: [{{ routes: 10 }}] }}, haproxy, hop-l7]\n\
         load: [{{ loop: closed, connections: 1, duration: 5s }}]\nevents:\n{events}"
    )
}

#[test]
fn happen_in_the_order_of_their_times() {
    let plan = good(&with(
        "  - { at: 4s, do: restart-upstream, instance: 1, down: 1s }\n\
         \x20 - { at: 2500ms, do: change-route, route: first, gateway: nginx }\n\
         \x20 - { at: 1s, do: reload, gateway: nginx }\n\
         \x20 - { at: 3s, do: restart-gateway, gateway: haproxy }\n",
    ));
    let told: Vec<_> =
        plan.events.iter().map(|event| (event.at.as_millis(), event.action.to_string())).collect();
    let expected = [
        (1000, "reload"),
        (2500, "change-route (first)"),
        (3000, "restart-gateway"),
        (4000, "restart-upstream (instance 1, away for 1s)"),
    ];
    assert_eq!(told, expected.map(|(at, told)| (at, told.to_owned())));
    assert_eq!(plan.events[3].gateway, None);
    assert_eq!(kept(&plan), plan);
}

#[test]
fn mistakes_are_told_where_they_stand() {
    for (event, expected) in [
        (
            "{ at: 5s, do: reload, gateway: nginx }",
            "5:11: nothing is measured at 5s: the shortest trial takes 5s",
        ),
        ("{ at: 1s, do: relode, gateway: nginx }", "did you mean `reload`?"),
        ("{ at: 1s }", "missing key `do`"),
        ("{ do: reload }", "missing key `at`"),
        ("{ at: 1s, do: reload }", "the pack `haproxy` does not say how to reload"),
        ("{ at: 1s, do: reload, gateway: hop-l7 }", "5:19: `hop-l7` is not started from a pack"),
        ("{ at: 1s, do: restart-gateway, gateway: hop-l7 }", "nothing says how to do `restart-gateway`"),
        ("{ at: 1s, do: change-route, gateway: haproxy }", "`haproxy` has no routes to change"),
        (
            "{ at: 1s, do: change-route, route: top, gateway: nginx }",
            "5:40: there is no place `top` among routes",
        ),
        ("{ at: 1s, do: reload, route: last, gateway: nginx }", "5:34: `route` belongs to `change-route`"),
        ("{ at: 1s, do: reload, instance: 0, gateway: nginx }", "`instance` belongs to `restart-upstream`"),
        ("{ at: 1s, do: reload, gateway: ngnix }", "no gateway is labelled `ngnix`"),
        ("{ at: 1s, do: restart-upstream, instance: 2 }", "5:47: the upstream has no instance 2"),
        ("{ at: 1s, do: restart-upstream, down: 20m }", "5:43: away for 20m"),
    ] {
        let text = with(&format!("  - {event}\n"));
        let told = parsed(&text, &[]).expect_err(event).to_string();
        assert!(told.contains(expected), "{event}\n{told}");
    }
}

#[test]
fn belong_to_no_search_and_to_no_upstream_of_others() {
    let search = "gateways: [nginx]\nload:\n  - loop: open\n    search: { slo: p99 < 10ms, from: 100/s, to: 1000/s }\n    \
                  connections: 8\n    duration: 5s\nevents: [{ at: 1s, do: reload }]\n";
    let told = parsed(search, &[]).expect_err("refused").to_string();
    assert!(told.contains("events and a search for a capacity cannot be in one plan"), "{told}");
    let running = "upstream: { url: \"http://127.0.0.1:8080\" }\ngateways: [nginx]\nload: [{ loop: closed, connections: 1 }]\n\
                   events: [{ at: 1s, do: restart-upstream }]\n";
    let told = parsed(running, &[]).expect_err("refused").to_string();
    assert!(told.contains("an upstream that already runs cannot be restarted"), "{told}");
    let alone = "gateways: []\nload: [{ loop: closed, connections: 1 }]\nevents: [{ at: 1s, do: reload }]\n";
    let told = parsed(alone, &[]).expect_err("refused").to_string();
    assert!(told.contains("`reload` is for gateways, and there is none"), "{told}");
}
