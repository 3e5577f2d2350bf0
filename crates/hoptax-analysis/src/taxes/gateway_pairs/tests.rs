use super::*;
use crate::fixture::features::{gateway, matrix};
use crate::fixture::{Run, closed_point, searched_point, via};

/// A run with a trial of each gateway in each round. Each gateway is given with its response times, µs.
/// Direct always takes 100 µs.
fn run(gateways: &[(&str, &[u64])]) -> Run {
    let mut run = Run::closed(1);
    let rounds = gateways.iter().map(|(_, times)| times.len()).max().unwrap_or(0);
    for round in 0..rounds as u32 {
        run.direct(round, 100, 100);
        for (gateway, times) in gateways {
            if let Some(time) = times.get(round as usize) {
                run.push(via(gateway, round).all_at_us(*time));
            }
        }
    }
    run
}

fn pair(run: &Run, first: &str, second: &str, metric: Metric) -> GatewayPair {
    let pairs = run.analyse().pairs;
    let of = |one: &&GatewayPair| one.first == first && one.second == second && one.metric == metric;
    pairs.iter().find(of).unwrap_or_else(|| panic!("{first}, {second}, {metric:?}: {pairs:#?}")).clone()
}

fn p50(run: &Run, first: &str, second: &str) -> GatewayPair {
    pair(run, first, second, Metric::AddedP50)
}

/// What disturbs the rounds of a noisy machine, µs.
const SCATTER: [u64; 10] = [0, 47, 12, 33, 50, 5, 21, 40, 28, 9];

#[test]
fn what_disturbs_a_whole_round_cancels() {
    let disturbed = |time: u64| SCATTER.map(|extra| time + extra);
    let run = run(&[("nginx", &disturbed(150)), ("haproxy", &disturbed(155))]);
    let analysis = run.analyse();
    let tax = |gateway| {
        let tax = analysis.case(gateway, 0).expect("measured").tax.as_ref().expect("a gateway");
        tax.added_p50.expect("measured").estimate
    };
    let (nginx, haproxy) = (tax("nginx"), tax("haproxy"));
    assert!(nginx.high > haproxy.low, "the intervals against direct overlap: {nginx:?} {haproxy:?}");
    assert!(nginx.half_width().expect("ten rounds") > 5.0, "{nginx:?}");
    let pair = p50(&run, "nginx", "haproxy");
    assert!(pair.distinguishable && (pair.difference.estimate - 5.0).abs() < 0.3, "{pair:?}");
    assert!(pair.difference.half_width().expect("ten rounds") < 0.4, "6 % of 5 µs: {pair:?}");
    assert!((pair.difference.estimate - (haproxy.estimate - nginx.estimate)).abs() < 1e-9, "direct cancels");
    assert!(pair.is_larger("haproxy") && !pair.is_larger("nginx"));
}

#[test]
fn by_hand() {
    // The merged medians of two rounds are 150 and 160 µs. A draw that takes the second round twice has a
    // difference of 25 µs, the others of 10 µs. The mean is 13.75, and s*² = 0.75 · 3.75² + 0.25 · 11.25².
    let run = run(&[("nginx", &[150, 150]), ("haproxy", &[160, 175])]);
    let pair = p50(&run, "nginx", "haproxy");
    assert!((pair.difference.estimate - 10.0).abs() < 0.3, "{pair:?}");
    assert_eq!(pair.difference.trials, 2);
    let half = 12.706 * (2.0 * (0.75 * 3.75 * 3.75 + 0.25 * 11.25 * 11.25_f64)).sqrt();
    assert!(
        (pair.difference.half_width().expect("two rounds") / half - 1.0).abs() < 0.03,
        "{pair:?}, {half}"
    );
    let raw = Contrast::of(&pair.difference).p_value.expect("two rounds");
    assert!((pair.p_value.expect("two rounds") - raw).abs() < 1e-9, "a single pair needs no adjustment");
    assert!(!pair.distinguishable);
    let turned = pair.difference_of("nginx");
    assert_eq!(turned.estimate, -pair.difference.estimate);
    assert_eq!(turned.low, pair.difference.high.map(|high| -high));
}

