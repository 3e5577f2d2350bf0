"""Clients and servers of server-sent events and WebSockets, for the tests in mod.rs.

WebSockets need the package `websockets`, version 10 or newer. Server-sent events need only Python.

    peer.py ask ADDRESS CHECK…        opens WebSockets, checks the answers, and prints the names of the checks
    peer.py serve HOST none|deflate   prints its port, and answers WebSockets until standard input ends
    peer.py events HOST               prints its port, and sends events until standard input ends
    peer.py ages ADDRESS COUNT        reads this many events on a blocking socket, and prints their times, µs, as JSON
    peer.py tokens ADDRESS COUNT [HEADERS]
                                      reads this many streams of tokens, one after another, and does the same
"""

import asyncio
import faulthandler
import http.client
import itertools
import json
import os
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The longest time of an answer, seconds. Only faults take as long.
LIMIT = 60
# Key and length of the field with the number and the time of a message (crates/hoptax-format/src/messages.rs).
TAG = b"\xfa\x7f\x10"
# The same in text: number and time in 16 digits each.
TEXT_STAMP = re.compile(rb"~hx([0-9a-f]{16})([0-9a-f]{16})")
# Messages of each stream, and the time between two of them, nanoseconds.
MESSAGES, EVERY = 20, 5_000_000


def stamp(message):
    """Number and time of a message."""
    assert message[:3] == TAG, message
    return int.from_bytes(message[3:11], "big"), int.from_bytes(message[11:19], "big")


# The client of WebSockets.


class Client:
    def __init__(self, address):
        self.address = address

    def connect(self, path="/chat", compression=None):
        import websockets

        return websockets.connect(f"ws://{self.address}{path}", compression=compression, max_size=None,
                                  ping_interval=None, open_timeout=LIMIT, close_timeout=LIMIT)


async def soon(answer):
    return await asyncio.wait_for(answer, LIMIT)


async def received(websocket):
    return await soon(websocket.recv())


def extensions(websocket):
    """The extensions that both sides use. Since version 14 they belong to the protocol's object."""
    return [extension.name for extension in getattr(websocket, "protocol", websocket).extensions]


async def ends(websocket):
    """The status code of the server's close frame, if it sends no more messages."""
    from websockets.exceptions import ConnectionClosed

    try:
        message = await received(websocket)
    except ConnectionClosed:
        return websocket.close_code
    raise AssertionError(f"another message: {message[:100]}")


async def echo(client):
    """Messages at the bounds of the lengths of frames, one by one and all at once."""
    async with client.connect() as websocket:
        assert extensions(websocket) == []
        sizes = (0, 1, 19, 125, 126, 127, 65_535, 65_536, 300_000)
        sent = [kind for size in sizes for kind in (os.urandom(size), "ü" * size)]
        for message in sent:
            await websocket.send(message)
            assert await received(websocket) == message, len(message)
        sender = asyncio.ensure_future(send_all(websocket, sent * 5))
        assert [await received(websocket) for _ in range(len(sent) * 5)] == sent * 5
        await sender
    assert websocket.close_code == 1000, websocket.close_code


async def send_all(websocket, messages):
    for message in messages:
        await websocket.send(message)


async def fragments(client):
    """Each message in several frames, also with a ping between two of them."""
    async with client.connect() as websocket:
        for parts in ([b"a", b"", b"bc"], ["ä", "", "öü"], [os.urandom(70_000)] * 3):
            await websocket.send(parts)
            assert await received(websocket) == type(parts[0])().join(parts)

        async def parts():
            yield b"before"
            await soon(await websocket.ping(b"between"))
            yield b"after"

        await websocket.send(parts())
        assert await received(websocket) == b"beforeafter"


async def ping(client):
    async with client.connect() as websocket:
        for payload in (b"", b"payload", os.urandom(125)):
            await soon(await websocket.ping(payload))
        await asyncio.gather(*[soon(await websocket.ping(b"%d" % number)) for number in range(50)])
        await websocket.send("still open")
        assert await received(websocket) == "still open"


