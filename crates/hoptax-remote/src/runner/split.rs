//! Divides a load between several generators. All functions are pure.

use hoptax_format::spec::{LoadPart, LoadSpec};
use hoptax_plan::{CpuSets, Plan};

/// The CPUs that one generator gets, and whether it shares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GeneratorCpus {
    /// Empty if its workers are not pinned.
    pub(super) cpus: Vec<u32>,
    /// Whether other roles, or other generators, use these CPUs too.
    pub(super) are_shared: bool,
}

/// The CPUs of generators on one machine. `sets` are the CPUs of the roles there. If there are enough CPUs,
/// each generator has its own; otherwise several share one.
pub(super) fn on_one_machine(sets: &CpuSets, generators: usize) -> Vec<GeneratorCpus> {
    let cpus = &sets.generator;
    let serves = |cpu: &u32| sets.gateway.contains(cpu) || sets.upstream.contains(cpu);
    let of = |generator: usize| {
        let has_own = cpus.len() >= generators;
        let own: Vec<u32> = match has_own {
            true => cpus.iter().skip(generator).step_by(generators).copied().collect(),
            false => cpus.get(generator % cpus.len().max(1)).copied().into_iter().collect(),
        };
        let are_shared = (!has_own && !cpus.is_empty()) || own.iter().any(serves);
        GeneratorCpus { cpus: own, are_shared }
    };
    (0..generators).map(of).collect()
}

/// The parts of a load, one for each generator. All of them have the same number of workers, so that each
/// sends the same share of rate and connections, and so that all requests together have the schedule of one
/// generator. Fails if the load is too small. The text says what to do.
pub(super) fn split(spec: &LoadSpec, generators: &[GeneratorCpus]) -> Result<Vec<LoadSpec>, String> {
    let of = u32::try_from(generators.len()).unwrap_or(u32::MAX);
    check(spec.connections, spec.requests, of)?;
    let fewest = generators.iter().map(|one| one.cpus.len().max(1)).min().unwrap_or(1);
    let workers = u32::try_from(fewest).unwrap_or(u32::MAX).min(spec.connections / of.max(1));
    let part = |(index, one): (usize, &GeneratorCpus)| LoadSpec {
        workers,
        cpus: one.cpus.clone(),
        shares_cpus: one.are_shared,
        part: Some(LoadPart { index: index as u32, of }),
        ..spec.clone()
    };
    Ok(generators.iter().enumerate().map(part).collect())
}

/// A load that one generator sends on these CPUs.
pub(super) fn whole(spec: &LoadSpec, own: &GeneratorCpus) -> LoadSpec {
    LoadSpec {
        workers: (own.cpus.len() as u32).clamp(1, spec.connections.max(1)),
        cpus: own.cpus.clone(),
        shares_cpus: own.are_shared,
        ..spec.clone()
    }
}

/// Refuses a plan that its generators cannot send. `generators` returns the number of generators of a host,
/// or of the role `generator` if it gets no name. Fails if a load point is too small, or if several
/// generators would measure starts. The text says what to do.
pub(super) fn check_plan(plan: &Plan, generators: &dyn Fn(Option<&str>) -> usize) -> Result<(), String> {
    let of_role = generators(None);
    if plan.start.is_some() && of_role > 1 {
        return Err(format!(
            "a start is measured by one generator, but the plan has {of_role}. Give the role `generator` a \
             host with one machine"
        ));
    }
    let mut points = plan.load.iter().filter(|point| point.left_out.is_none());
    points.try_for_each(|point| match generators(point.from.as_deref()) {
        1 => Ok(()),
        several => {
            let of = u32::try_from(several).unwrap_or(u32::MAX);
            check(point.connections, point.requests, of)
        }
    })
}

