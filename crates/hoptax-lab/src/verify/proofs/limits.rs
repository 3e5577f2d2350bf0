//! Proofs that address lists, rate limits and access logs are on.

use super::scene::{PAUSE, Proof, Request, Scene, not_on};
use hoptax_plan::{DEFAULT_RATE_LIMIT, Feature};
use hoptax_record::{Failure, Stage};
use hoptax_servers::http_client::HttpConnection;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An address of this host that the gateway must not allow.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Number of requests that must all succeed if the rate limit is too high to be reached.
const LET_THROUGH: u32 = 20;

/// The highest limit, in requests per second, that this proof can exceed. For a higher limit, the only
/// evidence is the number of responses with status 429 during trials.
const REACHABLE: u32 = 500;

const TRIED: Duration = Duration::from_secs(20);

/// The proof tries at least this long, because some limiters count at intervals.
const TRIED_AT_LEAST: Duration = Duration::from_secs(1);

/// The proof sends at most this many requests more than the limit allows, and then gives up. This number must
/// be larger than any burst that a limiter allows.
const BEYOND: u64 = 300;

const ASKERS: usize = 8;

/// If the log has not grown after this time, the proof sends another request.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Maximum time to wait for a line in the access log. Some gateways write their log only every ten seconds.
const LOG_BOUND: Duration = Duration::from_secs(15);

/// The gateway must refuse a request from an address that is not allowed.
pub(super) fn prove_addresses(scene: &Scene<'_>, feature: Feature) -> Proof {
    let request = Request { from: Some(STRANGER), ..scene.request("echo") };
    scene.must_refuse(feature, &request, 403, &format!("to {STRANGER}"))
}

/// If requests can reach the limit, the gateway must reject some of them. If the limit is too high to be
/// reached, the gateway must let all requests through.
pub(super) fn prove_rate(scene: &Scene<'_>, feature: Feature, per_second: u32) -> Proof {
    if per_second >= DEFAULT_RATE_LIMIT {
        for _ in 0..LET_THROUGH {
            scene.must_accept(feature, &scene.request("echo"))?;
        }
        return Ok(());
    }
    if per_second > REACHABLE {
        return Ok(());
    }
    let asking = Asking {
        begun: Instant::now(),
        per_second,
        bitten: AtomicBool::new(false),
        answered: AtomicU64::new(0),
    };
    let request = scene.request("echo");
    let errors: Vec<anyhow::Error> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..ASKERS).map(|_| scope.spawn(|| asking.ask(scene, &request))).collect();
        askers.into_iter().filter_map(|asker| asker.join().expect("no asker panics").err()).collect()
    });
    if asking.bitten.into_inner() {
        return Ok(());
    }
    let tried = asking.begun.elapsed();
    Err(unproved(feature, per_second, asking.answered.into_inner(), tried, errors.first()))
}

/// State shared by the threads that try to reach a rate limit.
struct Asking {
    begun: Instant,
    per_second: u32,
    bitten: AtomicBool,
    /// Number of answers other than 429.
    answered: AtomicU64,
}

impl Asking {
    /// Sends `request` repeatedly until the limit rejects it, or until further requests would be useless.
    /// Connections stay open, because handshakes would make the requests too slow to reach a limit.
    fn ask(&self, scene: &Scene<'_>, request: &Request) -> anyhow::Result<()> {
        let (client, bytes) = scene.client(request)?;
        let mut kept: Option<HttpConnection> = None;
        while !self.bitten.load(Ordering::Relaxed) && self.is_worth_trying() {
            let is_reused = kept.is_some();
            let mut connection = kept.take().map_or_else(|| client.connect(), Ok)?;
            match connection.send(&bytes, false) {
                Ok(answer) if answer.status == 429 => self.bitten.store(true, Ordering::Relaxed),
                Ok(_) => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    kept = Some(connection).filter(HttpConnection::can_be_reused);
                }
                // A gateway may close a connection between two requests.
                Err(_) if is_reused => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_worth_trying(&self) -> bool {
        let (answered, tried) = (self.answered.load(Ordering::Relaxed), self.begun.elapsed());
        // Number of requests that the limit can have allowed so far: `per_second` for each second, times 3
        // because some limiters count inexactly.
        let accepted = 3.0 * f64::from(self.per_second) * tried.as_secs_f64().max(1.0);
        tried < TRIED_AT_LEAST || (tried < TRIED && (answered as f64) < accepted + BEYOND as f64)
    }
}

/// The failure if the limit rejected no request: the limit is not on, or the requests were too slow to reach
/// it.
fn unproved(
    feature: Feature,
    per_second: u32,
    answered: u64,
    tried: Duration,
    error: Option<&anyhow::Error>,
) -> Failure {
    let seconds = tried.as_secs_f64();
    // A limiter may first allow a burst of as many requests as it allows in a second.
    if answered as f64 > f64::from(per_second) * (seconds + 1.0) {
        let what = format!("none of {answered} requests in {seconds:.1} s was answered with 429");
        return not_on(feature, &what, &[]);
    }
    let why = error.map_or_else(String::new, |error| format!(" A request failed: {error:#}."));
    let message = format!(
        "cannot prove that feature `{feature}` is on: hoptax asked too slowly. It got {answered} answers in \
         {seconds:.1} s, {:.0} per second, and none was 429.{why} Set a limit that is lower than this rate",
        answered as f64 / seconds.max(f64::EPSILON)
    );
    Failure::new(Stage::Verify, message)
}

/// Requests must make the access log grow.
pub(super) fn prove_access_log(scene: &Scene<'_>, feature: Feature) -> Proof {
    let Some(path) = &scene.change.access_log else {
        return Err(not_on(feature, "it has no path for its access log", &[]));
    };
    let bytes = || std::fs::metadata(path).map_or(0, |file| file.len());
    let before = bytes();
    let mut asked = Instant::now();
    scene.must_accept(feature, &scene.request("echo"))?;
    let until = Instant::now() + LOG_BOUND;
    while bytes() <= before {
        if Instant::now() > until {
            let what = format!("{} did not grow within {} s", path.display(), LOG_BOUND.as_secs());
            return Err(not_on(feature, &what, &[]));
        }
        std::thread::sleep(PAUSE);
        // Varnish and others write the log in a separate process. This process needs time to find the gateway
        // and does not log earlier requests. So send another request.
        if asked.elapsed() > ASK_AGAIN {
            asked = Instant::now();
            scene.must_accept(feature, &scene.request("echo"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_not_reached_is_not_called_off() {
        let limit = Feature::RateLimit { per_second: 200 };
        let message = |answered, error| unproved(limit, 200, answered, TRIED, error).message;
        let told = [
            message(12_600, None),
            message(3413, None),
            // The limit allows 4000 and a burst of 200.
            message(4200, None),
            message(0, Some(&anyhow::anyhow!("it closed"))),
        ];
        insta::assert_snapshot!(told.join("\n"));
    }
}
