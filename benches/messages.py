#!/usr/bin/env python3
"""Messages: WebSockets of `hoptax load`, k6 and artillery on one `hoptax upstream`, and thousands of open streams of hoptax alone.

The upstream counts the messages. Client and server have one CPU each. There are four parts (`--parts`):

- `closed`: on each connection, the next message leaves when the answer to the last one has arrived. The figure is the number
  of messages per client CPU second.
- `paced`: each connection sends a message every `--every` ms. The figure is the client's CPU time per message.
- `held`: hoptax holds `--connections` WebSockets with one message per second each. Every message must be counted by both
  sides. The memory of a connection is the increase of VmRSS from 100 connections, divided by the number of additional ones.
- `streams`: one worker of hoptax reads `--event-streams` responses with 20 events a second each. The age of an event is at
  least the time for which it waits to be read, so the p99 of ages is an upper bound of the p99 of the read lag. A turn of the
  event loop reads everything that waits, so the longest turn is an upper bound too.

The first two parts count only while all connections are open and messages flow, according to the upstream's ledger and the
client's CPU clock, both read every 50 ms. So the start of a virtual machine is left out. Each figure is the median over the
rounds, with the lowest and the highest value.
"""

import base64
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from common import HOPTAX, Disturbance, Failed, Record, client, cpu_clock, options, spread, steady, summary, table
from memory import memory
from peers import HOPTAX_TOOL, Hoptax, K6, Tool, present, understood
from runs import buckets, quantile
from servers import ask, upstream

PARTS = ("closed", "paced", "held", "streams")
# Bytes of a message.
SIZE = 64
# Value of `messages` in a load spec if the client ends the stream (crates/hoptax-format/src/messages.rs).
ENDLESS = 2**32 - 1
SECOND = 1_000_000_000


class Sockets(Hoptax):
    """`hoptax load` with WebSockets."""

    def talk(self, url, connections, seconds, every_ms):
        # Without `--cpus`, hoptax sleeps between messages. With it, hoptax polls, and CPU time says nothing.
        return [self.path, "load", url, "-c", connections, "-d", f"{seconds}s", "--messages", "endless", "--every", f"{every_ms}ms",
                "--body-size", f"{SIZE}B", "--json"], {}

    def claimed(self, ran):
        return json.loads(ran.text)["messages"]["received"]


class K6Sockets(K6):
    SCRIPT = """
import { WebSocket } from 'k6/websockets';
import { clearInterval, setInterval, setTimeout } from 'k6/timers';
export const options = { systemTags: [], scenarios: { load: { executor: 'per-vu-iterations', vus: %(connections)d, iterations: 1,
    maxDuration: '%(limit)ds' } } };
const text = 'x'.repeat(%(size)d);
export default function () {
    const socket = new WebSocket('%(url)s');
    socket.onopen = () => {
        setTimeout(() => socket.close(), %(seconds)d * 1000);
        %(begin)s;
    };
    socket.onmessage = () => { %(answered)s; };
}
export function handleSummary(data) { return { stdout: JSON.stringify(data.metrics) }; }
"""

    def talk(self, url, connections, seconds, every_ms):
        again = "if (socket.readyState === 1) socket.send(text)"
        begin = f"const timer = setInterval(() => {{ {again}; else clearInterval(timer); }}, {every_ms})"
        self.script = tempfile.NamedTemporaryFile("w", suffix=".js")
        self.script.write(self.SCRIPT % {
            "url": url, "connections": connections, "size": SIZE, "seconds": seconds, "limit": seconds + 30,
            "begin": begin if every_ms else "socket.send(text)", "answered": "" if every_ms else again})
        self.script.flush()
        return [self.path, "run", "-q", "--no-usage-report", "--address", "", self.script.name], {"GOMAXPROCS": "1"}

    def claimed(self, ran):
        return json.loads(ran.text)["ws_msgs_received"]["values"]["count"]


