#!/usr/bin/env python3
"""Runs a command that cannot start another process. Threads are allowed.

A filter in the kernel (seccomp) refuses to start processes: `fork` fails with "Operation not permitted". `make test-fast` runs test
programs with this script, so a test that starts a process fails.
"""

import ctypes
import errno
import os
import struct
import sys

CLONE_THREAD = 0x10000
ALLOW, FAIL = 0x7FFF0000, 0x00050000
# The architecture in linux/audit.h, the number of the system call `clone`, and those of calls that only start processes.
MACHINES = {"x86_64": (0xC000003E, 56, (57, 58)), "aarch64": (0xC00000B7, 220, ())}
CLONE3 = 435


def program(machine):
    """The filter as BPF instructions: (code, jump if true, jump if false, operand)."""
    architecture, clone, forks = MACHINES[machine]
    load, equal, any_bit, end = 0x20, 0x15, 0x45, 0x06
    lines = [(load, 0, 0, 4), (equal, 1, 0, architecture), (end, 0, 0, ALLOW), (load, 0, 0, 0)]
    # Refuse clone3, so that the C library uses clone instead. The flags of clone3 are in memory, which a filter cannot read.
    lines += [(equal, 0, 1, CLONE3), (end, 0, 0, FAIL | errno.ENOSYS)]
    for fork in forks:
        lines += [(equal, 0, 1, fork), (end, 0, 0, FAIL | errno.EPERM)]
    lines += [(equal, 1, 0, clone), (end, 0, 0, ALLOW), (load, 0, 0, 16), (any_bit, 0, 1, CLONE_THREAD), (end, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in [*lines, (end, 0, 0, FAIL | errno.EPERM)])


def refuse_processes():
    filters = program(os.uname().machine)
    buffer = ctypes.create_string_buffer(filters, len(filters))
    argument = ctypes.create_string_buffer(struct.pack("HP", len(filters) // 8, ctypes.addressof(buffer)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for words in ((38, 1, 0, 0, 0), (22, 2, argument, 0, 0)):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP with a filter
        if prctl(*words) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot set the filter: {os.strerror(number)}")


if __name__ == "__main__":
    refuse_processes()
    os.execvp(sys.argv[1], sys.argv[1:])