async def close_codes(client):
    """The server answers each code with the same code."""
    for code in (1000, 1001, 1011, 3000, 4999):
        async with client.connect() as websocket:
            await websocket.send("hello")
            assert await received(websocket) == "hello"
            await soon(websocket.close(code, "the reason"))
            assert websocket.close_code == code, (websocket.close_code, code)


async def push(client):
    begun = time.monotonic_ns()
    async with client.connect("/feed") as websocket:
        messages, arrived = [], []
        for _ in range(MESSAGES):
            messages.append(await received(websocket))
            arrived.append(time.monotonic_ns())
        assert await ends(websocket) == 1000
    stamps = [stamp(message) for message in messages]
    first = stamps[0][1]
    assert begun <= first <= arrived[0], (begun, first, arrived[0])
    assert stamps == [(number, first + number * EVERY) for number in range(MESSAGES)], stamps
    for (number, due), at in zip(stamps, arrived):
        assert at >= due, f"message {number} came {due - at} ns too early"


async def fan_out(client):
    """All connections get the same messages, and none is missing on any of them."""
    async with client.connect("/all") as one, client.connect("/all") as two, client.connect("/all") as three:
        everything = {}
        for websocket in (one, two, three):
            stamps = [stamp(await received(websocket)) for _ in range(10)]
            numbers = [number for number, _ in stamps]
            assert numbers == list(range(numbers[0], numbers[0] + 10)), numbers
            for number, due in stamps:
                assert everything.setdefault(number, due) == due, (number, due, everything)


async def plain(client):
    """The client offers compression, and the server accepts none."""
    async with client.connect(compression="deflate") as websocket:
        assert extensions(websocket) == []
        await websocket.send("hello")
        assert await received(websocket) == "hello"


async def deflate(client):
    async with client.connect(compression="deflate") as websocket:
        assert extensions(websocket) == ["permessage-deflate"]
        for message in ("", "a", "a" * 100_000, b"b" * 1_000, os.urandom(100_000), "ü" * 70_000, json.dumps(list(range(9999)))):
            # A message by itself, and one in several frames.
            for sent in (message, [message[:7], message[7:70], message[70:]]):
                await websocket.send(sent)
                assert await received(websocket) == message, len(message)
    assert websocket.close_code == 1000, websocket.close_code


CHECKS = {check.__name__: check for check in (echo, fragments, ping, close_codes, push, fan_out, plain, deflate)}


async def ask(address, names):
    client = Client(address)
    for name in names:
        await CHECKS[name](client)
        print(name, flush=True)


# The server of WebSockets. The path says what it does.


async def answer(websocket, path=None):
    """Answers messages. On some paths it also sends pings, or ends after three answers."""
    from websockets.exceptions import ConnectionClosed

    path = path or getattr(websocket, "path", None) or websocket.request.path
    try:
        for count in itertools.count(1):
            message = await websocket.recv()
            if path == "/ping":
                await soon(await websocket.ping())
            await websocket.send(message)
            if count == 3 and path == "/close":
                return await websocket.close()
            if count == 3 and path == "/error":
                return await websocket.close(1011, "broken")
            if count == 3 and path == "/cut":
                return websocket.transport.abort()
    except ConnectionClosed:
        pass


async def serve(host, compression):
    import websockets

    compression = None if compression == "none" else compression
    server = await websockets.serve(answer, host, 0, compression=compression, max_size=None, ping_interval=None)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    # WebSockets that have not ended would keep the process.
    os._exit(0)


# The server of events. The path says how they are written.


def text_stamp(number):
    return f"~hx{number:016x}{time.monotonic_ns():016x}"


def lines(mode, number):
    """The lines of an event, and the empty line after it."""
    data = text_stamp(number)
    if mode == "multiline":
        return ["event: token", "data: {", f'data: "text": "{data}"', "data", "data:}", "retry: 1000", ""]
    if mode == "comments":
        return [": hoptax", f"data:{data}", f"id: {number}", "", ":", ""]
    if mode == "foreign":
        return [f"data: event {number}", ""]
    return [f"id: {number}", f"data: {data} and more", ""]


