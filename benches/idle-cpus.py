#!/usr/bin/env python3
"""Shows how idle CPUs and the placement of roles change a median, with hops that add known delays.

Starts an upstream and hops without a delay, with 20 us and with 50 us (`spin`), and loads each in turn from a generator.
Each way to place the roles on two CPUs is measured with idle CPUs that sleep, and with idle CPUs that poll. To make idle CPUs
poll, this process holds /dev/cpu_dma_latency at 0 (needs root), or a process with the policy SCHED_IDLE spins on each CPU.
The order of the ways is random in each run.
"""

import argparse
import os
import re
import struct
import subprocess
import time
from pathlib import Path
from statistics import median, quantiles, stdev

from common import CPUS, HOPTAX, Disturbance, table
from runs import progress, record
from servers import free_port

DELAYS = (0, 20, 50)
# The CPUs of upstream, hop and generator (None: not pinned), and how idle CPUs are kept awake (None: they sleep).
WAYS = {
    "not pinned": (None, None, None, None),
    "not pinned, poll": (None, None, None, "latency"),
    "not pinned, idle-priority spinners": (None, None, None, "spinners"),
    "all on one": (0, 0, 0, None),
    "all on one, poll": (0, 0, 0, "latency"),
    "hop on its own": (0, 1, 0, None),
    "hop on its own, poll": (0, 1, 0, "latency"),
    "generator on its own": (0, 0, 1, None),
}


def pinned(cpu, command):
    return command if cpu is None else ["taskset", "-c", str(CPUS[cpu]), *map(str, command)]


def p50(url, cpu, arguments):
    """Median service time, us."""
    command = [HOPTAX, "load", url, "--rate", f"{arguments.rate}/s", "--connections", arguments.connections, "--warmup",
               "100ms", "--duration", "300ms", "--json"]
    ran = subprocess.run(pinned(cpu, list(map(str, command))), capture_output=True, text=True, timeout=60, check=True)
    return float(re.search(r'"service_time":.*?"p50":\s*\{\s*"estimate":\s*([\d.]+)', ran.stdout, re.S).group(1))


def awake(how, processes):
    """Keeps idle CPUs awake until the returned file is closed and the processes are stopped."""
    if how == "latency":
        file = open("/dev/cpu_dma_latency", "wb", buffering=0)
        file.write(struct.pack("i", 0))
        return file
    if how == "spinners":
        for cpu in CPUS:
            processes.append(subprocess.Popen(["timeout", "60", "chrt", "-i", "0", "taskset", "-c", str(cpu), "python3",
                                               "-c", "while True: pass"]))
    return None


def measured(way, arguments):
    """Medians of direct and of each hop, and the share of steal."""
    upstream_cpu, hop_cpu, generator_cpu, how = WAYS[way]
    ports = [free_port() for _ in range(1 + len(DELAYS))]
    start = lambda cpu, *command: subprocess.Popen(
        pinned(cpu, ["timeout", "60", str(HOPTAX), *map(str, command)]), stdout=subprocess.DEVNULL)
    processes = [start(upstream_cpu, "upstream", "--port", ports[0], "--address", "127.0.0.1")]
    for port, delay in zip(ports[1:], DELAYS):
        extra = ["--delay-in", f"{delay}us", "--delay-how", "spin"] if delay else []
        processes.append(start(hop_cpu, "hop", "l7", "--upstream", f"127.0.0.1:{ports[0]}", "--listen",
                               f"127.0.0.1:{port}", *extra))
    held = awake(how, processes)
    try:
        time.sleep(0.5)
        disturbance = Disturbance()
        rounds = [[p50(f"http://127.0.0.1:{port}/", generator_cpu, arguments) for port in ports]
                  for _ in range(arguments.rounds)]
        return rounds, disturbance.shares(0)["steal"]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        if held:
            held.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--runs", type=int, default=4, help="times that everything is started (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="rounds in each run (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="(default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the order (default: the current time)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also save the results to FILE and FILE with .json")
    arguments = parser.parse_args()
    if len(CPUS) < 2:
        raise SystemExit("idle-cpus: needs two CPUs")
    results = record("Idle CPUs and the placement of roles", arguments)
    rounds, steal = {way: [] for way in WAYS}, {way: [] for way in WAYS}
    for run in range(1, arguments.runs + 1):
        for way in results.shuffled(list(WAYS)):
            if WAYS[way][3] == "latency" and not os.access("/dev/cpu_dma_latency", os.W_OK):
                continue
            progress(f"run {run}: {way}")
            found, share = measured(way, arguments)
            rounds[way] += found
            steal[way].append(share)
    rows = [["", "steal", "direct, us", "hop, us", *[f"+{delay} us is found as" for delay in DELAYS[1:]]]]
    for way, found in rounds.items():
        if not found:
            continue
        middle = lambda values: "{1:.0f} ({0:.0f}–{2:.0f})".format(*quantiles(values, n=4))
        cells = [middle([one[column] for one in found]) for column in (0, 1)]
        for column in range(2, 1 + len(DELAYS)):
            errors = [one[column] - one[1] for one in found]
            cells.append(f"{median(errors):.0f}, scatter {stdev(errors):.0f}")
        rows.append([way, f"{sum(steal[way]) / len(steal[way]):.1f} %", *cells])
    results.say("medians with quartiles; a delay is the median of its differences from the hop without one\n")
    results.say(table(rows))


if __name__ == "__main__":
    main()
