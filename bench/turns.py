#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures cases of `telpher-bench ocl`, `migrate` and `floor` in turns, each in a process of its own; those commands run this script.

`telpher-bench measure RUNTIME --raw CASE` prints samples, and this collects them. A target that crashes or hangs loses one
case and nothing else. Several targets take turns, so that a change in the machine's load reaches all of them.
"""
import argparse
import datetime
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

sys.dont_write_bytecode = True  # beside installed programs
import telpher_bench_arguments as arguments  # noqa: E402

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bin/telpher-bench")
TARGETS_MAX = 8
LOADER_VARIABLES = ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"]
TAIL = """Latency and bandwidth are medians; P90 and P99 of a bandwidth are those of its time.
Exit status: 0 if every test ran and every result was right, else 1; 2: wrong usage."""


@dataclass
class Case:
    """One thing to measure, as the program lists it."""
    name: str
    pattern: str
    sized: bool  # a series for each size
    operations: int  # in one sample; 0: args.batch
    floor: str  # the case of the floor that it is compared with, or ""
    trips: float  # how many times that floor it should cost
    help: str

    def shows_rate(self):
        return self.pattern == "bandwidth"

    def column(self):
        return {"bandwidth": "Bandwidth (MB/s)", "migration": "Step (us)"}.get(self.pattern, "Latency (us)")


@dataclass(eq=False)
class Target:
    """What is measured: a platform as seen through a loader, or the floor."""
    label: str
    runtime: str
    platform: str = ""
    device: int = 0
    vendors: str = ""  # OCL_ICD_VENDORS; "": as it is
    env: list = field(default_factory=list)  # "NAME=VALUE"
    system_drivers: bool = False  # the system's own drivers, even under `telpher run`
    memory: str = ""  # host memory of its own, for bandwidth alone; "": the user's
    info: dict = field(default_factory=dict)  # what it says of itself

    def runs(self, case):
        return not self.memory or case.sized


@dataclass
class Series:
    target: Target
    case: Case
    size: int
    samples: list = field(default_factory=list)  # [us]
    checked: bool = False
    error: str = ""
    traffic: int = 0  # [bytes] on args.interface
    traffic_steps: int = 0  # by so many operations

    def good(self):
        return bool(self.samples) and self.checked and not self.error

    def shown(self, us):
        """A time as tables show it: microseconds, or MB/s."""
        return us if not self.case.shows_rate() else self.size / us if us > 0 else 0

    def median(self):
        return statistics.median(self.samples) if self.samples else 0

    def quantile(self, q):
        """Interpolated between the two nearest samples."""
        if not self.samples:
            return 0
        values = sorted(self.samples)
        low, part = divmod(q * (len(values) - 1), 1)
        high = min(int(low) + 1, len(values) - 1)
        return values[int(low)] + part * (values[high] - values[int(low)])


# ---- the command line ----

class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Writes "-x, --warmup N", as the other commands do."""

    def __init__(self, prog):
        super().__init__(prog, max_help_position=30, width=100)

    def _format_action_invocation(self, action):
        return " ".join([", ".join(action.option_strings)] + ([action.metavar] if action.metavar else []))


def whole(low, high):
    def read(text):
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value
    read.__name__ = f"number from {low} to {high}"
    return read


