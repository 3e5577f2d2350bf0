#!/usr/bin/env python3
"""Counts how often `hoptax compare` and `hoptax gate --baseline` find a difference between equal runs.

Makes runs of one plan, by default with two equal nginx, and compares every ordered pair of runs. It counts how often
compare calls a row or a pair better or worse, and how gate exits if the other run is the baseline and budgets allow +10 %.
Pairs of runs in which the hypervisor had placed the CPUs differently are counted separately. Run directories that DIRECTORY
already has are used too, so `--runs 0` only evaluates them again.

The second test makes runs with two equal hops and plants a delay in one of them. It counts how often gate exits with 3 and
compare says `worse`, both within a run and against another run.

  benches/between-runs.py DIRECTORY [--runs 10] [--time 30s] [--plan FILE] [--planted 10] [--delay 50us] [--out FILE]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import permutations
from pathlib import Path

from common import HOPTAX

PLAN = """name: between-runs
gateways: [nginx, { name: nginx, label: nginx-again }]
load:
  - { loop: open, rate: 1000/s, connections: 32 }
  - { loop: closed, connections: 16 }
"""
PLANTED = """name: between-runs-planted
gateways: [{ name: hop-l7, label: main }, { name: hop-l7, label: pr, delay: { in: %s } }]
load: [{ loop: open, rate: 1000/s, connections: 32 }]
budget: [{ gateway: pr, metric: added_p50, against: main, max: +10%% }]
"""
BUDGET = """- { metric: added_p50, max: +10% }
- { metric: p50, max: +10% }
- { metric: p99, max: +10% }
- { metric: cpu_us_per_request, max: +10% }
- { metric: throughput, min: -10% }
"""
# hoptax treats two distances of CPUs as different placements if one is more than this many times the other.
APART = 2.0


def hoptax(*arguments, may=(0, 3, 4, 5)):
    """Runs hoptax. Returns its exit code and its output."""
    ran = subprocess.run([HOPTAX, *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode not in may:
        sys.exit(f"between-runs: hoptax {' '.join(map(str, arguments))} exited with {ran.returncode}:\n{ran.stderr}")
    return ran.returncode, ran.stdout


def runs_below(directory):
    return sorted(path.parent for path in directory.glob("*/run.json"))


def measure(plan, directory, count, time):
    """Adds runs until the directory has `count` runs."""
    while len(runs_below(directory)) < count:
        before = set(runs_below(directory))
        code, _ = hoptax("run", plan, "--out", directory, "--set", f"time={time}", "--no-live")
        for run in sorted(set(runs_below(directory)) - before):
            print(f"{run.name}: exit {code}", file=sys.stderr)


def distances(run):
    report = json.loads(hoptax("report", run, "--format", "json")[1])
    return {tuple(one["cpus"]): one["usual_ns"] for one in report.get("cpu_placements") or []}


def alike(one, other):
    """Whether the CPUs were placed alike in two runs. `None` if the runs measured no pair of CPUs in common."""
    both = one.keys() & other.keys()
    if not both:
        return None
    return all(max(one[cpus], other[cpus]) <= APART * min(one[cpus], other[cpus]) for cpus in both)


def share(count, of):
    return f"{count} of {of}" + (f" ({100 * count / of:.0f} %)" if of else "")


class Pairs:
    """Verdicts of pairs of runs of one kind."""

    def __init__(self):
        self.pairs, self.called = 0, 0
        self.verdicts, self.rows, self.gates = Counter(), {}, Counter()

    def add(self, comparison, gate):
        self.pairs += 1
        self.verdicts[comparison["verdict"]] += 1
        self.gates[gate] += 1
        verdicts = [(row, row["verdict"]) for row in comparison["rows"]]
        self.called += any(verdict != "not distinguishable" for _, verdict in verdicts)
        for row, verdict in verdicts:
            name = f"{row['label_b']}, {row['load']['label']}: {row['metric']}"
            self.rows.setdefault(name, Counter())[verdict] += 1

    def lines(self, name):
        yield f"{name}: {share(self.called, self.pairs)} ordered pairs have a row that is better or worse"
        yield f"  verdicts of compare: {dict(self.verdicts)}"
        yield f"  exit codes of gate (0 kept, 3 exceeded, 5 inconclusive): {dict(sorted(self.gates.items()))}"
        for row, verdicts in self.rows.items():
            if set(verdicts) != {"not distinguishable"}:
                yield f"    {row}: {verdicts['better']} better, {verdicts['worse']} worse of {sum(verdicts.values())}"


def equal_runs(directory, scratch):
    """Compares all ordered pairs of runs."""
    budget = scratch / "budget.yaml"
    budget.write_text(BUDGET)
    runs = runs_below(directory)
    placed = {run: distances(run) for run in runs}
    kinds = {True: Pairs(), False: Pairs(), None: Pairs()}
    for first, second in permutations(runs, 2):
        comparison = json.loads(hoptax("compare", first, second, "--format", "json", "--accept-void")[1])
        gate, _ = hoptax("gate", second, "--baseline", first, "--budget", budget, "--accept-void")
        kinds[alike(placed[first], placed[second])].add(comparison, gate)
    yield f"{len(runs)} runs"
    for run in runs:
        yield f"  {run.name}: " + (", ".join(f"CPUs {a} and {b} {ns:.0f} ns apart" for (a, b), ns in placed[run].items())
                                  or "distance of CPUs unknown")
    names = {True: "CPUs placed alike", False: "CPUs placed differently", None: "placement unknown"}
    for kind, pairs in kinds.items():
        if pairs.pairs:
            yield from pairs.lines(names[kind])


def planted_runs(directory, delay):
    """Verdicts of runs in which the hop `pr` has a delay."""
    runs = runs_below(directory)
    within = Counter(json.loads(hoptax("compare", run, "--labels", "main,pr", "--format", "json", "--accept-void")[1])["verdict"]
                     for run in runs)
    gates = Counter(hoptax("gate", run, "--accept-void")[0] for run in runs)
    placed = {run: distances(run) for run in runs}
    between = {True: Counter(), False: Counter(), None: Counter()}
    for first, second in permutations(runs, 2):
        words = hoptax("compare", first, second, "--labels", "main,pr", "--format", "json", "--accept-void")[1]
        between[alike(placed[first], placed[second])][json.loads(words)["verdict"]] += 1
    yield f"{delay} planted in one of two hops, {len(runs)} runs"
    yield f"  within a run: compare says {dict(within)}, gate exits {dict(gates)}"
    for kind, name in ((True, "placed alike"), (False, "placed differently"), (None, "placement unknown")):
        if between[kind]:
            yield f"  between two runs, CPUs {name}: compare says {dict(between[kind])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="directory for the runs; runs in it are used")
    parser.add_argument("--runs", type=int, default=10, help="equal runs in all (default: 10)")
    parser.add_argument("--time", default="30s", help="time of each run (default: 30s)")
    parser.add_argument("--plan", type=Path, help="plan of the equal runs (default: two equal nginx)")
    parser.add_argument("--planted", type=int, default=10, help="planted runs in all (default: 10)")
    parser.add_argument("--delay", default="50us", help="planted delay (default: 50us)")
    parser.add_argument("--out", type=Path, help="also write the results to this file")
    asked = parser.parse_args()
    equal, planted = asked.directory / "equal", asked.directory / "planted"
    for below in (equal, planted):
        below.mkdir(parents=True, exist_ok=True)
    lines = [hoptax("--version")[1].strip()]
    with tempfile.TemporaryDirectory(prefix="hoptax-between-") as scratch:
        scratch = Path(scratch)
        for name, text in (("equal.yaml", PLAN), ("planted.yaml", PLANTED % asked.delay)):
            (scratch / name).write_text(text)
        measure(asked.plan or scratch / "equal.yaml", equal, asked.runs, asked.time)
        measure(scratch / "planted.yaml", planted, asked.planted, asked.time)
        lines += equal_runs(equal, scratch)
        lines += planted_runs(planted, asked.delay) if runs_below(planted) else []
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if asked.out:
        asked.out.write_text(text)


if __name__ == "__main__":
    main()
