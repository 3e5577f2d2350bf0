#!/usr/bin/env python3
"""Streams of tokens: `hoptax load --llm` and guidellm on one `hoptax upstream --llm`, one CPU each; thousands through nginx.

There are two parts (`--parts`). In `through`, one hoptax keeps `--through` streams with a token per second open through nginx.
Every token must be counted by the upstream and by the client. The figures are the CPU times per token of the three programs
over the whole turn: nginx and the upstream share a CPU. The rest is about `peers`, the CPU time of the clients per token.

At each number of streams, both tools request the same number of streams in each round, in random order. The upstream
counts the tokens. The figures cover the steady part of a turn: while all connections are open and tokens flow, according
to the upstream's ledger and the CPU clocks of the client's processes, both read every 0.2 s. So the start of Python is left
out. Each figure is the median over the rounds, with the lowest and the highest value.

The tools' own figures are medians over streams. Both take the first event with content for the first token. guidellm's
inter-token latency is hoptax's time per token: (last - first) / (tokens - 1). Its time per output token is (last - send) /
tokens, which is computed here from hoptax's medians. Where a tool's CPU is full, its figures are those of its own queue.
"""

import json
import os
import tempfile
import time
from pathlib import Path

from common import Disturbance, Failed, Record, client, cpu_clock, family_clock, options, spread, steady, summary, table
from messages import SECOND, load, spec
from peers import HOPTAX_TOOL, Hoptax, Tool, present, understood
from runs import buckets, quantile
from servers import ask, proxy, upstream

# The model: time until the first token and between tokens, ms, and tokens of a stream.
FIRST, GAP, TOKENS = 50, 20, 100
MODEL = "gpt-4o-mini"
# Seconds between two samples. One looks at all processes of the machine.
EVERY = 0.2


class Streams(Hoptax):
    """`hoptax load` with streams of tokens."""

    def talk(self, address, streams, requests):
        # Without `--cpus`, hoptax sleeps between tokens. With it, hoptax polls, and CPU time says nothing.
        return [self.path, "load", f"http://{address}", "--llm", "openai", "-c", streams, "-n", requests, "--timeout", "60s",
                "--fail-above", "100%", "--json"], {}

    def figures(self, ran):
        found = json.loads(ran.text)
        at = lambda times: found["message"][times]["p50"]["estimate"] / 1e3
        first, token = at("first_message"), at("token_time")
        return {"ok": found["counts"]["ok"], "claimed": found["messages"]["received"], "first_ms": first, "inter_ms": token,
                "output_ms": (first + token * (TOKENS - 1)) / TOKENS}


class Guidellm(Tool):
    name, program = "guidellm", "guidellm"
    get = "python3 -m venv DIR && DIR/bin/pip install guidellm==0.8.1, and add --peer DIR/bin/guidellm"

    def __init__(self, path=None):
        self.own_path = path

    @property
    def path(self):
        return self.own_path or super().path

    def talk(self, address, streams, requests):
        self.folder = tempfile.TemporaryDirectory(prefix="hoptax-bench-")
        self.result = Path(self.folder.name) / "result.json"
        # guidellm ends when its prompts do. It needs no tokenizer, because the upstream reports the number of tokens.
        prompts = {"kind": "in_memory_item_list", "data": ["Hello"] * requests, "column_name": "prompt"}
        backend = f"kind=openai_http,target=http://{address},model={MODEL},http2=false,validate_backend=false"
        command = [self.path, "run", "--backend", backend, "--profile", f"kind=concurrent,streams={streams}",
                   "--constraint", f"kind=max_requests,count={requests}", "--data", json.dumps(prompts),
                   "--output", f"kind=json,path={self.result}", "--disable-console"]
        return command, {"HF_HUB_OFFLINE": "1", "GUIDELLM__MAX_WORKER_PROCESSES": "1"}

    def figures(self, ran):
        [found] = json.loads(self.result.read_text())["benchmarks"]
        of = lambda metric, figure: found["metrics"][metric]["successful"][figure]
        return {"ok": len(found["requests"]["successful"]), "claimed": of("output_token_count", "total_sum"),
                "first_ms": of("time_to_first_token_ms", "median"), "inter_ms": of("inter_token_latency_ms", "median"),
                "output_ms": of("time_per_output_token_ms", "median")}


def counted(server):
    """(tokens sent, connections that are open) of the upstream."""
    instance = json.loads(ask(server.control, "/ledger"))["instances"][0]
    return (instance.get("llm") or {}).get("tokens", 0), instance["open"]


def turn(tool, server, streams, requests):
    before = counted(server)[0]

    def watch(pid):
        return time.monotonic(), family_clock(pid), *counted(server)

    disturbance = Disturbance()
    ran = client(*tool.talk(server.address, streams, requests), limit=600, watch=watch, every=EVERY)
    disturbed, figures = disturbance.shares(ran.cpu), understood(tool.figures, ran)
    sent = counted(server)[0] - before
    most = max((sample[3] for sample in ran.samples), default=0)
    part = steady(ran.samples, min(streams, 0.9 * most), 1)
    if part is None or figures["ok"] < requests:
        raise Failed(f"{figures['ok']:,} of {requests:,} streams succeeded, with at most {most:,} connections")
    cpu, tokens, lasted = part
    return {"cpu_us": cpu / tokens * 1e6, "rate": tokens / lasted, "busy": 100 * cpu / lasted, "steady_s": lasted, "sent": sent,
            "whole_cpu_s": ran.cpu, **figures, **disturbed}


