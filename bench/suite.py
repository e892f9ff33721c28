#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures OSU's patterns with an accelerator's buffers, several ways in turns; `telpher-bench suite` runs this script.

Each measurement is one `mpirun ... telpher-bench PATTERN -f json`. All ways of a pattern run once in each round, in another
order each time, so that a change of the machine's load reaches all of them. Figures are medians over the rounds.
"""
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # beside installed programs
import telpher_bench_arguments as arguments  # noqa: E402

USAGE = """Usage: telpher-bench suite [OPTION]...
Measures OSU's patterns with an accelerator's buffers between processes of an MPI, in turns:
staged (copies to and from host memory around each call), library (libtelpher-mpi-device in front
of the MPI), own (the MPI's own support, where it has some), host (host buffers, the floor).
Prints tables, each with a line that says what limits it.

  --figures LIST     of 2 (latency, one buffer and several), 3 (bandwidths), 4 (bandwidths and
                     latency with sycl::buffer, or, in a build without SYCL, unified shared
                     memory), 5 (collectives) (2,3,4,5)
  -d, --device KIND  what the buffers are: opencl, cuda, sim, ... (opencl); host: host buffers of
                     each MPI beside each other: latency, message rate, bcast, allreduce, alltoall
  --mpi LIST         of openmpi, mpich, ampi (Open MPI and MPICH that are here; with -d host, adaptive
                     MPI as well)
  -m, --message-size [MIN:]MAX  bytes (16K:16M; collectives 16K:1M; host 8:1M)
  -i, --iterations N of each measurement (20; host 200)
  --ranks LIST       processes of the collectives (2,4; host 2,16)
  --devices LIST     or one process for each of so many devices; on one device, two
  --rounds N         turns (5)
  --minutes M        begin no round that would end later (30)
  --timeout S        of one measurement (120)
  --launcher WORDS   in place of mpirun and its options, without -n
  --patterns LIST    of these alone
  --osu FOLDER       measure host buffers beside the programs of OSU that were built there,
                     or in its folders openmpi and mpich, and say which patterns agree
  --json FILE        all figures; telpher-bench plot draws pictures from it
  -o, --out FILE     the picture, .png or .svg
  -h, --help         this text
"""
FOLDER = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.normpath(os.path.join(FOLDER, "..", "..", "bin", "telpher-bench"))
BANDWIDTHS = ("bw", "bibw")
COLLECTIVES = ("allgather", "alltoall", "bcast", "reduce", "allreduce")
WAYS = ("host", "staged", "library", "own")
MPIS = ("openmpi", "mpich", "ampi")
BESIDE = ("bcast", "allreduce", "alltoall")  # with host buffers, each MPI in turns with the others
ATOMICS = ("cas_latency", "fop_latency")  # of one size: 8 bytes here
# Why a pattern differs from OSU's program of that name
REASONS = {**{name: "10 ns of an iteration: two reads of a clock, calls by pointers" for name in ("put_latency", "get_latency", "acc_latency")},
           **{name: "8 bytes in a window of MPI_Win_create; OSU: 1 byte, MPI_Win_allocate" for name in ATOMICS}}


def say(text):
    sys.stderr.write(("\r\033[K" if sys.stderr.isatty() else "") + "telpher-bench: suite: " + text + "\n")


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + text)
        sys.stderr.flush()


# ---- one measurement ----

def library_of(mpi):
    """libtelpher-mpi-device for that MPI: in the build folder, or where the package has it."""
    name = f"libtelpher-mpi-device-{mpi}.so"
    top = os.path.dirname(os.path.dirname(BENCH))
    places = [os.path.join(top, folder, name) for folder in ("lib", "lib64", f"lib/{os.uname().machine}-linux-gnu")]
    return next((place for place in places if os.path.exists(place)), None)


def launcher(args, mpi, ranks, preload):
    if mpi == "ampi":  # its ranks start as Telpher's do
        return [os.path.join(os.path.dirname(BENCH), "telpher"), "launch", "-n", str(ranks), "--"]
    line = args.launcher.split() if args.launcher else [shutil.which(f"mpirun.{mpi}")]
    if not args.launcher and mpi == "openmpi":
        line += ["--oversubscribe"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    line += ["-n", str(ranks)]
    if preload:
        line += ["-genv", "LD_PRELOAD", preload] if mpi == "mpich" else ["-x", f"LD_PRELOAD={preload}"]
    return line


def end(process):
    """Has the launcher end its processes, which may be in groups and namespaces of their own."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(line, timeout, mapping=None):
    """What it printed, and why it failed."""
    try:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env={**os.environ, **({"TELPHER_MAPPING": mapping} if mapping else {})})
    except OSError as error:
        return None, f"cannot run {line[0]}: {error.strerror}"
    try:
        text, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        return None, f"no end within {timeout:g} s"
    except BaseException:
        end(process)
        raise
    said = [row.strip() for row in errors.splitlines() if re.search("[A-Za-z]", row)]
    lines = [row for row in said if "telpher" in row] or said or ["no error message"]
    if process.returncode == 0 or any("the results are complete" in row for row in lines):
        return text, ""  # an MPI that does not end has measured
    return None, lines[0]


