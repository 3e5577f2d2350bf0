//! Carries out a plan's events (reload, restart, route change) while a trial is measured.
//!
//! A separate thread waits for the measured time to begin, and then carries out the events in order.
//! Therefore neither the generator nor the sampler has to wait for a gateway that reloads slowly.

use super::traffic::RouteAsker;
use super::trial::nanoseconds;
use hoptax_format::clock;
use hoptax_format::record::LoadRecord;
use hoptax_lab::features::Change;
use hoptax_lab::verify::Requests;
use hoptax_lab::{Controller, Effect};
use hoptax_plan::{Action, Event};
use hoptax_record::{EventRecord, NewRoute};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Pause between two requests to a new route.
const RETRY_AFTER: Duration = Duration::from_millis(2);
/// Maximum time to wait until a new route answers.
const ROUTE_LIMIT: Duration = Duration::from_secs(10);
/// Timeout of each request to a new route.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(1);

/// Result of one event of a trial. Times are values of the monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventResult {
    event: Event,
    /// Time at which the event began. Absent if the trial ended before the event.
    begun_ns: Option<u64>,
    done_ns: Option<u64>,
    outcome: Result<Option<NewRoute>, String>,
}

/// Carries out the events of one trial.
pub(super) struct EventRunner {
    /// The events, sorted by time.
    pub(super) events: Vec<Event>,
    pub(super) gateway: Option<Box<dyn Controller>>,
    pub(super) upstream: Option<Box<dyn Controller>>,
    pub(super) route: Option<RouteCheck>,
}

impl EventRunner {
    /// Carries out all events. The channel `begun` receives the start of the measured time, and is closed
    /// when the trial ends.
    pub(super) fn run(mut self, begun: &Receiver<u64>) -> Vec<EventResult> {
        let started = begun.recv().ok();
        let events = std::mem::take(&mut self.events);
        let one = |event: Event| match started
            .filter(|started| is_in_time(begun, started + nanoseconds(event.at)))
        {
            Some(_) => self.one(event, begun),
            None => EventResult {
                event,
                begun_ns: None,
                done_ns: None,
                outcome: Err("the trial ended before this event was due".into()),
            },
        };
        events.into_iter().map(one).collect()
    }

    fn one(&mut self, event: Event, trial: &Receiver<u64>) -> EventResult {
        let check = self.route.as_mut().filter(|_| matches!(event.action, Action::ChangeRoute { .. }));
        let begun = clock::now();
        let controller = if event.action.is_upstream() { &mut self.upstream } else { &mut self.gateway };
        let done = match controller {
            Some(controller) => controller.act(event.action),
            None => Err("hoptax did not start this service and cannot control it".into()),
        };
        let done_ns = done.is_ok().then(clock::now);
        let outcome = done.and_then(|Effect { new_route, .. }| match (check, new_route) {
            (Some(check), Some(prefix)) => check.wait(&prefix, begun, trial).map(Some),
            _ => Ok(None),
        });
        EventResult { event, begun_ns: Some(begun), done_ns, outcome }
    }
}

/// Waits until the time `due`. Returns `false` if the trial ends before this time.
fn is_in_time(trial: &Receiver<u64>, due: u64) -> bool {
    loop {
        let left = due.saturating_sub(clock::now());
        if left == 0 {
            return !matches!(trial.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
        }
        match trial.recv_timeout(Duration::from_nanos(left)) {
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) | Ok(_) => {}
        }
    }
}

/// Sends requests to a route that was just added to a gateway, until the route answers.
pub(super) struct RouteCheck {
    pub(super) asker: Box<dyn RouteAsker>,
    pub(super) address: SocketAddr,
    pub(super) requests: Requests,
    pub(super) change: Change,
    /// Prefix of the route that the load uses.
    pub(super) loaded_prefix: String,
}

impl RouteCheck {
    /// Waits until the new route answers with success, the trial ends, or [`ROUTE_LIMIT`] has passed.
    fn wait(&mut self, prefix: &str, begun: u64, trial: &Receiver<u64>) -> Result<NewRoute, String> {
        let change =
            Change { prefix: self.change.prefix.replace(&self.loaded_prefix, prefix), ..self.change.clone() };
        let deadline = Instant::now() + ROUTE_LIMIT;
        let mut questions = 0;
        loop {
            questions += 1;
            let problem = match self.asker.ask(self.address, &self.requests, &change, ROUTE_TIMEOUT) {
                Ok(status) if (200..400).contains(&status) => {
                    return Ok(NewRoute { after_ns: clock::now().saturating_sub(begun), questions });
                }
                Ok(status) => format!("its status is {status}"),
                Err(error) => error,
            };
            if Instant::now() > deadline {
                return Err(format!("the new route did not answer within {ROUTE_LIMIT:?}: {problem}"));
            }
            if !is_in_time(trial, clock::now() + nanoseconds(RETRY_AFTER)) {
                return Err(format!("the new route did not answer before the trial ended: {problem}"));
            }
        }
    }
}

