#!/usr/bin/env python3
"""Compares the benchmarks' results with the engine's goals, as Markdown.

usage: goals.py DIRECTORY, the directory with the JSON results of the other benchmarks (their option --out)
"""

import json
import statistics
import sys
from pathlib import Path

from common import OTHERS, spread

OURS = "hoptax"
# The goals. PLAIN, LARGE, TLS and LATE_SHARE are ratios. RATE_PERCENT and STALL_PERCENT are in %. LAG_P50, LAG_P99 and
# ERROR are in µs. LATE is a number of requests.
PLAIN, LARGE, TLS = 1.3, 1.0, 1.2
RATE_PERCENT, LAG_P50, LAG_P99, ERROR = 0.1, 20, 200, 50
STALL_PERCENT, LATE, LATE_SHARE = 2, 1000, 0.05
MEMORY_MIB, SLOPE_KIB = 60, 2


def read(directory, bench):
    path = Path(directory, f"{bench}.json")
    return json.loads(path.read_text()) if path.exists() else {"points": []}


def median(value):
    """Median of a summary, with its range, as text."""
    return f"{value['median']:,.2f} ({value['low']:,.2f}–{value['high']:,.2f})"


def row(goal, wanted, found, reached):
    return [goal, wanted, found, {True: "yes", False: "**no**", None: "not measured"}[reached]]


def missing(goal, wanted):
    return row(goal, wanted, "", None)


def cpu(points):
    """Rows of the goals for requests per client CPU second."""
    at = {(point["scheme"], point["body"], point["connections"]): point for point in points}
    for scheme, wanted, bodies in (("http", PLAIN, ("64B", "1KiB")), ("http", LARGE, ("64KiB",)), ("https", TLS, ("64B", "1KiB", "64KiB"))):
        for body in bodies:
            goal = f"requests per client CPU second, {'TLS' if scheme == 'https' else 'plain'}, 100 connections, {body}, over wrk"
            found = at.get((scheme, body, 100), {"ratios": {}})["ratios"].get(OURS, {}).get("wrk")
            yield row(goal, f"≥ {wanted}", median(found), found["median"] >= wanted) if found else missing(goal, f"≥ {wanted}")


def rate(points):
    """Rows of the goals for achieved rate, send lag, errors for a known delay, and the stall."""
    of = lambda what: [point for point in points if point["what"] == what]
    goals = (("achieved rate at 5,000/s", f"within {RATE_PERCENT} %"), ("send lag p50 at 5,000/s", f"≤ {LAG_P50} µs"),
             ("send lag p99 at 5,000/s", f"≤ {LAG_P99} µs"))
    for point in of("long")[:1]:
        error, lag = point["rate_error_percent"], point["send_lag_us"]
        if not error:
            continue
        reached = (abs(error["median"]) <= RATE_PERCENT, lag["p50"]["median"] <= LAG_P50, lag["p99"]["median"] <= LAG_P99)
        found = (f"{error['median']:+.4f} % ({error['low']:+.4f}–{error['high']:+.4f}) over {point['seconds']} s",
                 f"{median(lag['p50'])} µs", f"{median(lag['p99'])} µs")
        yield from (row(*goal, *figures) for goal, *figures in zip(goals, found, reached))
    if not of("long"):
        yield from (missing(*goal) for goal in goals)
    for point in of("delay"):
        yield from (known_delay(point, at) for at in point["percentiles"])
    if not of("delay"):
        yield missing("error of the response time for a known delay", f"≤ {ERROR} µs, less than every peer's")
    for point in of("stall"):
        yield from stall(point)
    if not of("stall"):
        yield missing("a stall of 1 s under 1,000/s", f"p99 within {STALL_PERCENT} %")


def known_delay(point, at):
    """Row of the goal for the error at one percentile: hoptax has a small error, and a smaller one than each peer."""
    goal = f"error of {at} at {point['rate']:,}/s, delay {point['delay']}"
    off = {name: found["error_us"][at] for name, found in point["found"].items()}
    wanted = f"≤ {ERROR} µs, less than every peer's"
    ours = off.pop("hoptax", None)
    if not ours:
        return missing(goal, wanted)
    ping = off.pop("ping", None)
    size = lambda value: abs(value["median"])
    best = min(off, key=lambda name: size(off[name]), default=None)
    reached = size(ours) <= ERROR and (best is None or size(ours) < size(off[best]))
    others = ", ".join(f"{name} {value['median']:+,.1f}" for name, value in off.items())
    return row(goal, wanted, f"{ours['median']:+,.1f} ({ours['low']:+,.1f}–{ours['high']:+,.1f}); {others}"
               + (f"; bare ping {ping['median']:+,.1f}" if ping else ""), reached)


