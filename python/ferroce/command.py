"""Runs the command `ferroce`."""

import json
import os
import shutil
import subprocess

#: Version of the schemas that this package reads.
SCHEMA = 1


class CommandError(Exception):
    """The command refused its arguments or failed; the text is what it printed."""


def binary():
    """Returns the path of the command: FERROCE_BIN, or the one in PATH."""
    found = os.environ.get("FERROCE_BIN") or shutil.which("ferroce")
    if not found:
        raise CommandError("no command ferroce: install it, or name it in FERROCE_BIN")
    return found


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
