//! Proofs that address lists, rate limits and access logs are on.

use super::scene::{PAUSE, Proof, Request, Scene, not_on};
use hoptax_plan::{DEFAULT_RATE_LIMIT, Feature};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An address of this host that the gateway must not allow.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Number of requests that must all succeed if the rate limit is too high to be reached.
const LET_THROUGH: u32 = 20;

/// The highest limit, in requests per second, that this proof can exceed. For a higher limit, the only evidence is the
/// number of responses with status 429 during trials.
const REACHABLE: u32 = 500;

const TRIED: Duration = Duration::from_secs(20);

/// The proof sends at most this many requests more than the limit allows, and then gives up. This number must be larger
/// than any burst that a limiter allows.
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

/// If requests can reach the limit, the gateway must reject some of them. If the limit is too high to be reached, the
/// gateway must let all requests through.
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
    let (bitten, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let worth_trying = || {
        let (asked, tried) = (asked.load(Ordering::Relaxed), begun.elapsed());
        // Number of requests that the limit can have allowed so far: `per_second` for each second, times 3 because some
        // limiters count inexactly.
        let accepted = 3.0 * f64::from(per_second) * tried.as_secs_f64().max(1.0);
        tried < TRIED && (asked as f64) < accepted + BEYOND as f64
    };
    std::thread::scope(|scope| {
        for _ in 0..ASKERS {
            scope.spawn(|| {
                while !bitten.load(Ordering::Relaxed) && worth_trying() {
                    asked.fetch_add(1, Ordering::Relaxed);
                    match scene.send_noting_tls(&scene.request("echo")) {
                        Ok((answer, _)) if answer.status != 429 => {}
                        Ok(_) => bitten.store(true, Ordering::Relaxed),
                        Err(_) => return,
                    }
                }
            });
        }
    });
    if bitten.load(Ordering::Relaxed) {
        return Ok(());
    }
    let asked = asked.into_inner();
    Err(not_on(
        feature,
        &format!("none of {asked} requests in {} s was answered with 429", TRIED.as_secs()),
        &[],
    ))
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
        // Varnish and others write the log in a separate process. This process needs time to find the gateway and does
        // not log earlier requests. So send another request.
        if asked.elapsed() > ASK_AGAIN {
            asked = Instant::now();
            scene.must_accept(feature, &scene.request("echo"))?;
        }
    }
    Ok(())
}
