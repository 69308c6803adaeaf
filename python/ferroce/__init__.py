"""Runs Ferroce's simulations and reads its JSON.

    import ferroce

    rows = ferroce.perf("write_bw", preset="cx5-100g", all_sizes=True)
    rows.frame()                # a pandas data frame
    ferroce.sweep("write_bw", preset="cx5-100g", size="64", qps="1..1024").frame()
    ferroce.compare("cx3-40g@xeon-qdr", "cx3_qdr40_ib_write_bw")[0].plot()

The figures come from the command `ferroce`, which this package runs: `FERROCE_BIN` names it, or
it is in the wheel, or in PATH. Only `frame` and `plot` need pandas and matplotlib.
"""

from .command import CommandError, run, schema
from .documents import Comparison, Perf, Preset, Validation
from .simulations import compare, perf, perftest, preset, presets, sweep, tables, validate

__all__ = [
    "CommandError",
    "Comparison",
    "Perf",
    "Preset",
    "Validation",
    "compare",
    "perf",
    "perftest",
    "preset",
    "presets",
    "run",
    "schema",
    "sweep",
    "tables",
    "validate",
]
