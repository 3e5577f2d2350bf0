//! The systems under test.

use super::{Access, Feature, HopDelay, ProxyForm, WatchedPods};
use hoptax_format::spec::HttpVersion;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// One system under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gateway {
    /// Unique name in this plan.
    pub label: String,
    /// How hoptax runs or reaches the gateway.
    pub kind: GatewayKind,
}

impl Gateway {
    /// Enabled features.
    pub fn features(&self) -> &[Feature] {
        match &self.kind {
            GatewayKind::Pack { features, .. } => features,
            _ => &[],
        }
    }

    /// Whether the plan requires that the gateway speaks HTTP/2 to upstreams.
    pub fn has_http2_upstream(&self) -> bool {
        match self.kind {
            GatewayKind::Pack { upstream_http2, .. } => upstream_http2,
            GatewayKind::Http2Hop { upstream, .. } => upstream == HttpVersion::Http2,
            _ => false,
        }
    }
}

/// How hoptax runs or reaches a gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayKind {
    /// Started from a pack.
    Pack {
        /// The pack's name.
        pack: String,
        /// Worker threads or processes.
        workers: u32,
        /// Features switched on.
        #[serde(default)]
        features: Vec<Feature>,
        /// Number of upstream instances that the gateway forwards to. If absent, it forwards to all
        /// instances.
        instances: Option<u32>,
        /// Driver that runs the gateway.
        #[serde(default)]
        driver: PackDriver,
        /// Whether the gateway speaks HTTP/2 to upstreams. Otherwise the pack's configuration decides, and
        /// this is HTTP/1.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        upstream_http2: bool,
    },
    /// A built-in reference proxy.
    Hop(HopKind),
    /// `hop-l7` with known delays or a known warm-up.
    DelayingHop(HopDelay),
    /// `hop-l7` as a forward proxy.
    ForwardingHop {
        /// How requests ask it.
        proxy: ProxyForm,
        /// Known delays or a known warm-up; absent if there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay: Option<HopDelay>,
    },
    /// `hop-h2`, which accepts only HTTP/2.
    Http2Hop {
        /// HTTP version for upstreams: 1.1 or 2.
        upstream: HttpVersion,
        /// Known delays or a known warm-up; absent if there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay: Option<HopDelay>,
    },
    /// Already running.
    External {
        /// `http://host:port` or `https://host:port`, without a path.
        url: String,
        /// Id of the process for which CPU and memory are measured; absent if there is none.
        pid: Option<u32>,
        /// TLS and credentials for connections to the gateway.
        #[serde(default)]
        access: Access,
        /// Prometheus that knows CPU time and memory; absent if there is none, and in older runs.
        prometheus: Option<Prometheus>,
        /// Pods whose control groups know CPU time and memory; absent if there are none, and in older runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pods: Option<WatchedPods>,
    },
}

/// A Prometheus server that knows the CPU time and the memory of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prometheus {
    /// `http://host:port`.
    pub url: String,
    /// Selector of counters of CPU time, in seconds. Their sum is the gateway's.
    pub cpu: String,
    /// Selector of gauges of memory, in bytes. Their sum is the gateway's.
    pub memory: String,
}

/// Driver of a gateway from a pack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackDriver {
    /// Processes on this machine.
    #[default]
    Process,
    /// A container on this machine's network.
    Docker {
        /// Image to use instead of the pack's image; absent if the pack's image is used.
        image: Option<String>,
    },
    /// Processes of one version of the gateway's program, on this machine.
    Version(ProgramVersion),
}

impl PackDriver {
    /// Name of the version that the plan chooses: of a program, or the tag of an image. Absent if the plan
    /// leaves the choice to the pack and the machine.
    pub fn version_name(&self) -> Option<&str> {
        match self {
            Self::Process | Self::Docker { image: None } => None,
            Self::Docker { image: Some(image) } => {
                let tag = image.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'));
                Some(tag.unwrap_or(image))
            }
            Self::Version(version) => Some(&version.name),
        }
    }

    /// The commit that the program is built from, if the plan names one.
    pub fn git(&self) -> Option<&GitBuild> {
        match self {
            Self::Version(ProgramVersion { source: ProgramSource::Git(git), .. }) => Some(git),
            _ => None,
        }
    }

    /// Like [`Self::git`], to change it.
    pub fn git_mut(&mut self) -> Option<&mut GitBuild> {
        match self {
            Self::Version(ProgramVersion { source: ProgramSource::Git(git), .. }) => Some(git),
            _ => None,
        }
    }
}

/// One version of a gateway's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramVersion {
    /// Name of the version: a version number, the part of a path that differs, or a ref.
    pub name: String,
    /// Where the program comes from.
    pub source: ProgramSource,
}

/// Where a version of a program comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramSource {
    /// The installed program that reports this version.
    Installed,
    /// This file.
    Binary(PathBuf),
    /// Built from a commit.
    Git(GitBuild),
}

/// A program that is built from a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitBuild {
    /// Directory of the repository.
    pub repository: PathBuf,
    /// Branch, tag or commit, as the plan has it.
    pub reference: String,
    /// The commit's full name; absent until a run looks up the ref.
    pub commit: Option<String>,
    /// Shell command that builds the program. It runs in a work tree of the commit.
    pub build: String,
    /// Path of the program in the work tree.
    pub binary: PathBuf,
}

