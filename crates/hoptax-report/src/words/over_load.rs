//! Says what changes with the load. The answer comes from one load point. At another load point, the order of
//! gateways may be different, or their taxes may be many times as large. Load points are compared only if
//! they differ in nothing but the number of connections, of streams, or the rate.

use crate::words::format::{Scale, number};
use crate::words::sweeps::{Sweep, sweeps};
use crate::words::text::listed;
use crate::words::void;
use hoptax_analysis::{Analysis, Case, Difference, Load};

/// A tax that changes at least by this factor is worth a sentence.
const FACTOR: f64 = 2.0;

/// If two gateways can be told apart only at another load point, they are worth a sentence if the larger tax
/// exceeds the smaller one by this share.
const APART: f64 = 0.2;

/// A sentence names at most this many gateways.
const MOST_NAMED: usize = 3;

/// The load points that are compared with the answer's load point.
struct Course<'a> {
    analysis: &'a Analysis,
    sweep: Sweep,
    /// Place of the answer's load point in the sweep.
    from: usize,
}

/// A change between two gateways: at another load point, `less` adds less than `more`. At the answer's load
/// point, the order is the reverse (`is_flip`), or the two cannot be told apart.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change<'a> {
    less: &'a str,
    more: &'a str,
    is_flip: bool,
}

/// At most two sentences about what changes with the load for these gateways. They follow the answer, which
/// is about `load`. Empty if nothing changes.
pub(crate) fn in_words(analysis: &Analysis, load: &Load, gateways: &[&str]) -> String {
    let Some(course) = Course::new(analysis, load) else { return String::new() };
    let sentences = [course.order(gateways), course.growth(gateways)];
    sentences.into_iter().flatten().map(|sentence| format!(" {sentence}")).collect()
}

/// A sentence about how the tax of a gateway changes with the load. It follows a sentence about the tax at
/// `load`. `None` if the tax changes little.
pub(crate) fn of_gateway(analysis: &Analysis, load: &Load, gateway: &str) -> Option<String> {
    Course::new(analysis, load)?.growth(&[gateway])
}

impl<'a> Course<'a> {
    /// `None` if no measured load point can be compared with `load`.
    fn new(analysis: &'a Analysis, load: &Load) -> Option<Self> {
        let measured = |load: &&Load| {
            load.stages.is_none()
                && load.search.is_none()
                && analysis.cases.iter().any(|case| case.trials > 0 && case.load.index == load.index)
        };
        let loads: Vec<&Load> =
            analysis.noise_floor.iter().map(|floor| &floor.load).filter(measured).collect();
        let sweep = sweeps(&loads).into_iter().find(|sweep| sweep.loads.contains(&load.index))?;
        let from = sweep.loads.iter().position(|index| *index == load.index)?;
        Some(Self { analysis, sweep, from })
    }

    /// The load points that are heavier than that of the answer, in ascending order. If there are none, the
    /// lighter ones.
    fn others(&self) -> &[usize] {
        let heavier = &self.sweep.loads[self.from + 1..];
        if heavier.is_empty() { &self.sweep.loads[..self.from] } else { heavier }
    }

    fn answered(&self) -> usize {
        self.sweep.loads[self.from]
    }

    /// A load point by the property in which it differs: `512 connections`, `2,000/s`.
    fn named(&self, load: usize) -> String {
        let at = self
            .sweep
            .loads
            .iter()
            .position(|index| *index == load)
            .map_or(0.0, |place| self.sweep.at[place]);
        let plural = if at == 1.0 { "" } else { "s" };
        match self.sweep.axis {
            "rate" => format!("{}/s", number(at)),
            "streams" => format!("{at} stream{plural}"),
            _ => format!("{at} connection{plural}"),
        }
    }

