#!/usr/bin/env python3
"""Measures allocations per request in steady state, with a test that counts them, and records the result."""

import subprocess

from common import ROOT, Record, options

COMMAND = ["cargo", "test", "-p", "hoptax-load", "--locked", "--test", "allocations"]


def main():
    parser = options(__doc__, rounds=1, seconds=1)
    record = Record("allocations", "Allocations per request in steady state", parser.parse_args())
    ran = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, text=True)
    verdicts = [line for line in ran.stdout.splitlines() if line.startswith("test ")]
    passed = ran.returncode == 0 and any(line.endswith("... ok") for line in verdicts)
    record.say(f"{' '.join(COMMAND)}: {'passed' if passed else 'not passed'}\n" + "\n".join(f"  {line}" for line in verdicts))
    if not passed:
        record.say((ran.stdout + ran.stderr)[-2000:])
    record.add({"what": "allocations", "command": " ".join(COMMAND), "passed": passed, "tests": len(verdicts)})


if __name__ == "__main__":
    main()
