//! `hoptax profile`: measures a plan, and then records stacks of its gateways.

use super::exit::{BadInput, Exit};
use super::run;
use hoptax_plan::{CpuProfile, PathSplit, Plan, TailPasses, Trials, tail_obstacle, units};
use std::time::Duration;

/// Longest time for the rounds before the passes, if the plan limits only the time. The figures of these
/// rounds are only for comparison, so they need not be as precise as those of a run.
const ROUNDS: Duration = Duration::from_secs(30);

/// Limits of `cpu_profile` in a plan.
const MOST_PASSES: u32 = 100;
const LENGTHS: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(60);

/// Shortest pass of `tail`. Its other limits are those of `cpu_profile`.
const SHORTEST_OF_TAIL: Duration = Duration::from_secs(1);

/// Show which functions of a gateway use CPU time, and where it waits
///
/// CPU time is in microseconds per request.
#[derive(Debug, clap::Args)]
// clap makes a group of each struct and names it after the struct. Two groups of a command cannot both be
// `Args`.
#[group(skip)]
#[command(
    after_help = "Needs `perf`. hoptax first measures the plan's rounds, at most 30 s unless the plan has \
    `trials`. Separate passes then record stacks. The run directory gets the report with flame graphs, \
    profile-*.folded (collapsed stacks) and profile-*.pb (pprof).

With --tail, the passes record which \
    thread had which CPU, and the run directory gets tail-*.json (Chrome trace).

Exit status: as for \
    `hoptax run`."
)]
pub(super) struct Args {
    #[command(flatten)]
    run: run::Args,

    /// Profile only these gateways of the plan, by label, such as nginx,nginx.gzip
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',')]
    gateway: Vec<String>,

    /// Explain why requests beyond p99 take longer than those at the median: who had the CPUs?
    #[arg(long)]
    tail: bool,

    /// Number of passes for each gateway and load point [default: as in the plan, or 6; with --tail, 4]
    #[arg(long, value_name = "N")]
    passes: Option<u32>,

    /// Measured time of each pass [default: as in the plan, or 2s; with --tail, 5s]
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let Self { mut run, gateway, tail, passes, duration } = self;
        run.choose(gateway);
        run.run_with(|plan| change(plan, tail, passes, duration))
    }
}

/// Adds the profile to a plan, or the explanation of slow requests.
fn change(
    plan: &mut Plan,
    tail: bool,
    passes: Option<u32>,
    duration: Option<Duration>,
) -> Result<(), BadInput> {
    if plan.start.is_some() {
        let message = "a plan with `start` cannot be profiled; remove `start`, or use another plan";
        return Err(BadInput(message.into()));
    }
    if let Some((problem, help)) = tail_obstacle(plan).filter(|_| tail) {
        return Err(BadInput(format!("{problem}; {help}")));
    }
    let planned = match tail {
        true => plan.tail.map(|one| (one.passes, one.duration)).unwrap_or_else(|| {
            let default = TailPasses::default();
            (default.passes, default.duration)
        }),
        false => {
            let planned = plan.cpu_profile.unwrap_or_default();
            (planned.passes, planned.duration)
        }
    };
    let (passes, duration) = (passes.unwrap_or(planned.0), duration.unwrap_or(planned.1));
    if !(1..=MOST_PASSES).contains(&passes) {
        return Err(BadInput(format!("--passes: write a number from 1 to {MOST_PASSES}")));
    }
    let shortest = if tail { SHORTEST_OF_TAIL } else { *LENGTHS.start() };
    if !(shortest..=*LENGTHS.end()).contains(&duration) {
        return Err(BadInput(format!("--for: write a time from {} to 1m", units::show_duration(shortest))));
    }
    if tail {
        (plan.tail, plan.cpu_profile) = (Some(TailPasses { passes, duration }), None);
        plan.path_split = PathSplit::On;
    } else {
        plan.cpu_profile = Some(CpuProfile { passes, duration });
    }
    if plan.trials.time_only().is_some()
        && let Trials::Auto(auto) = &mut plan.trials
    {
        auto.at_most = auto.at_most.min(ROUNDS);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_lab::fake::parsed;

    fn plan(more: &str) -> Plan {
        parsed(&format!("gateways: [hop-l7]\nload: [{{ loop: closed, connections: 1 }}]\n{more}"))
    }

    #[test]
    fn the_command_line_overrides_the_plan() {
        let mut default = plan("");
        change(&mut default, false, None, None).expect("nothing wrong");
        assert_eq!(default.cpu_profile, Some(CpuProfile::default()));
        assert_eq!(default.trials.time_only(), Some(ROUNDS));
        let mut typed = plan("cpu_profile: { passes: 3, for: 4s }\ntrials: 2\n");
        change(&mut typed, false, Some(9), None).expect("nothing wrong");
        let asked = typed.cpu_profile.expect("set");
        assert_eq!((asked.passes, asked.duration), (9, Duration::from_secs(4)));
        assert_eq!(typed.trials, Trials::Fixed(2));
    }

    #[test]
    fn values_beyond_the_limits_are_refused() {
        for (passes, duration, part) in
            [(Some(0), None, "--passes"), (None, Some(Duration::from_millis(1)), "--for")]
        {
            let error = change(&mut plan(""), false, passes, duration).expect_err("refused");
            assert!(error.to_string().contains(part), "{error}");
        }
        let mut starts = plan("");
        starts.start = Some(hoptax_plan::Start { times: 1, duration: Duration::from_secs(1), reload: false });
        assert!(change(&mut starts, false, None, None).is_err());
    }

    #[test]
    fn slow_requests_are_explained_instead_of_stacks() {
        let mut plan = plan("cpu_profile: on\n");
        change(&mut plan, true, Some(2), None).expect("nothing wrong");
        let expected = TailPasses { passes: 2, ..TailPasses::default() };
        assert_eq!((plan.tail, plan.cpu_profile), (Some(expected), None));
        assert_eq!(plan.path_split, PathSplit::On);
        plan.upstream = hoptax_plan::Upstream::Running(hoptax_plan::Running::default());
        let error = change(&mut plan, true, None, None).expect_err("no time stamps");
        assert!(error.to_string().contains("built-in upstream"), "{error}");
    }
}
