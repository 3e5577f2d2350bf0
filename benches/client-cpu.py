#!/usr/bin/env python3
"""Client CPU per request: `hoptax load` on epoll and on io_uring against wrk, in turns, on the same server, one core each.

One nginx worker answers `return 200` with 64 bytes, and `hoptax upstream` 64 KiB; the clients take turns on the other CPU,
in an order that is swapped from turn to turn. The figure of a turn is requests per client CPU second, one over the
other: above 1, the first does more with the same CPU. CPU time is user + system as the kernel tells it when the process
is waited for, start and connecting included.

Beside it stand throughput and p50, as two clients that disagree on those do not measure the same thing. They agree while
neither client nor server is the limit. With many connections on one saturated CPU they cannot agree on p50: wrk sends its
next request only in its loop's next pass and starts its clock then, so that part of the cycle is in nobody's latency.
Requests in flight by Little's law (throughput × mean latency) tell: hoptax keeps as many as there are connections.

usage: benches/client-cpu.py [PAIRS] [SECONDS]
"""

import json
import re
import sys

from common import HOPTAX, Steal, client, header, nginx, spread, tool, upstream

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
MICROSECONDS = {"us": 1, "ms": 1e3, "s": 1e6}


LOOPS = ("epoll", "io_uring")
# Body and connections: the first is answered by nginx, the large one by our upstream (nginx has no `return` that long).
POINTS = (("64B", 1), ("64B", 8), ("64B", 100), ("64KiB", 100))


def wrk(url, connections):
    text, cpu, _ = client([tool("wrk"), "-t1", f"-c{connections}", f"-d{SECONDS}s", "--latency", url])
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", text).groups()
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    mean, mean_unit = re.search(r"Latency\s+([\d.]+)(us|ms|s)", text).groups()
    in_flight = rate * float(mean) * MICROSECONDS[mean_unit] / 1e6
    return cpu / requests * 1e6, rate, float(value) * MICROSECONDS[unit], in_flight


def hoptax(loop):
    def run(url, connections):
        text, cpu, _ = client([HOPTAX, "load", url, "-c", connections, "-d", f"{SECONDS}s", "--json",
                               "--event-loop", loop])
        case = json.loads(text)
        rate, service = case["throughput"]["estimate"], case["service_time"]
        in_flight = rate * service["mean"]["estimate"] / 1e6
        return cpu / case["counts"]["completed"] * 1e6, rate, service["p50"]["estimate"], in_flight
    return run


def server(body):
    return nginx("x" * 64) if body == "64B" else upstream("--body", body)


header("Client CPU per request, throughput and p50: hoptax load on each event loop against wrk on the same server")
RUNS = {"wrk": wrk, **{loop: hoptax(loop) for loop in LOOPS}}
CPU, RATE, P50, IN_FLIGHT = range(4)
for body, connections in POINTS:
    with server(body) as (url, _):
        stolen, results = Steal(), {name: [] for name in RUNS}
        for turn in range(PAIRS):
            for name in list(RUNS)[::1 if turn % 2 else -1]:
                results[name].append(RUNS[name](url, connections))
        figures = lambda which, name: [result[which] for result in results[name]]
        ratios = lambda which, over, under: [a / b for a, b in zip(figures(which, over), figures(which, under))]
        each = lambda which, digits: ", ".join(f"{name} {spread(figures(which, name), digits)}" for name in RUNS)
        print(f"{body}, {connections} connections: requests per client CPU second: "
              f"epoll over wrk {spread(ratios(CPU, 'wrk', 'epoll'))}, "
              f"io_uring over wrk {spread(ratios(CPU, 'wrk', 'io_uring'))}, "
              f"io_uring over epoll {spread(ratios(CPU, 'epoll', 'io_uring'))}\n"
              f"    client CPU µs/request: {each(CPU, 2)}\n"
              f"    requests/s: {each(RATE, 0)}; epoll over wrk {spread(ratios(RATE, 'epoll', 'wrk'))}\n"
              f"    p50 µs: {each(P50, 1)}\n"
              f"    in flight (throughput × mean): {each(IN_FLIGHT, 1)}\n"
              f"    steal {stolen}", flush=True)
