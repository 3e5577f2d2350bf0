//! Requests that have threads of their own, so that the main thread can handle other requests meanwhile.

use super::answers::Answers;
use super::input::Job;
use crate::protocol::message::{AskRoute, Order, RouteAnswer, Update};
use crate::protocol::receiver;
use hoptax_format::spec::LoadSpec;
use hoptax_host::cpus;
use hoptax_host::probe::leg::{self, Messages, ReceiverAddress};
use hoptax_host::probe::{NetworkCounters, network};
use hoptax_lab::first_requests::FirstRequests;
use hoptax_lab::{Controller, Effect, verify};
use hoptax_plan::Action;
use hoptax_record::{Failure, Stage};
use hoptax_run::{LocalTraffic, Sampling, Traffic as _, TrialUpdate, Usage, WatchedRoles};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Interval at which a sampling thread looks for news to report to a live view.
const POLL: Duration = Duration::from_millis(100);

/// Maximum time to wait for [`Order::Continue`]. The runner answers at once, unless it is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// A channel with the moment of each [`Order::Begin`]. It is closed when there are no more orders.
fn starts(orders: Receiver<Order>) -> Receiver<u64> {
    let (sender, start) = mpsc::channel();
    thread::spawn(move || {
        for order in orders {
            if let Order::Begin(at_ns) = order
                && sender.send(at_ns).is_err()
            {
                return;
            }
        }
    });
    start
}

/// A request, and the output for its answer.
pub(super) struct Handle {
    job: Job,
    answers: Answers,
}

impl Handle {
    pub(super) fn new(job: Job, answers: &Answers) -> Self {
        Self { job, answers: answers.clone() }
    }

    /// Sends a load. The generator dies when the thread that started it ends, so this thread waits for it.
    pub(super) fn load(self, spec: LoadSpec, roles: WatchedRoles, live: bool) {
        thread::spawn(move || {
            let Self { job, answers } = self;
            let traffic = LocalTraffic::new()
                .map_err(|error| failed(format!("cannot find the running hoptax program: {error}")));
            let loaded = traffic.map(|traffic| {
                let mut report = |update: TrialUpdate| answers.update(job.id, Update::Trial(update));
                let mut traffic = traffic.watched(live);
                match spec.part {
                    Some(_) => {
                        let start = starts(job.orders);
                        traffic.load_part(&spec, &roles, &job.interrupted, start, &mut report)
                    }
                    None => traffic.load(None, &spec, &roles, &job.interrupted, &mut report),
                }
            });
            answers.answer(job.id, loaded);
        });
    }

    /// Samples this host until the order to end. After an interruption, the answer is empty.
    pub(super) fn sample(self, roles: WatchedRoles, live: bool) {
        let sampling = Sampling::start(None, &roles, live);
        let wait = if live { POLL } else { Duration::MAX };
        thread::spawn(move || {
            let Self { job, answers } = self;
            loop {
                match job.orders.recv_timeout(wait) {
                    Ok(Order::Align(at_ns)) => sampling.align(at_ns),
                    Ok(Order::Look) => sampling.look(),
                    Ok(Order::End { from_ns, to_ns }) => {
                        return answers.answer(job.id, Ok(sampling.finish().usage(from_ns, to_ns)));
                    }
                    Ok(Order::Interrupt) => return answers.answer(job.id, Ok(Usage::default())),
                    Ok(Order::Begin(_) | Order::Continue) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if let Some(used) = sampling.used() {
                    answers.update(job.id, Update::Trial(TrialUpdate::Used(used)));
                }
            }
        });
    }

    /// Reads only the network counters of this network namespace, until the order to end.
    pub(super) fn count_network(self) {
        let before = NetworkCounters::now();
        thread::spawn(move || {
            let Self { job, answers } = self;
            // The host that samples this machine also counts sockets in TIME_WAIT.
            while let Ok(order) = job.orders.recv() {
                if order == Order::Interrupt {
                    return answers.answer(job.id, Ok(Usage::default()));
                }
                if matches!(order, Order::End { .. }) {
                    let now = NetworkCounters::now();
                    let network = before
                        .as_ref()
                        .zip(now)
                        .map(|(before, now)| now.since(before, 0, network::local_ports()));
                    return answers.answer(job.id, Ok(Usage { network, ..Usage::default() }));
                }
            }
        });
    }

    /// Sends the first requests to a gateway.
    pub(super) fn first_requests(self, asked: FirstRequests) {
        thread::spawn(move || {
            let Self { job, answers } = self;
            let _pinned = cpus::pin(&asked.cpus);
            let mut has_ended = || job.interrupted.load(Ordering::Relaxed);
            let mut ready = || {
                answers.update(job.id, Update::Ready);
                await_continue(&job.orders);
            };
            answers.answer(job.id, Ok(asked.send(&mut has_ended, &mut ready)));
        });
    }

    /// Sends one request to a route.
    pub(super) fn ask_route(self, ask: AskRoute) {
        thread::spawn(move || {
            let Self { job, answers } = self;
            let AskRoute { address, requests, change, timeout } = ask;
            let answer = verify::ask_changed(address, &requests, &change, timeout);
            let answer: RouteAnswer =
                answer.map(|answer| answer.status).map_err(|error| format!("{error:#}"));
            answers.answer(job.id, Ok(answer));
        });
    }

    /// Opens a receiver. It closes after the time limit, or after its last sender.
    pub(super) fn open_receiver(self, address: IpAddr, limit: Duration) {
        let Self { job, answers } = self;
        match receiver::open(address) {
            Ok(receiver) => {
                let at = receiver.at();
                thread::spawn(move || receiver.serve(limit));
                answers.answer(job.id, Ok(at));
            }
            Err(message) => answers.answer::<()>(job.id, Err(failed(message))),
        }
    }

    /// Measures the leg to a receiver of another host.
    pub(super) fn measure_leg(self, to: ReceiverAddress, messages: Messages, with_bandwidth: bool) {
        thread::spawn(move || {
            let Self { job, answers } = self;
            let measured = leg::measure(to, messages, with_bandwidth);
            answers
                .answer(job.id, measured.map_err(|error| failed(receiver::unreachable(to.address, &error))));
        });
    }

    /// Performs an event.
    pub(super) fn act(self, controller: Option<Box<dyn Controller>>, action: Action) {
        thread::spawn(move || {
            let Self { job, answers } = self;
            let result: Result<Effect, String> = match controller {
                Some(mut controller) => controller.act(action),
                None => Err("hoptax did not start this service and cannot control it".to_owned()),
            };
            answers.answer(job.id, Ok(result));
        });
    }
}

fn failed(message: String) -> Failure {
    Failure::new(Stage::Trial, message)
}

fn await_continue(orders: &Receiver<Order>) {
    while let Ok(order) = orders.recv_timeout(PATIENCE) {
        if order == Order::Continue {
            return;
        }
    }
}
