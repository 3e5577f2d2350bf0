#!/usr/bin/env python3
"""Cost of the upstream's timestamps (`path_split: on` against `off`): CPU µs per request of generator, upstream and hop-l7.

The same plan runs with and without timestamps, in random order. Each pair of runs gives a difference.
"""

import json
import subprocess
import tempfile
from pathlib import Path

from common import HOPTAX, Record, options, spread, summary, table

PLAN = """name: stamps
gateways: [hop-l7]
load: [{{ loop: closed, connections: {connections}, duration: {seconds}s }}]
trials: 1
warmup: 300ms
path_split: {split}
"""
COLUMNS = [("direct", "generator"), ("direct", "upstream"), ("hop-l7", "generator"), ("hop-l7", "upstream"), ("hop-l7", "gateway")]


def run(split, connections, seconds):
    """CPU time per request of each case and role, µs."""
    with tempfile.TemporaryDirectory(prefix="hoptax-bench-") as out:
        plan = Path(out) / "plan.yaml"
        plan.write_text(PLAN.format(split=split, connections=connections, seconds=seconds))
        subprocess.run([HOPTAX, "run", plan, "--out", out, "--accept-void"], check=True, capture_output=True)
        directory = next(path.parent for path in Path(out).glob("*/run.json"))
        report = json.loads(subprocess.run([HOPTAX, "report", directory, "--format", "json"], check=True, capture_output=True).stdout)
    cases = {case["gateway"]: case["cpu"] for case in report["cases"]}
    return {f"{case} {role}": cases[case][f"{role}_us_per_request"] for case, role in COLUMNS}


def main():
    arguments = options(__doc__, rounds=7, seconds=2).parse_args()
    record = Record("stamps-cpu", "CPU per request with the upstream's stamps and without, by role", arguments, [])
    for connections in (1, 32):
        rounds = [{split: run(split, connections, arguments.seconds) for split in record.shuffled(["off", "on"])}
                  for _ in range(arguments.rounds)]
        rows = [["case, role", "off", "on", "on − off"]]
        for name in rounds[0]["on"]:
            more = [pair["on"][name] - pair["off"][name] for pair in rounds]
            rows.append([name, *(spread([pair[split][name] for pair in rounds]) for split in ("off", "on")), spread(more)])
            record.add({"connections": connections, "of": name, "more_us": summary(more)})
        record.say(f"\n{connections} connections, {len(rounds)} rounds, CPU µs/request\n{table(rows)}")


if __name__ == "__main__":
    main()
