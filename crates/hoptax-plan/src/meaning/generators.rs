//! Checks that several generators can divide the load.

use super::hosts::HostsRead;
use super::reader::Reader;
use crate::error::Place;
use crate::raw::{Placed, RawLoad, RawStart};

/// The numbers of connections and requests that several generators must be able to divide, as in the plan's
/// text.
pub(super) struct Divided {
    entries: Vec<Entry>,
    /// The place of `start`.
    start: Option<Place>,
}

/// The numbers of one entry of `load`.
struct Entry {
    /// Each number of connections or requests, with its key and its place.
    counts: Vec<(&'static str, Place, u64)>,
    /// The hosts in `from`. Empty for the host of the role `generator`.
    from: Vec<String>,
}

impl Divided {
    pub(super) fn of(load: Option<&Placed<Vec<Placed<RawLoad>>>>, start: Option<&Placed<RawStart>>) -> Self {
        let points = load.map(|load| load.value.as_slice()).unwrap_or_default();
        let of_point = |point: &Placed<RawLoad>| {
            let RawLoad { connections, requests, from, .. } = &point.value;
            let connections = connections.0.iter();
            let connections = connections.map(|one| ("connections", one.place, u64::from(one.value.0)));
            let requests = requests.iter().flat_map(|requests| &requests.0);
            let requests = requests.map(|one| ("requests", one.place, one.value.0));
            let from = from.iter().flat_map(|from| &from.0).map(|host| host.value.0.clone());
            Entry { counts: connections.chain(requests).collect(), from: from.collect() }
        };
        Self { entries: points.iter().map(of_point).collect(), start: start.map(|start| start.place) }
    }

    /// Refuses a load that is too small for its generators. Each generator needs a connection and, if the
    /// number of requests is limited, a request.
    pub(super) fn check(self, reader: &mut Reader<'_>, hosts: &HostsRead) {
        let generator = &hosts.roles.generator;
        for Entry { counts, from } in self.entries {
            let from = if from.is_empty() { vec![generator.clone()] } else { from };
            for host in &from {
                check_counts(reader, &counts, host, hosts.machines(host));
            }
        }
        let generators = hosts.machines(generator);
        if let Some(place) = self.start.filter(|_| generators > 1) {
            let message =
                format!("a start is measured by one generator, and `{generator}` is {generators} machines");
            reader.fault(place, message, "give the role `generator` a host with one machine");
        }
    }
}

fn check_counts(
    reader: &mut Reader<'_>,
    counts: &[(&'static str, Place, u64)],
    host: &str,
    generators: usize,
) {
    for &(key, place, value) in counts {
        // A value of zero is reported elsewhere.
        if (1..generators as u64).contains(&value) {
            let what = if value == 1 { key.trim_end_matches('s') } else { key };
            let message =
                format!("{value} {what} cannot be divided between the {generators} generators on `{host}`");
            let help = format!("write {generators} or more, or use fewer machines");
            reader.fault(place, message, help);
        }
    }
}
