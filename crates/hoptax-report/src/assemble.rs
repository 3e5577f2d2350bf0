//! Builds the report model from a run and its analysis.

use super::document;
use super::model::Model;
use super::prices::price_list;
use crate::sections::{capacity, starts};
use crate::words::format::{Scale, grouped};
use crate::words::text::{listed, message_word};
use crate::words::{figures, sentence};
use hoptax_analysis::checks::of_passes;
use hoptax_analysis::profiles::{Profiles, profiles};
use hoptax_analysis::{Analysis, Load, analyse, precision_over_time};
use hoptax_plan::units::show_duration;
use hoptax_plan::{Access, Gateway, GatewayKind, Replacement, Running, Target, Trials, Upstream};
use hoptax_record::dir::Run;
use hoptax_record::report::{BudgetResult, HostLooks, NoiseFloors, Report, WarmUpFigures};
use hoptax_record::{BodyLengths, DIRECT, IgnoredHeader, Role, RunHost, RunRecord, Stopped};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// Version of the JSON report's format.
const SCHEMA: u32 = 1;

/// What the noise floor of a load point is.
const NOISE_FLOOR: &str = "root mean square over rounds of (last direct − first direct)";

impl Model {
    /// The model of a run. `unreadable` describes the lines of the run's records that could not be read.
    pub fn new(run: &RunRecord, trials_recorded: usize, analysis: Analysis, unreadable: &[String]) -> Self {
        let ended = run.ended.as_ref();
        let answer = match analysis.starts.is_empty() {
            true => sentence::answer(run, &analysis),
            false => starts::answer(run, &analysis),
        };
        let notes = notes(run, trials_recorded, unreadable, &analysis);
        let summary = match analysis.starts.is_empty() {
            true => capacity::add_sentences(sentence::summaries(run, &analysis), &analysis),
            false => starts::summaries(run, &analysis),
        };
        let with_reason = |one: BudgetResult| BudgetResult { reason: figures::reason(&one), ..one };
        let report = Report {
            schema: SCHEMA,
            name: run.plan.name.clone(),
            interrupted: ended.is_none_or(|ended| ended.interrupted),
            hoptax: run.hoptax.clone(),
            started: timestamp(run.started_unix_ns),
            ended: ended.map(|ended| timestamp(ended.unix_ns)),
            seed: run.seed,
            command: run.command.clone(),
            plan_text: run.plan_text.clone(),
            rounds: rounds(run, &analysis),
            stopped: run.stopped,
            target: run.plan.describe_targets(),
            profile: run.plan.profile,
            trials_planned: run.trials_planned,
            trials_recorded,
            environment: run.environment.clone(),
            host: HostLooks { at_start: run.host_at_start.clone(), at_end: run.host_at_end.clone() },
            hosts: document::hosts(&hosts(run), &analysis.network, &analysis.same_loads),
            contenders: run.contenders.clone(),
            answer,
            summary,
            prices: price_list(&analysis),
            pairs: analysis.pairs,
            versions: analysis.versions,
            warm_ups: analysis.warm_ups,
            scatter: run.shares.clone(),
            cpu_placements: analysis.placements,
            starts: analysis.starts.into_iter().map(|one| one.figures).collect(),
            profiles: Vec::new(),
            profile_differences: Vec::new(),
            slow: analysis.slow,
            noise_floor: NoiseFloors { definition: NOISE_FLOOR, by_load: analysis.noise_floor },
            cases: analysis.cases,
            capacity: analysis.capacity,
            findings: analysis.findings,
            budget: analysis.budget.into_iter().map(with_reason).collect(),
            replacements: run.plan.replacements.clone(),
            notes,
        };
        Self {
            report,
            message: message_word(&run.plan.targets),
            same_ways: analysis.network.same_ways,
            whole_profiles: Profiles::default(),
            precision: Vec::new(),
            unchecked: analysis.unchecked,
            rendered: Vec::new(),
        }
    }

