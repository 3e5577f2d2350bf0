"""A client and a server with Google's gRPC for Python, `grpcio`, for the tests in mod.rs.

    peer.py ask ADDRESS CHECK…    makes calls to a server, checks the answers, and prints the names of the checks
    peer.py serve HOST off|gzip   prints its port, and serves until standard input ends; gzip compresses the answers
"""

import faulthandler
import itertools
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

# The longest time of a call, and of the server, seconds. Only faults take as long.
LIMIT = 60
# Tests have ports of their own, which a second server must not get, and use no proxy.
OPTIONS = [("grpc.so_reuseport", 0), ("grpc.enable_http_proxy", 0)]
# Key and length of the field with the number and the time of a message (crates/hoptax-format/src/messages.rs).
TAG = b"\xfa\x7f\x10"
# Messages of each stream, and the time between two of them, nanoseconds.
MESSAGES, EVERY = 20, 5_000_000
CODES = {code.value[0]: code for code in grpc.StatusCode}


def stamped(number, due, content=b""):
    return TAG + number.to_bytes(8, "big") + due.to_bytes(8, "big") + content


def stamp(message):
    """Number and time of a message."""
    assert message[:3] == TAG, message
    return int.from_bytes(message[3:11], "big"), int.from_bytes(message[11:19], "big")


# The client. Messages stay bytes, so no file of types is needed.


class Client:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, OPTIONS)

    def unary(self, path, message=b"hello", timeout=LIMIT, **more):
        return self.channel.unary_unary(path)(message, timeout=timeout, wait_for_ready=True, **more)

    def server_stream(self, path, timeout=LIMIT):
        return self.channel.unary_stream(path)(b"hello", timeout=timeout, wait_for_ready=True)

    def client_stream(self, path, messages):
        return self.channel.stream_unary(path)(messages, timeout=LIMIT, wait_for_ready=True)

    def both_ways(self, path, messages, timeout=LIMIT, **more):
        return self.channel.stream_stream(path)(messages, timeout=timeout, wait_for_ready=True, **more)


def fails(call):
    """Status and text of a call that must fail."""
    try:
        answer = call()
        answer = list(answer) if not isinstance(answer, bytes) else answer
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError(f"the call did not fail: {answer[:100]}")


def unary(client):
    for size in (0, 1, 100, 16_384, 100_000):
        assert client.unary("/echo.Echo/Say", b"a" * size) == b"hello from the upstream", size
    calls = [client.channel.unary_unary("/echo.Echo/Say").future(b"a", timeout=LIMIT) for _ in range(300)]
    assert {call.result() for call in calls} == {b"hello from the upstream"}
    answer, call = client.channel.unary_unary("/echo.Echo/Say").with_call(b"a", timeout=LIMIT)
    assert call.code() == grpc.StatusCode.OK and call.details() == "", (call.code(), call.details())
    assert ("x-own", "header") in [tuple(field) for field in call.initial_metadata()], call.initial_metadata()
    # A client that compresses.
    assert client.unary("/echo.Echo/Say", b"a" * 10_000, compression=grpc.Compression.Gzip) == answer


def server_stream(client):
    """The stream is not faster than its schedule, and its numbers and times are those of the schedule."""
    begun, messages, arrived = time.monotonic_ns(), [], []
    for message in client.server_stream("/echo.Echo/Watch"):
        arrived.append(time.monotonic_ns())
        messages.append(message)
    assert len(messages) == MESSAGES, len(messages)
    stamps = [stamp(message) for message in messages]
    first = stamps[0][1]
    assert begun <= first <= arrived[0], (begun, first, arrived[0])
    assert stamps == [(number, first + number * EVERY) for number in range(MESSAGES)], stamps
    for (number, due), at in zip(stamps, arrived):
        assert at >= due, f"message {number} came {due - at} ns too early"
    # Other streams at the same time, and a stream without a pace.
    calls = [client.server_stream("/echo.Echo/Watch") for _ in range(20)]
    assert [len(list(call)) for call in calls] == [MESSAGES] * 20
    numbers = [stamp(message)[0] for message in client.server_stream("/echo.Echo/Burst")]
    assert numbers == list(range(5000)), len(numbers)


