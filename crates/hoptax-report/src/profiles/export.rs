//! Profiles as files for other tools: collapsed stacks, which flame graph tools read, and pprof.

use super::pprof;
use super::stacks::{nanoseconds, path};
use hoptax_analysis::profiles::{CaseProfile, Node, Profiles};
use hoptax_record::profile::{FrameKind, PassKind};

/// A file with a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileFile {
    /// Name without a directory: `profile-nginx-1-cpu.folded`.
    pub name: String,
    /// Content.
    pub content: Vec<u8>,
}

/// The files of all profiles that have samples. The number in a name is the number of the load point in the
/// plan, counted from 1.
pub fn profile_files(profiles: &Profiles) -> Vec<ProfileFile> {
    let has_samples = |one: &&CaseProfile| one.tree.len() > 1;
    let files = |one: &CaseProfile| {
        let kind = match one.kind {
            PassKind::Cpu => "cpu",
            PassKind::Waiting => "waiting",
        };
        let name = format!("profile-{}-{}-{kind}", one.gateway, one.load.index + 1);
        [
            ProfileFile { name: format!("{name}.folded"), content: collapsed(&one.tree).into_bytes() },
            ProfileFile { name: format!("{name}.pb"), content: pprof::encode(one) },
        ]
    };
    profiles.cases.iter().filter(has_samples).flat_map(files).collect()
}

/// A line for each stack: its frames from the outermost to the innermost, separated by `;`, then the own time
/// of the innermost frame in nanoseconds per request.
fn collapsed(tree: &[Node]) -> String {
    let mut text = String::new();
    for (index, node) in tree.iter().enumerate().skip(1) {
        let ns = nanoseconds(node.own_us);
        if ns == 0 {
            continue;
        }
        let names: Vec<String> = path(tree, index).iter().map(|node| plain(node)).collect();
        text.push_str(&format!("{} {ns}\n", names.join(";")));
    }
    text
}

/// The frame's name without the separators of the format. Tools know the kernel's frames by `_[k]`.
fn plain(node: &Node) -> String {
    let name = node.frame.name.replace(';', ":").replace(['\n', '\r'], " ");
    if node.frame.kind == FrameKind::Kernel { format!("{name}_[k]") } else { name }
}
