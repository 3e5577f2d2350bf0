#!/usr/bin/env python3
"""Tests whether `tail` gives each planted cause of slow requests its share.

Each run plants one kind of delay: a gateway that sleeps 2 ms in every 200th request, one that computes for 4 ms in every 200th
while others wait behind it, an upstream that is slow by 5 ms once in 100, and a program with real-time priority that takes the
gateway's CPU for 1 ms twice a second. From the rate and the delay follows how much of the excess of the requests beyond p99 is
planted. The rest is the machine's own tail, so a share is expected of the excess that was measured.

Real-time priority and the recording of switches need root.
"""

import ctypes
import os
import sys
import time
from multiprocessing import Process
from pathlib import Path

from common import table
from runs import measure, options, progress, record, reported

RATE = 1000
REST = f"""load: [{{ loop: open, rate: {RATE}/s, arrivals: jitter, connections: 32, duration: 300ms }}]
trials: 5
warmup: 300ms
tail: {{ passes: 4, for: 4s }}
"""
PLANS = {
    "gateways": """gateways:
  - { name: hop-l7, label: sleeps, delay: { in: 2ms, share: 0.5% } }
  - { name: hop-l7, label: blocks, delay: { in: 4ms, share: 0.5%, how: spin } }
""",
    "upstream": """upstream: { delay: "choice(99% 0ms, 1% 5ms)" }
gateways: [hop-l7]
""",
    "disturber": """gateways: [hop-l7]
cpus: { generator: "0", upstream: "0", gateway: "1" }
""",
}
TAKES_S, EVERY_S = 0.001, 0.5
# Mean delay that is planted in the requests beyond p99, us. They are one request in 100.
#   sleeps: one in 200 by 2 ms.
#   blocks: one in 200 by 4 ms. The requests that come 1, 2 and 3 ms later wait 3, 2 and 1 ms. The next slowest one in 200 are
#   those that wait 3 ms.
#   the upstream: one in 100 by 5 ms.
#   disturber: it meets as many requests as come in 1 ms, twice a second. They wait half of it on average.
PLANTED = [
    ("gateways", "sleeps", "asleep", "gateway", "", 1000),
    ("gateways", "blocks", "running", "gateway", "", 2000),
    ("gateways", "blocks", "neighbour", "gateway", "", 1500),
    ("upstream", "direct", "asleep", "upstream", "", 5000),
    ("upstream", "hop-l7", "asleep", "upstream", "", 5000),
    ("disturber", "hop-l7", "waiting", "", "disturber", TAKES_S / EVERY_S * 1e6 * TAKES_S / 2 / 0.01),
]
LIMIT_S = 300


def disturb():
    """Takes CPU 1 for a moment, again and again. Ends with the benchmark."""
    ctypes.CDLL(None).prctl(15, b"disturber", 0, 0, 0)  # PR_SET_NAME
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    os.sched_setaffinity(0, {1})
    last = time.monotonic() + LIMIT_S
    while time.monotonic() < last and os.getppid() != 1:
        time.sleep(EVERY_S - TAKES_S)
        end = time.monotonic() + TAKES_S
        while time.monotonic() < end:
            pass


def run(kind, below):
    """Measures one plan. Returns the run directory."""
    disturber = Process(target=disturb, daemon=True) if kind == "disturber" else None
    if disturber:
        disturber.start()
    try:
        return measure(f"name: known-tail-{kind}\n{PLANS[kind]}{REST}", below, LIMIT_S)
    finally:
        if disturber:
            disturber.kill()
            disturber.join()


def shares(report, contender):
    """Excess of the slow requests, us; shares by (kind, role, holder); share of the time that was disturbed."""
    one = next(slow for slow in report["slow"] if slow["contender"] == contender)
    excess = one["slow_us"]["estimate"] - one["usual_us"]
    causes = {(cause["kind"], cause["role"] or "", cause["holder"] or ""): cause["share"]["estimate"] for cause in one["causes"]}
    return excess, causes, one["disturbed"]


def main():
    parser = options(__doc__, 5)
    arguments = parser.parse_args()
    if not (arguments.keep or arguments.only_report):
        sys.exit("known-tail: give --keep DIR for the runs")
    below = arguments.only_report or arguments.keep
    results = record("Known causes of slow requests, and the shares that `tail` gives them", arguments)
    rows, near, all_ = [], 0, 0
    for kind in PLANS:
        for number in range(1, arguments.runs + 1):
            directory = below / f"{kind}-{number}"
            made = sorted(path.parent for path in directory.glob("*/run.json"))
            if not made and not arguments.only_report:
                progress(f"{kind}, run {number}")
                made = [run(kind, directory)]
            for path in made:
                rows.append((kind, number, reported(Path(path))))
    lines = []
    for kind, contender, cause, role, holder, planted in PLANTED:
        for number, report in ((number, report) for of, number, report in rows if of == kind):
            excess, causes, disturbed = shares(report, contender)
            expected, found = min(1, planted / excess), causes.get((cause, role, holder), 0)
            unknown = causes.get(("unknown", "", ""), 0)
            all_, near = all_ + 1, near + (abs(found - expected) <= 0.1)
            results.add({"kind": kind, "run": number, "contender": contender, "cause": cause, "excess_us": excess,
                         "expected": expected, "found": found, "unknown": unknown, "disturbed": disturbed})
            lines.append([contender, cause, str(number), f"{excess:.0f}", f"{100 * expected:.0f}", f"{100 * found:.0f}",
                          f"{100 * unknown:.0f}", f"{100 * disturbed:.0f}"])
    head = ["contender", "cause", "run", "excess, us", "expected, %", "found, %", "unknown, %", "disturbed time, %"]
    results.say(table([head, *lines]))
    results.say(f"within 10 points: {near} of {all_}")


if __name__ == "__main__":
    main()
