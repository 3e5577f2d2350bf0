//! Compares the figures around the plan's events with the figures of the rest of the same trials.
//!
//! Each window belongs to the latest event that has begun, until [`AFTER_NS`] after the end of that event.
//! Windows that belong to no event form the quiet stretch of the trial. Figures are computed from all trials
//! of a case together, and intervals are over rounds.

use crate::trials::counts::failures as failures_of;
use crate::trials::trial::Trial;
use hdrhistogram::Histogram;
use hoptax_format::clock::SECOND;
use hoptax_format::record::{WINDOW_NS, Window};
use hoptax_record::EventRecord;
use hoptax_record::report::{EventFigures, Stretch};
use hoptax_stats::{Estimate, Rounds, Statistic, Units, merge, of_mean, of_merged};

/// Time after the end of an event during which windows still belong to the event, ns. In this time, old
/// workers exit, connection pools fill, and routes settle.
const AFTER_NS: u64 = SECOND;

/// Limit for the share of unsuccessful answers outside of all events. Up to this share, unsuccessful answers
/// count as caused by the events.
const FEW: f64 = 0.001;

/// The figures of each event of a case, in the plan's order.
pub(crate) fn figures(trials: &[Trial<'_>]) -> Vec<EventFigures> {
    let most = trials.iter().map(|trial| trial.record.events.len()).max().unwrap_or(0);
    (0..most).filter_map(|index| of_event(trials, index)).collect()
}

fn of_event(trials: &[Trial<'_>], index: usize) -> Option<EventFigures> {
    let records: Vec<&EventRecord> =
        trials.iter().filter_map(|trial| trial.record.events.get(index)).collect();
    let first = records.first()?;
    let mut failed: Vec<String> = records.iter().filter_map(|record| record.failed.clone()).collect();
    failed.sort();
    failed.dedup();
    let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    let took: Vec<f64> =
        records.iter().filter_map(|record| Some(us(record.done_ns?.saturating_sub(record.at_ns?)))).collect();
    let answered: Vec<f64> =
        records.iter().filter_map(|record| Some(us(record.new_route?.after_ns))).collect();
    let least = |estimate: Estimate| estimate.at_least(0.0);
    Some(EventFigures {
        event: first.event.action.to_string(),
        at_s: first.event.at.as_secs_f64(),
        trials: records.iter().filter(|record| record.failed.is_none()).count() as u32,
        failed,
        took_us: of_mean(&took).map(least),
        new_route_after_us: of_mean(&answered).map(least),
        around: stretch(trials, |owner| owner == Some(index)),
        quiet: stretch(trials, |owner| owner.is_none()),
    })
}

/// The figures of the windows for whose owners `accepts` returns true.
fn stretch(trials: &[Trial<'_>], accepts: impl Fn(Option<usize>) -> bool) -> Stretch {
    let mut stretch = Stretch::default();
    let mut times: Vec<(u32, Histogram<u64>)> = Vec::new();
    for trial in trials {
        let windows = trial.load.windows.iter().zip(owners(trial, AFTER_NS));
        for (window, _) in windows.filter(|(_, owner)| accepts(*owner)) {
            stretch.seconds += WINDOW_NS as f64 / SECOND as f64;
            stretch.completed += window.completed;
            stretch.not_ok += window.completed - window.ok.min(window.completed);
            stretch.failed += failures(window);
            stretch.connections_opened += window.opened;
            for (cause, count) in &window.causes {
                *stretch.causes.entry(*cause).or_default() += count;
            }
            let decoded = window.response_time.as_ref().and_then(|encoded| encoded.decode().ok());
            times.extend(decoded.map(|decoded| (trial.round(), decoded)));
        }
    }
    let units = Units::new(times.iter().map(|(round, _)| *round));
    let by_unit = times.iter().filter_map(|(round, times)| Some((units.of(*round)?, times)));
    let rounds = Rounds::new(units.count(), by_unit);
    stretch.p99_us = of_merged(&units, rounds.reader(Statistic::P99)).map(|p99| p99.at_least(0.0));
    let all = merge(times.iter().map(|(_, times)| times));
    stretch.slowest_us =
        Statistic::Max.of(&all).map(|slowest| Estimate::bare(slowest, units.rounds() as u32));
    stretch
}

fn failures(window: &Window) -> u64 {
    window.timeouts + window.errors
}

/// For each window of a trial, the index of the event that it belongs to. A window belongs to an event until
/// `after_ns` after the end of the event.
fn owners(trial: &Trial<'_>, after_ns: u64) -> Vec<Option<usize>> {
    let mut owners = vec![None; trial.load.windows.len()];
    for (index, event) in trial.record.events.iter().enumerate() {
        let Some(at) = event.at_ns else { continue };
        let answered = event.new_route.map_or(at, |new| at + new.after_ns);
        let end = event.done_ns.unwrap_or(at).max(answered).saturating_add(after_ns);
        // Windows after the start of a later event belong to the later event.
        let first = (at / WINDOW_NS) as usize;
        for (number, owner) in owners.iter_mut().enumerate().skip(first) {
            let earlier = if number as u64 * WINDOW_NS < end { Some(index) } else { None };
            *owner = earlier.or(*owner);
        }
    }
    owners
}

impl Trial<'_> {
    /// True if an event of the plan took place in this trial.
    pub(crate) fn has_events(&self) -> bool {
        self.record.events.iter().any(|event| event.at_ns.is_some())
    }

    /// For each window, true if it belongs to an event.
    pub(crate) fn eventful_windows(&self) -> Vec<bool> {
        owners(self, AFTER_NS).iter().map(Option::is_some).collect()
    }

    /// True if the plan's events caused the unsuccessful answers: almost none occurred outside of the events.
    pub(crate) fn rejects_by_events_only(&self, timeout_ns: u64) -> bool {
        let owners = owners(self, AFTER_NS.saturating_add(timeout_ns));
        let beside = self.load.windows.iter().zip(&owners).filter(|(_, owner)| owner.is_none());
        let (rejected, all) = beside.fold((0, 0), |(rejected, all), (window, _)| {
            (rejected + window.completed.saturating_sub(window.ok), all + window.completed)
        });
        self.has_events() && rejected as f64 <= all as f64 * FEW
    }

    /// Number of failed requests that the plan's events caused.
    pub(crate) fn failures_of_events(&self, timeout_ns: u64) -> u64 {
        failures_of(&self.load.counts).saturating_sub(self.failures_beside_events(timeout_ns))
    }

    /// Number of failed requests outside of all events. A request that an event delays fails up to
    /// `timeout_ns` later. Windows therefore belong to an event for `timeout_ns` longer than usual.
    pub(crate) fn failures_beside_events(&self, timeout_ns: u64) -> u64 {
        let all = failures_of(&self.load.counts);
        if !self.has_events() {
            return all;
        }
        let owners = owners(self, AFTER_NS.saturating_add(timeout_ns));
        let windows = &self.load.windows;
        let beside: u64 = windows
            .iter()
            .zip(&owners)
            .filter(|(_, owner)| owner.is_none())
            .map(|(window, _)| failures(window))
            .sum();
        let seen: u64 = windows.iter().map(failures).sum();
        // Requests that failed after the last window were sent before the end of the last window. They count
        // as if they had failed in the last window.
        let after = if owners.last().is_some_and(Option::is_none) { all.saturating_sub(seen) } else { 0 };
        beside + after
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "from its start to {} after its end" time(AFTER_NS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, closed_point, via};
    use hoptax_format::record::Cause;
    use hoptax_plan::{Action, Event};
    use hoptax_record::NewRoute;
    use std::time::Duration;

    fn event(at_ms: u64, took_ms: u64, action: Action) -> EventRecord {
        EventRecord {
            event: Event { at: Duration::from_millis(at_ms), action, gateway: None },
            at_ns: Some(at_ms * 1_000_000),
            done_ns: Some((at_ms + took_ms) * 1_000_000),
            failed: None,
            new_route: None,
        }
    }

    /// Five seconds of 1 ms responses, with a restart at 2 s. The restart changes eight windows. In the first
    /// two, responses take 80 ms. The first window also has thirty failures. The other six windows are empty.
    fn run() -> Run {
        let mut run = Run::with_load(vec![closed_point(4, 5)]);
        for round in 0..3 {
            let mut windows = vec![vec![1000; 100]; 50];
            run.direct_trials(round, |trial| trial.windows_us(&windows));
            windows[20] = vec![80_000 + 1000 * u64::from(round); 100];
            windows[21] = vec![80_000; 100];
            windows[22..28].fill(Vec::new());
            let mut made = via("nginx", round).windows_us(&windows);
            made.0.events = vec![event(2000, 100 + 10 * u64::from(round), Action::RestartGateway)];
            let load = made.0.load_record.as_mut().expect("made with one");
            (load.windows[20].errors, load.windows[20].opened) = (30, 4);
            load.windows[20].causes = [(Cause::ConnectRefused, 30)].into();
            (load.counts.connect_errors, load.counts.scheduled) = (30, load.counts.scheduled + 30);
            run.push(made);
        }
        run
    }

    #[test]
    fn an_event_is_compared_with_the_rest_of_the_trial() {
        let analysis = run().analyse();
        assert_eq!(analysis.case("direct", 0).expect("a case").events, []);
        let events = &analysis.case("nginx", 0).expect("a case").events;
        let [restart] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((restart.event.as_str(), restart.at_s, restart.trials), ("restart-gateway", 2.0, 3));
        let took = restart.took_us.expect("done");
        assert!((took.estimate - 110_000.0).abs() < 1.0 && took.interval().is_some(), "{took:?}");
        let around = &restart.around;
        assert_eq!((around.failed, around.connections_opened), (90, 12));
        assert_eq!(around.causes, [(Cause::ConnectRefused, 90)].into());
        // The event lasts from 2.0 to 3.1 s (3.11 and 3.12 s in later rounds), which is eleven or twelve
        // windows.
        assert!((around.seconds - 3.5).abs() < 0.11, "{}", around.seconds);
        let p99 = around.p99_us.expect("samples").estimate;
        assert!((80_000.0..=83_000.0).contains(&p99), "{p99}");
        assert!(around.slowest_us.expect("samples").estimate >= 81_000.0);
        assert_eq!((restart.quiet.failed, restart.quiet.connections_opened), (0, 0));
        assert!(restart.quiet.p99_us.expect("samples").estimate < 1_020.0);
        assert!((around.seconds + restart.quiet.seconds - 15.0).abs() < 1e-6, "every window is on one side");
    }

    #[test]
    fn a_later_event_takes_over_and_a_failed_one_owns_no_window() {
        let mut made = via("nginx", 0).windows_us(&vec![vec![1000; 10]; 50]);
        let mut route = event(2500, 10, Action::ChangeRoute { route: hoptax_plan::RoutePosition::Last });
        route.new_route = Some(NewRoute { after_ns: SECOND, questions: 9 });
        let never = EventRecord {
            at_ns: None,
            done_ns: None,
            failed: Some("late".into()),
            ..event(4900, 0, Action::Reload)
        };
        made.0.events = vec![event(2000, 10, Action::Reload), route, never];
        let trial = Trial::read(&made.0).expect("good");
        let owners = owners(&trial, AFTER_NS);
        let of = |event| owners.iter().filter(|owner| **owner == event).count();
        // The route answered at 3.5 s, so windows until 4.5 s belong to the event.
        assert_eq!((of(Some(0)), of(Some(1)), of(Some(2)), of(None)), (5, 20, 0, 25));
        let figures = figures(std::slice::from_ref(&trial));
        assert_eq!(figures[1].new_route_after_us.map(|after| after.estimate), Some(1e6));
        assert_eq!((figures[2].trials, figures[2].failed.as_slice()), (0, &["late".to_owned()][..]));
    }

    #[test]
    fn failures_of_a_planned_restart_raise_no_finding_and_others_do() {
        let codes = |run: &Run| run.analyse().case("nginx", 0).expect("a case").findings.clone();
        assert!(!codes(&run()).contains(&"errors"), "{:?}", codes(&run()));
        assert!(!codes(&run()).contains(&"unsteady"), "{:?}", codes(&run()));
        let mut unasked = run();
        unasked.trials.iter_mut().for_each(|trial| trial.events.clear());
        assert!(
            codes(&unasked).contains(&"errors") && codes(&unasked).contains(&"unsteady"),
            "{:?}",
            codes(&unasked)
        );
        let mut faulty = run();
        for trial in faulty.trials.iter_mut().filter(|trial| trial.contender == "nginx") {
            let load = trial.load_record.as_mut().expect("made with one");
            load.windows[5].errors += 40;
            (load.counts.resets, load.counts.scheduled) = (40, load.counts.scheduled + 40);
        }
        assert!(codes(&faulty).contains(&"errors"), "failures before the restart are not its effect");
    }
}
