use super::*;
use crate::seen::Seen;
use std::time::Duration;

/// A log of a known mix: `count` requests over 100 s.
fn mix(requests: &[(&str, &str, u16, u64)]) -> Mix {
    let mut mix = Mix::new(false);
    for (index, (method, target, status, bytes)) in requests.iter().enumerate() {
        mix.add(Seen {
            method: (*method).to_owned(),
            target: (*target).to_owned(),
            status: Some(*status),
            at: Some(1_795_811_144.0 + index as f64 * 100.0 / requests.len() as f64),
            response_bytes: Some(*bytes),
            took: Some(Duration::from_millis(2)),
            ..Seen::default()
        });
    }
    mix
}

fn written(mix: &Mix, top: usize) -> String {
    let options = Options { top, ..Options::default() };
    plan(&Source { name: "access.log", options: &options, mix }, &mix.choose(top))
}

#[test]
fn a_known_mix_becomes_a_plan() {
    let mut requests = Vec::new();
    for index in 0..1000 {
        requests.push(match index % 10 {
            0 => ("POST", "/orders", 201, 10),
            1 | 2 => ("GET", if index % 4 == 1 { "/users/17" } else { "/users/99" }, 200, 300),
            3 => ("GET", "/users/50", 404, 20),
            4 => ("DELETE", if index % 4 == 0 { "/odd" } else { "/even" }, 204, 0),
            _ => ("GET", "/search?q=secret&page=3", 200, 1000),
        });
    }
    let mix = mix(&requests);
    let text = written(&mix, 3);
    assert!(!text.contains("secret"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn bodies_in_chunks_stay_so() {
    let seen = |path: &str, text: Option<&str>| Seen {
        method: "POST".into(),
        target: path.into(),
        request_bytes: Some(3),
        body: text.map(str::to_owned),
        is_chunked: true,
        ..Seen::default()
    };
    let mut mix = Mix::new(false);
    mix.add(seen("/a", Some("abc")));
    mix.add(seen("/b", None));
    insta::assert_snapshot!(list(&mix.choose(50), ""));
}

#[test]
fn weights_of_large_logs_fit_and_names_are_unique() {
    let long = format!("/{}", "a".repeat(100));
    let (one, two) = (format!("{long}/1x"), format!("{long}/2x"));
    let mut mix = mix(&[("GET", &one, 200, 1), ("GET", &two, 200, 1)]);
    let text = written(&mix, 50);
    assert!(text.contains("…\"\n") && text.contains(" (2)\"\n"), "{text}");
    for _ in 0..3_000_000 / 1000 {
        mix.add(Seen { method: "GET".into(), target: one.clone(), status: Some(200), ..Seen::default() });
    }
    assert!(list(&mix.choose(50), "").contains("weight: 3001\n"));
}

#[test]
fn shares_of_a_distribution_add_up() {
    let mut sketch = Sketch::default();
    (1..=999).for_each(|value| sketch.add(value));
    let text = distribution(&sketch, |value| format!("{value}B")).expect("values");
    let shares: f64 = text
        .trim_matches('"')
        .trim_start_matches("choice(")
        .split(", ")
        .map(|part| part.split('%').next().and_then(|share| share.parse::<f64>().ok()).expect("a share"))
        .sum();
    assert!((shares - 100.0).abs() < 1e-9, "{text}");
    assert_eq!(time_text(0), "0ms");
    assert_eq!(time_text(1_234_567_890), "1234ms");
}