#[test]
fn every_metric_and_every_pair_in_the_plans_order() {
    let mut run = Run::with_load(vec![closed_point(1, 1), closed_point(8, 1), searched_point()]);
    for round in 0..3 {
        for load in 0..2 {
            run.push(via("direct", round).first().at_load(load).all_at_us(100).throughput(1000));
            for (gateway, us, completed, cpu) in
                [("slow", 190, 500, 15_000), ("fast", 150, 800, 16_000), ("middle", 160, 800, 16_000)]
            {
                let trial = via(gateway, round).at_load(load).all_at_us(us).throughput(completed);
                run.push(trial.gateway_cpu_us(cpu));
            }
        }
    }
    run.push(via("fast", 0).step(1000.0).at_load(2));
    let pairs = run.analyse().pairs;
    let of_first_load: Vec<(usize, &str, &str)> =
        pairs.iter().map(|pair| (pair.load.index, &*pair.first, &*pair.second)).step_by(6).take(3).collect();
    assert_eq!(of_first_load, [(0, "slow", "fast"), (0, "slow", "middle"), (0, "fast", "middle")]);
    assert_eq!(pairs.len(), 2 * 3 * 6, "two load points, three pairs, six metrics");
    assert!(pairs[..6].iter().map(|pair| pair.metric).eq(METRICS));
    assert_eq!(pairs.last().expect("pairs").load.index, 1);
    let estimate = |metric| pair(&run, "slow", "fast", metric).difference.estimate;
    assert!((estimate(Metric::AddedP99) + 40.0).abs() < 0.3);
    assert!((estimate(Metric::ThroughputRatio) - 0.3).abs() < 1e-9, "0.8 − 0.5");
    assert!((estimate(Metric::CpuUsPerRequest) + 10.0).abs() < 1e-9, "20 − 30 µs");
}

#[test]
fn only_rounds_of_both_count() {
    let mut run = run(&[("nginx", &[150, 151, 150, 151]), ("haproxy", &[160, 161])]);
    run.push(via("nginx", 4).all_at_us(900)).push(via("haproxy", 4).all_at_us(905));
    assert_eq!(p50(&run, "nginx", "haproxy").difference.trials, 3, "rounds 0, 1 and 4");
    let ratio = pair(&run, "nginx", "haproxy", Metric::ThroughputRatio);
    assert_eq!(ratio.difference.trials, 2, "round 4 has no direct trial");
    run.push(via("late", 9));
    assert!(run.analyse().pairs.iter().all(|pair| pair.second != "late"), "no round in common");
}

#[test]
fn one_round_or_changes_below_one_per_cent_decide_nothing() {
    let pair = p50(&run(&[("nginx", &[150]), ("haproxy", &[900])]), "nginx", "haproxy");
    assert_eq!((pair.difference.interval(), pair.p_value, pair.distinguishable), (None, None, false));
    let pair = |second| p50(&run(&[("nginx", &[1000; 5]), ("haproxy", &[second; 5])]), "nginx", "haproxy");
    let (below, above) = (pair(1005), pair(1020));
    assert!(!below.distinguishable && below.p_value.is_some_and(|p| p < 0.001), "{below:?}");
    assert!(below.alone_of("haproxy").excludes(0.0), "the scatter of this pair alone: {below:?}");
    assert!(above.distinguishable, "{above:?}");
}

const STEADY: [u64; 6] = [150, 152, 149, 151, 150, 153];
const NEAR: [u64; 6] = [154, 155, 151, 156, 153, 155];
const SCATTERED: [u64; 6] = [120, 190, 150, 170, 140, 160];

#[test]
fn p_values_are_adjusted_for_all_pairs() {
    let three = run(&[("nginx", &STEADY), ("haproxy", &NEAR), ("envoy", &SCATTERED)]);
    let names = [("nginx", "haproxy"), ("nginx", "envoy"), ("haproxy", "envoy")];
    let pairs = names.map(|(first, second)| p50(&three, first, second));
    let adjusted = pairs.map(|pair| pair.p_value.expect("six rounds"));
    let times = [("nginx", &STEADY), ("haproxy", &NEAR), ("envoy", &SCATTERED)];
    let alone = [[0, 1], [0, 2], [1, 2]].map(|two| {
        let [first, second] = two.map(|at| (times[at].0, &times[at].1[..]));
        p50(&run(&[first, second]), first.0, second.0)
    });
    let raw = alone.clone().map(|pair| pair.p_value.expect("six rounds"));
    assert_eq!(adjusted.to_vec(), holm(&raw).iter().map(|one| one.p_value).collect::<Vec<_>>());
    assert!((adjusted[0] - 3.0 * raw[0]).abs() < 1e-12, "the smallest of three: {raw:?} {adjusted:?}");
    let half = |pair: &GatewayPair| pair.difference.half_width().expect("six rounds");
    let wider = half(&p50(&three, "nginx", "haproxy")) / half(&alone[0]);
    // Student's t with five degrees of freedom, at 5 % ÷ 3 and at 5 %.
    assert!((wider - 3.534 / 2.571).abs() < 1e-3, "{wider}");
}

