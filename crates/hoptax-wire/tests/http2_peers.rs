//! Our HTTP/2 against others' on loopback: nghttpd, and Python's `h2` in `http2_peer.py`. The upstream's
//! tests use nghttp, h2load and h2spec.
//!
//! `scripts/setup.sh test` installs them. A test whose program is missing is skipped.

use hoptax_testing::unused_address;
use hoptax_wire::http2::{
    Block, Code, Config, Connection, Fault, OutField, RequestParts, Sections, Step, request_fields,
    response_fields,
};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// No read, and no wait for a program, takes longer.
const LIMIT: Duration = Duration::from_secs(30);

/// A connection with its socket.
struct Wire {
    socket: TcpStream,
    connection: Connection,
    sections: Sections,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Why the connection has ended, if the peer violated the protocol.
    fault: Option<Fault>,
}

impl Wire {
    fn new(socket: TcpStream, begin: impl FnOnce(&mut Vec<u8>) -> Connection) -> Self {
        socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
        socket.set_nodelay(true).expect("no delay");
        let mut output = Vec::new();
        let connection = begin(&mut output);
        Self { socket, connection, sections: Sections::new(), input: Vec::new(), output, fault: None }
    }

    fn client(address: SocketAddr, config: Config) -> Self {
        Self::new(connect(address), |output| Connection::client(config, output))
    }

    /// The next event, with its data if it is a part of a body. `None` at the end of the connection.
    fn next(&mut self) -> Option<(Step, Vec<u8>)> {
        loop {
            let found = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = match found {
                Ok(found) => found,
                Err(fault) => {
                    self.fault = Some(fault);
                    self.flush();
                    return None;
                }
            };
            let data = match &step {
                Step::Body { data, .. } => self.input[data.clone()].to_vec(),
                Step::GoAway { debug, .. } => self.input[debug.clone()].to_vec(),
                _ => Vec::new(),
            };
            self.input.drain(..consumed);
            if step != Step::NeedMore {
                return Some((step, data));
            }
            self.flush();
            let mut bytes = [0; 20_000];
            // A peer that has what it needs can reset the connection.
            let count = self.socket.read(&mut bytes).unwrap_or(0);
            self.input.extend_from_slice(&bytes[..count]);
            if count == 0 {
                return None;
            }
        }
    }

    fn flush(&mut self) {
        // The peer can have closed the connection already. Then the next read finds its end.
        let _ = self.socket.write_all(&self.output);
        self.output.clear();
    }
}

/// Connects, as soon as the program listens.
fn connect(address: SocketAddr) -> TcpStream {
    for _ in 0..LIMIT.as_millis() / 20 {
        if let Ok(socket) = TcpStream::connect(address) {
            return socket;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("nobody listens on {address}");
}

fn block(method: &str, path: &str, headers: &[(&str, &str)]) -> Vec<OutField> {
    let parts = RequestParts { method, scheme: "http", authority: "localhost", path, content_length: None };
    request_fields(parts, headers.iter().copied()).expect("a valid request")
}

/// What a server has answered: status, body, trailers.
type Answer = (u16, Vec<u8>, Option<String>);

/// Sends all requests, as many at a time as the server allows. A request is a block and a body. A server can
/// refuse requests that were sent before its settings arrived. They are sent again.
fn exchange(wire: &mut Wire, requests: &[(Block, Vec<u8>)]) -> Vec<Answer> {
    let mut answers: Vec<Answer> = vec![(0, Vec::new(), None); requests.len()];
    let mut unsent: BTreeMap<u32, &[u8]> = BTreeMap::new();
    let mut queue: VecDeque<u32> = (0..requests.len() as u32).collect();
    let mut done = 0;
    while done < requests.len() {
        while wire.connection.capacity() > 0
            && let Some(tag) = queue.pop_front()
        {
            let (block, body) = &requests[tag as usize];
            let end = body.is_empty();
            let stream = wire.connection.request(tag, false, block, &[], end, &mut wire.output);
            let stream = stream.expect("there is room for a stream");
            if !end {
                unsent.insert(stream, body);
                send(wire, &mut unsent, stream);
            }
        }
        let Some((step, data)) = wire.next() else {
            panic!("the connection has ended after {done} answers: {:?}", wire.fault);
        };
        match step {
            Step::Head { stream, end } => {
                answers[stream.tag as usize].0 = wire.sections.head.status();
                done += usize::from(end);
            }
            Step::Body { stream, end, .. } => {
                answers[stream.tag as usize].1.extend(data);
                done += usize::from(end);
            }
            Step::Trailers { stream } => {
                let mut fields = wire.sections.trailers.fields().iter();
                let (name, value) = fields.next().expect("a trailer");
                let line = [name, b"=", value].concat();
                answers[stream.tag as usize].2 = Some(String::from_utf8(line).expect("text"));
                done += 1;
            }
            Step::Writable { stream } => send(wire, &mut unsent, stream.id),
            Step::Reset { stream, unprocessed: true, .. } => queue.push_back(stream.tag),
            Step::Settings | Step::Interim { .. } => {}
            other => panic!("{other:?} {}", String::from_utf8_lossy(&data)),
        }
    }
    answers
}

fn send(wire: &mut Wire, unsent: &mut BTreeMap<u32, &[u8]>, stream: u32) {
    let rest = unsent.get_mut(&stream).expect("a body that is not sent");
    if let Some(sent) = wire.connection.send_data(stream, rest, true, &mut wire.output) {
        *rest = &rest[sent..];
    }
}

/// Serves connections: sends the body of each request back, or `hello` if it has none.
fn serve(config: Config) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.expect("a connection");
            thread::spawn(move || {
                serve_connection(&mut Wire::new(socket, |output| Connection::server(config, output)));
            });
        }
    });
    port
}