/// Event records of a trial. Times are relative to the start of the measured time, like the times of the
/// windows.
pub(super) fn records(results: Vec<EventResult>, load: Option<&LoadRecord>) -> Vec<EventRecord> {
    let since = |at: u64| at.saturating_sub(load.map_or(at, |load| load.started_ns));
    let record = |one: EventResult| EventRecord {
        event: one.event.clone(),
        at_ns: one.begun_ns.map(since),
        done_ns: one.done_ns.map(since),
        failed: one.outcome.as_ref().err().cloned(),
        new_route: one.outcome.ok().flatten(),
    };
    results.into_iter().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    struct Logging(&'static str, Arc<Mutex<Vec<String>>>);

    impl Controller for Logging {
        fn act(&mut self, action: Action) -> Result<Effect, String> {
            self.1.lock().expect("not poisoned").push(format!("{}: {action}", self.0));
            if action == Action::Reload { Err("it would not".into()) } else { Ok(Effect::default()) }
        }
    }

    fn runner(events: &[(u64, Action)]) -> (EventRunner, Arc<Mutex<Vec<String>>>) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let event = |&(at_ms, action): &(u64, Action)| Event {
            at: Duration::from_millis(at_ms),
            action,
            gateway: None,
        };
        let runner = EventRunner {
            events: events.iter().map(event).collect(),
            gateway: Some(Box::new(Logging("gateway", Arc::clone(&log)))),
            upstream: Some(Box::new(Logging("upstream", Arc::clone(&log)))),
            route: None,
        };
        (runner, log)
    }

    const RESTART: Action = Action::RestartUpstream { instance: 0, down: Duration::ZERO };

    #[test]
    fn events_run_in_order_and_on_the_right_service() {
        let (runner, log) = runner(&[(0, Action::RestartGateway), (5, RESTART), (10, Action::Reload)]);
        let (sender, begun) = channel();
        let started = clock::now();
        sender.send(started).expect("heard");
        let happened = runner.run(&begun);
        let restarted = "upstream: restart-upstream (instance 0, away for 0s)";
        let expected = ["gateway: restart-gateway", restarted, "gateway: reload"];
        assert_eq!(*log.lock().expect("not poisoned"), expected);
        for one in &happened {
            let begun = one.begun_ns.expect("begun");
            assert!(begun >= started + nanoseconds(one.event.at), "{one:?} was early");
        }
        assert_eq!(happened[2].outcome, Err("it would not".to_owned()));
        assert_eq!((happened[1].done_ns.is_some(), happened[2].done_ns), (true, None));
    }

    #[test]
    fn events_due_after_the_end_of_the_trial_are_skipped() {
        let (runner, log) = runner(&[(0, RESTART), (3_600_000, RESTART)]);
        let (sender, begun) = channel();
        sender.send(clock::now()).expect("heard");
        let log_of_thread = Arc::clone(&log);
        let happened = std::thread::scope(|scope| {
            let thread = scope.spawn(move || runner.run(&begun));
            // End the trial after the first event.
            while log_of_thread.lock().expect("not poisoned").is_empty() {
                std::thread::yield_now();
            }
            drop(sender);
            thread.join().expect("does not panic")
        });
        assert_eq!(log.lock().expect("not poisoned").len(), 1);
        assert_eq!((happened[0].begun_ns.is_some(), happened[1].begun_ns), (true, None));
        assert!(happened[1].outcome.is_err());
    }

    #[test]
    fn no_event_runs_if_the_measured_time_never_begins() {
        let (runner, log) = runner(&[(0, RESTART)]);
        let (sender, begun) = channel();
        drop(sender);
        assert_eq!(runner.run(&begun)[0].begun_ns, None);
        assert!(log.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn times_in_records_start_at_the_measured_time() {
        let one = EventResult {
            event: Event { at: Duration::from_secs(1), action: Action::Reload, gateway: None },
            begun_ns: Some(1_700),
            done_ns: Some(1_900),
            outcome: Ok(Some(NewRoute { after_ns: 150, questions: 3 })),
        };
        let made = hoptax_analysis::fixture::via("nginx", 0).0.load_record.expect("measured");
        let load = LoadRecord { started_ns: 1_000, ..made };
        let record = &records(vec![one], Some(&load))[0];
        assert_eq!((record.at_ns, record.done_ns), (Some(700), Some(900)));
        assert_eq!(record.new_route, Some(NewRoute { after_ns: 150, questions: 3 }));
        assert_eq!(record.failed, None);
    }
}
