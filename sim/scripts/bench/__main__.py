"""Speed of a build, alone or against another build, on a machine that may be noisy.

    python3 sim/scripts/bench [--build FOLDER] [--base REVISION | --base-build FOLDER]
        [--runs N] [--rows PATTERN] [--history FILE] [--soft-roce]

Both builds, the limits of the machine and the alternatives take turns: A B limit other, then other
limit B A, and so on. Ratios are those of runs of the same turn. Status 1: a row of A has no figure.
"""

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from functools import partial

sys.dont_write_bytecode = True

# They stand beside this file, and must leave nothing there.
import alternatives  # noqa: E402
import builds  # noqa: E402
import history  # noqa: E402
import limits  # noqa: E402
import page  # noqa: E402
import ratios  # noqa: E402
import rows  # noqa: E402
from processes import Failed  # noqa: E402
from turns import both, reason, take_turns  # noqa: E402

RUNS = 9
RUNS_MAX = 101


def arguments():
    """Returns the options. Empty ones count as missing, so that make can pass all of them."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(builds.PROJECT / "target" / "release"))
    parser.add_argument("--base", default="", help="another revision, which is built")
    parser.add_argument("--base-build", default="", help="or a folder with another build")
    parser.add_argument("--runs", default="", help=f"of each row, 1 to {RUNS_MAX}; {RUNS}")
    parser.add_argument("--rows", default="", help="a regular expression of their names")
    parser.add_argument("--history", default="", help="a file for the ratios of two builds")
    parser.add_argument("--soft-roce", action="store_true", help="and a virtual machine")
    options = parser.parse_args()
    options.runs = options.runs or str(RUNS)
    if not options.runs.isdigit() or not 1 <= int(options.runs) <= RUNS_MAX:
        raise SystemExit(f"bench: RUNS={options.runs}: 1 to {RUNS_MAX}")
    try:
        re.compile(options.rows)
    except re.error as error:
        raise SystemExit(f"bench: ROWS={options.rows}: {error}") from None
    if options.base and options.base_build:
        raise SystemExit("bench: either --base or --base-build")
    return options


class Page:
    """Measures experiments, and keeps what the sections behind the first want."""

    def __init__(self, options, tools, compared_builds):
        self.runs = int(options.runs)
        self.tools = tools
        self.builds = compared_builds
        self.limits, self.alternatives, self.compared = [], [], []
        self.has_failed = False

    def subjects(self, experiment):
        """Returns what takes turns: the builds, then limits and alternatives of all rows."""
        found = {build.label: partial(self.measure_copy, experiment, build)
                 for build in self.builds}
        for row in experiment.rows:
            if row.bound:
                found[row.bound.limit] = partial(row.bound.limit.measure, self.tools)
            for other in row.alternatives:
                found[other] = other.measure
        return found

    def measure_copy(self, experiment, build):
        """Returns the figures of a run of a build, from files that no other run uses."""
        with build.copied() as copy:
            return experiment.measure(copy, self.tools)

    def measure(self, experiment):
        """Prints the lines of an experiment."""
        turns = take_turns(self.subjects(experiment), self.runs)
        for row in experiment.rows:
            own = {build.label: [figures if isinstance(figures, Failed) else
                                 figures.get(row.key, Failed("no such figure was printed"))
                                 for figures in turns[build.label]] for build in self.builds}
            self.compare(row, own)
            self.keep(row, own["A"], turns)

    def compare(self, row, own):
        """Prints the line of a row, and what has failed."""
        good = {label: [one for one in figures if not isinstance(one, Failed)]
                for label, figures in own.items()}
        ratio = None
        if "B" in own:
            pairs = both(own["A"], own["B"])
            if pairs:
                ratio = ratios.ratio(*zip(*pairs, strict=True))
                self.compared.append((row, ratio))
        print(page.compared(row, good["A"], ratio, good.get("B")), flush=True)
        for label, figures in own.items():
            failures = [one for one in figures if isinstance(one, Failed)]
            if failures:
                print(f"    {len(failures)} of {len(figures)} runs of {label} failed: "
                      f"{failures[-1]}")
        self.has_failed |= not good["A"]

    def keep(self, row, own, turns):
        """Makes the lines of a row in the other sections."""
        if row.bound:
            limit = turns[row.bound.limit]
            pairs = both(own, limit)
            self.limits.append(page.beside_limit(row, pairs) if pairs else
                               page.missing(row, row.bound.limit.name, reason(own, limit)))
        for other in row.alternatives:
            pairs = both(own, turns[other])
            self.alternatives.append(
                page.beside_alternative(row, other.name, pairs) if pairs else
                page.missing(row, other.name, reason(own, turns[other])))

    def print_limits(self):
        """Prints the section with the limits of the machine."""
        print("\nA beside the limit of this machine, in the same turns: A in multiples of the limit"
              " (range), and what physics admits")
        print(*self.limits, sep="\n")
        subjects = {limit: partial(limit.measure, self.tools) for limit in limits.OTHERS}
        for limit, turns in take_turns(subjects, self.runs).items():
            good = [one for one in turns if not isinstance(one, Failed)]
            print(f"{limit.name:<{page.NAME_COLUMNS}} {page.figures(good)} {limit.unit}")

    def print_alternatives(self):
        """Prints the section with the alternatives on one machine."""
        print("\nalternatives between two processes of this machine, in the same turns: ratio to A"
              " (range)")
        print(*self.alternatives, sep="\n", flush=True)

    def print_verdicts(self):
        """Prints how many rows differ, and how many would by chance."""
        different = [ratio for _, ratio in self.compared if ratio.shows_difference()]
        print(f"\n{len(different)} of {len(self.compared)} rows show a difference.", end="")
        if self.runs >= ratios.PAIRS_MIN:
            chance = 1 - ratios.coverage(self.runs, ratios.left_out_of(self.runs))
            print(f" Two equal builds would show one in {100 * chance:.0f} of 100 rows.", end="")
        print()


def print_soft_roce(build):
    """Prints ratios to soft-RoCE, both in a virtual machine."""
    print("\nsoft-RoCE in a virtual machine with one processor and without KVM, measured once:"
          " ratio to Ferroce", flush=True)
    try:
        for step, theirs, own in alternatives.soft_roce(build):
            print(f"{step:<36} {page.number(own) + ' us':<11} "
                  f"soft-RoCE {page.number(theirs) + ' us':<11} {page.number(theirs / own)}")
    except Failed as failed:
        print(f"not measured: {failed}")


def load():
    """Returns how many threads want a processor, as a mean of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def main():
    options = arguments()
    experiments = rows.selected(options.rows)
    if not experiments:
        raise SystemExit(f"bench: ROWS={options.rows}: no row has such a name")
    needed = {program for experiment in experiments for program in experiment.needs}
    missing = sorted(program for program in needed if not shutil.which(program))
    if missing:
        raise SystemExit(f"bench: {', '.join(missing)}: not installed; "
                         "packages perftest, rdmacm-utils")
    # What a signal ends must end its programs, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    compared_builds = [builds.ready("A", options.build)]
    if options.base:
        compared_builds.append(builds.of_revision(options.base))
    elif options.base_build:
        compared_builds.append(builds.ready("B", options.base_build))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ferroce-bench.", dir="/dev/shm") as folder:
        made = Page(options, rows.Tools(folder), compared_builds)
        print(*(f"{build.label}: {build.revision}" for build in compared_builds), sep=", ")
        print(f"{history.processors()} x {history.processor()}; load {load()}; "
              f"runs of each row: {options.runs}; nice {os.nice(0)}", flush=True)
        section = None
        for experiment in experiments:
            if experiment.section != section:
                section = experiment.section
                print(f"\n{section}\n{page.heading(len(compared_builds) == 2)}")
            made.measure(experiment)
        if made.limits:
            made.print_limits()
        if made.alternatives:
            made.print_alternatives()
    if options.soft_roce:
        print_soft_roce(compared_builds[0])
    if made.compared:
        made.print_verdicts()
        if options.history:
            history.append(options.history, compared_builds, made.compared)
    print(f"load {load()} at the end, after {(time.monotonic() - begun) / 60:.0f} minutes")
    return int(made.has_failed)


if __name__ == "__main__":
    sys.exit(main())
