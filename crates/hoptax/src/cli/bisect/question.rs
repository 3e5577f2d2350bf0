//! The subject of a search: a gateway, its commits, and a metric.

use hoptax_analysis::headline;
use hoptax_format::messages::StreamKind;
use hoptax_lab::builds::{Commit, commit_of, commits_between, refs_of};
use hoptax_plan::units::{self, UnitError};
use hoptax_plan::{Gateway, GatewayKind, GitBuild, Metric, PackDriver, Plan, Trials, Upstream};
use hoptax_record::{Times, digest};

/// Metrics in which two gateways are compared in the same rounds.
const METRICS: [Metric; 9] = [
    Metric::AddedP50,
    Metric::AddedP90,
    Metric::AddedP95,
    Metric::AddedP99,
    Metric::ThroughputRatio,
    Metric::CpuUsPerRequest,
    Metric::AddedMessageP50,
    Metric::AddedAgeP50,
    Metric::AddedFirstMessageP50,
];

/// Number of digits of a commit that texts and labels show.
const SHOWN: usize = 10;

/// The subject of a search.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// The gateway of the plan, whose driver is built from some commit.
    pub(super) gateway: Gateway,
    /// Full name of the good commit.
    pub(super) good: String,
    /// The commits after the good one, oldest first. The last one is the bad commit. There is at least one.
    pub(super) commits: Vec<Commit>,
    pub(super) metric: Metric,
    /// Whether the plan starts each gateway again for each trial.
    pub(super) isolated: bool,
    /// Digest of the commits, the metric and the plan. Another search has another digest.
    pub(super) digest: String,
}

/// The smallest change to look for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Least {
    /// A share of the good commit's figure.
    Share(f64),
    /// A time, µs.
    Time(f64),
}

impl Least {
    /// The change in the metric's unit. Before the good commit has a figure, a share is unknown and counts as
    /// zero.
    pub(super) fn of(self, good: Option<f64>) -> f64 {
        match self {
            Self::Share(share) => share * good.unwrap_or(0.0).abs(),
            Self::Time(us) => us,
        }
    }
}

/// Rejects a smallest change that does not have the metric's unit.
pub(super) fn same_unit(least: Least, metric: Metric) -> Result<(), String> {
    match least {
        Least::Time(us) if metric == Metric::ThroughputRatio => Err(format!(
            "`--min` is a time ({us} µs), but {} is a ratio. Write a share, such as --min 3%",
            metric.name()
        )),
        _ => Ok(()),
    }
}

/// Minimum number of rounds of a measurement. One round gives no interval.
const FEWEST_ROUNDS: u32 = 2;

/// Rejects a plan whose rounds can give no interval.
fn enough_rounds(plan: &Plan) -> Result<(), String> {
    if plan.trials.at_most() < FEWEST_ROUNDS {
        return Err("a measurement needs at least 2 rounds, because one round gives no interval. Write \
                    `trials: 5`, or leave out `trials`"
            .to_owned());
    }
    if let (Trials::Auto(auto), None) = (&plan.trials, plan.load[0].requests) {
        // Direct, the good commit and the other commit.
        let rounds = plan.load[0].duration * 3 * FEWEST_ROUNDS;
        if auto.at_most < rounds {
            let [time, rounds] = [auto.at_most, rounds].map(units::show_duration);
            return Err(format!(
                "a measurement of {time} has no interval, because two rounds take at least {rounds}. Choose \
                 a longer --time, or a shorter `duration` in the plan"
            ));
        }
    }
    Ok(())
}

/// The metric of a search unless the user chooses one: the metric that the report's answer is about.
pub(super) fn usual_metric(plan: &Plan) -> Metric {
    let has = |kind: StreamKind| plan.targets.iter().any(|one| one.stream.is_some_and(|it| it.kind == kind));
    // Ages need an upstream on this machine's clock.
    let has_ages = matches!(plan.upstream, Upstream::BuiltIn(_)) && has(StreamKind::ServerStream);
    let has_tokens = plan.targets.iter().any(|one| one.stream.is_some_and(|it| it.tokens.is_some()));
    headline::latency_metric(|metric| match metric.times() {
        Some(Times::FirstEvent | Times::FirstMessage) => has_tokens,
        Some(Times::Message) => has(StreamKind::BothWays),
        Some(Times::Age) => has_ages,
        _ => false,
    })
}

