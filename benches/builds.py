#!/usr/bin/env python3
"""Compares the CPU time of several builds of hoptax, for example of the static binary (musl, its allocator) and glibc.

    cargo build --release --locked && make packages
    benches/builds.py --build glibc=target/release/hoptax --build musl=target/x86_64-unknown-linux-musl/release/hoptax

In each round every build has one turn of each kind of work, in random order. Ratios are to the first build, within the
round. Some kinds of work allocate very little, and others very much: requests in a steady state, new connections, the
upstream, a report, the list of gateways, a start.
"""

import importlib
import os
from pathlib import Path

from common import ROOT, Failed, Record, client, cpu_clock, options, spread, summary, table
from peers import Hoptax, Wrk
from servers import nginx, upstream

client_cpu = importlib.import_module("client-cpu")
KEPT = ROOT / "records/runs"


class NewConnections(Hoptax):
    """Opens a new connection for every ten requests. With one for each, the ports would run out."""

    def closed(self, url, connections, seconds):
        command, environment = super().closed(url, connections, seconds)
        return [*command, "--requests-per-connection", 10], environment


class Build:
    def __init__(self, text):
        self.name, _, path = text.partition("=")
        self.path = Path(path).resolve()
        if not os.access(self.path, os.X_OK):
            raise SystemExit(f"{text!r} is not NAME=PATH of a program")


def load(scheme, connections, tool=Hoptax):
    """Work: requests to nginx. The figure is CPU time per request, µs."""
    def measure(build, server, seconds):
        return client_cpu.turn(tool(build.name, build.path), server, scheme, connections, seconds)["cpu_us"]
    return measure


def serve(build, _, seconds):
    """Work: requests to `hoptax upstream`, from wrk. The figure is CPU time of the upstream per request, µs."""
    wrk = Wrk()
    if not wrk.path:
        raise Failed("wrk is not installed")
    with upstream("--body-size", "1KiB", program=build.path) as server:
        requests, cpu = server.count()[0], cpu_clock(server.pid)
        client(*wrk.closed(server.url, 100, seconds))
        return per_request(cpu_clock(server.pid) - cpu, server.count()[0] - requests)


def per_request(cpu, requests):
    """CPU time per request, µs, from CPU seconds."""
    if requests <= 0:
        raise Failed("the server received no request")
    return cpu / requests * 1e6


def command(*arguments, times=5):
    """Work: a command. The figure is the CPU time of the shortest of several calls, µs."""
    def measure(build, _server, _seconds):
        # The first call may ask gateways for their versions. Later calls know them.
        calls = [client([build.path, *arguments]) for _ in range(times)]
        return min(call.cpu for call in calls) * 1e6
    return measure


def works(run):
    return {
        "requests, 1 KiB, 100 connections": load("http", 100),
        "requests over TLS, 1 KiB, 100 connections": load("https", 100),
        "ten requests per connection, 1 KiB": load("http", 10, NewConnections),
        "ten requests per TLS connection, 1 KiB": load("https", 10, NewConnections),
        "hoptax upstream": serve,
        "hoptax report --format json": command("report", run, "--format", "json"),
        "hoptax report --format html": command("report", run, "--format", "html"),
        "hoptax gateways --json": command("gateways", "--json"),
        "hoptax --version": command("--version", times=20),
    }


def largest_run():
    """The kept run with the most trials."""
    return max((path for path in KEPT.iterdir() if (path / "trials.jsonl").is_file()),
               key=lambda path: (path / "trials.jsonl").stat().st_size)


def ratios(rounds, build, first):
    """Ratios to the first build, for each round in which both succeeded."""
    return [turns[build] / turns[first] for turns in rounds if build in turns and first in turns]


def main():
    parser = options(__doc__, rounds=11, seconds=1)
    parser.add_argument("--build", action="append", type=Build, required=True, metavar="NAME=PATH", help="a build; can be repeated")
    parser.add_argument("--run", type=Path, default=largest_run(), help="run directory to report on (default: the largest kept run)")
    arguments = parser.parse_args()
    builds = arguments.build
    record = Record("builds", "CPU time of builds of hoptax", arguments, programs={build.name: build.path for build in builds})
    record.say("\n".join(f"{build.name}: {build.path.stat().st_size / 1e6:.2f} MB" for build in builds))
    rows = [["work", "CPU µs", *(f"{build.name} ÷ {builds[0].name}" for build in builds[1:]), "remarks"]]
    with nginx(1024) as server:
        for name, work in works(arguments.run.resolve()).items():
            rounds, failures = [], []
            for _ in range(arguments.rounds):
                turns = {}
                for build in record.shuffled(builds):
                    try:
                        turns[build.name] = work(build, server, arguments.seconds)
                    except Failed as failure:
                        failures.append(f"{build.name}: {failure}")
                rounds.append(turns)
            firsts = [turns[builds[0].name] for turns in rounds if builds[0].name in turns]
            rows.append([name, spread(firsts), *(spread(ratios(rounds, build.name, builds[0].name), 3) for build in builds[1:]),
                         "; ".join(dict.fromkeys(failures))])
            record.add({"work": name, "rounds": rounds, "failures": failures,
                        "ratios": {build.name: summary(ratios(rounds, build.name, builds[0].name)) for build in builds[1:]}})
            print(f"  {name}: done", flush=True)
    record.say(table(rows))


if __name__ == "__main__":
    main()
