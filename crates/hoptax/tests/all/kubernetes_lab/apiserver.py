#!/usr/bin/env python3
"""Fake kube-apiserver: accepts its flags, requires client certificates as it does, and stores the names it received."""

import http.server
import os
import re
import ssl
import sys

flags = dict(zip(sys.argv[1:], sys.argv[2:]))
names = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, status, body=""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        self.answer(200, " ".join(sorted(names)[i] for i in (0, -1)) if self.path == "/names" else "ok")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path.endswith("/configmaps"):
            assert 800 < len(body) < 1100, body
        names.add(f"{self.path}:{re.search('name: ([a-z0-9-]+)', body)[1]}")
        self.answer(201, f"{len(names)}")

    def log_message(self, *_):
        pass


if os.environ.get("FAKE_APISERVER") == "broken":
    sys.exit("the flag --no-such-flag is unknown")
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(flags["--tls-cert-file"], flags["--tls-private-key-file"])
tls.load_verify_locations(flags["--client-ca-file"])
tls.verify_mode = ssl.CERT_REQUIRED
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(flags["--secure-port"])), Handler)
server.socket = tls.wrap_socket(server.socket, server_side=True)
with open(os.path.join(os.environ["FAKE_PIDS"], "kube-apiserver"), "w") as file:
    file.write(str(os.getpid()))
server.serve_forever()
