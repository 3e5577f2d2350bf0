//! `listen-overflow`: the kernel dropped new connections or retransmitted SYNs during a trial.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent, with_host};
use crate::Trial;
use hoptax_record::NetworkUsage;

const CODE: &str = "listen-overflow";
/// Smallest number of dropped connections to report. One is enough, because on a loopback interface only a
/// full listen queue drops connections.
const DROPS: u64 = 1;
/// Limit for retransmitted SYNs ÷ opened connections. The kernel counts the SYNs of the whole network
/// namespace. Other programs in the namespace also retransmit SYNs if they connect to hosts that do not
/// answer. A full listen queue affects many connections at once and exceeds this limit.
const SYN_SHARE: f64 = 0.01;
/// Smallest number of retransmitted SYNs for which [`SYN_SHARE`] is checked.
const LEAST_SYNS: u64 = 3;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "in a trial, the kernel dropped a connection because a listen queue was full, or retransmitted \
             at least {LEAST_SYNS} SYNs and more than {} of the number of connections",
            percent(SYN_SHARE)
        ),
        seen: "The kernel retries a dropped connection after one second, which the response times include.",
        advice: "Raise `net.core.somaxconn` and the gateway's backlog, or use fewer connections.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (case, trials) in subject.measured() {
        let hit: Vec<Vec<Seen<'_>>> =
            trials.iter().map(of_trial).filter(|networks| !networks.is_empty()).collect();
        if hit.is_empty() {
            continue;
        }
        let all = || hit.iter().flatten();
        let total = |of: fn(&NetworkUsage) -> u64| all().map(|(_, network)| of(network)).sum::<u64>();
        let mut hosts: Vec<String> =
            all().filter_map(|(name, _)| subject.host_in_words(case.load.index, *name)).collect();
        hosts.sort();
        hosts.dedup();
        let there = if hosts.is_empty() { String::new() } else { format!(" on {}", hosts.join(" and ")) };
        let (drops, syns) = (total(|network| network.listen_drops), total(|network| network.syn_retransmits));
        findings.push(Finding {
            evidence: with_host(
                evidence([
                    ("trials", trials.len().into()),
                    ("trials_hit", hit.len().into()),
                    ("listen_drops", drops.into()),
                    ("listen_overflows", total(|network| network.listen_overflows).into()),
                    ("syn_retransmits", syns.into()),
                ]),
                "hosts",
                (!hosts.is_empty()).then(|| hosts.join(", ")),
            ),
            message: format!(
                "In {} of {} trials the kernel{there} dropped {drops} connections at listeners and \
                 retransmitted {syns} SYNs. The kernel retries a dropped connection after one second, and \
                 the requests of that connection wait until then.",
                hit.len(),
                trials.len()
            ),
            advice: "Raise the server's listen backlog and its upper limit, net.core.somaxconn. Or open \
                     fewer connections at once. Another program on this machine may also be the cause."
                .into(),
            ..about(CODE, Severity::Warning, &case.case)
        });
    }
    findings
}

/// The name of a host, and its network. The generator's host has no name.
type Seen<'t> = (Option<&'t str>, &'t NetworkUsage);

/// The networks that the requests of a trial pass and in which the kernel dropped connections.
fn of_trial<'t>(trial: &Trial<'t>) -> Vec<Seen<'t>> {
    let opened = trial.load.lifetime.opened;
    let networks = trial.record.networks().map(|(name, network, _)| (name, network));
    networks.filter(|(_, network)| overflowed(network, opened)).collect()
}

fn overflowed(network: &NetworkUsage, opened: u64) -> bool {
    let many = network.syn_retransmits >= LEAST_SYNS;
    network.listen_drops >= DROPS || (many && network.syn_retransmits as f64 > opened as f64 * SYN_SHARE)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::hosts::on_hosts;

    fn with(network: NetworkUsage) -> Run {
        let mut run = Run::closed(32);
        let mut trial = via("nginx", 0);
        trial.0.network = Some(network);
        run.push(trial).push(via("nginx", 1));
        run
    }

    #[test]
    fn raised_by_drops_and_by_many_syns_only() {
        let found = raised(&with(NetworkUsage { listen_drops: 1, ..NetworkUsage::default() }), CODE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].evidence["listen_drops"], 1);
        assert_eq!(found[0].evidence["trials_hit"], 1);
        let found = raised(&with(NetworkUsage { syn_retransmits: 3, ..NetworkUsage::default() }), CODE);
        assert_eq!(found.len(), 1, "3 of 32 connections");
        let stray =
            NetworkUsage { syn_retransmits: 2, retransmits: 9, segments_sent: 50, ..NetworkUsage::default() };
        assert_eq!(raised(&with(stray), CODE), []);
    }

    #[test]
    fn the_listener_may_be_on_another_host() {
        let mut run = on_hosts(&[("nginx", 850)]);
        for trial in &mut run.trials {
            trial.hosts.get_mut("edge").expect("there").network =
                Some(NetworkUsage { listen_drops: 2, ..NetworkUsage::default() });
        }
        let found = raised(&run, CODE);
        assert_eq!(found[0].evidence["listen_drops"], 8);
        assert_eq!(found[0].evidence["trials_hit"], 4);
        insta::assert_snapshot!(texts(&found));
    }
}
