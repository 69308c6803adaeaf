"""What is measured: each experiment is one run of programs, with a row for each of its figures."""

import contextlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import alternatives
import limits
import processes
from limits import Bound
from processes import Failed

CONNECTIONS = 500
RATE_SECONDS = "0.5"
# Programs beside the busy rows: they leave no processor idle if there are two.
SPINNING = 2


@dataclass(frozen=True)
class Row:
    """A figure."""

    name: str
    unit: str
    less_is_better: bool
    key: str = "figure"  # among the figures of a run
    bound: Bound | None = None
    alternatives: tuple = ()


@dataclass(frozen=True)
class Experiment:
    """One run of programs for a build, which returns a figure for each key."""

    section: str
    measure: Callable
    rows: tuple
    needs: tuple = ()  # programs


@dataclass(frozen=True)
class RateShape:
    """Programs of message_rate, and the devices that they have."""

    name: str
    threads: int = 1
    qps: int = 1  # of each thread
    processes: int = 1
    devices: int = 1
    functions: int = 1  # of each device
    depth: int = 128  # requests in flight on each QP
    is_loopback: bool = False  # each QP is connected to itself

    def arguments(self):
        """Returns those of message_rate."""
        numbers = [self.threads, self.qps, self.processes, 64, RATE_SECONDS, self.depth]
        return [*map(str, numbers), *["loopback"] * self.is_loopback]


class Tools:
    """Folders of the run, and the programs that are compiled for it."""

    SOURCES = Path(__file__).resolve().parents[1]
    VERBS = ("message_rate", "handoff", "one_sided")

    def __init__(self, folder):
        self.folder = Path(folder)
        for name in (*self.VERBS, "descriptor_cost", "machine_limits"):
            libraries = ["-libverbs", "-lpthread"] if name in self.VERBS else []
            try:
                processes.run(["cc", "-O2", "-Wall", "-Wextra", "-o", self.program(name),
                               self.SOURCES / f"{name}.c", *libraries])
            except Failed as failed:
                raise SystemExit(f"bench: {name}.c: {failed}") from None

    def program(self, name):
        """Returns the path of a compiled program."""
        return str(self.folder / name)

    def environment(self, build):
        """Returns the environment of a build's programs: builds do not share a fabric."""
        fabric = self.folder / f"fabric-{build.label}"
        fabric.mkdir(exist_ok=True)
        return processes.environment(fabric)

    def run(self, build, *arguments, options=()):
        """Returns what a program prints under `ferroce run`."""
        command = [build.ferroce, "run", *options, "--", *arguments]
        return processes.run(command, self.environment(build))


def _pair(build, tools, program, on_server, on_client, column, scale):
    port = processes.free_port()
    command = [*program, "-F", "-p", str(port)]
    waiting = [build.ferroce, "run", *on_server, "--", *command]
    with processes.server(waiting, partial(processes.is_listening, port),
                          tools.environment(build)):
        output = tools.run(build, *command, "127.0.0.1", options=on_client)
    rows = [line.split() for line in output.splitlines() if re.match(r" *[0-9]+ ", line)]
    rows = [row for row in rows if len(row) >= 5]
    if not rows:
        raise Failed(f"{' '.join(program)} printed no result")
    return {"figure": float(rows[-1][column]) * scale}


def _in_process(icrc, program, column, scale, build, tools):
    options = ["--icrc", icrc]
    return _pair(build, tools, program, options, options, column, scale)


def _vfio_user(program, column, scale, build, tools):
    """The same over `ferroce serve`, with a function for each process."""
    with tempfile.TemporaryDirectory(dir=tools.folder) as folder:
        ready = Path(folder) / "ready"
        command = [build.ferroce, "serve", "--socket", f"{folder}/nic", "--functions", "2"]
        with open(ready, "w", encoding="utf-8") as output, processes.server(
                command, lambda: ready.read_text().count("ready ") == 2,
                tools.environment(build), output=output):
            devices = [["--device", f"vfio-user:{folder}/nic.{number}"] for number in (0, 1)]
            return _pair(build, tools, program, *devices, column, scale)


