//! `balance`: the upstream's instances got shares that chance does not explain.
//!
//! Pearson's χ² test of equal shares (K. Pearson, 1900) says whether chance explains them. Its unit is the connection, not
//! the request: a balancer that chooses once per connection makes as many choices as there are connections, however many
//! requests each of them carries. As millions of choices make any difference significant, the difference must be of some
//! size as well: w = √Σ(share − fair)² ÷ fair, of J. Cohen, *Statistical Power Analysis for the Behavioral Sciences*, 2nd ed.
//! 1988, section 7.2, where 0.1 is a small effect.

use super::{Finding, Measured, Rule, Severity, Subject, evidence, percent};
use crate::Trial;
use hoptax_plan::{Action, Gateway, GatewayKind};
use hoptax_stats::chi_square_above;
use serde_json::json;

const CODE: &str = "balance";
/// Effect from which it matters: of two instances 45 % and 55 %.
const EFFECT: f64 = 0.1;
/// Chance below which it is none: a run has tens of cases, and one false alarm in hundreds of runs is enough.
const CHANCE: f64 = 1e-4;

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "via a gateway those of the upstream's instances that it was given got unequal shares of the requests: Cohen's w above {EFFECT} (of two \
             instances, beyond 45 % and 55 %), and the χ² test gives chance less than 1 in {:.0}. Choices are counted by \
             connection, as a gateway may choose once for each",
            1.0 / CHANCE
        ),
        seen: "Round robin that was not: one of two upstreams got most of the load, and what was measured was its limit.",
        advice: "Look at weights, session affinity and health of the instances in the gateway's configuration; give more \
                 connections if it chooses once for each.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // Who takes an instance away on purpose has it take less.
    let away = |trials: &[Trial<'_>]| {
        trials
            .iter()
            .flat_map(|trial| &trial.record.events)
            .any(|event| Action::from(event.event.action).is_upstream())
    };
    subject
        .gateways()
        .filter(|(_, trials)| !away(trials))
        .filter_map(|measured| of_case(measured, given(subject.gateway(&measured.0.gateway))))
        .collect()
}

/// Instances that a gateway was told to pass requests on to, the first ones; absent where it was told of all.
fn given(gateway: Option<&Gateway>) -> Option<u32> {
    match gateway?.kind {
        GatewayKind::Pack { instances, .. } => instances,
        _ => None,
    }
}

/// Independent choices that the gateway certainly made: one for each connection of the clients, or each request.
fn choices((case, trials): Measured<'_>, requests: u64) -> f64 {
    let opened: u64 = trials.iter().map(|trial| trial.load.lifetime.opened).sum();
    let connections = u64::from(case.load.connections) * trials.len() as u64;
    opened.max(connections).min(requests) as f64
}

fn of_case(measured: Measured<'_>, given: Option<u32>) -> Option<Finding> {
    let case = measured.0;
    let ledger = case.ledger.as_ref().filter(|ledger| ledger.requests > 0)?;
    let given = given.map_or(ledger.by_instance.len(), |given| given as usize);
    let by_instance = ledger.by_instance.get(..given).filter(|all| all.len() > 1)?;
    let instances = by_instance.len() as f64;
    let shares: Vec<f64> = by_instance.iter().map(|count| *count as f64 / ledger.requests as f64).collect();
    let squares: f64 = shares.iter().map(|share| (share * instances - 1.0).powi(2) / instances).sum();
    let (effect, choices) = (squares.sqrt(), choices(measured, ledger.requests));
    let chance = chi_square_above(choices * squares, by_instance.len() as u32 - 1);
    if effect <= EFFECT || chance >= CHANCE {
        return None;
    }
    let least = shares.iter().copied().reduce(f64::min)?;
    let most = shares.iter().copied().reduce(f64::max)?;
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        case: Some(case.case.clone()),
        evidence: evidence([
            ("by_instance", json!(ledger.by_instance)),
            ("least_share", least.into()),
            ("most_share", most.into()),
            ("effect", effect.into()),
            ("choices", choices.into()),
            ("chance", chance.into()),
        ]),
        message: format!(
            "Of {instances} upstream instances one got {} of the requests and another {}, where {} would be fair: the \
             busiest may have been the limit.",
            percent(most),
            percent(least),
            percent(1.0 / instances)
        ),
        advice: "Look at weights, session affinity and failed health checks in the gateway's configuration; if it chooses \
                 once for each connection, give more connections."
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::features::gateway;
    use crate::fixture::{Run, via};
    use hoptax_load::random::Random;

    #[test]
    fn raised_by_one_instance_that_gets_most() {
        let mut run = Run::closed(32);
        for round in 0..5 {
            run.push(via("nginx", round).by_instance(&[750, 250]));
            run.push(via("sticky", round).by_instance(&[1000, 0, 0]));
        }
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].evidence["most_share"], 0.75);
        assert_eq!(findings[1].evidence["by_instance"], json!([5000, 0, 0]));
    }

    #[test]
    fn only_instances_that_the_gateway_was_given_are_looked_at() {
        let given = |instances: u32, counts: &[u64]| {
            let mut gateway = gateway("nginx", &[]);
            let GatewayKind::Pack { instances: told, .. } = &mut gateway.kind else { panic!("a pack") };
            *told = Some(instances);
            let mut run = Run::closed(32);
            run.record.plan.gateways = vec![gateway];
            run.push(via("nginx", 0).by_instance(counts));
            raised(&run, CODE).len()
        };
        assert_eq!(given(1, &[1000, 0]), 0);
        assert_eq!(given(2, &[500, 500, 0]), 0);
        assert_eq!(given(2, &[1000, 0, 0]), 1);
    }

    #[test]
    fn not_raised_by_a_tenth_of_a_per_cent_of_millions() {
        let mut run = Run::closed(32);
        run.push(via("nginx", 0).by_instance(&[5_010_000, 4_990_000]).opened(10_000_000, 0));
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn not_raised_by_chance_or_by_few_connections() {
        let mut random = Random::new(5);
        for connections in [1u64, 3, 8, 32] {
            for _ in 0..200 {
                // A balancer that draws an instance for each connection: 100 requests go on each.
                let mut run = Run::closed(connections as u32);
                for round in 0..3 {
                    let mut by_instance = [0u64; 3];
                    (0..connections).for_each(|_| by_instance[random.below(3) as usize] += 100);
                    run.push(via("nginx", round).by_instance(&by_instance).lifetime_opened(connections));
                }
                assert_eq!(raised(&run, CODE), [], "{connections}");
            }
        }
    }

    #[test]
    fn direct_and_single_instances_are_not_looked_at() {
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first().by_instance(&[1000, 0])).push(via("nginx", 0));
        assert_eq!(raised(&run, CODE), []);
    }
}