    fn case(&self, gateway: &str, load: usize) -> Option<&'a Case> {
        let case = self.analysis.case(gateway, load).filter(|case| case.trials > 0)?;
        void::codes(case, self.analysis).is_empty().then_some(case)
    }

    fn tax(&self, gateway: &str, load: usize) -> Option<&'a Difference> {
        self.case(gateway, load)?.tax.as_ref()?.get(self.analysis.latency_metric())
    }

    /// Which of two gateways adds less at a load point: `Some(None)` if they cannot be told apart, `None` if
    /// they were not compared.
    fn less<'g>(&self, pair: [&'g str; 2], load: usize) -> Option<Option<&'g str>> {
        let metric = self.analysis.latency_metric();
        let is_pair = |one: &&hoptax_analysis::GatewayPair| {
            one.load.index == load && one.metric == metric && one.is_of(pair[0], pair[1])
        };
        let found = self.analysis.pairs.iter().find(is_pair)?;
        let [one, other] = pair;
        Some(match (found.is_larger(other), found.is_larger(one)) {
            (true, _) => Some(one),
            (_, true) => Some(other),
            (false, false) => None,
        })
    }

    fn changes<'g>(&self, gateways: &[&'g str], load: usize) -> Vec<Change<'g>> {
        let mut changes = Vec::new();
        for (index, one) in gateways.iter().enumerate() {
            for other in &gateways[index + 1..] {
                changes.extend(self.change([*one, *other], load));
            }
        }
        changes
    }

    fn change<'g>(&self, pair: [&'g str; 2], load: usize) -> Option<Change<'g>> {
        let before = self.less(pair, self.answered())?;
        let less = self.less(pair, load)??;
        let more = if less == pair[0] { pair[1] } else { pair[0] };
        let [small, large] = [less, more].map(|gateway| self.tax(gateway, load));
        let (small, large) = (small?.estimate.estimate, large?.estimate.estimate);
        let is_worth = before.is_some() || large - small >= APART * small.abs();
        (before != Some(less) && is_worth).then_some(Change { less, more, is_flip: before.is_some() })
    }

    /// A sentence about the furthest load point at which the order changes. It says from which load point on
    /// the change holds.
    fn order(&self, gateways: &[&str]) -> Option<String> {
        let others = self.others();
        let (place, changes) = others
            .iter()
            .enumerate()
            .rev()
            .map(|(place, load)| (place, self.changes(gateways, *load)))
            .find(|(_, changes)| !changes.is_empty())?;
        let load = others[place];
        let told = largest_group(&changes);
        let holds = |load: &usize| {
            let here = self.changes(gateways, *load);
            told.iter().all(|change| here.contains(change))
        };
        let first = others[..place].iter().rposition(|load| !holds(load)).map_or(0, |place| place + 1);
        let is_heaviest = self.sweep.loads.last() == Some(&load);
        let from = match first < place && is_heaviest {
            true => format!("From {} on", self.named(others[first])),
            false => format!("At {}", self.named(load)),
        };
        Some(self.order_in_words(&from, load, &told))
    }

    /// `told` has changes of one kind that share a gateway.
    fn order_in_words(&self, from: &str, load: usize, told: &[Change<'_>]) -> String {
        let tax = |gateway: &str| {
            let tax = self.tax(gateway, load).map_or(f64::NAN, |tax| tax.estimate.estimate);
            Scale::of_us(tax).value(tax)
        };
        let distinct = |of: fn(&Change<'_>) -> String| {
            let mut names: Vec<String> = told.iter().map(of).collect();
            names.dedup();
            let more = names.len().saturating_sub(MOST_NAMED);
            names.truncate(MOST_NAMED);
            (names, more)
        };
        let (less, others_less) = distinct(|change| change.less.to_owned());
        let (more, others_more) = distinct(|change| change.more.to_owned());
        let with_more = |mut names: Vec<String>, others: usize| {
            if others > 0 {
                names.push(format!("{others} more"));
            }
            listed(&names)
        };
        let taxes = |names: &[String]| listed(&names.iter().map(|name| tax(name)).collect::<Vec<_>>());
        let at = match from.starts_with("From") {
            true => format!("at {} ", self.named(load)),
            false => String::new(),
        };
        let (figures_less, figures_more) = (taxes(&less), taxes(&more));
        let answered = self.named(self.answered());
        match told[0].is_flip {
            true => format!(
                "{from}, the order is the reverse: {} add{} less than {} ({at}{figures_less} against \
                {figures_more}).",
                with_more(less.clone(), others_less),
                if less.len() == 1 { "s" } else { "" },
                with_more(more, others_more),
            ),
            false => format!(
                "{from}, {} add{} more than {} ({at}{figures_more} against {figures_less}); at {answered} \
                 they cannot be told apart.",
                with_more(more.clone(), others_more),
                if more.len() == 1 { "s" } else { "" },
                with_more(less, others_less),
            ),
        }
    }

    /// A sentence about the taxes that change by a large factor between the answer's load point and the
    /// furthest one.
    fn growth(&self, gateways: &[&str]) -> Option<String> {
        let (load, answered) = (*self.furthest()?, self.answered());
        let mut grown: Vec<(f64, &str, f64)> = gateways
            .iter()
            .filter_map(|gateway| {
                let (before, after) = (self.tax(gateway, answered)?, self.tax(gateway, load)?);
                let factor = factor(before, after)?;
                Some((factor, *gateway, after.estimate.estimate))
            })
            .collect();
        grown.sort_by(|one, other| other.0.total_cmp(&one.0));
        let others = grown.len().saturating_sub(MOST_NAMED);
        grown.truncate(MOST_NAMED);
        let (first, rest) = grown.split_first()?;
        let time = |us: f64| Scale::of_us(us).value(us);
        let times = |factor: f64| match factor {
            _ if factor >= 1.0 => format!("{} times", number(round(factor))),
            _ => Scale::percent().value(factor),
        };
        let mut parts = vec![format!(
            "{} adds {}, {} as much as at {}",
            first.1,
            time(first.2),
            if first.0 >= 1.0 { times(first.0) } else { format!("only {}", times(first.0)) },
            self.named(answered)
        )];
        parts.extend(
            rest.iter().map(|(factor, gateway, us)| format!("{gateway} {} ({})", time(*us), times(*factor))),
        );
        if others > 0 {
            parts.push(format!("{others} more change as much"));
        }
        Some(format!("At {} {}.", self.named(load), listed(&parts)))
    }

    /// The heaviest load point. If the answer's load point is the heaviest, the lightest one.
    fn furthest(&self) -> Option<&usize> {
        if self.from + 1 < self.sweep.loads.len() { self.sweep.loads.last() } else { self.others().first() }
    }
}

