//! Estimate of how long a run takes.

use super::search;
use super::spread::LEAST_EACH;
use hoptax_format::clock;
use hoptax_format::spec::{Rate, Shape};
use hoptax_plan::{GatewayKind, LoadPoint, Plan, Start, Trials};
use hoptax_record::WarmUp;
use std::time::Duration;

/// Time that each trial needs in addition to warm-up and measured time. hoptax then starts the generator,
/// reads the probes and the ledger, and writes the record.
const PER_TRIAL: Duration = Duration::from_millis(75);

/// Time from starting a service until it answers.
const PER_START: Duration = Duration::from_millis(700);

/// Time that warming up a process takes if it settles at once. nginx needs 3 s, slow gateways 13 s with their
/// pauses.
const PER_WARM_UP: Duration = Duration::from_secs(5);

/// Time that warming up a process takes if it generates code: 20 s of load, in bursts of 150 ms with
/// [`PER_TRIAL`] after each.
const PER_WARM_UP_OF_CODE: Duration = Duration::from_secs(30);

/// Time that a pass of a profile needs in addition to its measured time: warm-up, start of the profiler, and
/// reading of its data.
const PER_PASS: Duration = Duration::from_millis(2_500);

/// Time of the requests that are sent one after the other after a start.
const ONE_BY_ONE: Duration = Duration::from_millis(400);

/// Maximum rate at which the generator opens connections. Without this limit, thousands of new connections
/// could overflow a listen queue.
const CONNECTS_PER_SECOND: u32 = 10_000;

/// Estimated duration of the run: the set-up, all trials, and the pauses between trials. For `trials: auto`,
/// this is the duration with the minimum number of rounds. The run can take longer if services start slowly,
/// if gateways generate code ([`longer_with_generated_code`] before the run, [`longer_by`] during it), or if
/// requests are still in flight at the end of trials.
pub fn estimate(plan: &Plan) -> Duration {
    without_profiles(plan) + of_profiles(plan) + of_tails(plan)
}

/// Duration of all passes of a profile.
fn of_profiles(plan: &Plan) -> Duration {
    let Some(asked) = plan.cpu_profile else { return Duration::ZERO };
    let cases = plan.gateways.len() * plan.load.iter().filter(|load| load.is_in_rounds()).count();
    // In every second round, there is another pass for threads that wait.
    let passes = asked.passes + asked.passes.div_ceil(2);
    (PER_PASS + asked.duration).saturating_mul(passes.saturating_mul(cases as u32))
}

/// Duration of all passes that explain slow requests.
fn of_tails(plan: &Plan) -> Duration {
    let Some(asked) = plan.tail else { return Duration::ZERO };
    let cases = (1 + plan.gateways.len()) * plan.load.iter().filter(|load| load.is_in_rounds()).count();
    (PER_PASS + asked.duration).saturating_mul(asked.passes.saturating_mul(cases as u32))
}

/// How much longer a run takes than [`estimate`] said, because gateways are restarted that generate code.
/// `warm_ups` are their first warm-ups.
pub fn longer_by<'w>(plan: &Plan, warm_ups: impl IntoIterator<Item = &'w WarmUp>) -> Duration {
    let warming = |warm_up: &WarmUp| {
        Duration::from_nanos(warm_up.load_ns()) + PER_TRIAL.saturating_mul(warm_up.bursts.len() as u32)
    };
    warm_ups.into_iter().map(|warm_up| longer_by_restarts(plan, warming(warm_up))).sum()
}

/// How much longer a run takes than [`estimate`] says if this number of its gateways generates code: they are
/// warmed up for longer, and restarted between rounds.
pub fn longer_with_generated_code(plan: &Plan, gateways: u32) -> Duration {
    let Some(limits) = plan.until_settled.filter(|_| plan.start.is_none() && !plan.isolate) else {
        return Duration::ZERO;
    };
    let warming = limits.at_most.min(PER_WARM_UP_OF_CODE);
    let first = warming.saturating_sub(of_warm_up(plan));
    (first + longer_by_restarts(plan, warming)).saturating_mul(gateways)
}

/// How much longer a run takes because a gateway is restarted that generates code, with warm-ups of this
/// length.
fn longer_by_restarts(plan: &Plan, warming: Duration) -> Duration {
    // A look at a process lasts about half as long as its warm-up.
    let looks = if matches!(plan.trials, Trials::Auto(_)) { 2 } else { 0 };
    let of_start = PER_START + warming + warming.checked_div(looks).unwrap_or_default();
    let estimated = if plan.restarts.is_some() { PER_START + of_warm_up(plan) } else { Duration::ZERO };
    let rounds = if plan.trials.time_only().is_some() { rounds(plan) } else { plan.trials.at_most() };
    let restarts = plan.restarts_of(true).min((rounds / LEAST_EACH).saturating_sub(1));
    of_start.saturating_sub(estimated).saturating_mul(restarts)
}

