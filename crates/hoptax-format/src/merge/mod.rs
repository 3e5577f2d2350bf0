//! Adds up the records of generators that sent the parts of one load ([`crate::spec::LoadPart`]).
//!
//! Counts and histograms are added, never percentiles. All parts begin at the same moment, so windows with
//! the same number cover the same time.

use crate::histogram::{DecodeError, Encoded, TRIAL_DIGITS, WINDOW_DIGITS, empty};
use crate::llm::{TokenCounts, TokenHistograms, TokensRecord};
use crate::messages::{MessageCounts, MessageHistograms, MessagesRecord};
use crate::record::{
    GeneratorCpu, Histograms, Http2Tally, LoadRecord, Occupancy, RECORD_SCHEMA, StampTally, TargetRecord,
    TlsTally, Window,
};

/// The record of the whole load. `None` without parts.
///
/// The measured time begins when that of the first part begins, and ends when that of the last part ends. The
/// clock of the timestamps is absent if the generators have different clocks.
///
/// # Errors
/// If a histogram cannot be read.
pub fn merge(parts: &[LoadRecord]) -> Result<Option<LoadRecord>, DecodeError> {
    let Some(first) = parts.first() else { return Ok(None) };
    let of = |part: &LoadRecord| part.started_ns + part.measured_ns;
    let started_ns = parts.iter().map(|part| part.started_ns).min().unwrap_or_default();
    let ended_ns = parts.iter().map(of).max().unwrap_or_default();
    let histograms = |of: fn(&Histograms) -> Option<&Encoded>| {
        add_up(parts.iter().filter_map(|part| of(&part.histograms)), TRIAL_DIGITS)
    };
    let all = |of: fn(&Histograms) -> Option<&Encoded>| histograms(of).map(Option::unwrap_or_default);
    let mut sum = LoadRecord {
        schema: RECORD_SCHEMA,
        event_loop: first.event_loop.clone(),
        workers: parts.iter().map(|part| part.workers).sum(),
        started_unix_ns: parts.iter().map(|part| part.started_unix_ns).min().unwrap_or_default(),
        started_ns,
        measured_ns: ended_ns - started_ns,
        interrupted: parts.iter().any(|part| part.interrupted),
        gave_up: parts.iter().any(|part| part.gave_up),
        histograms: Histograms {
            response_time: all(|one| Some(&one.response_time))?,
            service_time: all(|one| Some(&one.service_time))?,
            send_lag: all(|one| Some(&one.send_lag))?,
            connection_wait: histograms(|one| one.connection_wait.as_ref())?,
            stream_wait: histograms(|one| one.stream_wait.as_ref())?,
            window_wait: histograms(|one| one.window_wait.as_ref())?,
            first_byte: all(|one| Some(&one.first_byte))?,
            connect: all(|one| Some(&one.connect))?,
            tls_handshake: histograms(|one| one.tls_handshake.as_ref())?,
            request_path: histograms(|one| one.request_path.as_ref())?,
            response_path: histograms(|one| one.response_path.as_ref())?,
        },
        counts: Default::default(),
        completed_in_time: parts.iter().map(|part| part.completed_in_time).sum(),
        lifetime: Default::default(),
        connections: Default::default(),
        http2: None,
        messages: messages(parts)?,
        bytes: Default::default(),
        targets: targets(parts)?,
        tls: None,
        stamps: None,
        // Moments of different clocks cannot be merged. Generators on one clock are never asked for moments.
        moments: None,
        cpu: GeneratorCpu {
            used_ns: parts.iter().map(|part| part.cpu.used_ns).sum(),
            busiest_worker_ns: parts.iter().map(|part| part.cpu.busiest_worker_ns).max().unwrap_or_default(),
        },
        rss_bytes_max: parts.iter().map(|part| part.rss_bytes_max).sum(),
        windows: windows(parts)?,
        occupancy: occupancy(parts)?,
        redirected_to: parts.iter().find_map(|part| part.redirected_to.clone()),
    };
    for part in parts {
        sum.counts.add(part.counts.clone());
        sum.lifetime.add(part.lifetime);
        sum.connections.add(part.connections);
        sum.bytes.add(part.bytes);
        if let Some(http2) = &part.http2 {
            sum.http2.get_or_insert_with(Http2Tally::default).add(http2);
        }
        if let Some(tls) = &part.tls {
            sum.tls.get_or_insert_with(TlsTally::default).add(tls);
        }
        if let Some(stamps) = &part.stamps {
            let fresh = || StampTally { clock: stamps.clock.clone(), ..StampTally::default() };
            let mine = sum.stamps.get_or_insert_with(fresh);
            mine.add_counts(stamps);
            mine.clock = mine.clock.take().filter(|clock| stamps.clock.as_ref() == Some(clock));
        }
    }
    Ok(Some(sum))
}