def client_stream(client):
    for count in (0, 1, MESSAGES, 1000):
        messages = (stamped(number, 0) for number in range(count))
        assert client.client_stream("/echo.Echo/Send", messages) == b"hello from the upstream", count


def both_ways(client):
    """Message by message: the next one leaves when the answer to the last one has arrived."""
    answered = threading.Semaphore(1)
    sent = [stamped(number, 0, b"a" * (number * 37)) for number in range(200)]

    def messages():
        for message in sent:
            assert answered.acquire(timeout=LIMIT), "no answer"
            yield message

    received = []
    for message in client.both_ways("/echo.Echo/Chat", messages()):
        received.append(message)
        answered.release()
    assert received == sent, len(received)
    # All at once, with empty messages and with large ones, and with compression.
    sent = [b"b" * size for size in itertools.islice(itertools.cycle([0, 1, 70_000, 300]), 400)]
    for compression in (None, grpc.Compression.Gzip):
        received = list(client.both_ways("/echo.Echo/Chat", iter(sent), compression=compression))
        assert received == sent, (compression, len(received))
    assert list(client.both_ways("/echo.Echo/Chat", iter([]))) == []


def large(client):
    """4 MiB, which is the largest message that gRPC's clients accept by default."""
    message = os.urandom(4 << 20)
    answer = client.unary("/echo.Echo/Large", message)
    assert len(answer) == 4 << 20, len(answer)
    assert list(client.both_ways("/echo.Echo/Chat", iter([message] * 3))) == [message] * 3


def statuses(client):
    cases = {
        "/echo.Echo/Missing": (grpc.StatusCode.UNIMPLEMENTED, "the upstream's status is 404"),
        "/echo.Echo/Closed": (grpc.StatusCode.PERMISSION_DENIED, "the upstream's status is 403"),
    }
    for path, expected in cases.items():
        assert fails(lambda path=path: client.unary(path)) == expected, path
    assert fails(lambda: client.both_ways("/echo.Echo/Chat", iter([bytes(17 << 20)]))) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "a message is too large, or replies are not read",
    )
    assert client.unary("/echo.Echo/Say") == b"hello from the upstream"


def own_status(client):
    expected = (grpc.StatusCode.NOT_FOUND, "the upstream ends calls with this status")
    assert fails(lambda: client.unary("/echo.Echo/Say")) == expected
    assert fails(lambda: client.server_stream("/echo.Echo/Watch")) == expected
    assert fails(lambda: client.client_stream("/echo.Echo/Send", iter([b"a"] * 3))) == expected
    assert fails(lambda: client.both_ways("/echo.Echo/Chat", iter([b"a"] * 3))) == expected


def deadline(client):
    """Streams that last an hour, and a client that never ends its own."""
    late = grpc.StatusCode.DEADLINE_EXCEEDED
    held = threading.Event()

    def endless():
        yield b"a"
        held.wait(LIMIT)

    assert fails(lambda: client.server_stream("/echo.Echo/Slow", timeout=0.3))[0] == late
    assert fails(lambda: client.both_ways("/echo.Echo/Chat", endless(), timeout=0.3))[0] == late
    held.set()
    # The connection is still good.
    assert client.unary("/echo.Echo/Say") == b"hello from the upstream"


def cancel(client):
    for _ in range(3):
        call = client.server_stream("/echo.Echo/Slow")
        assert stamp(next(call))[0] == 0
        call.cancel()
        assert fails(lambda call=call: call)[0] == grpc.StatusCode.CANCELLED
    assert client.unary("/echo.Echo/Say") == b"hello from the upstream"


