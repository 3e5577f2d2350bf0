#!/usr/bin/env python3
"""CPU time per request of `hoptax upstream` and of nginx `return 200` with one worker: same client, same CPU, in turns.

The client is wrk, or with `--streams`, over HTTP/2, h2load. The server counts the requests. The server's CPU clock is
read before and after each turn.
"""

from common import Disturbance, Record, client, cpu_clock, options, spread, summary, table
from peers import H2load, Wrk
from servers import nginx, upstream


def turn(server, load):
    """Runs this client once. Returns the server's CPU time per request (µs), requests per second, and disturbances."""
    requests, cpu, disturbance = server.count()[0], cpu_clock(server.pid), Disturbance()
    ran = client(*load)
    disturbed = disturbance.shares(ran.cpu)
    used, done = cpu_clock(server.pid) - cpu, server.count()[0] - requests
    return {"cpu_us": used / done * 1e6, "rate": done / ran.wall, **disturbed}


def main():
    parser = options(__doc__, rounds=7, seconds=3)
    parser.add_argument("--streams", type=int, help="measure HTTP/2 with this many streams per connection")
    arguments = parser.parse_args()
    streams, tool = arguments.streams, H2load() if arguments.streams else Wrk()
    if not tool.path:
        raise SystemExit(f"this benchmark needs {tool.name}; install it with: {tool.get}")
    record = Record("upstream-cpu", f"CPU per request of the server: hoptax upstream against nginx `return 200`, loaded by {tool.name}",
                    arguments, [tool])
    load = lambda url, connections: (tool.multiplexed(url, connections, streams, arguments.seconds) if streams
                                     else tool.closed(url, connections, arguments.seconds))
    for size in (64, 1024):
        with nginx(size) as theirs, upstream("--body", f"{size}B") as ours:
            servers = {"hoptax upstream": (ours, ours.url), "nginx": (theirs, theirs.url("http", http2=bool(streams)))}
            for connections in (1, 100):
                rounds = [{name: turn(servers[name][0], load(servers[name][1], connections)) for name in record.shuffled(servers)}
                          for _ in range(arguments.rounds)]
                rows = [["server", "CPU µs/request", "requests/s", "steal %"]]
                for name in servers:
                    rows.append([name, *(spread([turns[name][of] for turns in rounds], digits)
                                         for of, digits in (("cpu_us", 2), ("rate", 0), ("steal", 1)))])
                over = [turns["nginx"]["cpu_us"] / turns["hoptax upstream"]["cpu_us"] for turns in rounds]
                multiplexed = f" × {streams} streams (HTTP/2)" if streams else ""
                record.say(f"\n{size} B, {connections} connections{multiplexed}, {len(rounds)} rounds: nginx / hoptax {spread(over)}\n"
                           f"{table(rows)}")
                record.add({"body": size, "connections": connections, "streams": streams, "nginx_over_hoptax": summary(over),
                            "rounds": rounds})


if __name__ == "__main__":
    main()
