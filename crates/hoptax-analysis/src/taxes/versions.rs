//! Finds the versions of a gateway in a plan, and compares successive versions.
//!
//! The order of the plan is the order of the versions. All versions are measured in the same rounds, so a
//! change between two of them is a paired difference, as in [`gateway_pairs`]. With many versions, some
//! changes appear by chance, so the p-values are adjusted with Holm's method over the changes of a gateway.

use crate::taxes::another_run::Scatters;
use crate::taxes::gateway_pairs;
use crate::trials::trial::Trial;
use hoptax_plan::{Gateway, GatewayKind, PackDriver};
use hoptax_record::RunRecord;
use hoptax_record::report::{Case, Version, Versions};

/// The versions of every gateway that has several, sorted by load point, then in the plan's order. `cases`
/// must be sorted by load point.
pub(crate) fn versions(
    run: &RunRecord,
    scatters: &Scatters<'_>,
    cases: &[(Case, Vec<Trial<'_>>)],
) -> Vec<Versions> {
    let families = families(&run.plan.gateways);
    let mut found = Vec::new();
    for cases in cases.chunk_by(|one, other| one.0.load.index == other.0.load.index) {
        for (name, versions) in &families {
            let labels: Vec<&str> = versions.iter().map(|one| one.gateway.as_str()).collect();
            found.push(Versions {
                load: cases[0].0.load.clone(),
                name: name.clone(),
                versions: versions.clone(),
                changes: gateway_pairs::successive(&labels, scatters, cases),
            });
        }
    }
    found
}

/// The gateways that differ only in their versions, with the name that they share.
fn families(gateways: &[Gateway]) -> Vec<(String, Vec<Version>)> {
    let mut families: Vec<(Family<'_>, Vec<Version>)> = Vec::new();
    for gateway in gateways {
        let Some((family, version)) = Family::of(gateway) else { continue };
        match families.iter_mut().find(|(known, _)| *known == family) {
            Some((_, versions)) => versions.push(version),
            None => families.push((family, vec![version])),
        }
    }
    let several = families.into_iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(family, versions)| (family.name(), told_apart(versions))).collect()
}

/// Replaces the names of versions by their labels if two versions have the same name, for example two builds
/// of one program.
fn told_apart(versions: Vec<Version>) -> Vec<Version> {
    let is_twice = |one: &Version| versions.iter().filter(|other| other.name == one.name).count() > 1;
    if !versions.iter().any(is_twice) {
        return versions;
    }
    versions.into_iter().map(|one| Version { name: one.gateway.clone(), ..one }).collect()
}

/// Everything that versions of one gateway have in common.
#[derive(Debug, PartialEq)]
struct Family<'p> {
    pack: &'p str,
    workers: u32,
    features: Vec<String>,
    instances: Option<u32>,
    /// Whether the versions are images.
    contained: bool,
    /// The repository and the build command, if the versions are built.
    built: Option<(&'p std::path::Path, &'p str)>,
}

impl<'p> Family<'p> {
    fn of(gateway: &'p Gateway) -> Option<(Self, Version)> {
        let GatewayKind::Pack { pack, workers, features, instances, driver, upstream_http2 } = &gateway.kind
        else {
            return None;
        };
        let version = Version {
            gateway: gateway.label.clone(),
            name: driver.version_name()?.to_owned(),
            commit: driver.git().and_then(|git| git.commit.clone()),
        };
        let http2 = upstream_http2.then(|| "HTTP/2 to upstreams".to_owned());
        let family = Self {
            pack,
            workers: *workers,
            features: features.iter().map(ToString::to_string).chain(http2).collect(),
            instances: *instances,
            contained: matches!(driver, PackDriver::Docker { .. }),
            built: driver.git().map(|git| (git.repository.as_path(), git.build.as_str())),
        };
        Some((family, version))
    }

    fn name(&self) -> String {
        match self.features.as_slice() {
            [] => self.pack.to_owned(),
            features => format!("{} with {}", self.pack, features.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, features, via};
    use hoptax_plan::{Feature, Metric, ProgramSource, ProgramVersion};
    use hoptax_record::report::GatewayPair;

    fn version(label: &str, name: &str, features: &[Feature]) -> Gateway {
        let mut gateway = features::gateway(label, features);
        let GatewayKind::Pack { driver, .. } = &mut gateway.kind else { panic!("a pack") };
        *driver = PackDriver::Version(ProgramVersion { name: name.into(), source: ProgramSource::Installed });
        gateway
    }

    /// Ten rounds of versions. Each has a name and its response time, µs; a version without a time was not
    /// measured.
    fn run(versions: &[(&str, Option<u64>)]) -> Run {
        let mut run = Run::closed(8);
        let label = |name: &str| format!("nginx-{name}");
        run.record.plan.gateways =
            versions.iter().map(|(name, _)| version(&label(name), name, &[])).collect();
        for (name, _) in versions {
            run.contender(&label(name), None);
        }
        for round in 0..10 {
            // A disturbance of the whole round cancels.
            let extra = u64::from(round % 5) * 9;
            run.direct(round, 100, 100);
            for (index, (name, time)) in versions.iter().enumerate() {
                let jitter = u64::from((round + index as u32) % 2);
                if let Some(time) = time {
                    run.push(via(&label(name), round).all_at_us(time + extra + jitter));
                }
            }
        }
        run
    }

    #[test]
    fn successive_versions_are_compared_in_the_same_rounds() {
        let run = run(&[("1.22", Some(150)), ("1.24", Some(150)), ("1.26", Some(190))]);
        let found = run.analyse().versions;
        assert_eq!((found.len(), &*found[0].name, found[0].versions.len()), (1, "nginx", 3));
        let p50: Vec<&GatewayPair> =
            found[0].changes.iter().filter(|one| one.metric == Metric::AddedP50).collect();
        let pairs: Vec<(&str, &str)> = p50.iter().map(|one| (&*one.first, &*one.second)).collect();
        assert_eq!(pairs, [("nginx-1.22", "nginx-1.24"), ("nginx-1.24", "nginx-1.26")]);
        assert!(!p50[0].distinguishable && p50[1].distinguishable, "{p50:#?}");
        assert!((p50[1].difference.estimate - 40.0).abs() < 1.0, "{:?}", p50[1]);
    }

    #[test]
    fn a_version_that_was_not_measured_is_skipped() {
        let run = run(&[("1", Some(150)), ("2", None), ("3", Some(190))]);
        let found = run.analyse().versions;
        assert_eq!(found[0].versions.len(), 3);
        assert!(found[0].changes.iter().all(|one| (&*one.first, &*one.second) == ("nginx-1", "nginx-3")));
        assert!(found[0].changes.iter().any(|one| one.distinguishable));
    }

    #[test]
    fn gateways_that_differ_otherwise_are_not_versions() {
        let plain: &[Feature] = &[];
        let gzip = &[Feature::Gzip];
        let gateways = [
            features::gateway("nginx", &[]),
            version("a", "1", plain),
            version("b", "2", plain),
            version("c", "1", gzip),
            version("d", "2", gzip),
        ];
        let names = |gateways: &[Gateway]| -> Vec<(String, usize)> {
            families(gateways).into_iter().map(|(name, versions)| (name, versions.len())).collect()
        };
        assert_eq!(names(&gateways), [("nginx".to_owned(), 2), ("nginx with gzip".to_owned(), 2)]);
        assert!(names(&gateways[..2]).is_empty(), "one version has nothing to be compared with");
    }

    #[test]
    fn two_builds_with_one_file_name_are_named_by_their_labels() {
        let names = |plan: [(&str, &str); 2]| -> Vec<String> {
            let (_, versions) = families(&plan.map(|(label, name)| version(label, name, &[]))).remove(0);
            versions.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(names([("main", "my-gateway"), ("pr", "my-gateway")]), ["main", "pr"]);
        assert_eq!(names([("nginx-1.22", "1.22"), ("nginx-1.26", "1.26")]), ["1.22", "1.26"]);
    }
}
