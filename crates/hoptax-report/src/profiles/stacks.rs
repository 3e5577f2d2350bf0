//! Stacks of a tree of calls, for the files.

use hoptax_analysis::profiles::Node;

/// The nodes from the first one below the root to this one.
pub(super) fn path(tree: &[Node], index: usize) -> Vec<&Node> {
    let mut path = Vec::new();
    let mut at = Some(index);
    while let Some(node) = at.map(|at| &tree[at]).filter(|node| node.parent.is_some()) {
        path.push(node);
        at = node.parent;
    }
    path.reverse();
    path
}

/// µs per request as whole nanoseconds.
pub(super) fn nanoseconds(us: f64) -> i64 {
    (us * 1e3).round() as i64
}
