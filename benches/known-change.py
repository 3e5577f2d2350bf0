#!/usr/bin/env python3
"""Tests whether `hoptax compare` finds a change of 5 % between two builds, measured in separate runs or in one run.

The builds are the built-in hop with and without a planted delay, which takes CPU time too. There are three delays: a share of
the hop's median response time, the same share of its CPU time per request, and zero. With zero, `compare` must find nothing.
Each comparison of two runs takes 3 minutes with the default time. With `--together`, one run of the same length measures all
builds in the same rounds.
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
# Duration of the first run, from which the lengths of the delays for builds in one run are computed.
PILOT_S = 20
# A run may take this many times its planned time, plus this many seconds for start and warm-up.
PATIENCE, START_S = 1.5, 120


def plan(arguments, delays_us, seconds, seed):
    """A plan that measures a build for each delay, by label."""
    delay = lambda us: f", delay: {{ in: {us:.2f}us, how: spin }}" if us else ""
    builds = "".join(f"  - {{ name: hop-l7, label: {label}{delay(us)} }}\n" for label, us in delays_us.items())
    return (f"name: build\ngateways:\n{builds}load:\n  - {{ loop: open, rate: {arguments.rate}/s, connections: "
            f"{arguments.connections} }}\ntime: {seconds:g}s\nprecision: 0.01%\nseed: {seed}\n")


def level(report, metric):
    """The hop's figure in a report, us."""
    case = next(case for case in report["cases"] if case["gateway"] == LABEL)
    return case["response_time"]["p50"]["estimate"] if metric == "p50" else case["tax"][metric]["estimate"]


def compared(*runs, label=LABEL):
    """Rows of a comparison with the first build, by metric. The other build is in another run directory or in the same run."""
    labels = () if label == LABEL else ("--labels", f"{LABEL},{label}")
    document = json.loads(hoptax("compare", *runs, *labels, "--format", "json"))
    return {row["metric"]: row for row in document["rows"] if row["label_b"] == label and row["metric"] in METRICS}


def main():
    parser = options(__doc__, 5)
    parser.add_argument("--seconds", type=float, default=90, help="time of each run (default %(default)s)")
    parser.add_argument("--change", type=float, default=5, help="planted change, %% (default %(default)s)")
    parser.add_argument("--together", action="store_true", help="measure all builds in one run of twice this time")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="(default %(default)s)")
    arguments = parser.parse_args()
    results = record("Known changes between two builds", arguments, [])
    found = {name: [] for name in (*METRICS.values(), SAME)}
    for number in range(1, arguments.runs + 1):
        with tempfile.TemporaryDirectory(prefix="hoptax-known-change-") as below:
            disturbance = Disturbance()

            def run(name, delays_us, seconds):
                progress(f"run {number}: {name}, {', '.join(f'{us:.2f}' for us in delays_us.values())} us")
                text = plan(arguments, delays_us, seconds, results.order.randrange(2**32))
                return measure(text, Path(below) / name.replace(" ", "-"), PATIENCE * seconds + START_S)

            base = run("base", {LABEL: 0}, PILOT_S if arguments.together else arguments.seconds)
            levels = {metric: level(reported(base), metric) for metric in METRICS}
            if arguments.together:
                delays = {name: levels[metric] * arguments.change / 100 for metric, name in METRICS.items()} | {SAME: 0}
                labels = {name: name.replace(" ", "-") for name in delays}
                one = run("together", {LABEL: 0, **{labels[name]: us for name, us in delays.items()}}, 2 * arguments.seconds)
                for name, delay in delays.items():
                    found[name].append({"delay_us": delay, "rows": compared(one, label=labels[name]),
                                        "steal": disturbance.shares(0)["steal"]})
                continue
            for metric, name in results.shuffled([*METRICS.items(), (None, SAME)]):
                delay = levels[metric] * arguments.change / 100 if metric else 0
                rows = compared(base, run(name, {LABEL: delay}, arguments.seconds))
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