class Artillery(Tool):
    name, program, get = "artillery", "artillery", "npm install --prefix DIR artillery@2.0.34, and add --artillery DIR/node_modules/.bin/artillery"
    # Connections arrive during the first second, so the last one lasts a second longer.
    FUNCTIONS = "const end = Date.now() + %d; module.exports = { isRunning: (context, done) => done(Date.now() < end) };"

    def __init__(self, path=None):
        self.own_path = path

    @property
    def path(self):
        return self.own_path or super().path

    def talk(self, url, connections, seconds, every_ms):
        self.folder = tempfile.TemporaryDirectory(prefix="hoptax-bench-")
        folder = Path(self.folder.name)
        # An answer is awaited only if the script takes something from it.
        send = {"send": {"payload": "x" * SIZE, "capture": {"regexp": "^.", "as": "first"}}}
        steps = [send, {"think": f"{every_ms}ms"}] if every_ms else [send]
        script = {"config": {"target": url, "phases": [{"duration": 1, "arrivalCount": connections}], "processor": "./functions.js"},
                  "scenarios": [{"engine": "ws", "flow": [{"loop": steps, "whileTrue": "isRunning"}]}]}
        (folder / "functions.js").write_text(self.FUNCTIONS % (1000 * (seconds + 1)))
        (folder / "script.json").write_text(json.dumps(script))
        self.result = folder / "result.json"
        return ([self.path, "run", "--quiet", "--output", self.result, folder / "script.json"],
                {"WORKERS": "1", "ARTILLERY_DISABLE_TELEMETRY": "true"})

    def claimed(self, ran):
        return json.loads(self.result.read_text())["aggregate"]["counters"]["websocket.messages_received"]


def ws(server):
    return server.url.replace("http", "ws", 1)


def counted(server):
    """(messages received, connections that are open) of the upstream."""
    instance = json.loads(ask(server.control, "/ledger"))["instances"][0]
    return (instance.get("websockets") or {}).get("received", 0), instance["open"]


def turn(tool, server, connections, seconds, every_ms):
    before = counted(server)[0]

    def watch(pid):
        received, opened = counted(server)
        return time.monotonic(), cpu_clock(pid), received, opened

    disturbance = Disturbance()
    ran = client(*tool.talk(ws(server), connections, seconds, every_ms), limit=60 + 5 * seconds, watch=watch)
    disturbed = disturbance.shares(ran.cpu)
    deadline = time.monotonic() + 5
    while counted(server)[1] > 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    part = steady(ran.samples, 0.99 * connections, 0.5)
    if part is None:
        most = max((sample[3] for sample in ran.samples), default=0)
        raise Failed(f"held at most {most} connections, or sent too little")
    cpu, messages, lasted = part
    return {"per_cpu_second": messages / cpu, "cpu_us": cpu / messages * 1e6, "rate": messages / lasted, "steady_s": lasted,
            "messages": counted(server)[0] - before, "claimed": understood(tool.claimed, ran), "whole_cpu_s": ran.cpu, **disturbed}


def talks(record, tools, arguments, every_ms):
    """Turns of all tools, paced or in a closed loop."""
    connections, seconds, all_rounds, failures = arguments.talks, arguments.seconds, [], {}
    with upstream() as server:
        for _ in range(arguments.rounds):
            turns = {}
            for tool in record.shuffled(tools):
                # One failure can be noise. A tool that has failed twice is skipped.
                if len(failures.get(tool.name, ())) >= 2:
                    continue
                try:
                    turns[tool.name] = turn(tool, server, connections, seconds, every_ms)
                except Failed as failure:
                    failures.setdefault(tool.name, []).append(str(failure))
            all_rounds.append(turns)
    figure = "cpu_us" if every_ms else "per_cpu_second"
    rows = [["tool", "messages per client CPU s", "CPU µs/message", "messages/s", "hoptax over it", "reported ÷ counted", "steal %"]]
    ours, over = HOPTAX_TOOL.name, {}
    for tool in tools:
        turns = [turns[tool.name] for turns in all_rounds if tool.name in turns]
        if not turns:
            continue
        of = lambda name, digits=1: spread([turn[name] for turn in turns], digits)
        if tool.name != ours:
            pairs = [(turns[ours][figure], turns[tool.name][figure]) for turns in all_rounds if ours in turns and tool.name in turns]
            over[tool.name] = [theirs / mine if every_ms else mine / theirs for mine, theirs in pairs]
        rows.append([tool.name, of("per_cpu_second", 0), of("cpu_us", 2), of("rate", 0), spread(over.get(tool.name)),
                     spread([turn["claimed"] / turn["messages"] for turn in turns], 3), of("steal")])
    how = f"a message every {every_ms} ms each" if every_ms else "closed loop"
    record.say(f"\n{connections} WebSockets, {SIZE} B, {how}, {arguments.rounds} rounds of {seconds} s\n{table(rows)}")
    for name, said in failures.items():
        record.say(f"  {name} failed {len(said)} times: {said[0]}")
    record.add({"what": "paced" if every_ms else "closed", "connections": connections, "every_ms": every_ms, "failures": failures,
                "rounds": all_rounds, "ratios": {name: summary(values) for name, values in over.items()}})


