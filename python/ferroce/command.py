"""Runs the command `ferroce`."""

import json
import os
import shutil
import subprocess
import sys

#: Version of the schemas that this package reads.
SCHEMA = 1

#: The command in a wheel. A package that was installed from the sources has none.
OF_WHEEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prefix/bin/ferroce")


class CommandError(Exception):
    """The command refused its arguments or failed; the text is what it printed."""


def binary():
    """Returns the path of the command: FERROCE_BIN, the one of the wheel, or the one in PATH."""
    own = OF_WHEEL if os.path.exists(OF_WHEEL) else None
    found = os.environ.get("FERROCE_BIN") or own or shutil.which("ferroce")
    if not found:
        raise CommandError("no command ferroce: install it, or name it in FERROCE_BIN")
    return found


def main():
    """The script `ferroce` of the wheel: this process becomes the command."""
    os.execv(OF_WHEEL, ["ferroce", *sys.argv[1:]])


def run(*arguments, accept=(0,), timeout_s=None):
    """Runs `ferroce` with these arguments and --json, and returns the document.

    `accept`: exit codes that are no failure. Raises CommandError for others, TimeoutExpired of
    subprocess after `timeout_s`.
    """
    words = [str(argument) for argument in arguments]
    document = json.loads(_output([*words, "--json"], accept, timeout_s))
    if document["schema"] != SCHEMA:
        raise CommandError(
            f"{document['program']} writes schema {document['schema']}, this package reads {SCHEMA}"
        )
    return document


def schema(*command):
    """Returns the JSON Schema of a command's documents: `schema("preset", "show")`."""
    return json.loads(_output(["schema", *command], (0,), None))


def _output(words, accept, timeout_s):
    done = subprocess.run(
        [binary(), *words], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode not in accept:
        raise CommandError(done.stderr.strip() or f"ferroce ended with code {done.returncode}")
    return done.stdout
