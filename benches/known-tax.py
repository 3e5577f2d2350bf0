#!/usr/bin/env python3
"""Tests whether hoptax measures a known tax correctly: of hops that add an exact time, and of hops that add nothing.

Two contenders add nothing. An external gateway with the upstream's own address adds nothing to direct. The second of
two identical hops adds nothing to the first. A hop with a known delay adds exactly this delay to a hop without a delay
that is measured in the same rounds. The hops are `hop-l7`, or with `--streams` `hop-h2` under loads of HTTP/2. This
benchmark starts ordinary runs with `hoptax run`, and evaluates their reports.

With `--grpc`, the requests are gRPC calls: `unary`, or `both-ways` with a message every 2 ms in each direction. For the
latter, the delay (`message-0.05ms-spin`) and the figures are those of single messages.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from common import CPUS, HOPTAX, Disturbance, Record, options, spread, table
from servers import free_port

BARE, TWIN, SAME = "bare", "bare-again", "same"
PERCENTILES = ("p50", "p99")
# For each label: (delay as in a plan, µs added at p50, µs added at p99). None means that no exact value is expected,
# because the percentile lies at the edge of the delayed share.
KNOWN = {
    "in-0.05ms-spin": ("{ in: 50us, how: spin }", 50, 50),
    "in-0.1ms-spin": ("{ in: 100us, how: spin }", 100, 100),
    "out-0.1ms-spin": ("{ out: 100us, how: spin }", 100, 100),
    "in-0.5ms-sleep": ("{ in: 500us }", 500, 500),
    "out-0.5ms-spin": ("{ out: 500us, how: spin }", 500, 500),
    "in-2ms-spin": ("{ in: 2ms, how: spin }", 2000, 2000),
    "out-2ms-sleep": ("{ out: 2ms }", 2000, 2000),
    "in-10ms-sleep": ("{ in: 10ms }", 10_000, 10_000),
    "out-10ms-sleep": ("{ out: 10ms }", 10_000, 10_000),
    "1-percent-10ms": ("{ in: 10ms, share: 1% }", 0, None),
    "5-percent-10ms": ("{ in: 10ms, share: 5% }", 0, 10_000),
    "message-0.05ms-spin": ("{ message: 50us, how: spin }", 50, 50),
}
# The goal for the error: at most this many µs, or this share of the truth if that is more.
GOAL_US, GOAL_SHARE = 5, 0.01


def hoptax(*arguments):
    """Runs hoptax, and returns its JSON output. Accepts exit code 4 (the run is void) too."""
    ran = subprocess.run([HOPTAX, *map(str, arguments)], capture_output=True, text=True, timeout=900)
    if ran.returncode not in (0, 4):
        raise SystemExit(f"known-tax: hoptax {' '.join(map(str, arguments))} exited with {ran.returncode}:\n{ran.stderr}")
    return json.loads(ran.stdout)


TARGETS = {
    None: "",
    "unary": "target: { grpc: { service: echo.Echo, method: Say, message: 64B } }\n",
    "both-ways": "target: { grpc: { service: echo.Echo, method: Chat, kind: both-ways, messages: 20, every: 2ms, "
                 "message: 64B } }\n",
}


def figure(arguments, percentile):
    """Name of the figure for a percentile."""
    return f"message_{percentile}" if arguments.grpc == "both-ways" else percentile


def hop(arguments, label, more=""):
    """A hop as in a plan."""
    return f"{{ name: {'hop-h2' if arguments.streams else 'hop-l7'}, label: \"{label}\"{more} }}"


def measured(hops, arguments, seed, read):
    """Measures these hops, and the upstream as an external gateway. `read(directory, report)` extracts the figures."""
    with tempfile.TemporaryDirectory(prefix="hoptax-known-tax-") as below:
        port = free_port()
        plan = Path(below, "known-tax.yaml")
        http = f"http: 2, streams: {arguments.streams}, " if arguments.streams else ""
        gateways = [f"{{ name: external, label: {SAME}, url: \"http://127.0.0.1:{port}\" }}", *hops]
        # Streams begin at random times, so that a message seldom waits for the delay of another.
        loop = ("open, rate: 50/s, arrivals: poisson" if arguments.grpc == "both-ways"
                else f"open, rate: {arguments.rate}/s, arrivals: jitter")
        plan.write_text(
            f"{TARGETS[arguments.grpc]}upstream: {{ port: {port}, body: 64B }}\ngateways:\n" + "".join(f"  - {gateway}\n" for gateway in gateways)
            + f"load:\n  - {{ loop: {loop}, connections: 8, {http}"
              f"duration: {arguments.seconds}s }}\ntrials: {arguments.rounds}\nwarmup: 200ms\nseed: {seed}\n")
        disturbance = Disturbance()
        ran = subprocess.run([HOPTAX, "run", plan, "--out", below, "--accept-void"], capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"known-tax: hoptax run exited with {ran.returncode}:\n{ran.stderr}")
        directory = next(path.parent for path in Path(below).glob("*/run.json"))
        report = hoptax("report", directory, "--format", "json")
        void = sorted({finding["code"] for finding in report["findings"] if finding["severity"] == "void"})
        return {**read(directory, report), "void": void, "steal": disturbance.shares(0)["steal"]}


def of_same(arguments, report):
    """Reported tax of the upstream as an external gateway: {percentile: tax}."""
    case = next(case for case in report["cases"] if case["gateway"] == SAME)
    return {percentile: case["tax"][f"added_{figure(arguments, percentile)}"] for percentile in PERCENTILES}


def against_bare(arguments, directory, label):
    """Result of `hoptax compare` for a hop against the hop without a delay: {percentile: row}."""
    rows = hoptax("compare", directory, "--labels", f"{BARE},{label}", "--format", "json")["rows"]
    names = {figure(arguments, percentile): percentile for percentile in PERCENTILES}
    return {names[row["metric"]]: row for row in rows if row["metric"] in names}


def covers(interval, truth):
    return interval["low"] is not None and interval["low"] <= truth <= interval["high"]


def nothing(record, arguments):
    """Measures hops that add nothing. Counts how often hoptax reports a tax."""
    hops = [hop(arguments, BARE), hop(arguments, TWIN)]
    read = lambda directory, report: {"same": of_same(arguments, report), "twin": against_bare(arguments, directory, TWIN)}
    runs = [measured(hops, arguments, record.order.randrange(2**32), read) for _ in range(arguments.zero)]
    rows = [["adds exactly nothing", "", "not distinguishable", "interval covers 0", "estimate µs", "half-width µs"]]
    for name, of, clear, where in (
            ("the upstream's own address, against direct", "same", lambda found: found["distinguishable"], lambda found: found),
            ("a second bare hop, against the first", "twin", lambda found: found["verdict"] != "not distinguishable",
             lambda found: found["difference"])):
        for percentile in PERCENTILES:
            said = [run[of][percentile] for run in runs]
            intervals = [where(one) for one in said]
            rows.append([name, percentile, f"{sum(not clear(one) for one in said)} of {len(said)}",
                         f"{sum(covers(one, 0) for one in intervals)} of {len(said)}",
                         spread([one["estimate"] for one in intervals], 1),
                         spread([(one["high"] - one["low"]) / 2 for one in intervals if one["low"] is not None], 1)])
    steal = spread([run["steal"] for run in runs], 1)
    record.say(f"\n{len(runs)} runs of {arguments.rounds} rounds in which nothing is added; steal {steal} %; void: "
               f"{sum(bool(run['void']) for run in runs)}\n{table(rows)}")
    record.add({"what": "nothing", "runs": runs})


def known(record, arguments):
    """Measures known delays. Counts how often the interval contains the true value, and how often a tax is reported."""
    delays = {label: KNOWN[label] for label in arguments.delays.split(",")}
    hops = [hop(arguments, BARE), *(hop(arguments, label, f", delay: {delay}") for label, (delay, *_) in delays.items())]
    read = lambda directory, report: {"hops": {label: against_bare(arguments, directory, label) for label in delays}}
    runs = [measured(hops, arguments, record.order.randrange(2**32), read) for _ in range(arguments.known)]
    goal = f"error within {GOAL_US} µs or {GOAL_SHARE:.0%}"
    rows = [["delay in the hop", "", "truth µs", "interval covers it", "distinguishable", goal, "error µs", "half-width µs"]]
    for label, (_, *truths) in delays.items():
        for percentile, truth in zip(PERCENTILES, truths):
            if truth is None:
                continue
            said = [run["hops"][label][percentile] for run in runs]
            errors = [one["difference"]["estimate"] - truth for one in said]
            rows.append([label, percentile, f"{truth:,}",
                         f"{sum(covers(one['difference'], truth) for one in said)} of {len(said)}",
                         f"{sum(one['verdict'] != 'not distinguishable' for one in said)} of {len(said)}",
                         f"{sum(abs(error) <= max(GOAL_US, GOAL_SHARE * truth) for error in errors)} of {len(errors)}",
                         spread(errors, 1),
                         spread([(one["difference"]["high"] - one["difference"]["low"]) / 2 for one in said
                                 if one["difference"]["low"] is not None], 1)])
    steal = spread([run["steal"] for run in runs], 1)
    record.say(f"\n{len(runs)} runs of {arguments.rounds} rounds with known delays; steal {steal} %; void: "
               f"{sum(bool(run['void']) for run in runs)}\n{table(rows)}")
    record.add({"what": "known", "runs": runs})


def main():
    parser = options(__doc__, rounds=5, seconds=1)
    parser.add_argument("--rate", type=int, default=300, help="requests per second (default %(default)s)")
    parser.add_argument("--zero", type=int, default=20, help="runs in which nothing is added (default %(default)s)")
    parser.add_argument("--streams", type=int, help="measure hop-h2 over HTTP/2 with this many streams per connection")
    usual = ",".join(label for label in KNOWN if not label.startswith("message"))
    parser.add_argument("--grpc", choices=[kind for kind in TARGETS if kind], help="the requests are gRPC calls of this kind")
    parser.add_argument("--delays", help=f"known delays (default {usual}; both ways, message-0.05ms-spin)")
    parser.add_argument("--known", type=int, default=3, help="runs with known delays (default %(default)s)")
    arguments = parser.parse_args()
    arguments.delays = arguments.delays or ("message-0.05ms-spin" if arguments.grpc == "both-ways" else usual)
    if arguments.grpc:
        arguments.streams = arguments.streams or 1
    record = Record("known-tax", "Known taxes: what hoptax reports", arguments)
    # Remove the pinning of this process, because hoptax must choose CPUs itself, as in an ordinary run.
    os.sched_setaffinity(0, CPUS)
    if arguments.zero:
        nothing(record, arguments)
    if arguments.known:
        known(record, arguments)


if __name__ == "__main__":
    main()
