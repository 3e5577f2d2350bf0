#!/usr/bin/env python3
"""Compares runs on one host with runs on several hosts of the same machine: network namespaces, each reached by ssh.

- `tax` makes pairs of runs of nginx, in turns: one with all roles on one host, one with each role on a separate host, over
  ssh. The tax without the network's part must equal the tax on one host.
- `generators` sends the same load from one host and from three hosts. The p99 of all three together must equal that of one.
- `connections` makes one run with many connections from three hosts. The connections must add up.

Needs root, sshd and iproute2.
"""

import collections
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from common import HOPTAX, Disturbance, spread, table
from runs import buckets, measure, options, progress, record, reported, trials

GENERATORS = ["client1", "client2", "client3"]
HOSTS = [*GENERATORS, "edge", "app"]


def address(name):
    return f"10.77.0.{1 + HOSTS.index(name)}"


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


class Network:
    """Several hosts on a switch, each with an address. The `ssh` on PATH knows their names."""

    def __init__(self, below):
        self.prefix, self.below = f"bench-{os.getpid()}", below

    def __enter__(self):
        switch = f"{self.prefix}-switch"
        ip(f"netns add {switch}")
        ip(f"-n {switch} link add br0 type bridge")
        ip(f"-n {switch} link set br0 up")
        for name in HOSTS:
            own = f"{self.prefix}-{name}"
            ip(f"netns add {own}")
            ip(f"-n {switch} link add {name} type veth peer name eth0 netns {own}")
            ip(f"-n {switch} link set {name} master br0 up")
            ip(f"-n {own} addr add {address(name)}/24 dev eth0")
            ip(f"-n {own} link set eth0 up")
            ip(f"-n {own} link set lo up")
        self.log_in()
        return self

    def log_in(self):
        """Writes what `ssh` needs. The hosts have the files of this machine."""
        for key in ["user", "host"]:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.below / key], check=True)
        host_key = (self.below / "host.pub").read_text()
        (self.below / "known").write_text("".join(f"{name} {host_key}" for name in HOSTS))
        (self.below / "sshd_config").write_text(
            f"HostKey {self.below}/host\nAuthorizedKeysFile {self.below}/user.pub\nStrictModes no\nPermitRootLogin yes\n"
            "UsePAM no\n")
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        # This machine cannot reach the network of the hosts. So each login starts a server in the host's namespace.
        (self.below / "config").write_text(
            f"Host *\n  User root\n  IdentityFile {self.below}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.below}/known\n"
            f"  ProxyCommand ip netns exec {self.prefix}-%h {sshd} -i -f {self.below}/sshd_config\n")
        wrapper = self.below / "bin/ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f"#!/bin/sh\nexec {shutil.which('ssh')} -F {self.below}/config \"$@\"\n")
        wrapper.chmod(0o755)
        os.environ["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"
        # sshd insists on this directory.
        Path("/run/sshd").mkdir(exist_ok=True)

    def __exit__(self, *_):
        for name in [*HOSTS, "switch"]:
            subprocess.run(["ip", "netns", "delete", f"{self.prefix}-{name}"], check=False)


def hosts(generators, has_upstream=True):
    """The lines of a plan that put each role on a host of its own."""
    clients = ", ".join(generators)
    only = f", address: {address(generators[0])}" if len(generators) == 1 else ""
    return (f"hosts:\n  clients: {{ ssh: [{clients}], hoptax: {HOPTAX}{only} }}\n"
            f"  edge: {{ ssh: edge, address: {address('edge')}, hoptax: {HOPTAX} }}\n"
            + f"  app: {{ ssh: app, address: {address('app')}, hoptax: {HOPTAX} }}\n" * has_upstream
            + f"roles: {{ generator: clients, gateway: edge{', upstream: app' * has_upstream} }}\n")


def plan(arguments, name, more):
    http = f", http: 2, streams: {arguments.streams}" if arguments.streams else ""
    return (f"name: {name}\ngateways: [nginx]\nload:\n  - {{ loop: open, rate: {arguments.rate}/s, connections: "
            f"{arguments.connections}{http} }}\ntime: {arguments.seconds:g}s\n"
            + (f"upstream: {{ delay: exponential({arguments.delay:g}ms) }}\n" if arguments.delay else "") + more)


def interval(figure):
    return f"{figure['estimate']:.1f} ± {(figure['high'] - figure['low']) / 2:.1f}"


def overlap(one, other):
    """Whether two intervals overlap."""
    return one["low"] <= other["high"] and other["low"] <= one["high"]


def in_turns(arguments, results, below, plans):
    """Measures two plans in turns. Returns the reports of each pair, and the share of the CPU time that was stolen, %."""
    for number in range(1, arguments.runs + 1):
        order = list(enumerate(plans))
        results.order.shuffle(order)
        disturbance, pair = Disturbance(), [None, None]
        for index, text in order:
            pair[index] = reported(measure(text, below / f"{number}-{index}", 10 * arguments.seconds + 400))
        steal = disturbance.shares(0)["steal"]
        progress(f"pair {number} of {arguments.runs}: steal {steal} %")
        yield pair, steal


def tax(arguments, results, below):
    plans = [plan(arguments, "one-host", ""), plan(arguments, "three-hosts", hosts(GENERATORS[:1]))]
    rows, differences = [], []
    for (here, apart), steal in in_turns(arguments, results, below, plans):
        local = next(case for case in here["cases"] if case["gateway"] == "nginx")["tax"]["added_p50"]
        split = apart["hosts"]["splits"][0]
        gateway, wire = split["gateway_us"], split["wire_us"]
        differences.append(gateway["estimate"] - local["estimate"])
        rows.append([str(len(rows) + 1), interval(local), interval(gateway), interval(wire), f"{differences[-1]:+.1f}",
                     "yes" if overlap(local, gateway) else "no", str(steal)])
    results.say(table([["pair", "one host, µs", "over ssh: gateway", "over ssh: network", "difference", "intervals meet",
                        "steal, %"], *rows]))
    equal = sum(row[5] == "yes" for row in rows)
    results.say(f"equal within the intervals in {equal} of {len(rows)} pairs. Differences, µs: {spread(differences, 1)}")


def generators(arguments, results, below):
    plans = [plan(arguments, "one-generator", hosts(GENERATORS[:1])),
             plan(arguments, "three-generators", hosts(GENERATORS))]
    rows, ratios = [], []
    for (one, three), steal in in_turns(arguments, results, below, plans):
        for gateway in ["direct", "nginx"]:
            p99 = [next(case for case in report["cases"] if case["gateway"] == gateway)["response_time"]["p99"]
                   for report in (one, three)]
            ratios.append(p99[1]["estimate"] / p99[0]["estimate"])
            rows.append([str(len(rows) // 2 + 1), gateway, *map(interval, p99), f"{ratios[-1]:.2f}",
                         "yes" if overlap(*p99) else "no", str(steal)])
    results.say(table([["pair", "contender", "p99 of one generator, µs", "p99 of three, µs", "ratio", "intervals meet",
                        "steal, %"], *rows]))
    equal = sum(row[5] == "yes" for row in rows)
    results.say(f"p99 equal within the intervals in {equal} of {len(rows)} cases. Ratios: {spread(ratios, 2)}")


NGINX = """worker_processes 6;
daemon off;
pid {below}/nginx.pid;
error_log {below}/nginx.log;
worker_rlimit_nofile 20000;
events {{ worker_connections 19000; }}
http {{
  access_log off;
  keepalive_timeout 600s;
  keepalive_requests 1000000;
  server {{ listen {address}:8080 reuseport backlog=16384; location / {{ return 200 "0123456789abcdef"; }} }}
}}
"""


def connections(arguments, results, below, network):
    below.mkdir()
    configuration = below / "nginx.conf"
    configuration.write_text(NGINX.format(below=below, address=address("app")))
    # The built-in upstream is a single process, which cannot open enough descriptors.
    upstream = subprocess.Popen(["ip", "netns", "exec", f"{network.prefix}-app", "nginx", "-c", configuration])
    try:
        time.sleep(2)
        text = (f"name: connections\nupstream: {{ url: \"http://{address('app')}:8080\" }}\n"
                f"gateways: [{{ name: nginx, workers: 6 }}]\nload:\n  - {{ loop: open, rate: {arguments.rate}/s, connections: "
                f"{arguments.connections}, duration: {arguments.seconds:g}s }}\ntrials: {arguments.runs}\nwarmup: "
                f"{arguments.seconds:g}s\n{hosts(GENERATORS, has_upstream=False)}")
        directory = measure(text, below / "run", 40 * arguments.runs * arguments.seconds + 600)
    finally:
        upstream.terminate()
        upstream.wait()
    rows = []
    for trial in trials(directory):
        load, parts = trial["load_record"], trial.get("generators") or []
        shares = [part["connections"]["established"] for part in parts]
        counts, sums = load["counts"], collections.Counter()
        for part in parts:
            for low, _, count in buckets(part["response_time"]):
                sums[low] += count
        add_up = sums == collections.Counter({low: count for low, _, count in buckets(load["histograms"]["response_time"])})
        rows.append([str(trial["round"] + 1), trial["contender"], str(load["connections"]["established"]),
                     " + ".join(map(str, shares)), f"{counts['completed'] / load['measured_ns'] * 1e9:.0f}",
                     str(counts["scheduled"]), str(counts["completed"]), "yes" if add_up else "no"])
    results.say(table([["round", "contender", "connections", "of each generator", "per second", "scheduled", "completed",
                        "histograms add up"], *rows]))


def main():
    parser = options(__doc__, 20)
    parser.add_argument("what", choices=["tax", "generators", "connections"])
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="(default %(default)s)")
    parser.add_argument("--streams", type=int, help="with tax and generators: measure HTTP/2 with this many streams per connection")
    parser.add_argument("--delay", type=float, help="mean delay of the upstream, ms: longer than generators that share a CPU wait "
                        "for it (default: none)")
    parser.add_argument("--seconds", type=float, default=20, help="rounds of each run, or a trial's load (default %(default)s)")
    arguments = parser.parse_args()
    results = record(f"Hosts: {arguments.what}", arguments)
    with tempfile.TemporaryDirectory(prefix="hoptax-hosts-") as name, Network(Path(name)) as network:
        below = Path(name) / "runs"
        match arguments.what:
            case "tax":
                tax(arguments, results, below)
            case "generators":
                generators(arguments, results, below)
            case "connections":
                connections(arguments, results, below, network)


if __name__ == "__main__":
    main()
