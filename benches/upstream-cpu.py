#!/usr/bin/env python3
"""CPU time per request of `hoptax upstream` and of nginx `return 200` with one worker: same client (wrk), same CPU, in turns.

The server counts the requests. The server's CPU clock is read before and after each turn.
"""

from common import Disturbance, Record, client, cpu_clock, options, spread, summary, table
from peers import Wrk
from servers import nginx, upstream

WRK = Wrk()


def turn(server, url, connections, seconds):
    """Measures one turn. Returns the server's CPU time per request (µs), requests per second, and disturbances."""
    requests, cpu, disturbance = server.count()[0], cpu_clock(server.pid), Disturbance()
    ran = client(*WRK.closed(url, connections, seconds))
    disturbed = disturbance.shares(ran.cpu)
    used, done = cpu_clock(server.pid) - cpu, server.count()[0] - requests
    return {"cpu_us": used / done * 1e6, "rate": done / ran.wall, **disturbed}


def main():
    arguments = options(__doc__, rounds=7, seconds=3).parse_args()
    if not WRK.path:
        raise SystemExit(f"this benchmark needs wrk; install it with: {WRK.get}")
    record = Record("upstream-cpu", "CPU per request of the server: hoptax upstream against nginx `return 200`, loaded by wrk",
                    arguments, [WRK])
    for size in (64, 1024):
        with nginx(size) as theirs, upstream("--body", f"{size}B") as ours:
            servers = {"hoptax upstream": (ours, ours.url), "nginx": (theirs, theirs.url("http"))}
            for connections in (1, 100):
                rounds = [{name: turn(*servers[name], connections, arguments.seconds) for name in record.shuffled(servers)}
                          for _ in range(arguments.rounds)]
                rows = [["server", "CPU µs/request", "requests/s", "steal %"]]
                for name in servers:
                    rows.append([name, *(spread([turns[name][of] for turns in rounds], digits)
                                         for of, digits in (("cpu_us", 2), ("rate", 0), ("steal", 1)))])
                over = [turns["nginx"]["cpu_us"] / turns["hoptax upstream"]["cpu_us"] for turns in rounds]
                record.say(f"\n{size} B, {connections} connections, {len(rounds)} rounds: nginx / hoptax {spread(over)}\n"
                           f"{table(rows)}")
                record.add({"body": size, "connections": connections, "nginx_over_hoptax": summary(over), "rounds": rounds})


if __name__ == "__main__":
    main()
