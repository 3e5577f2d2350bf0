"""Servers of the benchmarks: nginx and nghttpd with one worker, and `hoptax upstream`, each plain and with TLS.

All count their requests, except nghttpd.
"""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from common import HOPTAX, SERVER_CPU, Failed, find, pinned, stop

# One version, one cipher, one group and no tickets, so that all clients use the same cryptography.
TLS = """ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem; ssl_protocols TLSv1.3; ssl_ecdh_curve X25519;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; ssl_session_tickets off; ssl_session_cache off;"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on 127.0.0.1:{port}")


def ask(connection, path):
    """Body of a response to GET on a persistent connection. After a failure, the next call opens a new connection."""
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    except (OSError, http.client.HTTPException) as failure:
        connection.close()
        raise Failed(f"the server did not report its count: {failure!r}") from failure


def identity(directory):
    """Writes `cert.pem` and `key.pem` for 127.0.0.1 into a directory."""
    subprocess.run([find("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", directory / "key.pem", "-out", directory / "cert.pem"], check=True, capture_output=True)


class Nginx:
    """A running nginx, with its URLs (`url("http")`, `url("https")`), its `pid` and its counts."""

    def __init__(self, ports, status, pid):
        self.ports = ports
        self.status, self.pid, self.asked = http.client.HTTPConnection("127.0.0.1", status, timeout=20), pid, 0

    def url(self, scheme, http2=False):
        return f"{scheme}://127.0.0.1:{self.ports[scheme, http2]}/b"

    def count(self):
        """(requests, accepted connections, open connections) from stub_status, without the requests of this program."""
        self.asked += 1
        fields = ask(self.status, "/").split()
        # stub_status prints `Active connections: A`, then `server accepts handled requests`, then the three numbers.
        # One of the connections is our own.
        return int(fields[9]) - self.asked, int(fields[7]) - 1, int(fields[2]) - 1


@contextlib.contextmanager
def nginx(size, cpu=SERVER_CPU, requests=1_000_000_000):
    """nginx with one worker. /b has a body of `size` bytes. Above 1 KiB, the body is a file in memory.

    nginx ends a connection after `requests` requests.
    """
    directory = Path(tempfile.mkdtemp(prefix="hoptax-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    plain, tls, plain2, tls2, status = (free_port() for _ in range(5))
    (directory / "body").write_text("x" * size)
    answer = f'return 200 "{"x" * size}";' if size <= 1024 else f"alias {directory}/body;"
    identity(directory)
    temporary = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in
                         ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (directory / "nginx.conf").write_text(f"""
{"user root;" if os.getuid() == 0 else ""} daemon off; master_process off; worker_processes 1;
pid {directory}/nginx.pid; error_log {directory}/error.log;
events {{ worker_connections 18000; }}
http {{
    access_log off; keepalive_requests {requests}; keepalive_timeout 1h; default_type text/plain; {temporary}
    http2_max_concurrent_streams 1000; sendfile on; tcp_nopush on; open_file_cache max=16; etag off;
    server {{
        listen 127.0.0.1:{plain} backlog=4096; listen 127.0.0.1:{tls} ssl backlog=4096;
        listen 127.0.0.1:{plain2} http2 backlog=4096; listen 127.0.0.1:{tls2} ssl http2 backlog=4096;
        {TLS.format(directory)}
        location = /b {{ {answer} }}
    }}
    server {{ listen 127.0.0.1:{status}; location / {{ stub_status; }} }}
}}
""")
    with (directory / "startup.log").open("w") as log:
        server = subprocess.Popen([find("nginx"), "-p", directory, "-c", directory / "nginx.conf",
                                   "-e", directory / "error.log"], preexec_fn=pinned(cpu), stderr=log)
    try:
        wait_for(plain)
        ports = {("http", False): plain, ("https", False): tls, ("http", True): plain2, ("https", True): tls2}
        yield Nginx(ports, status, server.pid)
    finally:
        stop(server)
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def proxy(upstream, cpu=SERVER_CPU):
    """nginx, which passes on requests to an address and keeps nothing back. Yields (address, pid of the master).

    It has two workers, because a stream takes two descriptors and some machines allow a process 20,000.
    """
    directory, port = Path(tempfile.mkdtemp(prefix="hoptax-bench-")), free_port()
    temporary = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in
                         ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (directory / "nginx.conf").write_text(f"""
{"user root;" if os.getuid() == 0 else ""} daemon off; worker_processes 2;
pid {directory}/nginx.pid; error_log {directory}/error.log; events {{ worker_connections 19000; }}
http {{
    access_log off; {temporary}
    upstream model {{ server {upstream}; keepalive 20000; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=16384 reuseport; keepalive_requests 1000000;
        location / {{ proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
                      proxy_connect_timeout 60s; proxy_read_timeout 120s; }}
    }}
}}
""")
    with (directory / "startup.log").open("w") as log:
        server = subprocess.Popen([find("nginx"), "-p", directory, "-c", directory / "nginx.conf",
                                   "-e", directory / "error.log"], preexec_fn=pinned(cpu), stderr=log)
    try:
        wait_for(port)
        yield f"127.0.0.1:{port}", server.pid
    finally:
        stop(server)
        shutil.rmtree(directory, ignore_errors=True)


class Nghttpd:
    """A running nghttpd with its URLs. It speaks only HTTP/2, and does not count its requests."""

    count = None

    def __init__(self, ports):
        self.ports = ports

    def url(self, scheme, http2=True):
        return f"{scheme}://127.0.0.1:{self.ports[scheme]}/b"


@contextlib.contextmanager
def nghttpd(size, cpu=SERVER_CPU):
    """nghttpd with one worker: a process without TLS and one with TLS. /b has a body of `size` bytes."""
    if not find("nghttpd"):
        raise SystemExit("nghttpd is not installed; install it with: apt install nghttp2-server")
    with tempfile.TemporaryDirectory(prefix="hoptax-bench-") as below, contextlib.ExitStack() as stack:
        directory, ports = Path(below), {"http": free_port(), "https": free_port()}
        (directory / "b").write_text("x" * size)
        identity(directory)
        for last in (["--no-tls", ports["http"]], [ports["https"], directory / "key.pem", directory / "cert.pem"]):
            command = [find("nghttpd"), "-a", "127.0.0.1", "-n", 1, "-m", 1000, "-d", directory, *last]
            server = subprocess.Popen(list(map(str, command)), preexec_fn=pinned(cpu), stdout=subprocess.DEVNULL)
            stack.callback(stop, server)
        for port in ports.values():
            wait_for(port)
        yield Nghttpd(ports)


class Upstream:
    """A running `hoptax upstream`, with its `url`, its `pid` and its ledger."""

    def __init__(self, ready, pid):
        self.ready, self.address, self.pid = ready, ready["instances"][0], pid
        self.url = f"http://{self.address}/"
        self.control = http.client.HTTPConnection(ready["control"], timeout=20)

    def count(self):
        """(requests, accepted connections, open connections) from the ledger."""
        instance = json.loads(ask(self.control, "/ledger"))["instances"][0]
        return instance["requests"], instance["connections"], instance["open"]


@contextlib.contextmanager
def upstream(*arguments, cpu=SERVER_CPU, program=HOPTAX, environment=None):
    """Runs `hoptax upstream` with these options."""
    server = subprocess.Popen([program, "upstream", *arguments], preexec_fn=pinned(cpu), stdout=subprocess.PIPE,
                              env={**os.environ, **(environment or {})})
    try:
        yield Upstream(json.loads(server.stdout.readline()), server.pid)
    finally:
        stop(server)


@contextlib.contextmanager
def hoptax(size, cpu=SERVER_CPU):
    """`hoptax upstream`, plain and with TLS. Its `url` is a function, as nginx's."""
    with tempfile.TemporaryDirectory(prefix="hoptax-bench-") as below:
        identity(Path(below))
        pem = "".join(Path(below, name).read_text() for name in ("cert.pem", "key.pem"))
        with upstream("--body", f"{size}B", "--tls", cpu=cpu, environment={"HOPTAX_UPSTREAM_IDENTITY": pem}) as server:
            addresses = {"http": server.address, "https": server.ready["tls_instances"][0]}
            server.url = lambda scheme, http2=False: f"{scheme}://{addresses[scheme]}/"
            yield server


SERVERS = {"nginx": nginx, "nghttpd": nghttpd, "hoptax": hoptax}
