#!/usr/bin/env python3
"""Ages of server-sent events: `hoptax load` and a blocking socket in Python, in turns, on one `hoptax upstream`.

Both share the upstream's clock, and both read one response with one event every 5 ms. The age of an event is the time from
when it was due until the client has it: the upstream's delay, the network, and the wake-up of the client. The difference of
the medians of a pair of turns shows whether hoptax measures what a plain socket measures. Python itself needs a few µs from
the return of the system call to reading the clock. The wake-up of a sleeping CPU scatters far more: with `--poll`, both clients
ask the socket again and again instead of sleeping.
"""

import json
import statistics
import sys
from pathlib import Path

from common import CLIENT_CPU, Disturbance, Record, client, options, spread, summary
from messages import load, spec
from runs import buckets, quantile
from servers import upstream

PEER = Path(__file__).resolve().parent.parent / "crates/hoptax/tests/all/stream_peers/peer.py"
GAP_MS = 5


def by_hoptax(server, events, poll):
    # A load with CPUs of its own polls.
    found, _ = load(spec(server.address, 1, events, GAP_MS * 1_000_000, 600, requests=1) | {"cpus": [CLIENT_CPU] if poll else []})
    ages = buckets(found["messages"]["histograms"]["age"])
    return {"events": found["messages"]["counts"]["received"], "p50": quantile(ages, 0.5), "p99": quantile(ages, 0.99)}


def by_socket(server, events, poll):
    return json.loads(client([sys.executable, PEER, "ages", server.address, events], {"POLL": "1"} if poll else {}, limit=600).text)


def main():
    parser = options(__doc__, rounds=15, seconds=5)
    parser.add_argument("--poll", action="store_true", help="both clients poll instead of sleeping")
    arguments = parser.parse_args()
    record = Record("ages", "Ages of events: hoptax load and a blocking socket in Python", arguments)
    events, turns = 1000 // GAP_MS * arguments.seconds, []
    disturbance = Disturbance()
    with upstream("--events", f"{events},{GAP_MS}ms") as server:
        for _ in range(arguments.rounds):
            turns.append({reader.__name__: reader(server, events, arguments.poll) for reader in record.shuffled([by_hoptax, by_socket])})
    for name in ("by_hoptax", "by_socket"):
        figures = [spread([turn[name][at] for turn in turns], 1) for at in ("p50", "p99")]
        record.say(f"{name:<10} p50 {figures[0]} µs, p99 {figures[1]} µs, {sum(turn[name]['events'] for turn in turns):,} events")
    more = [turn["by_hoptax"]["p50"] - turn["by_socket"]["p50"] for turn in turns]
    record.say(f"p50 of hoptax − that of the socket, {len(turns)} pairs: {spread(more, 1)} µs; steal {disturbance.shares(0)['steal']} %")
    record.add({"events": events, "turns": turns, "difference_us": summary(more), "median_us": statistics.median(more)})


if __name__ == "__main__":
    main()
