//! Checks that several generators can divide the load.

use super::hosts::HostsRead;
use super::reader::Reader;
use crate::error::Place;
use crate::raw::{Placed, RawLoad, RawStart};

/// What several generators must be able to divide, as it was typed.
pub(super) struct Divided {
    /// Each number of connections or requests, with its key and its place.
    counts: Vec<(&'static str, Place, u64)>,
    /// The place of `start`.
    start: Option<Place>,
}

impl Divided {
    pub(super) fn of(load: Option<&Placed<Vec<Placed<RawLoad>>>>, start: Option<&Placed<RawStart>>) -> Self {
        let points = load.map(|load| load.value.as_slice()).unwrap_or_default();
        let of_point = |point: &Placed<RawLoad>| {
            let RawLoad { connections, requests, .. } = &point.value;
            let connections = connections.0.iter();
            let connections =
                connections.map(|one| ("connections", one.place, u64::from(one.value.0))).collect::<Vec<_>>();
            let requests = requests.iter().flat_map(|requests| &requests.0);
            let requests = requests.map(|one| ("requests", one.place, one.value.0));
            connections.into_iter().chain(requests).collect::<Vec<_>>()
        };
        Self { counts: points.iter().flat_map(of_point).collect(), start: start.map(|start| start.place) }
    }

    /// Refuses a load that is too small for the generators. Each needs a connection, and a request if their number is limited.
    pub(super) fn check(self, reader: &mut Reader<'_>, hosts: &HostsRead) {
        let generators = hosts.generators();
        if generators <= 1 {
            return;
        }
        let host = &hosts.roles.generator;
        for (key, place, value) in self.counts {
            // Zero is another mistake.
            if (1..generators as u64).contains(&value) {
                let what = if value == 1 { key.trim_end_matches('s') } else { key };
                let message = format!(
                    "{value} {what} cannot be divided between the {generators} generators on `{host}`"
                );
                let help = format!("write {generators} or more, or use fewer machines");
                reader.fault(place, message, help);
            }
        }
        if let Some(place) = self.start {
            let message =
                format!("a start is measured by one generator, and `{host}` is {generators} machines");
            reader.fault(place, message, "give the role `generator` a host with one machine");
        }
    }
}