def command(args, job, way):
    pattern, mpi = job["pattern"], job["mpi"]
    if way in MPIS:
        runtime = ["-r", "ampi"] if way == "ampi" else ["-r", "mpi"]
        return launcher(args, way, job["ranks"], None) + [BENCH, pattern, *runtime, "-m", job["sizes"], "-i", str(args.iterations), "-x", "20",
                                                          "-f", "json"]
    line = launcher(args, mpi, job["ranks"], library_of(mpi) if way == "library" else None)
    line += [BENCH, pattern, "-r", "mpi_host" if way == "staged" else "mpi", "-m", job["sizes"], "-i", str(args.iterations)]
    line += ["-x", "3", "-f", "json", "-W", "16"] + (["-b", "multiple"] if job["buffers"] == "multiple" else [])
    if pattern in COLLECTIVES:
        return line + (["-d", job["device"]] if way != "host" else [])
    return line + ["-d", job["device"]] + (["H", "H"] if way == "host" else ["D", "D"])


def osu_program(args, mpi, pattern):
    """Of FOLDER/openmpi or FOLDER/mpich where these are, else of FOLDER."""
    folder = os.path.join(args.osu, mpi)
    for path, _, names in os.walk(folder if os.path.isdir(folder) else args.osu):
        if "osu_" + pattern in names and os.access(os.path.join(path, "osu_" + pattern), os.X_OK):
            return os.path.join(path, "osu_" + pattern)
    return None


def figures_of(pattern, text):
    """{bytes: figure} in OSU's columns; of overlapped ones the pure time of communication, the last but one."""
    sized = "barrier" not in pattern
    figures = {}
    for row in (line.split() for line in text.splitlines() if re.match(r" *\d", line)):
        value = row[-2] if pattern.startswith("i") and len(row) >= 4 else row[1] if sized and len(row) > 1 else row[0]
        figures[8 if pattern in ATOMICS else int(row[0]) if sized else 0] = float(value)
    return figures


def measure(args, job, way):
    """{bytes: figure} of one launch, with an error or None."""
    if way in ("osu", "ours"):
        program = osu_program(args, job["mpi"], job["pattern"]) if way == "osu" else os.path.join(FOLDER, "osu", "osu_" + job["pattern"])
        text, error = run(launcher(args, job["mpi"], job["ranks"], None) + [program, *job["options"]], args.timeout)
        return figures_of(job["pattern"], text or ""), error
    if way == "library" and library_of(job["mpi"]) is None:
        return {}, f"no libtelpher-mpi-device-{job['mpi']}.so beside this program; build the target telpher-mpi-device-{job['mpi']}"
    mapping = ":".join(str(rank % job["devices"]) for rank in range(job["ranks"])) if "devices" in job else None
    text, error = run(command(args, job, way), args.timeout, mapping)
    rows = [json.loads(row) for row in (text or "").splitlines() if row.startswith("{")]
    args.environment = next((row["environment"] for row in rows if "environment" in row), args.environment)
    return {row["bytes"]: row["median"] for row in rows if "bytes" in row}, error


