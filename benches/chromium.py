"""Headless Chromium, controlled through its debugging pipe."""

import json
import os
import subprocess

FLAGS = ("--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
         "--disable-component-update --disable-sync --window-size=1440,900 --remote-debugging-pipe").split()


class Browser:
    """A running Chromium."""

    def __init__(self, profile):
        ask_end, self.asking = os.pipe()
        self.telling, tell_end = os.pipe()

        def join_pipe():
            # Duplicate both ends first, because one end may already have the descriptor number that the other end
            # needs.
            ends = [os.dup(end) for end in (ask_end, tell_end)]
            for place, end in zip((3, 4), ends):
                os.dup2(end, place)

        command = [os.environ.get("CHROMIUM", "chromium"), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # Chromium's temporary files go into its profile directory and are removed with it.
        places = {"HOME": profile, "TMPDIR": profile}
        self.process = subprocess.Popen(command, preexec_fn=join_pipe, close_fds=False, env={**os.environ, **places},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ask_end)
        os.close(tell_end)
        self.number, self.rest = 0, b""

    def message(self):
        while b"\0" not in self.rest:
            part = os.read(self.telling, 1 << 16)
            if not part:
                raise SystemExit("Chromium ended: is it installed?")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.asking, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def page(self):
        """Opens an empty page; returns its session and its id."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"], target

    def ask(self, session, expression):
        """Evaluates an expression in the page, and waits for promises."""
        answer = self.call("Runtime.evaluate", session, expression=expression, awaitPromise=True, returnByValue=True)
        return answer.get("result", {}).get("value")

    def close(self):
        self.process.kill()
        self.process.wait()
