#!/usr/bin/env python3
"""Tests whether `hoptax bisect` names the commit that made a proxy slower, and how long that takes.

Each run makes a repository with 40 commits of a small proxy: a script that starts the built-in hop. One commit, drawn at
random, adds 40 us of work to each request. With `--metric cpu_us_per_request`, it adds a share of the hop's CPU time instead.
With `--rate 0`, the loop is closed. The hop then never waits, so its CPU time per request contains no wake-ups.

For comparison, a yes-or-no bisect checks each commit once, and calls it bad if it shows more than half of the bad commit's
change. It uses the first measurement of each commit of the same search, and measures commits that the search did not need.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from common import HOPTAX, Disturbance, Failed, spread, table
from runs import hoptax, measure, options, progress, record, reported

PACK = """name: proxy
summary: the built-in hop, behind a script
binary: no-such-proxy
version: { command: ["{{ binary }}", --version], pattern: '([0-9][0-9.]*)' }
start: ["{{ binary }}", --listen, "127.0.0.1:{{ port }}", --upstream, "{{ upstreams[0].host }}:{{ upstreams[0].port }}"]
ready: { path: / }
unsupported: { access_log: the hop writes none }
"""
# Each trial has a process of its own. A native proxy needs no long warm-up.
ISOLATED = "isolate: true\nwarmup: 100ms\n"
BUILD = "cp proxy.sh proxy && chmod +x proxy"
# A search that takes longer than this has failed, s.
PATIENCE_S = 3600


def git(directory, *words):
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", directory, *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def repository(below, commits, culprit, work_us):
    """Makes a repository, and returns the names of its commits, oldest first. The first one is good."""
    directory = below / "proxy"
    directory.mkdir()
    git(directory, "init", "--quiet", "--initial-branch=main")
    names = []
    for number in range(commits + 1):
        work = f"--delay-in {work_us:.2f}us --delay-how spin" if number >= culprit else ""
        (directory / "proxy.sh").write_text(f'#!/bin/sh\n# commit {number}\nexec "{HOPTAX}" hop l7 "$@" {work}\n')
        git(directory, "add", "proxy.sh")
        git(directory, "commit", "--quiet", "-m", f"Commit {number}")
        names.append(git(directory, "rev-parse", "HEAD"))
    return names


def load(arguments):
    loop = f"loop: open, rate: {arguments.rate}/s" if arguments.rate else "loop: closed"
    return f"load:\n  - {{ {loop}, connections: {arguments.connections} }}\n"


def plan(arguments, below, refs):
    return (f"name: bisect\ngateways:\n  - {{ name: proxy, git: {{ repository: {below / 'proxy'}, refs: "
            f"[{', '.join(refs)}], build: \"{BUILD}\", binary: proxy }} }}\n{load(arguments)}time: {arguments.seconds:g}s\n"
            f"precision: 0.1%\n{ISOLATED if arguments.isolate else ''}")


def document(text):
    """The JSON document of a search that named no commit, with the probability of the most likely commit."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {"outcome": "failed", "commits": [], "probability": None, "change": None}
    if found["outcome"] == "unclear":
        found["probability"] = max((one["probability"] for one in found["suspects"]), default=None)
    return found


def searched(arguments, below, names):
    """The JSON document of a search, its duration in seconds, and its state with all measurements."""
    path = below / "plan.yaml"
    path.write_text(plan(arguments, below, ["HEAD"]))
    begun = time.monotonic()
    try:
        text = hoptax("bisect", path, "--packs", below / "packs", "--good", names[0], "--bad", names[-1], "--metric",
                      arguments.metric, "--min", arguments.min, "--time", f"{arguments.seconds:g}s", "--out", below / "out",
                      "--json", limit=PATIENCE_S)
        found = json.loads(text)
    except Failed as failed:
        progress(f"no commit: {failed}")
        found = document(failed.text)
    seconds = time.monotonic() - begun
    states = list((below / "out").glob("bisect-*/bisect.json"))
    return found, seconds, json.loads(states[0].read_text()) if states else {"measurements": []}


def yes_or_no(arguments, below, names, state):
    """The commit that a yes-or-no bisect names, as an index in `names`, and how many measurements it had to add."""
    known, added = {}, 0
    for one in state["measurements"]:
        known.setdefault(one["commit"], one["difference"])

    def difference(commit):
        nonlocal added
        if commit not in known:
            added += 1
            text = plan(arguments, below, [names[0], commit]) + "seed: 1\n"
            report = reported(measured(text, below / f"plain-{added}", below / "packs", arguments))
            known[commit] = next(pair["difference"]["estimate"] for pair in report["pairs"]
                                 if pair["metric"] == arguments.metric)
        return known[commit]

    half = difference(names[-1]) / 2
    low, high = 1, len(names) - 1
    while low < high:
        middle = (low + high) // 2
        if (difference(names[middle]) > half) == (half > 0):
            high = middle
        else:
            low = middle + 1
    return low, added


