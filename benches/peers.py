"""The load generators to compare: how to run each, and how to read its output.

Each tool gets the settings that suit it best: one thread for its one CPU, response bodies discarded, no live view, no
certificate checks. If a tool does not support a kind of load, its class does not define the method for it. The
benchmarks of this kind of load then leave the tool out.
"""

import functools
import json
import os
import re
import subprocess
import tempfile

from common import CLIENT_CPU, HOPTAX, Failed, find, first_line

PERCENTILES = ("p50", "p90", "p99", "p99.9")


def microseconds(text):
    """Converts 12us, 1.57ms or 2.00s to µs."""
    value, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


class Tool:
    """A load generator: `name`, `program`, how to `get` it, and the arguments that print its version."""

    name = program = get = ""
    version_arguments = ("--version",)

    @property
    def path(self):
        return find(self.program)

    def version(self):
        """The version: the first word that contains digits around a dot."""
        line = first_line([self.path, *self.version_arguments]) if self.path else "-"
        return next((word.rstrip(",") for word in line.split() if re.search(r"\d\.\d", word)), line)

    def speaks(self, scheme):
        """True if it supports this scheme."""
        return scheme in ("http", "https")

    # Each tool also defines the methods of this list that it supports:
    # multiplexed(url, connections, streams, seconds) -> as closed(), on HTTP/2 with this many streams per connection.
    # closed(url, connections, seconds) -> (command, environment) for a closed loop that sends as fast as possible.
    # claimed(ran) -> number of requests that the tool reports.
    # mean(ran) -> mean response time that the tool reports, µs; None if it reports none.
    # open(url, rate, connections, seconds) -> (command, environment) for an open loop.
    # times(ran) -> {"rate": achieved per second, "p50": µs, …, "mean": µs, "count": n}


class Hoptax(Tool):
    get = "make build"

    def __init__(self, name="hoptax", program=HOPTAX, streams=None):
        """`streams` is the number of streams per connection. None means HTTP/1.1."""
        self.name, self.program = name, str(program)
        self.http = [] if streams is None else ["--http", "2", "--streams", streams]

    @property
    def path(self):
        return self.program if os.access(self.program, os.X_OK) else None

    @functools.cached_property
    def help(self):
        return subprocess.run([self.path, "load", "--help"], capture_output=True, text=True).stdout

    def speaks(self, scheme):
        return scheme == "http" or "--insecure" in self.help

    def closed(self, url, connections, seconds):
        insecure = ["-k"] if url.startswith("https") else []
        return [self.path, "load", url, "-c", connections, "-d", f"{seconds}s", "--json", *insecure, *self.http], {}

    def multiplexed(self, url, connections, streams, seconds):
        return Hoptax(self.name, self.program, streams).closed(url, connections, seconds)

    def open(self, url, rate, connections, seconds):
        # Every tool is pinned to the client's CPU. With --cpus, hoptax knows that it has this CPU to itself.
        command, environment = self.closed(url, connections, seconds)
        return [*command, "-r", f"{rate}/s", "--cpus", CLIENT_CPU], environment

    def claimed(self, ran):
        return json.loads(ran.text)["counts"]["completed"]

    def mean(self, ran):
        return json.loads(ran.text)["service_time"]["mean"]["estimate"]

    def times(self, ran):
        case = json.loads(ran.text)
        of = lambda member: {name: case[member][name]["estimate"] for name in (*PERCENTILES, "mean", "max")}
        return {"rate": case["throughput"]["estimate"], "count": case["counts"]["completed"], **of("response_time"),
                "send_lag": of("send_lag"), "sent_share": case["counts"]["sent"] / case["counts"]["scheduled"]}


class Wrk(Tool):
    name, program, get, version_arguments = "wrk", "wrk", "apt install wrk", ("-v",)

    def closed(self, url, connections, seconds):
        return [self.path, "-t1", f"-c{connections}", f"-d{seconds}s", url], {}

    def claimed(self, ran):
        return int(re.search(r"(\d+) requests in", ran.text).group(1))

    def mean(self, ran):
        return microseconds(re.search(r"Latency\s+([\d.]+(?:us|ms|s))", ran.text).group(1))


