//! Order of the passes that explain slow requests. All functions are pure.

use hoptax_format::random::Random;
use hoptax_format::record::{LoadRecord, WINDOW_NS};
use hoptax_plan::{Plan, TailPasses};
use hoptax_record::tail::SwitchTrace;
use hoptax_record::{Failure, HostUsage, Stage};

/// Number of requests of a pass whose moments are kept: 10 s at 20,000 requests per second.
pub(super) const MOST_MOMENTS: u32 = 200_000;

/// Largest share of switches that a pass may lose.
const MOST_LOST: f64 = 0.01;

/// Mixed into the seed, so that the order does not use the same random numbers as other random choices. The
/// bytes spell "tails".
const ORDER: u64 = 0x0074_6169_6c73;

/// One pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TailTurn {
    pub(super) round: u32,
    /// Index of the gateway in the plan. Absent for direct.
    pub(super) gateway: Option<usize>,
    /// Index of the load point in the plan.
    pub(super) load: usize,
}

/// All passes of a run, in order. Each round has direct and every gateway at every load point that rounds
/// measure, in random order.
pub(super) fn order(plan: &Plan, asked: TailPasses, seed: u64) -> Vec<TailTurn> {
    let loads: Vec<usize> = (0..plan.load.len()).filter(|load| plan.load[*load].is_in_rounds()).collect();
    let mut random = Random::stream(seed, ORDER);
    let mut turns = Vec::new();
    for round in 0..asked.passes {
        let contenders = std::iter::once(None).chain((0..plan.gateways.len()).map(Some));
        let mut of_round: Vec<TailTurn> = contenders
            .flat_map(|gateway| loads.iter().map(move |&load| TailTurn { round, gateway, load }))
            .collect();
        random.shuffle(&mut of_round);
        turns.append(&mut of_round);
    }
    turns
}

/// The times in which the hypervisor took CPU time: windows with steal or a stall, ns.
pub(super) fn disturbed(record: Option<&LoadRecord>, host: &HostUsage) -> Vec<(u64, u64)> {
    let Some(record) = record else { return Vec::new() };
    let stalled = host.stalled.iter().flat_map(|stalled| stalled.ns_by_cpu.values());
    let mut windows = host.steal_by_window.iter().map(|share| *share > 0.0).collect::<Vec<bool>>();
    for of_cpu in stalled {
        windows.resize(windows.len().max(of_cpu.len()), false);
        windows.iter_mut().zip(of_cpu).for_each(|(window, ns)| *window |= *ns > 0);
    }
    let disturbed = windows.iter().enumerate().filter(|(_, disturbed)| **disturbed);
    let begin = |index: usize| record.started_ns + index as u64 * WINDOW_NS;
    disturbed.map(|(index, _)| (begin(index), begin(index + 1))).collect()
}

/// A failure if too many switches were lost to know which threads had the CPUs.
pub(super) fn lost_too_much(trace: &SwitchTrace) -> Option<Failure> {
    let lost = trace.lost;
    let message = format!("perf lost {lost} switches, because the machine was too busy; stop other programs");
    (lost as f64 > MOST_LOST * trace.events.len() as f64).then(|| Failure::new(Stage::Trial, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::{Gateway, GatewayKind, HopKind, LoadPoint};
    use std::collections::BTreeSet;
    use std::time::Duration;

    #[test]
    fn each_round_has_direct_and_every_gateway_once() {
        let mut plan = hoptax_lab::fake::plan(Vec::new(), 50);
        plan.gateways = vec![Gateway { label: "a".into(), kind: GatewayKind::Hop(HopKind::L7) }];
        let point = LoadPoint::closed(2, Duration::from_secs(1));
        let left_out = LoadPoint { left_out: Some("too many connections".into()), ..point.clone() };
        plan.load = vec![point.clone(), left_out, point];
        let asked = TailPasses { passes: 3, duration: Duration::from_secs(1) };
        let turns = order(&plan, asked, 4);
        assert_eq!(turns, order(&plan, asked, 4), "a seed always gives the same order");
        for round in 0..3 {
            let of_round = turns.iter().filter(|turn| turn.round == round);
            let cases: BTreeSet<_> = of_round.map(|turn| (turn.gateway, turn.load)).collect();
            assert_eq!(cases, [(None, 0), (None, 2), (Some(0), 0), (Some(0), 2)].into());
        }
        assert_eq!(turns.len(), 12);
    }

    #[test]
    fn a_pass_may_lose_a_hundredth_of_its_switches() {
        let event =
            hoptax_record::tail::SwitchEvent { at_ns: 1, cpu: 0, what: hoptax_record::tail::Switch::Beat };
        let trace = |lost| SwitchTrace { lost, events: vec![event; 500], ..SwitchTrace::default() };
        let [none, few, many] = [0, 5, 6].map(|lost| lost_too_much(&trace(lost)));
        assert_eq!((none, few), (None, None));
        assert!(many.expect("too many").message.contains("lost 6 switches"));
    }
}
