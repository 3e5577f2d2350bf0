//! `hoptax profile`: measures a plan, and then records stacks of its gateways.

use super::exit::{BadInput, Exit};
use super::run;
use hoptax_plan::{CpuProfile, Plan, Trials, units};
use std::time::Duration;

/// Longest time for the rounds before the passes, if the plan limits only the time. The figures of these
/// rounds are only for comparison, so they need not be as precise as those of a run.
const ROUNDS: Duration = Duration::from_secs(30);

/// Limits of `cpu_profile` in a plan.
const MOST_PASSES: u32 = 100;
const LENGTHS: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(60);

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
    profile-*.folded (collapsed stacks) and profile-*.pb (pprof).\n\nExit status: as for `hoptax run`."
)]
pub(super) struct Args {
    #[command(flatten)]
    run: run::Args,

    /// Profile only these gateways of the plan, by label, such as nginx,nginx.gzip
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',')]
    gateway: Vec<String>,

    /// Number of passes for each gateway and load point [default: as in the plan, or 6]
    #[arg(long, value_name = "N")]
    passes: Option<u32>,

    /// Measured time of each pass [default: as in the plan, or 2s]
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let Self { mut run, gateway, passes, duration } = self;
        run.choose(gateway);
        run.run_with(|plan| change(plan, passes, duration))
    }
}

/// Adds the profile to a plan.
fn change(plan: &mut Plan, passes: Option<u32>, duration: Option<Duration>) -> Result<(), BadInput> {
    if plan.start.is_some() {
        let message = "a plan with `start` cannot be profiled; remove `start`, or use another plan";
        return Err(BadInput(message.into()));
    }
    let planned = plan.cpu_profile.unwrap_or_default();
    let asked = CpuProfile {
        passes: passes.unwrap_or(planned.passes),
        duration: duration.unwrap_or(planned.duration),
    };
    if !(1..=MOST_PASSES).contains(&asked.passes) {
        return Err(BadInput(format!("--passes: write a number from 1 to {MOST_PASSES}")));
    }
    if !LENGTHS.contains(&asked.duration) {
        return Err(BadInput("--for: write a time from 500ms to 1m".into()));
    }
    plan.cpu_profile = Some(asked);
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
    use hoptax_plan::{Context, parse};

    fn plan(more: &str) -> Plan {
        let text = format!("gateways: [hop-l7]\nload: [{{ loop: closed, connections: 1 }}]\n{more}");
        let context = Context { cpus: 2, known: Vec::new(), directory: ".".into() };
        parse("plan.yaml", &text, &[], &context).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn the_command_line_overrides_the_plan() {
        let mut default = plan("");
        change(&mut default, None, None).expect("nothing wrong");
        assert_eq!(default.cpu_profile, Some(CpuProfile::default()));
        assert_eq!(default.trials.time_only(), Some(ROUNDS));
        let mut typed = plan("cpu_profile: { passes: 3, for: 4s }\ntrials: 2\n");
        change(&mut typed, Some(9), None).expect("nothing wrong");
        let asked = typed.cpu_profile.expect("set");
        assert_eq!((asked.passes, asked.duration), (9, Duration::from_secs(4)));
        assert_eq!(typed.trials, Trials::Fixed(2));
    }

    #[test]
    fn values_beyond_the_limits_are_refused() {
        for (passes, duration, part) in
            [(Some(0), None, "--passes"), (None, Some(Duration::from_millis(1)), "--for")]
        {
            let error = change(&mut plan(""), passes, duration).expect_err("refused");
            assert!(error.to_string().contains(part), "{error}");
        }
        let mut starts = plan("");
        starts.start = Some(hoptax_plan::Start { times: 1, duration: Duration::from_secs(1), reload: false });
        assert!(change(&mut starts, None, None).is_err());
    }
}
