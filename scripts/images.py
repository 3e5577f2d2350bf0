#!/usr/bin/env python3
"""Takes the pictures of docs/images again, in light and dark, from real runs.

    scripts/images.py HOPTAX RESULTS REPORT_RUN

RESULTS is a directory with several runs of one plan, for history, comparison and trends. The picture of the report
shows the run REPORT_RUN. The script measures another short run for the live view. It needs Chromium.
"""
import base64
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))
from chromium import Browser  # noqa: E402

IMAGES = ROOT / "docs/images"
WIDTH, HEIGHT = 1440, 900
LIVE_PLAN = """name: live
gateways: [nginx, haproxy, envoy]
load: [{ loop: open, rate: 1000/s, connections: 16, duration: 15s }]
trials: 3
"""


def shoot(browser, address, name):
    """Saves a page's first screen as `NAME-light.png` and `NAME-dark.png`."""
    session, target = browser.page()
    for scheme in ("light", "dark"):
        browser.call("Emulation.setDeviceMetricsOverride", session, width=WIDTH, height=HEIGHT, deviceScaleFactor=1,
                     mobile=False)
        browser.call("Emulation.setEmulatedMedia", session,
                     features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.call("Page.navigate", session, url=address)
        # Wait until the animations of the charts have ended.
        time.sleep(2)
        data = browser.call("Page.captureScreenshot", session, format="png")["data"]
        (IMAGES / f"{name}-{scheme}.png").write_bytes(base64.b64decode(data))
        print(f"{name}-{scheme}.png: {address}")
    browser.call("Target.closeTarget", targetId=target)


def started(command, pattern):
    """Starts a command and returns it with the address that it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        found = re.search(pattern, line)
        if found:
            return process, found.group(1)
    raise SystemExit(f"{command} printed no address")


def listed(address):
    """Waits until the server has analysed all runs, and returns them."""
    while True:
        with urllib.request.urlopen(f"{address}/api/v1/runs") as answer:
            answer = json.load(answer)
        if not answer["pending"]:
            return answer["runs"]
        time.sleep(0.5)


def main():
    hoptax, results, report = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        browser = Browser(f"{scratch}/profile")
        server, address = started([hoptax, "serve", results, "--read-only", "--listen", "127.0.0.1:0"], r"(http://[^/\s]+)")
        try:
            shoot(browser, Path(report, "report.html").resolve().as_uri(), "report")
            runs = listed(address)
            shoot(browser, f"{address}/", "history-laptop")
            plans = [run["name"] for run in runs]
            plan = max(set(plans), key=plans.count)
            newest = next(run for run in runs if run["name"] == plan)
            gateways = [gateway["label"] for gateway in newest["contenders"] if gateway["label"] != "direct"]
            compared = f"a={newest['id']}&label_a={gateways[0]}&label_b={gateways[1]}"
            shoot(browser, f"{address}/compare?{compared}", "compare-laptop")
            shoot(browser, f"{address}/trends?name={plan}&gateway={gateways[-1]}&metric=added_p50", "trends-laptop")
        finally:
            server.terminate()
            server.wait()
        plan_file = Path(scratch, "live.yaml")
        plan_file.write_text(LIVE_PLAN)
        run, address = started([hoptax, "run", str(plan_file), "--serve", "--no-live", "--accept-void", "--out",
                                f"{scratch}/out"], r"(http://\S+/live\S*)")
        try:
            # Wait long enough that the second trial has been measured.
            time.sleep(32)
            shoot(browser, address, "live-laptop")
        finally:
            run.terminate()
            run.communicate()
            browser.close()


if __name__ == "__main__":
    main()
