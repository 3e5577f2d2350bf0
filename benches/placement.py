#!/usr/bin/env python3
"""Shows what gateways cost if the CPUs of a virtual machine are far apart.

Reads run directories, for example those that `variance.py --keep` leaves, and divides their trials by the time that a cache
line took between the CPUs of generator and gateway and back. Measures nothing itself.
"""

import argparse
from pathlib import Path
from statistics import fmean, median, stdev

from common import table
from runs import DIRECT, record, trials
from variance import p50_us, placements, run_directories

# If the distance changed by more than this factor during a trial, the trial belongs to no placement, as in hoptax.
APART = 2


def distance_ns(trial):
    """Distance of the first pair of CPUs before and after a trial; None if it was not measured or changed."""
    for one in trial.get("cpu_round_trips", [])[:1]:
        low, high = sorted((one["before_ns"], one["after_ns"]))
        return (low + high) / 2 if high <= APART * low else None
    return None


def cpu_us(trial):
    return trial["gateway"]["cpu_ns"] / 1e3 / trial["load_record"]["completed_in_time"]


def spread(values):
    return f"{fmean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("directory", type=Path, help="directory with run directories below it")
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, metavar="FILE", help="also save the table to FILE and FILE with .json")
    arguments = parser.parse_args()
    results = record("Placement of CPUs", arguments)
    measured = []
    for directory in run_directories(arguments.directory):
        of_run = [trial for trial in trials(directory) if trial["load_record"]["completed_in_time"]]
        direct = {}
        for trial in of_run:
            if trial["contender"] == DIRECT:
                direct.setdefault((trial["load"], trial["round"]), []).append(p50_us(trial))
        measured += [(trial, direct.get((trial["load"], trial["round"]))) for trial in of_run]
    known = [(distance_ns(trial), trial, direct) for trial, direct in measured]
    ends = placements([distance for distance, *_ in known if distance])
    results.say(f"{len(known)} trials, {sum(distance is None for distance, *_ in known)} without one distance\n")
    rows = [["ns there and back", "contender", "trials", "p50, us", "added p50, us", "CPU per request, us"]]
    below = 0
    for end in ends:
        here = [(trial, direct) for distance, trial, direct in known if distance and below < distance <= end]
        middle = median(distance for distance, *_ in known if distance and below < distance <= end)
        for name in sorted({trial["contender"] for trial, _ in here}, key=lambda name: (name != DIRECT, name)):
            of = [(trial, direct) for trial, direct in here if trial["contender"] == name]
            added = [p50_us(trial) - fmean(direct) for trial, direct in of if direct and name != DIRECT]
            cpu = [cpu_us(trial) for trial, _ in of if trial["gateway"]]
            rows.append([f"{middle:.0f}", name, str(len(of)), spread([p50_us(trial) for trial, _ in of]),
                         spread(added), spread(cpu)])
            results.add({"distance_ns": middle, "contender": name, "trials": len(of),
                         "p50_us": [p50_us(trial) for trial, _ in of], "added_p50_us": added, "cpu_us_per_request": cpu})
        below = end
    results.say("mean ± standard deviation of trials\n")
    results.say(table(rows))


if __name__ == "__main__":
    main()
