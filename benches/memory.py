#!/usr/bin/env python3
"""Resident memory of `hoptax load` and its peers at 1, 1,000 and 15,000 connections, and of three hoptax processes with 45,000.

Each tool opens the connections in a closed loop to an upstream that takes 2 s per response. So nearly all connections
are idle. VmRSS and VmHWM are read from /proc every 50 ms. The benchmark reports three figures:

- `steady` is the median VmRSS while all connections are open and each connection has sent a request.
- `peak` is the last VmHWM. It includes the work that the tool does at its end.
- The slope is the memory per additional idle connection. It is the increase of `steady` from 1,000 connections,
  divided by the number of additional connections. If there is no run with 1,000 connections, the increase from 1
  connection is used.

The kernel's memory for sockets is not included.

Memory varies little between turns, so three rounds suffice. The memory that a tool needs is extrapolated from its runs
with fewer connections. If the tool would need more than half of the available memory, it is skipped. For example, k6
needs a JavaScript virtual machine for each connection.

The 45,000 connections are opened by three processes with 15,000 connections each. Each process has its own source
address, if hoptax supports this. Each process also has its own upstream process, because a process is limited to 20,000
descriptors. With `--streams`, all connections use HTTP/2.
"""

import contextlib
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from common import CLIENT_CPU, Disturbance, Failed, Record, client, options, pinned, spread, stop, summary, table
from peers import CLOSED, MULTIPLEXED, Fortio, Hoptax, present
from servers import upstream

CONNECTIONS = (1, 1_000, 15_000)
DELAY_S = 2


def memory(pid):
    """(VmRSS, VmHWM) of a running process, KiB."""
    found = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()))
    if not found:
        raise ProcessLookupError(pid)
    return int(found["VmRSS"]), int(found["VmHWM"])


def available():
    """Available memory, KiB."""
    return int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text()).group(1))


def closed(tool, url, connections, streams, seconds):
    """The usual command of a tool, with settings that suit the tool better in this benchmark."""
    if streams:
        return tool.multiplexed(url, connections, streams, seconds)
    command, environment = tool.closed(url, connections, seconds)
    if isinstance(tool, Fortio):
        # By default, fortio has a buffer of 128 KiB per connection. Responses have only 1 KiB, so a smaller buffer is
        # enough.
        command[2:2] = ["-httpbufferkb", 2, "-timeout", "30s"]
    return command, environment


def turn(tool, connections, streams, seconds):
    """Measures one turn of a tool, with its own upstream."""
    with upstream("--delay", f"{DELAY_S}s") as server:
        before = server.count()
        command, environment = closed(tool, server.url, connections, streams, seconds)

        def watch(pid):
            resident, peak = memory(pid)
            requests, _, opened = server.count()
            return resident, peak, requests - before[0], opened

        disturbance = Disturbance()
        ran = client(command, environment, limit=60 + 3 * seconds, watch=watch)
        disturbed = disturbance.shares(ran.cpu)
        accepted = server.count()[1] - before[1]
    # Tolerate a few missing connections: hey keeps closing connections beyond 500 and opening new ones.
    connected = [sample for sample in ran.samples if sample[3] >= 0.99 * connections and sample[2] >= connections]
    most, asked = (max((sample[field] for sample in ran.samples), default=0) for field in (3, 2))
    if not connected:
        raise Failed(f"held at most {most:,} connections and sent at most {asked:,} requests")
    return {"steady_kib": statistics.median(sample[0] for sample in connected),
            "peak_kib": ran.samples[-1][1], "accepted": accepted, **disturbed}


def predicted(found, name, connections):
    """Extrapolated memory of a tool, KiB. 0 if there are fewer than two earlier results."""
    known = sorted((count, statistics.median(turn["steady_kib"] for turn in turns))
                   for (other, count), turns in found.items() if other == name and turns)
    if len(known) < 2:
        return 0
    (few, less), (many, more) = known[-2:]
    return more + (more - less) / (many - few) * (connections - many)


def point(record, tools, arguments, connections, found):
    # Some tools need a long time to connect.
    seconds, begun = arguments.seconds + (6 if connections >= 10_000 else 0), time.monotonic()
    failures = {}
    for tool in tools:
        need = predicted(found, tool.name, connections)
        if need > available() / 2:
            failures[tool.name] = [f"skipped: would need {need / 1024:,.0f} MiB"]
    skipped = set(failures)
    for _ in range(arguments.rounds):
        for tool in record.shuffled(tools):
            # One failure can be noise. A tool that has failed twice is skipped.
            if tool.name in skipped or len(failures.get(tool.name, ())) >= 2:
                continue
            try:
                found.setdefault((tool.name, connections), []).append(turn(tool, connections, arguments.streams, seconds))
            except Failed as failure:
                failures.setdefault(tool.name, []).append(str(failure))
    rows = [["tool", "steady MiB", "peak MiB", "KiB per additional connection", "remarks"]]
    slopes = {}
    for tool in tools:
        turns = found.get((tool.name, connections), [])
        base = next((count for count in (1_000, 1) if count < connections and found.get((tool.name, count))), None)
        if turns and base:
            less = statistics.median(turn["steady_kib"] for turn in found[tool.name, base])
            slopes[tool.name] = [(turn["steady_kib"] - less) / (connections - base) for turn in turns]
        mib = lambda figure: spread([turn[figure] / 1024 for turn in turns], 1)
        accepted = statistics.median(turn["accepted"] for turn in turns) if turns else 0
        rows.append([tool.name, mib("steady_kib"), mib("peak_kib"), spread(slopes.get(tool.name), 2), "; ".join(filter(None, [
            f"opened {accepted:,.0f} connections" if accepted > 1.5 * connections + 5 else "",
            f"failed {len(failures[tool.name])} times: {failures[tool.name][0]}" if tool.name in failures else ""]))])
    record.say(f"\n{connections:,} connections, {arguments.rounds} rounds of {seconds} s ({time.monotonic() - begun:.0f} s)\n"
               f"{table(rows)}")
    record.add({"what": "tools", "connections": connections, "streams": arguments.streams, "failures": failures,
                "slope_kib": {name: summary(values) for name, values in slopes.items()},
                "turns": {tool.name: found.get((tool.name, connections), []) for tool in tools}})


