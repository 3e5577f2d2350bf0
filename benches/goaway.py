#!/usr/bin/env python3
"""Requests over HTTP/2 to an nginx that sends GOAWAY every 1,000 requests, and to one that never does, in turns.

nginx ignores the requests that arrive after its GOAWAY. hoptax sends them again on a new connection, and their response
time counts from when they were due. So no request may fail, and the ones sent again belong to the slowest: the
percentiles above their share must rise, and the median must not. Each turn is a closed loop. `--seconds` limits its time.
"""

import json

from common import HOPTAX, Disturbance, Failed, Record, client, options, spread, summary, table
from peers import PERCENTILES
from servers import nginx

FIGURES = (*PERCENTILES, "max")
EVERY = 1000


def turn(server, requests, arguments):
    """Sends this many requests. Returns the counts and the response times, µs."""
    command = [HOPTAX, "load", server.url("http", http2=True), "--http", "2", "-c", arguments.connections, "--streams",
               arguments.streams, "-n", requests, "-d", f"{arguments.seconds}s", "--json"]
    disturbance = Disturbance()
    ran = client(command, limit=30 + arguments.seconds)
    case = json.loads(ran.text)
    counts, http2 = case["counts"], case["http2"]
    return {"scheduled": counts["scheduled"], "failed": counts["scheduled"] - counts["ok"], "errors": counts["errors"],
            "again": counts["retried"], "goaways": http2["goaways"], "opened": case["connections"]["opened"],
            **{name: case["response_time"][name]["estimate"] for name in FIGURES}, **disturbance.shares(ran.cpu)}


def main():
    parser = options(__doc__, rounds=5, seconds=60)
    parser.add_argument("--requests", type=int, default=1_000_000, help="to each nginx, in all rounds (default %(default)s)")
    parser.add_argument("--connections", type=int, default=10, help="(default %(default)s)")
    parser.add_argument("--streams", type=int, default=10, help="streams per connection (default %(default)s)")
    arguments = parser.parse_args()
    record = Record("goaway", f"HTTP/2 with GOAWAY every {EVERY:,} requests", arguments)
    each = arguments.requests // arguments.rounds
    with nginx(64, requests=EVERY) as recycling, nginx(64) as keeping:
        servers, rounds = {"every 1,000 requests": recycling, "never": keeping}, []
        for _ in range(arguments.rounds):
            try:
                rounds.append({name: turn(servers[name], each, arguments) for name in record.shuffled(servers)})
            except Failed as failure:
                record.say(f"  hoptax failed: {failure}")
    rows = [["GOAWAY", "requests", "failed", "GOAWAYs", "sent again", *(f"{name} µs" for name in FIGURES), "steal %"]]
    for name in servers:
        turns = [turns[name] for turns in rounds]
        rows.append([name, *(f"{sum(turn[count] for turn in turns):,}" for count in ("scheduled", "failed", "goaways", "again")),
                     *(spread([turn[figure] for turn in turns], 0) for figure in (*FIGURES, "steal"))])
    over = {name: [turns["every 1,000 requests"][name] / turns["never"][name] for turns in rounds] for name in FIGURES}
    record.say(f"\n{arguments.connections} connections × {arguments.streams} streams, {len(rounds)} rounds of {each:,} requests\n"
               f"{table(rows)}\n  with GOAWAY over without: "
               + ", ".join(f"{name} {spread(ratios)}" for name, ratios in over.items()))
    for errors in filter(None, (turn["errors"] for turns in rounds for turn in turns.values())):
        record.say(f"  {errors}")
    record.add({"requests": each, "connections": arguments.connections, "streams": arguments.streams,
                "over": {name: summary(ratios) for name, ratios in over.items()}, "rounds": rounds})


if __name__ == "__main__":
    main()
