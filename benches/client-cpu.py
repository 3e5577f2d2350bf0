#!/usr/bin/env python3
"""Client CPU per request: `hoptax load` against wrk, in pairs, on the same nginx, one core each.

One nginx worker answers `return 200` with 64 bytes; the clients take turns on the other CPU, in an order that is swapped
from pair to pair. The figure of a pair is requests per client CPU second, hoptax over wrk: above 1, hoptax does more
with the same CPU. CPU time is user + system as the kernel tells it when the process is waited for, start and connecting
included.

Beside it stand throughput and p50, as two clients that disagree on those do not measure the same thing. They agree while
neither client nor server is the limit. With many connections on one saturated CPU they cannot agree on p50: wrk sends its
next request only in its loop's next pass and starts its clock then, so that part of the cycle is in nobody's latency.
Requests in flight by Little's law (throughput × mean latency) tell: hoptax keeps as many as there are connections.

usage: benches/client-cpu.py [PAIRS] [SECONDS]
"""

import json
import re
import sys

from common import HOPTAX, Steal, client, header, nginx, spread, tool

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
MICROSECONDS = {"us": 1, "ms": 1e3, "s": 1e6}


def wrk(url, connections):
    text, cpu, _ = client([tool("wrk"), "-t1", f"-c{connections}", f"-d{SECONDS}s", "--latency", url])
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", text).groups()
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    mean, mean_unit = re.search(r"Latency\s+([\d.]+)(us|ms|s)", text).groups()
    in_flight = rate * float(mean) * MICROSECONDS[mean_unit] / 1e6
    return cpu / requests * 1e6, rate, float(value) * MICROSECONDS[unit], in_flight


def hoptax(url, connections):
    text, cpu, _ = client([HOPTAX, "load", url, "-c", connections, "-d", f"{SECONDS}s", "--json"])
    case = json.loads(text)
    rate, service = case["throughput"]["estimate"], case["service_time"]
    in_flight = rate * service["mean"]["estimate"] / 1e6
    return cpu / case["counts"]["completed"] * 1e6, rate, service["p50"]["estimate"], in_flight


header("Client CPU per request, throughput and p50: hoptax load against wrk on the same nginx, 64 B")
with nginx("x" * 64) as (url, _):
    for connections in (1, 8, 100):
        stolen, ours, theirs = Steal(), [], []
        for pair in range(PAIRS):
            order = [(ours, hoptax), (theirs, wrk)]
            for results, run in order if pair % 2 else reversed(order):
                results.append(run(url, connections))
        cpu, rate, p50, in_flight = range(4)
        figures = lambda which, results: [result[which] for result in results]
        ratios = lambda which, over, under: [a[which] / b[which] for a, b in zip(over, under)]
        print(f"{connections:>3} connections: requests per client CPU second, hoptax over wrk: "
              f"{spread(ratios(cpu, theirs, ours))}\n"
              f"    client CPU µs/request: hoptax {spread(figures(cpu, ours))}, wrk {spread(figures(cpu, theirs))}\n"
              f"    requests/s: hoptax {spread(figures(rate, ours), 0)}, wrk {spread(figures(rate, theirs), 0)}, "
              f"hoptax over wrk {spread(ratios(rate, ours, theirs))}\n"
              f"    p50 µs: hoptax {spread(figures(p50, ours), 1)}, wrk {spread(figures(p50, theirs), 1)}\n"
              f"    in flight (throughput × mean): hoptax {spread(figures(in_flight, ours), 1)}, "
              f"wrk {spread(figures(in_flight, theirs), 1)}\n"
              f"    steal {stolen}", flush=True)
