"""What this machine allows: measured beside each figure, in the same rounds."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import processes


def machine_limit(name, tools):
    """Returns one limit, in ns or GB/s: see machine_limits.c."""
    return float(processes.run([tools.program("machine_limits"), name]))


def descriptor_costs(tools, prefix=()):
    """Returns what calls on descriptors take, in ns."""
    printed = processes.run([*prefix, tools.program("descriptor_cost")],
                            processes.environment(tools.folder))
    return dict(zip(("write", "close"), map(float, printed.split()), strict=True))


def _descriptor_cost(call, tools):
    return descriptor_costs(tools)[call]


def _hand_over(spinning, tools):
    """Returns what two threads take for a flag, in us, beside programs that never pause."""
    with processes.spinning(spinning):
        return float(processes.run([tools.program("handoff"), "flag"]))


@dataclass(frozen=True)
class Limit:
    """A limit of the machine."""

    name: str
    unit: str
    measure: Callable


@dataclass(frozen=True)
class Bound:
    """How a figure stands to a limit."""

    limit: Limit
    # Returns a figure as a multiple of the limit.
    multiple: Callable
    # What the multiple counts.
    noun: str
    # The best multiple that physics admits.
    best: str


def _multiple_of_us(us, ns):
    return us * 1000 / ns


def _multiple_of_rate(millions, ns):
    return 1000 / millions / ns


def _share(figure, limit):
    return figure / limit


def _percent(figure, limit):
    return 100 * figure / limit


HOP = Limit("a cache line's hop, one way", "ns", partial(machine_limit, "hop"))
SWITCH = Limit("a switch of threads by futex", "ns", partial(machine_limit, "switch"))
COPY_LINE = Limit("a copy of 64 bytes in L1", "ns", partial(machine_limit, "copy-line"))
COPY_L2 = Limit("one thread's copy in L2", "GB/s", partial(machine_limit, "copy-l2"))
COPY_ACROSS = Limit("copies across a shared ring", "GB/s", partial(machine_limit, "copy-across"))
# No figure is a multiple of these: they are shown for themselves.
OTHERS = (
    Limit("one thread's copy of memory", "GB/s", partial(machine_limit, "copy-memory")),
    Limit("the cheapest system call", "ns", partial(machine_limit, "system-call")),
    Limit("a reading of the clock", "ns", partial(machine_limit, "clock")),
)

COPY = Bound(COPY_L2, _percent, "% of a copy", "at most 100")
COPIES_ACROSS = Bound(COPY_ACROSS, _percent, "% of copies in and out", "at most 100")
PLAIN_WRITE = Bound(Limit("without the library", "ns", partial(_descriptor_cost, "write")),
                    _share, "plain calls", "at least 1")
PLAIN_CLOSE = Bound(Limit("without the library", "ns", partial(_descriptor_cost, "close")),
                    _share, "plain calls", "at least 1")


def hand_overs(spinning):
    """Returns the bound of a wait for another thread, beside programs that never pause."""
    name = "a flag between threads" + (", busy" if spinning else "")
    return Bound(Limit(name, "us", partial(_hand_over, spinning)), _share, "hand-overs",
                 "at least 1")


def hops(least):
    """Returns the bound of a latency: something has to cross between processors so often."""
    return Bound(HOP, _multiple_of_us, "hops", f"at least {least}")


def switches(least):
    """Returns the bound of what another thread has to answer."""
    return Bound(SWITCH, _multiple_of_us, "switches", f"at least {least}")


def copies_of_lines(threads):
    """Returns the bound of a rate of 64-byte messages: each thread has to copy its own."""
    side_by_side = min(threads, len(os.sched_getaffinity(0)))
    return Bound(COPY_LINE, _multiple_of_rate, "copies of 64 B",
                 f"at least {1 / side_by_side:g}")
