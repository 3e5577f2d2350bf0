"""Gateways that hoptax starts with the settings of their packs, for measurements by other load generators."""

import contextlib
import http.client
import json
import os
import subprocess
import time
from pathlib import Path

from common import HOPTAX, Failed, pinned, stop
from runs import DIRECT
from servers import ask, free_port

# Load of the run that starts a gateway. Packs choose limits from the number of connections.
IDLE = "loop: open, rate: 1000/s, connections: 32, duration: 100ms"


def processes():
    """{pid: parent's pid} of all processes."""
    found = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            # The name in parentheses can contain spaces.
            found[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
    return found


def descendants(pid):
    """The processes that a process started, directly or not."""
    parents, found = processes(), {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def listeners(pids):
    """{port: pids that have it open} of listening sockets. IPv6 is included, because Java uses IPv6 sockets for IPv4."""
    ports = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                ports[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if (port := ports.get(os.readlink(descriptor))) is not None:
                        found.setdefault(port, set()).add(pid)
    return found


def tokens(port, headers):
    """True if a language model answers a POST to the usual path."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        asked = json.dumps({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]})
        connection.request("POST", "/v1/chat/completions", asked, {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status == 200 and b'"chat.completion"' in answer.read()
    return False


def body(port):
    """Body of the response to GET /; None without an HTTP response."""
    with contextlib.suppress(Failed):
        return ask(http.client.HTTPConnection("127.0.0.1", port, timeout=3), "/")


class Kept:
    """A gateway that keeps running: its `url`, its `pids`, and `upstream` and `upstream_pid`."""

    def __init__(self, port, pids, upstream, upstream_pid):
        self.url, self.pids = f"http://127.0.0.1:{port}/", pids
        self.upstream, self.upstream_pid = f"http://127.0.0.1:{upstream}/", upstream_pid


@contextlib.contextmanager
def kept_up(gateway, below, limit=90, model=None, headers=None):
    """Lets hoptax start an upstream and a gateway (an entry of a plan, or None for direct), and keeps both running.

    hoptax starts gateways only for a run. This run measures direct once, and then pauses for as long as needed.
    With `model`, the upstream is a language model (`upstream.llm` of a plan). `headers(gateway, upstream)` are those that
    the gateway wants.
    """
    below.mkdir(parents=True)
    port, path, log = free_port(), below / "plan.yaml", below / "hoptax.log"
    # A trial must be longer than a stream of tokens.
    load = IDLE.replace("1000/s", "20/s").replace("100ms", "1s") if model else IDLE
    plays = f", llm: {json.dumps(model)}" if model else ""
    target = "target: { llm: { api: openai } }\n" if model else ""
    path.write_text(f"upstream: {{ port: {port}{plays} }}\n{target}gateways: [{gateway or ''}]\nload: [{{ {load} }}]\ntrials: 1\n"
                    "warmup: 0s\npause: 24h\n")
    command = [str(HOPTAX), "run", str(path), "--out", str(below), "--no-live"]
    with log.open("w") as output:
        process = subprocess.Popen(command, preexec_fn=pinned(None), stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + limit
        while not any(found.stat().st_size for found in below.glob("*/trials.jsonl")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"cannot keep {gateway or DIRECT} up: {log.read_text().strip()[-300:]}")
            time.sleep(0.1)
        found = listeners(descendants(process.pid))
        upstream = found.pop(port, set())
        upstream_url = f"http://127.0.0.1:{port}/"
        expected = None if model else body(port)

        def forwards(other):
            return tokens(other, headers(gateway, upstream_url)) if model else body(other) == expected
        # A gateway can have other ports, for its metrics or administration.
        others = {other: pids for other, pids in found.items() if not pids & upstream}
        ports = [port] if gateway is None else [other for other in others if forwards(other)]
        if len(ports) != 1:
            raise Failed(f"{gateway}: {len(ports)} ports forward to the upstream, instead of one")
        yield Kept(ports[0], others.get(ports[0], set()), port, min(upstream))
    finally:
        stop(process)
