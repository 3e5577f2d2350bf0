//! `bandwidth-bound`: a case's traffic came close to the capacity of the link.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::hosts::legs::{self, LegFigures};
use crate::hosts::vantage;
use crate::{Case, Trial};
use hoptax_format::record::Bytes;
use hoptax_record::Role;

const CODE: &str = "bandwidth-bound";
/// Limit for the traffic ÷ the measured capacity of the link. Above this share, long queues form in front of
/// the link.
const NEAR: f64 = 0.8;
/// Limit for the traffic ÷ the capacity of a leg between hosts, which was measured with one connection. Above
/// this share, one connection was not able to fill the link, so the link's capacity is unknown.
const MOST: f64 = 1.2;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "a case used more than {} of the bandwidth that one connection had on the link in one direction \
             (`hoptax hosts bandwidth`), or on a leg between hosts. A use above {} does not count: it shows \
             that the leg can carry more",
            percent(NEAR),
            percent(MOST)
        ),
        seen: "The link limits all gateways equally.",
        advice: "Request a smaller body, or use a faster link. CPU per request can still be compared.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.run.legs.is_empty() {
        return between_hosts(subject);
    }
    let Some(link) = subject.run.link.filter(|link| link.bytes_per_second > 0.0) else { return Vec::new() };
    let mut findings = Vec::new();
    for (case, trials) in subject.measured() {
        // The link has its full capacity in each direction, so only the busier direction counts.
        let rates = trials.iter().map(|trial| {
            let bytes = trial.load.bytes;
            bytes.sent.max(bytes.received) as f64 / trial.seconds()
        });
        let Some(most) = rates.max_by(f64::total_cmp) else { continue };
        let share = most / link.bytes_per_second;
        if share <= NEAR {
            continue;
        }
        findings.push(Finding {
            evidence: evidence([
                ("bytes_per_second", most.into()),
                ("link_bytes_per_second", link.bytes_per_second.into()),
                ("message_bytes", link.message_bytes.into()),
                ("share", share.into()),
                ("limit", NEAR.into()),
            ]),
            message: format!(
                "The case transferred {:.0} MB/s in one direction. This is {} of the {:.0} MB/s that one \
                 connection can carry here with messages of {} bytes. The figures show how fast bytes are \
                 copied, not how fast the gateway is.",
                most / 1e6,
                percent(share),
                link.bytes_per_second / 1e6,
                link.message_bytes
            ),
            advice: "Use smaller bodies or a lower rate. Between machines, a faster link also helps. On the \
                     loopback interface, the limit is the CPU time and memory bandwidth for copying, which \
                     all roles share."
                .into(),
            ..about(CODE, Severity::Warning, &case.case)
        });
    }
    findings
}

/// Checks the legs between the hosts of a run. Each case is reported with its busiest leg.
fn between_hosts(subject: &Subject<'_>) -> Vec<Finding> {
    let legs = legs::figures(subject.run);
    let of_case = |(case, trials): Measured<'_>| {
        let passed = legs.iter().filter(|leg| leg.is_between_hosts() && passes(subject, case, leg));
        let used = passed.flat_map(|leg| uses(subject, case, trials, leg));
        let busiest =
            used.filter(|one| one.share() <= MOST).max_by(|a, b| a.share().total_cmp(&b.share()))?;
        (busiest.share() > NEAR).then(|| on_leg(case, &busiest))
    };
    subject.measured().filter_map(of_case).collect()
}

/// True if requests of this case pass the leg.
fn passes(subject: &Subject<'_>, case: &Case, leg: &LegFigures) -> bool {
    let has = |host: &str, role: Role| vantage::roles(subject.run, case.load.index, host).contains(&role);
    let ways = match case.is_direct() {
        true => &[(Role::Generator, Role::Upstream)][..],
        false => &[(Role::Generator, Role::Gateway), (Role::Gateway, Role::Upstream)],
    };
    ways.iter().any(|(from, to)| has(&leg.leg.from, *from) && has(&leg.leg.to, *to))
}

/// The traffic of a case on a leg in one direction.
struct Use {
    from: String,
    to: String,
    bytes_per_second: f64,
    capacity: f64,
}

impl Use {
    fn share(&self) -> f64 {
        self.bytes_per_second / self.capacity
    }
}

