"""Runs of hoptax: measuring a plan, the first minutes of a run, and its trials with their histograms."""

import argparse
import base64
import contextlib
import json
import os
import shutil
import signal
import struct
import sys
from datetime import datetime
from pathlib import Path

from common import CPUS, HOPTAX, Failed, Record, client

DIRECT = "direct"
# Warm-up before the first trial of each process, ns. It is part of the time that `time` of a plan limits.
FIRST_WARMUP_NS = 2 * 10**9


def options(description, runs):
    """Parser with the options of benchmarks that start runs of hoptax. The caller adds its own options."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--runs", type=int, default=runs, help="repetitions of everything (default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the order of runs (default: the current time)")
    parser.add_argument("--keep", type=Path, metavar="DIR",
                        help="directory for the raw results; results of earlier calls in it count too")
    parser.add_argument("--only-report", type=Path, metavar="DIR",
                        help="measure nothing: read the raw results in this directory")
    parser.add_argument("--out", type=Path, metavar="FILE", help="file for the tables; figures go to a JSON file beside it")
    return parser


def record(title, arguments, tools=()):
    """The results, printed and saved to `--out FILE`."""
    out = arguments.out
    arguments.out = out.parent if out else None
    made = Record(out.stem if out else title, title, arguments, tools)
    # Remove the pinning of this process, because hoptax must choose CPUs itself, as in an ordinary run.
    os.sched_setaffinity(0, CPUS)
    # Handle a kill like Ctrl-C, which removes temporary directories and stops hoptax.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return made


def progress(text):
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def numbers(text):
    """Numbers separated by commas, for argparse."""
    return [float(part) for part in text.split(",") if part]


def hoptax(*arguments, limit=120):
    """Runs hoptax, not pinned, because it chooses CPUs itself. Returns its standard output."""
    # This thread wakes up rarely, so that it does not disturb the measurement. It notices the end of hoptax at once.
    return client([HOPTAX, *arguments], limit=limit, every=1, cpu=None).text


def measure(plan, below, limit):
    """Measures a plan, without the gateways that are not installed. Returns the run directory, below `below`."""
    below.mkdir(parents=True, exist_ok=True)
    path = below / "plan.yaml"
    path.write_text(plan)
    hoptax("run", path, "--out", below, "--accept-void", "--skip-missing", "--no-live", limit=limit)
    return next(found.parent for found in below.glob("*/run.json"))


def reported(directory):
    """The JSON report of a run directory."""
    return json.loads(hoptax("report", directory, "--format", "json"))


def trials(directory):
    """The good trials of a run directory, in the order in which they were measured."""
    lines = (Path(directory) / "trials.jsonl").read_text().splitlines()
    read = []
    for line in lines:
        # If the run was killed, the last line can be incomplete.
        with contextlib.suppress(json.JSONDecodeError):
            read.append(json.loads(line))
    return [trial for trial in read if not trial["failed"] and trial["load_record"]]


def rounds_within(measured, minutes):
    """Number of rounds that a run with `time` set to these minutes would have measured. `measured` are its trials.

    Like hoptax, assumes that the next round takes as long as the average of the rounds so far, and does not begin it if it
    would not end in time.
    """
    ends, rounds = {}, 0
    for trial in measured:
        record = trial["load_record"]
        ends[trial["round"]] = max(ends.get(trial["round"], 0), record["started_ns"] + record["measured_ns"])
    for number in sorted(ends):
        rounds += 1
        elapsed = ends[number] - measured[0]["load_record"]["started_ns"] + FIRST_WARMUP_NS
        if elapsed + elapsed / rounds > minutes * 60e9:
            break
    return rounds


def first_rounds(directory, rounds, into):
    """Writes a run directory `into` with the first rounds of another run."""
    into.mkdir(parents=True)
    shutil.copy(directory / "run.json", into)
    with (directory / "trials.jsonl").open() as every, (into / "trials.jsonl").open("w") as first:
        first.writelines(line for line in every if json.loads(line)["round"] < rounds)
    return into


def buckets(encoded):
    """Buckets of a histogram in HdrHistogram's V2 encoding, without empty ones: [(lowest value, width, count)], ns."""
    data = base64.b64decode(encoded)
    cookie, _, _, digits, lowest = struct.unpack(">IIIIQ", data[:24])
    if cookie != 0x1C849313:
        raise Failed("a histogram is not in HdrHistogram's V2 encoding")
    unit = lowest.bit_length() - 1
    half = (2 * 10**digits - 1).bit_length() - 1
    index, found = 0, []
    for number in varints(data[40:]):
        if number < 0:
            index -= number
            continue
        if number:
            scale = max(0, (index >> half) - 1)
            within = index - (scale << half)
            found.append((within << scale + unit, 1 << scale + unit, number))
        index += 1
    return found


def varints(data):
    """Signed numbers in ZigZag LEB128. A ninth byte has eight bits."""
    number = shift = 0
    for byte in data:
        last = shift == 56 or byte < 0x80
        number |= (byte if shift == 56 else byte & 0x7F) << shift
        shift += 7
        if last:
            yield (number >> 1) ^ -(number & 1)
            number = shift = 0


def quantile(found, share):
    """The value below which a share of a histogram's samples lies, µs. Samples are spread evenly over their bucket."""
    wanted = share * sum(count for *_, count in found)
    for low, width, count in found:
        if wanted <= count:
            return (low + width * wanted / count) / 1e3
        wanted -= count
    return None
