#!/usr/bin/env python3
"""Splits variance into parts: within a trial, between the trials of a run, and between runs. Checks if intervals cover it.

A run starts upstream and gateways again, and measures all gateways at all load points in many rounds. The generator is
started again for each trial. Each round gives one value per gateway and load point: its p50 less the mean p50 of the
round's two direct trials, or its CPU time per request. An analysis of variance divides the scatter of these values. The
variance within a trial comes from the p50s of its windows of 100 ms, or, if they are too few, from the ranks around its
p50, as if requests were independent.
"""

import json
import shutil
import tempfile
import time
from pathlib import Path
from statistics import fmean, median, stdev, variance

import estimates
from common import Disturbance, Failed, spread, table
from runs import (DIRECT, buckets, hoptax, measure, numbers, options, progress, quantile, record, reported, trials)

METRICS = {"added_p50": "added p50", "cpu_us_per_request": "CPU per request"}
# A window with fewer responses has no useful p50.
LEAST_IN_WINDOW = 20
PATIENCE, START_S = 1.5, 300


def twin_of(name):
    """Label under which a gateway is measured a second time."""
    return f"{name}-again"


def plan(arguments, names, seed):
    """The plan of one run: all gateways at all load points."""
    points = []
    for connections in map(int, arguments.connections):
        if "open" in arguments.loops.split(","):
            points.append(f"loop: open, rate: {arguments.rate}/s, connections: {connections}")
        if "closed" in arguments.loops.split(","):
            points.append(f"loop: closed, connections: {connections}")
    length = f", duration: {arguments.trial}" if arguments.trial else ""
    load = "".join(f"  - {{ {point}{length} }}\n" for point in points)
    entries = list(names)
    if arguments.twin:
        entries.append(f"{{ name: {arguments.twin}, label: {twin_of(arguments.twin)} }}")
    # Never stop early, so that runs are alike.
    return (f"name: variance\ngateways: [{', '.join(entries)}]\nload:\n{load}time: {arguments.time}\nprecision: 0.01%\n"
            f"seed: {seed}\n")


def installed(wanted, say):
    """The requested gateways that are installed. Prints the gateways that are not."""
    packs = {pack["name"]: pack["installed"] for pack in json.loads(hoptax("gateways", "--json"))}
    names = [name for name, there in packs.items() if there] if wanted == "all" else wanted.split(",")
    missing = [name for name in names if not packs.get(name, name.startswith("hop-"))]
    if missing:
        say(f"not installed, and skipped: {', '.join(missing)}")
    return [name for name in names if name not in missing]


def measured_runs(arguments, names, results, keep):
    """Measures the runs, and keeps the directory of each, with its report."""
    seconds = seconds_of(arguments.time)
    for number in range(1, arguments.runs + 1):
        progress(f"run {number} of {arguments.runs}: {arguments.time}")
        disturbance, begun = Disturbance(), time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="hoptax-variance-") as below:
                text = plan(arguments, names, results.order.randrange(2**32))
                directory = measure(text, Path(below), PATIENCE * seconds + START_S)
                kept = keep / directory.name
                kept.mkdir()
                (kept / "report.json").write_text(json.dumps(reported(directory)) + "\n")
                for name in ("trials.jsonl", "run.json"):
                    shutil.copy(directory / name, kept)
        except (Failed, OSError) as failure:
            results.say(f"run {number} failed: {failure}")
            continue
        progress(f"  took {time.monotonic() - begun:.0f} s, steal {disturbance.shares(0)['steal']} %")


def seconds_of(text):
    """Seconds of a duration such as 90s or 4m."""
    try:
        return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
    except (ValueError, KeyError):
        raise SystemExit(f"--time: \"{text}\" is not a duration. Write 90s, 4m or 1h") from None


def response_times(record):
    """Buckets of the response times of a trial's load record, or of a window."""
    return buckets(record.get("histograms", record)["response_time"])


def p50_us(trial):
    return quantile(response_times(trial["load_record"]), 0.5)


def within_by_windows(windows):
    """Variance of a trial's p50 from the scatter of the p50s of its windows, µs²; None with less than two windows."""
    return variance([quantile(one, 0.5) for one in windows]) / len(windows) if len(windows) > 1 else None


def within_by_ranks(times):
    """Variance of a trial's p50 if requests were independent, µs²: from the ranks one standard error below and above p50."""
    error = 0.5 / sum(number for *_, number in times)**0.5
    return ((quantile(times, min(1, 0.5 + error)) - quantile(times, max(0, 0.5 - error))) / 2)**2


