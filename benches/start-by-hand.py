#!/usr/bin/env python3
"""Measures starts of a gateway with nothing but blocking sockets, to check `start` of a plan.

    hoptax upstream --port 34901 --body-size 1KiB &
    benches/start-by-hand.py --port 41729 -- nginx -p DIRECTORY -c DIRECTORY/nginx.conf

The command must serve on the port that its configuration names; a run with `start` leaves such configurations in `rendered/`.
Prints medians with their 95 % intervals: the time from the creation of the process until a connection is accepted and until
the first answer with status 200, and the response times of the 1st, 10th, 100th and 1,000th request on one connection.
"""

import argparse
import contextlib
import math
import os
import signal
import socket
import subprocess
import time

REQUESTS = (1, 10, 100, 1000)
PATIENCE_S = 60


def connected(port, until):
    while time.monotonic() < until:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except ConnectionRefusedError:
            time.sleep(0.0002)
    raise SystemExit(f"nothing listens on port {port}")


def answered(connection):
    """Sends a request and reads the whole response; its status, or None if the connection ended."""
    connection.sendall(b"GET / HTTP/1.1\r\nhost: by-hand\r\n\r\n")
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            return None
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    missing = int(headers[b"content-length"]) - len(body)
    while missing > 0:
        piece = connection.recv(65536)
        if not piece:
            return None
        missing -= len(piece)
    return int(head.split()[1])


def one_start(command, port, cpu):
    """Milliseconds until the gateway listens and is ready, and response times of the requests in REQUESTS."""
    pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               preexec_fn=pin)
    try:
        until = begun + PATIENCE_S
        connection = connected(port, until)
        listening = time.monotonic()
        times = []
        while not times and time.monotonic() < until:
            sent = time.monotonic()
            status = answered(connection)
            if status == 200:
                times.append(time.monotonic() - sent)
            else:
                connection.close()
                connection = connected(port, until)
        ready = time.monotonic()
        if not times:
            raise SystemExit(f"no answer with status 200 within {PATIENCE_S} s")
        while len(times) < max(REQUESTS):
            sent = time.monotonic()
            if (status := answered(connection)) != 200:
                raise SystemExit(f"request {len(times) + 1} got {status}")
            times.append(time.monotonic() - sent)
        connection.close()
        return [1e3 * each for each in (listening - begun, ready - begun, *(times[number - 1] for number in REQUESTS))]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True, help="port on which the gateway serves")
    parser.add_argument("--times", type=int, default=20, help="number of starts (default %(default)s)")
    parser.add_argument("--cpu", type=int, help="CPU of the gateway (default: any)")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    starts = []
    with contextlib.ExitStack() as kept:
        # As in a run, idle CPUs poll while this file is open.
        with contextlib.suppress(OSError):
            kept.enter_context(open("/dev/cpu_dma_latency", "wb", buffering=0)).write(bytes(4))
        for _ in range(arguments.times):
            starts.append(one_start(arguments.command, arguments.port, arguments.cpu))
            time.sleep(0.3)
    # The largest rank for which the interval between this rank and the same rank from above misses the median with a
    # probability of at most 5 %: 6 for 20 starts (95.9 %).
    count = len(starts)
    missed = [2 * sum(math.comb(count, below) for below in range(rank)) / 2**count for rank in range(1, count // 2 + 1)]
    rank = sum(chance <= 0.05 for chance in missed)
    for name, values in zip(["listening", "ready", *(f"request {number}" for number in REQUESTS)], zip(*starts)):
        values = sorted(values)
        median = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
        interval = f"({values[rank - 1]:.3f}–{values[-rank]:.3f})" if rank else "no interval"
        print(f"{name:<13} {median:8.3f} ms  {interval}")


if __name__ == "__main__":
    main()
