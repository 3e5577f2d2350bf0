#!/usr/bin/env python3
"""CPU per request of `hoptax upstream` against nginx `return 200` with one worker: same client, same CPU, in turns.

usage: benches/upstream-cpu.py [PAIRS] [SECONDS]
"""

import re
import sys

from common import Steal, client, cpu_of, header, nginx, spread, tool, upstream

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3


def cost(url, pid, connections):
    """Microseconds of the server's CPU per request, and requests per second, under wrk."""
    before = cpu_of(pid)
    text, _, _ = client([tool("wrk"), "-t1", f"-c{connections}", f"-d{SECONDS}s", url])
    used = cpu_of(pid) - before
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    return used / requests * 1e6, float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))


header("CPU per request of the server: hoptax upstream against nginx `return 200`, loaded by wrk")
for size in (64, 1024):
    with nginx("x" * size) as (nginx_url, nginx_pid), upstream("--body", f"{size}B") as (our_url, our_pid):
        for connections in (1, 100):
            ours, theirs, ratios = [], [], []
            stolen = Steal()
            for pair in range(PAIRS):
                order = [(ours, our_url, our_pid), (theirs, nginx_url, nginx_pid)]
                for results, url, pid in order if pair % 2 else reversed(order):
                    results.append(cost(url, pid, connections))
                ratios.append(theirs[-1][0] / ours[-1][0])
            print(f"{size} B, {connections:>3} connections: hoptax {spread([cpu for cpu, _ in ours])} µs/request, "
                  f"nginx {spread([cpu for cpu, _ in theirs])} µs/request, "
                  f"nginx over hoptax {spread(ratios)}; requests/s {spread([rate for _, rate in ours], 0)} against "
                  f"{spread([rate for _, rate in theirs], 0)}; steal {stolen}", flush=True)