class H2load(Tool):
    name, program, get = "h2load", "h2load", "apt install nghttp2-client"

    def closed(self, url, connections, seconds):
        return [self.path, "--h1", "-t1", "-c", connections, "-D", seconds, url], {}

    def multiplexed(self, url, connections, streams, seconds):
        return [self.path, "-t1", "-c", connections, "-m", streams, "-D", seconds, url], {}

    def claimed(self, ran):
        return int(re.search(r"requests: (\d+) total", ran.text).group(1))

    def mean(self, ran):
        return microseconds(re.search(r"time for request:\s+\S+\s+\S+\s+(\S+)", ran.text).group(1))


class Ab(Tool):
    name, program, get, version_arguments = "ab", "ab", "apt install apache2-utils", ("-V",)

    def closed(self, url, connections, seconds):
        # With -t but without -n, ab sends at most 50,000 requests. -d and -S turn off statistics.
        return [self.path, "-k", "-q", "-d", "-S", "-r", "-t", seconds, "-n", 5_000_000, "-c", connections, url], {}

    def claimed(self, ran):
        return int(re.search(r"Complete requests:\s+(\d+)", ran.text).group(1))

    def mean(self, ran):
        # ab has no usable mean. Even without -S and -d, it prints the mean in whole milliseconds only. Its "Time per
        # request" is calculated as connections divided by throughput.
        return None


class Hey(Tool):
    name, program, get = "hey", "hey", "apt install hey"

    def version(self):
        # hey has no option that prints its version.
        return first_line(["dpkg-query", "-W", "-f", "${Version}", "hey"]) if self.path else "-"

    def closed(self, url, connections, seconds):
        return [self.path, "-cpus", 1, "-disable-compression", "-z", f"{seconds}s", "-c", connections, url], {}

    def claimed(self, ran):
        return sum(int(count) for count in re.findall(r"\[\d+\]\s+(\d+) responses", ran.text))

    def mean(self, ran):
        return float(re.search(r"Average:\s+([\d.]+) secs", ran.text).group(1)) * 1e6


class Fortio(Tool):
    name, program, get, version_arguments = "fortio", "fortio", "go install fortio.org/fortio@latest", ("version",)

    def __init__(self, resolution="0.00001"):
        """`resolution` is the width of the narrowest histogram buckets, s. The widest ones are 100,000 times wider."""
        self.resolution = resolution

    def common(self, connections, seconds):
        return [self.path, "load", "-quiet", "-k", "-c", connections, "-t", f"{seconds}s", "-json", "-"]

    def closed(self, url, connections, seconds):
        return [*self.common(connections, seconds), "-qps", 0, url], {}

    def open(self, url, rate, connections, seconds):
        # -uniform: start the connections at evenly spaced times instead of all at once.
        return [*self.common(connections, seconds), "-qps", rate, "-uniform", "-r", self.resolution,
                "-p", "50,90,99,99.9", url], {}

    def claimed(self, ran):
        return json.loads(ran.text)["DurationHistogram"]["Count"]

    def mean(self, ran):
        return json.loads(ran.text)["DurationHistogram"]["Avg"] * 1e6

    def times(self, ran):
        answer = json.loads(ran.text)
        histogram = answer["DurationHistogram"]
        found = {f"p{entry['Percentile']:g}": entry["Value"] * 1e6 for entry in histogram["Percentiles"]}
        return {"rate": answer["ActualQPS"], "count": histogram["Count"], "mean": histogram["Avg"] * 1e6,
                "max": histogram["Max"] * 1e6, **{name: found[name] for name in PERCENTILES}}


class Oha(Tool):
    name, program, get = "oha", "oha", "cargo install oha"

    def common(self, connections, seconds):
        return [self.path, "--no-tui", "--output-format", "json", "--worker-threads", 1, "--disable-compression",
                "-c", connections, "-z", f"{seconds}s"]

    def closed(self, url, connections, seconds):
        return [*self.common(connections, seconds), "--insecure", url], {}

    def multiplexed(self, url, connections, streams, seconds):
        return [*self.common(connections, seconds), "--http2", "-p", streams, "--insecure", url], {}

    def open(self, url, rate, connections, seconds):
        # -w: at the end, wait for requests in flight instead of counting them as errors.
        return [*self.common(connections, seconds), "-w", "-q", rate, "--latency-correction", url], {}

    def claimed(self, ran):
        return sum(json.loads(ran.text)["statusCodeDistribution"].values())

    def mean(self, ran):
        return json.loads(ran.text)["summary"]["average"] * 1e6

    def times(self, ran):
        answer = json.loads(ran.text)
        return {"rate": answer["summary"]["requestsPerSec"], "count": self.claimed(ran),
                "mean": answer["summary"]["average"] * 1e6, "max": answer["summary"]["slowest"] * 1e6,
                **{name: answer["latencyPercentiles"][name] * 1e6 for name in PERCENTILES}}


