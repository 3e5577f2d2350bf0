"""What the benchmarks share: real servers pinned to one CPU, clients pinned to another, CPU time counted by the kernel.

Python's standard library alone, so that a benchmark runs wherever hoptax does.
"""

import contextlib
import json
import os
import platform
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOPTAX = ROOT / "target" / "release" / "hoptax"
CPUS = sorted(os.sched_getaffinity(0))
CLIENT_CPU, SERVER_CPU = CPUS[0], CPUS[-1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tool(name):
    """The path of a program, also where only root usually looks."""
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def version(command):
    answer = subprocess.run(command, capture_output=True, text=True)
    return (answer.stdout + answer.stderr).strip().splitlines()[0]


def header(what):
    """Says what is measured, when, on what, and by which versions."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(f"# {what}")
    print(f"# {datetime.now(timezone.utc):%Y-%m-%dT%H:%MZ} · {platform.system()} {platform.release()} · "
          f"{len(CPUS)} × {cpu} · client on CPU {CLIENT_CPU}, server on CPU {SERVER_CPU}")
    print(f"# command: {' '.join([Path(sys.argv[0]).name] + sys.argv[1:])}")
    print(f"# {version([HOPTAX, '--version'])} · {version([tool('nginx'), '-v'])}", flush=True)


def pinned(cpu):
    def pin():
        os.sched_setaffinity(0, {cpu})
        # Dies with us, whatever happens to us.
        import ctypes
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        with contextlib.suppress(ValueError):
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return pin


@contextlib.contextmanager
def nginx(body, location=None, cpu=SERVER_CPU):
    """One nginx worker that answers `body` by `return 200`; gives (url, pid of the worker)."""
    directory = Path(tempfile.mkdtemp(prefix="hoptax-bench-"))
    port = free_port()
    location = location or f'return 200 "{body}";'
    user = "user root;" if os.getuid() == 0 else ""
    (directory / "nginx.conf").write_text(f"""
{user} daemon off; master_process off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log;
events {{ worker_connections 18000; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; default_type text/plain;
    client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
    uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
    server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ {location} }} }}
}}
""")
    server = subprocess.Popen([tool("nginx"), "-p", str(directory), "-c", str(directory / "nginx.conf")],
                              preexec_fn=pinned(cpu), stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}/", server.pid
    finally:
        stop(server)
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def upstream(*arguments, cpu=SERVER_CPU):
    """`hoptax upstream`; gives (url, pid)."""
    server = subprocess.Popen([HOPTAX, "upstream", *arguments], preexec_fn=pinned(cpu), stdout=subprocess.PIPE)
    try:
        ready = json.loads(server.stdout.readline())
        yield f"http://{ready['instances'][0]}/", server.pid
    finally:
        stop(server)


def wait_for(port):
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on {port}")


def stop(process):
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_of(pid):
    """CPU seconds of a process so far: to the nanosecond, threads added up."""
    return sum(int(Path(task, "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def client(command, cpu=CLIENT_CPU, limit=120):
    """Runs a client to its end: (what it printed, CPU seconds by the kernel's count, wall seconds)."""
    begun = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], preexec_fn=pinned(cpu), stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    signal.alarm(limit)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    signal.alarm(0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}\n{text}")
    return text, usage.ru_utime + usage.ru_stime, time.monotonic() - begun


def steal():
    """(steal, all) ticks of all CPUs so far."""
    ticks = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    return ticks[7], sum(ticks)


class Steal:
    """Share of the machine that the hypervisor took since this was made."""

    def __init__(self):
        self.begun = steal()

    def __str__(self):
        (stolen, total), (stolen_then, total_then) = steal(), self.begun
        return f"{100 * (stolen - stolen_then) / max(1, total - total_then):.0f} %"


def spread(values, digits=2):
    """Median with the whole range: `1.31 (1.22–1.40)`."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"