/// Duration of all restarts between this many rounds. Gateways that generate code are not known yet.
fn of_restarts(plan: &Plan, rounds: u32) -> Duration {
    let restarts = plan.restarts_of(false).min((rounds / LEAST_EACH).saturating_sub(1));
    (PER_START + of_warm_up(plan)).saturating_mul(restarts.saturating_mul(plan.gateways.len() as u32))
}

/// Time that warming up a process takes, as far as it is known beforehand.
fn of_warm_up(plan: &Plan) -> Duration {
    plan.until_settled.map_or(Duration::ZERO, |limits| limits.at_most.min(PER_WARM_UP))
}

fn without_profiles(plan: &Plan) -> Duration {
    if let Some(start) = plan.start {
        return of_starts(plan, start);
    }
    let setup = of_rounds(plan, 0);
    match plan.trials.time_only() {
        Some(limit) => {
            let measured = limit.min(of_rounds(plan, plan.trials.at_most()).saturating_sub(setup));
            setup + measured + of_restarts(plan, rounds(plan))
        }
        None => of_rounds(plan, plan.trials.at_least()) + of_restarts(plan, plan.trials.at_least()),
    }
}

/// Estimated duration of a run with this number of rounds, without profiles.
pub fn estimate_of_rounds(plan: &Plan, rounds: u32) -> Duration {
    of_rounds(plan, rounds) + of_restarts(plan, rounds)
}

/// Estimated number of rounds. For `trials: auto`, this is the minimum number of rounds.
pub fn rounds(plan: &Plan) -> u32 {
    let Some(limit) = plan.trials.time_only() else { return plan.trials.at_least() };
    let one = of_rounds(plan, 2).saturating_sub(of_rounds(plan, 1)).as_secs_f64();
    if one > 0.0 { ((limit.as_secs_f64() / one) as u32).max(1) } else { 1 }
}

/// Estimated duration with the maximum number of rounds that `trials: auto` allows. `None` if the number of
/// rounds is fixed or 0.
pub fn estimate_at_most(plan: &Plan) -> Option<Duration> {
    let Trials::Auto(auto) = plan.trials else { return None };
    if !plan.load.iter().any(LoadPoint::is_in_rounds) {
        return None;
    }
    let none = of_rounds(plan, 0);
    let rounds = of_rounds(plan, auto.most).saturating_sub(none);
    Some(none + rounds.min(auto.at_most) + of_restarts(plan, auto.most) + of_profiles(plan))
}

/// Number of starts and reloads of a plan with `start`, with the loads of direct. `None` for other plans. All
/// packs are counted as if their gateways could reload, because that is known only when a gateway runs.
pub fn planned_starts(plan: &Plan) -> Option<usize> {
    let start = plan.start?;
    // Each kind of start is followed by requests one after the other in one turn, and by the load in another.
    Some(start.times as usize * 2 * (1 + plan.gateways.len() + reloading(plan, start)))
}

/// Number of gateways whose reloads may be measured.
fn reloading(plan: &Plan, start: Start) -> usize {
    let is_pack = |gateway: &&hoptax_plan::Gateway| matches!(gateway.kind, GatewayKind::Pack { .. });
    if start.reload { plan.gateways.iter().filter(is_pack).count() } else { 0 }
}

