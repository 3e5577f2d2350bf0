//! Figures of each generator, if a load was sent by several. They are computed like those of the whole load,
//! from the part of each trial that the generator sent.

use crate::figures::contrasts::{Contrast, contrasts};
use crate::figures::latency::latency;
use crate::figures::throughput::throughput;
use crate::taxes::noise::noise_floor;
use crate::trials::pairs::{Added, Pairs};
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_record::GeneratorTrial;
use hoptax_record::report::{Difference, GeneratorFigures, Load};
use hoptax_stats::{Estimate, Statistic};

/// The figures of each generator in these trials of a case. Empty if there was only one.
pub(crate) fn figures(
    load: &Load,
    trials: &[Trial<'_>],
    direct: &[Trial<'_>],
    is_direct: bool,
) -> Vec<GeneratorFigures> {
    let one = |(index, name): (usize, String)| {
        let (parts, direct) = (parts(trials, index), parts(direct, index));
        let generators = || trials.iter().filter_map(|trial| trial.record.generators.get(index));
        GeneratorFigures {
            name,
            connections: generators().map(|one| one.connections.asked).max().unwrap_or(0),
            throughput: throughput(&parts),
            response_time: latency(&parts, |trial| Some(&trial.response_time)),
            send_lag: latency(&parts, |trial| Some(&trial.send_lag)),
            utilisation: generators().map(utilisation).fold(0.0, f64::max),
            added_p50: if is_direct { None } else { added(load, &parts, &direct) },
        }
    };
    names(trials).into_iter().enumerate().map(one).collect()
}

/// Share of the measured time that the busiest worker of a generator spent on a CPU.
fn utilisation(one: &GeneratorTrial) -> f64 {
    one.cpu.busiest_worker_ns as f64 / one.measured_ns.max(1) as f64
}

/// The names of the generators. All trials of a case have the same ones.
fn names(trials: &[Trial<'_>]) -> Vec<String> {
    let generators = trials.iter().map(|trial| &trial.record.generators).max_by_key(|all| all.len());
    generators.map(|all| all.iter().map(|one| one.host.clone()).collect()).unwrap_or_default()
}

/// What one generator sent in these trials: its requests, response times and send lags. Trials without it, or
/// with a histogram that cannot be read, are left out.
fn parts<'a>(trials: &[Trial<'a>], index: usize) -> Vec<Trial<'a>> {
    let part = |trial: &Trial<'a>| {
        let one = trial.record.generators.get(index).filter(|one| one.measured_ns > 0)?;
        let part = trial.part(one.completed_in_time, one.measured_ns, one.response_time.decode().ok()?);
        Some(Trial { send_lag: one.send_lag.decode().ok()?, ..part })
    };
    trials.iter().filter_map(part).collect()
}

fn added(load: &Load, via: &[Trial<'_>], direct: &[Trial<'_>]) -> Option<Difference> {
    let pairs = Pairs::new(via, direct);
    let estimate = Added::new(&pairs, |trial| Some(&trial.response_time)).at(Statistic::P50)?;
    let floor = noise_floor(load.clone(), direct).get(Metric::AddedP50);
    Some(Difference::new(estimate, 0.0, floor))
}

/// How much more a gateway adds to the requests of one generator than to those of another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disagreement {
    /// Names of the two generators.
    pub(crate) pair: [String; 2],
    /// Added p50 of each, µs.
    pub(crate) added_p50: [f64; 2],
    /// Added p50 of the second generator − added p50 of the first generator, µs, over the rounds that all
    /// generators have.
    pub(crate) difference: Estimate,
}

/// Compares the time that a gateway adds to the medians of every two generators.
pub(crate) fn disagreements(via: &[Trial<'_>], direct: &[Trial<'_>]) -> Vec<Disagreement> {
    let names = names(via);
    let sides: Vec<[Vec<Trial<'_>>; 2]> =
        (0..names.len()).map(|index| [parts(via, index), parts(direct, index)]).collect();
    let sides: Vec<[&[Trial<'_>]; 2]> = sides.iter().map(|[via, direct]| [&via[..], &direct[..]]).collect();
    let named = |one: Contrast| Disagreement {
        pair: one.pair.map(|index| names[index].clone()),
        added_p50: one.added,
        difference: one.difference,
    };
    contrasts(Statistic::P50, &sides).into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Run, via};

    /// Rounds in which the gateway adds 50 µs to the requests of `a`, and `of_b` µs to those of `b`.
    fn run(of_b: u64) -> Run {
        let mut run = Run::closed(8);
        for round in 0..5 {
            let jitter = u64::from(round % 2);
            run.direct_trials(round, |trial| trial.generators_us(&[("a", 100), ("b", 300 + jitter)]));
            run.push(via("nginx", round).generators_us(&[("a", 150 + jitter), ("b", 300 + of_b)]));
        }
        run
    }

    #[test]
    fn each_generator_has_its_own_tax() {
        let analysis = run(80).analyse();
        let case = analysis.case("nginx", 0).expect("measured");
        let figures = |name: &str| {
            let one = case.generators.iter().find(|one| one.name == name).expect("a generator");
            let tax = one.added_p50.expect("there is direct");
            (tax.estimate.estimate.round(), tax.estimate.trials, tax.distinguishable, one.connections)
        };
        assert_eq!(case.generators.len(), 2);
        assert_eq!(figures("a"), (50.0, 5, true, 4));
        assert_eq!(figures("b"), (80.0, 5, true, 4));
        // Each sent 500 of the 1,000 requests per second.
        let throughput = case.generators[0].throughput.as_ref().expect("measured").estimate.estimate;
        assert!((throughput - 500.0).abs() < 1e-9, "{throughput}");
        assert_eq!(case.generators[0].response_time.samples, 5 * 500);
        let of_direct = &analysis.case("direct", 0).expect("measured").generators;
        assert!(of_direct.len() == 2 && of_direct.iter().all(|one| one.added_p50.is_none()));
        assert_eq!(of_direct[1].response_time.p50.expect("samples").estimate.round(), 300.0);
    }

    #[test]
    fn a_single_generator_has_no_figures_of_its_own() {
        let analysis = Run::steady(3, 100, &[("nginx", 150)]).analyse();
        assert!(analysis.cases.iter().all(|case| case.generators.is_empty()));
    }

    #[test]
    fn an_unreadable_histogram_leaves_out_only_its_part() {
        let mut run = run(50);
        let broken = run.trials.iter_mut().find(|trial| trial.contender == "nginx").expect("one");
        broken.generators[1].response_time.0 = "no".into();
        let analysis = run.analyse();
        let case = analysis.case("nginx", 0).expect("measured");
        let rounds: Vec<u32> =
            case.generators.iter().map(|one| one.added_p50.expect("rounds").estimate.trials).collect();
        assert_eq!((case.trials, rounds), (5, vec![5, 4]));
    }
}
