#!/usr/bin/env python3
"""Client CPU per request: `hoptax load` against wrk, in pairs, on the same nginx.

One nginx worker on one CPU answers `return 200` with 64 bytes; the clients take turns on another CPU, in an order that
is swapped from pair to pair. For each run: requests completed, and the client's CPU time (user + system) as the kernel
tells it when the process is waited for. The figure of a pair is requests per client CPU second, hoptax over wrk: above
1, hoptax does more with the same CPU. Both times include the clients' start and their connecting.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """
daemon off; worker_processes 1; pid nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000000; client_body_temp_path body; proxy_temp_path proxy;
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "{body}"; }} }}
}}
"""


def main():
    arguments = parse()
    describe(arguments)
    with tempfile.TemporaryDirectory() as directory:
        nginx, port = start_nginx(directory, arguments.server_cpu)
        try:
            compare(arguments, f"http://127.0.0.1:{port}/")
        finally:
            nginx.send_signal(signal.SIGTERM)
            nginx.wait(10)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hoptax", default="target/release/hoptax")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--client-cpu", type=int, default=0)
    parser.add_argument("--server-cpu", type=int, default=1)
    arguments = parser.parse_args()
    for program in (arguments.hoptax, "wrk", "nginx", "taskset"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing; build with `cargo build --release`, install wrk and nginx")
    return arguments


def describe(arguments):
    def first_line(command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip().splitlines()[0]

    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        model = re.search(r"model name\s*: (.*)", cpuinfo.read())
    print("command:", " ".join(sys.argv))
    print("date:", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))
    print("versions:", first_line([arguments.hoptax, "--version"]), "|", first_line(["wrk", "-v"]), "|",
          first_line(["nginx", "-v"]))
    print(f"machine: {os.cpu_count()} × {model[1] if model else platform.machine()}, Linux {platform.release()}")
    print(f"client on CPU {arguments.client_cpu}, nginx on CPU {arguments.server_cpu}, "
          f"{arguments.connections} connections, {arguments.seconds} s per run\n")


def start_nginx(directory, cpu):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.path.join(directory, "nginx.conf")
    with open(path, "w", encoding="utf-8") as config:
        config.write(CONFIG.format(port=port, body="x" * 64))
    command = ["taskset", "-c", str(cpu), "nginx", "-e", "stderr", "-p", directory, "-c", path]
    nginx = subprocess.Popen(command)
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return nginx, port
        except OSError:
            if nginx.poll() is not None or time.monotonic() > deadline:
                nginx.kill()
                sys.exit("nginx did not start")
            time.sleep(0.05)


def run(cpu, command):
    """Standard output, and CPU seconds of the process and all its threads."""
    process = subprocess.Popen(["taskset", "-c", str(cpu), *command], stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed")
    return output, usage.ru_utime + usage.ru_stime


def run_wrk(arguments, url):
    command = ["wrk", "-t1", f"-c{arguments.connections}", f"-d{arguments.seconds}s", url]
    output, cpu = run(arguments.client_cpu, command)
    total = re.search(r"(\d+) requests in ([\d.]+)s", output)
    return int(total[1]), float(re.search(r"Requests/sec:\s*([\d.]+)", output)[1]), cpu


def run_hoptax(arguments, url):
    command = [arguments.hoptax, "load", url, "-c", str(arguments.connections), "-d", f"{arguments.seconds}s", "--json"]
    output, cpu = run(arguments.client_cpu, command)
    case = json.loads(output)
    return case["counts"]["completed"], case["throughput"]["estimate"], cpu


def steal_share(before, after):
    total = sum(after) - sum(before)
    return (after[7] - before[7]) / total if total else 0.0


def cpu_times():
    with open("/proc/stat", encoding="utf-8") as stat:
        return [int(value) for value in stat.readline().split()[1:9]]


def compare(arguments, url):
    clients = {"wrk": run_wrk, "hoptax": run_hoptax}
    print(f"{'pair':>4} {'wrk µs':>8} {'hoptax µs':>10} {'ratio':>7} {'wrk req/s':>11} {'hoptax req/s':>13} {'steal':>7}")
    ratios, throughputs, costs = [], [], {"wrk": [], "hoptax": []}
    for pair in range(arguments.pairs):
        before = cpu_times()
        order = list(clients) if pair % 2 == 0 else list(reversed(clients))
        result = {name: clients[name](arguments, url) for name in order}
        steal = steal_share(before, cpu_times())
        cost = {name: cpu / requests * 1e6 for name, (requests, _, cpu) in result.items()}
        for name, value in cost.items():
            costs[name].append(value)
        ratios.append(cost["wrk"] / cost["hoptax"])
        throughputs.append(result["hoptax"][1] / result["wrk"][1])
        print(f"{pair + 1:>4} {cost['wrk']:>8.2f} {cost['hoptax']:>10.2f} {ratios[-1]:>7.3f} {result['wrk'][1]:>11.0f} "
              f"{result['hoptax'][1]:>13.0f} {steal:>7.1%}", flush=True)
    print(f"\nclient CPU per request: wrk {statistics.median(costs['wrk']):.2f} µs, "
          f"hoptax {statistics.median(costs['hoptax']):.2f} µs (medians)")
    print(f"requests per client CPU second, hoptax / wrk: median {statistics.median(ratios):.3f}, "
          f"from {min(ratios):.3f} to {max(ratios):.3f}")
    print(f"throughput, hoptax / wrk: median {statistics.median(throughputs):.3f}, "
          f"from {min(throughputs):.3f} to {max(throughputs):.3f}")


if __name__ == "__main__":
    main()
