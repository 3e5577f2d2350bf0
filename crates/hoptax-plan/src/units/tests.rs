//! Tests which texts are accepted, which error messages are reported, and how values are shown.

use super::*;
use crate::tests::refusals;

fn words<T: std::fmt::Debug>(result: Result<T, UnitError>) -> String {
    result.expect_err("must be refused").to_string()
}

#[test]
fn durations() {
    for (text, nanoseconds, shown) in [
        ("250ms", 250_000_000, "250ms"),
        ("5s", 5_000_000_000, "5s"),
        ("1m", 60_000_000_000, "1m"),
        ("1.5s", 1_500_000_000, "1.5s"),
        ("90s", 90_000_000_000, "1.5m"),
        ("100us", 100_000, "100us"),
        ("100µs", 100_000, "100us"),
        ("0ms", 0, "0s"),
        ("2h", 7_200_000_000_000, "2h"),
        (" 7 ns ", 7, "7ns"),
        ("1234567ns", 1_234_567, "1234.567us"),
        ("61s", 61_000_000_000, "61s"),
    ] {
        let parsed = duration(text).unwrap();
        assert_eq!(parsed, Duration::from_nanos(nanoseconds), "{text}");
        assert_eq!(show_duration(parsed), shown, "{text}");
        assert_eq!(duration(&show_duration(parsed)), Ok(parsed), "{text}");
    }
    let told = refusals(&["5", "5 sec", "-1s", "9000h"], |text| words(duration(text)));
    insta::assert_snapshot!(told);
    for text in ["", "s", "1..5s", "1e3s", "five"] {
        assert!(duration(text).is_err(), "{text}");
    }
}

#[test]
fn rates() {
    for (text, per_second, shown) in [
        ("1000/s", 1000.0, "1000/s"),
        ("60/m", 1.0, "1/s"),
        ("0.5/s", 0.5, "0.5/s"),
        ("100/m", 100.0 / 60.0, "100/m"),
        ("1/h", 1.0 / 3600.0, "1/h"),
    ] {
        assert_eq!(rate(text), Ok(per_second), "{text}");
        assert_eq!(show_rate(per_second), shown, "{text}");
    }
    let told = refusals(&["1000", "10/d", "0/s"], |text| words(rate(text)));
    insta::assert_snapshot!(told);
    for text in ["-1/s", "1k/s", "/s", "fast", "1/s/s"] {
        assert!(rate(text).is_err(), "{text}");
    }
}

#[test]
fn sizes() {
    for (text, bytes, shown) in [
        ("512B", 512, "512B"),
        ("1KiB", 1024, "1KiB"),
        ("64KiB", 65_536, "64KiB"),
        ("1MiB", 1_048_576, "1MiB"),
        ("10kB", 10_000, "10000B"),
        ("1.5KiB", 1536, "1536B"),
        ("0B", 0, "0B"),
    ] {
        assert_eq!(size(text), Ok(bytes), "{text}");
        assert_eq!(show_size(bytes), shown, "{text}");
    }
    let told = refusals(&["1024", "1kib", "1KB"], |text| words(size(text)));
    insta::assert_snapshot!(told);
    for text in ["0.5B", "big", "-1B", "99999999GiB"] {
        assert!(size(text).is_err(), "{text}");
    }
}

#[test]
fn bytes_are_sizes_or_plain_numbers() {
    for (text, expected) in [("64", 64), ("64B", 64), (" 1KiB ", 1024), ("5GiB", u32::MAX)] {
        assert_eq!(bytes(text), Ok(expected), "{text}");
    }
    for text in ["", "-1", "1.5", "0.5B", "1KB", "many"] {
        assert!(bytes(text).is_err(), "{text}");
    }
}

#[test]
fn shares() {
    for (text, value, shown) in [
        ("1%", 0.01, "1%"),
        ("0.01", 0.01, "1%"),
        ("99.9%", 0.999, "99.9%"),
        ("0", 0.0, "0%"),
        ("1", 1.0, "100%"),
    ] {
        let parsed = share(text).unwrap();
        assert!((parsed - value).abs() < 1e-12, "{text}");
        assert_eq!(show_share(parsed), shown, "{text}");
    }
    let told = refusals(&["5", "101%"], |text| words(share(text)));
    insta::assert_snapshot!(told);
    assert!(share("half").is_err());
}

#[test]
fn arrivals_by_name() {
    for (text, value) in [
        ("constant", Arrivals::Constant),
        ("jitter", Arrivals::Jitter(0.1)),
        ("jitter(25%)", Arrivals::Jitter(0.25)),
        ("poisson", Arrivals::Poisson),
    ] {
        assert_eq!(arrivals(text), Ok(value));
        assert_eq!(show_arrivals(value), text);
    }
    let told = refusals(&["poison", "bursts"], |text| words(arrivals(text)));
    insta::assert_snapshot!(told);
    assert!(arrivals("jitter(2)").is_err());
    assert!(arrivals("jitter(10%").is_err());
    assert!(arrivals("constant(1)").is_err());
}