/// The messages of all parts. `None` if no part has streams.
fn messages(parts: &[LoadRecord]) -> Result<Option<MessagesRecord>, DecodeError> {
    let all: Vec<&MessagesRecord> = parts.iter().filter_map(|part| part.messages.as_ref()).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let times = |of: fn(&MessageHistograms) -> &Encoded| sum(all.iter().map(|one| of(&one.histograms)));
    let some = |of: fn(&MessageHistograms) -> Option<&Encoded>| {
        add_up(all.iter().filter_map(|one| of(&one.histograms)), TRIAL_DIGITS)
    };
    let mut counts = MessageCounts::default();
    for one in &all {
        counts.add(&one.counts);
    }
    let histograms = MessageHistograms {
        response_time: times(|one| &one.response_time)?,
        first_message: times(|one| &one.first_message)?,
        age: times(|one| &one.age)?,
        gap: times(|one| &one.gap)?,
        headers: some(|one| one.headers.as_ref())?,
        reach: some(|one| one.reach.as_ref())?,
    };
    let mixed = all.iter().any(|one| one.mixed);
    Ok(Some(MessagesRecord { counts, histograms, mixed, tokens: tokens(&all)? }))
}

/// The tokens of all parts. `None` if no part has streams of tokens.
fn tokens(parts: &[&MessagesRecord]) -> Result<Option<TokensRecord>, DecodeError> {
    let all: Vec<&TokensRecord> = parts.iter().filter_map(|part| part.tokens.as_ref()).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let times = |of: fn(&TokenHistograms) -> &Encoded| sum(all.iter().map(|one| of(&one.histograms)));
    let mut counts = TokenCounts::default();
    for one in &all {
        counts.add(&one.counts);
    }
    let histograms = TokenHistograms {
        first_event: times(|one| &one.first_event)?,
        first_age: times(|one| &one.first_age)?,
        per_token: times(|one| &one.per_token)?,
    };
    Ok(Some(TokensRecord { counts, histograms }))
}

/// How the connections of all parts were used. `None` if one of the parts did not record this.
fn occupancy(parts: &[LoadRecord]) -> Result<Option<Occupancy>, DecodeError> {
    let all: Option<Vec<&Occupancy>> = parts.iter().map(|part| part.occupancy.as_ref()).collect();
    let Some((first, others)) = all.as_deref().and_then(<[_]>::split_first) else { return Ok(None) };
    let sum = others.iter().try_fold((*first).clone(), |sum, one| sum.plus(one))?;
    Ok(Some(sum))
}

/// The sum of histograms. `None` if there are none.
fn add_up<'a>(parts: impl Iterator<Item = &'a Encoded>, digits: u8) -> Result<Option<Encoded>, DecodeError> {
    let mut sum = None;
    for part in parts {
        let sum = sum.get_or_insert_with(|| empty(digits));
        let other_range = |_| DecodeError::Head("its range of values is not that of hoptax");
        sum.add(&part.decode()?).map_err(other_range)?;
    }
    Ok(sum.as_ref().map(Encoded::new))
}

/// The sum of histograms of trials.
fn sum<'a>(parts: impl Iterator<Item = &'a Encoded>) -> Result<Encoded, DecodeError> {
    add_up(parts, TRIAL_DIGITS).map(Option::unwrap_or_default)
}

/// Adds up the results of each target. All parts have the same targets, in the same order.
fn targets(parts: &[LoadRecord]) -> Result<Vec<TargetRecord>, DecodeError> {
    let count = parts.iter().map(|part| part.targets.len()).min().unwrap_or_default();
    let target = |index: usize| {
        let each = || parts.iter().map(move |part| &part.targets[index]);
        let times = |of: fn(&TargetRecord) -> &Encoded| sum(each().map(of));
        Ok(TargetRecord {
            name: parts[0].targets[index].name.clone(),
            scheduled: each().map(|one| one.scheduled).sum(),
            completed: each().map(|one| one.completed).sum(),
            ok: each().map(|one| one.ok).sum(),
            failed: each().map(|one| one.failed).sum(),
            response_time: times(|one| &one.response_time)?,
            service_time: times(|one| &one.service_time)?,
        })
    };
    (0..count).map(target).collect()
}

fn windows(parts: &[LoadRecord]) -> Result<Vec<Window>, DecodeError> {
    let count = parts.iter().map(|part| part.windows.len()).max().unwrap_or_default();
    let window = |index: usize| {
        let each = || parts.iter().filter_map(move |part| part.windows.get(index));
        let mut sum = Window::default();
        for window in each() {
            sum.add_counts(Window { response_time: None, ..window.clone() });
        }
        let times = each().filter_map(|window| window.response_time.as_ref());
        sum.response_time = add_up(times, WINDOW_DIGITS)?;
        Ok(sum)
    };
    (0..count).map(window).collect()
}

#[cfg(test)]
mod tests;