def _connections(build, tools):
    """Steps of connections that are made at once, per connection. cmtime's server never ends."""
    port = processes.free_port()

    def is_ready():
        with contextlib.suppress(Failed):
            listed = processes.run([build.ferroce, "cm"], tools.environment(build))
            return re.search(rf"listener.*:{port},", listed) is not None
        return False

    serving = [build.ferroce, "run", "--", "cmtime", "-b", "127.0.0.1", "-p", str(port)]
    with processes.server(serving, is_ready, tools.environment(build)):
        output = tools.run(build, "cmtime", "-s", "127.0.0.1", "-p", str(port),
                           "-c", str(CONNECTIONS))
    steps = re.findall(r"^(resolve \w+|create qp|connect|disconnect) *:(?: *[0-9.]+)* +([0-9.]+)$",
                       output, re.M)
    return {step: float(us) for step, us in steps}


def _rates(shape, build, tools):
    # A variable: builds that do not know it have one function, and a figure.
    printed = tools.run(build, "env", f"FERROCE_FUNCTIONS={shape.functions}",
                        tools.program("message_rate"), *shape.arguments(),
                        options=["--devices", str(shape.devices)])
    rates = dict(zip(("figure", "slowest", "fastest"), map(float, printed.split()), strict=True))
    # There is no ratio to a rate of 0.
    return {key: rate or Failed("no message in the time of the run")
            for key, rate in rates.items()}


def _hand_over(spinning, build, tools):
    with processes.spinning(spinning):
        return {"figure": float(tools.run(build, tools.program("handoff"), "read"))}


def _one_sided(build, tools):
    printed = tools.run(build, tools.program("one_sided"))
    return dict(zip(("first", "last"), map(float, printed.split()), strict=True))


def _descriptors(build, tools):
    return limits.descriptor_costs(tools, [build.ferroce, "run", "--"])


def _perftest():
    """(name, program, column, scale, unit, less is better, bound, alternatives) for each row."""
    latency, rate, bandwidth = ("us", True), ("M/s", False), ("GB/s", False)
    # Its MB/sec are MiB/s.
    gb = (3, alternatives.MIB_PER_S_IN_GB_PER_S)
    one_way, round_trip, across = limits.hops(1), limits.hops(2), limits.COPIES_ACROSS
    small = alternatives.LATENCY
    large = alternatives.BANDWIDTH
    return [
        ("ib_write_lat 2 B", "ib_write_lat -s 2 -n 2000", (4, 1), latency, one_way,
         (small["UCX put"], small["TCP"])),
        ("ib_send_lat 2 B", "ib_send_lat -s 2 -n 2000", (4, 1), latency, one_way,
         (small["UCX tag"], small["TCP"])),
        ("ib_read_lat 2 B", "ib_read_lat -s 2 -n 2000", (4, 1), latency, round_trip, ()),
        ("ib_write_bw 64 B", "ib_write_bw -s 64 -n 100000", (4, 1), rate,
         limits.copies_of_lines(1), (alternatives.UCX_RATE,)),
        ("ib_write_bw 64 KiB", "ib_write_bw -s 65536 -n 5000", gb, bandwidth, across,
         (large["UCX put"], large["TCP"])),
        ("ib_read_bw 64 KiB", "ib_read_bw -s 65536 -n 5000", gb, bandwidth, across, ()),
    ]