fn of_starts(plan: &Plan, start: Start) -> Duration {
    let (times, gateways) = (f64::from(start.times), plan.gateways.len() as f64);
    let kinds = 1.0 + gateways + reloading(plan, start) as f64;
    let traffic = ONE_BY_ONE + PER_TRIAL + start.duration;
    let turns = times * 2.0 * (1.0 + gateways);
    let settling = of_warm_up(plan).as_secs_f64();
    let seconds = times * kinds * traffic.as_secs_f64()
        + PER_START.as_secs_f64() * (1.0 + gateways + times * 2.0 * gateways)
        + plan.pause.as_secs_f64() * (turns - 1.0)
        + settling;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn of_rounds(plan: &Plan, rounds: u32) -> Duration {
    let gateways = plan.gateways.len() as f64;
    let rounds = f64::from(rounds);
    let in_rounds = || plan.load.iter().filter(|load| load.is_in_rounds());
    let mut trials = rounds * in_rounds().count() as f64 * (gateways + 2.0);
    let mut isolated = gateways * in_rounds().count() as f64 * rounds;
    let once: f64 = in_rounds().map(|load| trial(plan, load).as_secs_f64()).sum();
    let mut searching = 0.0;
    for (load, (steps, measured)) in plan.load.iter().filter_map(|load| Some((load, search::expected(load)?)))
    {
        let beside = trial(plan, load).saturating_sub(load.duration).as_secs_f64();
        searching += (beside * f64::from(steps) + measured.as_secs_f64()) * (gateways + 1.0);
        trials += f64::from(steps) * (gateways + 1.0);
        isolated += f64::from(steps) * gateways;
    }
    let starts = 1.0 + if plan.isolate { isolated } else { gateways };
    // Rounds that end early are followed by a second look at the gateways that had few requests.
    let looks = if matches!(plan.trials, Trials::Auto(_)) && !plan.isolate { gateways } else { 0.0 };
    let seconds = once * (gateways + 2.0) * rounds
        + searching
        + plan.pause.as_secs_f64() * (trials - 1.0).max(0.0)
        + PER_START.as_secs_f64() * starts
        + of_warm_up(plan).as_secs_f64() * (starts + looks);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn trial(plan: &Plan, load: &LoadPoint) -> Duration {
    let connecting = Duration::from_secs(1) * load.connections / CONNECTS_PER_SECOND;
    PER_TRIAL + connecting + plan.warmup + measured(load)
}

/// Measured time of one trial. If the rate is known, and `requests` limits the number of requests, the trial
/// may end before its duration has passed.
fn measured(load: &LoadPoint) -> Duration {
    match (&load.shape, load.requests) {
        (Shape::Open { rate, .. }, Some(requests)) => load
            .duration
            .min(Duration::try_from_secs_f64(time_until(rate, requests as f64)).unwrap_or(Duration::MAX)),
        _ => load.duration,
    }
}

/// Seconds until this number of requests is due. Infinite if all stages together have fewer requests.
fn time_until(rate: &Rate, requests: f64) -> f64 {
    let stages = match rate {
        Rate::Fixed(rate) => return requests / rate,
        Rate::Stages(stages) => stages,
    };
    let (mut passed, mut left) = (0.0, requests);
    for stage in stages {
        let length = stage.for_ns as f64 / clock::SECOND as f64;
        let due = (stage.from + stage.to) / 2.0 * length;
        if due < left {
            passed += length;
            left -= due;
            continue;
        }
        // Solves `from·t + slope·t²/2 = left` in a form that also works for slope 0.
        let slope = (stage.to - stage.from) / length;
        let root = (stage.from * stage.from + 2.0 * slope * left).max(0.0).sqrt();
        return passed + 2.0 * left / (stage.from + root);
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::spec::Stage;
    use hoptax_lab::fake::parsed;

    #[test]
    fn the_estimate_adds_up() {
        let seconds_of = |rounds: u32, rest: &str| {
            let text = format!(
                "gateways: [hop-l4, hop-l7]\nload: [{{ loop: closed, connections: 1, duration: 5s }}, {{ \
                 loop: open, rate: 100/s, connections: 10000, duration: 9s, requests: 300 }}]\nwarmup: \
                 1s\ntrials: {rounds}\n{rest}"
            );
            let plan = parsed(&text);
            estimate(&plan).as_secs_f64()
        };
        let seconds = |rest: &str| seconds_of(3, rest);
        // Two gateways and two direct trials: 4 trials per load point in each of 3 rounds.
        let trials = 12.0 * (0.075 + 0.0001 + 1.0 + 5.0) + 12.0 * (0.075 + 1.0 + 1.0 + 3.0);
        assert!((seconds("") - (trials + 3.0 * 0.7)).abs() < 1e-6, "{}", seconds(""));
        assert!((seconds("pause: 1s\n") - (trials + 23.0 + 3.0 * 0.7)).abs() < 1e-6);
        assert!((seconds("isolate: true\n") - (trials + 13.0 * 0.7)).abs() < 1e-6);
        // Three rounds are too few for two processes. Four are too few for three.
        assert!((seconds("restarts: 1\n") - (trials + 3.0 * 0.7)).abs() < 1e-6);
        for restarts in [1, 2] {
            let of_four = seconds_of(4, &format!("restarts: {restarts}\n"));
            assert!((of_four - (trials / 3.0 * 4.0 + 5.0 * 0.7)).abs() < 1e-6, "{of_four}");
        }
    }

    #[test]
    fn trials_auto_has_a_longest_time() {
        let longest = |trials: &str| {
            let text = format!(
                "gateways: [hop-l7]\nload: [{{ loop: closed, connections: 1, duration: 5s }}]\ntrials: \
                {trials}\n"
            );
            let plan = parsed(&text);
            estimate_at_most(&plan).map(|longest| (longest, estimate(&plan)))
        };
        assert_eq!(longest("5"), None);
        let (longest_of_ten, _) = longest("{ most: 10, at_most: 1h }").expect("no number");
        let (same, ten) = longest("{ least: 10, most: 10, at_most: 1h }").expect("no number");
        assert_eq!((longest_of_ten, same), (ten, ten));
        let starts = 2 * PER_START + 3 * PER_WARM_UP;
        assert_eq!(longest("{ at_most: 2m }").expect("no number").0, starts + Duration::from_secs(120));
    }

    #[test]
    fn gateways_that_generate_code_take_longer() {
        let longer = |rest: &str| {
            let text = format!(
                "gateways: [hop-l7]\nload: [{{ loop: closed, connections: 1, duration: 5s }}]\n{rest}"
            );
            let plan = parsed(&text);
            longer_with_generated_code(&plan, 2).as_secs_f64()
        };
        // Each of two gateways is warmed up for 25 s longer. Eight rounds are enough for three restarts.
        for (rest, restarts) in
            [("trials: 8\n", 3.0), ("trials: 5\n", 1.0), ("trials: 8\nrestarts: 0\n", 0.0)]
        {
            let expected = 2.0 * (25.0 + restarts * 30.7);
            assert!((longer(rest) - expected).abs() < 1e-6, "{rest}: {}", longer(rest));
        }
        // Five seconds of each restart are in the estimate already.
        let with_restarts = longer("trials: 8\nrestarts: 3\n");
        assert!((with_restarts - 2.0 * 4.0 * 25.0).abs() < 1e-6, "{with_restarts}");
        assert_eq!(longer("trials: 8\nwarmup: 1s\n"), 0.0);
        assert_eq!(longer("trials: 8\nisolate: true\n"), 0.0);
    }

    #[test]
    fn starts_are_counted_with_their_reloads() {
        let nginx = hoptax_plan::PackInfo { name: "nginx".into(), ..hoptax_plan::PackInfo::default() };
        let context =
            hoptax_plan::Context { cpus: 1, known: vec![nginx], directory: std::path::PathBuf::default() };
        let plan = |start: &str| {
            let text = format!("gateways: [nginx, hop-l7]\nwarmup: 0s\nstart: {start}\n");
            hoptax_plan::parse("x.yaml", &text, &[], &context).unwrap_or_else(|errors| panic!("{errors}"))
        };
        let with = plan("{ times: 3, for: 2s }");
        let without = plan("{ times: 3, for: 2s, reload: false }");
        assert_eq!((planned_starts(&with), planned_starts(&without)), (Some(3 * 2 * 4), Some(3 * 2 * 3)));
        let expected = 3.0 * 4.0 * (0.4 + 0.075 + 2.0) + 0.7 * (1.0 + 2.0 + 12.0);
        assert!((estimate(&with).as_secs_f64() - expected).abs() < 1e-6, "{:?}", estimate(&with));
        let reloads = estimate(&with).saturating_sub(estimate(&without)).as_secs_f64();
        assert!((reloads - 3.0 * 2.475).abs() < 1e-6, "{reloads}");
    }

    #[test]
    fn a_number_of_requests_ends_stages_early() {
        let stage = |from: f64, to: f64| Stage { from, to, for_ns: 2 * clock::SECOND };
        let rate =
            Rate::Stages(vec![stage(10.0, 10.0), stage(10.0, 30.0), stage(0.0, 0.0), stage(20.0, 0.0)]);
        // In total, 20 requests are due by 2 s, 60 by 4 s (end of the first ramp), still 60 by 6 s (pause),
        // and 80 by 8 s. By t seconds after the start of the first ramp, 10·t + 5·t² requests of this ramp
        // are due.
        for (requests, seconds) in [(10.0, 1.0), (20.0, 2.0), (35.0, 3.0), (60.0, 4.0), (80.0, 8.0)] {
            assert!(
                (time_until(&rate, requests) - seconds).abs() < 1e-9,
                "{requests}: {}",
                time_until(&rate, requests)
            );
        }
        // The last stage begins at 6 s and has 20 requests. 15 of them are due after 1 s: 20·t − 5·t² = 15
        // for t = 1.
        assert!((time_until(&rate, 75.0) - 7.0).abs() < 1e-9);
        assert_eq!(time_until(&rate, 81.0), f64::INFINITY);
        assert_eq!(time_until(&Rate::Fixed(5.0), 10.0), 2.0);
    }
}