def stall(point):
    goal = f"a stall of 1 s under 1,000/s, {point['connections']:,} connections: "
    found = point["found"]
    for what, figure, wanted, unit, right in (
            ("p99 against the computed value", "p99_error_percent", f"within {STALL_PERCENT} %", " %",
             lambda value: abs(value) <= STALL_PERCENT),
            ("late requests", "late", f"about {LATE:,} (± {LATE_SHARE:.0%})", "",
             lambda value: abs(value - LATE) <= LATE_SHARE * LATE)):
        if "hoptax" not in found:
            yield missing(goal + what, wanted)
            continue
        others = ", ".join(f"{name} {value[figure]['median']:,.1f}{unit}" for name, value in found.items() if name != "hoptax")
        ours = found["hoptax"][figure]
        yield row(goal + what, wanted, f"{median(ours)}{unit}; {others}", right(ours["median"]))


def memory(points):
    goals = (("peak memory at 15,000 connections", f"≤ {MEMORY_MIB} MiB"),
             ("memory per additional idle connection", f"≤ {SLOPE_KIB} KiB"))
    point = next((point for point in points if point["what"] == "tools" and point["connections"] == 15_000
                  and point["turns"].get(OURS)), None)
    if point:
        peaks = [turn["peak_kib"] / 1024 for turn in point["turns"][OURS]]
        yield row(*goals[0], f"{spread(peaks, 1)} MiB", max(peaks) <= MEMORY_MIB)
        slope = point["slope_kib"].get(OURS)
        yield row(*goals[1], f"{median(slope)} KiB", slope["median"] <= SLOPE_KIB) if slope else missing(*goals[1])
    else:
        yield from (missing(*goal) for goal in goals)
    for point in points:
        if point["what"] == "many":
            total, turns = point["processes"] * point["each"], point["turns"]
            peak = spread([sum(turn["peak_kib"]) / 1024 for turn in turns], 1)
            yield row(f"{total:,} connections over {point['processes']} processes", "all established, no request fails",
                      f"{len(turns)} times, {peak} MiB in total" + ("" if turns and turns[0]["sources"] else ", one source address"),
                      bool(turns) and not point["failures"]
                      and all(sum(turn["established"]) == total and not any(turn["failed"]) for turn in turns))


def allocations(points):
    goal, wanted = "allocations per request in steady state", "0"
    yield row(goal, wanted, f"`{points[0]['command']}`: {points[0]['tests']} tests", points[0]["passed"]) if points \
        else missing(goal, wanted)


def against_all(points):
    """Table of median ratios: requests per client CPU second of hoptax ÷ those of each peer."""
    peers = list(dict.fromkeys(name for point in points for name in point["ratios"].get(OURS, {})))
    if not peers:
        return
    cells = lambda texts: "| " + " | ".join(texts) + " |"
    yield "\n## Requests per client CPU second, divided by each peer's, medians\n"
    yield cells(["", *(f"over {peer}" for peer in peers)])
    yield cells(["---"] * (1 + len(peers)))
    for point in points:
        figures = [point["ratios"].get(OURS, {}).get(peer) for peer in peers]
        kind = "TLS" if point["scheme"] == "https" else "plain"
        yield cells([f"{kind}, {point['body']}, {point['connections']:,} connections",
                     *(f"{figure['median']:.2f}" if figure else "-" for figure in figures)])


def disturbance(points):
    """Disturbances of the turns, as text."""
    turns = [turn for point in points for turns in point.get("rounds", ()) for turn in turns.values() if "others" in turn]
    said = lambda what: (f"{statistics.median(turn[what] for turn in turns):.1f} % (at most "
                         f"{max(turn[what] for turn in turns):.1f} %)")
    if not turns:
        return ""
    busy = statistics.median(turn["others"] for turn in turns) > OTHERS
    return (f"; steal per turn {said('steal')}, others on the client's CPU {said('others')}"
            + (" **The machine was busy with other work: these figures are not reliable.**" if busy else ""))


def main(directory):
    benches = {name: read(directory, name) for name in ("client-cpu", "rate-accuracy", "memory", "allocations")}
    rows = [row_ for bench, of in zip(benches.values(), (cpu, rate, memory, allocations)) for row_ in of(bench["points"])]
    print("# The engine's goals\n\nGenerated by `benches/goals.py` from the JSON files in this directory. Medians, with the whole range.\n")
    for name, bench in benches.items():
        if bench["points"]:
            print(f"- `{bench['command']}`, {bench['when']}, {bench['machine']['cpus']} × {bench['machine']['cpu']}, "
                  f"{bench['machine']['system']}{disturbance(bench['points'])}")
        else:
            print(f"- {name}: not run")
    print("\n| goal | required | measured | reached |\n| --- | --- | --- | --- |")
    for cells in rows:
        print("| " + " | ".join(cells) + " |")
    print("\n".join(against_all(benches["client-cpu"]["points"])))
    verdicts = [cells[3] for cells in rows]
    print(f"\n{verdicts.count('yes')} reached, {verdicts.count('**no**')} not reached, {verdicts.count('not measured')} not measured.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__.strip().splitlines()[-1])
    main(sys.argv[1])