def measured(text, into, packs, arguments):
    """Measures a plan with packs of its own. Returns the run directory."""
    into.mkdir()
    path = into / "plan.yaml"
    path.write_text(text)
    hoptax("run", path, "--packs", packs, "--out", into, "--accept-void", "--no-live", limit=10 * arguments.seconds + 400)
    return next(found.parent for found in into.glob("*/run.json"))


def cpu_of_hop(arguments, below):
    """CPU time of the hop per request, us, from a short run."""
    text = f"name: hop\ngateways: [hop-l7]\n{load(arguments)}time: 20s\n"
    report = reported(measure(text, below / "hop", 400))
    case = next(case for case in report["cases"] if case["gateway"] == "hop-l7")
    return case["tax"]["cpu_us_per_request"]["estimate"]


def main():
    parser = options(__doc__, 20)
    parser.add_argument("--commits", type=int, default=40, help="commits after the good one (default %(default)s)")
    parser.add_argument("--change", type=float, default=40, help="added work, us (default %(default)s)")
    parser.add_argument("--metric", default="added_p50", help="added_p50 or cpu_us_per_request (default %(default)s)")
    parser.add_argument("--cpu-share", type=float, default=3,
                        help="with cpu_us_per_request: added work, %% of the hop's CPU time (default %(default)s)")
    parser.add_argument("--min", default="1%", help="smallest change to look for (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=12, help="rounds of each measurement (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second; 0: closed loop (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="(default %(default)s)")
    parser.add_argument("--isolate", action="store_true", help="start the proxy again for each trial: shows how processes "
                        "of one commit differ")
    parser.add_argument("--minutes", type=float, default=15, help="longest search that counts (default %(default)s)")
    arguments = parser.parse_args()
    results = record("Bisect: a commit that made a proxy slower", arguments, [])
    rows, right, plain, in_time = [], 0, 0, 0
    for run in range(1, arguments.runs + 1):
        with tempfile.TemporaryDirectory(prefix="hoptax-bisect-") as name:
            below = Path(name)
            (below / "packs/proxy").mkdir(parents=True)
            (below / "packs/proxy/gateway.yaml").write_text(PACK)
            os.environ["HOPTAX_HOME"] = str(below / "home")
            work = arguments.change
            if arguments.metric == "cpu_us_per_request":
                work = arguments.cpu_share / 100 * cpu_of_hop(arguments, below)
            culprit = results.order.randrange(1, arguments.commits + 1)
            progress(f"run {run}: commit {culprit} adds {work:.2f} us")
            names = repository(below, arguments.commits, culprit, work)
            disturbance = Disturbance()
            found, seconds, state = searched(arguments, below, names)
            steal = disturbance.shares(0)["steal"]
            is_right = [one["commit"] for one in found["commits"]] == [names[culprit]]
            named, added = yes_or_no(arguments, below, names, state) if state["measurements"] else (None, 0)
            right, plain = right + is_right, plain + (named == culprit)
            in_time += is_right and seconds <= 60 * arguments.minutes
            change = found["change"]
            errors = [(one["high"] - one["low"]) / 2 for one in state["measurements"]]
            row = [run, culprit, "yes" if is_right else f"no ({found['outcome']})",
                   f"{100 * found['probability']:.1f}" if found["probability"] else "-",
                   f"{change['estimate']:.2f} ({change['low']:.2f} to {change['high']:.2f})" if change else "-",
                   len(state["measurements"]), f"{statistics.median(errors):.2f}" if errors else "-",
                   f"{seconds / 60:.1f}", "yes" if named == culprit else "no", added, steal]
            rows.append([str(value) for value in row])
            if not is_right:
                for one in state["measurements"]:
                    progress(f"  commit {names.index(one['commit'])}: {one['difference']:.2f} us ({one['low']:.2f} to "
                             f"{one['high']:.2f}), {one['rounds']} rounds, distances {one.get('distances')}")
            progress(f"run {run}: named {rows[-1][2]}, {rows[-1][5]} measurements, {rows[-1][7]} min; yes or no: {rows[-1][8]}")
    results.say(table([["run", "commit", "named", "sure, %", "change, us", "measurements", "half-width, us", "minutes",
                        "yes or no", "added for it", "steal, %"], *rows]))
    results.say(f"named the commit in {right} of {arguments.runs} runs, in {in_time} within {arguments.minutes:g} "
                f"minutes; a yes-or-no bisect in {plain}. Minutes: {spread([float(row[7]) for row in rows], 1)}")


if __name__ == "__main__":
    main()
