//! Which answer a request gets, if the upstream has answers to particular paths.
//!
//! Paths without `*` are looked up; the others are tried in turn, those with the most literal characters
//! first. Each path has alternatives, which are drawn by weight, and each alternative has sizes, which are
//! drawn by share.

use super::answer::{Answers, pattern};
use super::delay;
use hoptax_format::random::Random;
use hoptax_plan::{Answer, Delay};
use std::collections::HashMap;
use std::sync::Arc;

/// The answers to particular paths.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// All responses: one for each alternative and size.
    answers: Vec<Answers>,
    groups: Vec<Group>,
    /// Groups without `*`, by path. A path has one group for each method, at most.
    exact: HashMap<Vec<u8>, Vec<usize>>,
    /// Groups with `*`, the most exact ones first.
    patterns: Vec<usize>,
    random: Random,
}

/// The alternatives for one method and path.
#[derive(Debug, Clone)]
struct Group {
    method: Option<String>,
    path: String,
    /// Each alternative with the sum of the weights up to and including its own.
    alternatives: Vec<(u64, Alternative)>,
}

#[derive(Debug, Clone)]
struct Alternative {
    delay: Delay,
    /// For each size: the sum of the shares up to and including its own, and its place in [`Rules::answers`].
    sizes: Vec<(f64, u32)>,
}

/// The answer that a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Place in the list of responses.
    pub(super) place: u32,
    pub(super) delay_ns: u64,
}

/// Distinguishes the random numbers of the rules from those of delays and failures.
const STREAM: u64 = 1 << 32;

impl Rules {
    /// Prepares all responses. `None` if there are no answers to particular paths.
    pub(super) fn new(
        answers: &[Answer],
        headers: &[(String, String)],
        stamps: bool,
    ) -> anyhow::Result<Option<Self>> {
        let Some(largest) = answers.iter().flat_map(|answer| &answer.sizes).map(|(_, size)| *size).max()
        else {
            return Ok(None);
        };
        let body = Arc::new(pattern(usize::try_from(largest)?));
        let mut rules = Self {
            answers: Vec::new(),
            groups: Vec::new(),
            exact: HashMap::new(),
            patterns: Vec::new(),
            random: Random::stream(0, STREAM),
        };
        for answer in answers {
            let mut sizes = Vec::new();
            let mut upper = 0.0;
            for (share, size) in &answer.sizes {
                upper += share;
                sizes.push((upper, u32::try_from(rules.answers.len())?));
                let length = usize::try_from(*size)?;
                rules.answers.push(Answers::of_length(answer.status, headers, (&body, length), stamps)?);
            }
            rules.add(answer, sizes);
        }
        for (index, group) in rules.groups.iter().enumerate() {
            if group.path.contains('*') {
                rules.patterns.push(index);
            } else {
                rules.exact.entry(group.path.clone().into_bytes()).or_default().push(index);
            }
        }
        let groups = &rules.groups;
        let literal = |index: &usize| groups[*index].path.bytes().filter(|byte| *byte != b'*').count();
        rules
            .patterns
            .sort_by_key(|index| (std::cmp::Reverse(literal(index)), groups[*index].method.is_none()));
        for groups_of_path in rules.exact.values_mut() {
            groups_of_path.sort_by_key(|index| groups[*index].method.is_none());
        }
        Ok(Some(rules))
    }

    fn add(&mut self, answer: &Answer, sizes: Vec<(f64, u32)>) {
        let alternative = Alternative { delay: answer.delay.clone(), sizes };
        let weight = u64::from(answer.weight);
        let same = |group: &&mut Group| group.method == answer.method && group.path == answer.path;
        match self.groups.iter_mut().find(same) {
            Some(group) => {
                let before = group.alternatives.last().map_or(0, |(sum, _)| *sum);
                group.alternatives.push((before + weight, alternative));
            }
            None => self.groups.push(Group {
                method: answer.method.clone(),
                path: answer.path.clone(),
                alternatives: vec![(weight, alternative)],
            }),
        }
    }

    /// Gives an instance its own random numbers.
    pub(super) fn seed(&mut self, seed: u64, instance: u64) {
        self.random = Random::stream(seed, STREAM + instance);
    }

