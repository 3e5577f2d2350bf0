#!/usr/bin/env python3
"""Time that Chromium needs to open a report of 24 cases, until the report can be read and used.

Each time is compared with the time for a text-only page of the same size, which shows the browser's own share. Wall
time depends on other work on the machine; the CPU time of the page's main thread does not.

    benches/report-page.py [--hoptax target/release/hoptax] [--rounds 11] [--run DIR]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from chromium import Browser

PLAN = """
name: page
gateways: [nginx, haproxy, { name: hop-l7, label: hop }]
load: [{ loop: open, rate: 500/s, connections: [1, 2, 4, 8, 16, 32], duration: 1s }]
trials: 5
warmup: 100ms
"""


def opened(browser, file):
    """Seconds until the page is ready: wall time, and CPU time of its main thread."""
    session, target = browser.page()
    browser.call("Performance.enable", session, timeDomain="threadTicks")
    browser.call("Page.enable", session)
    before = busy(browser, session)
    browser.call("Page.navigate", session, url=file.as_uri())
    ready = ("new Promise((done) => { const look = () => { const at = performance.getEntriesByType('navigation')[0]"
             ".domContentLoadedEventEnd; at ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))"
             " : setTimeout(look, 5); }; look(); })")
    wall = None
    while not isinstance(wall, (int, float)):
        wall = browser.ask(session, ready)
    took = busy(browser, session) - before
    browser.call("Target.closeTarget", targetId=target)
    return wall / 1000, took


def busy(browser, session):
    metrics = browser.call("Performance.getMetrics", session)["metrics"]
    return next(one["value"] for one in metrics if one["name"] == "TaskDuration")


def made(hoptax, scratch, run):
    """Creates the report of a run of 24 cases, and a text-only page of the same size."""
    if run is None:
        (scratch / "plan.yaml").write_text(PLAN)
        command = [hoptax, "run", scratch / "plan.yaml", "--accept-void", "--out", scratch / "runs"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run = next((scratch / "runs").iterdir())
    report = scratch / "report.html"
    subprocess.run([hoptax, "report", run, "--format", "html", "--output", report], check=True)
    cases = len(json.loads(subprocess.check_output([hoptax, "report", run, "--format", "json"]))["cases"])
    plain = scratch / "plain.html"
    plain.write_text("<!doctype html><title>plain</title><!--" + "x" * report.stat().st_size + "--><p>text")
    return report, plain, cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hoptax", default="target/release/hoptax")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--run", help="a run directory (default: measure a run of 24 cases first, 90 s)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as profile:
        report, plain, cases = made(asked.hoptax, pathlib.Path(scratch), asked.run)
        browser = Browser(profile)
        try:
            opened(browser, plain)
            took = [(opened(browser, report), opened(browser, plain)) for _ in range(asked.rounds)]
        finally:
            browser.close()
        print(f"{cases} cases, {report.stat().st_size / 1e6:.2f} MB, {asked.rounds} openings, medians")
        for name, column in (("ready, wall", 0), ("main thread, CPU", 1)):
            ours = [pair[0][column] for pair in took]
            theirs = [pair[1][column] for pair in took]
            print(f"{name:18} {statistics.median(ours) * 1000:6.0f} ms ({min(ours) * 1000:.0f}–{max(ours) * 1000:.0f})"
                  f"   plain page {statistics.median(theirs) * 1000:4.0f} ms"
                  f"   ratio {statistics.median([a / b for a, b in zip(ours, theirs)]):.1f}")


if __name__ == "__main__":
    main()
