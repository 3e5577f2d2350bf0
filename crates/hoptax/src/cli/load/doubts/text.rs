//! The words of the warnings.

use super::super::figures::{decimals, percent, thousands, time};
use super::{Doubt, Late, failing};
use std::fmt;

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GeneratorBusy { share, .. } => write!(
                f,
                "The busiest worker was on a CPU for {:.0} % of the time. The limit may be the generator, \
                 not the server.",
                100.0 * share
            ),
            Self::GeneratorPaused { for_ns } => write!(
                f,
                "The generator did not run for {}. Times of responses that arrived meanwhile are too long.",
                time(*for_ns as f64)
            ),
            Self::ConnectionsShort { asked, stood } => write!(
                f,
                "Only {} of {} connections were established when traffic began. The load was lighter than \
                requested.",
                thousands(*stood),
                thousands(*asked)
            ),
            Self::Unserved { unanswered, asked, median } => write!(
                f,
                "{} of {} connections never got a response. Half of the others got at least {}. The \
                 percentiles show only the clients that were served.",
                thousands(*unanswered),
                thousands(*asked),
                thousands(*median)
            ),
            Self::Stalled { silence, is_open } => {
                let hidden = match is_open {
                    true => "Requests that were due in this time had to wait.",
                    false => {
                        "Meanwhile, a closed loop sends nothing, so its percentiles hide how many users \
                         would have waited."
                    }
                };
                write!(
                    f,
                    "No response arrived for {}, beginning at {}, although requests were in flight. {hidden}",
                    time(silence.for_ns as f64),
                    time(silence.at_ns as f64)
                )
            }
            Self::RateMissed { due, done, late } => {
                let overload = match late {
                    Late::NoConnection { .. } => {
                        " The other requests had to wait for a connection, so response times grow with the \
                        duration."
                    }
                    _ => "",
                };
                write!(
                    f,
                    "{} requests/s were due, and {} requests/s were completed.{overload}",
                    decimals(*due),
                    decimals(*done)
                )
            }
            Self::SentLate { p99_ns, late } => {
                let cause = match late {
                    Late::NoConnection { .. } => ", because no connection was free",
                    Late::FewStreams => ", because no stream was free",
                    Late::Unknown => ", although a connection was free",
                    _ => "",
                };
                write!(
                    f,
                    "1 % of the requests were sent more than {} after they were due{cause}. The response \
                     times of these requests include this delay.",
                    time(*p99_ns as f64)
                )
            }
            Self::NotKeptAlive { opened, requests } => write!(
                f,
                "{} connections were opened for {} requests. The server does not keep connections alive, so \
                 response times include the time to connect.",
                thousands(*opened),
                thousands(*requests)
            ),
            Self::ClosedUnannounced { closed, lost, .. } => write!(
                f,
                "The server closed {} connections after their first response without saying `Connection: \
                 close`. It did not answer {} requests that were sent on such connections.",
                thousands(*closed),
                thousands(*lost)
            ),
            Self::StreamsCapped { limit, asked } => write!(
                f,
                "The server allows {limit} streams on a connection, but --streams is {asked}. The load had \
                 fewer requests in flight than requested."
            ),
            Self::Calmed { count } => write!(
                f,
                "The server closed {} connections with ENHANCE_YOUR_CALM: it takes the load for an attack. \
                 The times show its defense.",
                thousands(*count)
            ),
            Self::Misdirected { count, .. } => write!(
                f,
                "The server answered {} requests with 421 Misdirected Request: it does not serve this host \
                 on this connection.",
                thousands(*count)
            ),
            Self::NeverAnswered { .. } => f.write_str(
                "The server accepted connections, and closed them before the first byte of a response.",
            ),
            Self::Failures { failed, scheduled, .. } if failed == scheduled => {
                write!(f, "All {} requests failed.", thousands(*failed))
            }
            Self::Failures { failed, scheduled, .. } => write!(
                f,
                "{} of {} requests failed. Requests that fail at once make the other requests look faster.",
                thousands(*failed),
                thousands(*scheduled)
            ),
            Self::NotSuccesses { failed, completed, status, .. } => {
                let status = status.map_or_else(String::new, |status| format!(", most with status {status}"));
                write!(
                    f,
                    "{} of the responses ({}) were not successes{status}. Their times are those of \
                     refusals, not of the service.",
                    percent(*failed, *completed),
                    thousands(*failed)
                )
            }
            Self::Redirects { redirects, completed, status, to } => {
                let to = to.as_deref().map_or_else(String::new, |to| format!(" to {to}"));
                write!(
                    f,
                    "{} of the responses were redirects (status {status}{to}). hoptax does not follow \
                    redirects.",
                    percent(*redirects, *completed)
                )
            }
        }
    }
}