def hold(connections, each):
    """One turn: WebSockets with `each` messages, one a second."""
    with upstream() as server:
        def watch(pid):
            received, opened = counted(server)
            return time.monotonic(), memory(pid)[0], received, opened

        command = [HOPTAX, "load", ws(server), "-c", connections, "-n", connections, "--messages", each, "--every", "1s",
                   "--body-size", f"{SIZE}B", "--timeout", "30s", "--fail-above", "100%", "--json"]
        ran = client(command, limit=120 + 3 * each, watch=watch, every=0.2)
        answer, received = json.loads(ran.text), counted(server)[0]
    # The first and the last second are those of handshakes and of closes.
    samples = [sample for sample in ran.samples if sample[3] >= connections and connections <= sample[2] <= connections * (each - 2)]
    if len(samples) < 2:
        raise Failed(f"held at most {max((sample[3] for sample in ran.samples), default=0):,} of {connections:,} connections")
    messages, times = answer["messages"], answer["message"]["response_time"]
    first, last = samples[0], samples[-1]
    return {"expected": connections * each, "ok": answer["counts"]["ok"], "sent": messages["sent"], "received": messages["received"],
            "lost": messages["lost"], "cut": messages["cut"], "counted": received, "rate": (last[2] - first[2]) / (last[0] - first[0]),
            "steady_kib": statistics.median(sample[1] for sample in samples), "cpu_s": ran.cpu,
            "p50_us": times["p50"]["estimate"], "p99_us": times["p99"]["estimate"]}


def held(record, arguments):
    few, many, each = 100, arguments.connections, arguments.messages
    turns, failures = [], []
    for _ in range(arguments.held_rounds):
        try:
            turns.append((hold(few, each), hold(many, each)))
        except Failed as failure:
            failures.append(str(failure))
    if turns:
        kib = [(more["steady_kib"] - less["steady_kib"]) / (many - few) for less, more in turns]
        large = [more for _, more in turns]
        of = lambda name, digits: spread([turn[name] for turn in large], digits)
        off = [turn for turn in large if not turn["expected"] == turn["sent"] == turn["received"] == turn["counted"] or turn["ok"] != many]
        record.say(f"\n{many:,} WebSockets with {each} messages of {SIZE} B, one a second, {len(turns)} times: "
                   f"{'every message was counted by both sides' if not off else f'messages are missing: {off}'}; "
                   f"{of('rate', 0)} messages/s of {many:,}; response time p50 {of('p50_us', 0)} µs, p99 {of('p99_us', 0)} µs; "
                   f"memory {spread(kib)} KiB per additional connection; client CPU {of('cpu_s', 1)} s")
        record.add({"what": "held", "connections": many, "messages": each, "kib_per_connection": summary(kib), "turns": turns})
    for failure in failures:
        record.say(f"\n{many:,} WebSockets failed: {failure}")


def spec(address, connections, messages, every_ns, seconds, warmup_s=0, requests=None, model=None, headers=()):
    """A load spec of hoptax that reads events of an upstream on this host, or the tokens of a model that it plays."""
    limit = 120 * SECOND
    stream = {"carrier": "events", "kind": "server-stream", "messages": messages, "every_ns": every_ns, "same_clock": True}
    target = {"name": "events", "weight": 1, "method": "GET", "path": "/", "body": "", "stream": stream,
              "headers": [["host", address], ["accept", "text/event-stream"], *headers]}
    if model:
        asked = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        target |= {"method": "POST", "path": "/v1/chat/completions", "body": base64.b64encode(json.dumps(asked).encode()).decode(),
                   "headers": [*target["headers"], ["content-type", "application/json"]],
                   "stream": stream | {"tokens": {"api": "openai"}}}
    return {"schema": 2, "addresses": [address], "targets": [target], "shape": {"loop": "closed"}, "connections": connections,
            "warmup_ns": warmup_s * SECOND, "duration_ns": seconds * SECOND, "requests": requests, "workers": 1, "cpus": [], "seed": 1,
            "timeouts": {"connect_ns": limit, "first_byte_ns": limit, "total_ns": limit}, "windows": False}


