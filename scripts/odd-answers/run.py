#!/usr/bin/env python3
"""Sends odd answers to curl, nginx, HAProxy, Envoy and hoptax, and prints which of them accept each.

    scripts/odd-answers/run.py [HOPTAX]    HOPTAX is the binary [default: target/debug/hoptax]

A server sends the answers in answers.txt and closes the connection. curl and `hoptax load` request them from the server, and
curl requests them from each gateway. An answer is accepted if the client gets status 200 and the body `ok`.
docs/reference/odd-answers.md has the result, and crates/hoptax-wire/tests/odd_answers.rs holds hoptax to it.
"""
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOPTAX = sys.argv[1] if len(sys.argv) > 1 else str(HERE.parent.parent / "target/debug/hoptax")
ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "0": "\0"}


def unescaped(text):
    """The bytes that a line of answers.txt describes."""
    repeat = re.compile(r"\[(\d+)\*((?:[^\[\]]|\[[^\[\]]*\])*)\]")
    while repeat.search(text):
        text = repeat.sub(lambda match: int(match[1]) * match[2], text)
    escape = re.compile(r"\\(?:x(..)|(.))")
    text = escape.sub(lambda match: chr(int(match[1], 16)) if match[1] else ESCAPES[match[2]], text)
    return text.encode("latin-1")


def answers():
    lines = (HERE / "answers.txt").read_text().splitlines()
    pairs = [line.split("\t", 1) for line in lines if line and not line.startswith("#")]
    return [(name, unescaped(text)) for name, text in pairs]


def serve(listener, all_answers):
    """Answers `GET /N` with answer number N. Waits until the client has closed, so that no reset cuts the answer off."""
    def one(connection):
        with connection:
            connection.settimeout(5)
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(4096)
                if not piece:
                    return
                head += piece
            connection.sendall(all_answers[int(head.split()[1].strip(b"/"))][1])
            connection.shutdown(socket.SHUT_WR)
            try:
                while connection.recv(4096):
                    pass
            except OSError:
                pass

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=one, args=(connection,), daemon=True).start()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}")


def nginx(port, upstream, folder):
    (folder / "nginx.conf").write_text(f"""
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; events {{ }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{upstream};
    proxy_http_version 1.1; proxy_set_header connection ""; }} }} }}""")
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def haproxy(port, upstream, folder):
    (folder / "haproxy.cfg").write_text(f"""
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  server s 127.0.0.1:{upstream}
""")
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


def envoy(port, upstream, folder):
    address = lambda port: {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    route = {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
        {"match": {"prefix": "/"}, "route": {"cluster": "c"}}]}]}
    manager = {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
                        ".HttpConnectionManager", "stat_prefix": "s", "route_config": route, "http_filters": [
        {"name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}
    config = {"static_resources": {
        "listeners": [{"address": address(port), "filter_chains": [{"filters": [
            {"name": "m", "typed_config": manager}]}]}],
        "clusters": [{"name": "c", "connect_timeout": "5s", "load_assignment": {"cluster_name": "c", "endpoints": [
            {"lb_endpoints": [{"endpoint": {"address": address(upstream)}}]}]}}]}}
    (folder / "envoy.json").write_text(json.dumps(config))
    binary = shutil.which("envoy") or next(
        (Path.home() / ".local/share/hoptax/tools").rglob("_bin/envoy"), "envoy")
    return [str(binary), "-c", str(folder / "envoy.json"), "--concurrency", "1", "--use-dynamic-base-id"]


def curl_accepts(url):
    done = subprocess.run(["curl", "-s", "-m", "8", "-o", "-", "-w", "%{http_code}", url], capture_output=True)
    return done.returncode == 0 and done.stdout == b"ok200"


def hoptax_accepts(url):
    words = ["load", url, "-n", "1", "-c", "1", "--timeout", "5s", "--json", "--expect-body-equals", "ok"]
    done = subprocess.run([HOPTAX, *words], capture_output=True)
    return done.returncode == 0 and json.loads(done.stdout)["counts"]["ok"] == 1


def print_rows(rows, heads):
    """Prints the answers that all accept, those that none accepts, and a table of the others."""
    print("All accept: " + "; ".join(name for name, cells in rows if all(cells)) + ".\n")
    print("None accepts: " + "; ".join(name for name, cells in rows if not any(cells)) + ".\n")
    print("| " + " | ".join(heads) + " |")
    print("| --- |" + " --- |" * (len(heads) - 1))
    for name, cells in rows:
        if any(cells) and not all(cells):
            print(f"| {name} | " + " | ".join("yes" if accepted else "no" for accepted in cells) + " |")


def main():
    all_answers = answers()
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    upstream = listener.getsockname()[1]
    threading.Thread(target=serve, args=(listener, all_answers), daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        gateways = {}
        for name, prepare in [("nginx", nginx), ("HAProxy", haproxy), ("Envoy", envoy)]:
            port = free_port()
            words = prepare(port, upstream, folder)
            log = (folder / f"{name}.log").open("w")
            gateways[name] = (port, subprocess.Popen(words, stdout=log, stderr=log))
            wait_for(port)
        rows = []
        for number, (name, _) in enumerate(all_answers):
            cells = [curl_accepts(f"http://127.0.0.1:{upstream}/{number}")]
            cells += [curl_accepts(f"http://127.0.0.1:{port}/{number}") for port, _ in gateways.values()]
            cells += [hoptax_accepts(f"http://127.0.0.1:{upstream}/{number}")] if Path(HOPTAX).exists() else []
            rows.append((name, cells))
        print_rows(rows, ["answer", "curl", *gateways, "hoptax"])
        for _, process in gateways.values():
            process.terminate()
            process.wait()


main()
