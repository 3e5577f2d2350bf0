//! Names of this machine and of its networks, so that two hosts of a plan can be recognised as one machine.

use hoptax_format::stamp::ClockId;
use std::fs;

/// Names the machine and the processes that this process sees: the kernel's boot, and the namespace of
/// process ids.
pub(crate) fn machine() -> String {
    let boot = ClockId::here().map(|clock| clock.boot_id).unwrap_or_default();
    format!("{boot} {}", namespace("pid"))
}

/// Names the network namespace. Two such names can be compared only on the same machine.
pub(crate) fn network() -> String {
    namespace("net")
}

/// Identity of a namespace of this process, such as `net:[4026531840]`.
fn namespace(kind: &str) -> String {
    let link = fs::read_link(format!("/proc/self/ns/{kind}"));
    link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn names_are_the_boot_and_the_namespaces_of_the_kernel() {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux reports it");
        // A namespace is identified by the inode of its file.
        let inode =
            |kind: &str| fs::metadata(format!("/proc/self/ns/{kind}")).expect("Linux reports it").ino();
        assert_eq!(machine(), format!("{} pid:[{}]", boot.trim(), inode("pid")));
        assert_eq!(network(), format!("net:[{}]", inode("net")));
        assert_ne!(inode("pid"), inode("net"));
    }
}