/// Parses `--metric`.
pub(super) fn metric(text: &str) -> Result<Metric, String> {
    let names = METRICS.map(Metric::name);
    let found = METRICS.into_iter().find(|metric| metric.is_called(text));
    found.ok_or_else(|| format!("use one of {}", names.join(", ")))
}

/// Parses `--min`.
pub(super) fn least(text: &str) -> Result<Least, UnitError> {
    match text.trim_end().ends_with('%') {
        true => units::share(text).map(Least::Share),
        false => units::duration(text).map(|time| Least::Time(time.as_nanos() as f64 / 1e3)),
    }
}

impl Question {
    /// Finds the gateway in the plan, and the commits in its repository. Fails if the plan does not have
    /// exactly one such gateway and one load point, or the commits do not exist. The message says what to do.
    pub(super) fn new(
        plan: &Plan,
        label: Option<&str>,
        [good, bad]: [&String; 2],
        metric: Metric,
    ) -> Result<Self, String> {
        if plan.load.len() != 1 || plan.load[0].search.is_some() || plan.start.is_some() {
            return Err("bisect needs a plan with one load point, without `search` and `start`".to_owned());
        }
        enough_rounds(plan)?;
        let gateway = gateway(plan, label)?;
        let repository = git_of(&gateway).ok_or("bisect needs a gateway with `git`")?.repository.clone();
        if let Some(reference) = [good, bad].into_iter().find(|one| one.is_empty() || one.starts_with('-')) {
            return Err(format!("`{reference}` is not a ref; write a branch, a tag or a commit"));
        }
        let [first, last] = [commit_of(&repository, good)?, commit_of(&repository, bad)?];
        let commits = commits_between(&repository, &first, &last)?;
        if commits.is_empty() {
            return Err(format!(
                "{good} and {bad} are the same commit. Choose a good commit before the bad one"
            ));
        }
        let mut rest = plan.clone();
        // Earlier measurements can still be used if only these settings of the plan change, so leave them
        // out.
        (rest.seed, rest.gateways, rest.budget) = (None, Vec::new(), Vec::new());
        (rest.replacements, rest.cpu_profile, rest.tail) = (Vec::new(), None, None);
        rest.trials = Trials::Fixed(1);
        let digest = digest(&format!("{first} {last} {} {:?} {rest:?}", metric.name(), nameless(&gateway)));
        Ok(Self { gateway, good: first, commits, metric, isolated: plan.isolate, digest })
    }

    /// The gateway with the program of this commit.
    pub(super) fn at(&self, commit: &str) -> Gateway {
        let mut gateway = self.gateway.clone();
        if let GatewayKind::Pack { pack, driver, .. } = &mut gateway.kind {
            gateway.label = format!("{}-{}", pack.replace('@', "-"), short(commit));
            if let PackDriver::Version(version) = &mut *driver {
                version.name = short(commit).to_owned();
            }
            if let Some(git) = driver.git_mut() {
                (git.reference, git.commit) = (short(commit).to_owned(), Some(commit.to_owned()));
            }
        }
        gateway
    }
}

/// The gateway with this label, or the only one with `git`. Refs of one list count as one gateway.
fn gateway(plan: &Plan, label: Option<&str>) -> Result<Gateway, String> {
    let built = refs_of(plan);
    let of = |label: &str| plan.gateways.iter().find(|gateway| gateway.label == label).cloned();
    if let Some(label) = label {
        let known: Vec<&str> = built.iter().map(|(label, _)| *label).collect();
        let found = known.contains(&label).then(|| of(label)).flatten();
        return found.ok_or_else(|| {
            format!("no gateway `{label}` of the plan has `git`; those that have it: {}", known.join(", "))
        });
    }
    let mut all: Vec<Gateway> = built.iter().filter_map(|(label, _)| of(label)).collect();
    if all.iter().any(|other| nameless(other) != nameless(&all[0])) {
        return Err("several gateways of the plan have `git`; choose one with --gateway LABEL".to_owned());
    }
    if all.is_empty() {
        return Err("bisect needs a gateway with `git` in the plan: { name: …, git: { repository: …, refs: \
                    HEAD, build: …, binary: … } }"
            .to_owned());
    }
    Ok(all.swap_remove(0))
}

