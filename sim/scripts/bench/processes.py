"""Programs with a time limit each, ended by their ids."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

LIMIT_S = 60  # of a program
READY_S = 10  # until a server listens
END_S = 5  # of a server whose client has ended
TCP_LISTEN = "0A"  # state in /proc/net/tcp


class Failed(Exception):
    """A measurement that has not come about; the text says why."""


def environment(folder):
    """Returns the caller's environment without options of Ferroce, for a fabric in `folder`."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("FERROCE_") and name != "LD_PRELOAD"}
    return kept | {"FERROCE_DIR": str(folder)}


def _start(arguments, env, limit_s, **streams):
    if not shutil.which(arguments[0]):
        raise Failed(f"{arguments[0]} is not installed")
    # timeout(1) keeps the limit when this script is killed. The session makes one group of the
    # program and its children.
    limited = ["timeout", "--kill-after=2", str(limit_s), *map(str, arguments)]
    return subprocess.Popen(limited, env=env, start_new_session=True, text=True,
                            stdin=subprocess.DEVNULL, **streams)


def end(process):
    """Ends a program and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
            return


def run(arguments, env=None, limit_s=LIMIT_S):
    """Returns what a program prints; fails unless it succeeds within its limit."""
    process = _start(arguments, env, limit_s, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=limit_s + END_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"{arguments[0]} did not end within {limit_s} s") from None
    finally:
        if process.poll() is None:
            end(process)
    if process.returncode == 124:
        raise Failed(f"{Path(arguments[0]).name} did not end within {limit_s} s")
    if process.returncode != 0:
        last = (errors.strip() or output.strip() or "no message").splitlines()[-1]
        raise Failed(f"{Path(arguments[0]).name}: status {process.returncode}: {last}")
    return output


@contextlib.contextmanager
def server(arguments, is_ready, env=None, limit_s=LIMIT_S, output=subprocess.DEVNULL):
    """Runs a server from the time when `is_ready()` to the end of the block."""
    process = _start(arguments, env, limit_s, stdout=output, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + READY_S
        while not is_ready():
            if process.poll() is not None:
                raise Failed(f"the server ended with status {process.returncode}: {arguments}")
            if time.monotonic() > deadline:
                raise Failed(f"the server was not ready within {READY_S} s: {arguments}")
            time.sleep(0.01)
        yield process
    finally:
        end(process)


@contextlib.contextmanager
def spinning(count):
    """Runs `count` programs that never pause to the end of the block."""
    command = ["sh", "-c", "while :; do :; done"]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(server(command, lambda: True)) for _ in range(count)]


def free_port():
    """Returns a port that no process uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port):
    """Returns whether a process listens on a port; connecting would disturb it."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[3] == TCP_LISTEN:
                    return True
    return False
