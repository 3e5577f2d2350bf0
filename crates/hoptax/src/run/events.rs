//! The events of a plan, made to happen while a trial is measured.
//!
//! The schedule is pure: which events a trial has, and when each is due on the generator's clock. A thread of its own waits for
//! the measured time to begin and then does one after the other, so that neither the generator nor the sampler ever waits for
//! a gateway that is slow to reload.

use hoptax_lab::features::Change;
use hoptax_lab::verify::{self, Requests};
use hoptax_lab::{Done, Hand};
use hoptax_load::clock;
use hoptax_load::record::LoadRecord;
use hoptax_plan::{Action, Event};
use hoptax_record::{EventRecord, NewRoute};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Between two questions whether a new route answers.
const ASK_AGAIN: Duration = Duration::from_millis(2);
/// Longest wait for a new route.
const ROUTE_BOUND: Duration = Duration::from_secs(10);
/// Given to each question: an answer that takes longer is no route's that answers.
const ROUTE_PATIENCE: Duration = Duration::from_secs(1);

/// One event of one trial as it happened, on the monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Happened {
    event: Event,
    /// When it was begun; absent where the trial ended before.
    begun_ns: Option<u64>,
    done_ns: Option<u64>,
    outcome: Result<Option<NewRoute>, String>,
}

/// Who makes events happen in one trial.
pub(super) struct Performer {
    /// In the order of their times.
    pub(super) events: Vec<Event>,
    pub(super) gateway: Option<Box<dyn Hand>>,
    pub(super) upstream: Option<Box<dyn Hand>>,
    pub(super) route: Option<RouteAsker>,
}

impl Performer {
    /// Does everything in its time. `begun` tells when the measured time begins, and ends when the trial does.
    pub(super) fn perform(mut self, begun: &Receiver<u64>) -> Vec<Happened> {
        let started = begun.recv().ok();
        let events = std::mem::take(&mut self.events);
        let one = |event: Event| match started
            .filter(|started| is_in_time(begun, started + nanoseconds(event.at)))
        {
            Some(_) => self.one(event, begun),
            None => Happened {
                event,
                begun_ns: None,
                done_ns: None,
                outcome: Err("the trial had ended before it was due".into()),
            },
        };
        events.into_iter().map(one).collect()
    }

    fn one(&mut self, event: Event, trial: &Receiver<u64>) -> Happened {
        let asker = self.route.as_ref().filter(|_| matches!(event.action, Action::ChangeRoute { .. }));
        let begun = clock::now();
        let hand = if event.action.is_upstream() { &mut self.upstream } else { &mut self.gateway };
        let done = match hand {
            Some(hand) => hand.act(event.action),
            None => Err("nothing of ours runs there".into()),
        };
        let done_ns = done.is_ok().then(clock::now);
        let outcome = done.and_then(|Done { new_route }| match (asker, new_route) {
            (Some(asker), Some(prefix)) => asker.wait(&prefix, begun, trial).map(Some),
            _ => Ok(None),
        });
        Happened { event, begun_ns: Some(begun), done_ns, outcome }
    }
}

/// Waits until it is due; `false` if the trial ended before.
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

/// Asks a gateway for a route that it was just given, as often as it takes.
pub(super) struct RouteAsker {
    pub(super) address: SocketAddr,
    pub(super) requests: Requests,
    pub(super) change: Change,
    /// Prefix of the route that the load asks for.
    pub(super) asked: String,
}

impl RouteAsker {
    /// Asks until it answers with a success, the trial has ended, or time is up.
    fn wait(&self, prefix: &str, begun: u64, trial: &Receiver<u64>) -> Result<NewRoute, String> {
        let change =
            Change { prefix: self.change.prefix.replace(&self.asked, prefix), ..self.change.clone() };
        let deadline = Instant::now() + ROUTE_BOUND;
        let mut questions = 0;
        loop {
            questions += 1;
            let met = match verify::ask_changed(self.address, &self.requests, &change, ROUTE_PATIENCE) {
                Ok(answer) if (200..400).contains(&answer.status) => {
                    return Ok(NewRoute { after_ns: clock::now().saturating_sub(begun), questions });
                }
                Ok(answer) => format!("it answers {}", answer.status),
                Err(error) => format!("{error:#}"),
            };
            if Instant::now() > deadline {
                return Err(format!("the new route did not answer within {ROUTE_BOUND:?}: {met}"));
            }
            if !is_in_time(trial, clock::now() + nanoseconds(ASK_AGAIN)) {
                return Err(format!("the new route did not answer before the trial ended: {met}"));
            }
        }
    }
}