# ---- all of them ----

def beside_jobs(args):
    """Host buffers: each MPI is a way."""
    def job(pattern, ranks):
        return {"figure": 0, "pattern": pattern, "ranks": ranks, "sizes": args.message_size or "8:1M", "device": "host", "buffers": "single",
                "mpi": "each", "ways": tuple(mpi for mpi in MPIS if mpi in args.mpi)}
    jobs = [job("latency", 2)] + [job("mbw_mr", ranks) for ranks in args.ranks if ranks % 2 == 0]
    jobs += [job(pattern, ranks) for pattern in BESIDE for ranks in args.ranks]
    return [one for one in jobs if is_wanted(args, one["pattern"])]


def jobs_of(args):
    def job(figure, pattern, **more):
        return {"figure": figure, "pattern": pattern, "ranks": 2, "sizes": args.message_size or "16K:16M", "device": args.device,
                "buffers": "single", **more}
    jobs = [job(2, "latency"), job(2, "latency", buffers="multiple")]
    jobs += [job(3, pattern) for pattern in BANDWIDTHS]
    sycl = "sycl" if os.path.exists(os.path.join(FOLDER, "telpher-bench-sycl.so")) else "usm"
    jobs += [job(4, pattern, device=sycl) for pattern in ("latency", *BANDWIDTHS)]
    scales = [{"ranks": max(n, 2), "devices": n} for n in args.devices] if args.devices else [{"ranks": n} for n in args.ranks]
    jobs += [job(5, pattern, sizes=args.message_size or "16K:1M", **scale) for pattern in COLLECTIVES for scale in scales]
    return [{**one, "mpi": mpi, "ways": WAYS} for one in jobs if one["figure"] in args.figures and is_wanted(args, one["pattern"])
            for mpi in args.mpi]


def is_wanted(args, pattern):
    return args.patterns is None or pattern in args.patterns.split(",")


def in_bytes(sizes):
    """OSU's programs know no K and M."""
    return re.sub(r"(\d+)([KM])", lambda m: str(int(m[1]) << (10 if m[2] == "K" else 20)), sizes)


def osu_jobs(args):
    """Each pattern that OSU has a program of, with host buffers."""
    names = sorted(os.path.basename(link)[4:] for link in os.listdir(os.path.join(FOLDER, "osu")))
    jobs = []
    for name in names:
        sizes = [] if "barrier" in name or name in ATOMICS else ["-m", in_bytes(args.message_size or "4:1M")]
        jobs += [{"figure": 0, "pattern": name, "ranks": 4 if "neighbor" in name else 2, "buffers": "single", "device": "host", "mpi": mpi,
                  "options": [*sizes, "-i", str(args.iterations), "-x", "20"], "ways": ("osu", "ours")}
                 for mpi in args.mpi if osu_program(args, mpi, name) and name not in ("init", "hello") and is_wanted(args, name)]
    return jobs


def measure_all(args, jobs):
    values, failed, begin, took = {}, {}, time.time(), 0
    for number in range(args.rounds):
        start, lost = time.time(), 0
        if start - begin + took > args.minutes * 60:
            say(f"{number} of {args.rounds} rounds fit into {args.minutes:g} minutes")
            break
        turns = [(j, way) for j, job in enumerate(jobs) for way in job["ways"] if (j, way) not in failed]
        random.Random(number).shuffle(turns)
        for done, (j, way) in enumerate(sorted(turns, key=lambda turn: turn[0])):
            progress(f"round {number + 1} of {args.rounds}: {jobs[j]['pattern']} {way}, {100 * done // len(turns)} %")
            began = time.time()
            got, error = measure(args, jobs[j], way)
            if error:
                lost += time.time() - began  # it does not run again
                failed[j, way] = error
                if way != "own":
                    say(f"{jobs[j]['pattern']}, {jobs[j]['mpi']}, {way}: {error}")
            for size, value in got.items():
                values.setdefault((j, way, size), []).append(value)
        took = time.time() - start - lost
    progress("")
    return values


