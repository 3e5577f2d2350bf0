//! The data of flame graphs on the page: the trees of calls, without the nodes that are too narrow to see.

use super::super::model::Model;
use super::{difference_title, title};
use hoptax_analysis::profiles::{CaseProfile, DifferenceNode, Node, ProfileDifference};
use hoptax_record::profile::{Frame, FrameKind};
use serde::Serialize;

/// A node is drawn if it has at least this share of the whole width. On a page 1,200 pixels wide, it is one
/// pixel.
const LEAST_SHARE: f64 = 0.0008;

/// A flame graph.
#[derive(Debug, Serialize)]
pub(crate) struct Flames {
    title: String,
    /// Whether the graph shows a difference.
    difference: bool,
    /// The nodes. The first node is the root, and a node comes after its parent.
    nodes: Vec<Flame>,
}

/// A node of a flame graph. Times are in µs per request.
#[derive(Debug, Serialize)]
struct Flame {
    /// Index of the parent in the same list. Absent for the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<usize>,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    module: String,
    kind: FrameKind,
    /// Width: the time. In a difference, the longer one of the times in the two profiles.
    us: f64,
    /// The interval of the time, or of the change.
    low: Option<f64>,
    high: Option<f64>,
    /// The change. Only in a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<f64>,
}

/// The flame graphs in the order of the tables: one for each profile, then one for each difference. A profile
/// without samples has a graph without nodes.
pub(crate) fn flame_graphs(model: &Model) -> Vec<Flames> {
    let profiles = &model.whole_profiles;
    let of_cases = profiles.cases.iter().map(of_case);
    of_cases.chain(profiles.differences.iter().map(|one| of_difference(model, one))).collect()
}

fn of_case(one: &CaseProfile) -> Flames {
    let node = |node: &Node| {
        let flame = flame(&node.frame, node.total.estimate);
        (node.parent, Flame { low: short(node.total.low), high: short(node.total.high), ..flame })
    };
    Flames { title: title(one), difference: false, nodes: pruned(one.tree.iter().map(node)) }
}

fn of_difference(model: &Model, one: &ProfileDifference) -> Flames {
    let node = |node: &DifferenceNode| {
        let flame = flame(&node.frame, node.first_us.max(node.second_us));
        let change = short(Some(node.total.estimate));
        (node.parent, Flame { change, low: short(node.total.low), high: short(node.total.high), ..flame })
    };
    let title = difference_title(model, one);
    Flames { title, difference: true, nodes: pruned(one.tree.iter().map(node)) }
}

fn flame(frame: &Frame, us: f64) -> Flame {
    Flame {
        parent: None,
        name: frame.name.clone(),
        module: frame.module.clone(),
        kind: frame.kind,
        us: short(Some(us)).unwrap_or(0.0),
        low: None,
        high: None,
        change: None,
    }
}

/// Rounds a time to whole nanoseconds, which takes fewer digits on the page.
fn short(us: Option<f64>) -> Option<f64> {
    us.map(|us| (us * 1e3).round() / 1e3)
}

/// Leaves out nodes that are too narrow, and everything below them.
fn pruned(nodes: impl Iterator<Item = (Option<usize>, Flame)>) -> Vec<Flame> {
    let mut kept: Vec<Flame> = Vec::new();
    // The new place of each node, if it is kept.
    let mut places: Vec<Option<usize>> = Vec::new();
    for (parent, node) in nodes {
        let least = kept.first().map_or(0.0, |root| root.us * LEAST_SHARE);
        let below = parent.map(|parent| places[parent]);
        let place = match below {
            // Keeps the root, and nodes whose parent is kept.
            None | Some(Some(_)) if node.us >= least => Some(kept.len()),
            _ => None,
        };
        places.push(place);
        if place.is_some() {
            kept.push(Flame { parent: below.flatten(), ..node });
        }
    }
    kept
}
