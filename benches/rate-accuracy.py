#!/usr/bin/env python3
"""Rate accuracy and lateness: `hoptax load` and its peers at a set rate, against an upstream whose delay is known.

Client and upstream have one CPU each. In each round every tool has one turn at each point, in an order shuffled anew, and so
has a bare ping (ping.py): one blocking socket and no load generator at all. What a tool should find is arithmetic: the known
delay, and the bare round trip that the ping found in the same round without a delay. Its error is what it found less that.

The achieved rate is the upstream's own count over the middle of a turn, so that nobody's beginning or end is held against it.
The ping also meets the delayed upstream ("ping" in the tables): what is not the tool's but the upstream's own lateness shows
there. With 1 % of answers held back for 50 ms the 99th percentile lies on the very edge between the two, where any figure is
right; the 99.9th is looked at instead, in the middle of those held back, and set against 50 ms and the ping's p90.

Two more: the achieved rate and the send lag at 5,000/s over 30 s (`hoptax` alone), and a stall: the upstream is stopped for
1 s under 1,000/s over 8 s. Of what was due, an eighth then fell into the stall and waited for the rest of it, so that the
response time at quantile q is the stall less (1 - q) × 8 s where that is above nothing: 0.92 s at p99, 0.2 s at p90, nothing
at p50; and the mean is stall² / 2 / 8 s. What the tools say is set against that, with the stall's true length.
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
from peers import OPEN, Fortio, HOPTAX_TOOL, Tool, present, understood
from servers import upstream

RATES = (1_000, 5_000, 20_000)
# Name: options of the upstream, [(what a tool is asked, the delay there in µs, the ping's percentile beside it)].
DELAYS = {
    "none": ((), (("p50", 0, "p50"), ("p99", 0, "p99"))),
    "2ms": (("--delay", "2ms"), (("p50", 2_000, "p50"), ("p99", 2_000, "p99"))),
    "1%50ms": (("--delay", "choice(99% 0ms, 1% 50ms)"), (("p50", 0, "p50"), ("p99.9", 50_000, "p90"))),
}
CONNECTIONS = 100
# The stall: rate, seconds of load, seconds stopped; requests and then seconds of traffic before it.
STALL_RATE, STALL_LOAD, STALL, STALL_AFTER, STALL_WAIT = 1_000, 8, 1.0, 500, 1.0


class Ping(Tool):
    """The bare round trip, as one of the contenders; `delayed` at the upstream in question, else at one without a delay."""

    def __init__(self, name, bare=None):
        self.name, self.bare = name, bare

    def open(self, url, rate, connections, seconds):
        address = (self.bare or url).removeprefix("http://").rstrip("/")
        return [sys.executable, Path(__file__).with_name("ping.py"), address, rate, seconds], {}

    def times(self, ran):
        return json.loads(ran.text)


def turn(tool, server, rate, seconds, connections=CONNECTIONS):
    """One turn: what the tool says, the rate at which the upstream was asked, steal."""
    before = server.count()[0]
    command, environment = tool.open(server.url, rate, connections, seconds)
    disturbance = Disturbance()
    ran = client(command, environment, limit=30 + 3 * seconds, watch=lambda _: (time.monotonic(), server.count()[0]))
    disturbed = disturbance.told(ran.cpu)
    said, served = understood(tool.times, ran), server.count()[0] - before
    return {**said, "claimed_rate": said["rate"], "rate": middle_rate(ran.samples, before, served) or said["rate"],
            "served": served, "cpu_s": ran.cpu, **disturbed}


def middle_rate(samples, before, served):
    """Requests per second by the upstream's ledger, over the middle of a turn: from a fifth to four fifths of its requests.

    So no tool's rate suffers from how it begins (fortio staggers its connections) or what it does at its end.
    """
    middle = [sample for sample in samples if 0.2 * served <= sample[1] - before <= 0.8 * served]
    if len(middle) < 2:
        return None
    seconds, requests = (b - a for a, b in zip(middle[0], middle[-1]))
    return requests / seconds


def errors(turns, name, wanted):
    """{percentile: what the tool found less the delay and the bare round trip, µs}, of one round."""
    return {at: turns[name][at] - delay - turns["bare"][beside] for at, delay, beside in wanted}


def rate_error(said, rate):
    """How far the achieved rate is from the asked one, %."""
    return 100 * (said["rate"] / rate - 1)


def rounds_of(record, arguments, contenders, server, rate, seconds, connections=CONNECTIONS, one=turn):
    """Every contender once per round, and what failed."""
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
        lag = "not told" if None in lags else ", ".join(spread([lag[at] for lag in lags], 1) for at in ("p50", "p99"))
        found[name] = {"rate_error_percent": summary(rates), "error_us": {at: summary(off[at]) for at in off}}
        # The ping is no load generator: it has one connection and no rate to keep.
        rows.append([name, "" if name == "ping" else spread(rates, 3), *(spread(off[at], 1) for at in off),
                     *(spread(of(at), 1) for at in off), "" if name == "ping" else lag, spread(of("steal"), 1), spread(of("others"), 1)])
    bare_p50, bare_p99 = ([turns["bare"][at] for turns in rounds if "bare" in turns] for at in ("p50", "p99"))
    record.say(f"\n{rate:,}/s, delay {delay}, {len(rounds)} rounds of {arguments.seconds} s ({time.monotonic() - begun:.0f} s); "
               f"bare round trip p50 {spread(bare_p50, 1)}, p99 {spread(bare_p99, 1)} µs\n{table(rows)}")
    tell(record, failures)
    record.add({"what": "delay", "rate": rate, "delay": delay, "percentiles": [at for at, *_ in wanted],
                "connections": CONNECTIONS, "found": found, "failures": failures, "rounds": rounds})


def tell(record, failures):
    for name, said in failures.items():
        record.say(f"  {name} failed {len(said)} times: {said[0]}")


def long_run(record, arguments, bare):
    """The achieved rate, all of it from beginning to end, and the send lag at 5,000/s over 30 s."""
    rate, seconds = 5_000, arguments.long
    rounds, failures = rounds_of(record, arguments, (HOPTAX_TOOL,), bare, rate, seconds)
    said = [turns["hoptax"] for turns in rounds if "hoptax" in turns]
    off = [rate_error({"rate": turn_["claimed_rate"]}, rate) for turn_ in said]
    lag = {at: [turn_["send_lag"][at] for turn_ in said] for at in ("p50", "p99", "max")}
    record.say(f"\nhoptax at 5,000/s over {seconds} s, {len(said)} times: rate error {spread(off, 4)} %; send lag p50 "
               f"{spread(lag['p50'], 1)}, p99 {spread(lag['p99'], 1)}, most {spread(lag['max'], 0)} µs; steal "
               f"{spread([turn_['steal'] for turn_ in said], 1)} %, others on its CPU {spread([turn_['others'] for turn_ in said], 1)} %")
    tell(record, failures)
    record.add({"what": "long", "rate": rate, "seconds": seconds, "rate_error_percent": summary(off),
                "send_lag_us": {at: summary(lag[at]) for at in lag}, "failures": failures, "rounds": rounds})


class Stall(threading.Thread):
    """Stops a server of ours for a while, once requests have flowed for long enough; `lasted` is how long it truly was."""

    def __init__(self, server, connections):
        super().__init__(daemon=True)
        # One request per connection may be a tool's warm-up.
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
    """One turn with a stall in it; what was found beside the arithmetic, µs."""
    stall = Stall(server, connections)
    # The ledger is asked by the thread alone from here on, until it has ended.
    command, environment = tool.open(server.url, rate, connections, seconds)
    disturbance = Disturbance()
    stall.start()
    try:
        ran = client(command, environment, limit=60)
        disturbed = disturbance.told(ran.cpu)
    finally:
        stall.join(60)
    said = understood(tool.times, ran)
    length = stall.lasted
    if length is None:
        raise Failed("was not stalled: the upstream did not tell its count")
    due = {at: max(0.0, length - (1 - share) * seconds) * 1e6 for at, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    due["mean"] = length ** 2 / 2 / seconds * 1e6
    # Late requests wait half the stall on average, so the mean tells how many a tool has seen: independent of its buckets.
    late = said["mean"] * said["count"] / (length / 2 * 1e6)
    return {**said, "stall_s": length, "due": due, "late": late, **disturbed}


def stall_point(record, arguments, tools, connections):
    begun = time.monotonic()
    with upstream() as server:
        rounds, failures = rounds_of(record, arguments, tools, server, STALL_RATE, STALL_LOAD, connections, stalled)
    rows = [["tool", "p50 ms", "p90 ms (due)", "p99 ms (due)", "p99 off %", "late requests (due 1,000)", "rate error %"]]
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
    tell(record, failures)
    record.add({"what": "stall", "connections": connections, "found": found, "failures": failures, "rounds": rounds})


def main():
    parser = options(__doc__, rounds=7, seconds=3)
    parser.add_argument("--rates", default=",".join(map(str, RATES)), help="per second, with commas; or none")
    parser.add_argument("--delays", default=",".join(DELAYS), help="of %(default)s")
    parser.add_argument("--long", type=int, default=30, help="seconds of the run at 5,000/s; 0: none")
    parser.add_argument("--stalls", default="100,2000", help="connections under a stall, with commas; or none")
    arguments = parser.parse_args()
    numbers = lambda text: [] if text == "none" else [int(number) for number in text.split(",")]
    record = Record("rate-accuracy", "Rate accuracy and lateness against a known delay: hoptax load and its peers, one CPU each",
                    arguments, [tool for tool in OPEN if tool.path])
    tools = present((HOPTAX_TOOL, *OPEN), arguments.tools, record.say)
    with upstream() as bare:
        for rate in numbers(arguments.rates):
            for delay in arguments.delays.split(","):
                point(record, arguments, tools, bare, rate, delay)
        if arguments.long:
            long_run(record, arguments, bare)
    # Where times go up to a second, fortio's buckets of 10 µs have become coarser than those that begin with 1 ms.
    tools = [Fortio("0.001") if isinstance(tool, Fortio) else tool for tool in tools]
    for connections in numbers(arguments.stalls):
        stall_point(record, arguments, tools, connections)


if __name__ == "__main__":
    main()
