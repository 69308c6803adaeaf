"""The ratios of past comparisons, one line for each row: no times, which noise would spoil."""

import csv
import os
from datetime import datetime, timezone
from pathlib import Path

COLUMNS = ["date", "a", "b", "row", "better", "ratio", "ratio_of_medians", "lower_quartile",
           "upper_quartile", "range_low", "range_high", "pairs", "processors", "processor"]


def processors():
    """Returns how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def processor():
    """Returns the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model", "uarch")):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


def append(path, builds, compared):
    """Appends a line for each of `compared`, which are pairs of a row and its ratio."""
    is_new = not Path(path).exists() or Path(path).stat().st_size == 0
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    with open(path, "a", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        if is_new:
            lines.writerow(COLUMNS)
        for row, ratio in compared:
            numbers = [ratio.of_pairs, ratio.of_medians, *ratio.quartiles, *ratio.range]
            lines.writerow([date, builds[0].revision, builds[1].revision, row.name,
                            "less" if row.less_is_better else "more",
                            *(f"{number:.4f}" for number in numbers),
                            ratio.pairs, processors(), processor()])