def _pairs():
    in_process, pinned, served = [], [], []
    processor = str(min(os.sched_getaffinity(0)))
    for name, program, parse, (unit, less), bound, others in _perftest():
        row = Row(name, unit, less, bound=bound, alternatives=others)
        words = program.split()
        for icrc in ("off", "on"):
            in_process.append(Experiment(
                "perftest between two processes, the model in them",
                partial(_in_process, icrc, words, *parse),
                (replace(row, name=f"{name}, ICRC {icrc}",
                         alternatives=others if icrc == "off" else ()),),
                (words[0],)))
        if unit == "us":
            # Each message needs a switch to the process that answers it, a READ another one back.
            switches = limits.switches(2 if "read" in name else 1)
            pinned.append(Experiment(
                "the same with both processes on one processor",
                partial(_in_process, "off", ["taskset", "-c", processor, *words], *parse),
                (replace(row, name=f"pinned: {name}", bound=switches, alternatives=()),),
                ("taskset", words[0])))
        # The doorbell goes to the server, the payload from there to the peer: no ring is needed.
        bound = {"us": limits.hops(2), "GB/s": limits.COPY}.get(unit, bound)
        # A message takes longer: fewer of them.
        *words, count = words
        words.append(str(int(count) // 4))
        served.append(Experiment(
            "the same behind sockets: `ferroce serve`, a function for each process",
            partial(_vfio_user, words, *parse),
            (replace(row, name=f"vfio-user: {name}", bound=bound, alternatives=()),),
            (words[0],)))
    return in_process, pinned, served


RATE_SHAPES = [
    RateShape("1 thread, loopback", is_loopback=True),
    RateShape("2 threads, loopback", threads=2, is_loopback=True),
    RateShape("2 functions, loopback", threads=2, functions=2, is_loopback=True),
    RateShape("2 devices, loopback", threads=2, devices=2, is_loopback=True),
    # They share nothing: they are the limit of two threads.
    RateShape("2 processes, loopback", processes=2, is_loopback=True),
    RateShape("16 threads, loopback", threads=16, is_loopback=True),
    RateShape("1 thread, 1 QPs"),
    RateShape("1 thread, 2 QPs", qps=2),
    RateShape("1 thread, 4 QPs", qps=4),
    RateShape("2 threads", threads=2),
    RateShape("4 threads", threads=4),
    RateShape("16 threads", threads=16),
    RateShape("2 threads, depth 1", threads=2, depth=1),
    RateShape("4 threads, depth 1", threads=4, depth=1),
    RateShape("2 functions", threads=2, functions=2),
    RateShape("2 devices", threads=2, devices=2),
    RateShape("2 processes", processes=2),
    RateShape("4 processes", processes=4),
]


def _message_rates():
    section = ("RDMA WRITE of 64 bytes, 128 in flight on each QP (depth 1: one); a context for "
               "each thread, one device, if not said otherwise: all together, the slowest, the "
               "fastest")
    for shape in RATE_SHAPES:
        workers = shape.threads * shape.processes
        whole = Row(shape.name, "M/s", False, bound=limits.copies_of_lines(workers))
        rows = [whole]
        if workers > 1:
            rows += [replace(whole, name=f"{shape.name}, {which}", key=which, bound=None)
                     for which in ("slowest", "fastest")]
        yield Experiment(section, partial(_rates, shape), tuple(rows))


def _waits():
    """Threads that post and do not poll."""
    for name, spinning in (("hand-over: READ 1 MiB", 0), ("hand-over: READ 1 MiB, busy", SPINNING)):
        yield Experiment(
            "a thread that posts and waits for a flag, beside one that polls; busy: and beside "
            f"{SPINNING} programs that never pause",
            partial(_hand_over, spinning),
            (Row(name, "us", True, bound=limits.hand_overs(spinning)),))
    yield Experiment(
        "10 WRITEs of 8 bytes, posted one by one by a program that then watches memory: from a "
        "post to its arrival",
        _one_sided,
        (Row("one-sided: WRITE 1 of 10", "us", True, key="first"),
         Row("one-sided: WRITE 10 of 10", "us", True, key="last")))


def experiments():
    """Returns everything that can be measured, in the order of the page."""
    in_process, pinned, served = _pairs()
    # A wake-up of the peer may serve many connections that are made at once: the least is none.
    steps = [Row(f"RDMA CM: {step}", "us", True, key=step, bound=limits.switches(0))
             for step in ("resolve addr", "resolve route", "create qp", "connect", "disconnect")]
    connections = Experiment(
        f"RDMA CM between two processes: {CONNECTIONS} connections at once, us of one (cmtime)",
        _connections, tuple(steps), ("cmtime",))
    descriptors = Experiment(
        "calls on descriptors that are none of the library's, under it",
        _descriptors,
        (Row("write to /dev/null", "ns", True, key="write", bound=limits.PLAIN_WRITE),
         Row("close of no descriptor", "ns", True, key="close", bound=limits.PLAIN_CLOSE)))
    return [*in_process, *pinned, connections, *served, *_message_rates(), *_waits(),
            descriptors]


def selected(pattern):
    """Returns the experiments with the rows whose names match a regular expression."""
    found = []
    for experiment in experiments():
        rows = tuple(row for row in experiment.rows if re.search(pattern, row.name, re.I))
        if rows:
            found.append(replace(experiment, rows=rows))
    return found