impl GitBuild {
    /// The first 10 digits of the commit, or the ref if the commit is unknown.
    pub fn short(&self) -> &str {
        self.commit.as_deref().map_or(self.reference.as_str(), |commit| commit.get(..10).unwrap_or(commit))
    }
}

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ProgramSource::Installed => write!(f, "installed version {}", self.name),
            ProgramSource::Binary(path) => write!(f, "{}", path.display()),
            ProgramSource::Git(git) => write!(f, "{git}"),
        }
    }
}

impl fmt::Display for GitBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commit = self.commit.as_ref().filter(|commit| !commit.starts_with(&self.reference));
        match commit {
            Some(_) => write!(f, "commit {} ({}) of ", self.short(), self.reference)?,
            None => write!(f, "{} of ", self.reference)?,
        }
        write!(f, "{}", self.repository.display())
    }
}

/// The built-in reference proxies that accept HTTP/1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopKind {
    /// Forwards bytes without reading them.
    #[serde(rename = "hop-l4")]
    L4,
    /// Parses and forwards HTTP/1.1, and pools upstream connections.
    #[serde(rename = "hop-l7")]
    L7,
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Running, Upstream};
    use super::*;

    #[test]
    fn records_from_before_tls_can_be_read() {
        let read: Upstream =
            serde_json::from_str(r#"{"running":{"url":"http://127.0.0.1:1"}}"#).expect("read");
        let expected = Running { url: "http://127.0.0.1:1".into(), ..Running::default() };
        assert_eq!(read, Upstream::Running(expected));
        let read: GatewayKind =
            serde_json::from_str(r#"{"external":{"url":"http://a:1","pid":null}}"#).expect("read");
        assert!(matches!(
            read,
            GatewayKind::External { access: Access { tls: None, token_file: None, .. }, .. }
        ));
    }

    #[test]
    fn versions_are_kept_and_have_names() {
        let git = GitBuild {
            repository: "/src/proxy".into(),
            reference: "main".into(),
            commit: Some("3f2c1d0aa1bb2cc3dd4ee5ff60718293a4b5c6d7".into()),
            build: "make".into(),
            binary: "bin/proxy".into(),
        };
        let source = ProgramSource::Git(git);
        let built = PackDriver::Version(ProgramVersion { name: "main".into(), source });
        let text = serde_json::to_string(&built).expect("JSON");
        assert!(
            text.starts_with(r#"{"version":{"name":"main","source":{"git":{"repository":"/src/proxy""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<PackDriver>(&text).expect("read"), built);
        let PackDriver::Version(version) = &built else { panic!("a version") };
        insta::assert_snapshot!(version);
        let image = |image: &str| PackDriver::Docker { image: Some(image.into()) };
        for (driver, name) in [
            (PackDriver::Process, None),
            (PackDriver::Docker { image: None }, None),
            (image("nginx:1.27"), Some("1.27")),
            (image("registry:5000/nginx"), Some("registry:5000/nginx")),
            (built.clone(), Some("main")),
        ] {
            assert_eq!(driver.version_name(), name, "{driver:?}");
        }
    }

    #[test]
    fn an_http2_upstream_is_kept_and_older_records_have_none() {
        let older = r#"{"pack":{"pack":"envoy","workers":1,"features":[],"#.to_owned()
            + r#""instances":null,"driver":"process"}}"#;
        let kind: GatewayKind = serde_json::from_str(&older).expect("read");
        assert_eq!(serde_json::to_string(&kind).expect("JSON"), older);
        let gateway = |kind| Gateway { label: "envoy".into(), kind };
        assert!(!gateway(kind).has_http2_upstream());
        let kept = older.replace("}}", r#","upstream_http2":true}}"#);
        let kind: GatewayKind = serde_json::from_str(&kept).expect("read");
        assert_eq!(serde_json::to_string(&kind).expect("JSON"), kept);
        assert!(gateway(kind).has_http2_upstream());
        for (upstream, expected) in [(HttpVersion::Http11, false), (HttpVersion::Http2, true)] {
            assert_eq!(
                gateway(GatewayKind::Http2Hop { upstream, delay: None }).has_http2_upstream(),
                expected
            );
        }
    }

    #[test]
    fn forwarding_hops_are_kept() {
        let kept = r#"{"forwarding-hop":{"proxy":"connect"}}"#;
        let read: GatewayKind = serde_json::from_str(kept).expect("read");
        assert_eq!(read, GatewayKind::ForwardingHop { proxy: ProxyForm::Connect, delay: None });
        assert_eq!(serde_json::to_string(&read).expect("JSON"), kept);
        let hop = GatewayKind::Http2Hop { upstream: HttpVersion::Http2, delay: None };
        let kept = serde_json::to_string(&hop).expect("JSON");
        assert_eq!(kept, r#"{"http2-hop":{"upstream":"2"}}"#);
        assert_eq!(serde_json::from_str::<GatewayKind>(&kept).expect("read"), hop);
    }

    #[test]
    fn records_from_before_warm_ups_can_be_read_and_do_not_change() {
        let kept = r#"{"delaying-hop":{"inbound":{"secs":0,"nanos":5},"outbound":{"secs":0,"nanos":0},"share":1.0,"how":"spin"}}"#;
        let read: GatewayKind = serde_json::from_str(kept).expect("read");
        assert!(matches!(read, GatewayKind::DelayingHop(HopDelay { warming: None, .. })));
        assert_eq!(serde_json::to_string(&read).expect("JSON"), kept);
    }
}
