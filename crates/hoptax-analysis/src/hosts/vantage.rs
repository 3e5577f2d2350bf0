//! Vantage points: the hosts from which a plan sends its loads. The same load from two hosts shows the same
//! gateway from two places.

use crate::figures::contrasts::contrasts;
use crate::taxes::another_run::Scatters;
use crate::trials::trial::Trial;
use hoptax_plan::LoadPoint;
use hoptax_record::report::{Case, Difference, Load, SameLoad, View};
use hoptax_record::{DIRECT, Role, RunRecord};
use hoptax_stats::Statistic;

/// Names of the hosts that send a load, in the order of the record. In a run on one host, there are none.
pub(crate) fn generators(run: &RunRecord, load: usize) -> Vec<&str> {
    let with_role = run.hosts.iter().filter(|(_, host)| host.has(Role::Generator));
    let mut names: Vec<&str> = with_role.map(|(name, _)| name.as_str()).collect();
    if run.load.iter().any(|point| point.from.is_some()) {
        let machines = run.plan.machines_of(host(run, load));
        names.retain(|name| machines.iter().any(|machine| machine == name));
    }
    names
}

/// The roles of a host during a load. Only a host that sends this load is a generator.
pub(crate) fn roles(run: &RunRecord, load: usize, name: &str) -> Vec<Role> {
    let sends = generators(run, load).contains(&name);
    let roles = run.hosts.get(name).map_or(&[][..], |host| &host.roles);
    roles.iter().copied().filter(|role| *role != Role::Generator || sends).collect()
}

/// Name of the first host with the role `generator`. The environment and the host checks in the record are
/// those of this host. `None` in a run on one host.
pub(crate) fn first_generator(run: &RunRecord) -> Option<&str> {
    let of_role = run.plan.machines_of(&run.plan.roles.generator);
    let named = of_role.iter().find_map(|name| run.hosts.get_key_value(name));
    let any = || run.hosts.iter().find(|(_, host)| host.has(Role::Generator));
    named.or_else(any).map(|(name, _)| name.as_str())
}

/// Name of the host that sends a load, as the plan has it.
fn host(run: &RunRecord, load: usize) -> &str {
    let point = run.load.get(load);
    point.map_or(&run.plan.roles.generator, |point| run.plan.generator(point))
}

/// The loads of a run that come from several hosts. Empty if each comes from one.
pub(crate) fn same_loads(
    run: &RunRecord,
    cases: &[(Case, Vec<Trial<'_>>)],
    scatters: &Scatters<'_>,
) -> Vec<SameLoad> {
    let mut groups: Vec<(LoadPoint, Vec<usize>)> = Vec::new();
    for (index, point) in run.load.iter().enumerate().filter(|(_, point)| point.is_in_rounds()) {
        let anywhere = LoadPoint { from: None, ..point.clone() };
        match groups.iter_mut().find(|(other, _)| *other == anywhere) {
            Some((_, loads)) => loads.push(index),
            None => groups.push((anywhere, vec![index])),
        }
    }
    let several = groups.into_iter().filter(|(_, loads)| loads.len() > 1);
    let same = several.map(|(point, loads)| SameLoad {
        label: Load::new(loads[0], &point).label,
        views: views(run, &loads, cases, scatters),
    });
    same.filter(|one| !one.views.is_empty()).collect()
}

/// A gateway's case with load from one host, and direct's case with load from the same host.
struct Seen<'c, 'a> {
    via: &'c (Case, Vec<Trial<'a>>),
    direct: &'c (Case, Vec<Trial<'a>>),
    added_p50_us: Difference,
}

