# SPDX-License-Identifier: BSD-3-Clause
"""refuse.py COMMAND...: run the command where reading and writing the memory of other processes is forbidden (EPERM), as
in some containers.  Exit status 77 if that cannot be set up."""

import ctypes
import os
import platform
import struct
import sys

CALLS = {"x86_64": (310, 311), "aarch64": (270, 271)}  # process_vm_readv, process_vm_writev
NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050001


def program(calls):
    code = [(LOAD, 0, 0, 0)]
    code += [(EQUAL, len(calls) - i, 0, number) for i, number in enumerate(calls)]
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    return b"".join(struct.pack("HBBI", *line) for line in code), len(code)


def main():
    calls = CALLS.get(platform.machine())
    if not calls:
        return 77
    code, n = program(calls)
    body = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", n, ctypes.addressof(body)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(SET_SECCOMP, FILTER, head, 0, 0):
        return 77
    os.execvp(sys.argv[1], sys.argv[1:])


sys.exit(main())
