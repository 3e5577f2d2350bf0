#!/usr/bin/env python3
"""Takes the pictures of docs/images: report, history, comparison, trends and a run in progress.

Each picture is taken in light and dark, at the widths of a laptop and a phone. The script measures three gateways three
times, which takes about five minutes. Then it serves the results, and takes the pictures with Chromium.

    scripts/screenshots.py [--hoptax target/release/hoptax] [--results DIR] [--out docs/images]
"""

import argparse
import base64
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))
from chromium import Browser  # noqa: E402

WIDTHS = {"laptop": (1440, 900), "phone": (390, 844)}
PLAN = """
name: gateways
gateways: [nginx, haproxy, envoy]
load:
  - { loop: open, rate: 1000/s, arrivals: jitter, connections: [8, 32], duration: 2s }
  - { loop: closed, connections: 32, duration: 1s }
trials: 3
warmup: 500ms
"""
# The trials are long, so that the live view of a trial has several seconds to show.
LIVE = PLAN.replace("duration: 2s", "duration: 12s").replace("trials: 3", "trials: 1").replace("gateways", "under-way", 1)


def address(process, stream):
    """Address that the program printed, with the token that lets the browser in. Discards its other output."""
    for line in stream:
        found = re.search(r"http://\S+", line)
        if found:
            threading.Thread(target=lambda: [None for _ in stream], daemon=True).start()
            return found[0].rstrip("/")
    raise SystemExit(f"it ended with {process.wait()} and served nothing")


class Camera:
    def __init__(self, browser, out):
        self.browser, self.out = browser, out

    def take(self, name, url, ready="true"):
        """Takes pictures of the page at this address in every width and color scheme, once it is ready."""
        for width, (across, down) in WIDTHS.items():
            for scheme in ("light", "dark"):
                session, target = self.browser.page()
                self.browser.call("Emulation.setDeviceMetricsOverride", session, width=across, height=down,
                                  deviceScaleFactor=1, mobile=across < 600)
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                self.browser.call("Emulation.setEmulatedMedia", session, features=features)
                self.browser.call("Page.enable", session)
                self.browser.call("Page.navigate", session, url=url)
                look = ("(async () => { while (document.readyState !== 'complete' || !(" + ready + "))"
                        " await new Promise((done) => setTimeout(done, 50));"
                        " await new Promise((done) => setTimeout(done, 1500)); return true; })()")
                while self.browser.ask(session, look) is not True:
                    pass
                shot = self.browser.call("Page.captureScreenshot", session, format="png")
                file = self.out / f"{name}-{width}-{scheme}.png"
                file.write_bytes(base64.b64decode(shot["data"]))
                self.browser.call("Target.closeTarget", targetId=target)
                print(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)


def measured(hoptax, results, plan):
    """The run directories, oldest first. Measures until there are three."""
    while True:
        runs = sorted(one for one in results.iterdir() if (one / "run.json").is_file())
        if len(runs) >= 3:
            return runs
        subprocess.run([hoptax, "run", plan, "--accept-void", "--out", results], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hoptax", default=ROOT / "target/release/hoptax")
    parser.add_argument("--results", type=pathlib.Path, help="use these runs instead of measuring new ones")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/images")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as profile:
        scratch = pathlib.Path(scratch)
        results, plan = asked.results or scratch / "results", scratch / "plan.yaml"
        results.mkdir(exist_ok=True)
        plan.write_text(PLAN)
        runs = measured(asked.hoptax, results, plan)
        browser = Browser(profile)
        camera = Camera(browser, asked.out.resolve())
        served = subprocess.Popen([asked.hoptax, "serve", "--read-only", "--root", results, "--listen", "127.0.0.1:0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        under_way = None
        try:
            url = address(served, served.stdout)
            new = runs[-1].name
            page = "document.documentElement.dataset.ready !== undefined"
            camera.take("report", f"{url}/runs/{new}/report.html", page)
            camera.take("run", f"{url}/runs/{new}")
            camera.take("history", f"{url}/")
            # Compare two gateways of one run. Two runs of the same gateway would be similar, so the chart would be
            # nearly empty.
            chart = ("(document.getElementById('headline').scrollIntoView({ behavior: 'instant' }),"
                     " document.querySelector('#changes svg path'))")
            camera.take("compare", f"{url}/compare?a={new}&label_a=haproxy&label_b=envoy", chart)
            camera.take("trends", f"{url}/trends", "document.querySelector('svg path')")
            plan.write_text(LIVE)
            under_way = subprocess.Popen([asked.hoptax, "run", plan, "--accept-void", "--out", scratch / "live", "--serve"],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            url = address(under_way, under_way.stderr)
            # Wait until three trials have ended and the current trial has run for some time.
            seen = ("fetch('/api/v1/live').then((told) => told.json()).then((told) => told.trials_done >= 3"
                    " && told.trial.seconds.length > 4 && told.trial.seconds.length < 10)")
            camera.take("live", url, f"await ({seen})")
        finally:
            for process in filter(None, (served, under_way)):
                process.terminate()
                process.wait()
            browser.close()


if __name__ == "__main__":
    main()
