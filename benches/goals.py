#!/usr/bin/env python3
"""The engine's goals, each with what the benchmarks found and whether that reaches it; as Markdown.

usage: goals.py DIRECTORY, where the other benchmarks have kept their JSON (--out)
"""

import json
import statistics
import sys
from pathlib import Path

from common import OTHERS, spread, summary

LOOPS = ("hoptax epoll", "hoptax io_uring")
# As the goals were set: ratios, %, µs, MiB, KiB.
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
    """Requests per client CPU second."""
    at = {(point["scheme"], point["body"], point["connections"]): point for point in points}
    for scheme, wanted, bodies in (("http", PLAIN, ("64B", "1KiB")), ("https", TLS, ("64B", "1KiB", "64KiB"))):
        for body in bodies:
            goal = f"requests per client CPU second, {'TLS' if scheme == 'https' else 'plain'}, 100 connections, {body}, over wrk"
            ratios = at.get((scheme, body, 100), {"ratios": {}})["ratios"]
            found = {loop: ratios[loop]["wrk"] for loop in LOOPS if ratios.get(loop, {}).get("wrk")}
            if not found:
                yield missing(goal, f"≥ {wanted}")
                continue
            yield row(goal, f"≥ {wanted}", "; ".join(f"{loop} {median(value)}" for loop, value in found.items()),
                      max(value["median"] for value in found.values()) >= wanted)
    yield large(at.get(("http", "64KiB", 100)))


def large(point):
    """io_uring over the better of wrk and epoll, in each round."""
    goal, wanted = "the same at 64 KiB, plain: io_uring over the better of wrk and epoll", f"≥ {LARGE}"
    names = ("hoptax io_uring", "wrk", "hoptax epoll")
    figures = [[turns[name]["per_cpu_second"] for name in names] for turns in (point or {"rounds": []})["rounds"]
               if all(name in turns for name in names)]
    if not figures:
        return missing(goal, wanted)
    over = summary([ours / max(others) for ours, *others in figures])
    return row(goal, wanted, median(over), over["median"] >= LARGE)


def rate(points):
    """Achieved rate, send lag, errors against a known delay, the stall."""
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
        yield missing("response time against a known delay", f"≤ {ERROR} µs, less than every peer's")
    for point in of("stall"):
        yield from stall(point)
    if not of("stall"):
        yield missing("a stall of 1 s under 1,000/s", f"p99 within {STALL_PERCENT} %")


def known_delay(point, at):
    """Error at one percentile: ours small, and smaller than each peer's."""
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
               + (f"; bare ping there {ping['median']:+,.1f}" if ping else ""), reached)


def stall(point):
    goal = f"a stall of 1 s under 1,000/s, {point['connections']:,} connections: "
    found = point["found"]
    for what, figure, wanted, unit, right in (
            ("p99 against the arithmetic", "p99_error_percent", f"within {STALL_PERCENT} %", " %",
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
    goals = (("own memory at 15,000 connections, peak", f"≤ {MEMORY_MIB} MiB"),
             ("memory per further idle connection", f"≤ {SLOPE_KIB} KiB"))
    for loop in LOOPS:
        point = next((point for point in points if point["what"] == "tools" and point["connections"] == 15_000
                      and point["turns"].get(loop)), None)
        if not point:
            yield from (missing(f"{what}, {loop}", wanted) for what, wanted in goals)
            continue
        peaks = [turn["peak_kib"] / 1024 for turn in point["turns"][loop]]
        yield row(f"{goals[0][0]}, {loop}", goals[0][1], f"{spread(peaks, 1)} MiB", max(peaks) <= MEMORY_MIB)
        slope = point["slope_kib"].get(loop)
        yield row(f"{goals[1][0]}, {loop}", goals[1][1], f"{median(slope)} KiB", slope["median"] <= SLOPE_KIB) if slope \
            else missing(f"{goals[1][0]}, {loop}", goals[1][1])
    for point in points:
        if point["what"] == "many":
            total, turns = point["processes"] * point["each"], point["turns"]
            peak = spread([sum(turn["peak_kib"]) / 1024 for turn in turns], 1)
            yield row(f"{total:,} connections over {point['processes']} processes", "all stand, no request fails",
                      f"{len(turns)} times, {peak} MiB together" + ("" if turns and turns[0]["sources"] else ", one source address"),
                      bool(turns) and not point["failures"]
                      and all(sum(turn["established"]) == total and not any(turn["failed"]) for turn in turns))


def allocations(points):
    goal, wanted = "allocations per request in steady state", "0"
    yield row(goal, wanted, f"`{points[0]['command']}`: {points[0]['tests']} tests", points[0]["passed"]) if points \
        else missing(goal, wanted)


def against_all(points):
    """Requests per client CPU second of hoptax over every peer, as a table of medians."""
    ours = next((loop for loop in LOOPS for point in points if loop in point["ratios"]), None)
    if not ours:
        return
    peers = list(dict.fromkeys(name for point in points for name in point["ratios"].get(ours, {}) if name not in LOOPS))
    cells = lambda texts: "| " + " | ".join(texts) + " |"
    yield "\n## Requests per client CPU second over each peer's, medians\n"
    yield cells(["", *(f"{loop.removeprefix('hoptax ')} over {peer}" for peer in peers for loop in LOOPS)])
    yield cells(["---"] * (1 + len(peers) * len(LOOPS)))
    for point in points:
        figures = [point["ratios"].get(loop, {}).get(peer) for peer in peers for loop in LOOPS]
        kind = "TLS" if point["scheme"] == "https" else "plain"
        yield cells([f"{kind}, {point['body']}, {point['connections']:,} connections",
                     *(f"{figure['median']:.2f}" if figure else "-" for figure in figures)])


def disturbance(points):
    """What disturbed the turns, as text: whether to believe them."""
    turns = [turn for point in points for turns in point.get("rounds", ()) for turn in turns.values() if "others" in turn]
    said = lambda what: (f"{statistics.median(turn[what] for turn in turns):.1f} % (most "
                         f"{max(turn[what] for turn in turns):.1f} %)")
    if not turns:
        return ""
    busy = statistics.median(turn["others"] for turn in turns) > OTHERS
    return (f"; steal per turn {said('steal')}, others on the client's CPU {said('others')}"
            + (" **The machine was busy with other things: do not believe these.**" if busy else ""))


def main(directory):
    benches = {name: read(directory, name) for name in ("client-cpu", "rate-accuracy", "memory", "allocations")}
    rows = [row_ for bench, of in zip(benches.values(), (cpu, rate, memory, allocations)) for row_ in of(bench["points"])]
    print("# The engine's goals\n\nGenerated by `benches/goals.py` from the JSON files beside it. Medians, with the whole range.\n")
    for name, bench in benches.items():
        if bench["points"]:
            print(f"- `{bench['command']}`, {bench['when']}, {bench['machine']['cpus']} × {bench['machine']['cpu']}, "
                  f"{bench['machine']['system']}{disturbance(bench['points'])}")
        else:
            print(f"- {name}: not run")
    print("\n| goal | wanted | found | reached |\n| --- | --- | --- | --- |")
    for cells in rows:
        print("| " + " | ".join(cells) + " |")
    print("\n".join(against_all(benches["client-cpu"]["points"])))
    verdicts = [cells[3] for cells in rows]
    print(f"\n{verdicts.count('yes')} reached, {verdicts.count('**no**')} not reached, {verdicts.count('not measured')} not measured.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__.strip().splitlines()[-1])
    main(sys.argv[1])