/// The traffic of a case on a leg in each direction, in its busiest trial. If there are several generators,
/// each counts with an equal part of the bytes.
fn uses(subject: &Subject<'_>, case: &Case, trials: &[Trial<'_>], leg: &LegFigures) -> Vec<Use> {
    let generators = vantage::generators(subject.run, case.load.index);
    let parts = if generators.contains(&&*leg.leg.from) { generators.len() as f64 } else { 1.0 };
    let most = |bytes: fn(&Bytes) -> u64| {
        let rate = |trial: &Trial<'_>| bytes(&trial.load.bytes) as f64 / trial.seconds() / parts;
        trials.iter().map(rate).fold(0.0, f64::max)
    };
    let (from, to) = (&leg.leg.from, &leg.leg.to);
    let of = |from: &String, to: &String, bytes_per_second, capacity: Option<f64>| {
        Some(Use { from: from.clone(), to: to.clone(), bytes_per_second, capacity: capacity? })
    };
    let there = of(from, to, most(|bytes| bytes.sent), leg.there);
    let back = of(to, from, most(|bytes| bytes.received), leg.back);
    there.into_iter().chain(back).collect()
}

fn on_leg(case: &Case, used: &Use) -> Finding {
    let Use { from, to, bytes_per_second, capacity } = used;
    Finding {
        evidence: evidence([
            ("from", from.clone().into()),
            ("to", to.clone().into()),
            ("bytes_per_second", (*bytes_per_second).into()),
            ("link_bytes_per_second", (*capacity).into()),
            ("share", used.share().into()),
            ("limit", NEAR.into()),
        ]),
        message: format!(
            "The case transferred {:.0} MB/s from host {from} to host {to}. This is {} of the {:.0} MB/s \
             that one connection carried there. The figures show how fast the network is, not how fast the \
             gateway is.",
            bytes_per_second / 1e6,
            percent(used.share()),
            capacity / 1e6
        ),
        advice: "Use smaller bodies, a lower rate or a faster link. CPU per request can still be compared."
            .into(),
        ..about(CODE, Severity::Warning, &case.case)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::hosts::{from_two_hosts, on_hosts};
    use hoptax_record::Link;

    fn run(link: Option<f64>) -> Run {
        let mut run = Run::closed(1).with([via("nginx", 0)]);
        run.record.link = link.map(|bytes_per_second| Link { message_bytes: 65_536, bytes_per_second });
        run
    }

    #[test]
    fn raised_near_the_links_capacity_only() {
        let found = raised(&run(Some(1_200_000.0)), CODE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].evidence["bytes_per_second"], 1_100_000.0);
        assert_eq!(raised(&run(Some(1_400_000.0)), CODE), []);
        assert_eq!(raised(&run(None), CODE), []);
    }

    #[test]
    fn raised_for_the_leg_that_is_full() {
        // Each leg carries 100 MB/s. Via the gateway, 90 MB/s of responses pass two legs.
        let mut run = on_hosts(&[("nginx", 850)]);
        for trial in run.trials.iter_mut().filter(|trial| trial.contender == "nginx") {
            trial.load_record.as_mut().expect("measured").bytes.received = 90_000_000;
        }
        run.record.legs[2].at_start.as_mut().expect("measured").back =
            Some(Link { message_bytes: 65_536, bytes_per_second: 2e9 });
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
        // This is more than one connection carried before, so the capacity of the link is unknown.
        for trial in &mut run.trials {
            trial.load_record.as_mut().expect("measured").bytes.received = 130_000_000;
        }
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn a_load_passes_only_the_legs_of_the_host_that_sends_it() {
        let mut run = from_two_hosts();
        let busy = |run: &mut Run, load: u32| {
            for trial in &mut run.trials {
                let is_busy = trial.load == load && trial.contender == "nginx";
                trial.load_record.as_mut().expect("measured").bytes.received =
                    if is_busy { 90_000_000 } else { 1000 };
            }
        };
        // If `edge` sends the load, responses pass only the leg from `app`, and not the leg to `client`.
        busy(&mut run, 1);
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
        // If `client` sends the load, responses pass both legs.
        busy(&mut run, 0);
        run.record.legs[2] =
            hoptax_record::Leg { at_start: None, at_end: None, ..run.record.legs[2].clone() };
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
        busy(&mut run, 1);
        assert_eq!(raised(&run, CODE), [], "nothing of it passes the leg to `client`");
    }
}
