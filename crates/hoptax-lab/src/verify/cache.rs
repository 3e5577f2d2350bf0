//! Notices that a cache answers instead of the upstream, by the headers that caches add.

use super::Answer;

/// Headers that say whether a cache gave the answer. The standard ones are `age` (RFC 9111, section 5.1) and
/// `cache-status` (RFC 9211).
const HEADERS: [&str; 7] =
    ["age", "cache-status", "cf-cache-status", "x-cache", "x-cache-status", "x-proxy-cache", "x-varnish"];

/// A header that says that a cache gave the gateway's answer, and that direct's answer does not have:
/// `x-cache: HIT`. If the gateway's first answer has such a header but came from the upstream, `again` sends
/// the request once more.
pub(super) fn found(
    direct: &Answer,
    gateway: &Answer,
    again: impl FnOnce() -> Option<Answer>,
) -> Option<String> {
    let has_any = |answer: &Answer| HEADERS.iter().any(|name| answer.headers.contains_key(*name));
    if !has_any(gateway) || says(direct).is_some() {
        return None;
    }
    says(gateway).or_else(|| says(&again()?))
}

fn says(answer: &Answer) -> Option<String> {
    let mut all = HEADERS.iter().filter_map(|name| Some((name, answer.headers.get(*name)?)));
    let is_hit = |(name, value): &(&&str, &String)| match **name {
        // Only a cache adds an age.
        "age" => value.trim().parse::<u64>().is_ok(),
        // A hit has the numbers of two requests: this one, and the one that filled the cache.
        "x-varnish" => value.split_whitespace().count() > 1,
        _ => value.to_ascii_lowercase().contains("hit"),
    };
    all.find(is_hit).map(|(name, value)| format!("{name}: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&str, &str)]) -> Answer {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Answer { status: 200, headers: headers.collect(), body: Vec::new() }
    }

    #[test]
    fn hits_are_noticed_in_the_first_or_the_second_answer() {
        let direct = answer(&[]);
        let miss = answer(&[("x-cache-status", "MISS")]);
        for (name, value) in [
            ("age", "0"),
            ("x-cache-status", "HIT"),
            ("x-cache", "Hit from cloudfront"),
            ("cache-status", "edge; hit"),
            ("x-varnish", "32770 3"),
        ] {
            let hit = answer(&[(name, value)]);
            let expected = Some(format!("{name}: {value}"));
            assert_eq!(found(&direct, &hit, || panic!("known")), expected);
            assert_eq!(found(&direct, &miss, || Some(hit.clone())), expected);
            assert_eq!(found(&hit, &hit, || panic!("direct has it too")), None);
        }
        let none =
            [answer(&[("x-varnish", "32770")]), miss.clone(), answer(&[("cache-status", "edge; fwd=miss")])];
        for one in none {
            assert_eq!(found(&direct, &one, || Some(miss.clone())), None);
        }
        assert_eq!(found(&direct, &direct, || panic!("no header of a cache")), None);
        let both = answer(&[("age", "x"), ("x-cache", "HIT")]);
        assert_eq!(found(&direct, &both, || None).as_deref(), Some("x-cache: HIT"));
    }
}