def health(client):
    serving = b"\x08\x01"
    assert client.unary("/grpc.health.v1.Health/Check", b"") == serving
    assert client.unary("/grpc.health.v1.Health/Check", b"\x0a\x09echo.Echo") == serving
    watch = client.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=LIMIT)
    assert next(watch) == serving
    # It sends nothing more and stays open.
    assert client.unary("/grpc.health.v1.Health/Check", b"") == serving
    assert watch.is_active()
    watch.cancel()


def reflection(client):
    """`list_services` (field 7), then `file_containing_symbol` (field 4)."""
    for version in ("v1", "v1alpha"):
        path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        services, unknown = client.both_ways(path, iter([b"\x3a\x00", b"\x22\x09echo.Echo"]))
        names = b"\x0a\x17\x0a\x15grpc.health.v1.Health\x0a\x0b\x0a\x09echo.Echo"
        assert services == b"\x12\x02\x3a\x00\x32" + bytes([len(names)]) + names, services
        # The error NOT_FOUND: code 5 in field 1 of field 7.
        assert b"\x3a\x1d\x08\x05" in unknown, unknown


# The server.


class Echo(grpc.GenericRpcHandler):
    """Methods of any service."""

    def __init__(self):
        self.calls = itertools.count()

    def service(self, details):
        method = details.method.rsplit("/", 1)[1]
        kinds = {
            "Say": grpc.unary_unary_rpc_method_handler(self.say),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "Late": grpc.unary_unary_rpc_method_handler(self.late),
            "Watch": grpc.unary_stream_rpc_method_handler(self.watch),
            "Break": grpc.unary_stream_rpc_method_handler(self.broken),
            "Send": grpc.stream_unary_rpc_method_handler(self.send),
            "Chat": grpc.stream_stream_rpc_method_handler(self.chat),
        }
        # Other methods get UNIMPLEMENTED.
        return kinds.get(method)

    def say(self, message, context):
        return message

    def fail(self, message, context):
        """Each status in turn, also OK."""
        code = CODES[next(self.calls) % len(CODES)]
        if code != grpc.StatusCode.OK:
            context.abort(code, f"status {code.value[0]}: 100 % “so”")
        return message

    def late(self, message, context):
        """The answer comes after the deadline of the call, if it has one."""
        left = context.time_remaining()
        over = threading.Event()
        context.add_callback(over.set)
        over.wait(LIMIT if left is None else min(left + 1, LIMIT))
        return message

    def watch(self, message, context):
        begun = time.monotonic_ns()
        for number in range(MESSAGES):
            due = begun + number * EVERY
            time.sleep(max(due - time.monotonic_ns(), 0) / 1e9)
            yield stamped(number, due)

    def broken(self, message, context):
        for number in range(3):
            yield stamped(number, time.monotonic_ns())
        context.abort(grpc.StatusCode.DATA_LOSS, "broken")

    def send(self, messages, context):
        numbers = [stamp(message)[0] for message in messages]
        if numbers != list(range(MESSAGES)):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"messages {numbers}")
        return b"all came"

    def chat(self, messages, context):
        yield from messages


def serve(host, compression):
    how = {"off": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}[compression]
    server = grpc.server(ThreadPoolExecutor(32), (Echo(),), options=OPTIONS, compression=how)
    port = server.add_insecure_port(f"{host}:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    # Calls that have not ended would keep the threads.
    os._exit(0)


CHECKS = [unary, server_stream, client_stream, both_ways, large]
CHECKS += [statuses, own_status, deadline, cancel, health, reflection]


def ask(address, names):
    # Says where it hangs.
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)
    client = Client(address)
    for name in names:
        {check.__name__: check for check in CHECKS}[name](client)
        print(name, flush=True)
    # Threads of calls that the server has ended can keep the interpreter.
    os._exit(0)


if sys.argv[1] == "serve":
    serve(*sys.argv[2:])
else:
    ask(sys.argv[2], sys.argv[3:])
