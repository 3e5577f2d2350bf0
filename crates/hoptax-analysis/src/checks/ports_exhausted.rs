//! `ports-exhausted`: connections failed because all local ports were in use, or almost all local ports were
//! in use.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent, with_host};
use crate::{Case, Trial};
use hoptax_format::clock::SECOND;
use hoptax_format::record::Cause;
use hoptax_record::NetworkUsage;

const CODE: &str = "ports-exhausted";
/// Limit for the share of the port range that is in TIME_WAIT. Above this share, the port range is reported
/// as nearly exhausted. Such a share does not prove that all ports were in use, because connections between
/// different pairs of addresses can use the same port.
const NEAR: f64 = 0.8;
/// How long Linux keeps a connection in TIME_WAIT (`TCP_TIMEWAIT_LEN`), ns.
const TIME_WAIT_NS: u64 = 60 * SECOND;

const ADVICE: &str = "Keep connections alive, list several addresses in `sources:` (127.0.0.2, 127.0.0.3, \
    …), widen net.ipv4.ip_local_port_range, or pause between trials until TIME_WAIT ends (one minute).";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "connection attempts failed because every local port was in use, or connections of the case in \
             TIME_WAIT used more than {} of the port range (estimated from those that it opened in the last \
             minute)",
            percent(NEAR)
        ),
        seen: "The figures then show how fast ports become free: about 28,000 per minute and source address.",
        advice: "Keep connections alive, list several addresses in `sources:`, widen \
                 `net.ipv4.ip_local_port_range`, or pause between trials.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, trials)| failed(case, trials).or_else(|| near(subject, case, trials)))
        .collect()
}

