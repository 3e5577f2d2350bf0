"""Shared parts of the benchmarks: CPUs, running and sampling clients, CPU time, steal, and records.

Uses only Python's standard library, so that benchmarks run wherever hoptax does.
"""

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import platform
import random
import resource
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOPTAX = Path(os.environ.get("HOPTAX", ROOT / "target" / "release" / "hoptax"))
CPUS = sorted(os.sched_getaffinity(0))
CLIENT_CPU, SERVER_CPU = CPUS[0], CPUS[-1]
# The results mention other programs if they use more than this share of the client's CPU, in %.
OTHERS = 5
PLACES = ("/usr/sbin", "/sbin", os.environ.get("GOBIN"), str(Path.home() / "go/bin"), str(Path.home() / ".cargo/bin"))


def find(program):
    """Path of a program, or None. Searches PATH and the directories of root, Go and Cargo."""
    return shutil.which(program, path=os.pathsep.join([os.environ["PATH"], *filter(None, PLACES)]))


def first_line(command):
    """First line of a command's output, or a dash."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError:
        return "-"
    return ((answer.stdout + answer.stderr).strip().splitlines() or ["-"])[0].strip()


def pinned(cpu):
    """Returns the setup function of a child process.

    The function pins the child to `cpu`, unless that is None, and raises its descriptor limit. The kernel kills the
    child when this process ends.
    """
    def pin():
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return pin


def stop(process):
    """Stops a process that this program started."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_clock(pid):
    """CPU seconds of all threads of a process so far, in ns resolution. Uses the clock of clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def family_clock(pid):
    """CPU seconds so far of a process and of its descendants that have not ended."""
    parents, family, seconds = {}, [pid], 0
    # A process may end meanwhile.
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
        with contextlib.suppress(OSError):
            seconds += cpu_clock(member)
    return seconds


def steady(samples, connections, shortest):
    """(CPU seconds, work, seconds) of the part in which `connections` are open and work flows.

    None if the part is shorter than `shortest` seconds. A sample is (time, CPU time, work, open connections). Work is a
    number of requests, messages or tokens.
    """
    connected = [sample for sample in samples if sample[3] >= connections]
    spans = [(b[2] - a[2]) / (b[0] - a[0]) for a, b in itertools.pairwise(connected)]
    flowing = [index for index, rate in enumerate(spans) if rate > statistics.median(spans) / 2]
    if not flowing:
        return None
    first, last = connected[flowing[0]], connected[flowing[-1] + 1]
    seconds, cpu, work, _ = (b - a for a, b in zip(first, last))
    return (cpu, work, seconds) if seconds >= shortest and work and cpu > 0 else None


class Failed(Exception):
    """A client failed. This becomes a line in the results and does not stop the benchmark.

    `text` is what it printed to standard output.
    """

    def __init__(self, message, text=""):
        super().__init__(message)
        self.text = text


class Ran:
    """Result of a client: standard output, standard error, CPU seconds (`cpu`, from wait4), wall time and samples."""

    def __init__(self, text, errors, cpu, wall, samples):
        self.text, self.errors, self.cpu, self.wall, self.samples = text, errors, cpu, wall, samples


def client(command, environment=None, limit=120, watch=None, every=0.05, cpu=CLIENT_CPU):
    """Runs a client on the CPU `cpu` until it ends. Stores the result of `watch(pid)` every `every` seconds.

    If `cpu` is None, the client is not pinned.
    """
    samples, command = [], [str(part) for part in command]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        begun = time.monotonic()
        process = subprocess.Popen(command, preexec_fn=pinned(cpu), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env={**os.environ, **(environment or {})})
        ended = select.poll()
        descriptor = os.pidfd_open(process.pid)
        ended.register(descriptor, select.POLLIN)
        late = False
        try:
            while not ended.poll(1000 * every):
                late = time.monotonic() - begun > limit
                if late:
                    process.kill()
                    break
                if watch:
                    # The client may end during the call, or the server may be too busy to answer.
                    with contextlib.suppress(OSError, Failed):
                        samples.append(watch(process.pid))
        finally:
            if not late and not ended.poll(0):
                process.kill()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            os.close(descriptor)
        wall = time.monotonic() - begun
        out.seek(0), err.seek(0)
        text, errors = out.read(), err.read()
    if late:
        raise Failed(f"did not end within {limit} s")
    if process.returncode != 0:
        raise Failed(f"exited with {process.returncode}: {(errors or text).strip()[-200:]}", text)
    return Ran(text, errors, usage.ru_utime + usage.ru_stime, wall, samples)


class Disturbance:
    """Disturbances since this object was created: steal, and work of other processes on the client's CPU."""

    def __init__(self):
        self.begun = self.ticks()

    @staticmethod
    def ticks():
        """Ticks from /proc/stat, (steal, total) of all CPUs and (work, total) of the client's CPU, as one tuple."""
        lines = {line.split()[0]: [int(field) for field in line.split()[1:9]] for line in open("/proc/stat")
                 if line.startswith("cpu")}
        ours = lines[f"cpu{CLIENT_CPU}"]
        # The fields of each line are: user, nice, system, idle, iowait, irq, softirq, steal.
        return lines["cpu"][7], sum(lines["cpu"]), sum(ours) - ours[3] - ours[4] - ours[7], sum(ours)

    def shares(self, cpu):
        """{steal: % of all CPUs, others: % of the client's CPU that other processes used}.

        `cpu` is the CPU time of the client, s.
        """
        steal, everything, work, ours = (now - then for now, then in zip(self.ticks(), self.begun))
        others = work - cpu * os.sysconf("SC_CLK_TCK")
        return {"steal": round(100 * steal / max(1, everything), 2), "others": round(max(0, 100 * others / max(1, ours)), 1)}