    /// The model of a run that was read from its directory.
    pub fn of(run: &Run) -> Self {
        let mut analysis = analyse(&run.record, &run.trials, &run.starts, &run.tails);
        analysis.findings.extend(of_passes(&run.profiles));
        analysis.findings.sort_by_key(|finding| finding.severity);
        let mut model = Self::new(&run.record, run.trials.len(), analysis, &run.unreadable);
        model.slow.iter_mut().for_each(|one| one.sentence = crate::slow::sentence(one));
        model.notes.extend(unseen_logs(run));
        model.precision = precision_over_time(&run.record, &run.trials);
        model.rendered = run.rendered();
        model.with_profiles(profiles(&run.record, &run.profiles))
    }

    /// The same model with these profiles.
    pub(crate) fn with_profiles(mut self, profiles: Profiles) -> Self {
        self.report.profiles = profiles.cases.iter().map(document::profile).collect();
        let difference = |one| document::difference(&profiles, one);
        self.report.profile_differences = profiles.differences.iter().map(difference).collect();
        Self { whole_profiles: profiles, ..self }
    }
}

/// Names the gateways that already run and whose logs could not be seen.
fn unseen_logs(run: &Run) -> Option<String> {
    let is_external =
        |label: &str| run.record.contenders.iter().any(|one| one.label == label && one.kind == "external");
    let measured =
        run.trials.iter().filter(|trial| trial.load_record.is_some() && is_external(&trial.contender));
    let (seen, unseen): (Vec<_>, Vec<_>) = measured.partition(|trial| trial.gateway_log_bytes.is_some());
    let mut names: Vec<String> = unseen.iter().map(|trial| trial.contender.clone()).collect();
    names.retain(|name| seen.iter().all(|trial| trial.contender != *name));
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "Whether these wrote an access log cannot be seen (no `pid`, or they log to a pipe or a socket): \
            {}.",
            names.join(", ")
        )
    })
}

/// The hosts, each with its checks. The run itself has the checks of the generator's host.
fn hosts(run: &RunRecord) -> BTreeMap<String, RunHost> {
    let mut hosts = run.hosts.clone();
    for host in hosts.values_mut().filter(|host| host.has(Role::Generator)) {
        host.at_start = host.at_start.take().or_else(|| run.host_at_start.clone());
        host.at_end = host.at_end.take().or_else(|| run.host_at_end.clone());
    }
    hosts
}

/// Number of planned rounds. For starts, and with `trials: auto`, this is the number of rounds that were
/// started.
fn rounds(run: &RunRecord, analysis: &Analysis) -> u32 {
    match run.plan.trials {
        _ if !analysis.starts.is_empty() => starts::rounds(analysis),
        _ if analysis.cases.is_empty() => 0,
        Trials::Fixed(rounds) => rounds,
        Trials::Auto(_) => {
            let begun = analysis.cases.iter().filter_map(|case| case.last_round);
            begun.max().map_or(0, |last| last + 1)
        }
    }
}

/// Says which headers of each gateway differed from direct's and were not compared. Gateways with the same
/// differences share a line.
fn ignored_headers(run: &RunRecord) -> Vec<String> {
    let mut groups: Vec<(Vec<String>, &[IgnoredHeader])> = Vec::new();
    for one in run.contenders.iter().filter(|one| !one.ignored_headers.is_empty()) {
        match groups.iter_mut().find(|(_, headers)| *headers == one.ignored_headers) {
            Some((labels, _)) => labels.push(one.label.clone()),
            None => groups.push((vec![one.label.clone()], &one.ignored_headers)),
        }
    }
    let value = |value: &Option<String>| {
        value.as_ref().map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"))
    };
    let described = |one: &IgnoredHeader| {
        let (gateway, direct) = (value(&one.gateway), value(&one.direct));
        let reason = one.reason.as_deref().unwrap_or("as the plan says");
        format!("`{}` is {gateway} instead of {direct} ({reason})", one.name)
    };
    let line = |(labels, headers): (Vec<String>, &[IgnoredHeader])| {
        let headers: Vec<String> = headers.iter().map(described).collect();
        format!("Not compared with direct: headers of {}: {}.", listed(&labels), headers.join("; "))
    };
    groups.into_iter().map(line).collect()
}

