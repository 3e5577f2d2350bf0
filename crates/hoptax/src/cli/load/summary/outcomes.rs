//! Connections, TLS, and results of the requests.

use super::super::causes;
use super::super::figures::{cut, thousands, time};
use super::{LABEL, Summary, WIDTH, line, write_wrapped};
use crate::cli::paint::Ink;
use hoptax_format::histogram::{LOWEST, spread};
use hoptax_format::spec::Verify;
use std::collections::BTreeMap;
use std::fmt;

impl Summary<'_> {
    pub(super) fn connections(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.record.connections;
        writeln!(f)?;
        let (asked, established) = (thousands(connections.asked), thousands(connections.established));
        line(f, "Connections", &format!("{asked} requested, {established} established when traffic began"))?;
        let (opened, closed) = (thousands(connections.opened), thousands(connections.closed_by_peer));
        line(f, "", &format!("{opened} opened while measuring, {closed} closed by the server"))?;
        let Some(spread) = self.outcome.responses.as_ref().and_then(spread) else { return Ok(()) };
        let [least, median, most] = spread.map(thousands);
        line(f, "", &format!("{least} to {most} responses on each connection, median {median}"))
    }

    pub(super) fn http2(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(http2) = self.record.http2 else { return Ok(()) };
        let limit = http2
            .stream_limit
            .map_or_else(|| "no limit".to_owned(), |limit| format!("limit {}", thousands(u64::from(limit))));
        let most = thousands(u64::from(http2.most_streams));
        line(f, "HTTP/2", &format!("at most {most} streams at a time on a connection, {limit}"))?;
        let ended = [
            ("GOAWAY", http2.goaways),
            ("streams reset", http2.resets),
            ("unprocessed and sent again", http2.unprocessed),
        ];
        let ended = ended.into_iter().filter(|(_, count)| *count > 0);
        let ended: Vec<String> = ended.map(|(what, count)| format!("{} {what}", thousands(count))).collect();
        if !ended.is_empty() {
            line(f, "", &ended.join(", "))?;
        }
        let Some(waits) = self.waits.filter(|waits| waits.iter().any(|wait| *wait >= LOWEST)) else {
            return Ok(());
        };
        let [connection, stream, window] = waits.map(|wait| time(wait as f64));
        line(f, "", &format!("wait p99: connection {connection}, stream {stream}, window {window}"))
    }

    /// The limits that the user set, and the default limit if it is exceeded.
    pub(super) fn limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.outcome.limits.iter().filter(|limit| !(limit.implied && limit.kept));
        for (index, limit) in limits.enumerate() {
            let (word, ink) = if limit.kept { ("kept", Ink::Faint) } else { ("exceeded", Ink::Failure) };
            let text = format!("{}: {}", limit.text, self.paint.ink(ink, word));
            line(f, if index == 0 { "Limits" } else { "" }, &text)?;
        }
        Ok(())
    }

    pub(super) fn tls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(asked), Some(tls)) = (&self.spec.tls, &self.record.tls) else { return Ok(()) };
        let agreed = [("", &tls.versions), ("", &tls.cipher_suites), ("ALPN ", &tls.alpn)];
        let agreed = agreed.map(|(name, tally)| format!("{name}{}", names(tally)));
        let agreed =
            if tls.handshakes == 0 { "no handshake completed".to_owned() } else { agreed.join(", ") };
        write!(f, "{:LABEL$}", "TLS")?;
        write_wrapped(f, &agreed, &" ".repeat(LABEL))?;
        let mut done =
            format!("{} handshakes, {} resumed", thousands(tls.handshakes), thousands(tls.resumed));
        if asked.verify == Verify::Nothing {
            done.push_str(", certificates not checked");
        }
        line(f, "", &done)
    }

    pub(super) fn outcomes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.record.counts;
        let statuses = counts.status.iter().map(|(status, count)| format!("{status}: {}", thousands(*count)));
        let statuses = statuses.collect::<Vec<_>>().join(", ");
        write!(f, "{:LABEL$}", "Status")?;
        write_wrapped(f, if statuses.is_empty() { "none" } else { &statuses }, &" ".repeat(LABEL))?;
        if !counts.grpc.is_empty() {
            let calls = counts.grpc.iter().map(|(status, count)| format!("{status}: {}", thousands(*count)));
            write!(f, "{:LABEL$}", "gRPC status")?;
            write_wrapped(f, &calls.collect::<Vec<_>>().join(", "), &" ".repeat(LABEL))?;
        }
        if counts.trailers_lost > 0 {
            let lost = self.paint.ink(Ink::Failure, thousands(counts.trailers_lost));
            line(f, "Lost trailers", &lost)?;
        }
        if counts.retried > 0 {
            let place = if self.record.http2.is_some() { "" } else { " on a new connection" };
            line(f, "Retried", &format!("{} sent again{place}", thousands(counts.retried)))?;
        }
        if counts.ok < counts.completed {
            let failed = counts.completed - counts.ok;
            line(f, "Not a success", &self.paint.ink(Ink::Failure, thousands(failed)))?;
        }
        for (text, count) in &counts.failed_checks {
            self.counted(f, *count, text)?;
        }
        for (name, count) in [
            ("Timeouts", counts.timeouts),
            ("Connect errors", counts.connect_errors),
            ("Resets", counts.resets),
            ("Bad responses", counts.bad_responses),
            ("Unsent", counts.unsent),
            ("In flight", counts.in_flight),
        ] {
            if count > 0 {
                line(f, name, &self.paint.ink(Ink::Failure, thousands(count)))?;
            }
        }
        for (cause, count) in &counts.causes {
            self.counted(f, *count, causes::describe(*cause))?;
        }
        if !counts.errors.is_empty() && !counts.causes.is_empty() {
            line(f, "Details", "")?;
        }
        for (text, count) in &counts.errors {
            self.counted(f, *count, text)?;
        }
        Ok(())
    }

    fn counted(&self, f: &mut fmt::Formatter<'_>, count: u64, text: &str) -> fmt::Result {
        writeln!(f, "  {:>11} × {}", thousands(count), cut(text, WIDTH - 16))
    }
}

/// The names in a tally. If there are several names, each name has its count.
fn names(tally: &BTreeMap<String, u64>) -> String {
    if tally.len() == 1 {
        return tally.keys().next().cloned().unwrap_or_default();
    }
    let names = tally.iter().map(|(name, count)| format!("{name} ({})", thousands(*count)));
    names.collect::<Vec<_>>().join(" ")
}