def spread(values, digits=2):
    """Median with the lowest and the highest value: `1.31 (1.22–1.40)`. A dash if there are no values."""
    if not values:
        return "-"
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def summary(values):
    """Median and range for JSON."""
    if not values:
        return None
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}


def table(rows):
    """Formats rows of texts as aligned columns; the first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def options(description, rounds, seconds):
    """Parser with the common options. The caller adds its own options, and then parses the command line."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--rounds", type=int, default=rounds, help="turns of each tool (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=seconds, help="duration of one turn, s (default %(default)s)")
    parser.add_argument("--tools", help="only these tools, by name, separated by commas")
    parser.add_argument("--seed", type=int, default=None, help="seed of the order of turns (default: the current time)")
    parser.add_argument("--out", type=Path, help="directory for the results, as text and as JSON")
    return parser


def versions_of(programs):
    """The version that each program prints."""
    return {name: first_line([path, "--version"]) for name, path in programs.items()}


class Record:
    """Results of a benchmark. Prints them, and saves them to `<bench>.txt` and `<bench>.json` after each point."""

    def __init__(self, bench, title, arguments, tools=(), programs=None):
        """`programs` are the measured builds of hoptax by name, if they are not the usual one."""
        self.path = arguments.out / bench if arguments.out else None
        seed = int(time.time()) if arguments.seed is None else arguments.seed
        self.order = random.Random(seed)
        cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
        versions = {**versions_of(programs or {"hoptax": HOPTAX}), **{tool.name: tool.version() for tool in tools}}
        nginx, openssl = find("nginx"), find("openssl")
        versions |= {name: first_line([path, flag]) for name, path, flag in
                     (("nginx", nginx, "-v"), ("openssl", openssl, "version")) if path}
        self.data = {
            "bench": bench, "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]), "seed": seed,
            "when": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%MZ}",
            "machine": {"system": f"{platform.system()} {platform.release()}", "cpu": cpu, "cpus": len(CPUS),
                        "client_cpu": CLIENT_CPU, "server_cpu": SERVER_CPU},
            "versions": versions, "points": []}
        if self.path:
            arguments.out.mkdir(parents=True, exist_ok=True)
            self.path.with_suffix(".txt").write_text("")
        machine = self.data["machine"]
        self.say(f"# {title}\n# {self.data['when']} · {machine['system']} · {len(CPUS)} × {cpu} · client on CPU {CLIENT_CPU}, "
                 f"server on CPU {SERVER_CPU}\n# command: {self.data['command']} · order of turns from seed {seed}\n# "
                 + " · ".join(f"{name} {text}" if name not in text else text for name, text in versions.items()))
        # This process must not run on the client's CPU.
        os.sched_setaffinity(0, set(CPUS) - {CLIENT_CPU} or set(CPUS))

    def say(self, text):
        print(text, flush=True)
        if self.path:
            with self.path.with_suffix(".txt").open("a") as kept:
                kept.write(text + "\n")

    def add(self, point):
        """Saves the figures of a point. If this process is killed meanwhile, the figures of earlier points remain."""
        self.data["points"].append(point)
        if self.path:
            draft = self.path.with_suffix(".json.new")
            draft.write_text(json.dumps(self.data, indent=1) + "\n")
            draft.replace(self.path.with_suffix(".json"))

    def shuffled(self, contenders):
        """The contenders in random order, for the next round."""
        return self.order.sample(list(contenders), len(contenders))