def order_of(way):
    return (*WAYS, "osu", "ours", *MPIS).index(way)


def results_of(jobs, values):
    rows = []
    for (j, way, size), got in sorted(values.items(), key=lambda item: (item[0][0], order_of(item[0][1]), item[0][2])):
        job = {k: v for k, v in jobs[j].items() if k not in ("ways", "sizes", "options")}
        rows.append({"test": "suite", **job, "way": way, "bytes": size, "median": round(statistics.median(got), 3), "rounds": got,
                     "unit": "MB/s" if "bw" in job["pattern"] and "latency" not in job["pattern"] else "us"})
    return rows


# ---- tables ----

def size_name(size):
    for unit, step in (("M", 1 << 20), ("K", 1 << 10)):
        if size >= step and size % step == 0:
            return f"{size // step}{unit}"
    return str(size)


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def limit_of(group, sizes, where):
    """What limits the library's figure at the largest size, by the host buffers' share of it."""
    both = [size for size in sizes if size in group.get("host", {}) and size in group.get("library", {})]
    if not both:
        return "limit unknown: host buffers and the library were not both measured"
    host, mine = group["host"][both[-1]], group["library"][both[-1]]
    share = host["median"] / mine["median"] if mine["unit"] == "us" else mine["median"] / host["median"]
    limit = "copies from device to device, beside the MPI" if share > 1.25 else "the MPI itself" if share > 0.8 else \
        "copies between device and host memory" if share < 0.5 else "both copies and the MPI"
    takes = f"{share * 100:.0f} % of it is what host buffers take" if share <= 1 else f"host buffers take {share:.1f} times as long"
    shared = where and where["load"] > 2 * where["processors"]
    return f"at {size_name(both[-1])}, {takes}: limited by {limit}" + \
        (f", and by {where['processors']} processors at load {where['load']:.0f}" if shared else "")


def groups_of(rows):
    groups = {}
    for row in rows:
        key = tuple(row.get(k) for k in ("figure", "pattern", "device", "buffers", "ranks", "mpi", "devices"))
        groups.setdefault(key, {}).setdefault(row["way"], {})[row["bytes"]] = row
    return groups


def best_of(row):
    return (max if row["unit"] == "MB/s" else min)(row["rounds"])


def table_of(key, group):
    figure, pattern, device, buffers, ranks, mpi, devices = key
    ways = sorted(group, key=order_of)
    sizes = sorted({size for way in ways for size in group[way]})
    pair = ("ours", "osu") if "osu" in ways else ("library", "staged")
    if ways[0] in MPIS:
        yield from beside_table(key, group, ways, sizes)
        return
    unit = next(iter(group[ways[0]].values()))["unit"]
    where = f"{ranks} processes" + (f" on {devices} device{'s' * (devices > 1)}" if devices else "")
    yield f"\n{pattern}, {device} buffers ({buffers}), {where}, {mpi} [{unit}]" + (f", figure {figure}" if figure else "")
    yield "| bytes | " + " | ".join(ways) + f" | {pair[0]} / {pair[1]} | of the best rounds |"
    yield "|---" * (len(ways) + 3) + "|"
    for size in sizes:
        cells = [number(group[way][size]["median"]) if size in group[way] else "" for way in ways]
        both = all(size in group.get(way, {}) for way in pair)
        rows = [group[way][size] for way in pair] if both else []
        ratios = [get(rows[0]) / max(get(rows[1]), 1e-9) if both else None for get in (lambda row: row["median"], best_of)]
        yield f"| {size_name(size)} | " + " | ".join(cells + [f"{ratio:.2f}" if both else "" for ratio in ratios]) + " |"
    limit = next(iter(group[ways[0]].values())).get("limit")
    if limit:
        yield limit


