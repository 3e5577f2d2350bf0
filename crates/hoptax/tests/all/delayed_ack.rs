//! An upstream that sends head and body in two segments without TCP_NODELAY, so that it waits for a delayed
//! acknowledgement.

use crate::run::measured;
use crate::support::own_listener;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

fn two_segments() -> SocketAddr {
    let listener = own_listener();
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                    let head = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
                    if head.and_then(|()| stream.write_all(b"ok")).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_delayed_acknowledgement_is_named() {
    let plan = format!(
        "upstream: {{ url: 'http://{}' }}\ngateways: [hop-l4]\n\
         load: [{{ loop: closed, connections: 2, duration: 600ms }}]\ntrials: 1\nwarmup: 0s\n",
        two_segments()
    );
    let report = measured(&plan);
    let findings = report["findings"].as_array().expect("findings");
    let of_direct = |code: &str| {
        findings.iter().find(|one| {
            one["code"] == code && one["case"].as_str().is_some_and(|case| case.starts_with("direct,"))
        })
    };
    let found = of_direct("delayed-ack").unwrap_or_else(|| panic!("{findings:?}"));
    let message = found["message"].as_str().expect("text");
    assert!(message.contains("in two segments"), "{message}");
    assert!(found["evidence"]["share"].as_f64().expect("a share") > 0.5, "{found}");
}
