"""A client and a server with Python's `h2`, for http2_peers.rs.

    http2_peer.py serve        prints its port, and sends the body of each request back
    http2_peer.py go-away      prints its port, answers four requests, and goes away with ENHANCE_YOUR_CALM
    http2_peer.py ask PORT N   sends 80 requests with bodies of up to N bytes and checks the answers
"""

import random
import socket
import sys
import threading

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RequestReceived,
    ResponseReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.settings import SettingCodes


class Peer:
    """A connection with its socket, and data that waits for a window."""

    def __init__(self, connected, client):
        self.socket = connected
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(30)
        self.h2 = H2Connection(H2Configuration(client_side=client))
        self.h2.initiate_connection()
        self.random = random.Random(7)
        self.waiting = {}

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def events(self):
        """All events up to the end of the connection."""
        while data := self.socket.recv(1 + self.random.randrange(20_000)):
            yield from self.h2.receive_data(data)
            for stream in list(self.waiting):
                self.send(stream)
            self.flush()

    def add(self, stream, data, trailers):
        """Sends data, then trailers if there are any, and ends the stream."""
        self.waiting[stream] = (data, trailers)
        self.send(stream)

    def send(self, stream):
        data, trailers = self.waiting[stream]
        while data:
            padding = self.random.choice([None, 0, 30])
            most = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            most -= 0 if padding is None else padding + 1
            if most <= 0:
                if padding is not None:
                    continue
                break
            self.h2.send_data(stream, data[:most], pad_length=padding)
            data = data[most:]
        self.waiting[stream] = (data, trailers)
        if not data:
            del self.waiting[stream]
            if trailers:
                self.h2.send_headers(stream, trailers, end_stream=True)
            else:
                self.h2.end_stream(stream)


def serve(connected):
    peer = Peer(connected, client=False)
    peer.flush()
    bodies = {}
    for event in peer.events():
        if isinstance(event, RequestReceived):
            bodies[event.stream_id] = b""
            if peer.random.random() < 0.2:
                peer.h2.send_headers(event.stream_id, [(":status", "103"), ("link", "x")])
        elif isinstance(event, DataReceived):
            bodies[event.stream_id] += event.data
            peer.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, SettingsAcknowledged):
            # A smaller initial window can make windows negative, and h2 opens them only when more data arrives.
            for stream in bodies:
                window = peer.h2.remote_flow_control_window(stream)
                if window <= 0:
                    peer.h2.increment_flow_control_window(100 - window, stream)
        elif isinstance(event, StreamEnded):
            body = bodies.pop(event.stream_id)
            head = [(":status", "200"), ("server", "h2"), ("x-round", str(peer.random.randrange(5)))]
            if peer.random.random() < 0.5:
                head.append(("content-length", str(len(body))))
            if peer.random.random() < 0.02:
                peer.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: peer.random.randrange(1, 100_000)})
            peer.h2.send_headers(event.stream_id, head)
            peer.add(event.stream_id, body, [("x-sum", "1")] if peer.random.random() < 0.3 else None)


def go_away(connected):
    peer = Peer(connected, client=False)
    peer.flush()
    answered = 0
    for event in peer.events():
        if isinstance(event, StreamEnded) and answered < 4:
            peer.h2.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
            answered += 1
            if answered == 4:
                # After GOAWAY, h2 sends nothing, so both are sent at once.
                peer.h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM, b"slow down", event.stream_id)
                peer.flush()
                connected.shutdown(socket.SHUT_WR)
                return


def listen(handle):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()


def ask(port, longest):
    peer = Peer(socket.create_connection(("127.0.0.1", port)), client=True)
    peer.flush()
    expected, received, begun, done = {}, {}, 0, 0
    requests = 80

    def begin():
        nonlocal begun
        while begun < requests and len(received) < min(20, peer.h2.remote_settings.max_concurrent_streams):
            stream = peer.h2.get_next_available_stream_id()
            body = peer.random.randbytes(peer.random.choice([0, 1, 100, longest]))
            head = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", f"/{begun % 3}")]
            head.append(("x-long", "y" * peer.random.choice([1, 100, 20_000])))
            expected[stream], received[stream] = body or b"hello", b""
            trailers = [("sum", "1")] if body and peer.random.random() < 0.3 else None
            if body:
                peer.h2.send_headers(stream, head)
                peer.add(stream, body, trailers)
            else:
                peer.h2.send_headers(stream, head, end_stream=True)
            begun += 1
        peer.flush()

    begin()
    for event in peer.events():
        if isinstance(event, ResponseReceived):
            assert (b":status", b"200") in event.headers, event.headers
        elif isinstance(event, DataReceived):
            received[event.stream_id] += event.data
            peer.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, TrailersReceived):
            assert event.headers == [(b"sum", b"1")], event.headers
        elif isinstance(event, StreamEnded):
            stream = event.stream_id
            assert received.pop(stream) == expected.pop(stream), stream
            done += 1
            if done == requests:
                break
            begin()
        elif isinstance(event, (StreamReset, ConnectionTerminated)):
            sys.exit(repr(event))
        elif isinstance(event, WindowUpdated):
            pass
    print(f"{done} answers")


if sys.argv[1] == "ask":
    ask(int(sys.argv[2]), int(sys.argv[3]))
else:
    listen({"serve": serve, "go-away": go_away}[sys.argv[1]])
