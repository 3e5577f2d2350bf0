//! Request bodies in chunks.

use super::reader::Reader;
use crate::error::Place;
use crate::raw::{Placed, RawChunked, Short};
use crate::units::{self, show_duration};
use crate::{Target, Timeouts};
use hoptax_format::spec::{Chunked, HttpVersion};
use std::time::Duration;

/// Reads how a body is divided. `length` is the length of the body, bytes; absent if it varies.
pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Placed<Short<RawChunked, bool>>,
    length: Option<u64>,
) -> Option<Chunked> {
    let place = typed.place;
    let typed = match typed.value {
        Short::Word(false) => return None,
        Short::Word(true) => RawChunked::default(),
        Short::Full(RawChunked { chunk_size: None, pause: None }) => {
            reader.fault(place, "`chunked` is empty", "write true, or add `chunk_size` or `pause`");
            return None;
        }
        Short::Full(typed) => typed,
    };
    let size = typed.chunk_size.as_ref().and_then(|size| reader.unit(size, units::size));
    let pause = typed.pause.as_ref().and_then(|pause| reader.unit(pause, units::duration));
    let chunked = Chunked {
        chunk_bytes: size.unwrap_or(Chunked::USUAL_BYTES),
        pause_ns: pause.map_or(0, |pause| u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX)),
    };
    let size_place = typed.chunk_size.map_or(place, |size| size.place);
    if chunked.chunk_bytes == 0 {
        reader.fault(size_place, "`chunk_size` is zero", "write 1B or more");
        return None;
    }
    let chunks = length.map_or(0, |length| chunked.chunks(length));
    if chunks > Chunked::MOST_CHUNKS {
        let help = format!("raise `chunk_size`: at most {} chunks are allowed", Chunked::MOST_CHUNKS);
        reader.fault(size_place, format!("the body has {chunks} chunks"), help);
    }
    if let (Some(pause), Some(length)) = (typed.pause, length) {
        reader.pauses.push((pause.place, Duration::from_nanos(chunked.pauses_ns(length))));
    }
    Some(chunked)
}

/// Refuses uploads that take longer than the timeout, because every request would time out.
pub(super) fn check_pauses(reader: &mut Reader<'_>, timeouts: &Timeouts) {
    let total = timeouts.total;
    let too_long = |(_, pauses): &(Place, Duration)| *pauses >= total;
    for (place, pauses) in std::mem::take(&mut reader.pauses).into_iter().filter(too_long) {
        let message = format!(
            "every request would time out: the pauses of the body add up to {}, and the timeout is {}",
            show_duration(pauses),
            show_duration(total)
        );
        reader.fault(place, message, "raise `timeout`, or use larger chunks or shorter pauses");
    }
}

/// Refuses HTTP versions without chunks for targets with bodies in chunks.
pub(super) fn check_versions(reader: &mut Reader<'_>, versions: &[Placed<HttpVersion>], targets: &[Target]) {
    let Some(target) = targets.iter().find(|target| target.chunked.is_some()) else { return };
    for version in versions {
        let name = match version.value {
            HttpVersion::Http10 => "HTTP/1.0",
            HttpVersion::Http11 => continue,
            HttpVersion::Http2 => "HTTP/2",
        };
        let message = format!("{name} has no chunked bodies, but the target `{}` sends one", target.name);
        reader.fault(version.place, message, "use 1.1, or remove `chunked` from the body");
    }
}