/// The gateway's settings without its ref.
fn nameless(gateway: &Gateway) -> GatewayKind {
    let mut kind = gateway.kind.clone();
    if let GatewayKind::Pack { driver, .. } = &mut kind {
        if let PackDriver::Version(version) = &mut *driver {
            version.name.clear();
        }
        if let Some(git) = driver.git_mut() {
            git.reference.clear();
        }
    }
    kind
}

/// The build of a gateway that is built from commits.
pub(super) fn git_of(gateway: &Gateway) -> Option<&GitBuild> {
    match &gateway.kind {
        GatewayKind::Pack { driver, .. } => driver.git(),
        _ => None,
    }
}

/// The first digits of a commit's name.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..SHOWN).unwrap_or(commit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_lab::fake::parsed;

    #[test]
    fn the_smallest_change_is_a_share_or_a_time() {
        assert_eq!(least("3%"), Ok(Least::Share(0.03)));
        assert_eq!(least("20us"), Ok(Least::Time(20.0)));
        assert!(least("20").is_err());
        assert_eq!((Least::Share(0.03).of(Some(200.0)), Least::Share(0.03).of(None)), (6.0, 0.0));
        assert_eq!(Least::Time(20.0).of(None), 20.0);
    }

    #[test]
    fn the_smallest_change_of_a_ratio_is_a_share() {
        let error = same_unit(Least::Time(20.0), Metric::ThroughputRatio).expect_err("another unit");
        assert!(error.contains("throughput_ratio"), "{error}");
        assert_eq!(same_unit(Least::Share(0.03), Metric::ThroughputRatio), Ok(()));
        assert_eq!(same_unit(Least::Time(20.0), Metric::AddedP50), Ok(()));
    }

    #[test]
    fn messages_are_compared_if_the_plan_has_streams() {
        let of = |call: &str, more: &str| {
            let target = format!("target: {{ grpc: {{ service: a, method: B, {call} }} }}\n");
            let load = "load: [{ loop: closed, connections: 1, http: 2 }]\n";
            usual_metric(&parsed(&format!("gateways: []\n{target}{load}{more}")))
        };
        let elsewhere = "upstream: { url: \"http://127.0.0.1:9\" }\n";
        assert_eq!(of("kind: unary", ""), Metric::AddedP50);
        assert_eq!(of("kind: both-ways", ""), Metric::AddedMessageP50);
        assert_eq!(of("kind: both-ways", elsewhere), Metric::AddedMessageP50);
        assert_eq!(of("kind: server-stream", ""), Metric::AddedAgeP50);
        assert_eq!(of("kind: server-stream", elsewhere), Metric::AddedP50);
        assert_eq!(of("kind: client-stream", ""), Metric::AddedP50);
        let load = "load: [{ loop: closed, connections: 1 }]\n";
        let tokens = format!("gateways: []\nupstream: {{ llm: {{}} }}\ntarget: {{ llm: openai }}\n{load}");
        assert_eq!(usual_metric(&parsed(&tokens)), Metric::AddedFirstMessageP50);
    }

    #[test]
    fn only_metrics_of_pairs_can_be_bisected() {
        assert_eq!(metric("cpu_us_per_request"), Ok(Metric::CpuUsPerRequest));
        assert_eq!(metric("added_first_content_p50"), Ok(Metric::AddedFirstMessageP50));
        assert!(metric("memory_rss_bytes").expect_err("no pairs").contains("added_p50"));
    }
}
