//! Hosts that hoptax looks up or creates: machines of a real Terraform, pods of a real Kubernetes.

mod kubernetes;
mod terraform;