def point(record, tools, server, streams, arguments):
    each = max(2, round(arguments.seconds * 1000 / (FIRST + GAP * (TOKENS - 1))))
    rounds = []
    for _ in range(arguments.rounds):
        turns = {}
        for tool in record.shuffled(tools):
            try:
                turns[tool.name] = turn(tool, server, streams, each * streams)
            except Failed as failure:
                record.say(f"  {tool.name} failed: {failure}")
        rounds.append(turns)
    rows = [["tool", "CPU µs/token", "tokens/s", "CPU %", "first token ms", "inter-token ms", "per output token ms",
             "reported ÷ counted", "steal %"]]
    for tool in tools:
        turns = [turns[tool.name] for turns in rounds if tool.name in turns]
        if turns:
            of = lambda figure, digits=1: spread([turn[figure] for turn in turns], digits)
            rows.append([tool.name, of("cpu_us", 2), of("rate", 0), of("busy", 0), of("first_ms", 2), of("inter_ms", 3),
                         of("output_ms", 3), spread([turn["claimed"] / turn["sent"] for turn in turns], 3), of("steal")])
    ours, peer = HOPTAX_TOOL.name, Guidellm.name
    ratios = [turns[peer]["cpu_us"] / turns[ours]["cpu_us"] for turns in rounds if ours in turns and peer in turns]
    record.say(f"\n{streams:,} streams, {each} each of {TOKENS} tokens, one every {GAP} ms, {arguments.rounds} rounds\n{table(rows)}")
    if ratios:
        record.say(f"CPU time of {peer} per token ÷ that of {ours}: {spread(ratios, 1)}")
    record.add({"streams": streams, "each": each, "rounds": rounds, "ratios": summary(ratios)})


def through(record, arguments):
    """Streams through nginx: lost tokens, and CPU time of the upstream, nginx and the client."""
    streams, tokens, turns = arguments.through, 20, []
    # All streams are open before the first token.
    model = ("--llm", "openai", "--llm-first-token", "15s", "--llm-gap", "1s", "--llm-tokens", str(tokens))
    for _ in range(arguments.rounds):
        with upstream(*model) as server, proxy(server.address) as (address, nginx_pid):
            disturbance, started = Disturbance(), {"upstream": cpu_clock(server.pid), "nginx": family_clock(nginx_pid)}
            described = spec(address, streams, tokens, SECOND, 120, requests=streams, model=MODEL)
            found, ran = load(described, watch=lambda _: counted(server)[1], every=1)
            clocks = {"upstream": cpu_clock(server.pid), "nginx": family_clock(nginx_pid)}
            sent, messages = counted(server)[0], found["messages"]
        ages = buckets(messages["histograms"]["age"])
        turns.append({"sent": sent, "counts": messages["counts"], "tokens": messages["tokens"]["counts"], "most_open": max(ran.samples),
                      "age_us": {share: quantile(ages, share) for share in (0.5, 0.99)},
                      "cpu_us": {name: (clocks[name] - started[name]) / sent * 1e6 for name in clocks} | {"client": ran.cpu / sent * 1e6},
                      **disturbance.shares(ran.cpu)})
    of = lambda figure, digits=1: spread([figure(turn) for turn in turns], digits)
    lost = sum(turn["sent"] - turn["counts"]["received"] for turn in turns)
    record.say(f"\n{streams:,} streams of {tokens} tokens through nginx, {arguments.rounds} times: {lost} of "
               f"{sum(turn['sent'] for turn in turns):,} tokens lost, {sum(turn['tokens']['ended'] for turn in turns):,} streams ended; at most "
               f"{of(lambda turn: turn['most_open'], 0)} connections of the upstream open; age p50 "
               f"{of(lambda turn: turn['age_us'][0.5] / 1e3)} ms, p99 {of(lambda turn: turn['age_us'][0.99] / 1e3)} ms; CPU µs/token: "
               + ", ".join(f"{name} {of(lambda turn: turn['cpu_us'][name])}" for name in ("client", "nginx", "upstream"))
               + f"; nginx ÷ upstream {of(lambda turn: turn['cpu_us']['nginx'] / turn['cpu_us']['upstream'], 2)}; steal "
               f"{of(lambda turn: turn['steal'])} %")
    record.add({"through": streams, "turns": turns})


def main():
    parser = options(__doc__, rounds=5, seconds=8)
    parser.add_argument("--streams", default="1,64,512", help="numbers of streams, separated by commas (default %(default)s)")
    parser.add_argument("--parts", default="peers,through", help="parts, separated by commas (default %(default)s)")
    parser.add_argument("--through", type=int, default=10_000, help="streams through nginx (default %(default)s)")
    parser.add_argument("--peer", type=os.path.abspath, metavar="PATH", help="guidellm (default: on PATH)")
    arguments = parser.parse_args()
    peer = Guidellm(arguments.peer)
    record = Record("llm", "Streams of tokens: hoptax load and guidellm on one hoptax upstream, one CPU each; through nginx",
                    arguments, [peer] if peer.path else [])
    if "through" in arguments.parts:
        through(record, arguments)
    if "peers" not in arguments.parts:
        return
    tools = present((Streams(HOPTAX_TOOL.name), peer), arguments.tools, record.say)
    model = ("--llm", "openai", "--llm-first-token", f"{FIRST}ms", "--llm-gap", f"{GAP}ms", "--llm-tokens", str(TOKENS))
    with upstream(*model) as server:
        for streams in map(int, arguments.streams.split(",")):
            point(record, tools, server, streams, arguments)


if __name__ == "__main__":
    main()
