#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what it costs to start kernels over MPI, in many launches of mpirun; `telpher-bench launch --figures` runs this.

Each launch is one `telpher-bench launch` under each MPI that it was built for: MPIX_Kernel_call, its batch, and protocols by
hand take turns in windows of time, for 1 to 256 kernels. Figures are medians over the launches of a launch's median, since
places, memory and connections differ from launch to launch and not within one.
"""
import argparse
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
import time

sys.dont_write_bytecode = True  # beside installed programs
import telpher_bench_arguments as arguments  # noqa: E402

USAGE = """usage: telpher-bench launch --figures [OPTION]...

Starts many launches under each MPI that is here, prints tables, and draws figures 3 and 4 of the paper of kernel offload.

  --figures       many launches instead of one
  -o, --out FILE  the picture, .png or .svg (none)
  --json FILE     all figures; telpher-bench plot draws the picture from it
  --from FILE     measure nothing, show the figures of this one
  --jobs LIST     PARENTSxWORKERS with commas between them (1x1,1x2)
  --mpi LIST      of openmpi, mpich (both)
  --modes LIST    of split, spawn (both, where the MPI can spawn)
  --launches N    of each kind (10)
  --minutes M     begin no launch that would end later (30)
  --iterations N  windows of each kind in a launch (30)
  --spawns N      the longest sequence of real spawns, in the first 3 launches (16)
  --bind WORD     where mpirun binds processes: core, none (core where there are enough)
  --timeout S     of one launch (120)
  -h, --help      this text
