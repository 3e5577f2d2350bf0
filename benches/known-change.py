#!/usr/bin/env python3
"""Tests whether `hoptax compare` finds a change of 5 % between two builds, each measured in a run of its own.

The builds are the built-in hop with and without a planted delay, which takes CPU time too. One delay is a share of the hop's
response time at the median, one the same share of its CPU time per request, one is zero: then `compare` must find nothing.
Each comparison takes two runs, so with the default time it takes 3 minutes.
"""

import json
import tempfile
from pathlib import Path

import estimates
from common import Disturbance, spread, table
from runs import hoptax, measure, options, progress, record, reported

LABEL = "build"
METRICS = {"p50": "p50", "cpu_us_per_request": "CPU per request"}
SAME = "same build"
# A run may take this many times as long as planned, and this many seconds for start and warm-up.
PATIENCE, START_S = 1.5, 120


def plan(arguments, delay_us, seed):
    delay = f", delay: {{ in: {delay_us:.2f}us, how: spin }}" if delay_us else ""
    return (f"name: build\ngateways: [{{ name: hop-l7, label: {LABEL}{delay} }}]\nload:\n  - {{ loop: open, rate: "
            f"{arguments.rate}/s, connections: {arguments.connections} }}\ntime: {arguments.seconds:g}s\nprecision: 0.01%\n"
            f"seed: {seed}\n")


def level(report, metric):
    """The hop's figure in a report, us."""
    case = next(case for case in report["cases"] if case["gateway"] == LABEL)
    return case["response_time"]["p50"]["estimate"] if metric == "p50" else case["tax"][metric]["estimate"]


def compared(first, second):
    """Rows of the comparison of two run directories, by metric."""
    document = json.loads(hoptax("compare", first, second, "--format", "json"))
    return {row["metric"]: row for row in document["rows"] if row["label_a"] == LABEL and row["metric"] in METRICS}


def main():
    parser = options(__doc__, 5)
    parser.add_argument("--seconds", type=float, default=90, help="time of each run (default %(default)s)")
    parser.add_argument("--change", type=float, default=5, help="planted change, %% (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="(default %(default)s)")
    arguments = parser.parse_args()
    results = record("Known changes between two builds", arguments, [])
    found = {name: [] for name in (*METRICS.values(), SAME)}
    for number in range(1, arguments.runs + 1):
        with tempfile.TemporaryDirectory(prefix="hoptax-known-change-") as below:
            disturbance = Disturbance()

            def run(name, delay_us):
                progress(f"run {number}: {name}, {delay_us:.2f} us")
                text = plan(arguments, delay_us, results.order.randrange(2**32))
                return measure(text, Path(below) / name.replace(" ", "-"), PATIENCE * arguments.seconds + START_S)

            base = run("base", 0)
            levels = {metric: level(reported(base), metric) for metric in METRICS}
            for metric, name in results.shuffled([*METRICS.items(), (None, SAME)]):
                delay = levels[metric] * arguments.change / 100 if metric else 0
                rows = compared(base, run(name, delay))
                found[name].append({"delay_us": delay, "rows": rows, "steal": disturbance.shares(0)["steal"]})
    header = ["planted", "metric", "planted change, %", "found change, %", "half-width, %", "found"]
    lines = [header]
    for name, runs in found.items():
        for metric, shown in METRICS.items():
            rows = [one["rows"][metric] for one in runs]
            planted = [100 * one["delay_us"] / one["rows"][metric]["a"]["estimate"] for one in runs]
            changes = [row["change"] for row in rows]
            seen = sum(row["verdict"] == ("worse" if name != SAME else row["verdict"])
                       and row["verdict"] != "not distinguishable" for row in rows)
            halves = [100 * estimates.half_width(change) for change in changes if change["high"] is not None]
            lines.append([name, shown, spread(planted, 1), spread([100 * change["estimate"] for change in changes], 1),
                          spread(halves, 1), f"{seen} of {len(rows)}"])
            results.add({"planted": name, "metric": metric, "planted_share": [one / 100 for one in planted], "rows": rows,
                         "steal": [one["steal"] for one in runs]})
    results.say(table(lines))
    results.say(f"steal {spread([one['steal'] for runs in found.values() for one in runs], 1)} %")


if __name__ == "__main__":
    main()
