# SPDX-License-Identifier: BSD-3-Clause
"""Measure sealed networks: messages and connections over tcp with TLS, compared with plain ones and with OpenSSL's own
speed."""

import re

from .context import Missing, failure, run, run_rows

SEALED = {"MAD_TCP_SECURITY": "seal"}
CIPHER = "aes-128-gcm"  # that of MAD_SEAL_CIPHER's default
RECORD = 16384


def sealed(context, sizes):
    return run_rows(context.madrun(2, "--bind", "core", context.program("mad_perf"), "pingpong", "--driver", "tcp")
                    + context.tail(sizes), SEALED)


def openssl(context, sizes):
    """Measure how fast one core encrypts TLS records, by the usual command: openssl speed."""
    command = ["openssl", "speed", "-seconds", "1", "-bytes", str(RECORD), "-evp", CIPHER]
    best = 0.0
    for _ in range(1 if context.quick else 2):
        code, out, err = run(command, cpus=context.cpu_list[:1])
        found = re.findall(r"([0-9.]+)k\s*$", out)
        if code or not found:
            raise Missing(failure(command, code, err))
        best = max(best, float(found[-1]) / 1000)  # MB/s
    return {size: {"size": size, "latency_us_best": size / best} for size in sizes}


def connects(env):
    def measure(context, sizes):
        return run_rows([context.program("connects")], env, cpus=context.cpu_list)
    return measure


def core(v):
    """Return the MB/s of a core that encrypts like openssl speed, and also copies like a plain connection."""
    speed, plain = v("openssl"), v("ours-tcp")
    return speed and plain and 1 / (1 / speed + 1 / plain)


SOURCES = {
    "sealed": sealed,
    "openssl": openssl,
    "connects-auth": connects({"MAD_TCP_SECURITY": "auth"}),
    "connects-seal": connects(SEALED),
}
