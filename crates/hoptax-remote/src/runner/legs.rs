//! Measures the legs of a run: the network from one host to another.

use super::agent_channel::PROMPT;
use super::host::Host;
use crate::protocol::message::Request;
use crate::protocol::receiver;
use hoptax_analysis::extra_way;
use hoptax_host::probe::leg::{self, Messages, ReceiverAddress};
use hoptax_record::{Failure, Leg, LegLook};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Time after which a receiver closes. A leg is measured in about two seconds, and in at most half a minute
/// if its network is slow.
const RECEIVER: Duration = Duration::from_secs(60);

/// The legs of a run, and the hosts at their ends.
#[derive(Debug)]
pub(super) struct Legs {
    ends: BTreeMap<String, End>,
    /// For each leg, the names of the host that connects and of the host that answers.
    legs: Vec<[String; 2]>,
}

/// A host at the end of a leg.
#[derive(Debug)]
pub(super) struct End {
    /// The address at which the other hosts reach it.
    pub(super) address: Option<IpAddr>,
    /// Absent for our own host.
    pub(super) host: Option<Arc<Host>>,
}

impl Legs {
    /// The legs between the hosts of these roles. A role that hoptax does not start anywhere has no host.
    pub(super) fn new(
        ends: BTreeMap<String, End>,
        generators: &[&str],
        gateway: Option<&str>,
        upstream: Option<&str>,
    ) -> Self {
        Self { ends, legs: legs(generators, gateway, upstream) }
    }

    /// Measures every leg, one after the other, in about two seconds each. The result is in `at_start` of
    /// each leg.
    pub(super) fn measure(&self, messages: Messages) -> Vec<Leg> {
        let measured = |[from, to]: &[String; 2]| {
            let address = self.ends[to].address;
            let look = self.look(from, to, messages);
            let look = look.unwrap_or_else(|why| LegLook { failed: Some(why), ..LegLook::default() });
            Leg { from: from.clone(), to: to.clone(), address, at_start: Some(look), at_end: None }
        };
        self.legs.iter().map(measured).collect()
    }

    fn look(&self, from: &str, to: &str, messages: Messages) -> Result<LegLook, String> {
        // A host without an address shares a loopback with the host at the other end. If it did not, a run
        // would refuse the plan.
        let address = self.ends[to].address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let receiver: ReceiverAddress = match &self.ends[to].host {
            Some(host) => {
                let request = Request::OpenReceiver { address, limit: RECEIVER };
                host.link().and_then(|link| link.ask(request, PROMPT)).map_err(message)?
            }
            None => {
                let receiver = receiver::open(address).map_err(|error| format!("host {to}: {error}"))?;
                let at = receiver.at();
                thread::spawn(move || receiver.serve(RECEIVER));
                at
            }
        };
        // The bandwidth within one host is of no interest.
        let with_bandwidth = from != to;
        match &self.ends[from].host {
            Some(host) => {
                let request = Request::MeasureLeg { to: receiver, messages, with_bandwidth };
                host.link().and_then(|link| link.ask(request, RECEIVER)).map_err(message)
            }
            None => leg::measure(receiver, messages, with_bandwidth)
                .map_err(|error| format!("host {from}: {}", receiver::unreachable(receiver.address, &error))),
        }
    }
}

fn message(failure: Failure) -> String {
    failure.message
}

/// The legs between different hosts, and the round trips within a gateway's host that [`extra_way`]
/// subtracts.
fn legs(generators: &[&str], gateway: Option<&str>, upstream: Option<&str>) -> Vec<[String; 2]> {
    let mut legs: Vec<[String; 2]> = Vec::new();
    let mut add = |leg: [String; 2]| {
        if !legs.contains(&leg) {
            legs.push(leg);
        }
    };
    for generator in generators {
        let passed = [(Some(*generator), upstream), (Some(*generator), gateway), (gateway, upstream)];
        let between = passed.into_iter().filter_map(|(from, to)| Some([from?.to_owned(), to?.to_owned()]));
        between.filter(|[from, to]| from != to).for_each(&mut add);
    }
    if let (Some(gateway), Some(upstream)) = (gateway, upstream) {
        let needed = generators.iter().flat_map(|one| extra_way(one, gateway, upstream).into_keys());
        needed.filter(|[from, to]| from == to).for_each(add);
    }
    legs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(generator: &str, gateway: Option<&str>, upstream: Option<&str>) -> String {
        let generators: Vec<&str> = generator.split(' ').collect();
        legs(&generators, gateway, upstream).iter().map(|leg| leg.join("-")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_leg_is_measured_once() {
        assert_eq!(shown("g", Some("w"), Some("u")), "g-u g-w w-u w-w");
        assert_eq!(shown("g", Some("s"), Some("s")), "g-s");
        assert_eq!(shown("g", Some("g"), Some("u")), "g-u");
        assert_eq!(shown("g", Some("w"), Some("g")), "g-w w-g g-g w-w");
        assert_eq!(shown("g", Some("g"), Some("g")), "");
        assert_eq!(shown("g h", Some("w"), Some("u")), "g-u g-w w-u h-u h-w w-w");
    }

    #[test]
    fn what_runs_elsewhere_has_no_leg() {
        assert_eq!(shown("g", None, Some("u")), "g-u");
        assert_eq!(shown("g", Some("w"), None), "g-w");
    }
}
