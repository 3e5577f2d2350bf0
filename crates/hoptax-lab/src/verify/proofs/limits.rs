//! Proofs of address lists, rate limits and access logs.

use super::scene::{PAUSE, Proof, Request, Scene, not_on};
use hoptax_plan::{DEFAULT_RATE_LIMIT, Feature};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An address of this host that is not allowed.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Requests that a limit too high to be reached must let through.
const LET_THROUGH: u32 = 20;

/// The highest limit, per second, that this test can exceed. Above it, the count of 429 in trials is the only
/// evidence.
const REACHABLE: u32 = 500;

const TRIED: Duration = Duration::from_secs(20);

/// Requests beyond the limit, including any burst that it allows, before the test gives up.
const BEYOND: u64 = 300;

const ASKERS: usize = 8;

/// Time without a new log line before another request is sent.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Longest delay before a gateway writes its access log: some write every ten seconds.
const LOG_BOUND: Duration = Duration::from_secs(15);

/// A request from another address must be refused.
pub(super) fn prove_addresses(scene: &Scene<'_>, feature: Feature) -> Proof {
    let request = Request { from: Some(STRANGER), ..scene.request("echo") };
    scene.must_refuse(feature, &request, 403, &format!("to {STRANGER}"))
}

/// A limit within reach must reject requests; a higher one must let them through.
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
        // Each second allows the same number again. Three times that covers a limiter that counts only roughly.
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

/// The log must grow with requests.
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
        // A log written by another process, such as Varnish's, starts only once that process has found the gateway.
        if asked.elapsed() > ASK_AGAIN {
            asked = Instant::now();
            scene.must_accept(feature, &scene.request("echo"))?;
        }
    }
    Ok(())
}