    /// The answer to a request; `None` if no path fits. `target` is the path with its query.
    pub(super) fn choose(&mut self, method: &[u8], target: &[u8]) -> Option<Chosen> {
        let path = &target[..memchr::memchr(b'?', target).unwrap_or(target.len())];
        let fits = |group: &Group| group.method.as_ref().is_none_or(|own| own.as_bytes() == method);
        let exact =
            self.exact.get(path).into_iter().flatten().copied().find(|index| fits(&self.groups[*index]));
        let index = exact.or_else(|| {
            let fitting = |index: &usize| {
                let group = &self.groups[*index];
                fits(group) && matches(group.path.as_bytes(), path)
            };
            self.patterns.iter().copied().find(fitting)
        })?;
        let alternatives = &self.groups[index].alternatives;
        let alternative = match alternatives.as_slice() {
            [(_, only)] => only,
            several => {
                let sum = several.last().map_or(1, |(sum, _)| *sum);
                let drawn = self.random.below(sum);
                &several[several.partition_point(|(upper, _)| *upper <= drawn)].1
            }
        };
        let place = match alternative.sizes.as_slice() {
            [(_, only)] => *only,
            several => {
                let drawn = self.random.unit();
                // Because of rounding, the shares may sum to slightly less than 1.
                several[several.partition_point(|(upper, _)| *upper <= drawn).min(several.len() - 1)].1
            }
        };
        let delay_ns = delay::draw(&alternative.delay, &mut self.random);
        Some(Chosen { place, delay_ns })
    }

    pub(super) fn get(&self, place: u32) -> &Answers {
        &self.answers[place as usize]
    }

    pub(super) fn get_mut(&mut self, place: u32) -> &mut Answers {
        &mut self.answers[place as usize]
    }

    pub(super) fn answers_mut(&mut self) -> impl Iterator<Item = &mut Answers> {
        self.answers.iter_mut()
    }
}

/// Whether a path has this form. `*` is one or more bytes other than `/`.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let Some(star) = memchr::memchr(b'*', pattern) else { return pattern == path };
    let (before, rest) = (&pattern[..star], &pattern[star + 1..]);
    let Some(path) = path.strip_prefix(before) else { return false };
    let most = memchr::memchr(b'/', path).unwrap_or(path.len());
    // The longest first: usually `*` is a whole segment.
    (1..=most).rev().any(|length| matches(rest, &path[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::parse_answer;

    fn rules(texts: &[&str]) -> Rules {
        let answers: Vec<Answer> = texts.iter().map(|text| parse_answer(text).expect("an answer")).collect();
        Rules::new(&answers, &[], false).expect("good").expect("answers")
    }

    #[test]
    fn the_most_exact_path_answers() {
        let mut rules = rules(&[
            r#"{ path: "/users/*", body: 1B }"#,
            "{ path: /users/me, body: 2B }",
            "{ method: POST, path: /users/me, body: 3B }",
            r#"{ path: "/users/*/orders", body: 4B }"#,
            r#"{ path: "/img_*.jpg", body: 5B }"#,
        ]);
        for (method, target, place) in [
            ("GET", "/users/17", Some(0)),
            ("GET", "/users/me?x=/1", Some(1)),
            ("POST", "/users/me", Some(2)),
            ("POST", "/users/1", Some(0)),
            ("GET", "/users/1/orders", Some(3)),
            ("GET", "/img_1.jpg.jpg", Some(4)),
            ("GET", "/img_.jpg", None),
            ("GET", "/users/", None),
            ("GET", "/users/1/", None),
            ("GET", "/", None),
        ] {
            let chosen = rules.choose(method.as_bytes(), target.as_bytes());
            assert_eq!(chosen.map(|chosen| chosen.place), place, "{method} {target}");
        }
    }

    #[test]
    fn alternatives_sizes_and_delays_have_their_shares() {
        let mut rules = rules(&[
            r#"{ path: /, weight: 9, body: "choice(25% 1B, 75% 2B)", delay: 1ms }"#,
            "{ path: /, weight: 1, status: 404, body: 3B, delay: 2ms }",
        ]);
        rules.seed(7, 0);
        let mut counts = [0_u32; 3];
        for _ in 0..100_000 {
            let chosen = rules.choose(b"GET", b"/").expect("answered");
            assert_eq!(chosen.delay_ns, if chosen.place == 2 { 2_000_000 } else { 1_000_000 });
            counts[chosen.place as usize] += 1;
        }
        for (count, share) in counts.into_iter().zip([0.225, 0.675, 0.1]) {
            assert!((f64::from(count) / 1e5 - share).abs() < 0.01, "{counts:?}");
        }
    }
}
