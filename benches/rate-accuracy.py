#!/usr/bin/env python3
"""Rate accuracy and lateness: `hoptax load` and its peers at a set rate, with an upstream whose delay is known.

Client and upstream have one CPU each. In each round every tool has one turn at each point, in random order. A bare ping
(ping.py) has a turn too. It is not a load generator: it uses one blocking socket. The expected result of a tool is the
known delay plus the bare round trip. The ping measures the bare round trip in the same round, with an upstream without
delay. The error of a tool is its result minus the expected result.

The achieved rate is computed from the upstream's count in the middle of a turn, so that the start and end of a tool do
not matter. The ping also measures the upstream with the delay ("ping" in the tables). This shows the lateness of the
upstream itself. If 1 % of the responses are delayed by 50 ms, the 99th percentile is at the edge of the delayed
responses, and any value is correct. So the 99.9th percentile is used, which is in the middle of the delayed responses.
It is compared with 50 ms plus the p90 of the ping.

There are two more tests. The first test measures the achieved rate and the send lag at 5,000/s over 30 s (`hoptax`
only). The second test is a stall: the upstream is stopped for 1 s while it gets 1,000 requests per second for 8 s. An
eighth of the requests are due during the stall, and wait for its end. The response time at quantile q is therefore the
length of the stall minus (1 - q) × 8 s, or about zero if this is negative: 0.92 s at p99, 0.2 s at p90, about zero at
p50. The mean is stall² / 2 / 8 s. The tools' results are compared with these values. The values are computed from the
actual length of the stall.

With `--streams`, only hoptax is measured, over HTTP/2. The ping remains on HTTP/1.1.
"""

import json
import os
import signal
import statistics
import sys
import threading
import time
from pathlib import Path

from common import Disturbance, Failed, Record, client, options, spread, summary, table
from peers import OPEN, Fortio, Hoptax, Tool, present, understood
from servers import upstream

RATES = (1_000, 5_000, 20_000)
# For each name: options of the upstream, and a list of (percentile of the tool's result, delay at this percentile in
# µs, percentile of the ping to add to the delay).
DELAYS = {
    "none": ((), (("p50", 0, "p50"), ("p99", 0, "p99"))),
    "2ms": (("--delay", "2ms"), (("p50", 2_000, "p50"), ("p99", 2_000, "p99"))),
    "1%50ms": (("--delay", "choice(99% 0ms, 1% 50ms)"), (("p50", 0, "p50"), ("p99.9", 50_000, "p90"))),
}
CONNECTIONS = 100
# Settings of the stall: requests per second; seconds of load; seconds for which the server is stopped; number of
# requests to wait for before the stall; seconds to wait after these requests.
STALL_RATE, STALL_LOAD, STALL, STALL_AFTER, STALL_WAIT = 1_000, 8, 1.0, 500, 1.0


class Ping(Tool):
    """The bare ping as a tool. If `bare` is set, the ping uses this URL instead of the URL of the turn's upstream."""

    def __init__(self, name, bare=None):
        self.name, self.bare = name, bare

    def open(self, url, rate, connections, seconds):
        address = (self.bare or url).removeprefix("http://").rstrip("/")
        return [sys.executable, Path(__file__).with_name("ping.py"), address, rate, seconds], {}

    def times(self, ran):
        return json.loads(ran.text)


def turn(tool, server, rate, seconds, connections=CONNECTIONS):
    """Measures one turn. Returns the tool's results, the rate that the upstream received, and the disturbances."""
    before = server.count()[0]
    command, environment = tool.open(server.url, rate, connections, seconds)
    disturbance = Disturbance()
    ran = client(command, environment, limit=30 + 3 * seconds, watch=lambda _: (time.monotonic(), server.count()[0]))
    disturbed = disturbance.shares(ran.cpu)
    said, served = understood(tool.times, ran), server.count()[0] - before
    return {**said, "claimed_rate": said["rate"], "rate": middle_rate(ran.samples, before, served) or said["rate"],
            "served": served, "cpu_s": ran.cpu, **disturbed}


def middle_rate(samples, before, served):
    """Requests per second from the upstream's ledger, over the middle three fifths of a turn's requests.

    The start (fortio staggers its connections) and the end of a tool therefore do not affect its rate.
    """
    middle = [sample for sample in samples if 0.2 * served <= sample[1] - before <= 0.8 * served]
    if len(middle) < 2:
        return None
    seconds, requests = (b - a for a, b in zip(middle[0], middle[-1]))
    return requests / seconds


def errors(turns, name, wanted):
    """Errors of a tool in one round, µs, by percentile: the tool's result − the delay − the bare round trip."""
    return {at: turns[name][at] - delay - turns["bare"][beside] for at, delay, beside in wanted}


