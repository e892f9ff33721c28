#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures objects, MPI and Python with device memory; `telpher-bench models` becomes this script.

Each measurement is one `telpher launch`. All ways run once in each round, in another order each time, so that a change of the
machine's load reaches all of them. Figures are medians over the rounds.
"""
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # beside installed programs
import telpher_bench_arguments as arguments  # noqa: E402

USAGE = """Usage: telpher-bench models [OPTION]...
Figures 11 to 17 and Table 1 of "Accelerating Communication for Parallel Programming Models on GPU
Systems": objects by entry methods and by channels, adaptive MPI, and Python by channels of ranks
and of objects, with buffers of a device, each direct (D) and staged through host memory (H), in
turns. Latency and bandwidth between two processes; Jacobi's method on a cube, whose edge grows with
the processes (weak) or does not (strong).

  --figures LIST     of 11 (latency), 13 (bandwidth), 15 (Jacobi by objects), 16 (by MPI), 17 (by
                     Python); between two hosts 11 and 13 are the paper's 12 and 14 (all)
  -d, --device KIND  of the buffers: sim, opencl, cuda, host (sim)
  -m, --message-size [MIN:]MAX  bytes (8:4M)
  -i, --iterations N of each size (100)
  --hosts            as root: the processes are in network namespaces made for this, with TCP
  --ranks LIST       processes of Jacobi's method (1,2,4)
  --edge N           of the cube, of one process where it grows (64)
  --steps N          (20)
  --cube MEMORY      of Python's cube: numpy, cupy, torch, torch-cpu (numpy)
  --jacobi-mpi FILE  the program of figure 16 (examples/09_jacobi_mpi)
  --examples FOLDER  where 08_jacobi_objects and python/jacobi3d.py are (of the build)
  --charm PROGRAM    instead: pingpong of Charm++'s benchmarks, built over UCX for Open MPI's mpirun,
                     in turns with entry methods
  --rounds N         turns (5)
  --timeout S        of one measurement (120)
  --json FILE        all figures; telpher-bench plot draws the picture from it
  -o, --out FILE     the picture, .png or .svg
  -h, --help         this text
