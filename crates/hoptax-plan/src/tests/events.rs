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
    let told = refusals(
        &[
            "{ at: 5s, do: reload, gateway: nginx }",
            "{ at: 1s, do: relode, gateway: nginx }",
            "{ at: 1s }",
            "{ do: reload }",
            "{ at: 1s, do: reload }",
            "{ at: 1s, do: reload, gateway: hop-l7 }",
            "{ at: 1s, do: restart-gateway, gateway: hop-l7 }",
            "{ at: 1s, do: scrape }",
            "{ at: 1s, do: scrape, gateway: hop-l7 }",
            "{ at: 1s, do: change-route, gateway: haproxy }",
            "{ at: 1s, do: change-route, route: top, gateway: nginx }",
            "{ at: 1s, do: reload, route: last, gateway: nginx }",
            "{ at: 1s, do: reload, instance: 0, gateway: nginx }",
            "{ at: 1s, do: reload, gateway: ngnix }",
            "{ at: 1s, do: restart-upstream, instance: 2 }",
            "{ at: 1s, do: restart-upstream, down: 20m }",
        ],
        |event| mistake(&with(&format!("  - {event}\n"))),
    );
    insta::assert_snapshot!(told);
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
