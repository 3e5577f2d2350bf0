#!/usr/bin/env python3
"""How exact are latencies? An upstream that holds answers back for a known time, seen by `hoptax load`, in pairs with the
same upstream without a delay: p50 of the service time, less the bare round trip, less the delay, should be nothing.

usage: benches/known-delay.py [PAIRS] [SECONDS]
"""

import json
import sys

from common import HOPTAX, Steal, client, header, spread, upstream

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3


def percentiles(url, *arguments):
    text, _, _ = client([HOPTAX, "load", url, "-d", f"{SECONDS}s", *arguments, "--json"])
    case = json.loads(text)
    return {name: case["service_time"][name]["estimate"] for name in ("p50", "p99")}


header("Error of the service time against a known delay")
with upstream() as (bare, _), upstream("--delay", "2ms") as (late, _), \
        upstream("--delay", "choice(98% 0ms, 2% 50ms)") as (tail, _):
    for name, load in (("closed loop, 1 connection", ("-c", 1)),
                       ("open loop, 1,000/s over 16 connections", ("-c", 16, "-r", "1000/s"))):
        stolen, trips, errors, tails = Steal(), [], [], []
        for pair in range(PAIRS):
            order = (bare, late) if pair % 2 else (late, bare)
            seen = {url: percentiles(url, *load) for url in order}
            trips.append(seen[bare]["p50"])
            errors.append(seen[late]["p50"] - seen[bare]["p50"] - 2_000)
            # Two in a hundred are held back for 50 ms, so that the p99 is one of those.
            tails.append(percentiles(tail, *load)["p99"] - seen[bare]["p50"] - 50_000)
        print(f"{name}: bare round trip p50 {spread(trips, 1)} µs; beyond it and the delay: "
              f"2 ms, p50 {spread(errors, 1)} µs; 2 % of 50 ms, p99 {spread(tails, 1)} µs; steal {stolen}", flush=True)