fn check(connections: u32, requests: Option<u64>, generators: u32) -> Result<(), String> {
    if connections < generators {
        let count = counted(u64::from(connections), "connection");
        return Err(format!(
            "{count} cannot be divided between {generators} generators, because each needs at least one. \
             Write at least {generators} `connections`, or use fewer generators"
        ));
    }
    if let Some(requests) = requests.filter(|requests| *requests < u64::from(generators)) {
        let count = counted(requests, "request");
        return Err(format!(
            "{count} cannot be divided between {generators} generators, because each needs at least one. \
             Write at least {generators} `requests`, or use fewer generators"
        ));
    }
    Ok(())
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::spec::{Arrivals, Rate, Shape};
    use hoptax_lab::fake;
    use hoptax_plan::{LoadPoint, Start};
    use std::time::Duration;

    fn spec(connections: u32, requests: Option<u64>) -> LoadSpec {
        LoadSpec {
            shape: Shape::Open { rate: Rate::Fixed(1000.0), arrivals: Arrivals::Constant },
            connections,
            requests,
            workers: 9,
            cpus: vec![8, 9],
            shares_cpus: true,
            seed: 5,
            ..LoadSpec::closed(Vec::new(), Vec::new())
        }
    }

    fn cpus(cpus: &[u32]) -> GeneratorCpus {
        GeneratorCpus { cpus: cpus.to_vec(), are_shared: false }
    }

    #[test]
    fn shares_add_up_and_are_equal() {
        let parts =
            split(&spec(100, Some(50)), &[cpus(&[0, 1, 2]), cpus(&[4, 5]), cpus(&[])]).expect("enough");
        // The generator without CPUs of its own has one worker, so the others have one too.
        assert!(
            parts.iter().all(|part| (part.workers, part.connections, part.requests) == (1, 100, Some(50)))
        );
        let connections: Vec<u32> = parts.iter().map(LoadSpec::own_connections).collect();
        assert_eq!(connections, [34, 33, 33]);
        let places: Vec<_> = parts.iter().map(|part| part.part.expect("a part")).collect();
        assert_eq!(places, [0, 1, 2].map(|index| LoadPart { index, of: 3 }));
        assert_eq!(
            (parts[0].cpus.as_slice(), parts[0].shares_cpus, parts[0].seed),
            ([0, 1, 2].as_slice(), false, 5)
        );
        // Each worker needs a connection.
        let few = split(&spec(7, None), &[cpus(&[0, 1, 2, 3]), cpus(&[0, 1, 2, 3])]).expect("enough");
        assert_eq!((few[0].workers, few[1].workers), (3, 3));
        assert_eq!(few[0].own_connections() + few[1].own_connections(), 7);
    }

    #[test]
    fn one_generator_has_a_worker_on_each_of_its_cpus() {
        let own = GeneratorCpus { cpus: vec![2, 3], are_shared: true };
        let sent = whole(&spec(7, None), &own);
        assert_eq!((sent.workers, sent.cpus.as_slice(), sent.shares_cpus), (2, [2, 3].as_slice(), true));
        assert_eq!((whole(&spec(1, None), &own).workers, whole(&spec(7, None), &cpus(&[])).workers), (1, 1));
        assert_eq!(sent.part, None);
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let two = [cpus(&[0]), cpus(&[0])];
        let told = [spec(1, None), spec(2, Some(1))].map(|few| split(&few, &two).expect_err("too few"));
        insta::assert_snapshot!(told.join("\n"));

        let point = |connections| LoadPoint::closed(connections, Duration::from_secs(1));
        let mut plan = Plan { load: vec![point(8), point(2)], ..fake::plan(Vec::new(), 1) };
        assert_eq!((check_plan(&plan, &|_| 1), check_plan(&plan, &|_| 2)), (Ok(()), Ok(())));
        assert!(check_plan(&plan, &|_| 3).is_err_and(|text| text.starts_with("2 connections")));
        // Only the second one comes from `clients`.
        plan.load[1].from = Some("clients".into());
        let generators = |several: usize| move |from: Option<&str>| from.map_or(1, |_| several);
        assert!(check_plan(&plan, &generators(3)).is_err_and(|text| text.starts_with("2 connections")));
        assert_eq!(check_plan(&plan, &generators(2)), Ok(()));
        plan.load[1].left_out = Some("too many".into());
        assert_eq!(check_plan(&plan, &|_| 3), Ok(()));
        plan.start = Some(Start { times: 1, duration: Duration::from_secs(1), reload: false });
        assert!(check_plan(&plan, &|_| 3).is_err_and(|text| text.contains("one generator")));
        assert_eq!(check_plan(&plan, &|_| 1), Ok(()));
    }

    #[test]
    fn generators_on_one_machine_have_cpus_of_their_own_if_there_are_enough() {
        let sets = |generator: &[u32], gateway: &[u32]| CpuSets {
            generator: generator.to_vec(),
            gateway: gateway.to_vec(),
            upstream: Vec::new(),
        };
        let of = |sets: &CpuSets, generators| -> Vec<(Vec<u32>, bool)> {
            on_one_machine(sets, generators).into_iter().map(|one| (one.cpus, one.are_shared)).collect()
        };
        assert_eq!(of(&sets(&[0, 1, 2], &[3]), 1), [(vec![0, 1, 2], false)]);
        assert_eq!(of(&sets(&[0, 1, 2], &[3]), 2), [(vec![0, 2], false), (vec![1], false)]);
        assert_eq!(of(&sets(&[0, 1, 2], &[1]), 2), [(vec![0, 2], false), (vec![1], true)]);
        assert_eq!(of(&sets(&[5], &[]), 2), [(vec![5], true), (vec![5], true)]);
        assert_eq!(of(&sets(&[], &[]), 2), [(vec![], false), (vec![], false)]);
    }
}