def within(trial):
    """Variance of a trial's p50 that comes from inside the trial, µs²."""
    record = trial["load_record"]
    windows = [response_times(window) for window in record["windows"] if window["completed"] >= LEAST_IN_WINDOW]
    by_windows = within_by_windows(windows)
    return within_by_ranks(response_times(record)) if by_windows is None else by_windows


def values(measured, label, load):
    """Values of each metric in each round, {metric: {round: (value, variance within its trials, or None)}}."""
    found = {metric: {} for metric in METRICS}
    rounds = {}
    for trial in measured:
        if trial["load"] == load and trial["contender"] in (label, DIRECT) and trial["load_record"]["completed_in_time"]:
            rounds.setdefault(trial["round"], {}).setdefault(trial["contender"], []).append(trial)
    for number, of in sorted(rounds.items()):
        if label not in of:
            continue
        via, direct = of[label][0], of.get(DIRECT, [])
        if len(direct) == 2:
            found["added_p50"][number] = (p50_us(via) - fmean(map(p50_us, direct)),
                                          within(via) + sum(map(within, direct)) / 4)
        if via["gateway"]:
            cpu = via["gateway"]["cpu_ns"] / 1e3 / via["load_record"]["completed_in_time"]
            found["cpu_us_per_request"][number] = (cpu, None)
    return found


def run_directories(directory):
    """Run directories below a directory, oldest first."""
    return sorted(path.parent for path in directory.rglob("run.json"))


def figures(directories):
    """Values and reported taxes of runs, {(gateway, load, metric): [{"values", "within", "tax"}, one per run]}. If the CPUs
    were placed differently in some runs, the placement is part of `load`."""
    found, where = {}, placed(directories)
    for directory in directories:
        measured = trials(directory)
        for case in report_of(directory)["cases"]:
            if not case["tax"]:
                continue
            by_metric = values(measured, case["gateway"], case["load"]["index"])
            for metric, rounds in by_metric.items():
                tax = case["tax"][metric]
                if rounds and tax and tax["high"] is not None:
                    inside = [one for _, one in rounds.values() if one is not None]
                    load = case["load"]["label"] + where.get(directory, "")
                    found.setdefault((case["gateway"], load, metric), []).append({
                        "values": [value for value, _ in rounds.values()],
                        "within": fmean(inside) if inside else None,
                        "tax": {name: tax[name] for name in ("estimate", "low", "high")}})
    return found


def placements(distances):
    """Splits distances into placements. A distance more than 1.5 times the previous one begins a new placement. Returns the
    largest distance of each placement."""
    ordered = sorted(distances)
    return [one for one, after in zip(ordered, ordered[1:]) if after > 1.5 * one] + ordered[-1:]


def placed(directories):
    """A text about the placement of the CPUs in each run; empty if all runs have the same placement."""
    distances = {}
    for directory in directories:
        known = report_of(directory).get("cpu_placements")
        if known:
            distances[directory] = known[0]["usual_ns"]
    ends = placements(distances.values())
    if len(ends) < 2:
        return {}
    return {directory: f", CPUs up to {next(end for end in ends if ns <= end):.0f} ns apart"
            for directory, ns in distances.items()}


def report_of(directory):
    """The JSON report of a run directory: the kept report, or else a new report."""
    kept = directory / "report.json"
    return json.loads(kept.read_text()) if kept.exists() else reported(directory)


def false_alarms(directories, results):
    """Says how often a gateway that was measured twice was distinguished from itself."""
    seen = {}
    for directory in directories:
        for pair in report_of(directory).get("pairs", []):
            if pair["second"] == twin_of(pair["first"]) and pair["metric"] in METRICS:
                seen.setdefault((pair["first"], pair["metric"]), []).append(pair["verdict"] == "distinguishable")
    for (name, metric), alarms in sorted(seen.items()):
        low, high = (100 * end for end in estimates.share_interval(sum(alarms), len(alarms)))
        results.say(f"\n{METRICS[metric]}: {name} was distinguished from itself in {sum(alarms)} of {len(alarms)} runs "
                    f"({low:.0f}–{high:.0f} %)")
        results.add({"gateway": name, "metric": metric, "false_alarms": sum(alarms), "of": len(alarms)})