def ratio_to_best(group, mine, others, size):
    """How many times as long as with the better of the others: by time, or by the reverse of bandwidths."""
    rows = [group[way][size] for way in others if size in group.get(way, {})]
    if size not in group.get(mine, {}) or not rows:
        return None
    rate = rows[0]["unit"] == "MB/s"
    best = (max if rate else min)(row["median"] for row in rows)
    value = group[mine][size]["median"]
    return best / max(value, 1e-9) if rate else value / max(best, 1e-9)


def beside_table(key, group, ways, sizes):
    _, pattern, _, _, ranks, _, _ = key
    unit = next(iter(group[ways[0]].values()))["unit"]
    yield f"\n{pattern}, host buffers, {ranks} processes [{unit}]"
    yield "| bytes | " + " | ".join(ways) + f" | {ways[-1]} over the better of the others, in time |"
    yield "|---" * (len(ways) + 2) + "|"
    for size in sizes:
        cells = [number(group[way][size]["median"]) if size in group[way] else "" for way in ways]
        ratio = ratio_to_best(group, ways[-1], ways[:-1], size)
        yield f"| {size_name(size)} | " + " | ".join([*cells, f"{ratio:.2f}" if ratio else ""]) + " |"


def beside_summary(groups):
    """One line for each pattern and number of processes."""
    yield "\n| pattern | processes | median ratio | smallest, largest of a size |"
    yield "|---" * 4 + "|"
    for (_, pattern, _, _, ranks, _, _), group in groups.items():
        ways = sorted(group, key=order_of)
        ratios = [ratio_to_best(group, ways[-1], ways[:-1], size) for size in group[ways[-1]]]
        ratios = [ratio for ratio in ratios if ratio]
        if ratios:
            yield f"| {pattern} | {ranks} | {statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} |"


# ---- agreement with OSU's programs ----

NEAR = 0.05


def spread_of(rows):
    """How far OSU's own figures are apart: the medians of every second round and of the others, the largest of all sizes."""
    halves = [(statistics.median(row["rounds"][::2]), statistics.median(row["rounds"][1::2])) for row in rows if len(row["rounds"]) > 1]
    return max((max(pair) / max(min(pair), 1e-9) - 1 for pair in halves), default=0)


def verdict_of(name, median, best, spread):
    if abs(median - 1) <= NEAR:
        return "agrees"
    if abs(best - 1) <= NEAR:
        return "agrees in the best rounds"
    if abs(median - 1) <= spread:
        return "differs less than OSU's rounds do"
    return "differs" + (f": {REASONS[name]}" if name in REASONS else "")


def agreement_of(groups):
    """One line for each pattern: ours over OSU's, the median over the sizes. Of overlapped ones, the pure communication."""
    yield "\n| pattern | MPI | rounds | ours / osu | of the best rounds | smallest, largest of a size | osu's rounds apart | |"
    yield "|---" * 8 + "|"
    for (_, name, _, _, _, mpi, _), group in groups.items():
        both = [(group["ours"][size], group["osu"][size]) for size in sorted(group.get("osu", {})) if size in group.get("ours", {})]
        both = [(ours, osu) for ours, osu in both if osu["median"] > 0]
        if not both:
            continue
        medians = [ours["median"] / osu["median"] for ours, osu in both]
        median, best = statistics.median(medians), statistics.median(best_of(ours) / max(best_of(osu), 1e-9) for ours, osu in both)
        spread = spread_of([osu for _, osu in both])
        yield (f"| {name} | {mpi} | {min(len(osu['rounds']) for _, osu in both)} | {median:.3f} | {best:.3f} | {min(medians):.2f}, {max(medians):.2f} | "
               f"{100 * spread:.0f} % | {verdict_of(name, median, best, spread)} |")


# ---- the command ----