/// As the trial's record tells it, on the clock of its windows.
pub(super) fn records(happened: Vec<Happened>, load: Option<&LoadRecord>) -> Vec<EventRecord> {
    let since = |at: u64| at.saturating_sub(load.map_or(at, |load| load.started_ns));
    let record = |one: Happened| EventRecord {
        event: (&one.event).into(),
        at_ns: one.begun_ns.map(since),
        done_ns: one.done_ns.map(since),
        failed: one.outcome.as_ref().err().cloned(),
        new_route: one.outcome.ok().flatten(),
    };
    happened.into_iter().map(record).collect()
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    struct Noted(&'static str, Arc<Mutex<Vec<String>>>);

    impl Hand for Noted {
        fn act(&mut self, action: Action) -> Result<Done, String> {
            self.1.lock().expect("not poisoned").push(format!("{}: {action}", self.0));
            if action == Action::Reload { Err("it would not".into()) } else { Ok(Done::default()) }
        }
    }

    fn performer(events: &[(u64, Action)]) -> (Performer, Arc<Mutex<Vec<String>>>) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let event = |&(at_ms, action): &(u64, Action)| Event {
            at: Duration::from_millis(at_ms),
            action,
            gateway: None,
        };
        let performer = Performer {
            events: events.iter().map(event).collect(),
            gateway: Some(Box::new(Noted("gateway", Arc::clone(&log)))),
            upstream: Some(Box::new(Noted("upstream", Arc::clone(&log)))),
            route: None,
        };
        (performer, log)
    }

    const AWAY: Action = Action::RestartUpstream { instance: 0, down: Duration::ZERO };

    #[test]
    fn everything_happens_in_its_order_by_the_hand_it_is_for() {
        let (performer, log) = performer(&[(0, Action::RestartGateway), (5, AWAY), (10, Action::Reload)]);
        let (tell, begun) = channel();
        let started = clock::now();
        tell.send(started).expect("heard");
        let happened = performer.perform(&begun);
        let told = log.lock().expect("not poisoned").join("; ");
        assert_eq!(
            told,
            "gateway: restart-gateway; upstream: restart-upstream (instance 0, away for 0s); gateway: reload"
        );
        for one in &happened {
            let begun = one.begun_ns.expect("begun");
            assert!(begun >= started + nanoseconds(one.event.at), "{one:?} came early");
        }
        assert_eq!(happened[2].outcome, Err("it would not".to_owned()));
        assert_eq!((happened[1].done_ns.is_some(), happened[2].done_ns), (true, None));
    }

    #[test]
    fn what_is_due_after_the_trials_end_does_not_happen() {
        let (performer, log) = performer(&[(0, AWAY), (3_600_000, AWAY)]);
        let (tell, begun) = channel();
        tell.send(clock::now()).expect("heard");
        let log_of_thread = Arc::clone(&log);
        let happened = std::thread::scope(|scope| {
            let thread = scope.spawn(move || performer.perform(&begun));
            // The trial ends once the first has happened.
            while log_of_thread.lock().expect("not poisoned").is_empty() {
                std::thread::yield_now();
            }
            drop(tell);
            thread.join().expect("does not panic")
        });
        assert_eq!(log.lock().expect("not poisoned").len(), 1);
        assert_eq!((happened[0].begun_ns.is_some(), happened[1].begun_ns), (true, None));
        assert!(happened[1].outcome.as_ref().is_err_and(|why| why.contains("had ended")));
    }

    #[test]
    fn nothing_happens_in_a_trial_that_never_began() {
        let (performer, log) = performer(&[(0, AWAY)]);
        let (tell, begun) = channel();
        drop(tell);
        assert_eq!(performer.perform(&begun)[0].begun_ns, None);
        assert!(log.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn records_are_on_the_clock_of_the_windows() {
        let one = Happened {
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
