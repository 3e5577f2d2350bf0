//! Sweeps: groups of load points that differ only in the number of connections, of streams, or in the rate.

use hoptax_analysis::Load;
use hoptax_format::spec::HttpVersion;
use serde::Serialize;

/// A group of load points that a chart connects with lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Sweep {
    /// The property in which the load points differ: `connections`, `rate` or `streams`.
    pub(crate) axis: &'static str,
    /// The properties that all load points share, in words.
    pub(crate) label: String,
    /// Indices of the load points, sorted by the property in which they differ.
    pub(crate) loads: Vec<usize>,
    pub(crate) at: Vec<f64>,
}

/// Every sweep among the load points. The longest comes first.
pub(crate) fn sweeps(loads: &[&Load]) -> Vec<Sweep> {
    let mut sweeps = Vec::new();
    let connections = |load: &Load| Some(f64::from(load.connections));
    let streams = |load: &Load| (load.http == HttpVersion::Http2).then(|| f64::from(load.streams));
    let others = |load: &Load| -> Rest { (load.rate, None, Some(load.streams)) };
    collect(loads, "connections", connections, others, &mut sweeps);
    let others = |load: &Load| -> Rest { (None, Some(load.connections), Some(load.streams)) };
    collect(loads, "rate", |load| load.rate, others, &mut sweeps);
    let others = |load: &Load| -> Rest { (load.rate, Some(load.connections), None) };
    collect(loads, "streams", streams, others, &mut sweeps);
    sweeps.sort_by_key(|sweep| std::cmp::Reverse(sweep.loads.len()));
    sweeps
}

/// Rate, connections and streams of a load point, without the property in which a sweep differs.
type Rest = (Option<f64>, Option<u32>, Option<u32>);

/// Groups load points that differ only in the property that `of` returns. The other properties, which `rest`
/// returns, must be equal.
fn collect(
    loads: &[&Load],
    axis: &'static str,
    of: fn(&Load) -> Option<f64>,
    rest: fn(&Load) -> Rest,
    sweeps: &mut Vec<Sweep>,
) {
    let alike = |one: &Load, other: &Load| {
        (one.kind, one.arrivals, &one.stages, one.duration_s)
            == (other.kind, other.arrivals, &other.stages, other.duration_s)
            && (one.requests, one.requests_per_connection, one.http, one.retry)
                == (other.requests, other.requests_per_connection, other.http, other.retry)
            && (rest(one), &one.from) == (rest(other), &other.from)
    };
    let mut taken: Vec<usize> = Vec::new();
    for (place, first) in loads.iter().enumerate() {
        if taken.contains(&first.index) || of(first).is_none() {
            continue;
        }
        let mut group: Vec<(f64, usize)> = loads[place..]
            .iter()
            .filter(|load| alike(first, load))
            .filter_map(|load| Some((of(load)?, load.index)))
            .collect();
        taken.extend(group.iter().map(|(_, index)| *index));
        group.sort_by(|one, other| one.0.total_cmp(&other.0));
        group.dedup_by(|one, other| one.0 == other.0);
        if group.len() > 1 {
            let (at, indexes) = group.into_iter().unzip();
            sweeps.push(Sweep { axis, label: common(first, axis), loads: indexes, at });
        }
    }
}

/// The label without the property in which the load points differ: `open loop, 1,000 requests/s`.
fn common(load: &Load, axis: &str) -> String {
    if axis == "streams" {
        return load.label.replace(&format!(" × {} streams", load.streams), "");
    }
    let word = if axis == "connections" { "connection" } else { "/s" };
    let mut parts: Vec<&str> = load.label.split(", ").filter(|part| !part.contains(word)).collect();
    let streams = format!("{} streams", load.streams);
    if axis == "connections" && load.streams > 1 {
        parts.push(&streams);
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;
    use hoptax_plan::LoadPoint;

    #[test]
    fn load_points_that_differ_in_one_property_make_a_sweep() {
        let run = Run::with_load(vec![
            closed_point(32, 1),
            open_point(1000.0, 64, 1),
            open_point(1000.0, 2, 1),
            open_point(1000.0, 8, 1),
            open_point(500.0, 8, 1),
            closed_point(1, 1),
            open_point(1000.0, 8, 9),
            LoadPoint { from: Some("edge".into()), ..closed_point(64, 1) },
            LoadPoint { http: HttpVersion::Http2, streams: 8, ..closed_point(1, 1) },
            LoadPoint { http: HttpVersion::Http2, streams: 8, ..closed_point(9, 1) },
            LoadPoint { http: HttpVersion::Http2, streams: 1, ..closed_point(9, 1) },
        ]);
        let model = run.model();
        let loads: Vec<&Load> = model.loads().collect();
        let found = sweeps(&loads);
        let told: Vec<(&str, &[usize], &[f64])> =
            found.iter().map(|sweep| (sweep.axis, &sweep.loads[..], &sweep.at[..])).collect();
        assert_eq!(
            told,
            [
                ("connections", &[2, 3, 1][..], &[2.0, 8.0, 64.0][..]),
                ("connections", &[5, 0], &[1.0, 32.0]),
                ("connections", &[8, 9], &[1.0, 9.0]),
                ("rate", &[4, 3], &[500.0, 1000.0]),
                ("streams", &[10, 9], &[1.0, 8.0]),
            ]
        );
        insta::assert_snapshot!(found.iter().map(|sweep| &*sweep.label).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn a_single_load_point_makes_no_sweep() {
        let model = Run::closed(4).model();
        assert_eq!(sweeps(&model.loads().collect::<Vec<_>>()), []);
    }
}
