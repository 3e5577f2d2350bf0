#!/usr/bin/env python3
"""Requests per client CPU second and throughput: `hoptax load` and its peers, in turns, on one server.

Client and server have one CPU each. In each round every tool has one turn, in random order. hoptax is compared with
each peer within the round. Figures are medians over the rounds, with the lowest and the highest value. `--other PATH`
adds another build of hoptax, called `other`. To compare only the two builds, add `--tools hoptax,other`. `--streams` or
`--points` measures HTTP/2 instead of HTTP/1.1. With `--open 0.8`, hoptax then also sends 80 % of the rate that it
reached in the closed loop, in an open loop.

The server counts the requests, not the tools. The main figure covers the steady part of a turn: while all connections
are established and requests flow, according to the server's counters and the client's CPU clock, both read every 50 ms.
It excludes the start of a virtual machine (k6), handshakes, and a report built from a million stored results (hey).
`whole life` is the same figure over the tool's whole life, from wait4.

nghttpd does not count. There, the main figure also covers the whole life, and the number of requests that could be in
flight is added to each peer's own count, because it may have given them up at its end.

Requests in flight are computed by Little's law: throughput × the mean latency that the tool reports. In a closed loop
of N connections this is N, unless the tool's latency omits a part of each cycle.
"""

import itertools
import statistics
import time
from pathlib import Path

from common import OTHERS, Disturbance, Failed, Record, client, cpu_clock, options, spread, steady, summary, table
from peers import CLOSED, HOPTAX_TOOL, MULTIPLEXED, Hoptax, present, understood
from servers import SERVERS

BODIES = {"64B": 64, "1KiB": 1024, "64KiB": 65536, "1MiB": 1 << 20}
# Bodies of 1 MiB are measured only on request, because most of the work is then in the kernel and the server, and a
# round of all tools takes long.
USUAL_BODIES = ("64B", "1KiB", "64KiB")
CONNECTIONS = (1, 100, 1000)
SCHEMES = ("http", "https")
# If a tool's own count of requests differs from the server's count by more than this share, the results mention it.
CLAIM = 0.01


def turn(tool, server, scheme, connections, streams, seconds):
    """Measures one turn of a tool. `streams` is None for HTTP/1.1."""
    before = server.count() if server.count else None
    if streams is None:
        command, environment = tool.closed(server.url(scheme), connections, seconds)
    else:
        command, environment = tool.multiplexed(server.url(scheme, http2=True), connections, streams, seconds)

    def watch(pid):
        requests, _, opened = server.count()
        return time.monotonic(), cpu_clock(pid), requests, opened

    disturbance = Disturbance()
    ran = client(command, environment, limit=30 + 5 * seconds, watch=watch if server.count else None)
    disturbed = disturbance.shares(ran.cpu)
    claimed, mean = understood(tool.claimed, ran), understood(tool.mean, ran)
    if server.count:
        settle(server)
        after = server.count()
        requests, opened = after[0] - before[0], after[1] - before[1]
    else:
        given_up = 0 if isinstance(tool, Hoptax) else connections * (streams or 1)
        requests, opened = claimed + given_up if claimed else 0, connections
    if requests == 0:
        raise Failed("made no requests")
    most = max((opened for *_, opened in ran.samples), default=0)
    stretch = steady(ran.samples, min(connections, 0.9 * most), 0.3)
    cpu, done, lasted = stretch or (ran.cpu, requests, ran.wall)
    return {"tool": tool.name, "per_cpu_second": done / cpu, "cpu_us": cpu / done * 1e6, "rate": done / lasted,
            "steady_s": lasted if stretch else None, "utilisation": cpu / lasted,
            "mean_us": mean, "in_flight": None if mean is None else done / lasted * mean / 1e6,
            "whole_per_cpu_second": requests / ran.cpu, "whole_cpu_s": ran.cpu, "whole_s": ran.wall,
            "requests": requests, "claimed": claimed, "opened": opened, **disturbed}