fn views(
    run: &RunRecord,
    loads: &[usize],
    cases: &[(Case, Vec<Trial<'_>>)],
    scatters: &Scatters<'_>,
) -> Vec<View> {
    let case = |contender: &str, load: usize| {
        cases.iter().find(|(case, _)| case.gateway == contender && case.load.index == load)
    };
    let seen = |gateway: &str, load: usize| {
        let (via, direct) = (case(gateway, load)?, case(DIRECT, load)?);
        Some(Seen { via, direct, added_p50_us: via.0.tax.as_ref()?.added_p50? })
    };
    let of_gateway = |gateway: &str| {
        let seen: Vec<Seen<'_, '_>> = loads.iter().filter_map(|load| seen(gateway, *load)).collect();
        let sides: Vec<[&[Trial<'_>]; 2]> =
            seen.iter().map(|one| [&one.via.1[..], &one.direct.1[..]]).collect();
        let contrasts = contrasts(Statistic::P50, &sides);
        let more = |index: usize| {
            let contrast = contrasts.iter().find(|one| one.pair == [0, index])?;
            Some(scatters.of(gateway).widen(contrast.difference))
        };
        let view = |(index, Seen { via: (case, _), direct: (direct, _), added_p50_us }): (usize, _)| View {
            case: case.case.clone(),
            gateway: case.gateway.clone(),
            load: case.load.index,
            from: host(run, case.load.index).to_owned(),
            direct_p50_us: direct.response_time.as_ref().and_then(|times| times.p50),
            added_p50_us,
            more_us: more(index),
        };
        seen.into_iter().enumerate().map(view).collect::<Vec<_>>()
    };
    let gateways = run.contenders.iter().filter(|one| one.label != DIRECT);
    gateways.flat_map(|one| of_gateway(&one.label)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::hosts::{from_two_hosts, on_hosts};

    #[test]
    fn each_load_has_generators_of_its_own() {
        let run = from_two_hosts().record;
        assert_eq!((generators(&run, 0), generators(&run, 1)), (vec!["client"], vec!["edge"]));
        assert_eq!(roles(&run, 0, "edge"), [Role::Gateway]);
        assert_eq!(roles(&run, 1, "edge"), [Role::Generator, Role::Gateway]);
        assert_eq!((roles(&run, 1, "client"), roles(&run, 1, "nowhere")), (vec![], vec![]));
        // Without `from`, every generator of the run sends each load.
        let mut run = on_hosts(&[("nginx", 850)]).record;
        let second = run.hosts["client"].clone();
        run.hosts.insert("client2".into(), second);
        assert_eq!(generators(&run, 0), ["client", "client2"]);
    }

    #[test]
    fn the_same_load_is_compared_from_both_hosts() {
        let run = from_two_hosts();
        let analysis = run.analyse();
        let [same] = &analysis.same_loads[..] else { panic!("{:?}", analysis.same_loads) };
        assert_eq!(same.label, "closed loop, 32 connections");
        let near = |estimate: f64, expected: f64| {
            assert!((estimate - expected).abs() < 2.0, "{estimate} for {expected}");
        };
        let [client, edge] = &same.views[..] else { panic!("{same:?}") };
        assert_eq!((&*client.from, client.load, &*edge.from, edge.load), ("client", 0, "edge", 1));
        assert_eq!(edge.case, "nginx, closed loop, 32 connections, from edge");
        near(client.direct_p50_us.expect("measured").estimate, 300.0);
        near(edge.direct_p50_us.expect("measured").estimate, 270.0);
        near(client.added_p50_us.estimate.estimate, 550.0);
        near(edge.added_p50_us.estimate.estimate, 230.0);
        assert_eq!(client.more_us, None);
        let more = edge.more_us.expect("both have all rounds");
        near(more.estimate, 230.0 - 550.0);
        assert!(more.excludes(0.0) && more.trials == 4, "{more:?}");
    }

    #[test]
    fn loads_that_differ_in_more_than_the_host_are_not_the_same() {
        assert_eq!(on_hosts(&[("nginx", 850)]).analyse().same_loads, []);
        let mut run = from_two_hosts();
        run.record.load[1].connections = 16;
        assert_eq!(run.analyse().same_loads, []);
        // If there are no figures from one of the hosts, the other host is still shown.
        let mut run = from_two_hosts();
        run.trials.retain(|trial| trial.load == 0);
        let analysis = run.analyse();
        assert_eq!(analysis.same_loads[0].views.len(), 1);
    }
}
