"""A network with a delay, between this network namespace and another one.

Usage: wire.py NAMESPACE NEAR FAR MILLISECONDS

Creates the TUN devices NEAR here and FAR in NAMESPACE, and carries each packet from one to the other after the delay. Prints
`ready` when both exist. Ends, and so removes both, when standard input ends. Not every kernel has `tc netem`. TCP windows in
NAMESPACE are small, so that a measurement of the bandwidth needs little CPU time here.
"""

import ctypes
import fcntl
import heapq
import os
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
CLONE_NEWNET = 0x40000000


def open_tun(name):
    """A TUN device of the current namespace: each read returns a packet that the kernel sends to it."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def enter(namespace):
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def limit_windows():
    """Limits the windows of TCP in the current namespace."""
    for name in ("tcp_rmem", "tcp_wmem"):
        try:
            with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as setting:
                setting.write("4096 16384 32768")
        except OSError:
            pass  # /proc/sys is read-only in some containers. Then only this program needs more CPU time.


def carry(one, other, delay):
    waiting, count = [], 0
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([one, other, sys.stdin], [], [], timeout)
        if sys.stdin in readable:
            return
        now = time.monotonic()
        for device in readable:
            to = other if device is one else one
            while True:
                try:
                    packet = os.read(device, 65536)
                except BlockingIOError:
                    break
                count += 1
                heapq.heappush(waiting, (now + delay, count, to, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(waiting)
            try:
                os.write(to, packet)
            except OSError:
                pass  # The device is not up, or its queue is full. TCP sends the packet again.


def main():
    namespace, near, far, milliseconds = sys.argv[1:]
    one = open_tun(near)
    enter(namespace)
    limit_windows()
    other = open_tun(far)
    print("ready", flush=True)
    carry(one, other, float(milliseconds) / 1000)


if __name__ == "__main__":
    main()
