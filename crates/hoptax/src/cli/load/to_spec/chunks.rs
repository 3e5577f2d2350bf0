//! Options for bodies in chunks.

use super::super::args::RequestArgs;
use crate::cli::exit::BadInput;
use hoptax_format::spec::{Chunked, HttpVersion, TargetSpec, Timeouts};
use hoptax_plan::units::show_duration;
use std::time::Duration;

/// How the options divide the body.
///
/// # Errors
/// If there is no body, or if the chunks are empty.
pub(super) fn given(args: &RequestArgs, has_body: bool) -> Result<Option<Chunked>, BadInput> {
    if !args.chunked {
        return Ok(None);
    }
    if !has_body {
        return Err(BadInput("--chunked needs a body; add --body or --body-size".into()));
    }
    let chunk_bytes = args.chunk_size.unwrap_or(Chunked::USUAL_BYTES);
    if chunk_bytes == 0 {
        return Err(BadInput("--chunk-size 0B is too small; use at least 1B".into()));
    }
    let pause = args.chunk_pause.unwrap_or(Duration::ZERO);
    Ok(Some(Chunked { chunk_bytes, pause_ns: u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX) }))
}

/// Refuses chunks with HTTP versions that have none, too many chunks, and uploads that take longer than the
/// timeout.
///
/// # Errors
/// The first of these problems.
pub(super) fn check(targets: &[TargetSpec], http: HttpVersion, timeouts: Timeouts) -> Result<(), BadInput> {
    let chunked = targets.iter().filter_map(|target| Some((target, target.chunked?)));
    for (target, chunked) in chunked {
        let without = match http {
            HttpVersion::Http10 => Some("1.0"),
            HttpVersion::Http11 => None,
            HttpVersion::Http2 => Some("2"),
        };
        if let Some(version) = without {
            return Err(BadInput(format!(
                "--http {version} has no chunked bodies, but target {} sends one; use --http 1.1, or no \
                 chunks",
                target.name
            )));
        }
        let body = target.body.len() as u64;
        if chunked.chunks(body) > Chunked::MOST_CHUNKS {
            return Err(BadInput(format!(
                "the body of target {} has {} chunks; use larger chunks (--chunk-size): at most {} are \
                allowed",
                target.name,
                chunked.chunks(body),
                Chunked::MOST_CHUNKS
            )));
        }
        let pauses = chunked.pauses_ns(body);
        if pauses >= timeouts.total_ns && !target.body_is_template {
            let shown = |ns| show_duration(Duration::from_nanos(ns));
            return Err(BadInput(format!(
                "every request to target {} would time out: the pauses of its body add up to {}, and \
                 --timeout is {}; use a longer --timeout, larger chunks or shorter pauses",
                target.name,
                shown(pauses),
                shown(timeouts.total_ns)
            )));
        }
    }
    Ok(())
}
