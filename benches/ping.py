#!/usr/bin/env python3
"""Measures the bare round trip, and prints its percentiles in µs as JSON.

Sends requests at a set rate, one at a time, on one blocking socket. There is no event loop and no parser. Between
reading the clock and the system calls, Python executes only a few bytecodes, which takes well below a microsecond. Late
requests are sent at once. If one connection cannot reach the rate, this is therefore a closed loop.

usage: ping.py HOST:PORT RATE SECONDS
"""

import json
import socket
import sys
import time


def main(address, rate, seconds):
    host, port = address.split(":")
    request = f"GET / HTTP/1.1\r\nhost: {address}\r\n\r\n".encode()
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(request)
    length = len(connection.recv(1 << 20))
    clock, send, receive, trips = time.monotonic_ns, connection.send, connection.recv, []
    begun = clock()
    for index in range(rate * seconds):
        now, due = clock(), begun + index * 1_000_000_000 // rate
        if now >= begun + seconds * 1_000_000_000:
            break
        if due > now:
            time.sleep((due - now) / 1e9)
        sent = clock()
        send(request)
        got = len(receive(1 << 20))
        while got < length:
            got += len(receive(1 << 20))
        trips.append(clock() - sent)
    trips.sort()
    at = lambda share: trips[min(len(trips) - 1, int(share * len(trips)))] / 1e3
    print(json.dumps({"rate": len(trips) / seconds, "count": len(trips), "mean": sum(trips) / len(trips) / 1e3,
                      "max": trips[-1] / 1e3, "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p99.9": at(0.999)}))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
