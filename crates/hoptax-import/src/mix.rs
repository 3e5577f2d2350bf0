//! Counts requests by class: method, host and folded path.

use crate::fold::{self, PathPart};
use crate::secret;
use crate::seen::Seen;
use crate::sketch::Sketch;
use std::collections::{BTreeMap, HashMap};

/// Largest number of classes. Requests of further classes are counted by method alone, so that memory is
/// bounded.
const MOST_CLASSES: usize = 20_000;
/// Largest number of intervals in which requests are counted over time.
const MOST_SECONDS: usize = 200_000;

/// What identifies a class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) method: String,
    pub(crate) host: Option<String>,
    pub(crate) parts: Vec<PathPart>,
}

/// The responses with one status.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    pub(crate) count: u64,
    pub(crate) bytes: Sketch,
    /// Times that the service needed, nanoseconds.
    pub(crate) took: Sketch,
}

impl Answers {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes.merge(&other.bytes);
        self.took.merge(&other.took);
    }
}

/// The requests of a class.
#[derive(Debug, Clone, Default)]
pub(crate) struct Class {
    pub(crate) count: u64,
    /// Lowest and highest value of each number in the path.
    pub(crate) numbers: Vec<(u64, u64)>,
    /// The answers by status. The key is `None` if the source does not contain the status.
    pub(crate) answers: BTreeMap<Option<u16>, Answers>,
    pub(crate) request_bytes: Sketch,
    /// Headers of the first request.
    pub(crate) headers: Vec<(String, String)>,
    /// The first body that is copied.
    pub(crate) body: Option<String>,
    /// True if the first request sent its body in chunks.
    pub(crate) is_chunked: bool,
}

impl Class {
    fn add(&mut self, seen: &Seen, numbers: &[u64]) {
        if self.count == 0 {
            self.is_chunked = seen.is_chunked;
            self.headers.clone_from(&seen.headers);
            self.numbers = numbers.iter().map(|number| (*number, *number)).collect();
        }
        self.count += 1;
        for ((low, high), number) in self.numbers.iter_mut().zip(numbers) {
            (*low, *high) = ((*low).min(*number), (*high).max(*number));
        }
        if self.body.is_none() {
            self.body.clone_from(&seen.body);
        }
        if let Some(bytes) = seen.request_bytes {
            self.request_bytes.add(bytes);
        }
        let answers = self.answers.entry(seen.status).or_default();
        answers.count += 1;
        if let Some(bytes) = seen.response_bytes {
            answers.bytes.add(bytes);
        }
        if let Some(took) = seen.took {
            answers.took.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.request_bytes.merge(&other.request_bytes);
        for (status, answers) in &other.answers {
            self.answers.entry(*status).or_default().merge(answers);
        }
    }
}

/// All requests that were read.
#[derive(Debug, Default)]
pub(crate) struct Mix {
    keep_queries: bool,
    classes: HashMap<Key, Class>,
    /// Requests beyond [`MOST_CLASSES`], by method.
    beyond: BTreeMap<String, Class>,
    /// Requests in each second.
    seconds: BTreeMap<i64, u64>,
    requests: u64,
    pub(crate) left_out: Vec<String>,
}

/// The classes that become targets.
#[derive(Debug)]
pub(crate) struct Chosen<'a> {
    /// Most frequent first, each with the number of its classes. This number is above 1 if the target
    /// represents several classes of a method.
    pub(crate) targets: Vec<(&'a Key, Class, usize)>,
    /// Share of the requests whose class has a target of its own.
    pub(crate) own: f64,
    /// Number of classes.
    pub(crate) classes: usize,
}

impl Mix {
    pub(crate) fn new(keep_queries: bool) -> Self {
        Self { keep_queries, ..Self::default() }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests in each second, from the first second to the last.
    pub(crate) fn seconds(&self) -> &BTreeMap<i64, u64> {
        &self.seconds
    }

    /// Counts a request. Its headers lose their credentials here.
    pub(crate) fn add(&mut self, mut seen: Seen) {
        self.requests += 1;
        seen.headers = secret::without_secrets(std::mem::take(&mut seen.headers), &mut self.left_out);
        if let Some(at) = seen.at {
            let second = at.floor() as i64;
            if self.seconds.len() < MOST_SECONDS || self.seconds.contains_key(&second) {
                *self.seconds.entry(second).or_default() += 1;
            }
        }
        let (path, query) = seen
            .target
            .split_once('?')
            .map_or((seen.target.as_str(), None), |(path, query)| (path, Some(query)));
        let (mut parts, mut numbers) = fold::path(path);
        match query.filter(|query| !query.is_empty()) {
            Some(query) if self.keep_queries => {
                parts.push(PathPart::Text(format!("?{}", fold::clean(query))));
            }
            Some(query) => fold::query(query, &mut parts, &mut numbers),
            None => {}
        }
        let key = Key { method: seen.method.clone(), host: seen.host.clone(), parts };
        let is_full = self.classes.len() >= MOST_CLASSES;
        match self.classes.get_mut(&key) {
            Some(class) => class.add(&seen, &numbers),
            None if is_full => self.beyond.entry(key.method).or_default().add(&seen, &[]),
            None => self.classes.entry(key).or_default().add(&seen, &numbers),
        }
    }

    /// The `top` most frequent classes. The other classes of each method become one target, which has the
    /// path of the most frequent of them.
    pub(crate) fn choose(&self, top: usize) -> Chosen<'_> {
        let mut sorted: Vec<(&Key, &Class)> = self.classes.iter().collect();
        sorted.sort_by(|(a, left), (b, right)| right.count.cmp(&left.count).then_with(|| a.cmp(b)));
        let rest = sorted.split_off(top.min(sorted.len()));
        let mut targets: Vec<(&Key, Class, usize)> =
            sorted.into_iter().map(|(key, class)| (key, class.clone(), 1)).collect();
        let mut others: BTreeMap<&str, (&Key, Class, usize)> = BTreeMap::new();
        for (key, class) in rest {
            match others.get_mut(key.method.as_str()) {
                Some((_, all, classes)) => {
                    all.merge(class);
                    *classes += 1;
                }
                None => {
                    others.insert(&key.method, (key, class.clone(), 1));
                }
            }
        }
        for (method, class) in &self.beyond {
            if let Some((_, all, classes)) = others.get_mut(method.as_str()) {
                all.merge(class);
                *classes += 1;
            } else if let Some((_, all, classes)) = targets.iter_mut().find(|(key, ..)| key.method == *method)
            {
                all.merge(class);
                *classes += 1;
            }
        }
        targets.extend(others.into_values());
        let own: u64 =
            targets.iter().filter(|(.., classes)| *classes == 1).map(|(_, class, _)| class.count).sum();
        let own = own as f64 / self.requests.max(1) as f64;
        Chosen { targets, own, classes: self.classes.len() }
    }
}