/// Of many gateways, some differ clearly, some hardly, and some not at all.
#[test]
fn verdicts_and_intervals_never_contradict_each_other() {
    let mut random = hoptax_format::random::Random::new(12);
    let (mut alike, mut apart, mut alone_apart) = (0, 0, 0);
    for _ in 0..12 {
        let mut times = |index: u64| -> Vec<u64> {
            (0..6).map(|_| 150 + 2 * index * index + (20.0 * random.unit()) as u64).collect()
        };
        let gateways: Vec<Vec<u64>> = (0..5).map(&mut times).collect();
        let labels = ["a", "b", "c", "d", "e"];
        let named: Vec<(&str, &[u64])> =
            labels.into_iter().zip(&gateways).map(|(label, times)| (label, &times[..])).collect();
        for pair in run(&named).analyse().pairs {
            assert_eq!(pair.distinguishable, pair.difference.excludes(0.0), "{pair:?}");
            let p_value = pair.p_value.expect("six rounds");
            assert!(!pair.distinguishable || p_value < 0.05, "{pair:?}");
            let found = if pair.distinguishable { &mut apart } else { &mut alike };
            *found += 1;
            if pair.metric == Metric::AddedP50 && !pair.distinguishable {
                let of = |label: &str| named.iter().copied().find(|(one, _)| *one == label).expect("named");
                let two = run(&[of(&pair.first), of(&pair.second)]);
                alone_apart += u32::from(p50(&two, &pair.first, &pair.second).distinguishable);
            }
        }
    }
    assert!(alike > 20 && apart > 20, "{alike} and {apart}");
    assert!(alone_apart > 0, "no pair is distinguishable only if it is the only pair");
}

#[test]
fn hops_do_not_make_the_answer_less_certain() {
    let with_hops =
        run(&[("nginx", &STEADY), ("haproxy", &NEAR), ("hop-l4", &SCATTERED), ("hop-l7", &STEADY)]);
    let alone = run(&[("nginx", &STEADY), ("haproxy", &NEAR)]);
    let alone = p50(&alone, "nginx", "haproxy");
    assert!(alone.competes);
    assert_eq!(p50(&with_hops, "nginx", "haproxy"), alone);
    let hop = p50(&with_hops, "haproxy", "hop-l7");
    let raw = p50(&run(&[("haproxy", &NEAR), ("hop-l7", &STEADY)]), "haproxy", "hop-l7").p_value;
    let (raw, adjusted) = (raw.expect("six rounds"), hop.p_value.expect("six rounds"));
    assert!(!hop.competes, "{hop:?}");
    assert!((adjusted - 5.0 * raw).abs() < 1e-12, "the least of five: {hop:?} {raw}");
}

#[test]
fn variants_with_features_do_not_compete() {
    let run = matrix(230, 33);
    let analysis = run.analyse();
    assert_eq!(competitors(&run.record, &analysis.prices), ["nginx"]);
    assert_eq!(analysis.pairs, [], "the price list compares a gateway with its own variants");
}

#[test]
fn variants_are_compared_with_others_that_have_the_same_features() {
    let key = [Feature::KeyAuth];
    let labels: [(&str, &[Feature]); 4] =
        [("nginx", &[]), ("nginx.key", &key), ("fast", &[]), ("fast.key", &key)];
    let mut run = run(&labels.map(|(label, _)| (label, &STEADY[..])));
    run.record.plan.gateways = labels
        .iter()
        .map(|(label, features)| {
            let mut planned = gateway(label, features);
            if let hoptax_plan::GatewayKind::Pack { pack, .. } = &mut planned.kind {
                *pack = label.trim_end_matches(".key").into();
            }
            planned
        })
        .collect();
    let pairs = run.analyse().pairs;
    let medians = pairs.iter().filter(|pair| pair.metric == Metric::AddedP50);
    let told: Vec<(&str, &str, bool)> =
        medians.map(|pair| (&*pair.first, &*pair.second, pair.competes)).collect();
    assert_eq!(told, [("nginx", "fast", true), ("nginx.key", "fast.key", false)]);
}

#[test]
fn of_many_gateways_only_competitors_are_compared_and_only_in_two_metrics() {
    let labels: Vec<String> = (0..MOST_IN_FULL).map(|index| format!("gateway-{index}")).collect();
    let mut gateways: Vec<(&str, &[u64])> = labels.iter().map(|label| (&**label, &STEADY[..2])).collect();
    let pairs = MOST_IN_FULL * (MOST_IN_FULL - 1) / 2;
    assert_eq!(run(&gateways).analyse().pairs.len(), pairs * METRICS.len());
    gateways.push(("hop-l4", &STEADY[..2]));
    let many = run(&gateways).analyse().pairs;
    assert_eq!(many.len(), pairs * METRICS_OF_MANY.len());
    assert!(many.iter().all(|pair| pair.competes));
}

/// A gateway without watched processes has no CPU figures.
#[test]
fn figures_that_were_not_measured_are_absent() {
    let mut run = run(&[("nginx", &STEADY)]);
    for round in 0..6 {
        run.push(via("mine", round).all_at_us(200).unwatched());
    }
    let metrics: Vec<Metric> = run.analyse().pairs.iter().map(|pair| pair.metric).collect();
    assert_eq!(metrics, METRICS[..5]);
}