def rate_error(said, rate):
    """Deviation of the achieved rate from the requested one, %."""
    return 100 * (said["rate"] / rate - 1)


def rounds_of(record, arguments, contenders, server, rate, seconds, connections=CONNECTIONS, one=turn):
    """Runs every contender once per round. Returns the rounds and the failures."""
    rounds, failures = [], {}
    for _ in range(arguments.rounds):
        turns = {}
        for tool in record.shuffled(contenders):
            if len(failures.get(tool.name, ())) >= 2:
                continue
            try:
                turns[tool.name] = one(tool, server, rate, seconds, connections)
            except Failed as failure:
                failures.setdefault(tool.name, []).append(str(failure))
        rounds.append(turns)
    return rounds, failures


def point(record, arguments, tools, bare, rate, delay):
    begun = time.monotonic()
    given, wanted = DELAYS[delay]
    with upstream(*given) as server:
        contenders = (Ping("bare", bare.url), Ping("ping"), *tools)
        rounds, failures = rounds_of(record, arguments, contenders, server, rate, arguments.seconds)
    rows = [["tool", "rate error %", *(f"{at} error µs" for at, *_ in wanted), *(f"{at} µs" for at, *_ in wanted),
             "send lag p50, p99 µs", "steal %", "others on its CPU %"]]
    found = {}
    for name in ("ping", *(tool.name for tool in tools)):
        turns = [turns for turns in rounds if name in turns and "bare" in turns]
        if not turns:
            continue
        off = {at: [errors(turns_, name, wanted)[at] for turns_ in turns] for at, *_ in wanted}
        rates = [rate_error(turns_[name], rate) for turns_ in turns]
        of = lambda at: [turns_[name][at] for turns_ in turns]
        lags = [turns_[name].get("send_lag") for turns_ in turns]
        lag = "not reported" if None in lags else ", ".join(spread([lag[at] for lag in lags], 1) for at in ("p50", "p99"))
        found[name] = {"rate_error_percent": summary(rates), "error_us": {at: summary(off[at]) for at in off}}
        # The ping is not a load generator. It has one connection and does not have to reach the rate.
        rows.append([name, "" if name == "ping" else spread(rates, 3), *(spread(off[at], 1) for at in off),
                     *(spread(of(at), 1) for at in off), "" if name == "ping" else lag, spread(of("steal"), 1), spread(of("others"), 1)])
    bare_p50, bare_p99 = ([turns["bare"][at] for turns in rounds if "bare" in turns] for at in ("p50", "p99"))
    record.say(f"\n{rate:,}/s, delay {delay}, {len(rounds)} rounds of {arguments.seconds} s ({time.monotonic() - begun:.0f} s); "
               f"bare round trip p50 {spread(bare_p50, 1)}, p99 {spread(bare_p99, 1)} µs\n{table(rows)}")
    report_failures(record, failures)
    record.add({"what": "delay", "rate": rate, "delay": delay, "percentiles": [at for at, *_ in wanted],
                "connections": CONNECTIONS, "found": found, "failures": failures, "rounds": rounds})


def report_failures(record, failures):
    for name, said in failures.items():
        record.say(f"  {name} failed {len(said)} times: {said[0]}")


def long_run(record, arguments, tool, bare):
    """Measures the achieved rate over the whole run, and the send lag, at 5,000/s over 30 s."""
    rate, seconds = 5_000, arguments.long
    rounds, failures = rounds_of(record, arguments, (tool,), bare, rate, seconds)
    said = [turns["hoptax"] for turns in rounds if "hoptax" in turns]
    off = [rate_error({"rate": turn_["claimed_rate"]}, rate) for turn_ in said]
    lag = {at: [turn_["send_lag"][at] for turn_ in said] for at in ("p50", "p99", "max")}
    record.say(f"\nhoptax at 5,000/s over {seconds} s, {len(said)} times: rate error {spread(off, 4)} %; send lag p50 "
               f"{spread(lag['p50'], 1)}, p99 {spread(lag['p99'], 1)}, max {spread(lag['max'], 0)} µs; steal "
               f"{spread([turn_['steal'] for turn_ in said], 1)} %, others on its CPU {spread([turn_['others'] for turn_ in said], 1)} %")
    report_failures(record, failures)
    record.add({"what": "long", "rate": rate, "seconds": seconds, "rate_error_percent": summary(off),
                "send_lag_us": {at: summary(lag[at]) for at in lag}, "failures": failures, "rounds": rounds})


