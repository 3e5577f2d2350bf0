//! What CPUs of this machine do while they have nothing to run.

use rustix::fs::{Access, access};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

/// Interface of the kernel for the longest time that a CPU may take to wake up
/// (`Documentation/power/pm_qos_interface.rst`).
const LATENCY: &str = "/dev/cpu_dma_latency";
/// Name of the driver that puts idle CPUs to sleep, or `none`. Without a driver, the kernel ignores
/// [`LATENCY`].
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// While this value exists, idle CPUs poll for work instead of sleeping.
///
/// An idle CPU of a virtual machine halts, and the hypervisor gives it to other guests. Waking it up takes 30
/// to 150 µs, about as long as a gateway needs for a request. How often a request waits for a CPU to wake up
/// depends on where the kernel happens to place threads, so it differs from trial to trial.
///
/// The kernel withdraws the request when the file is closed, so also when this process dies.
#[derive(Debug)]
pub struct Polling {
    _request: File,
}

impl Polling {
    /// Makes all idle CPUs poll.
    ///
    /// # Errors
    /// If this machine has no such interface, or if this user may not write to it. The message says which.
    pub fn begin() -> io::Result<Self> {
        possible()?;
        let mut request = OpenOptions::new().write(true).open(LATENCY)?;
        // A wake-up time of 0 µs forbids every idle state except polling. The kernel expects a 32-bit
        // integer.
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _request: request })
    }
}

/// Checks whether [`Polling::begin`] can succeed.
///
/// # Errors
/// The reason why it cannot.
pub fn possible() -> io::Result<()> {
    let driver = fs::read_to_string(DRIVER).unwrap_or_default();
    if matches!(driver.trim(), "" | "none") {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel has no driver for idle CPUs"));
    }
    access(LATENCY, Access::WRITE_OK).map_err(|error| {
        io::Error::new(
            io::Error::from(error).kind(),
            format!("{LATENCY} cannot be written: {}", io::Error::from(error)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_begins_exactly_where_it_is_possible() {
        assert_eq!(Polling::begin().is_ok(), possible().is_ok());
    }
}
