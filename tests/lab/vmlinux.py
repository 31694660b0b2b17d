#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unpack the kernel: vmlinux.py BZIMAGE VMLINUX

A kernel for PCs (Documentation/x86/boot.rst of Linux) is a boot sector, set-up code, and a compressed ELF file.  QEMU
can start the ELF file itself, which saves its decompression by an emulated processor: seconds for each guest."""

import subprocess
import sys

SECTOR = 512
SETUP_SECTORS, MAGIC, PAYLOAD_OFFSET, PAYLOAD_LENGTH = 0x1F1, 0x202, 0x248, 0x24C
DECOMPRESSORS = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x02\x21\x4c\x18", "lz4"),
    (b"BZh", "bzip2"),
)


def number(image, offset, size=4):
    return int.from_bytes(image[offset:offset + size], "little")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as f:
        image = f.read()
    if image[MAGIC:MAGIC + 4] != b"HdrS":
        sys.exit("vmlinux.py: %s is no kernel" % sys.argv[1])
    sectors = number(image, SETUP_SECTORS, 1) or 4
    start = (1 + sectors) * SECTOR + number(image, PAYLOAD_OFFSET)
    payload = image[start:start + number(image, PAYLOAD_LENGTH)]
    for magic, program in DECOMPRESSORS:
        if payload.startswith(magic):
            # The last four bytes are the length; most of the programs complain about them, after all is written.
            elf = subprocess.run([program, "-dc"], input=payload, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 check=False).stdout
            break
    else:
        elf = payload
    if not elf.startswith(b"\x7fELF"):
        sys.exit("vmlinux.py: the compressed kernel in %s is not understood" % sys.argv[1])
    with open(sys.argv[2], "wb") as f:
        f.write(elf)


main()
