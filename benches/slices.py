#!/usr/bin/env python3
"""Compares ways to measure direct and gateways: one after the other, in short slices of one load, or at the same time.

Starts an upstream, a hop, and a hop with a known delay (`spin`), and measures all three in units of about a second:

- in turn: one generator after the other, each for 300 ms, as `hoptax run` does;
- in slices: three generators that stay connected; each sends for 100 ms while the others pause, four times;
- at once: three generators send during the whole unit, each at a third of the rate;
- at once, full rate: like `at once`, but each generator sends at the whole rate.

A way is better if the differences of medians scatter less in the same time, and if they are the same as in turn.
"""

import argparse
import os
import re
import struct
import subprocess
import time
from pathlib import Path
from statistics import fmean, stdev

import estimates
from common import CPUS, HOPTAX, Disturbance, stop, table
from runs import progress, record
from servers import free_port

DIRECT, HOP, DELAYED = range(3)
TURN_MS, SLICE_MS, SLICES = 300, 100, 4
WARMUP_MS = 50


def rates(way, arguments):
    """Rate and duration of each contender's generator, as arguments of `hoptax load`."""
    if way == "in turn":
        return [["--rate", f"{arguments.rate}/s", "--duration", f"{TURN_MS}ms"]] * 3
    if way == "in slices":
        send, rest = f"{arguments.rate}/s for {SLICE_MS}ms", f"0/s for {SLICE_MS}ms"
        turn = lambda place: [send if slot == place else rest for slot in range(3)]
        return [["--rate", ", ".join(turn(place) * SLICES)] for place in range(3)]
    each = arguments.rate if way == "at once, full rate" else arguments.rate // 3
    return [["--rate", f"{each}/s", "--duration", f"{3 * TURN_MS}ms"]] * 3


WAYS = ("in turn", "in slices", "at once", "at once, full rate")


def started(url, rate, arguments):
    """A generator on the first CPU."""
    command = ["taskset", "-c", CPUS[0], HOPTAX, "load", url, "--connections", arguments.connections, *rate, "--json"]
    if not rate[1].startswith("0/s"):
        command += ["--warmup", f"{WARMUP_MS}ms"]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def p50(generator):
    """Median response time of a generator, us."""
    text, _ = generator.communicate(timeout=60)
    found = re.search(r'"response_time":.*?"p50":\s*\{\s*"estimate":\s*([\d.]+)', text, re.S)
    if not found:
        raise SystemExit(f"slices: a generator ended with {generator.returncode} and no median")
    return float(found.group(1))


def unit(way, urls, arguments, order):
    """Medians of direct, the hop and the delayed hop in one unit, and the time that it took."""
    begun, each = time.monotonic(), rates(way, arguments)
    if way == "in turn":
        medians = [0.0] * 3
        for place in order:
            medians[place] = p50(started(urls[place], each[place], arguments))
    else:
        generators = [started(url, rate, arguments) for url, rate in zip(urls, each)]
        medians = [p50(one) for one in generators]
    return medians, time.monotonic() - begun


def measured(arguments, results):
    """Units of every way, interleaved: {way: [(medians, seconds)]}. Idle CPUs poll meanwhile."""
    ports = [free_port() for _ in range(3)]
    start = lambda cpu, *command: subprocess.Popen(
        ["timeout", "900", "taskset", "-c", str(CPUS[cpu]), str(HOPTAX), *map(str, command)], stdout=subprocess.DEVNULL)
    processes = [start(0, "upstream", "--port", ports[DIRECT], "--address", "127.0.0.1")]
    for place in (HOP, DELAYED):
        delay = ["--delay-in", f"{arguments.delay:g}us", "--delay-how", "spin"] if place == DELAYED else []
        processes.append(start(1, "hop", "l7", "--upstream", f"127.0.0.1:{ports[DIRECT]}", "--listen",
                               f"127.0.0.1:{ports[place]}", *delay))
    found = {way: [] for way in WAYS}
    try:
        time.sleep(0.5)
        urls = [f"http://127.0.0.1:{port}/" for port in ports]
        for _ in range(arguments.units):
            for way in results.shuffled(list(WAYS)):
                found[way].append(unit(way, urls, arguments, results.shuffled([DIRECT, HOP, DELAYED])))
    finally:
        for process in processes:
            stop(process)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--runs", type=int, default=4, help="times that everything is started (default %(default)s)")
    parser.add_argument("--units", type=int, default=10, help="units of each way in a run (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="(default %(default)s)")
    parser.add_argument("--delay", type=float, default=20, help="planted delay, us (default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the order (default: the current time)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also save the results to FILE and FILE with .json")
    arguments = parser.parse_args()
    if len(CPUS) < 2 or not os.access("/dev/cpu_dma_latency", os.W_OK):
        raise SystemExit("slices: needs two CPUs, and a writable /dev/cpu_dma_latency so that idle CPUs poll")
    results = record("In turn, in slices, or at once", arguments)
    found = {way: [] for way in WAYS}
    disturbance = Disturbance()
    with open("/dev/cpu_dma_latency", "wb", buffering=0) as awake:
        awake.write(struct.pack("i", 0))
        for run in range(1, arguments.runs + 1):
            progress(f"run {run}")
            for way, units in measured(arguments, results).items():
                found[way].append(units)
    results.say(f"steal {disturbance.shares(0)['steal']} %; differences of medians, us; ± is what 60 s of this way give\n")
    rows = [["", "seconds of a unit", "direct", "hop adds", f"+{arguments.delay:g} us is found as", "scatter of one", "± in 60 s",
             "scatter between runs"]]
    for way, runs in found.items():
        units = [one for run in runs for one in run]
        seconds = fmean(took for _, took in units)
        of = lambda one, other: [[medians[one] - medians[other] for medians, _ in run] for run in runs]
        added, delayed = of(HOP, DIRECT), of(DELAYED, HOP)
        flat = [value for run in delayed for value in run]
        parts = estimates.components(delayed)
        rows.append([way, f"{seconds:.2f}", f"{fmean(medians[DIRECT] for medians, _ in units):.1f}",
                     f"{fmean(value for run in added for value in run):.1f}", f"{fmean(flat):.1f}", f"{stdev(flat):.1f}",
                     f"{1.96 * parts['trials']**0.5 / (60 / seconds)**0.5:.2f}", f"{parts['runs']**0.5:.1f}"])
        results.add({"way": way, "units": [[{"p50_us": medians, "seconds": took} for medians, took in run] for run in runs]})
    results.say(table(rows))


if __name__ == "__main__":
    main()
