//! Puts the ranking of gateways into words.

use crate::words::format::Scale;
use crate::words::text::{listed, place, with_interval};
use hoptax_analysis::headline::{Ranked, Ranking};
use hoptax_plan::Metric;
use hoptax_stats::Estimate;

/// The answer states the differences of at most this many gateways, so that it remains short. It only names
/// the others.
const MOST_DIFFERENCES: usize = 4;

/// The ranking in words. It names the winner, or the gateways that share the lead, and says how much more the
/// others add. `message` is the word for one message.
pub(crate) fn in_words(ranking: &Ranking<'_>, message: &str) -> String {
    let at = at(ranking, message);
    let mut left = MOST_DIFFERENCES;
    let mut answer = match ranking.leaders.as_slice() {
        [winner] => won(winner, ranking, &at),
        leaders if ranking.is_in_the_noise() && ranking.beaten.is_empty() && ranking.between.is_empty() => {
            format!("No gateway's added latency is distinguishable from noise {at}: {}.", figures(leaders))
        }
        leaders => shared(leaders, ranking, &at, &mut left),
    };
    let first = ranking.leaders[0].gateway;
    if !ranking.between.is_empty() {
        let others = match ranking.leaders.as_slice() {
            [_, other] => other.gateway,
            _ => "all of these",
        };
        let more = behind(&ranking.between, &format!(" than {first}"), &mut left);
        answer.push_str(&format!(" {more}, but not clearly more than {others}."));
    }
    if !ranking.beaten.is_empty() {
        let than = if ranking.leaders.len() > 1 { format!(" than {first}") } else { String::new() };
        answer.push_str(&format!(" {}.", behind(&ranking.beaten, &than, &mut left)));
    }
    if !ranking.unranked.is_empty() {
        let unranked: Vec<String> = ranking.unranked.iter().map(ToString::to_string).collect();
        answer.push_str(&format!(
            " Not ranked, because they have too few trials at this load: {}.",
            listed(&unranked)
        ));
    }
    answer
}

