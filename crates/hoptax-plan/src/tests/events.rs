//! Tests of the events of a plan, and of wrong events.

use super::*;

fn with(events: &str) -> String {
    format!(
        "upstream: {{ instances: 2 }}\ngateways: [{{ name: routed, label: nginx, features: [{{ routes: 10 \
         }}] }}, haproxy, hop-l7]\n\
         load: [{{ loop: closed, connections: 1, duration: 5s }}]\nevents:\n{events}"
    )
}

#[test]
fn events_are_sorted_by_time() {
    let plan = good(&with(
        "  - { at: 4s, do: restart-upstream, instance: 1, down: 1s }\n\
         \x20 - { at: 2500ms, do: change-route, route: first, gateway: nginx }\n\
         \x20 - { at: 1s, do: reload, gateway: nginx }\n\
         \x20 - { at: 3s, do: restart-gateway, gateway: haproxy }\n\
         \x20 - { at: 3500ms, do: scrape, gateway: nginx }\n",
    ));
    let shown: Vec<_> =
        plan.events.iter().map(|event| (event.at.as_millis(), event.action.to_string())).collect();
    let expected = [
        (1000, "reload"),
        (2500, "change-route (first)"),
        (3000, "restart-gateway"),
        (3500, "scrape"),
        (4000, "restart-upstream (instance 1, away for 1s)"),
    ];
    assert_eq!(shown, expected.map(|(at, shown)| (at, shown.to_owned())));
    assert_eq!(plan.events[4].gateway, None);
    assert_eq!(kept(&plan), plan);
}

#[test]
fn errors_have_places() {
    for (event, expected) in [
        (
            "{ at: 5s, do: reload, gateway: nginx }",
            "5:11: 5s is not within the shortest trial, which takes 5s",
        ),
        ("{ at: 1s, do: relode, gateway: nginx }", "did you mean `reload`?"),
        ("{ at: 1s }", "missing key `do`"),
        ("{ do: reload }", "missing key `at`"),
        ("{ at: 1s, do: reload }", "the pack `haproxy` has no `reload`"),
        ("{ at: 1s, do: reload, gateway: hop-l7 }", "5:19: `hop-l7` does not support `reload`"),
        ("{ at: 1s, do: restart-gateway, gateway: hop-l7 }", "`hop-l7` does not support `restart-gateway`"),
        ("{ at: 1s, do: scrape }", "5:19: the pack `haproxy` has no `metrics` to read"),
        ("{ at: 1s, do: scrape, gateway: hop-l7 }", "`hop-l7` does not support `scrape`"),
        ("{ at: 1s, do: change-route, gateway: haproxy }", "`haproxy` has no routes to change"),
        (
            "{ at: 1s, do: change-route, route: top, gateway: nginx }",
            "5:40: unknown position `top` of a route",
        ),
        ("{ at: 1s, do: reload, route: last, gateway: nginx }", "5:34: `route` is only for `change-route`"),
        ("{ at: 1s, do: reload, instance: 0, gateway: nginx }", "`instance` is only for `restart-upstream`"),
        ("{ at: 1s, do: reload, gateway: ngnix }", "no gateway has the label `ngnix`"),
        ("{ at: 1s, do: restart-upstream, instance: 2 }", "5:47: the upstream has no instance 2"),
        ("{ at: 1s, do: restart-upstream, down: 20m }", "5:43: `down` is too long: 20m"),
    ] {
        let text = with(&format!("  - {event}\n"));
        let shown = parsed(&text, &[]).expect_err(event).to_string();
        assert!(shown.contains(expected), "{event}\n{shown}");
    }
}

#[test]
fn events_exclude_searches_and_restarts_of_running_upstreams() {
    let search = "gateways: [nginx]\nload:\n  - loop: open\n    search: { slo: p99 < 10ms, from: 100/s, to: \
                  1000/s }\n    connections: 8\n    duration: 5s\nevents: [{ at: 1s, do: reload }]\n";
    let shown = parsed(search, &[]).expect_err("refused").to_string();
    insta::assert_snapshot!(shown);
    let running = "upstream: { url: \"http://127.0.0.1:8080\" }\ngateways: [nginx]\nload: [{ loop: closed, \
                   connections: 1 }]\n\
                   events: [{ at: 1s, do: restart-upstream }]\n";
    let shown = parsed(running, &[]).expect_err("refused").to_string();
    insta::assert_snapshot!(shown);
    let alone = "gateways: []\nload: [{ loop: closed, connections: 1 }]\nevents: [{ at: 1s, do: reload }]\n";
    let shown = parsed(alone, &[]).expect_err("refused").to_string();
    insta::assert_snapshot!(shown);
}