class K6(Tool):
    name, program, get, version_arguments = "k6", "k6", "go install go.k6.io/k6@latest", ("version",)
    SCRIPT = """
import http from 'k6/http';
export const options = { discardResponseBodies: true, insecureSkipTLSVerify: true, systemTags: [], scenarios: { load: %s },
    summaryTrendStats: ['avg', 'max', 'count', 'p(50)', 'p(90)', 'p(99)', 'p(99.9)'] };
export default function () { http.get('%s'); }
export function handleSummary(data) { return { stdout: JSON.stringify(data.metrics) }; }
"""

    def command(self, url, scenario):
        self.script = tempfile.NamedTemporaryFile("w", suffix=".js")
        self.script.write(self.SCRIPT % (json.dumps(scenario), url))
        self.script.flush()
        return [self.path, "run", "-q", "--no-usage-report", "--address", "", self.script.name], {"GOMAXPROCS": "1"}

    def closed(self, url, connections, seconds):
        return self.command(url, {"executor": "constant-vus", "vus": connections, "duration": f"{seconds}s"})

    def open(self, url, rate, connections, seconds):
        return self.command(url, {"executor": "constant-arrival-rate", "rate": rate, "timeUnit": "1s",
                                  "duration": f"{seconds}s", "preAllocatedVUs": connections})

    def claimed(self, ran):
        return json.loads(ran.text)["http_reqs"]["values"]["count"]

    def mean(self, ran):
        return json.loads(ran.text)["http_req_duration"]["values"]["avg"] * 1e3

    def times(self, ran):
        metrics = json.loads(ran.text)
        values = metrics["http_req_duration"]["values"]
        return {"rate": metrics["http_reqs"]["values"]["rate"], "count": values["count"], "mean": values["avg"] * 1e3,
                "max": values["max"] * 1e3, **{name: values[f"p({name[1:]})"] * 1e3 for name in PERCENTILES}}


class Vegeta(Tool):
    name, program, version_arguments = "vegeta", "vegeta", ("-version",)
    get = "go install github.com/tsenart/vegeta/v12@v12.13.0"

    def multiplexed(self, url, connections, streams, seconds):
        if connections > 1:
            raise Failed("opens only one connection to a server that allows enough streams")
        self.targets, self.results = tempfile.NamedTemporaryFile("w"), tempfile.NamedTemporaryFile()
        self.targets.write(f"GET {url}\n")
        self.targets.flush()
        return [self.path, "-cpus=1", "attack", f"-targets={self.targets.name}", f"-output={self.results.name}", "-rate=0",
                f"-workers={streams}", f"-max-workers={streams}", f"-duration={seconds}s", "-max-body=0",
                "-insecure" if url.startswith("https") else "-h2c"], {}

    def report(self):
        ran = subprocess.run([self.path, "report", "-type=json", self.results.name], capture_output=True, text=True)
        return json.loads(ran.stdout)

    def claimed(self, ran):
        return self.report()["requests"]

    def mean(self, ran):
        return self.report()["latencies"]["mean"] / 1e3


HOPTAX_TOOL = Hoptax()
CLOSED = (Wrk(), H2load(), Ab(), Hey(), Fortio(), Oha(), K6())
MULTIPLEXED = (H2load(), Oha(), Vegeta())
OPEN = (Fortio(), Oha(), K6())


def understood(reader, ran):
    """Applies `reader` to a tool's output. Raises `Failed` if the output is unexpected."""
    try:
        return reader(ran)
    except (ValueError, KeyError, AttributeError, TypeError, IndexError) as wrong:
        raise Failed(f"printed unexpected output ({wrong!r}): {(ran.text or ran.errors).strip()[:200]}") from wrong


def present(tools, wanted, say):
    """The requested tools that are installed. Prints how to install the other requested tools."""
    wanted = wanted.split(",") if wanted else None
    unknown = set(wanted or ()) - {tool.name for tool in tools}
    if unknown:
        raise SystemExit(f"--tools: unknown {', '.join(sorted(unknown))}; known tools: {', '.join(tool.name for tool in tools)}")
    asked = [tool for tool in tools if wanted is None or tool.name in wanted]
    for tool in asked:
        if not tool.path:
            say(f"{tool.name} is not installed and is skipped; install it with: {tool.get}")
    return [tool for tool in asked if tool.path]
