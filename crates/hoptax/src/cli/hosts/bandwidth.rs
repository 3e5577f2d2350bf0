//! `hoptax hosts bandwidth`.

use crate::cli::exit::{BadInput, Exit};
use crate::cli::help;
use crate::cli::hop::resolve;
use anyhow::Context as _;
use hoptax_host::probe::bandwidth::{Asked, LARGEST, Measured, measure, measure_loopback, receive};
use hoptax_plan::units;
use hoptax_stats::{Estimate, of_mean};
use serde_json::json;
use std::io::Write as _;
use std::net::TcpListener;

/// Measure how many bytes per second one connection carries
///
/// Without an address, it measures the loopback of this machine. Between two machines, run it with --listen
/// on one, and with the address that this prints on the other.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address of the receiver [default: a receiver on this machine's loopback]
    #[arg(value_name = "HOST:PORT")]
    address: Option<String>,
    /// Run the receiver on this address until SIGTERM or Ctrl-C; port 0 picks a free port. Prints its address
    /// as a line of JSON
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["address", "size", "echo", "repeats", "duration", "json"])]
    listen: Option<String>,
    /// Size of each message, up to 64MiB
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    size: String,
    /// Let the receiver send each message back before the next one is sent
    #[arg(long)]
    echo: bool,
    /// Number of measurements
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Length of each measurement
    #[arg(long, value_name = "TIME", default_value = "300ms")]
    duration: String,
    #[arg(long, help = help::JSON)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        match &self.listen {
            Some(typed) => listen(typed),
            None => self.measure(),
        }
    }

    fn measure(&self) -> anyhow::Result<Exit> {
        let asked = self.asked()?;
        let address = self.address.as_deref().map(|typed| resolve("the address", typed)).transpose()?;
        let once = || match address {
            Some(address) => measure(address, &asked).with_context(|| {
                let question = "is `hoptax hosts bandwidth --listen` running on that machine?";
                format!("cannot measure the bandwidth to {address}; {question}")
            }),
            None => measure_loopback(&asked)
                .context("cannot measure the loopback; check it with `ip addr show lo`"),
        };
        let all = (0..self.repeats).map(|_| once()).collect::<anyhow::Result<Vec<Measured>>>()?;
        let where_to = address.map_or_else(|| "loopback".to_owned(), |address| address.to_string());
        let text = match self.json {
            true => printed(&where_to, &asked, &all).to_string(),
            false => summary(&where_to, &asked, &all),
        };
        writeln!(std::io::stdout(), "{text}")?;
        Ok(Exit::Success)
    }

    fn asked(&self) -> Result<Asked, BadInput> {
        let wrong = |option: &str, typed: &str, error: &units::UnitError| {
            BadInput(format!("{option} {typed}: {}; {}", error.message, error.help))
        };
        let message_bytes = units::size(&self.size).map_err(|error| wrong("--size", &self.size, &error))?;
        let duration =
            units::duration(&self.duration).map_err(|error| wrong("--duration", &self.duration, &error))?;
        if message_bytes == 0 || message_bytes > LARGEST {
            let typed = &self.size;
            return Err(BadInput(format!("--size {typed} is out of range; use 1B to 64MiB")));
        }
        Ok(Asked { message_bytes, echo: self.echo, duration })
    }
}

fn listen(typed: &str) -> anyhow::Result<Exit> {
    let address = resolve("--listen", typed)?;
    let listener = TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}; use an address of this machine and a free port (0 picks one)")
    })?;
    writeln!(std::io::stdout(), "{}", json!({ "listen": listener.local_addr()?.to_string() }))?;
    receive(&listener, || false).context("cannot accept connections any more; start the receiver again")?;
    Ok(Exit::Success)
}

/// Mean of a figure over all measurements, with its interval.
fn estimate(all: &[Measured], of: fn(&Measured) -> f64) -> Option<Estimate> {
    of_mean(&all.iter().map(of).collect::<Vec<f64>>()).map(|rate| rate.at_least(0.0))
}

fn printed(where_to: &str, asked: &Asked, all: &[Measured]) -> serde_json::Value {
    json!({
        "to": where_to,
        "message_bytes": asked.message_bytes,
        "echo": asked.echo,
        "duration_s": asked.duration.as_secs_f64(),
        "bytes_per_second": estimate(all, |once| once.bytes_per_second),
        "messages_per_second": estimate(all, |once| once.messages_per_second),
        "repeats": all,
    })
}

fn summary(where_to: &str, asked: &Asked, all: &[Measured]) -> String {
    let rate = |of: fn(&Measured) -> f64, unit: f64| {
        estimate(all, of).map_or_else(String::new, |estimate| match (estimate.low, estimate.high) {
            (Some(low), Some(high)) => {
                format!("{:.1} ({:.1} to {:.1})", estimate.estimate / unit, low / unit, high / unit)
            }
            _ => format!("{:.1} (measured once: no interval)", estimate.estimate / unit),
        })
    };
    let way = if asked.echo { "each way (each message is sent back)" } else { "one way" };
    let mut text = format!(
        "{where_to}: messages of {} bytes, {way}, one connection, {} × {:?}\n  {} MB/s\n  {} messages/s",
        asked.message_bytes,
        all.len(),
        asked.duration,
        rate(|once| once.bytes_per_second, 1e6),
        rate(|once| once.messages_per_second, 1.0),
    );
    if where_to == "loopback" {
        text += "\n  Nothing is transmitted over a loopback: this is how fast the machine copies bytes.\n  \
                 Other load on the machine lowers it.";
    }
    text
}
