//! Reasons not to start the gateway of a pack.

use super::driver::ProcessDriver;
use crate::packs::{Pack, binary};
use hoptax_format::Address;
use hoptax_host::programs;
use hoptax_plan::{AccessLog, Feature, Profile};
use hoptax_record::{Failure, Stage};

impl ProcessDriver {
    pub(super) fn refuse_without_namespace(&self) -> Result<(), Failure> {
        match &self.namespace {
            Some(Ok(_)) => Ok(()),
            Some(Err(failure)) => Err(failure.clone()),
            None => Err(Failure::new(
                Stage::Start,
                "a sidecar intercepts traffic to the built-in upstream, which was not started".to_owned(),
            )),
        }
    }

    pub(super) fn refuse_unsupported(
        &self,
        pack: &Pack,
        workers: u32,
        features: &[Feature],
    ) -> Result<(), Failure> {
        let manifest = pack.manifest();
        let several = (workers != 1 && self.profile == Profile::Equalised).then_some("workers");
        let log = (self.access_log == AccessLog::File).then_some("access_log");
        let cache = features.iter().any(Feature::is_cached_review).then_some(Feature::REVIEW_CACHE);
        let certificate = self.credentials.upstream.as_ref().and_then(|tls| tls.client_certificate.as_ref());
        let certificate = certificate.map(|_| Feature::CLIENT_CERTIFICATE);
        let asked = features.iter().map(|feature| feature.name()).chain(several).chain(log);
        let asked = asked.chain(cache).chain(certificate);
        for what in asked {
            if let Some(reason) = manifest.unsupported.get(what) {
                let message = format!("{} does not support `{what}`: {reason}", pack.name());
                return Err(Failure::new(Stage::Start, message));
            }
        }
        Ok(())
    }
}

/// Refuses a gateway that cannot forward to the upstream's Unix socket.
pub(super) fn refuse_unix_upstream(pack: &Pack, upstreams: &[Address]) -> Result<(), Failure> {
    let can = pack.manifest().unix_upstream && pack.proxy_form().is_none();
    if can || upstreams.iter().all(|one| matches!(one, Address::Tcp(_))) {
        return Ok(());
    }
    let message = format!("the upstream is on a Unix socket, and {} cannot connect to one", pack.name());
    Err(Failure::new(Stage::Start, message))
}

/// Refuses a gateway that cannot speak HTTP/2 to upstreams, if the plan requires it.
pub(super) fn refuse_upstream_http2(pack: &Pack, is_required: bool) -> Result<(), Failure> {
    let can = pack.manifest().upstream_http2 && pack.proxy_form().is_none();
    if can || !is_required {
        return Ok(());
    }
    let reason = pack.manifest().unsupported.get("upstream_http2");
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    let message = format!("{} cannot speak HTTP/2 to upstreams{reason}", pack.name());
    Err(Failure::new(Stage::Start, message))
}

pub(super) fn not_installed(pack: &Pack) -> Failure {
    let lacking = match binary::lacking(pack) {
        Some(places) => format!("it needs {}, which is missing", places.join(" or ")),
        None => {
            let tools = programs::tools_directory()
                .map_or_else(String::new, |tools| format!(", {}", tools.display()));
            format!("`{}` is not on PATH{tools} or in /usr/sbin", pack.manifest().binary)
        }
    };
    let ways = binary::how_to_install(pack);
    let how =
        if ways.is_empty() { "its pack has no installation instructions".into() } else { ways.join("; ") };
    Failure::new(
        Stage::Missing,
        format!(
            "{} is not installed: {lacking}. Install it ({how}), or remove it from the plan",
            pack.name()
        ),
    )
}
