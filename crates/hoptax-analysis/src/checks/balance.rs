//! `balance`: the upstream's instances received unequal shares of the requests, and chance does not explain
//! the difference.
//!
//! Pearson's χ² test of equal shares (K. Pearson, 1900) decides whether chance explains the difference. The
//! test counts connections, not requests, because a balancer that chooses an instance once per connection
//! makes only one choice for all requests on that connection. With millions of choices any difference is
//! significant, so the effect must also be large enough. The size of the effect is w = √Σ(share − fair)² ÷
//! fair (J. Cohen, *Statistical Power Analysis for the Behavioral Sciences*, 2nd ed. 1988, section 7.2, where
//! 0.1 is a small effect).

use super::{Concerns, Figures, Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::Trial;
use hoptax_plan::{Gateway, GatewayKind};
use hoptax_stats::chi_square_above;
use serde_json::json;

const CODE: &str = "balance";
/// Smallest effect w to report. For two instances, 0.1 means shares of 45 % and 55 %.
const EFFECT: f64 = 0.1;
/// p-value below which chance does not explain the difference. A run has tens of cases, so one of several
/// hundred runs raises a false alarm.
const CHANCE: f64 = 1e-4;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "a gateway's upstream instances received unequal shares of the connections: Cohen's w is above \
             {EFFECT} (with two instances, below 45 % and above 55 %), and p is below 1/{:.0} (χ² test)",
            1.0 / CHANCE
        ),
        seen: "The figures show the limit of one instance.",
        advice: "Check weights, session affinity and health checks. If it chooses an instance once per \
                 connection, use more connections.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // Events that stop or remove instances make the shares unequal on purpose.
    let away = |trials: &[Trial<'_>]| {
        trials.iter().flat_map(|trial| &trial.record.events).any(|event| event.event.action.is_upstream())
    };
    subject
        .gateways()
        .filter(|(_, trials)| !away(trials))
        .filter_map(|measured| of_case(measured, given(subject.gateway(&measured.0.gateway))))
        .collect()
}

/// Number of upstream instances in the gateway's configuration. The gateway always uses the first instances
/// of the upstream. `None` means all instances.
fn given(gateway: Option<&Gateway>) -> Option<u32> {
    match gateway?.kind {
        GatewayKind::Pack { instances, .. } => instances,
        _ => None,
    }
}

/// Lower bound for the number of independent choices that the gateway made. It is the number of client
/// connections, or the number of requests if that is smaller.
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
        concerns: Concerns::only(Figures::Balance),
        evidence: evidence([
            ("by_instance", json!(ledger.by_instance)),
            ("least_share", least.into()),
            ("most_share", most.into()),
            ("effect", effect.into()),
            ("choices", choices.into()),
            ("chance", chance.into()),
        ]),
        message: format!(
            "One of {instances} upstream instances received {} of the requests, and another instance \
             received {}. A fair share is {}. The busiest instance may have been the limit.",
            percent(most),
            percent(least),
            percent(1.0 / instances)
        ),
        advice:
            "Check weights, session affinity and failed health checks in the gateway's configuration. If \
             the gateway chooses an instance once per connection, use more connections."
                .into(),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "at {}, with Cohen's w" one_in(CHANCE);
    METHODOLOGY "Cohen's w above {} (J." number(EFFECT);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::features::gateway;
    use hoptax_format::random::Random;

    #[test]
    fn raised_by_one_instance_that_gets_most_requests() {
        let mut run = Run::closed(32);
        for round in 0..5 {
            run.push(via("nginx", round).by_instance(&[750, 250]));
            run.push(via("sticky", round).by_instance(&[1000, 0, 0]));
        }
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["most_share"], 0.75);
        assert_eq!(findings[1].evidence["by_instance"], json!([5000, 0, 0]));
    }

    #[test]
    fn instances_that_the_gateway_was_not_given_are_ignored() {
        let given = |instances: u32, counts: &[u64]| {
            let mut gateway = gateway("nginx", &[]);
            let GatewayKind::Pack { instances: given, .. } = &mut gateway.kind else { panic!("a pack") };
            *given = Some(instances);
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
    fn not_raised_by_a_tenth_of_a_per_cent_direct_or_single_instances() {
        let mut run = Run::closed(32);
        run.push(via("nginx", 0).by_instance(&[5_010_000, 4_990_000]).opened(10_000_000, 0));
        assert_eq!(raised(&run, CODE), [], "0.1 % of millions");
        let run = Run::closed(32).with([via("direct", 0).first().by_instance(&[1000, 0]), via("nginx", 0)]);
        assert_eq!(raised(&run, CODE), [], "direct or one instance");
    }

    #[test]
    fn not_raised_by_chance_or_by_few_connections() {
        let mut random = Random::new(5);
        for connections in [1u64, 3, 8, 32] {
            for number in 0..200 {
                // The balancer chooses an instance once per connection, and each connection carries 100
                // requests.
                let mut run = Run::closed(connections as u32);
                for round in 0..3 {
                    let mut by_instance = [0u64; 3];
                    (0..connections).for_each(|_| by_instance[random.below(3) as usize] += 100);
                    run.push(via("nginx", round).by_instance(&by_instance).lifetime_opened(connections));
                }
                // Analyses take most of the time.
                if number < 25 {
                    assert_eq!(raised(&run, CODE), [], "{connections}");
                }
            }
        }
    }
}