def load(described, **watch):
    """The load record of a load spec, and what `client` returned, which gets the further arguments."""
    with tempfile.TemporaryDirectory(prefix="hoptax-bench-") as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(described))
        seconds = (described["warmup_ns"] + described["duration_ns"]) // SECOND
        ran = client([HOPTAX, "load", "--spec", path], limit=120 + 3 * seconds, **watch)
    return json.loads(ran.text), ran


def streams(record, arguments):
    count, gap_ms, turns = arguments.event_streams, 50, []
    with upstream("--events", f"endless,{gap_ms}ms") as server:
        for _ in range(arguments.held_rounds):
            disturbance = Disturbance()
            try:
                found, cpu = load(spec(server.address, count, ENDLESS, gap_ms * 1_000_000, arguments.seconds, warmup_s=3))
            except Failed as failure:
                record.say(f"\n{count:,} streams failed: {failure}")
                continue
            counts, ages = found["messages"]["counts"], buckets(found["messages"]["histograms"]["age"])
            measured = found["measured_ns"] / SECOND
            turns.append({"rate": counts["received"] / measured, "lost": counts["lost"], "p50_us": quantile(ages, 0.5),
                          "p99_us": quantile(ages, 0.99), "longest_turn_us": found["occupancy"]["longest_turn_ns"] / 1e3,
                          "busy": found["cpu"]["busiest_worker_ns"] / found["measured_ns"], **disturbance.shares(cpu)})
    if turns:
        of = lambda name, digits: spread([turn[name] for turn in turns], digits)
        record.say(f"\n{count:,} streams of events, one every {gap_ms} ms each, {len(turns)} times {arguments.seconds} s: "
                   f"{of('rate', 0)} events/s of {count * 1000 // gap_ms:,}, {sum(turn['lost'] for turn in turns)} lost; age p50 "
                   f"{of('p50_us', 0)} µs, p99 {of('p99_us', 0)} µs; longest turn of the event loop {of('longest_turn_us', 0)} µs; "
                   f"worker {spread([100 * turn['busy'] for turn in turns], 0)} % busy; steal {of('steal', 1)} %")
        record.add({"what": "streams", "streams": count, "gap_ms": gap_ms, "turns": turns})


def main():
    parser = options(__doc__, rounds=5, seconds=5)
    parser.add_argument("--parts", default=",".join(PARTS), help="from %(default)s")
    parser.add_argument("--talks", type=int, default=100, help="WebSockets of each tool (default %(default)s)")
    parser.add_argument("--every", type=int, default=100, metavar="MS", help="pace of `paced` (default %(default)s)")
    parser.add_argument("--connections", type=int, default=15_000, help="WebSockets of `held` (default %(default)s)")
    parser.add_argument("--messages", type=int, default=30, help="messages of each, one a second (default %(default)s)")
    parser.add_argument("--event-streams", type=int, default=5_000, help="responses of `streams` (default %(default)s)")
    parser.add_argument("--held-rounds", type=int, default=3, help="rounds of `held` and of `streams` (default %(default)s)")
    parser.add_argument("--artillery", type=os.path.abspath, metavar="PATH", help="program (default: on PATH)")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: unknown {', '.join(sorted(unknown))}")
    tools = (Sockets(), K6Sockets(), Artillery(arguments.artillery))
    record = Record("messages", "Messages: WebSockets of hoptax load, k6 and artillery on one hoptax upstream, one CPU each; open streams",
                    arguments, [tool for tool in tools[1:] if tool.path])
    tools = present(tools, arguments.tools, record.say)
    if "closed" in parts:
        talks(record, tools, arguments, 0)
    if "paced" in parts:
        talks(record, tools, arguments, arguments.every)
    if "held" in parts:
        held(record, arguments)
    if "streams" in parts:
        streams(record, arguments)


if __name__ == "__main__":
    main()