"""
FOLDER = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(os.path.join(FOLDER, "..", ".."))
BENCH, TELPHER = os.path.join(TOP, "bin", "telpher-bench"), os.path.join(TOP, "bin", "telpher")
MODELS = {"entries": "Objects, entries", "channels": "Objects, channels", "mpi": "Adaptive MPI", "python": "Python, ranks",
          "python objects": "Python, objects"}
RUNTIMES = {"entries": "entry", "channels": "object", "mpi": "mpi", "python": "telpher", "python objects": "objects"}
PATTERNS = {"11": "latency", "13": "bw"}
JACOBI = {"15": ["entries", "channels"], "16": ["mpi"], "17": ["python"]}
STEP = re.compile(r"([0-9.]+) us a step[,:] (exact|equal)")
EAGER = 8192  # bytes up to which a message travels at once


class Failed(Exception):
    """One line that says what cannot be measured."""


def say(text):
    sys.stderr.write("telpher-bench: models: " + text + "\n")


# ---- processes ----

def run(args, line, env=None, ends_well=True):
    """What a command prints. @ends_well: its exit status counts."""
    try:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True)
    except OSError as error:
        raise Failed(f"cannot run {line[0]}: {error.strerror}") from None
    try:
        out, err = process.communicate(timeout=args.timeout)
    except BaseException as error:  # also Ctrl-C
        os.killpg(process.pid, signal.SIGTERM)  # launchers end their processes
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise Failed(f"no end in {args.timeout} s: {' '.join(line)}") from None
    if process.returncode != 0 and ends_well:
        raise Failed(f"{' '.join(line)}: {(err or out).strip()[-300:]}")
    return out


def launched(args, ranks, program):
    env = {**os.environ, **args.network.env}
    if program[0] == sys.executable or program[1] == "python":
        for name, folder in (("PYTHONPATH", "python"), ("LD_LIBRARY_PATH", "lib")):  # of a build; else as installed
            env[name] = os.path.join(TOP, folder) + os.pathsep + env.get(name, "")
    return run(args, [TELPHER, "launch", "-n", str(ranks), *args.network.options(ranks), "--", *program], env)


class OneHost:
    """All processes on this machine as it is."""
    title, env = "within a node", {}

    @staticmethod
    def options(_ranks):
        return []

    def close(self):
        pass


class Namespaces:
    """A bridge of this machine with network namespaces, which `telpher launch` reaches by an ssh of ours."""
    title = "between network namespaces"
    COUNT = 4

    def __init__(self):
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise Failed("--hosts needs root and the program ip")
        self.name, self.folder = f"tpm{os.getpid()}", tempfile.mkdtemp()
        ssh = os.path.join(self.folder, "ssh")
        with open(ssh, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\n# ssh OPTION... HOST COMMAND\nwhile [ $# -gt 2 ]; do shift; done\n'
                       f'exec ip netns exec "{self.name}-${{1##*.}}" sh -c "$2"\n')
        os.chmod(ssh, 0o755)
        self.env = {"PATH": self.folder + os.pathsep + os.environ["PATH"], "TELPHER_TRANSPORTS": "tcp"}
        self.ip(f"link add {self.name} type bridge", f"addr add 10.213.8.254/24 dev {self.name}", f"link set {self.name} up")
        for i in range(1, self.COUNT + 1):
            space = f"{self.name}-{i}"
            self.ip(f"netns add {space}", f"link add v{self.name}{i} type veth peer name eth0 netns {space}",
                    f"link set v{self.name}{i} master {self.name} up", f"-n {space} addr add 10.213.8.{i}/24 dev eth0",
                    f"-n {space} link set eth0 up", f"-n {space} link set lo up")

    @staticmethod
    def ip(*lines):
        for line in lines:
            done = subprocess.run(["ip", *line.split()], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failed(f"ip {line}: {done.stderr.strip()}")

    def options(self, ranks):
        hosts = ",".join(f"10.213.8.{i}" for i in range(1, min(ranks, self.COUNT) + 1))
        return ["-H", hosts, "--root-host", "10.213.8.254", "--transports", "tcp"]

    def close(self):
        for i in range(1, self.COUNT + 1):
            subprocess.run(["ip", "netns", "del", f"{self.name}-{i}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self.name], capture_output=True, check=False)
        shutil.rmtree(self.folder)


# ---- one measurement ----

def pattern_program(args, pattern, model, staged):
    sizes = ["-d", args.device, "-m", args.message_size, "-i", str(args.iterations), "-f", "json"]
    places = [] if args.device == "host" else ["D", "D"]
    runtime = ["-r", RUNTIMES[model] + "_host" * staged]
    if model.startswith("python"):
        return [BENCH, "python", pattern, *runtime, *sizes]
    sizes = sizes[2:] if args.device == "host" else sizes
    return [BENCH, pattern, *runtime, *(["--mpi", args.module] if model == "mpi" else []), *sizes, *places]


def jacobi_program(args, model, staged, edge):
    if model == "python":
        return [sys.executable, os.path.join(args.examples, "python", "jacobi3d.py"), "--memory", args.cube, "--size", str(edge),
                "--steps", str(args.steps), *(["--staged"] if staged else [])]
    stage = ["-s"] if staged else []
    if model == "mpi":
        return [args.jacobi_mpi, *stage, str(edge), str(args.steps)]
    channels = ["-c"] if model == "channels" else []
    return [os.path.join(args.binaries, "08_jacobi_objects"), *channels, *stage, "-k", args.device, str(edge + 2), str(args.steps)]


def measure_pattern(args, figure, model, staged):
    out = launched(args, 2, pattern_program(args, PATTERNS[figure], model, staged))
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [((figure, model, staged, row["bytes"]), row["median"]) for row in rows if row.get("bytes") and "median" in row]


def measure_jacobi(args, figure, model, staged, ranks, weak):
    edge = round(args.edge * ranks ** (1 / 3)) if weak else args.edge
    found = STEP.search(launched(args, ranks, jacobi_program(args, model, staged, edge)))
    if not found:
        raise Failed(f"figure {figure}: the result is not exact")
    what = ("weak" if weak else "strong") + (f", {model}" if len(JACOBI[figure]) > 1 else "")
    return [((figure, what, staged, ranks), float(found.group(1)))]


def tasks(args):
    todo = []
    for figure in args.figures:
        for staged in (False, True):
            if figure in PATTERNS:
                todo += [(measure_pattern, figure, model, staged) for model in args.models]
            else:
                todo += [(measure_jacobi, figure, model, staged, ranks, weak) for model in JACOBI[figure] for ranks in args.ranks
                         for weak in (False, True)]
    return todo


def measure(args):
    todo, samples, lost = tasks(args), {}, set()
    for number in range(args.rounds):
        random.Random(number).shuffle(todo)
        for function, *what in todo:
            try:
                for key, value in function(args, *what):
                    samples.setdefault(key, []).append(value)
            except Failed as failed:
                lost.add(tuple(what))
                say(str(failed))
        say(f"round {number + 1} of {args.rounds}")
    return {key: statistics.median(values) for key, values in samples.items()}, lost


# ---- Charm++ ----

def measure_charm(args):
    """Half a round trip of Charm++'s message to an array's element and of entry methods, in turns."""
    sizes, table = (8, 65536, 1 << 20), {}
    mpirun = [shutil.which("mpirun.openmpi") or "mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none",
              *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    for number in range(args.rounds):
        ours = run(args, [TELPHER, "launch", "-n", "2", "--", BENCH, "mdr", "-b", "5"])
        for line in ours.splitlines()[1:]:
            size, channel, msg, entry = (float(word) for word in line.split()[:4])
            if size in sizes:
                for name, value in (("channel", channel), ("message", msg), ("entry method", entry)):
                    table.setdefault((int(size), name), []).append(value)
        for size in sizes:
            iterations = str(3000 if size < 65536 else (1 << 25) // size)
            out = run(args, [*mpirun, args.charm, str(size), iterations], ends_well=False)  # over UCX it aborts at its end
            found = re.search(r"time for 1D Arrays is ([0-9.]+)", out)  # a round trip
            if not found:
                raise Failed(f"{args.charm} prints no 'time for 1D Arrays is'")
            table.setdefault((size, "Charm++"), []).append(float(found.group(1)) / 2)
        say(f"round {number + 1} of {args.rounds}")
    names = ["message", "channel", "entry method", "Charm++"]
    print("Half a round trip [us], median (least) over the rounds\n\n| bytes | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for size in sizes:
        cells = [f"{statistics.median(table[size, name]):.2f} ({min(table[size, name]):.2f})" for name in names]
        print(f"| {size:,} | " + " | ".join(cells) + " |")


# ---- output ----

def to_rows(args, results):
    rows = []
    for (figure, what, staged, x), value in sorted(results.items()):
        number = int(figure) + (figure in PATTERNS and args.hosts)
        rows.append({"test": "models", "figure": number, "device": args.device, "where": args.network.title, "way": what,
                     "staged": staged, "processes" if figure in JACOBI else "bytes": x, "median": round(value, 3),
                     "unit": "MB/s" if figure == "13" else "us"})
    return rows


def show(args, results):
    for figure in args.figures:
        keys = {key[1:] for key in results if key[0] == figure}
        whats, xs = sorted({key[0] for key in keys}), sorted({key[2] for key in keys})
        name = f"{PATTERNS[figure]}, {'MB/s' if figure == '13' else 'us'}" if figure in PATTERNS \
            else f"Jacobi, {MODELS[JACOBI[figure][0]].split(',')[0]}, us a step"
        print(f"\nFigure {int(figure) + (figure in PATTERNS and args.hosts)}: {name}, {args.device} memory, {args.network.title}\n")
        columns = [(what, staged) for what in whats for staged in (True, False)]
        print("| | " + " | ".join(f"{MODELS.get(what, what)} {'HD'[not staged]}" for what, staged in columns) + " |\n|---|" + "---|" * len(columns))
        for x in xs:
            cells = [results.get((figure, what, staged, x)) for what, staged in columns]
            print(f"| {x:,} | " + " | ".join("" if cell is None else f"{cell:,.2f}" for cell in cells) + " |")


def show_gains(args, results):
    """Table 1: how many times better direct is than staged, from the least to the most."""
    print(f"\nTable 1: direct over staged, times, {args.device} memory, {args.network.title}\n\n| | " +
          " | ".join(MODELS[model] for model in args.models) + " |\n|---|" + "---|" * len(args.models))
    for figure, pattern in PATTERNS.items():
        for title, small in ((pattern, False), (f"{pattern}, up to {EAGER // 1024} KiB", True)):
            cells = []
            for model in args.models:
                pairs = [(value, results.get((figure, model, True, x))) for (f, what, staged, x), value in results.items()
                         if f == figure and what == model and not staged and (x <= EAGER or not small)]
                gains = [staged / direct if figure == "11" else direct / staged for direct, staged in pairs if staged]
                cells.append(f"{min(gains):.1f} to {max(gains):.1f}" if gains else "")
            if any(cells):
                print(f"| {title} | " + " | ".join(cells) + " |")


def build_module(args, folder):
    """The module of runtime mpi for adaptive MPI; None where that is not built."""
    args.module = os.path.join(folder, "ampi.so")
    try:
        run(args, [BENCH, "build-mpi", os.path.join(TOP, "bin", "telpher-mpicc"), "-o", args.module])
    except Failed as failed:
        say(f"no adaptive MPI: {failed}")
        return False
    return True


def first_folder(*folders):
    return next((folder for folder in folders if os.path.isdir(folder)), folders[0])


def parse_args():
    parser = arguments.Parser("models")
    parser.add_argument("--figures", default="11,13,15,16,17")
    parser.add_argument("-d", "--device", default="sim", choices=["sim", "opencl", "cuda", "host"])
    parser.add_argument("-m", "--message-size", type=arguments.sizes, default="8:4M")
    parser.add_argument("--cube", default="numpy", choices=["numpy", "cupy", "torch", "torch-cpu"])
    for name, default in (("iterations", 100), ("edge", 64), ("steps", 20), ("rounds", 5), ("timeout", 120)):
        parser.add_argument(*(["-i"] if name == "iterations" else []), "--" + name, type=arguments.count, default=default)
    parser.add_argument("--ranks", type=arguments.counts, default="1,2,4")
    parser.add_argument("--hosts", action="store_true")
    for name in ("--jacobi-mpi", "--examples", "--charm"):
        parser.add_argument(name)
    parser.add_argument("--json", type=arguments.place)
    parser.add_argument("-o", "--out", type=arguments.place)
    args = parser.parse_args()
    args.figures = args.figures.split(",")
    wrong = [figure for figure in args.figures if figure not in {**PATTERNS, **JACOBI}]
    if wrong:
        parser.error(f"no figure {wrong[0]}, but {', '.join({**PATTERNS, **JACOBI})}")
    args.binaries = args.examples or os.path.join(TOP, "examples")
    args.examples = args.examples or first_folder("@PROJECT_SOURCE_DIR@/examples", os.path.join(TOP, "share", "telpher", "examples"))
    args.jacobi_mpi = args.jacobi_mpi or os.path.join(args.binaries, "09_jacobi_mpi")
    args.models = list(MODELS)
    return args


def measure_all(args):
    args.network = Namespaces() if args.hosts else OneHost()
    try:
        with tempfile.TemporaryDirectory() as folder:
            if not build_module(args, folder):
                args.models.remove("mpi")
            if importlib.util.find_spec("greenlet") is None:
                say("no channels of Python's objects: they need the package greenlet")
                args.models.remove("python objects")
            results, lost = measure(args)
    finally:
        args.network.close()
    show(args, results)
    show_gains(args, results)
    if args.json or args.out:
        path = args.json or args.out + ".json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"results": to_rows(args, results)}, file, indent=1)
        if args.out:
            run(args, [BENCH, "plot", path, "-o", args.out])
    return 1 if lost else 0


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if "-h" in sys.argv[1:] or "--help" in sys.argv[1:]:
        sys.stdout.write(USAGE)
        return 0
    args = parse_args()
    if args.charm:
        measure_charm(args)
        return 0
    return measure_all(args)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        say(str(failure))
        sys.exit(1)
