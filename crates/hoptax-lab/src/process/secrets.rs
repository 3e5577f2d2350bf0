//! The secrets of a run: those that hoptax makes, and those in files that the plan names.

use crate::features::{Credentials, needs_credentials};
use crate::login::Login;
use anyhow::Context as _;
use hoptax_plan::{Feature, Gateway, GatewayKind, Plan, Upstream};
use hoptax_record::bounded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// All secrets of a run. They can be sent to another host, but must never be written to a file that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// Keys, tokens and certificates that this run made.
    pub credentials: Credentials,
    /// Credentials for an upstream that already runs.
    pub upstream_login: Login,
    /// Credentials for the gateways that already run, by label.
    pub gateway_logins: BTreeMap<String, Login>,
}

impl Secrets {
    /// Makes the credentials of a run, and reads the files with secrets that the plan names.
    ///
    /// # Errors
    /// If credentials cannot be made or read.
    pub fn read(plan: &Plan) -> anyhow::Result<Self> {
        let features: Vec<Feature> = plan.gateways.iter().flat_map(Gateway::features).copied().collect();
        let upstream_login = match &plan.upstream {
            Upstream::BuiltIn(_) => Login::default(),
            Upstream::Running(running) => Login::read(&running.access).context("upstream")?,
        };
        let gateway_logins = logins(plan)?;
        let addresses: Vec<_> = plan.hosts.iter().filter_map(|host| host.address).collect();
        let credentials =
            Credentials::make_for(&features, &addresses).context("making keys and certificates")?;
        let mut credentials = credentials.with(&upstream_login);
        credentials.given.extend(header_values(plan)?);
        credentials.given.extend(gateway_logins.values().flat_map(Login::secrets).map(str::to_owned));
        Ok(Self { credentials, upstream_login, gateway_logins })
    }

    /// Secrets for a host that needs none of the run's secrets.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub fn unused() -> anyhow::Result<Self> {
        let credentials = Credentials::make(&[]).context("making keys and certificates")?;
        Ok(Self { credentials, upstream_login: Login::default(), gateway_logins: BTreeMap::new() })
    }

    /// Whether the host that starts the gateways of `plan` needs these secrets.
    pub fn are_for_gateways(&self, plan: &Plan) -> bool {
        let of_features = plan.gateways.iter().any(|gateway| needs_credentials(gateway.features()));
        // Logs of gateways may contain the secrets that requests carry, and the guard must remove them.
        of_features || !self.credentials.given.is_empty() || self.upstream_login != Login::default()
    }

    /// Whether the host that starts the upstream of `plan`, or connects to it, needs these secrets.
    pub fn are_for_upstream(&self, plan: &Plan) -> bool {
        let uses = |feature: &Feature| matches!(feature, Feature::UpstreamTls | Feature::TokenReview { .. });
        self.upstream_login != Login::default() || plan.gateways.iter().flat_map(Gateway::features).any(uses)
    }
}

/// The secret values of headers, from files that the plan names.
fn header_values(plan: &Plan) -> anyhow::Result<Vec<String>> {
    let value = |path: &PathBuf| {
        let text = bounded::read_value(path, bounded::TOKEN);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.trim_end().to_owned())
    };
    plan.secrets.iter().map(value).collect()
}

/// Credentials for the plan's gateways that already run, by label.
fn logins(plan: &Plan) -> anyhow::Result<BTreeMap<String, Login>> {
    let external = plan.gateways.iter().filter_map(|gateway| match &gateway.kind {
        GatewayKind::External { access, .. } => Some((&gateway.label, access)),
        _ => None,
    });
    external
        .map(|(label, access)| {
            let login = Login::read(access).with_context(|| format!("gateway {label}"))?;
            Ok((label.clone(), login))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn plan(features: Vec<Feature>) -> Plan {
        fake::plan(vec![fake::pack_gateway("nginx", "nginx", 1, features)], 1)
    }

    #[test]
    fn only_hosts_that_use_secrets_need_them() {
        let table = [
            (vec![], false, false),
            (vec![Feature::Cors], false, false),
            (vec![Feature::KeyAuth], true, false),
            (vec![Feature::Tls], true, false),
            (vec![Feature::UpstreamTls], true, true),
            (vec![Feature::TokenReview { cache_s: 0 }], true, true),
        ];
        for (features, gateway, upstream) in table {
            let plan = plan(features.clone());
            let secrets = Secrets::read(&plan).expect("made");
            let needed = (secrets.are_for_gateways(&plan), secrets.are_for_upstream(&plan));
            assert_eq!(needed, (gateway, upstream), "{features:?}");
        }
    }

    #[test]
    fn secrets_of_headers_reach_the_guard_of_the_logs() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        std::fs::write(&file, "a-long-enough-token\n").expect("written");
        let plan = Plan { secrets: vec![file], ..plan(vec![]) };
        let secrets = Secrets::read(&plan).expect("read");
        assert_eq!(secrets.credentials.given, ["a-long-enough-token"]);
        assert!(secrets.are_for_gateways(&plan) && !secrets.are_for_upstream(&plan));
        let sent = serde_json::to_string(&secrets).expect("JSON");
        assert!(serde_json::from_str::<Secrets>(&sent).expect("read") == secrets);
    }
}