"""
FOLDER = os.path.dirname(os.path.abspath(__file__))
TIMES = ["inject_us", "launch_us", "done_us"]


# ---- one launch ----

def command(args, mpi, mode, job, round_number):
    parents, workers = (int(n) for n in job.split("x"))
    count = parents + workers if mode == "split" else parents
    fits = parents + workers <= os.cpu_count()
    line = [shutil.which(f"mpirun.{mpi}") or "mpirun"]
    bind = args.bind or ("core" if fits else "none")
    if mpi == "openmpi":
        line += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        line += ["--oversubscribe", "--bind-to", bind]
    elif bind != "none":
        line += ["-bind-to", bind]
    line += ["-np", str(count), program(mpi), "-f", "json", "-w", str(workers), "-i", str(args.iterations),
             "--seed", str(round_number * 1000)]
    if mode == "spawn":
        line += ["--spawn"] + (["--spawns", str(args.spawns)] if round_number < 3 else [])
    return line


def program(mpi):
    """The program that telpher-bench launch becomes; it is installed beside this script."""
    return os.path.join(FOLDER, f"telpher-bench-launch-{mpi}")


def launch(args, mpi, mode, job, round_number):
    """The objects that a launch wrote, and whether it hung."""
    env = {**os.environ, "HWLOC_COMPONENTS": "-opencl,-gl", "TELPHER_OFFLOAD_TIMEOUT": "30s"}
    line = command(args, mpi, mode, job, round_number)
    process = subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    hung = False
    try:
        text, errors = process.communicate(timeout=args.timeout)
    except subprocess.TimeoutExpired:
        hung = True
        os.killpg(process.pid, signal.SIGTERM)  # mpirun ends its processes
        try:
            text, errors = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, errors = process.communicate()
    hung = hung or "no end in" in errors
    if process.returncode != 0 or hung:
        why = "it hung" if hung else errors.strip()[-400:]
        print(f"telpher-bench: launch: {mpi} {mode} {job}, launch {round_number}: {why}", file=sys.stderr)
    return [json.loads(row) for row in text.splitlines() if row.startswith("{")], hung


# ---- all of them ----

def can_spawn(args, mpi):
    rows, _ = launch(argparse.Namespace(**{**vars(args), "iterations": 1, "spawns": 1}), mpi, "spawn", "1x1", 3)
    return bool(rows)


def kinds(args):
    modes = {mpi: [m for m in args.modes if m == "split" or can_spawn(args, mpi)] for mpi in args.mpi}
    return [(mpi, mode, job) for mpi in args.mpi for mode in modes[mpi] for job in args.jobs]


def measure(args):
    rows, hangs, begin, done, took = [], {}, time.time(), 0, {}
    todo = kinds(args)
    for number in range(args.launches):
        random.Random(number).shuffle(todo)
        for kind in todo:
            start = time.time()
            if start - begin + took.get(kind, 0) > args.minutes * 60:
                continue
            got, hung = launch(args, *kind, number)
            rows += [{**row, "launcher": kind[0]} for row in got]
            if hung:
                hangs[" ".join(kind)] = hangs.get(" ".join(kind), 0) + 1
            took[kind] = time.time() - start
        done += 1
        print(f"telpher-bench: launch: launch {done} of all done after {time.time() - begin:.0f} s", file=sys.stderr)
        if time.time() - begin > args.minutes * 60:
            break
    return {"machine": machine(), "hangs": hangs, "results": join(rows)}


def middle(values):
    return round(statistics.median(values), 3)


def join(rows):
    """Of all launches of one kind: the median of each figure, and the 10th and 90th percentile of the launches."""
    groups = {}
    for row in rows:
        key = tuple(row.get(k) for k in ("test", "launcher", "mpi", "mode", "parents", "workers", "way", "kernels"))
        groups.setdefault(key, []).append(row)
    results = []
    for key, group in groups.items():
        names = ("test", "launcher", "mpi", "mode", "parents", "workers", "way", "kernels")
        one = {k: v for k, v in zip(names, key) if v is not None}
        one["launches"] = len(group)
        for field in group[0]:
            values = [row[field] for row in group if isinstance(row.get(field), (int, float)) and not isinstance(row[field], bool)]
            if field not in one and len(values) == len(group):
                one[field] = middle(values)
                if field in TIMES + ["start_us"]:
                    deciles = statistics.quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
                    one["low_" + field], one["high_" + field] = round(deciles[0], 3), round(deciles[8], 3)
        results.append(one)
    return results


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    return {"model": model.group(1) if model else os.uname().machine, "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1), "linux": os.uname().release}


def save(path, result):
    """One result a line, which is what telpher-bench plot reads."""
    with open(path, "w", encoding="utf-8") as file:
        file.write('{\n "machine": ' + json.dumps(result["machine"]) + ',\n "hangs": ' + json.dumps(result["hangs"]))
        file.write(',\n "results": [\n' + ",\n".join("  " + json.dumps(row) for row in result["results"]) + "\n ]\n}\n")


# ---- what comes out ----

def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(r) + " |" for r in rows]


def number(value):
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


class Results:
    def __init__(self, rows):
        self.rows = rows

    def find(self, **wanted):
        return [row for row in self.rows if all(row.get(k) == v for k, v in wanted.items())]

    def value(self, field, **wanted):
        found = self.find(**wanted)
        return found[0].get(field) if found else None


def ratio_text(mine, other):
    return f"{mine / other:.2f}" if mine is not None and other else ""


def one_worker_table(results, mpi, mode):
    """All counts of kernels for 1x1."""
    rows = []
    for n in (1 << k for k in range(9)):
        def v(way, field="launch_us", n=n):
            return results.value(field, test="launch", launcher=mpi, mode=mode, parents=1, workers=1, way=way, kernels=n)
        single, batch = v("single"), v("batch")
        if single is None or batch is None:
            continue
        inject = v("single", "inject_us")
        rows.append([str(n), number(inject / n), number(single), number(single / n), number(v("hand_single")),
                     number(v("paper_single")), ratio_text(single, v("hand_single")), number(v("batch", "inject_us")),
                     number(batch), number(batch / n), number(v("hand_batch")), number(v("paper_batch")),
                     number(v("single", "done_us")), number(v("batch", "done_us"))])
    head = ["kernels", "inject / call", "launch", "/ kernel", "by hand", "two bcasts", "/ by hand", "batch: inject", "launch",
            "/ kernel", "by hand", "two bcasts", "done", "batch: done"]
    return table(head, rows) if rows else []


def jobs_table(results, mpi, mode):
    rows = []
    jobs = sorted({(r["parents"], r["workers"]) for r in results.find(test="launch", launcher=mpi, mode=mode)})
    for parents, workers in jobs:
        row = [f"{parents}:{workers}"]
        for n in (1, 16, 256):
            def v(way, n=n, parents=parents, workers=workers):
                return results.value("launch_us", test="launch", launcher=mpi, mode=mode, parents=parents, workers=workers,
                                     way=way, kernels=n)
            if v("single") is None:
                continue
            row += [number(v("single")), ratio_text(v("single"), v("hand_single")), ratio_text(v("single"), v("paper_single")),
                    number(v("batch")), ratio_text(v("batch"), v("paper_batch"))]
        rows.append(row)
    head = ["parents:workers"]
    for n in (1, 16, 256):
        head += [f"{n}: single", "/ by hand", "/ two bcasts", "batch", "/ two bcasts"]
    return table(head, rows) if len(rows) > 1 else []


def spawn_table(results, mpi):
    rows = []
    for setup in sorted(results.find(test="setup", launcher=mpi, mode="spawn"), key=lambda r: (r["workers"], r["parents"])):
        where = {"launcher": mpi, "mode": "spawn", "parents": setup["parents"], "workers": setup["workers"]}
        single = results.value("launch_us", test="launch", way="single", kernels=16, **where)
        once = results.value("done_us", test="spawns", kernels=1, **where)
        real = results.value("done_us", test="spawns", kernels=16, **where)
        rows.append([f"{setup['parents']}:{setup['workers']}", number(setup["start_us"] / 1e3), number(setup["whole_us"] / 1e3),
                     number((setup["start_us"] + single) / 1e3) if single else "", number(once / 1e3) if once else "",
                     number(real / 1e3) if real else "", f"{real / once / 16:.2f}" if real and once else "",
                     number(once * 256 / 1e6) if once else ""])
    head = ["parents:workers", "spawn once [ms]", "and 16 kernels", "sum of the parts", "one real spawn [ms]", "16 of them",
            "/ 16 x one", "256, by model [s]"]
    return table(head, rows) if rows else []


def tables(result):
    m, results = result["machine"], Results(result["results"])
    launches = max((r["launches"] for r in result["results"]), default=0)
    lines = [f"{m['model']}, {m['processors']} processors, load {m['load']}, Linux {m['linux']}; "
             f"medians over up to {launches} launches of mpirun, in us."]
    for mpi in sorted({r["launcher"] for r in result["results"]}):
        name = next(r["mpi"] for r in result["results"] if r["launcher"] == mpi)
        for mode in ("split", "spawn"):
            for title, made in (("one parent, one worker", one_worker_table(results, mpi, mode)),
                                ("more of them", jobs_table(results, mpi, mode))):
                if made:
                    lines += ["", f"{name}, {mode}, {title}:", ""] + made
        made = spawn_table(results, mpi)
        if made:
            lines += ["", f"{name}, beside real spawns:", ""] + made
    setups = results.find(test="setup")
    if setups:
        share = sum(r["invalid"] for r in setups) / max(sum(r["windows"] for r in setups), 1)
        lines += ["", f"{100 * share:.1f} % of the windows did not count; windows of {number(min(r['window_us'] for r in setups))} to "
                  f"{number(max(r['window_us'] for r in setups))} us. Launches that hung: "
                  + (", ".join(f"{k}: {v}" for k, v in result["hangs"].items()) or "none") + "."]
    return lines


def parse_args():
    parser = arguments.Parser("launch")
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-o", "--out", type=arguments.place)
    parser.add_argument("--from", dest="source")
    for name, kind, default in (("launches", arguments.count, 10), ("minutes", arguments.duration, 30), ("iterations", arguments.count, 30), ("spawns", arguments.count, 16),
                                ("timeout", arguments.count, 120), ("jobs", str, "1x1,1x2"), ("mpi", str, "openmpi,mpich"),
                                ("modes", str, "split,spawn"), ("bind", str, None), ("json", arguments.place, None)):
        parser.add_argument("--" + name, type=kind, default=default)
    args = parser.parse_args()
    args.jobs, args.modes = args.jobs.split(","), args.modes.split(",")
    if not all(re.fullmatch(r"[1-9]\d*x[1-9]\d*", job) for job in args.jobs):
        parser.error("--jobs takes PARENTSxWORKERS with commas between them")
    if not set(args.modes) <= {"split", "spawn"}:
        parser.error("--modes takes split, spawn")
    args.mpi = [m for m in args.mpi.split(",") if os.path.exists(program(m)) and (shutil.which(f"mpirun.{m}") or shutil.which("mpirun"))]
    return args


def main():
    args = parse_args()
    if args.help:
        sys.stdout.write(USAGE)
        return
    if args.source is not None:
        with open(args.source, encoding="utf-8") as file:
            result = json.load(file)
    elif not args.mpi:
        sys.exit("telpher-bench: launch --figures: no MPI here that this was built for (packages telpher-openmpi, telpher-mpich)")
    else:
        result = measure(args)
    with tempfile.TemporaryDirectory() as folder:
        path = args.json or os.path.join(folder, "launch.json")
        save(path, result)
        print("\n".join(tables(result)))
        if args.out:
            subprocess.run([sys.executable, os.path.join(FOLDER, "telpher-bench-plot.py"), path, "-o", args.out], check=True)


if __name__ == "__main__":
    main()
