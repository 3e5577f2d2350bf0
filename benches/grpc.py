#!/usr/bin/env python3
"""Unary gRPC calls: `hoptax load` and ghz, in turns, on one `hoptax upstream`. Client and server have one CPU each.

First a closed loop, at each number of connections and of concurrent calls: calls per client CPU second, which the server
counts. Then an open loop at each rate: the share of the rate that was reached, the CPU time of the client, and the
percentiles that it reports. ghz begins calls at ticks (`--rps` with `--async`) and measures each from its begin; hoptax
measures from when the call was due. Each figure is the median over the rounds, with the lowest and the highest value.
"""

import json
import time
from pathlib import Path

from common import Disturbance, Failed, Record, client, options, spread, summary, table
from peers import HOPTAX_TOOL, Hoptax, Tool, present, understood
from servers import upstream

METHOD = "echo.Echo/Say"
PROTO = Path(__file__).with_name("echo.proto")
# Bytes of the text in a message.
SIZE = 64
# A Text: the key of field 1, the length, and the bytes. Both are characters that an option can have.
ANSWER = "\n" + chr(SIZE) + "x" * SIZE


class Calls(Hoptax):
    """`hoptax load` with gRPC calls."""

    def command(self, url, connections, calls, seconds):
        return [self.path, "load", url, "--grpc", METHOD, "-c", connections, "--streams", calls // connections,
                "-d", f"{seconds}s", "--body-size", f"{SIZE + 2}B", "--json"]

    def closed(self, url, connections, calls, seconds):
        return self.command(url, connections, calls, seconds), {}

    def open(self, url, rate, connections, calls, seconds):
        # Without `--cpus`, hoptax sleeps between calls. With it, hoptax polls, and CPU time says nothing.
        return [*self.command(url, connections, calls, seconds), "-r", f"{rate}/s"], {}

    def failed(self, ran):
        counts = json.loads(ran.text)["counts"]
        return counts["completed"] - counts["ok"]


