//! An origin server for tests of hops. The path of a request selects the server's behaviour. It uses blocking
//! I/O, with one thread per connection.

use crate::support::{PATIENCE, own_listener};
use crate::wire::sample;
use hoptax_wire::http1::{RequestDecoder, RequestStep};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    connections: AtomicU64,
    heads: Mutex<Vec<String>>,
}

impl Origin {
    pub(crate) fn start() -> Self {
        let listener = own_listener();
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.stop.load(Ordering::SeqCst) {
                    return;
                }
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&accepting);
                // The thread ends when its peer disconnects.
                std::thread::spawn(move || serve(stream, &shared).ok());
            }
        });
        Self { address, shared }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().expect("not poisoned").clone()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut decoder = RequestDecoder::new();
    let (mut input, mut body, mut target, mut is_head) = (Vec::new(), Vec::new(), String::new(), false);
    let mut served = 0;
    loop {
        let step = decoder.advance(&input).map_err(std::io::Error::other)?;
        let consumed = match step {
            RequestStep::NeedMore => {
                let mut piece = [0; 65536];
                let count = stream.read(&mut piece)?;
                if count == 0 {
                    return Ok(());
                }
                input.extend_from_slice(&piece[..count]);
                0
            }
            RequestStep::Head { consumed, head } => {
                let raw = String::from_utf8_lossy(&input[..consumed]).into_owned();
                shared.heads.lock().expect("not poisoned").push(raw);
                target = String::from_utf8_lossy(&input[head.target]).into_owned();
                (is_head, body) = (head.is_head, Vec::new());
                if head.expect_continue {
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                }
                if target == "/early" {
                    stream.write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno")?;
                }
                consumed
            }
            RequestStep::Body { consumed, data } => {
                body.extend_from_slice(&input[data]);
                consumed
            }
            RequestStep::End { consumed, .. } => {
                served += 1;
                if !answer(&mut stream, &target, is_head, &body, served)? {
                    return Ok(());
                }
                consumed
            }
        };
        input.drain(..consumed);
    }
}

/// Answers one request. Returns `false` if the connection must be closed.
fn answer(
    stream: &mut TcpStream,
    target: &str,
    is_head: bool,
    body: &[u8],
    served: u32,
) -> std::io::Result<bool> {
    let (path, argument) = target.split_once('?').unwrap_or((target, "0"));
    let size: usize = argument.parse().expect("a number");
    let counted = |body: &[u8], more: &str| {
        let head = format!("HTTP/1.1 200 OK\r\nx-a: b\r\n{more}content-length: {}\r\n\r\n", body.len());
        [head.as_bytes(), if is_head { b"" } else { body }].concat()
    };
    match path {
        "/echo" => stream.write_all(&counted(body, ""))?,
        "/bytes" => stream.write_all(&counted(&sample(size), ""))?,
        "/chunked" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            if !is_head {
                stream.write_all(&crate::wire::chunked(&sample(size)))?;
            }
        }
        "/until-close" => {
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n")?;
            stream.write_all(&sample(size))?;
            return Ok(false);
        }
        "/204" => stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?,
        "/304" => stream.write_all(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\netag: x\r\n\r\n")?,
        "/hints" => {
            stream.write_all(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")?;
            stream.write_all(&counted(b"ok", ""))?;
        }
        // Acts like a server that closes an idle connection at the moment when the next request arrives.
        "/once" if served > 1 => return Ok(false),
        "/once" => stream.write_all(&counted(b"once", ""))?,
        "/cut" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")?;
            return Ok(false);
        }
        "/nothing" => return Ok(false),
        "/odd" => stream.write_all(
            b"HTTP/1.1  200 OK\r\nx-a: one\r\n two\r\n\"x-b\": three\r\ntransfer-encoding: chunked\r\n\
              transfer-encoding: chunked\r\n\r\n2\nok\n0\n\n",
        )?,
        "/garbage" => stream.write_all(b"this is not HTTP\r\n\r\n")?,
        "/close" => {
            stream.write_all(&counted(b"bye", "connection: close\r\nkeep-alive: x\r\n"))?;
            return Ok(false);
        }
        "/early" => {}
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?,
    }
    Ok(true)
}