/// Says which gateways compressed bodies. If no request asked external gateways to compress, says so.
fn compressed(run: &RunRecord) -> Vec<String> {
    let varies = |body: &BodyLengths| {
        run.plan.targets.iter().any(|target| target.name == body.target && target.varies)
    };
    let encoding =
        |encoding: &Option<String>| encoding.clone().unwrap_or_else(|| "not compressed".to_owned());
    let seen = run.contenders.iter().flat_map(|one| one.bodies.iter().map(move |body| (&one.label, body)));
    let encoded = seen.filter(|(_, body)| body.direct_encoding.is_some() || body.gateway_encoding.is_some());
    let mut lines: Vec<String> = encoded
        .map(|(label, body)| {
            let (of, direct) = (encoding(&body.gateway_encoding), encoding(&body.direct_encoding));
            format!(
                "Bodies of {} via {label} had {} bytes ({of}); direct's had {} ({direct}).{}",
                body.target,
                grouped(body.gateway as f64),
                grouped(body.direct as f64),
                if varies(body) { "" } else { " They were equal when decoded." }
            )
        })
        .collect();
    let accepts =
        |target: &Target| target.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept-encoding"));
    let is_external = |gateway: &Gateway| matches!(gateway.kind, GatewayKind::External { .. });
    if run.plan.gateways.iter().any(is_external) && !run.plan.targets.iter().any(accepts) {
        lines.push(
            "No request had the header `accept-encoding`, so nothing was compressed. Browsers send it: add \
             `accept-encoding: gzip` to the target's headers to measure compression."
                .to_owned(),
        );
    }
    lines
}

/// Says that a gateway replaces another one, and what cannot be compared because of it.
fn replaced(one: &Replacement) -> String {
    let Replacement { gateway, instead_of, not_comparable } = one;
    let end = if not_comparable.ends_with(['.', '!', '?']) { "" } else { "." };
    let what = format!("What cannot be compared: {not_comparable}{end}");
    format!("{instead_of} is not installed here, and {gateway} replaces it. {what}")
}

/// A line for each load point that the run left out.
fn left_out(run: &RunRecord) -> Vec<String> {
    let left_out = Load::all(&run.load).into_iter().filter_map(|load| Some((load.label, load.left_out?)));
    left_out.map(|(label, reason)| format!("Left out: {label}. {reason}.")).collect()
}

/// The reason why `trials: auto` did not start another round.
fn why_stopped(run: &RunRecord) -> Option<String> {
    let Trials::Auto(auto) = run.plan.trials else { return None };
    let within = match auto.within_us {
        Some(limit) => format!("±{}", Scale::of_us(limit).value(limit)),
        None => Scale::percent().value(auto.within),
    };
    Some(match run.stopped? {
        Stopped::Narrow => format!("Rounds continued until each headline tax was known within {within}."),
        Stopped::Budget => format!(
            "Rounds stopped because another round would not have fit into {}: not every headline tax is \
             known within {within}.",
            show_duration(auto.at_most)
        ),
        Stopped::Rounds => format!(
            "Rounds stopped at the maximum of {}: not every headline tax is known within {within}.",
            auto.most
        ),
    })
}

/// Names the load points that reached their precision before the others, and so have fewer rounds. `None` if
/// there are none, or if the number of rounds does not depend on a precision.
fn known_sooner(run: &RunRecord, analysis: &Analysis) -> Option<String> {
    run.plan.trials.time_only()?;
    let direct = || analysis.cases.iter().filter(|case| case.gateway == DIRECT);
    let last = direct().filter_map(|case| case.last_round).max()?;
    let sooner = direct().filter_map(|case| {
        // In an interrupted run, the last round may lack a load point.
        let sooner = case.last_round.filter(|round| round + 1 < last)?;
        Some(format!("{} after {} rounds", case.load.label, sooner + 1))
    });
    let sooner: Vec<String> = sooner.collect();
    (!sooner.is_empty()).then(|| {
        format!("Precise enough before the other load points, so with fewer rounds: {}.", listed(&sooner))
    })
}