def summed_up(of_runs):
    """Components, coverage and widths of one case; None with less than two runs."""
    if len(of_runs) < 2:
        return None
    inside = [run["within"] for run in of_runs if run["within"] is not None]
    parts = estimates.components([run["values"] for run in of_runs], fmean(inside) if inside else None)
    if not parts:
        return None
    intervals = [run["tax"] for run in of_runs]
    halves = [estimates.half_width(one) for one in intervals]
    rounds = median(len(run["values"]) for run in of_runs)
    # Half-width of an interval of the same confidence, computed from the scatter of the runs' estimates.
    implied = estimates.t_quantile(max(1, rounds - 1)) * stdev([one["estimate"] for one in intervals])
    lags = [lag for run in of_runs if (lag := estimates.neighbors(run["values"])) is not None]
    return {"runs": len(of_runs), "rounds": rounds, "estimate_us": fmean(one["estimate"] for one in intervals),
            "variance": parts, "half_us": halves, "implied_half_us": implied, "held": estimates.covered(intervals),
            "lag": fmean(lags) if lags else None}


def share(parts, name):
    """Share of a component in all variance, in %."""
    total = parts["within"] + parts["trials"] + parts["runs"]
    return f"{100 * parts[name] / total:.0f} %" if total else "-"


def tables(found, results):
    """Prints one table of components and one of coverage for each metric."""
    for metric, title in METRICS.items():
        parts = [["gateway", "load", "runs × rounds", "mean", "sd of a round", "within", "trials", "runs", "p", "lag 1"]]
        cover = [["gateway", "load", "half-width claimed", "from scatter of runs", "ratio", "intervals that hold the mean"]]
        held = of = 0
        for gateway, load in [key[:2] for key in sorted(found) if key[2] == metric]:
            one = summed_up(found[gateway, load, metric])
            if not one:
                continue
            each, claimed = one["variance"], median(one["half_us"])
            held, of = held + one["held"], of + one["runs"]
            total = (each["within"] + each["trials"] + each["runs"])**0.5
            parts.append([gateway, load, f"{one['runs']} × {one['rounds']:g}", f"{one['estimate_us']:.1f}", f"{total:.1f}",
                          share(each, "within") if metric == "added_p50" else "-", share(each, "trials"),
                          share(each, "runs"), f"{each['p']:.3f}", "-" if one["lag"] is None else f"{one['lag']:+.2f}"])
            cover.append([gateway, load, spread(one["half_us"], 1), f"{one['implied_half_us']:.1f}",
                          f"{one['implied_half_us'] / claimed:.2f}" if claimed else "-", f"{one['held']} of {one['runs']}"])
            results.add({"gateway": gateway, "load": load, "metric": metric, **one})
        if len(parts) == 1:
            results.say(f"\n{title}: fewer than two runs of two rounds")
            continue
        low, high = (100 * end for end in estimates.share_interval(held, of))
        results.say(f"\n{title}, µs: variance of a round's value, and p that runs do not differ\n{table(parts)}")
        results.say(f"\n{title}, µs: intervals of runs against the scatter of runs\n{table(cover)}\n  all: {held} of {of} "
                    f"intervals hold the mean of the runs: {100 * held / of:.1f} % ({low:.0f}–{high:.0f} %)")


def report(directory, results):
    directories = run_directories(directory)
    if not directories:
        raise SystemExit(f"variance: {directory} contains no run directories (with run.json and trials.jsonl)")
    results.say(f"\n{len(directories)} runs")
    tables(figures(directories), results)
    false_alarms(directories, results)


def main():
    parser = options(__doc__, runs=10)
    parser.add_argument("--time", default="4m", help="time of the rounds of one run (default %(default)s)")
    parser.add_argument("--gateways", default="nginx,haproxy,envoy,kong", help="packs, or all that are installed: all "
                        "(default %(default)s)")
    parser.add_argument("--twin", help="one of the gateways, to be measured twice: shows false alarms")
    parser.add_argument("--connections", type=numbers, default="1,32,256", help="default %(default)s")
    parser.add_argument("--loops", default="open,closed", help="default %(default)s")
    parser.add_argument("--rate", type=int, default=1000, help="rate of open loops, requests per second (default %(default)s)")
    parser.add_argument("--trial", help="duration of a trial, such as 1s (default: hoptax chooses)")
    arguments = parser.parse_args()
    results = record("Where variance comes from, and what intervals cover", arguments)
    if arguments.only_report:
        return report(arguments.only_report, results)
    names = installed(arguments.gateways, results.say)
    if not names:
        raise SystemExit("variance: none of the gateways is installed. Run scripts/setup.sh demo")
    with tempfile.TemporaryDirectory(prefix="hoptax-variance-") as scratch:
        keep = arguments.keep or Path(scratch)
        keep.mkdir(parents=True, exist_ok=True)
        measured_runs(arguments, names, results, keep)
        report(keep, results)


if __name__ == "__main__":
    main()