def parse_args():
    parser = arguments.Parser("suite")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-d", "--device", default="opencl", choices=["host", "opencl", "sycl", "usm", "svm", "cuda", "managed", "sim"])
    for names, kind, default in ((("-m", "--message-size"), arguments.sizes, None), (("-i", "--iterations"), arguments.count, None),
                                 (("-o", "--out"), arguments.place, None), (("--json",), arguments.place, None),
                                 (("--figures",), str, "2,3,4,5"), (("--mpi",), str, None),
                                 (("--ranks",), arguments.counts, None), (("--devices",), arguments.counts, []),
                                 (("--rounds",), arguments.count, 5), (("--minutes",), arguments.duration, 30),
                                 (("--timeout",), arguments.duration, 120), (("--launcher",), str, None), (("--osu",), str, None),
                                 (("--patterns",), str, None)):
        parser.add_argument(*names, type=kind, default=default)
    args = parser.parse_args()
    if args.help:
        sys.stdout.write(USAGE)
        sys.exit(0)
    if not re.fullmatch("[2-5](,[2-5])*", args.figures):
        parser.error("--figures takes 2, 3, 4 and 5, with commas between them")
    args.figures = [int(figure) for figure in args.figures.split(",")]
    host = args.device == "host"
    args.ranks = args.ranks or ([2, 16] if host else [2, 4])
    args.iterations = args.iterations or (200 if host else 20)
    args.mpi = args.mpi or ("openmpi,mpich,ampi" if host else "openmpi,mpich")
    if not set(args.mpi.split(",")) <= set(MPIS if host else MPIS[:2]):
        parser.error("--mpi takes openmpi, mpich" + (", ampi" if host else "; ampi with -d host"))
    if host and args.osu:
        parser.error("--osu measures host buffers without -d host")
    if args.launcher is not None and not (args.launcher.split() and shutil.which(args.launcher.split()[0])):
        parser.error(f"--launcher: no such program: {args.launcher}")
    if args.osu and not os.path.isdir(args.osu):
        parser.error(f"--osu: no such folder: {args.osu}")
    args.mpi = [mpi for mpi in args.mpi.split(",") if os.path.exists(os.path.join(FOLDER, f"telpher-bench-{mpi}.so"))
                and (mpi == "ampi" or args.launcher or shutil.which(f"mpirun.{mpi}"))]
    if not args.mpi:
        sys.exit("telpher-bench: suite: no MPI here that this was built for (packages telpher-openmpi, telpher-mpich)")
    args.environment = None
    return args


def main():
    args = parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    jobs = osu_jobs(args) if args.osu else beside_jobs(args) if args.device == "host" else jobs_of(args)
    if not jobs:
        sys.exit("telpher-bench: suite: no such patterns " + (f"among the programs of {args.osu}" if args.osu else "in these figures"))
    rows = results_of(jobs, measure_all(args, jobs))
    for key, group in groups_of(rows).items():
        limit = limit_of(group, sorted(group.get("library", {})), args.environment) if key[0] else None
        for row in (row for way in group.values() for row in way.values() if limit):
            row["limit"] = limit
    if not rows:
        sys.exit("telpher-bench: suite: nothing could be measured")
    if args.environment:
        where = args.environment
        rounds = max(len(row["rounds"]) for row in rows)
        print(f"# {where['processor']}, {where['processors']} processors, load {where['load']}; medians of {rounds} rounds")
    for key, group in groups_of(rows).items():
        print("\n".join(table_of(key, group)))
    if args.osu:
        print("\n".join(agreement_of(groups_of(rows))))
    if args.device == "host":
        print("\n".join(beside_summary(groups_of(rows))))
    path = args.json or (args.out + ".json" if args.out else None)
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"environment": args.environment, "results": rows}, file, indent=1)
    if args.out:
        sys.exit(subprocess.run([sys.executable, os.path.join(FOLDER, "telpher-bench-plot.py"), path, "-o", args.out], check=False).returncode)


if __name__ == "__main__":
    main()