class Ghz(Tool):
    name, program, get = "ghz", "ghz", "go install github.com/bojand/ghz/cmd/ghz@v0.121.0"

    def command(self, url, connections, calls, seconds):
        # The calls that are in progress at the end are cancelled unless ghz waits for them.
        return [self.path, "--insecure", "--proto", PROTO, "--call", METHOD, "--data", json.dumps({"text": "eHh4" * (SIZE // 3)}),
                "--connections", connections, "--concurrency", calls, "--duration", f"{seconds}s", "--duration-stop", "wait",
                "--cpus", 1, "--format", "json", url.removeprefix("http://").rstrip("/")]

    def closed(self, url, connections, calls, seconds):
        return self.command(url, connections, calls, seconds), {"GOMAXPROCS": "1"}

    def open(self, url, rate, connections, calls, seconds):
        command, environment = self.closed(url, connections, calls, seconds)
        return [*command[:-1], "--rps", rate, "--async", command[-1]], environment

    def claimed(self, ran):
        return json.loads(ran.text)["count"]

    def mean(self, ran):
        return json.loads(ran.text)["average"] / 1e3

    def failed(self, ran):
        counts = json.loads(ran.text)["statusCodeDistribution"]
        return sum(number for status, number in counts.items() if status != "OK")

    def times(self, ran):
        found = json.loads(ran.text)
        return {f"p{at['percentage']}": at["latency"] / 1e3 for at in found["latencyDistribution"]}


def turn(tool, server, command, environment, seconds):
    """One turn: calls that the server answered, and the client's CPU time over its whole life."""
    disturbance, before = Disturbance(), server.count()[0]
    ran = client(command, environment, limit=30 + 5 * seconds)
    disturbed = disturbance.shares(ran.cpu)
    deadline = time.monotonic() + 5
    while server.count()[2] > 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    calls = server.count()[0] - before
    if calls == 0:
        raise Failed("made no calls")
    return {"calls": calls, "cpu_s": ran.cpu, "cpu_us": ran.cpu / calls * 1e6, "per_cpu_second": calls / ran.cpu,
            "claimed": understood(tool.claimed, ran), "failed": understood(tool.failed, ran), "mean_us": understood(tool.mean, ran),
            "times": understood(tool.times, ran), **disturbed}


def rounds(record, tools, server, seconds, count, command):
    """The turns of each tool in each round: [{name: turn}]. A tool that fails is left out of that round."""
    all_rounds = []
    for _ in range(count):
        turns = {}
        for tool in record.shuffled(tools):
            try:
                turns[tool.name] = turn(tool, server, *command(tool), seconds)
            except Failed as failure:
                record.say(f"  {tool.name} failed: {failure}")
        all_rounds.append(turns)
    return all_rounds


def ratios(all_rounds, figure, over, under):
    """`figure` of the tool `over` divided by that of the tool `under`, for each round with both."""
    return [turns[over][figure] / turns[under][figure] for turns in all_rounds if over in turns and under in turns]


def rows_of(all_rounds, tools, seconds, rate=None):
    first = ["tool", "calls/s", *(["share of the rate %"] if rate else ["calls per client CPU s"]), "CPU µs/call", "CPU s",
             "p50 µs", "p99 µs", "mean µs", "failed", "steal %"]
    rows = [first]
    for tool in tools:
        turns = [turns[tool.name] for turns in all_rounds if tool.name in turns]
        if not turns:
            continue
        of = lambda figure, digits=1: spread([turn[figure] for turn in turns], digits)
        at = lambda name: spread([turn["times"].get(name, float("nan")) for turn in turns], 1)
        main = spread([100 * turn["calls"] / seconds / rate for turn in turns], 1) if rate else of("per_cpu_second", 0)
        rows.append([tool.name, spread([turn["calls"] / seconds for turn in turns], 0), main, of("cpu_us", 2), of("cpu_s", 2),
                     at("p50"), at("p99"), of("mean_us"), str(sum(turn["failed"] for turn in turns)), of("steal")])
    return rows


def main():
    parser = options(__doc__, rounds=7, seconds=3)
    parser.add_argument("--points", default="1x50,10x100",
                        help="numbers of connections and of concurrent calls over all of them (default %(default)s)")
    parser.add_argument("--rates", default="1000,3000", help="calls per second of the open loop, over 10 × 100 (default %(default)s)")
    arguments = parser.parse_args()
    tools = (Calls(HOPTAX_TOOL.name), Ghz())
    record = Record("grpc", "Unary gRPC calls: hoptax load and ghz on one hoptax upstream, one CPU each", arguments,
                    [tool for tool in tools[1:] if tool.path])
    tools = present(tools, arguments.tools, record.say)
    seconds, count = arguments.seconds, arguments.rounds
    with upstream("--body-text", ANSWER) as server:
        for point in filter(None, arguments.points.split(",")):
            connections, calls = map(int, point.split("x"))
            found = rounds(record, tools, server, seconds, count, lambda tool: tool.closed(server.url, connections, calls, seconds))
            over = ratios(found, "per_cpu_second", HOPTAX_TOOL.name, "ghz")
            record.say(f"\nclosed loop, {connections} connections, {calls} calls at a time, {count} rounds of {seconds} s\n"
                       f"{table(rows_of(found, tools, seconds))}")
            if over:
                record.say(f"hoptax over ghz, calls per client CPU second: {spread(over)}")
            record.add({"connections": connections, "calls": calls, "rounds": found, "ratios": summary(over) if over else None})
        for rate in map(int, filter(None, arguments.rates.split(","))):
            found = rounds(record, tools, server, seconds, count, lambda tool: tool.open(server.url, rate, 10, 100, seconds))
            under = ratios(found, "cpu_us", "ghz", HOPTAX_TOOL.name)
            record.say(f"\nopen loop, {rate:,}/s over 10 connections, {count} rounds of {seconds} s\n"
                       f"{table(rows_of(found, tools, seconds, rate))}")
            if under:
                record.say(f"CPU time of ghz per call ÷ that of hoptax: {spread(under)}")
            record.add({"rate": rate, "rounds": found, "ratios": summary(under) if under else None})


if __name__ == "__main__":
    main()