class Events(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.headers["accept"] != "text/event-stream":
            return self.send_error(406)
        mode = self.path.strip("/")
        self.is_chunked = mode != "closed"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header(*(("transfer-encoding", "chunked") if self.is_chunked else ("connection", "close")))
        self.end_headers()
        end = {"crlf": "\r\n", "split-crlf": "\r\n", "cr": "\r"}.get(mode, "\n")
        self.write("\ufeff".encode() if mode == "bom" else b"")
        for number in range(MESSAGES):
            text = "".join(line + end for line in lines(mode, number)).encode()
            # Pieces of 7 bytes end in the middle of names, of stamps, and between CR and LF.
            length = 7 if mode.startswith("split") else len(text)
            for start in range(0, len(text), length):
                self.write(text[start:start + length])
            time.sleep(0.002)
        self.end()

    def write(self, text):
        """Writes a part of the body at once. It is a chunk of its own."""
        if text:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text) if self.is_chunked else text)

    def end(self):
        if self.is_chunked:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True


def serve_events(host):
    server = ThreadingHTTPServer((host, 0), Events)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


# The client of events.


def at(times, share):
    """A percentile, µs."""
    return sorted(times)[int(share * (len(times) - 1))] / 1e3


def ages(address, count):
    """Ages of events: from when each was due until the socket had it. Both processes must share the clock.

    With the environment variable POLL, the socket is asked again and again, so that no wake-up is in the ages.
    """
    assert "CLOCK_MONOTONIC" in time.get_clock_info("monotonic").implementation
    host, port = address.rsplit(":", 1)
    request = f"GET / HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n".encode()
    clock, found, arrived, rest = time.monotonic_ns, [], [], b""
    with socket.create_connection((host, int(port)), LIMIT) as connection:
        connection.sendall(request)
        connection.setblocking("POLL" not in os.environ)
        while len(found) < count:
            try:
                piece = connection.recv(1 << 16)
            except BlockingIOError:
                continue
            now = clock()
            assert piece, f"the stream ended after {len(found)} events"
            # An event has ended when its empty line has arrived.
            *whole, rest = (rest + piece).split(b"\n\n")
            for event in whole:
                for number, due in TEXT_STAMP.findall(event):
                    assert int(number, 16) == len(found), (number, len(found))
                    found.append(now - int(due, 16))
                    arrived.append(now)
    gaps = [later - earlier for earlier, later in zip(arrived, arrived[1:])]
    print(json.dumps({"events": len(found), "p50": at(found, 0.5), "p99": at(found, 0.99), "gap_p50": at(gaps, 0.5)}))


def tokens(address, streams, headers="{}"):
    """Times until the first token, and ages of all tokens, of streams of OpenAI's chat completions.

    `headers` are further headers, as JSON.
    """
    body = json.dumps({"model": "gpt-4o-mini", "stream": True, "messages": [{"role": "user", "content": "Hello"}]})
    clock, firsts, found, ends = time.monotonic_ns, [], [], 0
    connection = http.client.HTTPConnection(address, timeout=LIMIT)
    connection.connect()
    for _ in range(streams):
        begun, number = clock(), 0
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json", **json.loads(headers)})
        response = connection.getresponse()
        assert response.status == 200, response.status
        while line := response.readline():
            now = clock()
            ends += line.strip() == b"data: [DONE]"
            for index, due in TEXT_STAMP.findall(line):
                assert int(index, 16) == number, (number, line)
                if number == 0:
                    firsts.append(now - begun)
                found.append(now - int(due, 16))
                number += 1
    assert ends == streams, (ends, streams)
    print(json.dumps({"tokens": len(found), "first": at(firsts, 0.5), "age": at(found, 0.5)}))


# Tests use no proxy.
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]
what, where, *rest = sys.argv[1:]
if what == "ask":
    # Says where it hangs.
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)
    asyncio.run(ask(where, rest))
elif what == "serve":
    asyncio.run(serve(where, *rest))
elif what == "events":
    serve_events(where)
else:
    {"ages": ages, "tokens": tokens}[what](where, int(rest[0]), *rest[1:])
