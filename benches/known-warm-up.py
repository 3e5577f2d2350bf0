#!/usr/bin/env python3
"""Tests whether hoptax measures only warm processes, with hops whose warm-up is known.

Each run measures several hops in the same rounds: one without a warm-up, and for each length of `--requests` one whose warm-up
falls linearly and one whose warm-up falls in a step; with `--forever` also one whose warm-up never ends. After its warm-up, each
hop must add what the hop without a warm-up adds. The report must say how many requests the warm-up took. The plan uses the
defaults: `time`, and processes that are warmed up until they settle.
"""

import tempfile
from pathlib import Path

from common import Disturbance, spread, table
from runs import measure, options, progress, record, reported

WARM, FALLS = "warm", ("linear", "step")
# With --forever, processes are warmed up for at most this many seconds. The warm-up of one hop is this many times as long,
# so it cannot end in time, but is still steep enough to be detected.
AT_MOST_S, FOREVER = 12, 4
# A run may take this many times its planned time, plus this many seconds for start and warm-ups.
PATIENCE, START_S = 1.5, 400


def cold(arguments):
    """The hops with a warm-up that ends: label, length in requests, and how it falls."""
    return [(f"{fall}-{requests}", requests, fall) for requests in arguments.requests for fall in arguments.falls]


def plan(arguments, seed):
    extra = f"extra: {arguments.extra:g}us"
    hops = [f"{{ name: hop-l7, label: {label}, warming: {{ requests: {requests}, {extra}, fall: {fall} }} }}"
            for label, requests, fall in cold(arguments)]
    if arguments.forever:
        hops.append(f"{{ name: hop-l7, label: forever, warming: {{ requests: {FOREVER * max(arguments.requests)}, {extra} }} }}")
    at_most = f"warmup: {{ at_most: {AT_MOST_S}s }}\n" if arguments.forever else ""
    entries = "".join(f"  - {hop}\n" for hop in [f"{{ name: hop-l7, label: {WARM} }}", *hops])
    return (f"name: known-warm-up\ngateways:\n{entries}load:\n  - {{ loop: open, rate: {arguments.rate}/s, connections: "
            f"{arguments.connections} }}\ntime: {arguments.seconds:g}s\nprecision: 0.1%\nseed: {seed}\n{at_most}")


def figures(report):
    """Added p50, half-width and requests of the warm-up of each hop, and whether a finding names `forever`."""
    added = {case["gateway"]: case["tax"]["added_p50"] for case in report["cases"] if case.get("tax")}
    slow = {one["contender"]: one["slow_requests"] for one in report["warm_ups"]}
    named = [one for one in report["findings"] if one["code"] == "still-warming" and "forever" in (one["case"] or "")]
    return {label: {"added": tax["estimate"], "half": (tax["high"] - tax["low"]) / 2, "slow": slow.get(label)}
            for label, tax in added.items()} | {"named": bool(named)}


def main():
    parser = options(__doc__, 10)
    parser.add_argument("--seconds", type=float, default=60, help="time of a run (default %(default)s)")
    parser.add_argument("--requests", type=int, nargs="+", default=[30_000],
                        help="lengths of the warm-up (default %(default)s)")
    parser.add_argument("--falls", nargs="+", choices=FALLS, default=FALLS, help="how it falls (default: both)")
    parser.add_argument("--extra", type=float, default=140, help="extra CPU time at first, us (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="(default %(default)s)")
    parser.add_argument("--forever", action="store_true", help="also measure a hop that does not settle within a run")
    arguments = parser.parse_args()
    results = record("Known warm-ups: what they change, and how long they are found to be", arguments, [])
    found = []
    for run in range(1, arguments.runs + 1):
        progress(f"run {run}")
        disturbance = Disturbance()
        with tempfile.TemporaryDirectory(prefix="hoptax-known-warm-up-") as below:
            text = plan(arguments, results.order.randrange(2**32))
            directory = measure(text, Path(below) / "run", PATIENCE * arguments.seconds + START_S)
            found.append({**figures(reported(directory)), "steal": disturbance.shares(0)["steal"]})
            results.add(found[-1])
    rows = []
    for label, requests, _ in cold(arguments):
        errors = [one[label]["added"] - one[WARM]["added"] for one in found]
        lengths = [one[label]["slow"] / requests - 1 for one in found]
        rows.append([label, spread(errors, 1), f"{sum(abs(error) <= 5 for error in errors)} of {len(errors)}",
                     spread([100 * length for length in lengths], 1),
                     f"{sum(abs(length) <= 0.1 for length in lengths)} of {len(lengths)}"])
    results.say(table([["fall", "added p50 minus that of the warm hop, us", "within 5 us", "error of the length, %",
                        "within 10 %"], *rows]))
    results.say(f"half-width of the warm hop: {spread([one[WARM]['half'] for one in found], 1)} us; steal "
                f"{spread([one['steal'] for one in found], 1)} %")
    if arguments.forever:
        results.say(f"the hop that does not settle was named in {sum(one['named'] for one in found)} of {len(found)} runs")


if __name__ == "__main__":
    main()