/// Says how many trials were set aside. `None` if there are none.
fn set_aside(analysis: &Analysis) -> Option<String> {
    let aside: u32 = analysis.cases.iter().map(|case| case.set_aside - case.moved).sum();
    let counted: u32 = analysis.cases.iter().map(|case| case.trials).sum();
    (aside > 0).then(|| {
        format!(
            "{aside} of {} trials were set aside, because the hypervisor took too much CPU time during them.",
            aside + counted
        )
    })
}

/// Smallest ratio of the first CPU time per request to the settled one for which the report says how slow a
/// process was.
const SLOWER: f64 = 1.1;

/// Says how long processes were warmed up, and names those that were slow at first. `None` with a fixed
/// warm-up, and in a run of starts, which warms up only the upstream.
fn warm_ups(analysis: &Analysis) -> Option<String> {
    if !analysis.starts.is_empty() {
        return None;
    }
    let all = &analysis.warm_ups;
    let load = |one: &WarmUpFigures| one.load_s;
    let seconds = |seconds: f64| format!("{seconds:.1} s");
    let least = all.iter().map(load).min_by(f64::total_cmp)?;
    let most = all.iter().map(load).max_by(f64::total_cmp)?;
    let slow: Vec<String> = all
        .iter()
        .filter_map(|one| {
            let fall = one.cpu_us_per_request.unwrap_or(one.p50_us);
            let times = fall.first / fall.settled;
            let what = if one.cpu_us_per_request.is_some() {
                "the CPU time per request"
            } else {
                "the \
                response time"
            };
            (times >= SLOWER && one.slow_requests > 0).then(|| {
                format!(
                    "{} first took {times:.1} times {what}, and was as fast as later after {} of load ({} \
                    requests)",
                    if one.contender == DIRECT { "the upstream" } else { &one.contender },
                    seconds(one.slow_s),
                    grouped(one.slow_requests as f64)
                )
            })
        })
        .collect();
    let spans = if seconds(least) == seconds(most) {
        seconds(least)
    } else {
        format!("{} to {}", seconds(least), seconds(most))
    };
    let slow = if slow.is_empty() { String::new() } else { format!(": {}", listed(&slow)) };
    Some(format!("Each process had {spans} of load to warm up before its first trial{slow}."))
}

fn notes(run: &RunRecord, trials_recorded: usize, unreadable: &[String], analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    match &run.ended {
        None => {
            let what = if analysis.starts.is_empty() { "trials" } else { "starts" };
            notes.push(format!("The run was killed or is still running: this report has the {what} so far."));
        }
        Some(ended) if ended.interrupted && !analysis.starts.is_empty() => {
            notes.push(format!(
                "The run was interrupted in round {} of its starts.",
                starts::rounds(analysis)
            ));
        }
        Some(ended) if ended.interrupted => {
            let planned = run.trials_planned;
            notes.push(format!("The run was interrupted after {trials_recorded} of {planned} trials."));
        }
        Some(_) => {}
    }
    notes.extend(run.plan.replacements.iter().map(replaced));
    notes.extend(
        run.contenders
            .iter()
            .filter_map(|one| Some(format!("{}: {}.", one.label, one.address_note.as_ref()?))),
    );
    notes.extend(ignored_headers(run));
    notes.extend(compressed(run));
    notes.extend(left_out(run));
    notes.extend(analysis.unchecked.clone());
    notes.extend(why_stopped(run));
    notes.extend(known_sooner(run, analysis));
    notes.extend(set_aside(analysis));
    notes.extend(warm_ups(analysis));
    if let Upstream::Running(upstream) = &run.plan.upstream {
        notes.push(about_upstream(upstream));
    }
    notes.extend(kinds_of_connection(run));
    notes.extend(unverified(run));
    notes.extend(found_processes(run));
    notes.extend(unreadable.iter().map(|line| format!("Skipped an unreadable record: {line}.")));
    notes
}

