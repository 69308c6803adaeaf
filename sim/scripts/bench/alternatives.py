"""What programs could use instead on one machine: TCP over loopback, UCX, soft-RoCE."""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import builds
import processes
from processes import Failed

MIB_PER_S_IN_GB_PER_S = 0.001048576
# qperf prints a number with a unit that fits it.
SCALES = {"ns": 0.001, "us": 1, "ms": 1000, "sec": 1e6,
          "bytes/sec": 1e-9, "KB/sec": 1e-6, "MB/sec": 1e-3, "GB/sec": 1}
GUEST_LIMIT_S = 900  # with the guest's packages, which are fetched once


@dataclass(frozen=True)
class Alternative:
    """A figure of another library, in the unit of the row that names it."""

    name: str
    measure: Callable  # takes nothing


def _qperf(test, size):
    """Returns us or GB/s between two processes over loopback. qperf prints means."""
    port = processes.free_port()
    to_server = ["qperf", "-lp", str(port)]
    with processes.server(to_server, partial(processes.is_listening, port)):
        output = processes.run([*to_server, "-t", "1", "-m", str(size), "127.0.0.1", test])
    found = re.search(r"= +([0-9.,]+) (\S+)", output)
    if not found or found.group(2) not in SCALES:
        raise Failed(f"qperf printed no result: {output.strip()}")
    return float(found.group(1).replace(",", "")) * SCALES[found.group(2)]


def _ucx(test, size, count, column, scale):
    """Returns a column of ucx_perftest between two processes over shared memory."""
    port = processes.free_port()
    env = os.environ | {"UCX_TLS": "posix,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    command = ["ucx_perftest", "-p", str(port)]
    # Debian 13 builds it with MPI, which has to be switched off.
    if "MPI mode" in _ucx_help():
        command += ["-P", "0"]
    with processes.server(command, partial(processes.is_listening, port), env):
        output = processes.run([*command, "127.0.0.1", "-t", test, "-s", str(size),
                                "-n", str(count), "-f", "-v"], env)
    rows = [line.split(",") for line in output.splitlines() if re.match(r"[0-9]+,[0-9.]+,", line)]
    if not rows:
        raise Failed(f"ucx_perftest printed no result: {output.strip()}")
    return float(rows[-1][column]) * scale


def _ucx_help():
    # Its status is not 0.
    try:
        return subprocess.run(["ucx_perftest", "-h"], text=True, capture_output=True,
                              timeout=processes.LIMIT_S).stdout
    except OSError:
        raise Failed("ucx_perftest is not installed") from None


# Columns of ucx_perftest: iterations; latency: median, mean, overall; MiB/s: mean, overall; rate:
# the same.
LATENCY = {
    "UCX put": Alternative("UCX put", partial(_ucx, "ucp_put_lat", 2, 20000, 1, 1)),
    "UCX tag": Alternative("UCX tag", partial(_ucx, "tag_lat", 2, 20000, 1, 1)),
    "TCP": Alternative("TCP", partial(_qperf, "tcp_lat", 2)),
}
BANDWIDTH = {
    "UCX put": Alternative("UCX put", partial(_ucx, "ucp_put_bw", 65536, 10000, 5,
                                              MIB_PER_S_IN_GB_PER_S)),
    "TCP": Alternative("TCP", partial(_qperf, "tcp_bw", 65536)),
}
UCX_RATE = Alternative("UCX put", partial(_ucx, "ucp_put_bw", 64, 200000, 7, 1e-6))


def soft_roce(build):
    """Yields (what, us on soft-RoCE, us on the model) in one virtual machine without KVM.

    Each is measured once. Fails with the reason if this machine cannot boot the guest.
    """
    script = builds.PROJECT / "tests" / "scripts" / "qemu-rates"
    output = processes.run([str(script), str(build.folder)], limit_s=GUEST_LIMIT_S)
    figures = {}
    for where, what, rest in re.findall(r"^ *(soft-RoCE|the model), (.*?): (.*)$", output, re.M):
        for part in rest.split(", "):
            step, _, us = part.rpartition(" ")
            figures[where, step.strip(" :") or what] = float(us)
    for (where, step), us in figures.items():
        if where == "soft-RoCE" and ("the model", step) in figures:
            yield step, us, figures["the model", step]