/// The largest group of changes that share a gateway on the same side. If any change is a flip, only flips
/// count.
fn largest_group<'g>(changes: &[Change<'g>]) -> Vec<Change<'g>> {
    let is_flip = changes.iter().any(|change| change.is_flip);
    let kind: Vec<Change<'g>> = changes.iter().copied().filter(|change| change.is_flip == is_flip).collect();
    let groups = kind.iter().flat_map(|change| {
        let of_less = kind.iter().copied().filter(|other| other.less == change.less).collect::<Vec<_>>();
        let of_more = kind.iter().copied().filter(|other| other.more == change.more).collect::<Vec<_>>();
        [of_less, of_more]
    });
    // If several groups are the largest, takes the first one, so that the same figures give the same
    // sentence.
    groups.fold(Vec::new(), |largest, group| if group.len() > largest.len() { group } else { largest })
}

/// The factor of a tax's change. `None` if it changes little, or if the change may be chance.
fn factor(before: &Difference, after: &Difference) -> Option<f64> {
    let ((low, high), (new_low, new_high)) = (before.estimate.interval()?, after.estimate.interval()?);
    let factor = after.estimate.estimate / before.estimate.estimate;
    let is_clear = before.distinguishable && after.distinguishable && low > 0.0 && new_low > 0.0;
    let is_apart = new_low > high || new_high < low;
    (is_clear && is_apart && (factor >= FACTOR || factor <= 1.0 / FACTOR)).then_some(factor)
}

/// A factor with two significant digits: more would pretend a precision that taxes do not have.
fn round(factor: f64) -> f64 {
    let step = 10_f64.powf(factor.log10().floor() - 1.0);
    (factor / step).round() * step
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "by at least {} of the smaller tax" percent(APART);
    METHODOLOGY "change by a factor of at least {} with" number(FACTOR);
}

