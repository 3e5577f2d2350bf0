//! Who comes from where and how often, and what is written down about it.

use super::scene::{PAUSE, Proof, Request, Scene, not_on};
use hoptax_plan::{Feature, LIMIT_THAT_NEVER_BITES};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An address of this host that is not let in.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Requests that a limit which is not to bite must let through.
const LET_THROUGH: u32 = 20;

/// The highest limit that requests one by one can be expected to reach; for higher ones the trial's count of 429 speaks.
const REACHABLE: u32 = 500;

/// How long a limit is tried at most.
const TRIED: Duration = Duration::from_secs(20);

/// Requests beyond what a limit lets through, with whatever burst it allows, after which there is none.
const BEYOND: u64 = 300;

/// Connections that ask at once.
const ASKERS: usize = 8;

/// After so long without a line in the log it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long a gateway may keep lines of its access log back: some write every ten seconds.
const LOG_BOUND: Duration = Duration::from_secs(15);

/// Who comes from another address is refused.
pub(super) fn prove_addresses(scene: &Scene<'_>, feature: Feature) -> Proof {
    let request = Request { from: Some(STRANGER), ..scene.request("echo") };
    scene.turned_away(feature, &request, 403, &format!("to {STRANGER}"))
}

/// A limit that bites turns requests away, one that does not lets them through.
pub(super) fn prove_rate(scene: &Scene<'_>, feature: Feature, per_second: u32) -> Proof {
    if per_second >= LIMIT_THAT_NEVER_BITES {
        for _ in 0..LET_THROUGH {
            scene.let_through(feature, &scene.request("echo"))?;
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
        // Each second it lets through as many again; three times that is more than one that counts roughly would.
        let let_through = 3.0 * f64::from(per_second) * tried.as_secs_f64().max(1.0);
        tried < TRIED && (asked as f64) < let_through + BEYOND as f64
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

/// The log grows by what is asked.
pub(super) fn prove_access_log(scene: &Scene<'_>, feature: Feature) -> Proof {
    let Some(path) = &scene.change.access_log else {
        return Err(not_on(feature, "it was not told where to write its access log", &[]));
    };
    let bytes = || std::fs::metadata(path).map_or(0, |file| file.len());
    let before = bytes();
    let mut asked = Instant::now();
    scene.let_through(feature, &scene.request("echo"))?;
    let until = Instant::now() + LOG_BOUND;
    while bytes() <= before {
        if Instant::now() > until {
            let what = format!("{} did not grow within {} s", path.display(), LOG_BOUND.as_secs());
            return Err(not_on(feature, &what, &[]));
        }
        std::thread::sleep(PAUSE);
        // A log that another process writes, as Varnish's, begins when that has found its way in.
        if asked.elapsed() > ASK_AGAIN {
            asked = Instant::now();
            scene.let_through(feature, &scene.request("echo"))?;
        }
    }
    Ok(())
}