def settle(server):
    """Waits until the server has seen the client's connections close."""
    deadline = time.monotonic() + 5
    while server.count and server.count()[2] > 0 and time.monotonic() < deadline:
        time.sleep(0.01)


def remarks(turns, connections):
    """Remarks on a tool's row."""
    if any(turn["steady_s"] is None for turn in turns):
        yield "no steady part in some turns: whole life instead"
    off = statistics.median(turn["claimed"] / turn["requests"] - 1 for turn in turns)
    if abs(off) > CLAIM:
        yield f"reports {100 * off:+.1f} % requests"
    opened = statistics.median(turn["opened"] for turn in turns)
    if opened > 1.5 * connections + 5:
        yield f"opened {opened:,.0f} connections"
    others = statistics.median(turn["others"] for turn in turns)
    if others > OTHERS:
        yield f"{others:.0f} % of its CPU used by others"
    busy = statistics.median(turn["utilisation"] for turn in turns)
    if busy < 0.9:
        yield f"CPU {100 * busy:.0f} % busy"


def ratios(rounds, over, under):
    """Ratios of requests per client CPU second, for each round in which both tools succeeded."""
    return [turns[over]["per_cpu_second"] / turns[under]["per_cpu_second"]
            for turns in rounds if over in turns and under in turns]


def open_loop(server, scheme, connections, streams, rate, arguments):
    """Turns of hoptax at a set rate. Returns their results."""
    tool, url = Hoptax(streams=streams), server.url(scheme, http2=streams is not None)
    turns = []
    for _ in range(arguments.rounds):
        disturbance = Disturbance()
        ran = client(*tool.open(url, rate, connections, arguments.seconds), limit=30 + 5 * arguments.seconds)
        turns.append({**understood(tool.times, ran), **disturbance.shares(ran.cpu)})
    return turns


def at_a_share(record, server, scheme, connections, streams, closed, arguments):
    """Measures an open loop at a share of the rate that hoptax reached in these turns. Returns the turns."""
    rate = round(arguments.open * statistics.median(turn["rate"] for turn in closed))
    try:
        turns = open_loop(server, scheme, connections, streams, rate, arguments)
    except Failed as failure:
        record.say(f"  open loop at {rate:,}/s: hoptax failed: {failure}")
        return []
    lags = ", ".join(f"{at} {spread([turn['send_lag'][at] for turn in turns], 1)}" for at in ("p50", "p99"))
    record.say(f"  open loop at {rate:,}/s ({100 * arguments.open:g} %): sent {spread([100 * turn['sent_share'] for turn in turns])} % "
               f"of the scheduled; rate {spread([turn['rate'] for turn in turns], 0)}/s; send lag {lags} µs; response time p99 "
               f"{spread([turn['p99'] for turn in turns], 0)} µs; steal {spread([turn['steal'] for turn in turns], 1)} %")
    return turns