#[cfg(test)]
mod tests {
    use crate::words::sentence;
    use hoptax_analysis::fixture::{Run, closed_point, open_point, via};
    use hoptax_plan::LoadPoint;

    /// Four rounds at these load points. Each gateway has a response time for each load point, µs; direct
    /// takes 100 µs.
    fn run(loads: Vec<LoadPoint>, gateways: &[(&str, &[u64])]) -> Run {
        let mut run = Run::with_load(loads);
        for round in 0..4 {
            for load in 0..run.record.load.len() as u32 {
                run.direct_trials(round, |trial| trial.at_load(load).all_at_us(100));
                for (gateway, times) in gateways {
                    let time = times[load as usize] + u64::from(round);
                    run.push(via(gateway, round).at_load(load).all_at_us(time));
                }
            }
        }
        run
    }

    fn closed(connections: &[u32]) -> Vec<LoadPoint> {
        connections.iter().map(|connections| closed_point(*connections, 1)).collect()
    }

    fn answer(loads: Vec<LoadPoint>, gateways: &[(&str, &[u64])]) -> String {
        let run = run(loads, gateways);
        sentence::answer(&run.record, &run.analyse()).expect("an answer")
    }

    #[test]
    fn names_the_load_from_which_the_order_flips() {
        let told =
            answer(closed(&[1, 8, 50, 512]), &[("a", &[150, 150, 150, 150]), ("b", &[130, 140, 180, 190])]);
        insta::assert_snapshot!(told);
    }

    #[test]
    fn a_flip_at_one_load_point_is_not_said_to_last() {
        let told = answer(closed(&[1, 50, 512]), &[("a", &[150, 150, 150]), ("b", &[130, 180, 140])]);
        insta::assert_snapshot!(told);
    }

    #[test]
    fn gateways_that_come_apart_are_named_with_their_taxes() {
        let told = answer(
            closed(&[1, 64]),
            &[("nginx", &[150, 587]), ("small-pool", &[150, 2560]), ("haproxy", &[150, 590])],
        );
        insta::assert_snapshot!(told);
    }

    #[test]
    fn says_nothing_if_nothing_changes() {
        let told = answer(closed(&[1, 64]), &[("a", &[150, 160]), ("b", &[250, 260])]);
        assert!(told.ends_with("(98–102).") || told.matches(". ").count() == 1, "{told}");
        assert!(!told.contains("64 connections"), "{told}");
    }

    #[test]
    fn rates_are_compared_too_but_not_other_loops() {
        let rates = || vec![open_point(1000.0, 8, 1), open_point(4000.0, 8, 1), closed_point(8, 1)];
        insta::assert_snapshot!(answer(rates(), &[("a", &[150, 150, 150]), ("b", &[130, 190, 100])]));
        let told = answer(rates(), &[("a", &[150, 150, 900]), ("b", &[130, 130, 100])]);
        assert!(!told.contains("reverse") && !told.contains(" times"), "{told}");
    }

    #[test]
    fn a_lighter_load_than_the_answers_counts_if_there_is_no_heavier_one() {
        let rates = vec![open_point(4000.0, 8, 1), open_point(1000.0, 8, 1)];
        insta::assert_snapshot!(answer(rates, &[("a", &[150, 150]), ("b", &[130, 190])]));
    }

    #[test]
    fn a_void_case_takes_no_part() {
        let gateways: [(&str, &[u64]); 2] = [("a", &[150, 150]), ("b", &[130, 900])];
        let mut run = run(closed(&[1, 64]), &gateways);
        run.trials.retain(|trial| trial.contender != "b" || trial.load == 0);
        run.push(via("b", 9).at_load(1).status(500, 999));
        let told = sentence::answer(&run.record, &run.analyse()).expect("an answer");
        assert!(!told.contains("reverse") && !told.contains("64 connections"), "{told}");
    }

    #[test]
    fn one_gateway_has_its_growth_in_its_own_sentence() {
        let run = run(closed(&[1, 64]), &[("nginx", &[150, 2560])]);
        insta::assert_snapshot!(sentence::summaries(&run.record, &run.analyse()).remove(0).in_full());
    }
}
