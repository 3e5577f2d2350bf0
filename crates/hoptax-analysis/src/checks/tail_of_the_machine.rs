//! `tail-of-the-machine`: the machine causes most of the extra time of slow requests through a gateway.

use super::{Concerns, Figures, Finding, Rule, Severity, Subject, about, evidence, percent};
use hoptax_record::report::{SlowCause, SlowFigures};
use hoptax_record::tail::TailKind;
use hoptax_record::{DIRECT, Role};
use serde_json::{Value, json};

const CODE: &str = "tail-of-the-machine";

/// Smallest share of the extra time of slow requests that the machine causes. Above one half, a gateway
/// without any cost would have most of this tail too.
const MOSTLY: f64 = 0.5;

/// A program is named if it causes at least this share.
const NAMED: f64 = 0.05;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note".into(),
        when: format!(
            "requests beyond p99 through a gateway take longer than those at the median, and other programs, \
             threads of the kernel and the hypervisor cause at least {} of this extra time (`profile \
             --tail`)",
            percent(MOSTLY)
        ),
        seen: "A kernel thread that runs for 1 ms twice a second determines every p99.",
        advice: "Do not tune the gateway for this p99. Stop the program that had the CPU, or give the roles \
            other CPUs.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let gateways = subject.slow.iter().filter(|one| one.contender != DIRECT);
    gateways.filter_map(|one| of_gateway(one, subject.slow)).collect()
}

/// True if the cause is neither a role nor unknown.
fn is_machine(cause: &&SlowCause) -> bool {
    match cause.kind {
        TailKind::Waiting => cause.holder.as_deref().is_some_and(|holder| role(holder).is_none()),
        TailKind::Nobody => true,
        _ => false,
    }
}

fn role(holder: &str) -> Option<Role> {
    [Role::Generator, Role::Gateway, Role::Upstream].into_iter().find(|role| role.name() == holder)
}

fn of_machine(one: &SlowFigures) -> f64 {
    one.causes.iter().filter(is_machine).map(|cause| cause.share.estimate.max(0.0)).sum()
}

fn of_gateway(one: &SlowFigures, all: &[SlowFigures]) -> Option<Finding> {
    let share = of_machine(one);
    if share < MOSTLY {
        return None;
    }
    let who = |cause: &&SlowCause| cause.share.estimate >= NAMED;
    let named: Vec<&SlowCause> = one.causes.iter().filter(is_machine).filter(who).collect();
    let words: Vec<String> = named
        .iter()
        .map(|cause| format!("{} {}", percent(cause.share.estimate), holder(cause).unwrap_or(NOBODY)))
        .collect();
    let direct = all.iter().find(|other| other.contender == DIRECT && other.load.index == one.load.index);
    let direct = direct.map(of_machine);
    let of_direct =
        direct.map_or_else(String::new, |share| format!(" For direct, it is {}.", percent(share)));
    let programs: Vec<&str> = named.iter().filter_map(|cause| holder(cause)).collect();
    let is_idle = named.iter().any(|cause| cause.kind == TailKind::Nobody);
    Some(Finding {
        concerns: Concerns::only(Figures::Tails),
        evidence: evidence([
            ("share", share.into()),
            ("share_direct", direct.into()),
            ("causes", named.iter().map(|cause| of_cause(cause)).collect()),
        ]),
        message: format!(
            "The machine, not the gateway, causes {} of the time that requests beyond p99 take longer than \
             those at the median: {}.{of_direct}",
            percent(share),
            words.join(", ")
        ),
        advice: advice(&programs, is_idle),
        ..about(CODE, Severity::Note, &format!("{}, {}", one.contender, one.load.label))
    })
}

const NOBODY: &str = "no thread (an idle CPU that woke up late, or the hypervisor)";

fn holder(cause: &SlowCause) -> Option<&str> {
    cause.holder.as_deref()
}

fn of_cause(cause: &SlowCause) -> Value {
    json!({ "who": holder(cause), "share": cause.share.estimate })
}

/// What to do about the programs, and about CPUs that wake up late or stand still.
fn advice(programs: &[&str], is_idle: bool) -> String {
    let mut advice = vec!["Do not tune the gateway for this p99.".to_owned()];
    if !programs.is_empty() {
        let names = programs.join(", ");
        advice.push(format!("Stop {names}, or keep the roles off their CPUs (`cpus` in the plan)."));
    }
    if is_idle {
        advice.push("`idle: poll` keeps CPUs awake. The rest of this time is the hypervisor's.".to_owned());
    }
    advice.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_record::tail::{Holder, TailCause, TailGroup, TailPass, TailSlice};

    /// A pass with ten slow requests and ten requests at the median. Each slow request took 1 ms longer:
    /// kdamond, an idle CPU and the gateway caused parts of it.
    fn pass(contender: &str, kdamond: u64, nobody: u64) -> TailPass {
        let cause = |kind, role, holder| TailCause { kind, role, holder };
        let group = |ns: Vec<(u32, u64)>| TailGroup { requests: 10, ns };
        let each = 10_000_000;
        let gateway = each - (kdamond + nobody) * each / 100;
        let slice = TailSlice {
            disturbed: false,
            slow: group(vec![(0, kdamond * each / 100), (1, nobody * each / 100), (2, gateway)]),
            usual: group(Vec::new()),
        };
        TailPass {
            requests: 2_000,
            causes: vec![
                cause(TailKind::Waiting, Some(Role::Gateway), Some(Holder::Other("kdamond".into()))),
                cause(TailKind::Nobody, Some(Role::Gateway), None),
                cause(TailKind::Running, Some(Role::Gateway), None),
            ],
            slices: vec![slice; 4],
            ..TailPass::blank(0, contender, 0)
        }
    }

    fn run(kdamond: u64, nobody: u64) -> Run {
        let mut run = Run::steady(5, 100, &[("nginx", 150)]);
        run.tails = vec![pass("nginx", kdamond, nobody), pass(DIRECT, 80, 0)];
        run
    }

    #[test]
    fn raised_if_most_of_the_tail_is_the_machines() {
        insta::assert_snapshot!(texts(&raised(&run(55, 10), CODE)));
        assert!(raised(&run(0, 49), CODE).is_empty());
        let found = raised(&run(0, 51), CODE);
        assert!(found[0].advice.contains("idle: poll") && !found[0].advice.contains("Stop"), "{found:?}");
        assert!(Run::steady(5, 100, &[("nginx", 150)]).analyse().findings.iter().all(|one| one.code != CODE));
    }
}