fn serve_connection(wire: &mut Wire) {
    let ok = Block::shared(&[&response_fields(200, [("server", "hoptax")], None).expect("valid")]).remove(0);
    let trailers = Block::plain(&[OutField { name: "sum".into(), value: "1".into() }]);
    let mut bodies: BTreeMap<u32, (Vec<u8>, bool)> = BTreeMap::new();
    while let Some((step, data)) = wire.next() {
        let (stream, end) = match step {
            Step::Head { stream, end } => {
                wire.connection.send_head(stream.id, &ok, &[], false, &mut wire.output);
                let greeting = if end { b"hello".to_vec() } else { Vec::new() };
                bodies.insert(stream.id, (greeting, end));
                (stream.id, end)
            }
            Step::Body { stream, end, .. } => {
                let body = bodies.get_mut(&stream.id).expect("a stream with a head");
                body.0.extend(data);
                body.1 = end;
                (stream.id, end)
            }
            Step::Trailers { stream } => {
                bodies.get_mut(&stream.id).expect("a stream with a head").1 = true;
                (stream.id, true)
            }
            Step::Writable { stream } => (stream.id, bodies[&stream.id].1),
            Step::Reset { stream, .. } | Step::Failed { stream, .. } => {
                bodies.remove(&stream.id);
                continue;
            }
            _ => continue,
        };
        let body = &mut bodies.get_mut(&stream).expect("a stream with a head").0;
        let with_trailers = stream % 4 == 1;
        let sent = wire.connection.send_data(stream, body, end && !with_trailers, &mut wire.output);
        body.drain(..sent.unwrap_or(0));
        if end && body.is_empty() {
            if with_trailers {
                wire.connection.send_head(stream, &trailers, &[], true, &mut wire.output);
            }
            bodies.remove(&stream);
        }
    }
    // A socket that is closed with unread data would reset the connection, and the client might lose GOAWAY.
    let _ = wire.socket.shutdown(Shutdown::Write);
    let _ = std::io::copy(&mut wire.socket, &mut std::io::sink());
}

/// A program that is stopped at the end of a test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Finds a program on PATH, or where `scripts/setup.sh` puts programs.
fn program(name: &str) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
    let home = variable("HOPTAX_HOME").or_else(|| Some(data?.join("hoptax")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/bin"].map(PathBuf::from));
    folders.extend(home.map(|home| home.join("tools/bin")));
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        skipped(&format!("{name} is not installed"));
    }
    found
}

/// Notes that a test was skipped, in the format of `scripts/run-tests.py`.
fn skipped(reason: &str) {
    let test = thread::current().name().unwrap_or("http2_peers").to_owned();
    let line = format!("skip http2_peers::{test} {reason}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os("HOPTAX_TEST_NOTES") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the notes can be written");
    }
}

/// A client that runs to its end. Returns what it printed.
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program runs");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

fn small_windows() -> Config {
    Config { window: 3000, connection_window: 65_535, streams: 50, header_table: 0, ..Config::default() }
}

