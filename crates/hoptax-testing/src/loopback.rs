//! Addresses that no other test process uses.
//!
//! Tests run in many processes at the same time, and all of them share the ports of 127.0.0.1. When a test
//! releases a port there, the kernel can give it to a server of another test at once. A request that is sent
//! to the released port, such as a gateway's readiness check, then arrives at that server. So the servers of
//! tests listen on [`own_loopback`], and count only what their own test sends. On Linux, all addresses of
//! 127.0.0.0/8 belong to the machine. Clients still connect from 127.0.0.1.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;

/// Ports of [`own_loopback`] on which nothing must listen, because [`unused_address`] has returned them.
static UNUSED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// The address of 127.0.0.0/8 that belongs to this process.
pub fn own_loopback() -> Ipv4Addr {
    of_process(std::process::id())
}

/// A listener on a free port of [`own_loopback`].
#[track_caller]
pub fn own_listener() -> TcpListener {
    loop {
        let listener = TcpListener::bind((own_loopback(), 0)).expect("a port");
        if !UNUSED.lock().expect("not poisoned").contains(&listener.local_addr().expect("bound").port()) {
            return listener;
        }
    }
}

/// An address of [`own_loopback`] on which nothing listens, and no [`own_listener`] will. So a test can also
/// make another program listen there.
#[track_caller]
pub fn unused_address() -> SocketAddr {
    let address = own_listener().local_addr().expect("bound");
    UNUSED.lock().expect("not poisoned").insert(address.port());
    address
}

/// Process ids have at most 22 bits (PID_MAX_LIMIT in include/linux/threads.h). So the second byte is from
/// 128 to 192, and the address differs from 127.0.0.1 and from all that tests write out. The last byte is
/// neither 0 nor 255, because those mean networks and broadcasts.
fn of_process(id: u32) -> Ipv4Addr {
    let [_, _, high, low] = (id / 254).to_be_bytes();
    Ipv4Addr::new(127, 128 + high, low, 1 + (id % 254) as u8)
}

#[test]
fn each_process_has_its_own_address() {
    let last = (1 << 22) - 1;
    assert_eq!(of_process(0), Ipv4Addr::new(127, 128, 0, 1));
    assert_eq!(of_process(253), Ipv4Addr::new(127, 128, 0, 254));
    assert_eq!(of_process(254), Ipv4Addr::new(127, 128, 1, 1));
    assert_eq!(of_process(last), Ipv4Addr::new(127, 192, 129, 1 + (last % 254) as u8));
    let (listener, unused) = (own_listener(), unused_address());
    let address = listener.local_addr().expect("bound");
    assert_eq!((address.ip(), unused.ip()), (own_loopback().into(), own_loopback().into()));
    let connects = |to: SocketAddr| std::net::TcpStream::connect(to).is_ok();
    assert_eq!((connects(address), connects(unused)), (true, false));
}
