use super::*;
use crate::fixture::features::matrix;
use crate::fixture::{Run, via};
use hoptax_plan::Feature;

fn at<'p>(prices: &'p [Price], gateway: &str) -> &'p Price {
    prices.iter().find(|price| price.gateway == gateway).unwrap_or_else(|| panic!("{gateway}: {prices:#?}"))
}

fn close(price: Option<&Difference>, expected: f64, within: f64) -> bool {
    price.is_some_and(|price| (price.estimate.estimate - expected).abs() <= within)
}

#[test]
fn a_price_is_the_difference_from_the_bare_gateway() {
    let prices = matrix(230, 33).analyse().prices;
    assert_eq!(prices.len(), 3);
    let key = at(&prices, "nginx.key-auth");
    assert_eq!(
        (key.bare.as_str(), key.features.as_slice(), &key.beyond),
        ("nginx", &[Feature::KeyAuth][..], &None)
    );
    assert!(close(key.prices.added_p50.as_ref(), 12.0, 0.3), "{key:#?}");
    assert!(close(key.prices.added_p99.as_ref(), 12.0, 0.3), "{key:#?}");
    assert!(close(key.prices.cpu_us_per_request.as_ref(), 1.0, 0.02), "{key:#?}");
    assert!(close(key.prices.throughput_ratio.as_ref(), 150.0 / 162.0, 0.001), "{key:#?}");
    assert!(close(key.prices.memory_rss_bytes.as_ref(), 0.0, 0.0), "{key:#?}");
    let price = |metric| key.prices.get(metric).expect("measured");
    for metric in Metric::PRICES {
        assert_eq!(price(metric).estimate.trials, 5, "{metric:?}");
        assert!(price(metric).estimate.interval().is_some(), "{metric:?}");
        assert_eq!(price(metric).distinguishable, metric != Metric::MemoryRssBytes, "{metric:?}: {key:#?}");
    }
}

#[test]
fn a_pair_that_costs_the_sum_costs_nothing_beyond() {
    let prices = matrix(212, 31).analyse().prices;
    let both = at(&prices, "nginx.key-auth.tls");
    assert!(close(both.prices.added_p50.as_ref(), 62.0, 0.3), "{both:#?}");
    let beyond = both.beyond.as_ref().expect("both parts are there");
    assert_eq!(beyond.alone, ["nginx.key-auth", "nginx.tls"]);
    assert!(close(beyond.prices.added_p50.as_ref(), 0.0, 0.5), "{beyond:#?}");
    assert!(!beyond.prices.added_p50.as_ref().expect("measured").distinguishable, "{beyond:#?}");
    assert!(close(beyond.prices.cpu_us_per_request.as_ref(), 0.0, 0.05), "{beyond:#?}");
}

#[test]
fn a_pair_that_costs_more_than_the_sum() {
    let prices = matrix(300, 50).analyse().prices;
    let beyond = at(&prices, "nginx.key-auth.tls").beyond.as_ref().expect("both parts are there");
    let p50 = beyond.prices.added_p50.as_ref();
    assert!(
        close(p50, 300.0 - 162.0 - 200.0 + 150.0, 0.6) && p50.expect("price").distinguishable,
        "{beyond:#?}"
    );
    assert!(close(beyond.prices.cpu_us_per_request.as_ref(), 19.0, 0.1), "{beyond:#?}");
    // The ratio of both features together ÷ the product of the ratios of the single features: (150 ÷ 300) ÷
    // (150 ÷ 162 · 150 ÷ 200).
    let left = (150.0 / 300.0) / (150.0 / 162.0 * 150.0 / 200.0);
    assert!(close(beyond.prices.throughput_ratio.as_ref(), left, 0.002), "{beyond:#?}");
}

#[test]
fn a_price_below_the_noise_floor_is_not_distinguishable() {
    let mut run = matrix(230, 33);
    for trial in run.trials.iter_mut().filter(|trial| trial.direct == Some(hoptax_record::DirectTrial::Last))
    {
        *trial = via("direct", trial.round).last().all_at_us(130).0;
    }
    let prices = run.analyse().prices;
    let key = at(&prices, "nginx.key-auth").prices.added_p50.expect("measured");
    assert!(key.in_run.excludes(0.0) && !key.distinguishable, "12 µs against a floor of 30: {key:?}");
    assert!(!key.estimate.excludes(0.0) && key.estimate.half_width() > key.in_run.half_width(), "{key:?}");
    assert!(at(&prices, "nginx.tls").prices.added_p50.expect("measured").distinguishable);
}

#[test]
fn only_rounds_with_all_gateways_count() {
    let mut run = matrix(230, 33);
    run.trials.retain(|trial| trial.round == 0 || trial.contender != "nginx.tls");
    let prices = run.analyse().prices;
    let tls = at(&prices, "nginx.tls").prices.added_p50.expect("one round has both");
    assert_eq!((tls.estimate.trials, tls.estimate.interval(), tls.distinguishable), (1, None, false));
    assert_eq!(at(&prices, "nginx.key-auth").prices.added_p50.expect("measured").estimate.trials, 5);
    let beyond = at(&prices, "nginx.key-auth.tls").beyond.clone().expect("one round has all");
    assert_eq!(beyond.prices.added_p50.expect("measured").estimate.trials, 1);
    run.trials.retain(|trial| trial.contender != "nginx");
    assert_eq!(run.analyse().prices, [], "there is no bare gateway");
}

#[test]
fn without_features_or_figures_there_is_no_price() {
    assert_eq!(Run::steady(3, 100, &[("nginx", 150)]).analyse().prices, []);
    let mut run = matrix(230, 33);
    for trial in &mut run.trials {
        trial.gateway = None;
    }
    let price = &run.analyse().prices[0];
    assert!(price.prices.cpu_us_per_request.is_none() && price.prices.memory_rss_bytes.is_none());
    assert!(price.prices.added_p50.is_some());
}