def together(tool, processes, each, seconds):
    """Runs several processes of hoptax at once. Returns memory, connections and failed requests of each process."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(upstream("--delay", f"{5 * DELAY_S}s")) for _ in range(processes)]
        generators, outputs = [], []
        for index, server in enumerate(servers):
            command, environment = tool.closed(server.url, each, seconds)
            if "--source" in tool.help:
                command += ["--source", f"127.0.0.{2 + index}"]
            # A response takes as long as the default timeout, so the timeout must be longer here.
            command += ["--timeout", f"{15 * DELAY_S}s"]
            outputs.append(stack.enter_context(tempfile.TemporaryFile("w+")))
            generators.append(subprocess.Popen([str(part) for part in command], preexec_fn=pinned(CLIENT_CPU),
                                               stdout=outputs[-1], stderr=subprocess.STDOUT,
                                               env={**os.environ, **environment}))
            stack.callback(stop, generators[-1])
        samples, deadline = [], time.monotonic() + 90 + 3 * seconds
        while any(generator.poll() is None for generator in generators):
            if time.monotonic() > deadline:
                raise Failed("did not end in time")
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                samples.append(([memory(generator.pid) for generator in generators],
                                sum(server.count()[2] for server in servers)))
            time.sleep(0.1)
        for output, generator in zip(outputs, generators):
            output.seek(0)
            if generator.returncode:
                raise Failed(f"exited with {generator.returncode}: {output.read().strip()[-200:]}")
        said = [json.load(output) for output in outputs]
    connected = [of for of, opened in samples if opened >= processes * each]
    if not connected:
        raise Failed(f"held at most {max(opened for _, opened in samples):,} of {processes * each:,} connections")
    return {"steady_kib": [statistics.median(of[index][0] for of in connected) for index in range(processes)],
            "peak_kib": [of[1] for of in samples[-1][0]],
            "established": [case["connections"]["established"] for case in said],
            "failed": [case["counts"]["scheduled"] - case["counts"]["completed"] for case in said],
            "sources": "--source" in tool.help}


def many(record, arguments, tool, processes, each):
    seconds, begun, turns, failures = 10 * DELAY_S + 4, time.monotonic(), [], []
    for _ in range(arguments.many_rounds):
        try:
            turns.append(together(tool, processes, each, seconds))
        except Failed as failure:
            failures.append(str(failure))
    if turns:
        sums = lambda figure: spread([sum(turn[figure]) / 1024 for turn in turns], 1)
        record.say(f"\n{processes} × {each:,} connections, {tool.name}, {len(turns)} times ({time.monotonic() - begun:.0f} s): "
                   f"steady {sums('steady_kib')} MiB, peak {sums('peak_kib')} MiB in total; failed requests "
                   f"{sum(sum(turn['failed']) for turn in turns)}"
                   + ("" if turns[0]["sources"] else "; from one source address, because this hoptax has no --source"))
    for failure in failures:
        record.say(f"\n{processes} × {each:,} connections failed: {failure}")
    record.add({"what": "many", "tool": tool.name, "processes": processes, "each": each, "failures": failures, "turns": turns})


def main():
    parser = options(__doc__, rounds=3, seconds=2 * DELAY_S + 1)
    parser.add_argument("--connections", default=",".join(map(str, CONNECTIONS)),
                        help="numbers in ascending order, separated by commas, or none")
    parser.add_argument("--many", default="3x15000", help="processes and connections of each, or none (default %(default)s)")
    parser.add_argument("--many-rounds", type=int, default=3, help="rounds of --many (default %(default)s)")
    parser.add_argument("--streams", type=int, help="measure HTTP/2 with this many streams per connection")
    arguments = parser.parse_args()
    ours, peers = Hoptax(streams=arguments.streams), MULTIPLEXED if arguments.streams else CLOSED
    record = Record("memory", "Resident memory by connections: hoptax load and its peers", arguments,
                    [tool for tool in peers if tool.path])
    tools = present((ours, *peers), arguments.tools, record.say)
    found = {}
    if arguments.connections != "none":
        for connections in map(int, arguments.connections.split(",")):
            point(record, tools, arguments, connections, found)
    if arguments.many != "none":
        processes, each = map(int, arguments.many.split("x"))
        many(record, arguments, ours, processes, each)


if __name__ == "__main__":
    main()