#[test]
fn delays() {
    let ms = Duration::from_millis;
    for (text, value) in [
        ("2ms", Delay::Fixed(ms(2))),
        ("uniform(1ms, 5ms)", Delay::Uniform { from: ms(1), to: ms(5) }),
        ("exponential(2ms)", Delay::Exponential { mean: ms(2) }),
        ("choice(99% 1ms, 1% 50ms)", Delay::Choice(vec![(0.99, ms(1)), (0.01, ms(50))])),
    ] {
        assert_eq!(delay(text), Ok(value.clone()));
        assert_eq!(value.to_string(), text);
    }
    let texts = "choice(90% 0ms, 1% 50ms)|uniform(5ms, 1ms)|unifrom(1ms, 2ms)|uniform|uniform(1ms)|\
                 choice(1ms)|exponential(0ms)|3";
    let texts: Vec<&str> = texts.split('|').collect();
    let told = refusals(&texts, |text| words(delay(text)));
    insta::assert_snapshot!(told);
}

#[test]
fn changes_are_signed_percentages() {
    assert_eq!((change("+10%"), change("-5%"), change("−5 %")), (Ok(0.1), Ok(-0.05), Ok(-0.05)));
    let told = refusals(&["+10", "-100%"], |text| words(change(text)));
    insta::assert_snapshot!(told);
    assert_eq!((show_change(0.1), show_change(-0.05)), ("+10%".to_owned(), "-5%".to_owned()));
}

#[test]
fn budget_values_follow_the_metric() {
    assert_eq!(budget_value(Metric::P999, "1ms"), Ok(1000.0));
    assert_eq!(budget_value(Metric::Throughput, "1000/s"), Ok(1000.0));
    assert_eq!(budget_value(Metric::MemoryPssBytes, "1KiB"), Ok(1024.0));
    assert_eq!(budget_value(Metric::BytesPerStream, "40KiB"), Ok(40_960.0));
    assert_eq!(budget_value(Metric::AddedP99, "1ms"), Ok(1000.0));
    assert_eq!(budget_value(Metric::CpuUsPerRequest, "30us"), Ok(30.0));
    assert_eq!(budget_value(Metric::ThroughputRatio, "0.9"), Ok(0.9));
    assert_eq!(budget_value(Metric::ThroughputRatio, "90%"), Ok(0.9));
    assert_eq!(budget_value(Metric::ExtraUpstreamRequests, "2"), Ok(2.0));
    assert_eq!(budget_value(Metric::ErrorShare, "5%"), Ok(0.05));
    assert_eq!(budget_value(Metric::MemoryRssBytes, "64MiB"), Ok(67_108_864.0));
    assert!(words(budget_value(Metric::AddedP99, "1")).contains("has no unit"));
    assert!(words(budget_value(Metric::ThroughputRatio, "1ms")).contains("is not a ratio"));
    assert_eq!(show_budget_value(Metric::AddedP99, 1000.0), "1ms");
    assert_eq!(show_budget_value(Metric::MemoryRssBytes, 67_108_864.0), "64MiB");
    assert_eq!(show_budget_value(Metric::ErrorShare, 0.05), "5%");
}

#[test]
fn origins() {
    for (url, understood) in [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://localhost/", "http://localhost:80"),
        ("http://[::1]:81", "http://[::1]:81"),
        ("HTTPS://localhost", "https://localhost:443"),
    ] {
        assert_eq!(origin(url).expect("right").to_string(), understood);
    }
    let texts = "127.0.0.1:8080|ftp://localhost|unix:/run/a.sock|http://localhost/api|https://localhost/api|\
                 http://me@localhost|http://|http://a b|http://localhost:0|http://localhost:99999";
    let texts: Vec<&str> = texts.split('|').collect();
    let told = refusals(&texts, |url| words(origin(url)));
    insta::assert_snapshot!(told);
}

#[test]
fn cpu_lists() {
    assert_eq!(cpu_list("0"), Ok(vec![0]));
    assert_eq!(cpu_list("2-3, 0"), Ok(vec![0, 2, 3]));
    assert_eq!(cpu_list("1,1-2"), Ok(vec![1, 2]));
    for text in ["", "a", "3-2", "0,", "-1", "0-99999999"] {
        assert!(cpu_list(text).is_err(), "{text}");
    }
}

#[test]
fn nearest_is_near() {
    assert_eq!(nearest("ngnix", ["nginx", "envoy"]), Some("nginx"));
    assert_eq!(nearest("conections", ["connections", "duration"]), Some("connections"));
    assert_eq!(nearest("kong", ["nginx", "envoy"]), None);
}