def size(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    value = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
    if not 0 < value <= 1 << 34:
        raise ValueError
    return value


def sizes(text, least=1024):
    """[MIN:]MAX"""
    try:
        low, _, high = text.rpartition(":")
        high = size(high)
        low = size(low) if low else min(least, high)
    except TypeError as error:
        raise ValueError from error
    if low > high:
        raise ValueError
    return low, high


def sizes_of_migrations(text):
    return sizes(text, 4)


def variable(text):
    match = re.fullmatch(r"([^:=]+):([^=]+=.*)", text, re.DOTALL)
    if not match:
        raise ValueError
    return match.groups()


DESCRIPTIONS = {
    "ocl": "Measures an OpenCL driver, beside the floors of this machine or link.",
    "migrate": "Measures content that goes back and forth between two devices: as it is, through the client "
               "(TELPHER_PEER=off), and beside one plain TCP stream between two processes of this machine.",
    "floor": "Measures what plain TCP and memcpy cost: the floors of everything else."}


def make_parser(runtime):
    parser = argparse.ArgumentParser(
        prog=f"telpher-bench {runtime}", usage=f"telpher-bench {runtime} [OPTION]...", epilog=TAIL,
        formatter_class=HelpFormatter, description=DESCRIPTIONS[runtime])
    add = parser.add_argument_group("What is measured").add_argument
    add("--tests", metavar="LIST", default="all", help="tests, or beginnings of their names, comma separated (all)")
    add("--list", action="store_true", help="list the tests")
    add("-i", "--iterations", metavar="N", type=whole(1, 10000000), default=200,
        help="measured iterations; a tenth of it from 1 MiB on and for slow or batched tests, but at least 3 (200)")
    add("-x", "--warmup", metavar="N", type=whole(0, 10000000), default=20, help="iterations before that, not measured (20)")
    add("--timeout", metavar="SECONDS", type=whole(1, 2147483), default=60, help="per test, after which it has failed (60)")
    parser.set_defaults(platform="", device=0, memory="", native=None, pinned=False, peer=None, env=[], rounds=0, no_floor=True,
                        discover=False, serve=False, interface="", batch=1, window_size=1, validation=False)
    if runtime == "migrate":
        add("-m", "--size", "--message-size", metavar="[MIN:]MAX", type=sizes_of_migrations, default=(4, 64 << 20),
            help="sizes in bytes, or with K, M, G; each is four times the one before (4:64M)")
        add("--interface", metavar="NAME", default="", help="count the bytes of a step on this network interface, as link0")
    else:
        add_bandwidths(add)
    if runtime != "floor":
        add_targets(parser, runtime)
    else:
        add("--serve", action="store_true", help="be the other end, for anyone who can reach it, until a signal")
        add("--listen", metavar="ADDR:PORT", default="127.0.0.1:7718", help="where (127.0.0.1:7718)")
    add("--floor-host", metavar="ADDR:PORT", default="",
        help=("take the ping-pong" if runtime == "migrate" else "take the floors")
        + " over a link, from `telpher-bench floor --serve` there (another core of this machine)")
    add = parser.add_argument_group("Output").add_argument
    add("-f", "--full", action="store_true", help="when comparing, all percentiles too")
    add("--json", metavar="FILE", type=arguments.place, help="write everything as JSON")
    add("--raw", metavar="TEST", help="measure in one process, print bare samples in microseconds")
    add("-v", "--version", action="store_true", help="the version")
    return parser


def add_bandwidths(add):
    add("-m", "--size", "--message-size", metavar="[MIN:]MAX", type=sizes, default=(1024, 64 << 20),
        help="sizes of the bandwidth tests in bytes, or with K, M, G (1K:64M)")
    add("--batch", metavar="N", type=whole(1, 1000000), default=1000,
        help="commands of one batch in kernel_batch and event_chain (1000)")
    add("-W", "--window-size", metavar="N", type=whole(1, 1024), default=1,
        help="transfers in flight in bandwidth tests (1: blocking calls)")
    add("-c", "--validation", action="store_true", help="check every byte of every iteration, not only of the last")


def add_targets(parser, runtime):
    add = parser.add_argument_group("The OpenCL driver").add_argument
    add("--platform", metavar="NAME", default="",
        help="part of an OpenCL platform's name; !NAME: the first one without NAME in it (the first)")
    add("--device", metavar="N", type=whole(0, 1023), default=0,
        help="index of its device (0)" if runtime == "ocl" else "index of its first device (0); the other is the next")
    add("--discover", action="store_true", help=argparse.SUPPRESS)
    if runtime == "ocl":
        add("--memory", metavar="NAME", default="", help="host memory of the bandwidth tests: host, pinned (host)")
    add = parser.add_argument_group("With what it is compared: targets are measured in turns, each test in its own "
                                    "process").add_argument
    if runtime == "ocl":
        add("--native", metavar="PLATFORM",
            help="the native driver, by its platform's name; under `telpher run` among the system's drivers")
        add("--vs", dest="native", choices=["native"], metavar="native", help="the same; any platform but the one measured")
        add("--pinned", action="store_true", help="with either: the native driver's bandwidth with pinned memory, too")
    add("--peer", metavar="PATH", help="another OpenCL driver: its .icd file or library, loaded alone")
    add("--env", metavar="LABEL:NAME=VALUE", action="append", type=variable, default=[],
        help="a variable for Subject, " + ("Native" if runtime == "ocl" else "Client") + " or Peer alone; another LABEL is the "
             "subject once more, with that variable; may be repeated")
    add("--rounds", metavar="N", type=whole(1, 1000), default=0, help="turns (3; 1 when nothing is compared)")
    add("--no-floor", action="store_true", default=False, help="no floors")


def read_cases(runtime):
    """The cases of a runtime, its kinds of host memory, and the program's version, as it lists them."""
    cases, memories, version = {}, [], ""
    for line in subprocess.run([PROGRAM, "measure", runtime, "--list"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.splitlines():
        kind, *words = line.split("\t")
        if kind == "case":
            name, pattern, sized, operations, floor, trips, text = words
            cases[name] = Case(name, pattern, sized == "1", int(operations), floor, float(trips), text)
        elif kind == "memory":
            memories.append(words[0])
        else:
            version = words[0]
    return cases, memories, version


def is_chosen(case, tests):
    return any(word == "all" or (word and case.name.startswith(word)) for word in tests.split(","))


def options_of(args, target, iterations, local=False):
    """What the process that measures a target gets. local: a floor of this machine, whatever --floor-host is."""
    options = ["--platform", target.platform, "--device", str(target.device), "-i", str(iterations), "-x", str(args.warmup),
               "--batch", str(args.batch), "-W", str(args.window_size), "-m", f"{args.size[0]}:{args.size[1]}",
               "--memory", target.memory or args.memory]
    options += ["-c"] if args.validation else []
    options += ["--interface", args.interface] if args.interface and target.runtime == "migrate" else []
    return options + (["--floor-host", args.floor_host] if args.floor_host and not local else [])


# ---- targets ----

def make_targets(parser, args, runtime):
    native = args.native
    if native == "native":
        native = "!" + (args.platform or "Telpher")
    targets = [Target("Subject", runtime, args.platform, args.device)]
    if native is not None:
        targets.append(Target("Native", runtime, native, args.device, system_drivers=True))
        if args.pinned:
            targets.append(Target("Pinned", runtime, native, args.device, system_drivers=True, memory="pinned"))
    if runtime == "migrate":
        targets.append(Target("Client", runtime, args.platform, args.device, env=["TELPHER_PEER=off"]))
    if args.peer is not None:
        targets.append(Target("Peer", runtime, vendors=args.peer))
    for label, setting in args.env:
        found = next((t for t in targets if t.label == label), None)
        if found is None:
            found = Target(label, runtime, args.platform, args.device)
            targets.append(found)
        found.env.append(setting)
    if len(targets) > TARGETS_MAX:
        parser.error(f"too many targets: \"{targets[TARGETS_MAX].label}\"")
    return targets


def environment_of(target):
    """`telpher run` shows its program no driver but Telpher: that is undone for the native target."""
    env = dict(os.environ)
    if target.vendors or (target.system_drivers and "TELPHER_SERVERS" in env):
        for name in LOADER_VARIABLES:
            env.pop(name, None)
    if target.vendors:
        env["OCL_ICD_VENDORS"] = target.vendors
    env.update(setting.split("=", 1) for setting in target.env)
    return env


# ---- measuring ----

class Run:
    """What has been measured: series by target, case and size, in the order of measuring."""

    def __init__(self, args, runtime, targets, cases, floors):
        self.args, self.runtime, self.targets, self.floors = args, runtime, targets, floors
        self.cases = [case for case in cases.values() if is_chosen(case, args.tests)]
        self.rounds = args.rounds or (3 if len(targets) > 1 else 1)
        self.floor = None if args.no_floor else Target("Floor", "floor")
        self.series = {}

    def get(self, target, case, size_bytes):
        return self.series.setdefault((target, case.name, size_bytes), Series(target, case, size_bytes))

    def median_of(self, target, name, size_bytes):
        found = self.series.get((target, name, size_bytes))
        return found.median() if found is not None and found.good() else 0

    def floor_us(self, series):
        """The median of the floor of one operation of that series; 0: there is none."""
        found = self.series.get((self.floor, series.case.floor, series.size)) if self.floor else None
        return found.median() * series.case.trips / (series.case.operations or self.args.batch) if found else 0

    def over_native(self, series):
        """(x - Native) / Floor, or None where one of the three is missing."""
        native = next((t for t in self.targets if t.label == "Native"), None)
        base = self.median_of(native, series.case.name, series.size)
        floor = self.floor_us(series)
        if floor <= 0 or not series.good() or series.target.system_drivers or (native and base <= 0):
            return None
        return (series.median() - base) / floor

    def measure(self):
        for turn in range(self.rounds):
            for floor in self.floors.values() if self.floor else []:
                if self.is_floor(floor):
                    self.show_progress(turn, "floors")
                    self.measure_case(self.floor, floor)
            for case in self.cases:
                self.show_progress(turn, case.name)
                # every other round runs in reverse, so that no target is always first
                for target in self.targets if turn % 2 == 0 else reversed(self.targets):
                    if target.runs(case):
                        self.measure_case(target, case)
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")

    def is_floor(self, floor):
        """Ping-pongs are good to see beside cases that do not name them."""
        return (floor.name in [case.floor for case in self.cases] or floor.name.startswith("tcp_pingpong")
                or (floor.name == "memcpy" and any(case.sized for case in self.cases)))

    def show_progress(self, turn, what):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[Kround {turn + 1} of {self.rounds}: {what}")

    def measure_case(self, target, case):
        iterations = (self.args.iterations + self.rounds - 1) // self.rounds
        line = [PROGRAM, "measure", target.runtime, "--raw", case.name] + options_of(
            self.args, target, iterations, local=self.runtime == "migrate" and case.sized)
        ending = ""
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(line, stdout=output, env=environment_of(target))
            try:
                status = process.wait(self.args.timeout)
                if status < 0:
                    ending = f"ended by signal {-status} ({signal.strsignal(-status)})"
                elif status > 0:
                    ending = f"exit status {status}"
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                ending = f"no answer within {self.args.timeout} s"
            output.seek(0)
            for text in output:
                self.keep_line(target, case, text.rstrip("\n"))
        reported = any(s.error for s in self.series.values() if s.target is target and s.case is case)
        if ending and not (reported and ending.startswith("exit")):
            self.keep_error(target, case, self.args.size[0] if case.sized else 0, ending)

    def keep_error(self, target, case, size_bytes, text):
        series = self.get(target, case, size_bytes)
        series.error = series.error or text

    def keep_line(self, target, case, line):
        """Lines that are none of ours (drivers print too) are passed over."""
        match = re.fullmatch(r"(info) (\S+) (.+)|(sample|check|error|traffic) (\d+) (.+)", line)
        if not match:
            return
        if match[1]:
            target.info.setdefault(match[2], match[3])  # of the floors, the first: what --floor-host names
        elif match[4] == "error":
            self.keep_error(target, case, int(match[5]), match[6])
        elif match[4] == "sample":
            self.get(target, case, int(match[5])).samples.append(float(match[6]))
        elif match[4] == "traffic":
            series = self.get(target, case, int(match[5]))
            traffic, steps = map(int, match[6].split())
            series.traffic += traffic
            series.traffic_steps += steps
        else:
            self.get(target, case, int(match[5])).checked = True


# ---- tables, laid out like those of the OSU benchmarks ----

def value_text(value):
    return f"{value:14.2f}" if value > 0 else f"{'-':>14}"


def describe_machine():
    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        match = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
        cpu = match[1] if match else cpu
    system = os.uname()
    return {"host": platform.node(), "cpu": cpu, "processors": os.sysconf("SC_NPROCESSORS_ONLN"),
            "kernel": f"{system.sysname} {system.release} {system.machine}", "load": os.getloadavg()[0]}


class Report:
    def __init__(self, run, version):
        self.run, self.version = run, version
        self.date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.machine = describe_machine()

    def print_tables(self):
        run, several = self.run, len(self.run.targets) > 1
        self.print_head()
        if several:
            self.print_compared()
        for target in run.targets if run.args.full or not several else []:
            self.print_full(target, several)
        self.print_traffic()
        for s in run.series.values():  # one target's are in its table already
            if s.error and (s.target is run.floor or several):
                print(f"# FAILED: {s.target.label}, {s.case.name}, size {s.size}: {s.error}")

    def print_head(self):
        m, run = self.machine, self.run
        print(f"# Machine: {m['host']}, {m['cpu']}, {m['processors']} CPUs, load {m['load']:.1f}, {m['kernel']}, {self.date}")
        for t in run.targets:
            info = t.info
            if "platform" in info:
                print(f"# {t.label}: {info['platform']} ({info.get('version', '')}), device {t.device}: "
                      f"{info.get('device', '')}, driver {info.get('driver', '')}")
            else:
                print(f"# {t.label}: {info.get('device', 'did not answer')}")
        if run.floor:
            print(f"# Floor: 4 bytes there and back by {run.floor.info.get('device', '')}: "
                  f"{run.median_of(run.floor, 'tcp_pingpong', 0):.2f} us sleeping, "
                  f"{run.median_of(run.floor, 'tcp_pingpong_poll', 0):.2f} us spinning")

    def print_traffic(self):
        counted = [s for s in self.run.series.values() if s.traffic_steps > 0]
        if counted:
            print(f"\n# Bytes of one step on {self.run.args.interface}")
        for s in counted:
            print(f"# {s.target.label}, {s.case.name}, size {s.size}: {s.traffic / s.traffic_steps:.0f}")

    def print_title(self, case, label):
        kind = {"bandwidth": "Bandwidth", "migration": "Migration"}.get(case.pattern, "Latency") + " Test"
        kind += f", {case.name}" if case.sized else ""
        title = {"ocl": "OpenCL", "migrate": "OpenCL", "floor": "Floor"}[self.run.runtime]
        print(f"\n# Telpher {title} {kind}{', ' + label if label else ''} v{self.version}")
        print(f"# {'Size' if case.sized else 'Test':<18}", end="")

    def rows(self, wanted):
        """Each row's case, size, and whether a table begins there. Latencies share one, bandwidths do not."""
        last = None
        for case in self.run.cases:
            for size_bytes in dict.fromkeys(s.size for s in self.run.series.values() if s.case is case and wanted(s)):
                yield case, size_bytes, last is None or (last is not case and (case.sized or last.sized))
                last = case

    def print_full(self, target, name_target):
        for case, size_bytes, begins in self.rows(lambda s: s.target is target):
            if begins:
                self.print_title(case, target.label if name_target else "")
                columns = ["P90", "P99", "Min", "Max", "Floor"] + (["memcpy"] if case.sized else []) + ["of Floor" if case.shows_rate() else "x Floor"]
                print(f"{case.column():>18}"
                      + "".join(f"{c:>14}" for c in columns + ["Validation"]))
            self.print_full_row(self.run.get(target, case, size_bytes))

    def print_full_row(self, s):
        run, case = self.run, s.case
        print(f"{s.size if case.sized else case.name:<20}", end="")
        if s.error:
            print(f"    FAILED: {s.error}")
            return
        floor, median = run.floor_us(s), s.median()
        times = [s.quantile(0.9), s.quantile(0.99), s.quantile(1.0 if case.shows_rate() else 0.0),
                 s.quantile(0.0 if case.shows_rate() else 1.0), floor]
        if case.sized:
            times.append(run.median_of(run.floor, "memcpy", s.size))
        ratio = 0 if floor <= 0 else floor / median if case.shows_rate() else median / floor
        print(f"{s.shown(median):18.2f}" + "".join(value_text(s.shown(us)) for us in times) + value_text(ratio)
              + f"{'Pass' if s.checked else 'Fail':>14}")

    def print_compared(self):
        print("# Medians. x*: " + ("(x - Native) / Floor, what x costs beyond the native driver"
                                   if any(t.label == "Native" for t in self.run.targets) else "x / Floor"))
        ratios = [t for t in self.run.targets if not t.system_drivers]
        for case, size_bytes, begins in self.rows(lambda s: s.target is not self.run.floor):
            targets = [t for t in self.run.targets if t.runs(case)]
            if begins:
                self.print_title(case, "")
                unit = "MB/s" if case.shows_rate() else "us"
                print("".join(f"{f'{t.label} ({unit})':>16}" for t in targets) + f"{'Floor':>14}"
                      + "".join(f"{t.label + '*':>14}" for t in ratios))
            self.print_compared_row(case, size_bytes, targets, ratios)

    def print_compared_row(self, case, size_bytes, targets, ratios):
        run = self.run
        line = f"{size_bytes if case.sized else case.name:<20}"
        for t in targets:
            s = run.series.get((t, case.name, size_bytes))
            line += f"{s.shown(s.median()):16.2f}" if s and s.good() else f"{'FAILED' if s else '-':>16}"
        some = Series(run.floor, case, size_bytes)
        line += value_text(some.shown(run.floor_us(some)))
        for t in ratios:
            s = run.series.get((t, case.name, size_bytes))
            ratio = run.over_native(s) if s else None
            line += f"{'-':>14}" if ratio is None else f"{ratio:14.2f}"
        print(line)

    # -- JSON: one line for each target and series --

    def target_object(self, t):
        info = t.info
        return {"target": t.label, "platform": info.get("platform", ""), "version": info.get("version", ""),
                "device_index": t.device, "device": info.get("device", ""), "driver": info.get("driver", ""),
                "vendors": t.vendors, "environment": " ".join(t.env)}

    def series_object(self, s):
        median, case = s.median(), s.case
        row = {"target": s.target.label, "test": case.name, "pattern": case.pattern, "bytes": s.size, "samples": len(s.samples),
               "median_us": median, "p50_us": median, "p90_us": s.quantile(0.9), "p99_us": s.quantile(0.99),
               "min_us": s.quantile(0), "max_us": s.quantile(1), "mean_us": statistics.fmean(s.samples) if s.samples else 0}
        if s.traffic_steps > 0:
            row["interface_bytes"] = s.traffic / s.traffic_steps
        if case.shows_rate():
            row["median_mb_per_s"] = s.shown(median)
        if self.run.floor_us(s) > 0:
            row["floor_us"] = self.run.floor_us(s)
        if self.run.over_native(s) is not None:
            row["over_native_in_floors"] = self.run.over_native(s)
        row["validated"] = s.good()
        if s.error:
            row["error"] = s.error
        return {key: float(f"{value:.10g}") if isinstance(value, float) else value for key, value in row.items()}

    def write_json(self, path):
        run, args = self.run, self.run.args
        head = {"tool": "telpher-bench", "version": self.version, "date": self.date, "machine": self.machine,
                "settings": {"iterations": args.iterations, "warmup": args.warmup, "window": args.window_size,
                             "batch": args.batch, "memory": args.memory, "validation": args.validation,
                             "floor_host": args.floor_host}}
        lists = {"targets": [self.target_object(t) for t in run.targets + ([run.floor] if run.floor else [])],
                 "results": [self.series_object(s) for s in run.series.values()]}
        parts = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        for key, rows in lists.items():
            parts.append(f"  {json.dumps(key)}: [\n" + ",\n".join("    " + json.dumps(row) for row in rows) + "\n  ]")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{\n" + ",\n".join(parts) + "\n}\n")


# ---- the commands ----

def become(arguments):
    """What needs no turns is the program's alone."""
    sys.stdout.flush()
    os.execv(PROGRAM, ["telpher-bench", "measure"] + arguments)


def main(runtime, argv):
    parser = make_parser(runtime)
    args = parser.parse_args(argv)
    cases, memories, version = read_cases(runtime)
    if args.version:
        print(f"telpher-bench {version}")
        return 0
    if args.memory and args.memory not in memories:
        parser.error(f"no such memory: \"{args.memory}\"")
    if args.list:
        for case in cases.values():
            print(f"{case.name:<20}{case.help}")
        return 0
    if args.serve:
        become([runtime, "--listen", args.listen, "--serve"])
    targets = make_targets(parser, args, runtime)
    if args.discover:
        become([runtime, "--discover"] + options_of(args, targets[0], args.iterations))
    if args.raw is not None:
        if args.raw not in cases:
            parser.error(f"no such test: \"{args.raw}\"")
        become([runtime, "--raw", args.raw] + options_of(args, targets[0], args.iterations))
    run = Run(args, runtime, targets, cases, {} if args.no_floor else read_cases("floor")[0])
    if not run.cases:
        parser.error(f"no such test: \"{args.tests}\"")
    run.measure()
    report = Report(run, version)
    report.print_tables()
    sys.stdout.flush()
    try:
        if args.json is not None:
            report.write_json(args.json)
    except OSError as error:
        sys.exit(f"telpher-bench: {args.json}: {error.strerror}")
    return 0 if run.series and all(s.checked and not s.error for s in run.series.values()) else 1


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGPIPE):  # end as other programs do, without a stack trace
        signal.signal(number, signal.SIG_DFL)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