impl Doubt {
    /// What to do.
    pub(in super::super) fn advice(&self) -> String {
        match self {
            Self::GeneratorBusy { workers, .. } => {
                format!("Use more workers (--workers {}), or a lower rate (--rate).", workers + 1)
            }
            Self::GeneratorPaused { .. } => {
                "Stop other programs, or reserve a CPU for the generator (--cpus), and measure \
                again."
                    .to_owned()
            }
            Self::ConnectionsShort { .. } => {
                "Raise the limit (the server's connections, its listen backlog, or open files), or use fewer \
                 connections (-c)."
                    .to_owned()
            }
            Self::Unserved { unanswered, asked, .. } => format!(
                "Raise the server's limit of connections, or use at most the connections that it serves (-c \
                {}).",
                asked - unanswered
            ),
            Self::Stalled { is_open: true, .. } => {
                "Look for the cause in the server: its log, its disk, garbage collection.".to_owned()
            }
            Self::Stalled { is_open: false, .. } => {
                "Look for the cause in the server, and measure with --rate, which counts these \
                users."
                    .to_owned()
            }
            Self::RateMissed { late: Late::Unknown, .. } => "Lower the rate.".to_owned(),
            Self::RateMissed { late, .. } | Self::SentLate { late, .. } => late.advice(),
            Self::NotKeptAlive { .. } => {
                "Switch on keep-alive in the server, or add --no-keepalive if this is intended.".to_owned()
            }
            Self::ClosedUnannounced { can_retry: false, .. } => {
                "Switch on keep-alive in the server, or use a new connection for each request \
                (--no-keepalive)."
                    .to_owned()
            }
            Self::ClosedUnannounced { .. } => {
                "Switch on keep-alive in the server, or send such requests again, as HTTP clients do \
                 (--retry idle-close)."
                    .to_owned()
            }
            Self::StreamsCapped { limit, .. } => {
                format!("Use --streams {limit}, or raise the server's limit.")
            }
            Self::Calmed { .. } => {
                "Raise the server's limits of resets and pings, or wait longer for responses \
                 (--timeout)."
                    .to_owned()
            }
            Self::Misdirected { over_tls: true, .. } => {
                "Give the name of the header `host` to TLS too (--server-name NAME), or correct the header \
                 (-H 'host: NAME')."
                    .to_owned()
            }
            Self::Misdirected { .. } => "Correct the header `host` (-H 'host: NAME').".to_owned(),
            Self::NeverAnswered { over_tls, proxied, http2 } => format!(
                "It may serve another host (-H 'host: NAME'), or expect {}{} or {}.",
                if *over_tls { "" } else { "TLS (https://), " },
                if *http2 { "HTTP/1.1 (leave out --http 2)" } else { "HTTP/2 (--http 2)" },
                match proxied {
                    true => "no PROXY protocol (leave out --proxy-protocol)",
                    false => "the PROXY protocol (--proxy-protocol v2)",
                }
            ),
            Self::Failures { most: Some(cause), .. } => failing::advice_on(*cause).to_owned(),
            Self::Failures { most: None, .. } => {
                "Fix the causes listed above before you use the times.".to_owned()
            }
            Self::NotSuccesses { status: Some(400), proxied: true, .. } => {
                "Leave out --proxy-protocol, unless the server expects the PROXY protocol.".to_owned()
            }
            Self::NotSuccesses { status, .. } => failing::advice_on_status(*status).to_owned(),
            Self::Redirects { .. } => {
                "Request the address that they point to, or add --expect-status 3xx if redirects are what \
                you measure."
                    .to_owned()
            }
        }
    }
}