/// Describes what is unknown about an upstream that hoptax did not start.
fn about_upstream(upstream: &Running) -> String {
    let url = &upstream.url;
    let unwatched = upstream.pid.is_none();
    match (&upstream.ledger, unwatched) {
        (None, true) => format!(
            "The upstream at {url} is external. It has no ledger, so extra upstream requests are unknown. \
             Its CPU time was not measured."
        ),
        (None, false) => format!(
            "The upstream at {url} is external and has no ledger, so extra upstream requests are unknown."
        ),
        (Some(_), true) => format!(
            "The upstream at {url} is external. Its ledger has only its own count of requests. Its CPU time \
             was not measured."
        ),
        (Some(_), false) => {
            format!("The upstream at {url} is external. Its ledger has only its own count of requests.")
        }
    }
}

/// Says that direct and the gateways are reached over different kinds of connection.
fn kinds_of_connection(run: &RunRecord) -> Option<String> {
    let differ = run.plan.upstream.is_on_unix_socket() && run.contenders.len() > 1;
    differ.then(|| {
        "Direct connects to the upstream's Unix socket, and so do the gateways. The generator reaches the \
         gateways over TCP. So a gateway's added time includes the difference between the two kinds of \
         connection."
            .to_owned()
    })
}

/// Names the processes of services that already run, if hoptax found them by itself.
fn found_processes(run: &RunRecord) -> Option<String> {
    let found = run.contenders.iter().filter_map(|one| {
        let process = one.found_process.as_ref()?;
        let of = if one.label == DIRECT { "the upstream" } else { &one.label };
        Some(format!("`{}` (process {}) of {of}", process.name, process.pid))
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty())
        .then(|| format!("CPU time and memory are those of the processes that listen: {}.", listed(&found)))
}

/// Names the services whose certificates were not verified.
fn unverified(run: &RunRecord) -> Option<String> {
    let is_insecure = |access: &Access| access.tls.as_ref().is_some_and(|tls| tls.insecure);
    let upstream = match &run.plan.upstream {
        Upstream::Running(upstream) => is_insecure(&upstream.access).then_some("direct"),
        Upstream::BuiltIn(_) => None,
    };
    let gateways = run.plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::External { access, .. } => is_insecure(access).then_some(gateway.label.as_str()),
        _ => None,
    });
    let names: Vec<&str> = upstream.into_iter().chain(gateways).collect();
    (!names.is_empty()).then(|| {
        format!(
            "The plan accepts any certificate (`insecure: true`), so these were not verified: {}.",
            names.join(", ")
        )
    })
}

fn timestamp(unix_ns: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string()
}

#[cfg(test)]
mod tests {
    use crate::Model;
    use crate::fixture::Reported;
    use hoptax_analysis::fixture::{Run, closed_point, open_point, via};
    use hoptax_plan::{AutoTrials, Budget, LoadSelector, Metric, Replacement, Trials};
    use std::time::Duration;

