//! The first requests after a start: waits until a gateway listens and answers rightly, and then sends
//! further requests one after the other on the same connection.

use super::features::Change;
use super::verify::{Answer, Requests, is_right};
use hoptax_format::spec::{HttpVersion, TargetSpec};
use hoptax_format::{Address, clock};
use hoptax_load::target;
use hoptax_servers::http_client::{HttpClient, HttpConnection, written_in};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Pause between two connects while nothing listens. The measured time of a start is accurate to this pause
/// plus the time of a connect.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Interval at which the caller is asked whether the gateway has ended. The answer needs some milliseconds of
/// CPU time.
const LOOK_INTERVAL_NS: u64 = 100 * clock::MILLISECOND;

/// Seed for random values in templates. Each start gets the same request.
const SEED: u64 = 1;

/// The request to send, and how often.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FirstRequests {
    address: Address,
    target: TargetSpec,
    bytes: Vec<u8>,
    version: HttpVersion,
    change: Change,
    /// Number of answers to wait for, at least 1.
    pub count: usize,
    /// Maximum time to wait for the first right answer.
    pub patience: Duration,
    /// Time limit for each answer.
    pub timeout: Duration,
    /// CPUs for the thread that sends the requests. If empty, the thread is not pinned.
    pub cpus: Vec<u32>,
}

impl FirstRequests {
    /// The first target of `requests`, with `change` applied, sent to `address`. It is sent once, unless
    /// `count` is set.
    ///
    /// # Errors
    /// If a template of the target is wrong.
    ///
    /// # Panics
    /// If `requests` has no target.
    pub fn new(
        address: impl Into<Address>,
        requests: &Requests,
        change: &Change,
        timeout: Duration,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let mut changed = requests.clone();
        change.apply_to(&mut changed.targets, &mut changed.files);
        let target = changed.targets.swap_remove(0);
        let version = changed.versions.first().copied().unwrap_or(HttpVersion::Http11);
        let bytes = target::first_request(&target, &changed.files, SEED, written_in(version))?;
        Ok(Self {
            address: address.into(),
            target,
            bytes,
            version,
            change: change.clone(),
            count: 1,
            patience,
            timeout,
            cpus: Vec::new(),
        })
    }

    /// The address to which the requests are sent.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// `text` without secrets.
    pub fn redact(&self, text: &str) -> String {
        self.change.redact(text)
    }

    /// Sends the requests. Calls `has_ended` repeatedly until the first right answer, and stops sending if it
    /// returns true. Calls `ready` right after the first right answer.
    pub fn send(&self, has_ended: &mut dyn FnMut() -> bool, ready: &mut dyn FnMut()) -> FirstAnswers {
        let mut answers = FirstAnswers::default();
        let Some(connection) = self.await_right(&mut answers, has_ended) else { return answers };
        ready();
        if let Err(error) = self.send_others(connection, &mut answers) {
            let number = answers.response_times_ns.len() + 1;
            answers.failed = Some(self.change.redact(&format!("request {number} got no answer: {error:#}")));
        }
        answers
    }

    /// Waits for the first right answer. Returns its connection.
    fn await_right(
        &self,
        answers: &mut FirstAnswers,
        has_ended: &mut dyn FnMut() -> bool,
    ) -> Option<HttpConnection> {
        let begun = clock::now();
        answers.began_ns = begun;
        let give_up = begun + self.patience.as_nanos() as u64;
        let mut look = begun + LOOK_INTERVAL_NS;
        loop {
            let asked = clock::now();
            let met = match self.client().connect() {
                Err(error) => {
                    std::thread::sleep(POLL_INTERVAL);
                    format!("{error:#}")
                }
                Ok(mut connection) => {
                    answers.listening_ns.get_or_insert_with(clock::now);
                    match self.ask(&mut connection) {
                        Ok(answer) if is_right(&self.target, &answer) => {
                            let now = clock::now();
                            answers.ready_ns = Some(now);
                            answers.response_times_ns.push(now - asked);
                            return Some(connection);
                        }
                        outcome => {
                            answers.wrong_answers += 1;
                            outcome.map_or_else(
                                |error| format!("{error:#}"),
                                |answer| format!("its last answer had the status {}", answer.status),
                            )
                        }
                    }
                }
            };
            let now = clock::now();
            if now >= look {
                look = now + LOOK_INTERVAL_NS;
                if has_ended() {
                    answers.failed = Some("it was not ready".to_owned());
                    return None;
                }
            }
            if now >= give_up {
                answers.failed = Some(self.change.redact(&format!(
                    "it gave no right answer within {}: {met}",
                    humantime::format_duration(self.patience)
                )));
                return None;
            }
        }
    }