def point(record, tools, server, scheme, body, connections, streams, arguments):
    # Opening a thousand connections takes long, and with TLS even longer.
    seconds = arguments.seconds + (0 if connections < 1000 else 2 if scheme == "https" else 1)
    rounds, failures, begun = [], {}, time.monotonic()
    for _ in range(arguments.rounds):
        turns = {}
        for tool in record.shuffled(tools):
            # One failure can be noise. A tool that has failed twice is skipped.
            if len(failures.get(tool.name, ())) >= 2:
                continue
            try:
                turns[tool.name] = turn(tool, server, scheme, connections, streams, seconds)
            except Failed as failure:
                failures.setdefault(tool.name, []).append(str(failure))
                settle(server)
        rounds.append(turns)
    names = [tool.name for tool in tools if any(tool.name in turns for turns in rounds)]
    ours = [HOPTAX_TOOL.name] if HOPTAX_TOOL.name in names else []
    rows = [["tool", "requests per client CPU s", *(f"{name} over it" for name in ours), "CPU µs/request", "requests/s",
             "in flight", "whole life", "steal %", "remarks"]]
    for name in names:
        turns = [turns[name] for turns in rounds if name in turns]
        of = lambda figure, digits: spread([turn[figure] for turn in turns], digits)
        over = [spread(ratios(rounds, our, name)) if our != name else "" for our in ours]
        rows.append([name, of("per_cpu_second", 0), *over, of("cpu_us", 2), of("rate", 0),
                     "not reported" if None in (turn["mean_us"] for turn in turns) else of("in_flight", 1),
                     of("whole_per_cpu_second", 0), of("steal", 1), "; ".join(remarks(turns, connections))])
    multiplexed = "" if streams is None else f" × {streams} streams (HTTP/2)"
    record.say(f"\n{body}, {connections} connections{multiplexed}, {'TLS 1.3' if scheme == 'https' else 'plain'}, {len(rounds)} rounds of "
               f"{seconds} s each ({time.monotonic() - begun:.0f} s)\n{table(rows)}")
    for name, said in failures.items():
        record.say(f"  {name} failed {len(said)} times: {said[0]}")
    closed = [turns[HOPTAX_TOOL.name] for turns in rounds if HOPTAX_TOOL.name in turns]
    opened = at_a_share(record, server, scheme, connections, streams, closed, arguments) if arguments.open and closed else []
    record.add({"scheme": scheme, "body": body, "connections": connections, "streams": streams, "seconds": seconds, "failures": failures,
                "ratios": {our: {name: summary(ratios(rounds, our, name)) for name in names if name != our}
                           for our in ours},
                "rounds": rounds, "open": opened})


def pairs(text):
    """Numbers of connections and of streams: `1x10,100x1` is [(1, 10), (100, 1)]."""
    return [tuple(map(int, part.split("x"))) for part in text.split(",")]


def main():
    parser = options(__doc__, rounds=7, seconds=1)
    parser.add_argument("--bodies", default=",".join(USUAL_BODIES), help=f"body sizes, from {','.join(BODIES)} (default %(default)s)")
    parser.add_argument("--connections", default=",".join(map(str, CONNECTIONS)),
                        help="numbers of connections, separated by commas (default %(default)s)")
    parser.add_argument("--schemes", default=",".join(SCHEMES), help="schemes, from %(default)s")
    parser.add_argument("--streams", help="measure HTTP/2 with these numbers of streams per connection, separated by commas")
    parser.add_argument("--points", type=pairs, help="measure HTTP/2 with these numbers of connections and streams: 10x10,1x100")
    parser.add_argument("--server", choices=SERVERS, default="nginx", help="(default %(default)s)")
    parser.add_argument("--open", type=float, metavar="SHARE",
                        help="then measure hoptax in an open loop at this share of the rate that it reached, such as 0.8")
    parser.add_argument("--other", type=Path, help="path of another hoptax to compare with")
    arguments = parser.parse_args()
    others = (Hoptax("other", arguments.other.resolve()),) if arguments.other else ()
    numbers = lambda text: [int(number) for number in text.split(",")] if text else [None]
    points = arguments.points or list(itertools.product(numbers(arguments.connections), numbers(arguments.streams)))
    peers = CLOSED if points[0][1] is None else MULTIPLEXED
    if arguments.server == "nghttpd" and peers is CLOSED:
        parser.error("nghttpd speaks only HTTP/2; add --streams or --points")
    record = Record("client-cpu", f"Requests per client CPU second: hoptax load and its peers on one {arguments.server}, one CPU each",
                    arguments, [tool for tool in peers if tool.path])
    tools = present((HOPTAX_TOOL, *others, *peers), arguments.tools, record.say)
    for body in arguments.bodies.split(","):
        with SERVERS[arguments.server](BODIES[body]) as server:
            for scheme in arguments.schemes.split(","):
                able = [tool for tool in tools if tool.speaks(scheme)]
                if len(able) < len(tools):
                    record.say(f"\nwithout {scheme}: {', '.join(tool.name for tool in tools if tool not in able)}")
                for connections, streams in points:
                    point(record, able, server, scheme, body, connections, streams, arguments)


if __name__ == "__main__":
    main()
