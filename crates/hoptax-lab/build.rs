//! Rebuilds hoptax when a pack is added, changed or removed, because packs are embedded in the binary.

fn main() {
    println!("cargo:rerun-if-changed=gateways");
    println!("cargo:rerun-if-changed=build.rs");
}
