//! Contents of the files that targets name. The files are read once, before anything starts. Their contents
//! are sent to the generator with each load spec.

use anyhow::Context as _;
use hoptax_format::grpc;
use hoptax_format::messages::Carrier;
use hoptax_format::spec::{HttpVersion, TargetSpec};
use hoptax_host::probe::leg::Messages;
use hoptax_load::target::first_request;
use hoptax_plan::{Body, BuiltInUpstream, Plan, Target, Upstream};
use hoptax_record::bounded;
use hoptax_servers::upstream::bytes;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Contents of the files that a plan or a list of targets names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The body of each target, in the order of the targets. A target without a body has an empty body here.
    pub bodies: Vec<Vec<u8>>,
    /// Text of each file for `{{line FILE}}`, by the name of the file.
    pub files: BTreeMap<String, String>,
}

impl Contents {
    /// Reads all files of a plan.
    ///
    /// # Errors
    /// If a file cannot be read, or a file for `{{line FILE}}` is not text.
    pub fn read(plan: &Plan) -> anyhow::Result<Self> {
        Self::of(&plan.targets, &plan.files)
    }

    /// Reads the bodies of `targets`, and the `files` for `{{line FILE}}`.
    ///
    /// # Errors
    /// The same errors as for [`Contents::read`].
    pub fn of(targets: &[Target], files: &BTreeMap<String, PathBuf>) -> anyhow::Result<Self> {
        let body = |target: &Target| match &target.body {
            Some(body) => bytes(body).map(|content| target.body_of(content)),
            None => Ok(Vec::new()),
        };
        let file = |(name, path): (&String, &PathBuf)| {
            let text = bounded::read_text(path, bounded::LINES)
                .with_context(|| format!("cannot read {}", path.display()))?;
            Ok((name.clone(), text))
        };
        Ok(Self {
            bodies: targets.iter().map(body).collect::<anyhow::Result<_>>()?,
            files: files.iter().map(file).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Size of the largest body of a request, bytes. Absent if there are no targets.
    pub(super) fn largest(&self) -> Option<u64> {
        self.bodies.iter().map(|body| body.len() as u64).max()
    }

    /// Lengths of the longest request and of the response. Only the first request of each target is counted,
    /// without the bytes that gateways and their credentials add.
    pub fn messages(&self, plan: &Plan) -> Messages {
        let request = |spec: TargetSpec| first_request(&spec, &self.files, SEED, HttpVersion::Http11).ok();
        let requests = self.targets(&plan.targets, ANY_HOST).into_iter().filter_map(request);
        Messages {
            request_bytes: requests.map(|bytes| bytes.len() as u64).max().unwrap_or(0),
            response_bytes: RESPONSE_HEAD + response_body(plan).unwrap_or(0),
        }
    }

    /// Builds the target specs for the generator. `targets` must have the same order as when their bodies
    /// were read. The header `host` is set to `host`, unless a target sets this header.
    pub fn targets(&self, targets: &[Target], host: &str) -> Vec<TargetSpec> {
        let bodies = self.bodies.iter().cloned().chain(std::iter::repeat(Vec::new()));
        targets.iter().zip(bodies).map(|(target, body)| request(target, body, host)).collect()
    }
}

/// Seed for the templates of the requests whose lengths are counted.
const SEED: u64 = 1;
/// An address of typical length.
const ANY_HOST: &str = "192.168.100.10:10080";

/// Approximate length of the head of the built-in upstream's response, without headers from the plan, bytes.
const RESPONSE_HEAD: u64 = 100;

/// Size of a response's body, bytes. Absent if the upstream is not the built-in one.
pub(super) fn response_body(plan: &Plan) -> Option<u64> {
    match &plan.upstream {
        Upstream::BuiltIn(BuiltInUpstream { answers, .. }) if !answers.is_empty() => {
            let weight: f64 = answers.iter().map(|answer| f64::from(answer.weight)).sum();
            let bytes: f64 = answers.iter().map(|answer| f64::from(answer.weight) * answer.mean_size()).sum();
            Some((bytes / weight) as u64)
        }
        Upstream::BuiltIn(BuiltInUpstream { body: Body::Size(bytes), .. }) => Some(*bytes),
        Upstream::BuiltIn(BuiltInUpstream { body: Body::Like { size, .. }, .. }) => Some(*size),
        Upstream::BuiltIn(BuiltInUpstream { body: Body::Text(text), .. }) => Some(text.len() as u64),
        Upstream::BuiltIn(BuiltInUpstream { body: Body::File(path), .. }) => {
            std::fs::metadata(path).ok().map(|metadata| metadata.len())
        }
        Upstream::Running(_) => None,
    }
}

/// Adds `content-length: 0` for an empty body that the user gave, unless the body is sent in chunks. Without
/// this header, the engine would state the length of an empty body only for methods that usually have one.
pub fn state_empty_body(headers: &mut Vec<(String, String)>, body: Option<&[u8]>, is_chunked: bool) {
    const NAME: &str = "content-length";
    let is_stated = is_chunked || headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(NAME));
    if body.is_some_and(<[u8]>::is_empty) && !is_stated {
        headers.push((NAME.to_owned(), "0".to_owned()));
    }
}

/// Replaces the streams of the client by one message, for requests that are sent as a whole. Of a WebSocket,
/// only the handshake remains.
pub(super) fn with_one_message(targets: &mut [TargetSpec]) {
    for target in targets {
        match target.stream.take().map(|stream| stream.carrier) {
            // Bodies have at most 1 GiB, so they have a prefix.
            Some(Carrier::Grpc) => target.body = grpc::body(&target.body).unwrap_or_default(),
            Some(Carrier::WebSocket) => target.body.clear(),
            Some(Carrier::Events) | None => {}
        }
    }
}

fn request(target: &Target, body: Vec<u8>, host: &str) -> TargetSpec {
    let mut headers = target.headers.clone();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        headers.insert(0, ("host".to_owned(), host.to_owned()));
    }
    state_empty_body(&mut headers, target.body.is_some().then_some(&body), target.chunked.is_some());
    TargetSpec {
        name: target.name.clone(),
        weight: target.weight,
        method: target.method.clone(),
        path: target.path.clone(),
        headers,
        body,
        body_is_template: target.body_is_template,
        chunked: target.chunked,
        grpc: target.grpc,
        grpc_web: false,
        stream: target.stream,
        checks: target.checks.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::messages::{StreamKind, StreamSpec};
    use hoptax_lab::fake;

    #[test]
    fn streams_of_the_client_become_one_message() {
        let stream = StreamSpec::grpc(StreamKind::BothWays, 3, 0);
        let target = Target { grpc: true, stream: Some(stream), ..Target::get("/a.B/C") };
        let mut specs = [request(&target, vec![7; 20], "a"), request(&Target::get("/"), vec![7; 20], "a")];
        with_one_message(&mut specs);
        assert_eq!((specs[0].stream, &specs[0].body[..6]), (None, &[0, 0, 0, 0, 20, 7][..]));
        assert_eq!(specs[1].body, [7; 20]);
    }

    #[test]
    fn only_the_handshake_of_a_websocket_is_sent_as_a_whole() {
        let stream = |carrier| StreamSpec { carrier, ..StreamSpec::grpc(StreamKind::BothWays, 3, 0) };
        let target = |carrier| Target { stream: Some(stream(carrier)), ..Target::get("/") };
        let spec = |carrier| request(&target(carrier), vec![7; 20], "a");
        let mut specs = [spec(Carrier::WebSocket), spec(Carrier::Events)];
        with_one_message(&mut specs);
        let left = specs.map(|spec| (spec.stream, spec.body.len()));
        assert_eq!(left, [(None, 0), (None, 20)]);
    }

    #[test]
    fn messages_are_as_long_as_the_plans() {
        let mut plan = fake::plan(vec![], 1);
        let Upstream::BuiltIn(upstream) = &mut plan.upstream else { panic!("it is ours") };
        upstream.body = Body::Size(5000);
        plan.targets = vec![Target::get("/")];
        let head = "GET / HTTP/1.1\r\nhost: 192.168.100.10:10080\r\n\r\n".len() as u64;
        let contents = Contents::read(&plan).expect("no files");
        let expected = Messages { request_bytes: head, response_bytes: 5100 };
        assert_eq!(contents.messages(&plan), expected);
        let bodies = vec![vec![0; 300]];
        let longer = Contents { bodies, ..contents }.messages(&plan).request_bytes;
        assert!(longer >= head + 300 && longer < head + 340, "{longer}: with a content-length");
    }
}
