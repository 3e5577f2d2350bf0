//! Reads the values of a plan and collects errors.

use crate::error::{Fault, Place, Sources};
use crate::raw::{Auto, MessagesText, Placed, RawCpus, Short};
use crate::units::{self, UnitError};
use crate::{Context, CpuPlan, CpuSets, Feature, LOCAL, Proto, Roles, Upstream, calls};
use hoptax_format::messages::{self, StreamSpec};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The upstream, and the places of its delay and its URL in the plan. Errors about load, timeouts and hosts
/// point to these places.
pub(super) struct UpstreamRead {
    pub(super) value: Upstream,
    pub(super) url_place: Option<Place>,
    pub(super) delay_place: Option<Place>,
}

/// Streams whose `messages` or `every` are in the plan.
pub(super) struct Timed {
    /// The place of the key that determines their length.
    pub(super) place: Place,
    pub(super) stream: StreamSpec,
    /// Time from the first message until the last one. 0 if the stream is endless.
    pub(super) length: Duration,
    /// Longest time without any byte of the server. 0 if it is not known.
    pub(super) silence: Duration,
    /// Time limit of the call. Absent if calls may end at it.
    pub(super) deadline: Option<Duration>,
}

pub(super) struct Reader<'a> {
    pub(super) context: &'a Context,
    /// The user's input. It is needed to find the place of a part of a value.
    pub(super) sources: &'a Sources<'a>,
    pub(super) faults: Vec<Fault>,
    /// For each file name in `{{line FILE}}`, the path of the file.
    pub(super) files: BTreeMap<String, PathBuf>,
    /// Files with secret values of headers.
    pub(super) secrets: Vec<PathBuf>,
    /// Places of the pauses in bodies, and how long the pauses of a body take together.
    pub(super) pauses: Vec<(Place, Duration)>,
    /// Places of the times in which clients do not read streams of tokens, and these times.
    pub(super) unread: Vec<(Place, Duration)>,
    /// Places of gRPC calls.
    pub(super) calls: Vec<Place>,
    /// Places of WebSockets.
    pub(super) sockets: Vec<Place>,
    /// Streams whose length is in the plan.
    pub(super) streams: Vec<Timed>,
    /// Places of requests to language models without streams, and how long their responses take at least.
    pub(super) whole: Vec<(Place, Duration)>,
    /// The place of a number of messages that is `endless`.
    pub(super) endless: Option<Place>,
    /// Compiled `.proto` files, by path.
    pub(super) protos: BTreeMap<PathBuf, Proto>,
    /// Places of the features that translate calls to gRPC.
    pub(super) translations: Vec<(Place, Feature)>,
    /// Whether a gateway needs the descriptors of `.proto` files.
    pub(super) needs_descriptors: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(context: &'a Context, sources: &'a Sources<'a>) -> Self {
        Self {
            context,
            sources,
            faults: Vec::new(),
            files: BTreeMap::new(),
            secrets: Vec::new(),
            pauses: Vec::new(),
            unread: Vec::new(),
            calls: Vec::new(),
            sockets: Vec::new(),
            streams: Vec::new(),
            whole: Vec::new(),
            endless: None,
            protos: BTreeMap::new(),
            translations: Vec::new(),
            needs_descriptors: false,
        }
    }
}