class Stall(threading.Thread):
    """Stops the server for a while, after it has received enough requests. `lasted` is the actual duration."""

    def __init__(self, server, connections):
        super().__init__(daemon=True)
        # A tool may first send one request per connection as a warm-up. These requests do not count here.
        self.server, self.wanted, self.lasted = server, server.count()[0] + connections + STALL_AFTER, None

    def run(self):
        deadline = time.monotonic() + 20
        while self.server.count()[0] < self.wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(STALL_WAIT)
        os.kill(self.server.pid, signal.SIGSTOP)
        begun = time.monotonic()
        try:
            time.sleep(STALL)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)
            self.lasted = time.monotonic() - begun


def stalled(tool, server, rate, seconds, connections):
    """Measures one turn with a stall. Returns the tool's results and the expected results, µs."""
    stall = Stall(server, connections)
    # From here until the thread of the stall ends, only this thread reads the ledger.
    command, environment = tool.open(server.url, rate, connections, seconds)
    disturbance = Disturbance()
    stall.start()
    try:
        ran = client(command, environment, limit=60)
        disturbed = disturbance.shares(ran.cpu)
    finally:
        stall.join(60)
    said = understood(tool.times, ran)
    length = stall.lasted
    if length is None:
        raise Failed("was not stalled: the upstream did not report its count")
    due = {at: max(0.0, length - (1 - share) * seconds) * 1e6 for at, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    due["mean"] = length ** 2 / 2 / seconds * 1e6
    # On average, a late request waits for half of the stall. So the number of late requests is the sum of all times
    # divided by half of the stall. This number has no error from histogram buckets.
    late = said["mean"] * said["count"] / (length / 2 * 1e6)
    return {**said, "stall_s": length, "due": due, "late": late, **disturbed}


def stall_point(record, arguments, tools, connections):
    begun = time.monotonic()
    with upstream() as server:
        rounds, failures = rounds_of(record, arguments, tools, server, STALL_RATE, STALL_LOAD, connections, stalled)
    rows = [["tool", "p50 ms", "p90 ms (expected)", "p99 ms (expected)", "p99 error %", "late requests (expected 1,000)", "rate error %"]]
    found = {}
    for tool in tools:
        turns = [turns[tool.name] for turns in rounds if tool.name in turns]
        if not turns:
            continue
        ms = lambda at: spread([turn_[at] / 1e3 for turn_ in turns], 1)
        due = lambda at: f"({statistics.median(turn_['due'][at] for turn_ in turns) / 1e3:.1f})"
        off = [100 * (turn_["p99"] / turn_["due"]["p99"] - 1) for turn_ in turns]
        late = [turn_["late"] for turn_ in turns]
        found[tool.name] = {"p99_error_percent": summary(off), "late": summary(late)}
        rows.append([tool.name, ms("p50"), f"{ms('p90')} {due('p90')}", f"{ms('p99')} {due('p99')}", spread(off, 2),
                     spread(late, 0), spread([rate_error(turn_, STALL_RATE) for turn_ in turns], 2)])
    record.say(f"\na stall of {STALL:g} s under {STALL_RATE:,}/s over {STALL_LOAD} s, {connections:,} connections, {len(rounds)} "
               f"rounds ({time.monotonic() - begun:.0f} s)\n{table(rows)}")
    report_failures(record, failures)
    record.add({"what": "stall", "connections": connections, "found": found, "failures": failures, "rounds": rounds})


def main():
    parser = options(__doc__, rounds=7, seconds=3)
    parser.add_argument("--rates", default=",".join(map(str, RATES)), help="requests per second, separated by commas, or none")
    parser.add_argument("--delays", default=",".join(DELAYS), help="delays, from %(default)s")
    parser.add_argument("--long", type=int, default=30, help="seconds of the run at 5,000/s; 0 skips it (default %(default)s)")
    parser.add_argument("--stalls", default="100,2000", help="connections during a stall, separated by commas, or none")
    parser.add_argument("--streams", type=int, help="measure HTTP/2 with this many streams per connection")
    arguments = parser.parse_args()
    numbers = lambda text: [] if text == "none" else [int(number) for number in text.split(",")]
    record = Record("rate-accuracy", "Rate accuracy and lateness against a known delay: hoptax load and its peers, one CPU each",
                    arguments, [tool for tool in OPEN if tool.path])
    ours = Hoptax(streams=arguments.streams)
    tools = present((ours, *(() if arguments.streams else OPEN)), arguments.tools, record.say)
    with upstream() as bare:
        for rate in numbers(arguments.rates):
            for delay in arguments.delays.split(","):
                point(record, arguments, tools, bare, rate, delay)
        if arguments.long:
            long_run(record, arguments, ours, bare)
    # For times up to a second, fortio's histogram buckets are finer if the resolution is 1 ms than if it is 10 µs.
    tools = [Fortio("0.001") if isinstance(tool, Fortio) else tool for tool in tools]
    for connections in numbers(arguments.stalls):
        stall_point(record, arguments, tools, connections)


if __name__ == "__main__":
    main()