    /// Sends the remaining requests. If the gateway closes the connection, the next request opens another
    /// one, and its time includes the connect, as the time of the first request does.
    fn send_others(&self, first: HttpConnection, answers: &mut FirstAnswers) -> anyhow::Result<()> {
        let mut open = Some(first);
        while answers.response_times_ns.len() < self.count {
            let asked = clock::now();
            let kept = open.take().filter(HttpConnection::can_be_reused);
            // A kept connection may have been closed since its last answer.
            let answered = kept.and_then(|mut kept| self.ask(&mut kept).ok().map(|_| kept));
            let connection = match answered {
                Some(connection) => connection,
                None => {
                    let mut another = self.client().connect()?;
                    self.ask(&mut another)?;
                    another
                }
            };
            answers.response_times_ns.push(clock::now() - asked);
            open = Some(connection);
        }
        Ok(())
    }

    fn client(&self) -> HttpClient<'_> {
        self.change.client(self.address.clone(), self.timeout).speaking(self.version)
    }

    fn ask(&self, connection: &mut HttpConnection) -> anyhow::Result<Answer> {
        connection.send(&self.bytes, self.target.method == "HEAD")
    }
}

/// Answers to the first requests. Moments are values of the clock [`clock::now`], nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstAnswers {
    /// Moment of the first connect.
    pub began_ns: u64,
    /// Moment at which the first connection was accepted.
    pub listening_ns: Option<u64>,
    /// Moment at which the first right answer had arrived.
    pub ready_ns: Option<u64>,
    /// Number of wrong answers before the first right one, and of connections that ended without an answer.
    pub wrong_answers: u32,
    /// Response times from the first right answer on, in order, nanoseconds.
    pub response_times_ns: Vec<u64>,
    /// Why requests are missing. Absent if all were answered.
    pub failed: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::spec::Check;
    use hoptax_testing::{own_listener, unused_address};
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};

    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
    const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";

    fn first(address: SocketAddr, count: usize, checks: Vec<Check>) -> FirstRequests {
        let headers = vec![("host".to_owned(), "a".to_owned())];
        let target = TargetSpec { checks, ..TargetSpec::only("GET", "/", headers, Vec::new()) };
        let (timeout, patience) = (Duration::from_secs(10), Duration::from_secs(20));
        let first = FirstRequests::new(address, &target.into(), &Change::default(), timeout, patience);
        FirstRequests { count, ..first.expect("a request") }
    }

    /// Answers each connection with these answers, one for each request, and closes it.
    fn serve(listener: TcpListener, connections: &'static [&'static [&'static str]]) {
        std::thread::spawn(move || {
            for answers in connections {
                let (mut stream, _) = listener.accept().expect("accepted");
                for answer in *answers {
                    let _ = stream.read(&mut [0; 512]);
                    let _ = stream.write_all(answer.as_bytes());
                }
            }
        });
    }

    #[test]
    fn wrong_answers_are_counted_and_closed_connections_are_replaced() {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        serve(listener, &[&[BUSY], &[], &[OK, OK], &[BUSY, OK]]);
        let mut is_ready = 0;
        let answers = first(address, 4, Vec::new()).send(&mut || false, &mut || is_ready += 1);
        assert_eq!((answers.failed, is_ready, answers.wrong_answers), (None, 1, 2));
        assert_eq!(answers.response_times_ns.len(), 4);
        let (listening, ready) =
            (answers.listening_ns.expect("it listens"), answers.ready_ns.expect("it answers"));
        assert!(answers.began_ns <= listening && listening <= ready);
    }

    #[test]
    fn an_answer_that_fails_a_check_is_not_right() {
        let listener = own_listener();
        let address = listener.local_addr().expect("known");
        serve(listener, &[&[OK], &[BUSY]]);
        let checks = vec![Check::Status(vec![(503, 503)])];
        let answers = first(address, 1, checks).send(&mut || false, &mut || {});
        assert_eq!((answers.failed, answers.wrong_answers, answers.response_times_ns.len()), (None, 1, 1));
    }

    #[test]
    fn waiting_ends_with_the_service_or_when_the_patience_is_over() {
        let mut looks = 0;
        let ended = first(unused_address(), 1, Vec::new()).send(
            &mut || {
                looks += 1;
                true
            },
            &mut || panic!("not ready"),
        );
        assert_eq!((ended.failed.is_some(), looks), (true, 1));
        let unanswered = first(unused_address(), 1, Vec::new());
        let late = FirstRequests { patience: Duration::from_millis(5), ..unanswered };
        let why = late.send(&mut || false, &mut || panic!("not ready")).failed.expect("it says why");
        assert!(why.contains("within 5ms"), "{why}");
    }
}