impl Reader<'_> {
    pub(super) fn fault(&mut self, place: Place, message: impl Into<String>, help: impl Into<String>) {
        self.faults.push(Fault::new(place, message, help));
    }

    /// Parses one value with a unit. If the value is wrong, records an error.
    pub(super) fn unit<T>(
        &mut self,
        typed: &Placed<impl AsRef<str>>,
        parse: impl FnOnce(&str) -> Result<T, UnitError>,
    ) -> Option<T> {
        self.accept(typed.place, parse(typed.value.as_ref()))
    }

    /// The value of a result. If it is an error, records the error.
    pub(super) fn accept<T>(&mut self, place: Place, result: Result<T, UnitError>) -> Option<T> {
        result.map_err(|error| self.fault(place, error.message, error.help)).ok()
    }

    pub(super) fn time(&mut self, typed: Option<Placed<crate::raw::Time>>, default: Duration) -> Duration {
        typed.and_then(|typed| self.unit(&typed, units::duration)).unwrap_or(default)
    }

    /// Reads a time that must not be zero. `key` is its name in the error.
    pub(super) fn time_above_zero(
        &mut self,
        typed: &Placed<crate::raw::Time>,
        key: &str,
        help: &str,
    ) -> Option<Duration> {
        let time = self.unit(typed, units::duration)?;
        if time.is_zero() {
            self.fault(typed.place, format!("`{key}` is zero"), help);
        }
        Some(time)
    }

    /// Reads a count from 1 to `most`. A larger count is probably a typing error.
    pub(super) fn count(&mut self, typed: Option<&Placed<u32>>, key: &str, default: u32, most: u32) -> u32 {
        let Some(&Placed { place, value }) = typed else { return default };
        if value == 0 {
            self.fault(place, format!("`{key}` is zero"), "write 1 or more");
        } else if value > most {
            self.fault(place, format!("`{key}` is too large: {value}"), format!("write {most} or less"));
        }
        value
    }

    /// Reads the number of messages of a stream, which can be `endless`.
    pub(super) fn messages(&mut self, typed: &Placed<MessagesText>, key: &str) -> u32 {
        let (place, text) = (typed.place, typed.value.0.as_str());
        if text == "endless" {
            self.endless = Some(place);
            return messages::ENDLESS;
        }
        match text.parse().ok().filter(|value: &u32| value.to_string() == text) {
            Some(value) => self.count(Some(&Placed { place, value }), key, 1, calls::MOST_MESSAGES).max(1),
            None => {
                let message = format!("`{text}` is not a number of messages");
                self.fault(place, message, "write a number such as 20, or endless");
                1
            }
        }
    }

    pub(super) fn name(&mut self, typed: Option<Placed<String>>, stem: &str) -> String {
        match typed {
            Some(name) => {
                self.check_file_name(&name, "name");
                name.value
            }
            None if is_file_name(stem) => stem.to_owned(),
            None => "plan".to_owned(),
        }
    }

    /// Checks a plan's name or a gateway's label. Both are used as names of directories.
    pub(super) fn check_file_name(&mut self, name: &Placed<String>, what: &str) {
        if !is_file_name(&name.value) {
            self.fault(
                name.place,
                format!("the {what} `{}` is not valid as a directory name", name.value),
                "use up to 64 letters, digits, `.`, `_` and `-`, starting with a letter or a digit",
            );
        }
    }

    /// Reads the CPUs of each role. The CPUs of other hosts than this machine are not known yet.
    pub(super) fn cpus(&mut self, typed: Option<Placed<Short<RawCpus, Auto>>>, roles: &Roles) -> CpuPlan {
        match typed {
            None => CpuPlan::Auto,
            Some(Placed { value: Short::Word(word), .. }) if word.0 == "auto" => CpuPlan::Auto,
            Some(Placed { value: Short::Word(word), place }) => {
                self.fault(
                    place,
                    format!("unknown value `{}`", word.0),
                    "write auto, or { generator: \"0\", gateway: \"1\", upstream: \"2-3\" }",
                );
                CpuPlan::Auto
            }
            Some(Placed { value: Short::Full(sets), .. }) => CpuPlan::Pinned(CpuSets {
                generator: self.cpu_set(sets.generator, roles.generator == LOCAL),
                gateway: self.cpu_set(sets.gateway, roles.gateway == LOCAL),
                upstream: self.cpu_set(sets.upstream, roles.upstream == LOCAL),
            }),
        }
    }

    fn cpu_set(&mut self, typed: Option<Placed<crate::raw::CpuList>>, is_local: bool) -> Vec<u32> {
        let Some(typed) = typed else { return Vec::new() };
        let cpus = self.unit(&typed, units::cpu_list).unwrap_or_default();
        let count = self.context.cpus;
        if let Some(absent) = cpus.iter().find(|cpu| is_local && **cpu >= count) {
            let have = if count == 1 {
                "use CPU 0, the only CPU".to_owned()
            } else {
                format!("use CPUs 0 to {}", count - 1)
            };
            self.fault(typed.place, format!("this machine has no CPU {absent}"), have);
        }
        cpus
    }
}

fn is_file_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}