fn failed(case: &Case, trials: &[Trial<'_>]) -> Option<Finding> {
    let causes = trials.iter().filter_map(|trial| trial.load.counts.causes.get(&Cause::PortsExhausted));
    let failed: u64 = causes.sum();
    (failed > 0).then(|| Finding {
        evidence: evidence([("ports_exhausted", failed.into())]),
        message: format!(
            "{failed} connection attempts failed because every local port was in use. The figures show how \
             fast ports become free, not how fast the gateway is."
        ),
        advice: ADVICE.into(),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

/// The ports of one host at the end of a trial.
#[derive(Clone, Copy)]
struct Ports<'t> {
    /// Absent for the generator's host.
    host: Option<&'t str>,
    /// Upper bound for the connections of the case in TIME_WAIT.
    waiting: u64,
    /// All connections in TIME_WAIT, as the kernel counts them.
    all: u64,
    /// Number of local ports.
    ports: u64,
}

impl Ports<'_> {
    fn share(&self) -> f64 {
        self.waiting as f64 / self.ports as f64
    }
}

/// The ports of the hosts from which the case opens connections: those of generators and of the gateway.
fn opened_from<'t>(case: &Case, trial: &Trial<'t>, trials: &[Trial<'_>]) -> Vec<Ports<'t>> {
    let (client, upstream) = ours(case, trial, trials);
    let generators = &trial.record.generators;
    let of_host = |(host, network, has_gateway): (Option<&'t str>, &NetworkUsage, bool)| {
        let index = match host {
            None => Some(0),
            Some(name) => generators.iter().position(|one| one.host == name),
        };
        let from_clients = index.map(|index| match generators.len() {
            // Direct's connections to the upstream are those of the generator.
            0 if case.is_direct() => client.max(upstream),
            0 => client,
            _ => ours_of_generator(index, trial, trials),
        });
        let opened = from_clients.max(has_gateway.then_some(upstream))?;
        let (all, ports) = (network.time_wait_max, network.local_ports);
        (ports > 0).then_some(Ports { host, waiting: all.min(opened), all, ports })
    };
    trial.record.networks().filter_map(of_host).collect()
}

fn near(subject: &Subject<'_>, case: &Case, trials: &[Trial<'_>]) -> Option<Finding> {
    let used = trials.iter().flat_map(|trial| opened_from(case, trial, trials));
    let worst = used.max_by(|a, b| a.share().total_cmp(&b.share()))?;
    let Ports { host, waiting, all, ports } = worst;
    let there = subject.on_host(case.load.index, host);
    (worst.share() > NEAR).then(|| Finding {
        evidence: with_host(
            evidence([
                ("waiting", waiting.into()),
                ("time_wait_max", all.into()),
                ("local_ports", ports.into()),
                ("share", worst.share().into()),
                ("limit", NEAR.into()),
            ]),
            "host",
            subject.host_in_words(case.load.index, host),
        ),
        message: format!(
            "{waiting} connections of this case were in TIME_WAIT{there}, which is {} of the {ports} local \
             ports. New connections between the same two addresses will soon fail, or already need a long \
             time to find a free port.",
            percent(worst.share())
        ),
        advice: ADVICE.into(),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

/// Upper bounds for this case's connections in TIME_WAIT between one pair of addresses at the end of `trial`:
/// first of the clients' connections, then of the connections to the upstream. Both bounds count all
/// connections that the case's trials opened in the minute before the end of `trial`. Connections that were
/// open at the end of their trial do not count, because the generator resets them. The kernel's own count
/// alone proves nothing, because it includes other programs and destinations.
fn ours(case: &Case, trial: &Trial<'_>, trials: &[Trial<'_>]) -> (u64, u64) {
    let reset = u64::from(case.load.connections);
    let sides = |trial: &Trial<'_>| {
        let upstream = trial.record.ledger.as_ref().map_or(0, |ledger| ledger.connections);
        // For direct, these connections are the generator's, which resets them. A gateway may close its own
        // connections in another way.
        let upstream = if case.is_direct() { upstream.saturating_sub(reset) } else { upstream };
        (trial.load.lifetime.opened.saturating_sub(reset), upstream)
    };
    let made = trials.iter().filter(|other| lingers(other, trial)).map(sides);
    made.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
}

/// Like [`ours`], for the connections of one of several generators. Connections of a gateway use the ports of
/// another host, so they do not count here.
fn ours_of_generator(index: usize, trial: &Trial<'_>, trials: &[Trial<'_>]) -> u64 {
    let opened = |other: &Trial<'_>| {
        let one = other.record.generators.get(index)?;
        Some(one.lifetime.opened.saturating_sub(one.connections.asked))
    };
    trials.iter().filter(|other| lingers(other, trial)).filter_map(opened).sum()
}

/// Whether connections of the trial `other` can be in TIME_WAIT at the end of `trial`.
fn lingers(other: &Trial<'_>, trial: &Trial<'_>) -> bool {
    let end = |trial: &Trial<'_>| trial.load.started_unix_ns + trial.load.measured_ns;
    end(other) <= end(trial) && end(trial) - end(other) < TIME_WAIT_NS
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::hosts::on_hosts;
    use hoptax_record::{Role, RunHost, TrialHost};

    /// Two trials. Each trial opened `opened` connections, and the second trial came `apart_s` seconds after
    /// the first.
    fn waiting(time_wait_max: u64, local_ports: u64, opened: u64, apart_s: u64) -> Run {
        let mut run = Run::closed(1);
        for round in 0..2 {
            let mut trial = via("nginx", round);
            trial.0.network = Some(NetworkUsage { time_wait_max, local_ports, ..NetworkUsage::default() });
            let load = trial.0.load_record.as_mut().expect("made with one");
            load.lifetime.opened = opened;
            load.started_unix_ns += u64::from(round) * apart_s * SECOND;
            run.push(trial);
        }
        run
    }

    #[test]
    fn raised_by_failed_connects() {
        let mut trial = via("nginx", 0);
        let counts = &mut trial.0.load_record.as_mut().expect("made with one").counts;
        counts.causes.insert(Cause::PortsExhausted, 5);
        let run = Run::closed(1).with([trial, via("nginx", 1)]);
        let found = raised(&run, CODE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].evidence["ports_exhausted"], 5);
    }

    #[test]
    fn raised_near_the_end_of_the_range_only() {
        let found = raised(&waiting(25_000, 28_232, 12_501, 10), CODE);
        assert_eq!(found[0].evidence["waiting"], 25_000, "both trials within a minute");
        assert_eq!(
            raised(&waiting(25_000, 28_232, 12_500, 61), CODE),
            [],
            "the first trial's connections are gone"
        );
        assert_eq!(raised(&waiting(20_000, 28_232, 20_000, 10), CODE), [], "the kernel counts fewer");
        assert_eq!(raised(&waiting(25_000, 0, 25_000, 10), CODE), [], "the range is unknown");
    }

    #[test]
    fn a_gateway_has_ports_on_its_own_host() {
        let mut run = waiting(0, 28_232, 12_501, 10);
        for trial in &mut run.trials {
            trial.hosts = on_hosts(&[("nginx", 850)]).trials[1].hosts.clone();
            trial.ledger.as_mut().expect("there is one").connections = 12_501;
            let network =
                NetworkUsage { time_wait_max: 25_000, local_ports: 28_232, ..NetworkUsage::default() };
            trial.hosts.get_mut("edge").expect("there").network = Some(network);
        }
        run.record.hosts = on_hosts(&[]).record.hosts;
        let found = raised(&run, CODE);
        assert_eq!(found[0].evidence["host"], "host edge (gateway)", "{found:?}");
        insta::assert_snapshot!(texts(&found));
        // The upstream's host opens no connections.
        for trial in &mut run.trials {
            let edge = trial.hosts.get_mut("edge").expect("there").network.take();
            trial.hosts.get_mut("app").expect("there").network = edge;
        }
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn not_raised_by_connections_that_were_open_or_of_other_programs() {
        let mut run = waiting(25_000, 28_232, 12_500, 10);
        run.record.load[0].connections = 12_500;
        assert_eq!(raised(&run, CODE), [], "open at the end");
        assert_eq!(raised(&waiting(131_072, 28_232, 32, 1), CODE), [], "other programs");
    }

    #[test]
    fn the_ports_of_each_generator_are_its_own() {
        let network =
            |time_wait_max| NetworkUsage { time_wait_max, local_ports: 28_232, ..NetworkUsage::default() };
        let of = |of_second: u64, opened: u64| {
            let mut trial = via("nginx", 0).generators_us(&[("a", 100), ("b", 100)]);
            trial = trial.of_generator(1, |one| one.lifetime.opened = opened);
            trial.0.network = Some(network(50));
            let roles = vec![Role::Generator];
            let host =
                TrialHost { network: Some(network(of_second)), network_roles: roles, ..TrialHost::default() };
            trial.0.hosts.insert("b".into(), host);
            let mut run = Run::closed(8).with([trial]);
            let generator = RunHost { roles: vec![Role::Generator], ..RunHost::default() };
            run.record.hosts = ["a", "b"].map(|name| (name.into(), generator.clone())).into();
            raised(&run, CODE)
        };
        let found = of(25_000, 25_004);
        assert_eq!(found[0].evidence["host"], "host b (generator)");
        assert_eq!(found[0].evidence["waiting"], 25_000);
        insta::assert_snapshot!(texts(&found));
        assert_eq!(of(25_000, 4), [], "other programs on its host");
        assert_eq!(of(20_000, 25_004), []);
    }
}