#[test]
fn nghttpd_answers_us() {
    let Some(nghttpd) = program("nghttpd") else { return };
    let folder = std::env::temp_dir().join(format!("hoptax-wire-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let large: Vec<u8> = (0..200_000u32).map(|place| place as u8).collect();
    std::fs::write(folder.join("small"), b"small").expect("a file");
    std::fs::write(folder.join("large"), &large).expect("a file");
    for arguments in [&[][..], &["--padding=100", "--trailer=sum: 1", "--encoder-header-table-size=0"]] {
        let address = unused_address();
        let mut command = Command::new(&nghttpd);
        command.args(["--no-tls", "--echo-upload", "--max-concurrent-streams=20"]);
        command.arg(format!("--address={}", address.ip())).arg(format!("--htdocs={}", folder.display()));
        command.args(arguments).arg(address.port().to_string());
        let _running = Running(command.stdout(Stdio::null()).spawn().expect("nghttpd runs"));
        for config in [Config::default(), small_windows()] {
            let fields = [
                block("GET", "/small", &[("user-agent", "hoptax")]),
                block("GET", "/large", &[("user-agent", "hoptax")]),
                block("GET", "/missing", &[("user-agent", "hoptax")]),
                block("POST", "/echo", &[("user-agent", "hoptax")]),
            ];
            let blocks = Block::shared(&fields.each_ref().map(Vec::as_slice));
            let bodies = |which: usize| if which == 3 { large[..150_000].to_vec() } else { Vec::new() };
            let requests: Vec<_> =
                (0..100).map(|round| (blocks[round % 4].clone(), bodies(round % 4))).collect();
            let answers = exchange(&mut Wire::client(address, config), &requests);
            for (round, (status, body, _)) in answers.iter().enumerate() {
                match round % 4 {
                    0 => assert_eq!((*status, &body[..]), (200, &b"small"[..])),
                    1 => assert!(*status == 200 && *body == large),
                    2 => assert_eq!(*status, 404),
                    _ => assert!(*status == 200 && *body == large[..150_000], "{status} {}", body.len()),
                }
            }
            let trailers = answers.iter().filter(|answer| answer.2.as_deref() == Some("sum=1")).count();
            assert_eq!(trailers > 0, !arguments.is_empty());
        }
    }
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http2_peer.py")
}

/// The address on which the script listens. It prints the port.
fn printed_address(script: &mut Running) -> SocketAddr {
    let mut line = String::new();
    let printed = script.0.stdout.take().expect("a pipe");
    BufReader::new(printed).read_line(&mut line).expect("the port");
    SocketAddr::from((Ipv4Addr::LOCALHOST, line.trim().parse::<u16>().expect("a port")))
}

#[test]
fn pythons_h2_answers_us() {
    let Some(python) = program("python3-h2") else { return };
    let mut command = Command::new(python);
    let child = command.arg(script()).arg("serve").stdout(Stdio::piped()).spawn().expect("it runs");
    let mut running = Running(child);
    let address = printed_address(&mut running);
    for config in [Config::default(), small_windows(), Config { window: 10, ..Config::default() }] {
        let blocks =
            Block::shared(&[&block("POST", "/", &[("user-agent", "x")]), &block("GET", "/", &[("x", "y")])]);
        let length = |round: usize| if config.window == 10 { round } else { round * 317 % 30_000 };
        let requests: Vec<_> = (0..200)
            .map(|round| match length(round) {
                0 => (blocks[1].clone(), Vec::new()),
                length => (blocks[0].clone(), vec![b'a' + (round % 26) as u8; length]),
            })
            .collect();
        let answers = exchange(&mut Wire::client(address, config), &requests);
        for ((_, body), (status, answer, trailers)) in requests.iter().zip(&answers) {
            assert!(*status == 200 && body == answer, "{} of {} bytes", answer.len(), body.len());
            assert!(trailers.as_deref().is_none_or(|line| line == "x-sum=1"));
        }
        assert!(answers.iter().any(|answer| answer.2.is_some()));
    }
}

#[test]
fn pythons_h2_understands_us() {
    let Some(python) = program("python3-h2") else { return };
    let ask = |config: Config| {
        // Each frame takes h2 a fifth of a millisecond, and frames are as short as the window.
        let longest = if config.window == 10 { "500" } else { "20000" };
        let port = serve(config);
        let text = output(Command::new(&python).arg(script()).args(["ask", &port.to_string(), longest]));
        assert_eq!(text.trim(), "80 answers");
    };
    thread::scope(|scope| {
        for config in [Config::default(), small_windows(), Config { window: 10, ..Config::default() }] {
            scope.spawn(move || ask(config));
        }
    });
}

/// A server that goes away as nginx does: GOAWAY names the last request, and the rest must be sent again
/// elsewhere.
#[test]
fn pythons_h2_goes_away() {
    let Some(python) = program("python3-h2") else { return };
    let mut command = Command::new(python);
    let child = command.arg(script()).arg("go-away").stdout(Stdio::piped()).spawn().expect("it runs");
    let mut running = Running(child);
    let mut wire = Wire::client(printed_address(&mut running), Config::default());
    let get = Block::plain(&block("GET", "/", &[]));
    for tag in 0..10 {
        wire.connection.request(tag, false, &get, &[], true, &mut wire.output).expect("a stream");
    }
    let (mut answered, mut unprocessed, mut code) = (Vec::new(), Vec::new(), None);
    while let Some((step, _)) = wire.next() {
        match step {
            Step::Head { stream, end: true } => answered.push(stream.tag),
            Step::Reset { stream, unprocessed: true, .. } => unprocessed.push(stream.tag),
            Step::GoAway { code: found, .. } => code = Some(found),
            Step::Settings => {}
            other => panic!("{other:?}"),
        }
        if answered.len() + unprocessed.len() == 10 {
            break;
        }
    }
    unprocessed.sort_unstable();
    assert_eq!((answered, unprocessed), (vec![0, 1, 2, 3], vec![4, 5, 6, 7, 8, 9]));
    assert_eq!(code, Some(Code::ENHANCE_YOUR_CALM));
}