/// The order of the gateways, without amounts. `message` as in [`in_words`].
pub(crate) fn order_in_words(ranking: &Ranking<'_>, message: &str) -> String {
    let names =
        |gateways: &[Ranked<'_>]| gateways.iter().map(|one| one.gateway.to_owned()).collect::<Vec<_>>();
    let more =
        |gateways: &[Ranked<'_>]| format!(" {} {} more", listed(&names(gateways)), add(gateways.len()));
    let at = at(ranking, message);
    let mut answer = match ranking.leaders.as_slice() {
        [winner] => format!("Only the order is known: {} adds least {at}.", winner.gateway),
        leaders => {
            let names = listed(&names(leaders));
            format!("Only the order is known: no clear winner {at}; {names} cannot be told apart.")
        }
    };
    if !ranking.between.is_empty() {
        let first = ranking.leaders[0].gateway;
        answer.push_str(&format!(
            "{} than {first}, but not clearly more than all others.",
            more(&ranking.between)
        ));
    }
    if !ranking.beaten.is_empty() {
        answer.push_str(&format!("{}.", more(&ranking.beaten)));
    }
    answer
}

/// The figure and the load point that the answer is about.
fn at(ranking: &Ranking<'_>, message: &str) -> String {
    let each = match ranking.metric {
        Metric::AddedP50 => String::new(),
        Metric::AddedFirstMessageP50 => "in time to the first content ".to_owned(),
        _ => format!("per {message} "),
    };
    format!("{each}at the median {}", place(ranking.load))
}

fn won(winner: &Ranked<'_>, ranking: &Ranking<'_>, at: &str) -> String {
    let noise = if ranking.is_in_the_noise() { ", which is not distinguishable from noise" } else { "" };
    format!("{} adds least {at}: {}{noise}.", winner.gateway, figure(winner))
}

/// The gateways that share the lead, and how far they are apart.
fn shared(leaders: &[Ranked<'_>], ranking: &Ranking<'_>, at: &str, left: &mut usize) -> String {
    let noise = match (ranking.is_in_the_noise(), leaders.len()) {
        (false, _) => "",
        (true, 2) => ", and neither is distinguishable from noise",
        (true, _) => ", and none is distinguishable from noise",
    };
    if let [_, second] = leaders {
        *left -= 1;
        let apart = second.more.as_ref().map_or("no round has both".into(), |more| {
            format!("difference {}, {}", scale(more).value(more.estimate), scale(more).interval_of(more))
        });
        return format!("No clear winner {at}: {} cannot be told apart ({apart}){noise}.", figures(leaders));
    }
    let other = |one: &Ranked<'_>| match one.more.as_ref().filter(|_| spend(left)) {
        Some(difference) => {
            let (amount, interval) = more(difference);
            format!("{} ({amount}, {interval})", one.gateway)
        }
        None => one.gateway.to_owned(),
    };
    let others: Vec<String> = leaders[1..].iter().map(other).collect();
    let (first, tax, others) = (leaders[0].gateway, figure(&leaders[0]), listed(&others));
    format!("No clear winner {at}: {first} adds {tax}; {others} cannot be told apart from it{noise}.")
}

/// How much more these gateways add than the first leader: `haproxy adds 9 µs more (4–14) and envoy 99 µs
/// more (90–108)`. `than` follows the first amount.
fn behind(gateways: &[Ranked<'_>], than: &str, left: &mut usize) -> String {
    let (mut told, mut named) = (Vec::new(), Vec::new());
    for one in gateways {
        match one.more.as_ref().filter(|_| spend(left)) {
            Some(difference) => {
                let (amount, interval) = more(difference);
                let (adds, than) = if told.is_empty() { ("adds ", than) } else { ("", "") };
                told.push(format!("{} {adds}{amount}{than} ({interval})", one.gateway));
            }
            None => named.push(one.gateway.to_owned()),
        }
    }
    match (told.is_empty(), named.is_empty()) {
        (_, true) => listed(&told),
        (true, false) if named.len() == 1 => format!("{} adds more{than}", named[0]),
        (true, false) => format!("{} add more{than}", listed(&named)),
        (false, false) => format!("{}; {} also {} more", listed(&told), listed(&named), add(named.len())),
    }
}

fn add(count: usize) -> &'static str {
    if count == 1 { "adds" } else { "add" }
}

/// Takes one from the number of differences that may still be stated. False if none is left.
fn spend(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

/// A difference and its interval: `9 µs more` and `4–14`.
fn more(difference: &Estimate) -> (String, String) {
    let (scale, Estimate { estimate, low, high, trials }) = (scale(difference), *difference);
    if estimate < 0.0 {
        let less =
            Estimate { estimate: -estimate, low: high.map(|high| -high), high: low.map(|low| -low), trials };
        return (format!("{} less", scale.value(less.estimate)), scale.interval_of(&less));
    }
    (format!("{} more", scale.value(estimate)), scale.interval_of(difference))
}

fn scale(estimate: &Estimate) -> Scale {
    Scale::of_us(estimate.estimate)
}

/// Each gateway with its tax: `nginx 72 µs (66–78) and haproxy 75 µs (70–81)`.
fn figures(ranked: &[Ranked<'_>]) -> String {
    let (told, named) = ranked.split_at(ranked.len().min(MOST_DIFFERENCES));
    let told = told.iter().map(|one| format!("{} {}", one.gateway, figure(one)));
    let named = named.iter().map(|one| one.gateway.to_owned());
    listed(&told.chain(named).collect::<Vec<_>>())
}

fn figure(ranked: &Ranked<'_>) -> String {
    with_interval(&ranked.tax.estimate, scale(&ranked.tax.estimate))
}

#[cfg(test)]
mod tests {
    use crate::words::sentence;
    use hoptax_analysis::fixture::{Run, via};

    /// The answer for gateways with these response times, µs, one per round. `direct` has the times of the
    /// two direct trials of each round, µs.
    fn answer(direct: [u64; 2], gateways: &[(&str, &[u64])]) -> String {
        let mut run = Run::closed(1);
        for round in 0..5 {
            run.direct(round, direct[0], direct[1]);
        }
        for (gateway, times) in gateways {
            for (round, time) in (0..).zip(*times) {
                run.push(via(gateway, round).all_at_us(*time));
            }
        }
        sentence::answer(&run.record, &run.analyse()).expect("two gateways")
    }

    const QUIET: [u64; 2] = [100, 100];
    const NOISY: [u64; 2] = [100, 180];
    const FAST: &[u64] = &[140, 141, 142, 143, 144];
    const ALIKE: &[u64] = &[141, 140, 143, 142, 145];
    const SCATTERED: &[u64] = &[130, 150, 170, 190, 148];
    const MIDDLE: &[u64] = &[170, 171, 172, 173, 174];
    const SLOW: &[u64] = &[400, 401, 402, 403, 404];
    const SLOWER: &[u64] = &[500, 501, 502, 503, 504];

    #[test]
    fn one_gateway_clearly_adds_least() {
        insta::assert_snapshot!(answer(QUIET, &[("envoy", SLOW), ("nginx", FAST), ("haproxy", MIDDLE)]));
    }

    #[test]
    fn two_share_the_lead() {
        insta::assert_snapshot!(answer(QUIET, &[("envoy", ALIKE), ("nginx", FAST)]));
        insta::assert_snapshot!(answer(QUIET, &[("envoy", ALIKE), ("nginx", FAST), ("kong", SLOW)]));
    }

    #[test]
    fn a_gateway_may_be_behind_only_one_of_the_leaders() {
        let told = answer(QUIET, &[("fast", FAST), ("kong", SCATTERED), ("middle", MIDDLE), ("slow", SLOW)]);
        insta::assert_snapshot!(told);
    }

    #[test]
    fn several_share_the_lead() {
        insta::assert_snapshot!(answer(QUIET, &[("a", FAST), ("b", ALIKE), ("c", ALIKE), ("d", SLOW)]));
    }

    #[test]
    fn many_gateways_are_only_named() {
        let told = answer(
            QUIET,
            &[
                ("a", FAST),
                ("b", MIDDLE),
                ("c", SLOW),
                ("d", SLOW),
                ("e", SLOW),
                ("f", SLOWER),
                ("g", SLOWER),
            ],
        );
        assert_eq!(told.matches(" more (").count(), 4, "{told}");
        insta::assert_snapshot!(told);
        let alike: Vec<(&str, &[u64])> = ["a", "b", "c", "d", "e", "f", "g"].map(|one| (one, FAST)).into();
        insta::assert_snapshot!(answer(QUIET, &alike));
    }

    #[test]
    fn names_what_is_not_ranked() {
        insta::assert_snapshot!(answer(QUIET, &[("nginx", FAST), ("kong", SLOW), ("late", &[150])]));
    }

    #[test]
    fn nothing_to_choose_from() {
        let alone = Run::steady(3, 100, &[("nginx", 150)]);
        assert_eq!(sentence::answer(&alone.record, &alone.analyse()), None);
    }

    #[test]
    fn an_answer_within_the_noise_says_so() {
        insta::assert_snapshot!(answer(NOISY, &[("envoy", FAST), ("nginx", FAST)]));
        insta::assert_snapshot!(answer(NOISY, &[("envoy", FAST), ("nginx", ALIKE), ("kong", SLOW)]));
        insta::assert_snapshot!(answer(NOISY, &[("nginx", FAST), ("kong", SLOW)]));
    }
}
