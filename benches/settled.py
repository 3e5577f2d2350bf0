#!/usr/bin/env python3
"""Tests whether a gateway that hoptax has warmed up is as fast as an instance that has had minutes of load.

hoptax starts an instance, which gets a closed loop for several minutes. Then a second hoptax starts another instance, warms it
up, and measures both instances in the same rounds. Two runs could not be compared, because the speed of rented CPUs changes
too much within minutes. Added p50 and CPU time per request must agree.
"""

import tempfile
from pathlib import Path

import estimates
from common import HOPTAX, Disturbance, Failed, client, spread, table
from gateways import kept_up
from runs import measure, options, progress, record, reported
from variance import installed

METRICS = {"added_p50": "added p50", "cpu_us_per_request": "CPU per request"}
FRESH, OLD = "fresh", "old"
# A run may take this many times its planned time, plus this many seconds for starts and warm-ups.
PATIENCE, START_S = 1.5, 400


def plan(arguments, name, kept, seed):
    return (f"name: settled\nupstream: {{ url: \"{kept.upstream}\", pid: {kept.upstream_pid} }}\ngateways:\n"
            f"  - {{ name: {name}, label: {FRESH} }}\n"
            f"  - {{ name: external, label: {OLD}, url: \"{kept.url}\", pid: {min(kept.pids)} }}\n"
            f"load:\n  - {{ loop: open, rate: {arguments.rate}/s, connections: {arguments.connections} }}\n"
            f"time: {arguments.seconds:g}s\nprecision: 0.01%\nwarmup: {{ overload_external: true }}\nseed: {seed}\n")


def measured(arguments, name, results, below):
    """The taxes of both instances, and the warm-up of the fresh one."""
    with kept_up(name, below / "kept") as kept:
        progress(f"{name}: {arguments.load:g} s of load")
        client([HOPTAX, "load", kept.url, "--connections", str(arguments.connections), "--duration", f"{arguments.load:g}s"],
               limit=arguments.load + 60, every=1, cpu=None)
        progress(f"{name}: both instances")
        text = plan(arguments, name, kept, results.order.randrange(2**32))
        report = reported(measure(text, below / "both", PATIENCE * arguments.seconds + START_S))
    taxes = {case["gateway"]: {metric: case["tax"][metric] for metric in METRICS} for case in report["cases"] if case.get("tax")}
    warm_up = next(one for one in report["warm_ups"] if one["contender"] == FRESH)
    return {"gateway": name, **taxes, "warm_up": warm_up}


def main():
    parser = options(__doc__, 1)
    parser.add_argument("--gateways", default="spring-cloud-gateway,express-gateway", help="packs (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="time of the run (default %(default)s)")
    parser.add_argument("--load", type=float, default=300, help="seconds of load before it (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="(default %(default)s)")
    arguments = parser.parse_args()
    results = record("Figures after a warm-up, and after minutes of load", arguments, [])
    lines = [["gateway", "metric", "just warmed up, us", f"after {arguments.load:g} s of load, us", "change, %", "warm-up: load, slow"]]
    disturbance = Disturbance()
    for number in range(arguments.runs):
        for name in installed(arguments.gateways, results.say):
            try:
                with tempfile.TemporaryDirectory(prefix="hoptax-settled-") as below:
                    one = measured(arguments, name, results, Path(below))
            except (Failed, OSError) as failure:
                results.say(f"{name} failed: {failure}")
                continue
            results.add(one)
            for metric, shown in METRICS.items():
                first, second = one[FRESH][metric], one[OLD][metric]
                cells = [f"{each['estimate']:.1f} ± {estimates.half_width(each):.1f}" for each in (first, second)]
                change = 100 * (second["estimate"] / first["estimate"] - 1)
                lines.append([name, shown, *cells, f"{change:+.1f}",
                              f"{one['warm_up']['load_s']:.1f} s, {one['warm_up']['slow_s']:.1f} s"])
    results.say(table(lines))
    results.say(f"steal {spread([disturbance.shares(0)['steal']], 1)} %")


if __name__ == "__main__":
    main()