    /// A run with a time limit and two load points. The second load point has `fewer` of eight rounds.
    fn notes(fewer: u32) -> String {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(32, 1)]);
        let at_most = Duration::from_secs(180);
        run.record.plan.trials =
            Trials::Auto(AutoTrials { within: 0.05, within_us: None, at_most, least: 5, most: 10_000 });
        for round in 0..8 {
            for load in 0..if round < fewer { 2 } else { 1 } {
                run.direct_trials(round, |trial| trial.at_load(load).all_at_us(100));
                run.push(via("nginx", round).at_load(load).all_at_us(150));
            }
        }
        run.model().notes.join("\n")
    }

    #[test]
    fn trials_that_were_set_aside_are_counted_and_have_no_figures() {
        let mut run = Run::steady(4, 100, &[("nginx", 150)]);
        let disturbed = run.trials.iter_mut().rfind(|trial| trial.contender == "nginx").expect("measured");
        disturbed.set_aside = Some(hoptax_record::Aside::Disturbed);
        disturbed.host.steal = 0.3;
        let model = run.model();
        let case = model.cases.iter().find(|case| case.gateway == "nginx").expect("measured");
        assert_eq!((case.trials, case.set_aside), (3, 1));
        assert!(model.notes.join("\n").contains("1 of 12 trials"), "{:?}", model.notes);
        assert!(model.findings.iter().all(|finding| finding.code != "host-noisy"), "{:?}", model.findings);
    }

    #[test]
    fn headers_that_were_not_compared_are_shown_in_every_report() {
        let mut run = Run::steady(4, 100, &[("nginx", 150), ("nginx.gzip", 160), ("envoy", 170)]);
        for contender in run.record.contenders.iter_mut().filter(|one| one.label.starts_with("nginx")) {
            contender.ignored_headers = vec![hoptax_record::IgnoredHeader {
                name: "cache-control".into(),
                direct: Some("private".into()),
                gateway: Some("private, private".into()),
                reason: None,
            }];
        }
        let model = run.model();
        insta::assert_snapshot!(model.notes.join("\n"));
        for text in in_every_format(&model) {
            assert!(text.contains("private, private"), "{text}");
        }
        let document = serde_json::to_value(&model.report).expect("plain data");
        let contenders = document["contenders"].as_array().expect("a list");
        let nginx = contenders.iter().find(|one| one["label"] == "nginx").expect("listed");
        assert_eq!(nginx["ignored_headers"][0]["gateway"], "private, private", "{nginx}");
    }

    /// The report on a terminal, and as Markdown, HTML and JSON.
    fn in_every_format(model: &Model) -> [String; 4] {
        let in_one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        [
            in_one_line(crate::terminal(model, 80, false)),
            in_one_line(crate::markdown(model)),
            crate::html(model).expect("drawn"),
            serde_json::to_string(&model.report).expect("plain data"),
        ]
    }

    #[test]
    fn a_replaced_gateway_and_what_cannot_be_compared_are_in_every_report() {
        let mut run = Run::steady(4, 100, &[("nginx-lua", 150)]);
        let document = |run: &Run| serde_json::to_value(run.model().report).expect("plain data");
        assert_eq!(document(&run).get("replacements"), None);
        let replacement = Replacement {
            gateway: "nginx-lua".into(),
            instead_of: "kong".into(),
            not_comparable: "its router and its plugins".into(),
        };
        run.record.plan.replacements = vec![replacement];
        let of_kong = Budget { gateway: Some("kong".into()), max: Some(1e6), ..Budget::of(Metric::P99) };
        run.record.plan.budget = vec![of_kong];
        for text in in_every_format(&run.model()) {
            assert!(text.contains("its router"), "{text}");
        }
        let [terminal, ..] = in_every_format(&run.model());
        insta::assert_snapshot!(terminal);
        assert_eq!(document(&run)["replacements"][0]["instead_of"], "kong");
        assert!(run.model().over_budget(), "a budget of a gateway that is missing is not kept");
    }

    #[test]
    fn budgets_that_were_not_checked_everywhere_are_named() {
        let mut run = Run::steady(4, 100, &[("nginx", 150)]);
        let everywhere = |metric| Budget { max: Some(1e6), ..Budget::of(metric) };
        let selector = LoadSelector { open: Some(false), connections: Some(32), ..LoadSelector::default() };
        run.record.plan.budget = vec![
            everywhere(Metric::P50),
            everywhere(Metric::AddedP50),
            Budget { load: selector, ..everywhere(Metric::ErrorShare) },
        ];
        assert_eq!(run.model().unchecked, None);
        let mut large = run.record.load[0].clone();
        (large.connections, large.left_out) = (15_000, Some("15000 connections do not fit".into()));
        run.record.load.push(large);
        let model = run.model();
        let note = model.unchecked.as_deref().expect("two budgets");
        insta::assert_snapshot!(note);
        assert!(model.notes.iter().any(|one| one == note), "{:?}", model.notes);
        assert!(crate::gate::terminal(&model, 500).contains(note), "{}", crate::gate::terminal(&model, 500));
        assert!(crate::gate::json(&model).contains(note), "{}", crate::gate::json(&model));
        assert!(!model.over_budget(), "what was measured is within the budgets");
    }

    #[test]
    fn load_points_that_were_known_sooner_are_named() {
        insta::assert_snapshot!(notes(6));
        assert!(!notes(7).contains("Precise enough"), "an interrupted round");
    }
}
