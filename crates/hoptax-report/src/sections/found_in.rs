//! Lists the cases of a finding: gateways and load points, folded.

use crate::model::Model;
use crate::words::text::listed;

/// Contenders and load points at which each of them has the finding.
#[derive(Debug, PartialEq)]
pub(crate) struct Group<'m> {
    contenders: Vec<&'m str>,
    loads: Vec<&'m str>,
}

/// All cases of a finding, in the order of the report. Load points with the same contenders form one group.
/// Empty if the finding concerns at most one case.
pub(crate) fn groups<'m>(model: &'m Model, first: Option<&'m str>, others: &[&'m str]) -> Vec<Group<'m>> {
    if others.is_empty() {
        return Vec::new();
    }
    let is_found = |case: &str| first == Some(case) || others.contains(&case);
    let mut groups: Vec<Group<'m>> = Vec::new();
    for floor in &model.noise_floor.by_load {
        let load = &floor.load;
        let contenders: Vec<&str> =
            model.at(load).filter(|case| is_found(&case.case)).map(|case| &*case.gateway).collect();
        match groups.iter_mut().find(|group| group.contenders == contenders) {
            _ if contenders.is_empty() => {}
            Some(group) => group.loads.push(&load.label),
            None => groups.push(Group { contenders, loads: vec![&load.label] }),
        }
    }
    // Starts are not cases of a load point.
    let is_case = |name: &&str| model.cases.iter().any(|case| case.case == *name);
    let rest: Vec<&'m str> = first.iter().chain(others).copied().filter(|name| !is_case(name)).collect();
    if !rest.is_empty() {
        groups.push(Group { contenders: rest, loads: Vec::new() });
    }
    groups
}

impl Group<'_> {
    pub(crate) fn contenders(&self) -> String {
        self.contenders.join(", ")
    }

    pub(crate) fn loads(&self) -> String {
        self.loads.join("; ")
    }
}

/// The groups as a sentence after a space: ` All 4 cases: nginx, haproxy at closed loop, 1 connection; closed
/// loop, 8 connections.` Empty if there are none.
pub(crate) fn sentence<'m>(model: &'m Model, first: Option<&'m str>, others: &[&'m str]) -> String {
    let told: Vec<String> = groups(model, first, others)
        .iter()
        .map(|group| match group.loads.is_empty() {
            true => group.contenders(),
            false => format!("{} at {}", group.contenders(), group.loads()),
        })
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!(" All {} cases: {}.", others.len() + 1, listed(&told)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;

    #[test]
    fn every_case_is_listed_once() {
        let mut run = Run::with_load([1, 8, 64].map(|connections| closed_point(connections, 1)).to_vec());
        for load in 0..3 {
            for gateway in ["direct", "nginx", "haproxy"] {
                run.push(via(gateway, 0).at_load(load).all_at_us(150));
            }
        }
        let model = run.model();
        let case = |gateway: &str, load: usize| {
            let found = model.cases.iter().find(|case| case.gateway == gateway && case.load.index == load);
            &*found.expect("measured").case
        };
        let others = [case("haproxy", 0), case("nginx", 1), case("haproxy", 1), case("nginx", 2)];
        insta::assert_snapshot!(sentence(&model, Some(case("nginx", 0)), &others));
        assert_eq!(sentence(&model, Some(case("nginx", 0)), &[]), "");
        assert_eq!(sentence(&model, None, &[]), "");
    }
}
