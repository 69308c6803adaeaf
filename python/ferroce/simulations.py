"""The commands that measure, as functions.

Keyword arguments become options: `qps=16` is `--qps 16`, `bidirectional=True` is
`--bidirectional`, a list is the option several times. What is wrong is said by the command.
"""

from .command import run
from .documents import Comparison, Perf, Preset, Validation

#: Exit code of `ferroce validate` when a prediction is missed.
MISSED = 1


def perf(test, preset, all_sizes=False, **options):
    """Measures with the model's own harness: `perf("write_bw", "cx5-100g", size=64)`."""
    return Perf(run("perf", test, "--preset", preset, *_sizes(all_sizes), *_options(options)))


def perftest(test, preset, all_sizes=False, **options):
    """Measures with the real perftest in simulated time."""
    return Perf(run("perftest", test, "--preset", preset, *_sizes(all_sizes), *_options(options)))


def sweep(test, preset, **parameters):
    """Measures every combination: `sweep("write_bw", "cx5-100g", size="64,4K", qps="1..64")`.

    Values are texts of `--sweep`, or lists. Parameters of the preset have a dot in their name and
    are given as `**{"pcie.read_latency_ns": [300, 400]}`.
    """
    options = []
    for key, values in parameters.items():
        if not isinstance(values, str):
            values = ",".join(str(value) for value in values)
        options += ["--sweep", f"{key}={values}"]
    return Perf(run("perf", test, "--preset", preset, *options))


def compare(preset, *tables, measured=(), **options):
    """Runs the model with the settings of measured tables; returns a Comparison for each.

    `tables`: names of built-in tables. `measured`: files with the output of perftest.
    """
    files = [word for file in measured for word in ("--measured", file)]
    document = run("compare", preset, *tables, *files, *_options(options))
    return [Comparison(one) for one in document["comparisons"]]


def tables():
    """Returns the names of the built-in tables."""
    return [table["name"] for table in run("compare", "--list")["tables"]]


def validate(**options):
    """Checks the model against all measured targets, or only some: `only="V17"`."""
    return Validation(run("validate", *_options(options), accept=(0, MISSED)))


def preset(name, **options):
    """Returns a preset with all parameters."""
    return Preset(run("preset", "show", name, *_options(options)))


def presets():
    """Returns the names of the built-in presets."""
    return [preset["name"] for preset in run("preset", "list")["presets"]]


def _sizes(all_sizes):
    return ["--all"] if all_sizes else []


def _options(options):
    words = []
    for key, value in options.items():
        name = "--" + key.replace("_", "-")
        if value is True:
            words.append(name)
        elif isinstance(value, (list, tuple)):
            words += [word for one in value for word in (name, str(one))]
        elif value is not None and value is not False:
            words += [name, str(value)]
    return words
