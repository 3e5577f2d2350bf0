//! From what was typed, or a spec that was handed over, to the load spec that is carried out.

use super::url::Url;
use super::{Args, BadInput};
use anyhow::Context as _;
use hoptax_load::spec::{Arrivals, HttpVersion, LoadSpec, Rate, SPEC_SCHEMA, Shape, TargetSpec, Timeouts};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

/// Measured time where neither a time nor a number of requests is given.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// Measured time where a number of requests is given, and shall end it: a year.
pub(super) const UNBOUNDED: Duration = Duration::from_secs(365 * 24 * 3600);

/// The spec of what was typed.
///
/// # Errors
/// [`BadInput`] for what was typed wrong; otherwise if the body cannot be read.
pub(super) fn spec(args: &Args) -> anyhow::Result<LoadSpec> {
    let url = Url::parse(args.url.as_deref().unwrap_or_default()).map_err(BadInput)?;
    let default_duration = if args.requests.is_some() { UNBOUNDED } else { DEFAULT_DURATION };
    let cpus = crate::cli::upstream::cpus(args.cpus.as_deref())?;
    let default_workers = cpus.len().max(1) as u32;
    Ok(LoadSpec {
        schema: SPEC_SCHEMA,
        addresses: vec![url.resolve().map_err(BadInput)?.into()],
        sources: Vec::new(),
        tls: None,
        http: HttpVersion::Http11,
        requests_per_connection: None,
        targets: vec![target(args, &url)?],
        files: BTreeMap::new(),
        shape: match args.rate {
            None => Shape::Closed,
            Some(rate) => {
                Shape::Open { rate: Rate::Fixed(rate), arrivals: args.arrivals.unwrap_or(Arrivals::Constant) }
            }
        },
        connections: args.connections,
        warmup_ns: nanoseconds(args.warmup),
        duration_ns: nanoseconds(args.duration.unwrap_or(default_duration)),
        requests: args.requests,
        timeouts: Timeouts::all(nanoseconds(args.timeout)),
        workers: args.workers.unwrap_or(default_workers),
        cpus,
        seed: args.seed,
        windows: false,
        event_loop: args.event_loop.into(),
    })
}

/// The spec in `file`, or on standard input where that is `-`.
///
/// # Errors
/// [`BadInput`] if it is not a load spec; otherwise if it cannot be read.
pub(super) fn read_spec(file: &Path) -> anyhow::Result<LoadSpec> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read the load spec from standard input")?;
    } else {
        text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the load spec {}", file.display()))?;
    }
    serde_json::from_str(&text)
        .map_err(|error| BadInput(format!("{} is not a load spec: {error}", file.display())).into())
}

fn target(args: &Args, url: &Url) -> anyhow::Result<TargetSpec> {
    let body = match args.body.as_deref().map(|body| (body, body.strip_prefix('@'))) {
        None => Vec::new(),
        Some((_, Some(file))) => {
            std::fs::read(file).with_context(|| format!("cannot read the request body from {file}"))?
        }
        Some((text, None)) => text.as_bytes().to_vec(),
    };
    let mut headers =
        args.headers.iter().map(|header| split_header(header)).collect::<Result<Vec<_>, _>>()?;
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        headers.insert(0, ("host".to_owned(), url.authority.clone()));
    }
    let default_method = if args.body.is_some() { "POST" } else { "GET" };
    Ok(TargetSpec::only(args.method.as_deref().unwrap_or(default_method), &url.path, headers, body))
}

fn split_header(text: &str) -> Result<(String, String), BadInput> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(BadInput(format!("-H {text:?} is not a header; write -H 'name: value'"))),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use hoptax_load::event_loop::Choice;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        args: Args,
    }

    fn typed(line: &str) -> anyhow::Result<LoadSpec> {
        spec(&Typed::try_parse_from(line.split(' '))?.args)
    }

    #[test]
    fn what_is_left_out_has_a_meaning() {
        let spec = typed("load http://127.0.0.1:99/x").expect("a URL is enough");
        assert_eq!((spec.shape, spec.event_loop), (Shape::Closed, Choice::Auto));
        assert_eq!((spec.connections, spec.workers, spec.requests), (10, 1, None));
        assert_eq!(
            (spec.duration_ns, spec.timeouts.total_ns, spec.warmup_ns),
            (10_000_000_000, 10_000_000_000, 0)
        );
        assert_eq!(spec.targets[0].method, "GET");
        assert_eq!(spec.targets[0].headers, [("host".to_owned(), "127.0.0.1:99".to_owned())]);
    }

    #[test]
    fn what_is_typed_arrives() {
        let line = "load http://127.0.0.1:99/ -c 7 -d 500ms -n 40 -r 60/m --arrivals jitter(20%) -H Host:a -H b:c=d \
                    -b hi --timeout 1s --warmup 2s --cpus 0 -t 2 --seed 5 --event-loop io_uring";
        let spec = typed(&line.split_whitespace().collect::<Vec<_>>().join(" ")).expect("all of it is right");
        assert_eq!(spec.shape, Shape::Open { rate: Rate::Fixed(1.0), arrivals: Arrivals::Jitter(0.2) });
        assert_eq!((spec.connections, spec.workers, spec.requests, spec.seed), (7, 2, Some(40), 5));
        assert_eq!(spec.event_loop, Choice::IoUring);
        assert_eq!(
            (spec.duration_ns, spec.timeouts.total_ns, spec.warmup_ns),
            (500_000_000, 1_000_000_000, 2_000_000_000)
        );
        assert_eq!(
            (spec.targets[0].method.as_str(), spec.targets[0].body.as_slice()),
            ("POST", b"hi".as_slice())
        );
        let headers = [("Host".to_owned(), "a".to_owned()), ("b".to_owned(), "c=d".to_owned())];
        assert_eq!(spec.targets[0].headers, headers);
    }

    #[test]
    fn a_number_of_requests_alone_sets_no_time() {
        let spec = typed("load http://127.0.0.1:99/ -n 5").expect("right");
        assert!(spec.duration_ns > 300 * 24 * 3600 * 1_000_000_000);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for line in ["load http://127.0.0.1/ -H nonsense", "load 127.0.0.1", "load https://127.0.0.1/"] {
            assert!(typed(line).expect_err(line).is::<BadInput>(), "{line}");
        }
        assert!(typed("load http://127.0.0.1/ --arrivals poisson").is_err(), "arrivals need a rate");
        assert!(typed("load http://127.0.0.1/ -b @/nowhere/at/all").is_err());
    }
}
