#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws results of telpher-bench; `telpher-bench plot` runs this script.

The form of a file's rows selects the picture: cases of `ocl` and `floor`, `migrate`, `launch --figures`, `compare`, `notified`,
or the case studies of scripts/bench/studies.
"""
import argparse
import json
import math
import os
import sys

USAGE = """Usage: telpher-bench plot FILE.json... -o OUT.png
Draws the medians of one or more results of telpher-bench (--json), or one result of
suite, launch --figures, compare -f json, notified -f json, scripts/bench/studies or
scripts/bench/servers.

  -o, --out FILE  the picture: .png or .svg
  -h, --help      this text
"""
SYSTEM_PYTHON = "/usr/bin/python3"
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#7f7f7f"]


class BadFile(Exception):
    pass


def load(path):
    """The rows of a file: "results" of one JSON object, or one object a line."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path}: {getattr(error, 'strerror', error)}") from error
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("results"), list):
        return [row for row in whole["results"] if isinstance(row, dict)]
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            pass
    return [row for row in rows if isinstance(row, dict)]


def unique(values):
    return list(dict.fromkeys(values))


def size_name(size):
    for unit, step in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= step and size % step == 0:
            return f"{size // step}{unit}"
    return str(int(size))


def label_sizes(axes, sizes):
    """Marks powers of two, at most nine of them."""
    shown = sorted(set(sizes))
    shown = shown[::math.ceil(len(shown) / 9)] if shown else []
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [size_name(int(s)) for s in shown])
    axes.minorticks_off()


def show_decades(axis, low, high):
    """A logarithmic axis over whole decades, so that at least two of them have a label."""
    low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    getattr(axis.axes, f"set_{axis.axis_name}lim")(low, max(high, 10 * low))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")


def make_figure(plt, rows, columns, width, height):
    figure, axes = plt.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained")
    return figure, axes


# ---- cases of ocl and floor ----

def draw_latencies(axes, files, names):
    good = [(f, row) for f, rows in enumerate(files) for row in rows if row["pattern"] != "bandwidth" and row["target"] != "Floor"]
    tests = unique(row["test"] for _, row in good)
    kinds = unique((f, row["target"]) for f, row in good)
    for k, kind in enumerate(kinds):
        mine = {row["test"]: row["median_us"] for f, row in good if (f, row["target"]) == kind}
        at = [i + 0.8 * ((k + 0.5) / len(kinds) - 0.5) for i, test in enumerate(tests) if test in mine]
        axes.bar(at, [mine[t] for t in tests if t in mine], 0.76 / len(kinds), label=f"{names[kind[0]]}{kind[1]}")
    floors = {row["test"]: row["floor_us"] for _, row in good if row.get("floor_us")}
    for i, test in enumerate(tests):
        if test in floors:
            axes.plot([i - 0.45, i + 0.45], [floors[test]] * 2, color="black", lw=1.2, label="floor" if test == min(floors) else None)
    axes.set(title="Latency (median)", ylabel="µs", yscale="log", xlim=(-0.6, len(tests) - 0.4))
    show_decades(axes.yaxis, *axes.get_ylim())
    axes.set_xticks(range(len(tests)), tests, rotation=30, ha="right", rotation_mode="anchor")
    axes.legend()


def draw_bandwidths(axes, files, names):
    sizes = []
    for f, rows in enumerate(files):
        good = [row for row in rows if row["pattern"] == "bandwidth"]
        for target, test in unique((row["target"], row["test"]) for row in good):
            points = sorted((r["bytes"], r["median_mb_per_s"]) for r in good if (r["target"], r["test"]) == (target, test))
            style = {"ls": "--", "color": "#7f7f7f", "alpha": 0.8} if target == "Floor" else {}
            axes.plot(*zip(*points), marker="o", ms=4, label=f"{names[f]}{target} {test}", **style)
            if target == "Floor":
                axes.annotate(test, points[-1], xytext=(6, 0), textcoords="offset points", va="center", fontsize=8, color="#555555")
            sizes += [p[0] for p in points]
    label_sizes(axes, sizes)
    axes.set(title="Bandwidth (median)", xlabel="bytes", ylabel="MB/s", yscale="log")
    show_decades(axes.yaxis, *axes.get_ylim())
    axes.legend(ncols=2)


def draw_cases(plt, files, paths):
    names = [f"{os.path.basename(path)}, " if len(files) > 1 else "" for path in paths]
    good = [[row for row in rows if row.get("validated") and "pattern" in row] for rows in files]
    parts = [draw for draw, is_sized in ((draw_latencies, False), (draw_bandwidths, True))
             if any((row["pattern"] == "bandwidth") == is_sized and (is_sized or row["target"] != "Floor")
                    for rows in good for row in rows)]
    if not parts:
        raise BadFile(f"{paths[0]}: no results with a right answer in it")
    figure, axes = make_figure(plt, len(parts), 1, 11, 4.8)
    for draw, part in zip(parts, axes[:, 0]):
        draw(part, good, names)
    return figure


# ---- migrate ----

TARGETS = {"Subject": "directly", "Client": "through the client", "Peer": "the other driver"}
MIGRATIONS = {"migrate": "migrate, finish", "step": "migrate, increment, finish", "loop": "20 steps, one finish"}


def draw_migrations(plt, files, _):
    rows = [row for row in files[0] if row.get("validated")]
    tests = [test for test in MIGRATIONS if any(row["test"] == test for row in rows)]
    if not tests:
        raise BadFile("no migration with a right answer in it")
    figure, axes = make_figure(plt, 1, len(tests), 5.4, 4.4)
    for test, part in zip(tests, axes[0]):
        mine = sorted((row for row in rows if row["test"] == test), key=lambda r: r["bytes"])
        for target in unique(row["target"] for row in mine):
            part.plot(*zip(*[(r["bytes"], r["median_us"]) for r in mine if r["target"] == target]), marker="o", ms=4,
                      label=TARGETS.get(target, target))
        floors = {r["bytes"]: r["floor_us"] for r in mine if r.get("floor_us")}
        if floors:
            part.plot(*zip(*floors.items()), ls="--", color="#7f7f7f", label="floor: one stream between two processes")
        part.set(title=f"{MIGRATIONS[test]} (median)", xlabel="bytes", ylabel="µs a step", yscale="log")
        show_decades(part.yaxis, *part.get_ylim())
        label_sizes(part, [r["bytes"] for r in mine])
        part.legend(fontsize=8)
    return figure


# ---- the examples matmul, lbm and pointcloud, by scripts/bench/servers ----

def draw_examples(plt, files, _):
    bars = [("matmul", "devices", "gflops", "product of matrices", "GFLOP/s"), ("lbm", "label", "mlups", "flow", "MLUPS"),
            ("lbm", "label", "utilisation", "devices in the flow", "part of the time in kernels"),
            ("pointcloud", "label", "fps", "frames of points", "frames/s"),
            ("pointcloud", "label", "bytes", "client's link", "bytes a frame"),
            ("pointcloud", "label", "client_ms", "client's processor", "ms a frame"),
            ("pointcloud", "label", "joules", "energy, servers included", "J a frame")]
    bars = [bar for bar in bars if any(row["example"] == bar[0] and bar[2] in row for row in files[0])]
    columns = min(len(bars), 4)
    figure, axes = make_figure(plt, -(-len(bars) // columns), columns, 4.2, 3.6)
    for part in axes.flat[len(bars):]:
        part.set_axis_off()
    for (example, name, value, title, unit), part in zip(bars, axes.flat):
        mine = [row for row in files[0] if row["example"] == example and row["right"]]
        names = [f"{row[name]} {'server' if row[name] == 1 else 'servers'}" if name == "devices" else row[name] for row in mine]
        part.bar(names, [row[value] for row in mine], color=COLOURS[:len(mine)], width=0.6)
        part.set(title=title, ylabel=unit)
        part.set_xticks(range(len(names)), names, rotation=30 if len(names) > 6 else 20, ha="right")
    return figure


# ---- launch --figures: figures 3 and 4 of the paper of kernel offload ----

WAYS = [("single", "MPIX_Kernel_call", "-", COLOURS[0]), ("batch", "MPIX_Kernel_call_multiple", "-", COLOURS[2]),
        ("hand_single", "by hand", "--", COLOURS[1]), ("paper_single", "by hand, two broadcasts", "--", COLOURS[3]),
        ("paper_batch", "batch by hand, two broadcasts", "--", COLOURS[4])]


def choose_job(rows, launcher, mode, workers):
    """The measured job with that many workers and with the fewest parents, or None."""
    jobs = [(r["parents"], r["workers"]) for r in rows
            if (r["test"], r.get("launcher"), r["mode"], r["workers"]) == ("launch", launcher, mode, workers)]
    return min(jobs, default=None)


def of_job(rows, test, launcher, mode, job, **more):
    wanted = {"test": test, "launcher": launcher, "mode": mode, "parents": job[0], "workers": job[1], **more}
    return [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def set_kernel_axes(axes, title, counts, unit):
    axes.set(title=title, xlabel="kernels", ylabel=unit, yscale="log")
    show_decades(axes.yaxis, *axes.get_ylim())
    label_sizes(axes, counts)
    axes.legend(fontsize=8)


def draw_starts(axes, rows, launcher, mode, job):
    setup = of_job(rows, "setup", launcher, mode, job)
    start = setup[0]["start_us"] if setup else 0
    spawns = sorted((r["kernels"], r["done_us"] / 1e6) for r in of_job(rows, "spawns", launcher, mode, job))
    counts = sorted({r["kernels"] for r in of_job(rows, "launch", launcher, mode, job)})
    if spawns:
        axes.plot(*zip(*spawns), marker="o", color=COLOURS[3], label="a spawn for each kernel, measured")
        axes.plot(counts, [n * spawns[0][1] for n in counts], ls=":", color=COLOURS[3], label="model: as many times one spawn")
    for way, title, _, colour in WAYS[:2]:
        points = sorted((r["kernels"], (start + r["launch_us"]) / 1e6) for r in of_job(rows, "launch", launcher, mode, job, way=way))
        axes.plot(*zip(*points), marker="s", ms=4, color=colour, label=f"1 {'spawn' if mode == 'spawn' else 'start'} + {title}")
    set_kernel_axes(axes, f"Kernels and the start of their workers (figure 3)\n{place(rows, launcher, mode, job)}", counts, "s")


def draw_calls(axes, rows, launcher, mode, job):
    for way, title, style, colour in WAYS:
        mine = sorted(of_job(rows, "launch", launcher, mode, job, way=way), key=lambda r: r["kernels"])
        counts, times = [r["kernels"] for r in mine], [r["launch_us"] for r in mine]
        axes.plot(counts, times, marker="o", ms=4, ls=style, color=colour, label=title)
        if mine and "low_launch_us" in mine[0]:
            axes.fill_between(counts, [r["low_launch_us"] for r in mine], [r["high_launch_us"] for r in mine], color=colour, alpha=0.12,
                              lw=0)
    set_kernel_axes(axes, f"Kernels alone, until the last begins (figure 4)\n{place(rows, launcher, mode, job)}", counts, "µs")


def place(rows, launcher, mode, job):
    return f"{of_job(rows, 'launch', launcher, mode, job)[0]['mpi']}, {mode}, parents:workers {job[0]}:{job[1]}"


def draw_launch(plt, files, _):
    """One row of pictures for each MPI, and for the fewest and the most workers of a parent."""
    rows = [{"launcher": "mpi", **row} for row in files[0]]
    lines = []
    for launcher in unique(row["launcher"] for row in rows):
        workers = sorted({r["workers"] for r in rows if r["test"] == "launch" and r["launcher"] == launcher})
        for count in unique([workers[0], workers[-1]]):
            modes = {mode: choose_job(rows, launcher, mode, count) for mode in ("split", "spawn")}
            modes = {mode: job for mode, job in modes.items() if job}
            first, last = ("spawn" if "spawn" in modes else "split"), ("split" if "split" in modes else "spawn")
            lines.append((launcher, first, modes[first], last, modes[last]))
    figure, axes = make_figure(plt, len(lines), 2, 6.4, 4.6)
    for (launcher, first, first_job, last, last_job), pair in zip(lines, axes):
        draw_starts(pair[0], rows, launcher, first, first_job)
        draw_calls(pair[1], rows, launcher, last, last_job)
    return figure


# ---- compare ----

def draw_compare(plt, files, _):
    rows = sorted(files[0], key=lambda r: r["bytes"])
    sizes = [r["bytes"] for r in rows]
    figure, axes = make_figure(plt, 1, 2, 6.4, 4.4)
    times, ratios = axes[0]
    for key, title, style in (("ours_us", "Telpher channel", "-"), ("theirs_us", rows[0]["mpi"], "-"),
                              ("store_us", "floor: plain stores", ":")):
        times.plot(sizes, [r[key] for r in rows], marker="o", ms=4, ls=style, label=title)
    times.set(title="Half a round trip (median)" + (", one core busy" if rows[0]["busy"] else ""), xlabel="bytes", ylabel="µs",
              yscale="log")
    times.legend()
    below, above = [r["ratio"] - r["ratio_low"] for r in rows], [r["ratio_high"] - r["ratio"] for r in rows]
    ratios.errorbar(sizes, [r["ratio"] for r in rows], yerr=[below, above], marker="o", ms=4, capsize=3)
    ratios.axhline(1, color="black", lw=1)
    ratios.set(title=f"Telpher / {rows[0]['mpi']}, 95 % intervals", xlabel="bytes", ylim=(0, None))
    label_sizes(times, sizes)
    label_sizes(ratios, sizes)
    return figure


# ---- suite: patterns with device buffers, several ways ----

STYLES = {"host": {"ls": ":", "color": "#7f7f7f"}, "osu": {"ls": "--"}}


def draw_panel(axes, rows, title):
    sizes = sorted({row["bytes"] for row in rows if row["bytes"] > 0})
    for way in unique(row["way"] for row in rows):
        points = sorted((row["bytes"], row["median"]) for row in rows if row["way"] == way and row["bytes"] > 0)
        axes.plot(*zip(*points), marker="o", ms=3, label=way, **STYLES.get(way, {}))
    axes.set(title=title, xlabel="bytes", ylabel="µs" if rows[0]["unit"] == "us" else "MB/s", yscale="log")
    label_sizes(axes, sizes)
    show_decades(axes.yaxis, *axes.get_ylim())
    axes.legend()


def draw_scales(axes, rows, title):
    """A colour for each number of processes, or of devices; dashed: staged."""
    scales = sorted({(row["ranks"], row.get("devices") or 0) for row in rows})
    for colour, scale in zip(COLOURS, sorted(scales, key=lambda scale: scale[::-1])):
        label = f"{scale[1]} device{'s' * (scale[1] > 1)}" if scale[1] else f"{scale[0]} processes"
        for way in ("library", "staged"):
            points = sorted((row["bytes"], row["median"]) for row in rows
                            if row["way"] == way and (row["ranks"], row.get("devices") or 0) == scale)
            if points:
                axes.plot(*zip(*points), marker="o", ms=3, color=colour, ls="-" if way == "library" else "--", label=label)
                label = None  # named once, also where one of the ways was not measured
    axes.set(title=title, xlabel="bytes", ylabel="µs", yscale="log")
    label_sizes(axes, sorted({row["bytes"] for row in rows}))
    show_decades(axes.yaxis, *axes.get_ylim())
    axes.legend(title="library; dashed: staged", title_fontsize=7)


def draw_suite(plt, files, _):
    """A panel for each pattern, and below it the line that says what limits it; of figure 5 all scales in one panel."""
    panels = {}
    for row in (row for row in files[0] if row["bytes"] > 0):
        key = tuple(row[k] for k in ("figure", "pattern", "device", "buffers", "mpi"))
        panels.setdefault(key + (0 if row["figure"] == 5 else row["ranks"],), []).append(row)
    columns = min(3, len(panels))
    figure, axes = make_figure(plt, math.ceil(len(panels) / columns), columns, 4.2, 3.7)
    places = list(axes.flat)
    for place_of, (key, rows) in zip(places, panels.items()):
        number, pattern, device, buffers, mpi, ranks = key
        head = (f"Figure {number}: " if number else "") + pattern + (f", {ranks} processes" if ranks else "")
        (draw_panel if ranks else draw_scales)(place_of, rows, f"{head}, {mpi}\n{device}, {buffers}")
        limit = next((row["limit"] for row in sorted(rows, key=lambda row: -row["ranks"]) if row.get("limit")), "")
        if limit:
            place_of.set_xlabel("bytes\n" + limit.replace(": ", ":\n").replace(", and", "\nand"), fontsize=7)
    for unused in places[len(panels):]:
        unused.set_visible(False)
    return figure


# ---- models: objects, MPI and Python with device memory ----

MODEL_COLOURS = {"entries": 0, "channels": 5, "mpi": 1, "python": 2, "python objects": 4, "weak": 3, "strong": 4, "weak, entries": 3,
                 "strong, entries": 4, "weak, channels": 1, "strong, channels": 0}
JACOBI_TITLES = {15: "objects", 16: "adaptive MPI", 17: "Python"}


def draw_models(plt, files, _):
    """A panel for each figure of the paper; staged is dashed."""
    rows = files[0]
    numbers = sorted({row["figure"] for row in rows})
    columns = min(3, len(numbers))
    figure, axes = make_figure(plt, math.ceil(len(numbers) / columns), columns, 4.4, 3.7)
    for part in axes.flat[len(numbers):]:
        part.set_visible(False)
    for part, number in zip(axes.flat, numbers):
        mine = [row for row in rows if row["figure"] == number]
        x = "processes" if number in JACOBI_TITLES else "bytes"
        for way, staged in sorted({(row["way"], row["staged"]) for row in mine}):
            points = sorted((row[x], row["median"]) for row in mine if (row["way"], row["staged"]) == (way, staged))
            part.plot(*zip(*points), marker="o", ms=3, ls="--" if staged else "-", color=COLOURS[MODEL_COLOURS[way]],
                      label=f"{way}, {'staged' if staged else 'direct'}")
        rate = mine[0]["unit"] == "MB/s"
        what = f"Jacobi, {JACOBI_TITLES[number]}" if number in JACOBI_TITLES else "bandwidth" if rate else "latency"
        part.set(title=f"Figure {number}: {what}\n{mine[0]['device']} memory, {mine[0]['where']}", xlabel=x,
                 ylabel="MB/s" if rate else "µs a step" if x == "processes" else "µs")
        if x == "bytes":
            part.set_yscale("log")
            label_sizes(part, sorted({row[x] for row in mine}))
            show_decades(part.yaxis, *part.get_ylim())
        else:
            part.set(ylim=(0, None), xticks=sorted({row[x] for row in mine}))
        part.legend()
    return figure


# ---- notified: tables of dCUDA's thesis ----

TABLES = {"5.1": "half a round trip", "5.2": "host and device", "5.3": "network alone", "5.4": "bandwidth"}


def leading_number(text):
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return None


def draw_notified(plt, files, _):
    rows = files[0]
    tables = [table for table in TABLES if any(row["table"] == table for row in rows)]
    tall = {table: sum(row["table"] == table for row in rows) for table in tables}
    figure, axes = plt.subplots(len(tables), 1, figsize=(9, 1.0 * len(tables) + 0.25 * sum(tall.values())), squeeze=False,
                                layout="constrained", gridspec_kw={"height_ratios": [tall[t] + 2 for t in tables]})
    for table, part in zip(tables, axes[:, 0]):
        mine = [row for row in rows if row["table"] == table]
        colours = [COLOURS[6] if row["test"].startswith("floor") else COLOURS[0] for row in mine]
        part.barh(range(len(mine)), [row["median"] for row in mine], color=colours, height=0.7)
        thesis = [(leading_number(row["thesis"]), i) for i, row in enumerate(mine) if leading_number(row["thesis"])]
        if thesis:
            part.plot(*zip(*thesis), "D", ms=5, color=COLOURS[3], label="dCUDA's thesis, K80")
            part.legend(fontsize=8)
        part.set_yticks(range(len(mine)), [row["test"] for row in mine], fontsize=8)
        part.set(title=f"Table {table}: {TABLES[table]}", xlabel=mine[0]["unit"].replace("us", "µs"), xscale="log")
        show_decades(part.xaxis, *part.get_xlim())
        part.invert_yaxis()
    return figure


# ---- case studies of scripts/bench/studies ----

FORMS = [("ours", "ranks", "o-", COLOURS[2]), ("two_model", "two models", "s-", COLOURS[4]),
         ("computes", "computing", "x--", COLOURS[3]), ("sends", "sending", "+--", COLOURS[0])]


def draw_studies(plt, files, _):
    rows = files[0]
    studies = unique(row["study"] for row in rows)
    figure, axes = make_figure(plt, math.ceil(len(studies) / 2), min(len(studies), 2), 5.6, 3.8)
    for part in axes.flat[len(studies):]:
        part.set_visible(False)
    for study, part in zip(studies, axes.flat):
        mine = sorted((row for row in rows if row["study"] == study), key=lambda r: r["devices"])
        for i, (key, title, style, colour) in enumerate(FORMS):
            good = [r for r in mine if f"{key}_ms" in r]
            middle = [r[f"{key}_ms"] for r in good]
            error = [[m - r.get(f"{key}_low_ms", m) for m, r in zip(middle, good)],
                     [r.get(f"{key}_high_ms", m) - m for m, r in zip(middle, good)]]
            if good:
                part.errorbar([r["devices"] + 0.05 * (i - 1.5) for r in good], middle, yerr=error, fmt=style, color=colour, ms=5,
                              capsize=3, label=title)
        part.set(title=f"{study}, {mine[0]['ranks'] // max(mine[0]['devices'], 1)} ranks a device", xlabel="devices", ylabel="ms",
                 ylim=(0, None), xticks=sorted({r["devices"] for r in mine}))
        part.legend(fontsize=8, ncols=2)
    return figure


# ---- all iterations of a pattern: option -G ----

def show_samples(rows):
    """A line for each size: the iterations from left to right, from the least (lowest) to the most; medians of up to 60 parts."""
    for row in rows:
        parts = min(60, len(row["samples"]))
        cut = [row["samples"][i * len(row["samples"]) // parts:(i + 1) * len(row["samples"]) // parts] for i in range(parts)]
        middle = [sorted(part)[len(part) // 2] for part in cut]
        low, high = min(middle), max(middle)
        bars = "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * (value - low) / (high - low)))] if high > low else "▁" for value in middle)
        print(f"{row['pattern']} {size_name(row['bytes'])}: {low:.2f} {bars} {high:.2f} {row['unit']}, {len(row['samples'])} iterations")


def draw_samples(plt, files, _):
    rows = files[0]
    columns = min(3, len(rows))
    figure, axes = make_figure(plt, math.ceil(len(rows) / columns), columns, 4.2, 2.8)
    for row, part in zip(rows, axes.flat):
        part.plot(range(1, len(row["samples"]) + 1), row["samples"], lw=0.6)
        part.axhline(sorted(row["samples"])[len(row["samples"]) // 2], color="black", lw=0.8, ls="--", label="median")
        part.set(title=f"{row['pattern']}, {size_name(row['bytes'])}", xlabel="iteration", ylabel=row["unit"], ylim=(0, None))
        part.legend()
    for part in list(axes.flat)[len(rows):]:
        part.remove()
    return figure


# ---- the command ----

KINDS = [(draw_samples, lambda r: r.get("test") == "samples" and r.get("samples")),
         (draw_suite, lambda r: r.get("test") == "suite"), (draw_models, lambda r: r.get("test") == "models"),
         (draw_examples, lambda r: "example" in r), (draw_migrations, lambda r: r.get("pattern") == "migration"), (draw_compare, lambda r: r.get("pattern") == "compare"), (draw_notified, lambda r: "table" in r),
         (draw_studies, lambda r: r.get("test") == "study"),
         (draw_launch, lambda r: r.get("test") in ("setup", "launch", "spawns") and "mode" in r),
         (draw_cases, lambda r: "target" in r and "test" in r)]


def choose_kind(files, paths):
    """The picture of the first file, whose kind all must have; gives the rows of that kind alone."""
    for draw, is_one in KINDS:
        chosen = [[row for row in rows if is_one(row)] for rows in files]
        if any(chosen):
            for path, rows in zip(paths, chosen):
                if not rows:
                    raise BadFile(f"{path}: holds other results than {paths[0]}")
            if len(files) > 1 and draw is not draw_cases:
                raise BadFile("only results of --json can be drawn together; name one file")
            return draw, chosen
    raise BadFile(f"{paths[0]}: no results of telpher-bench in it")


def import_pyplot():
    """the matplotlib of this Python, or else of the system's, where the distribution installs it."""
    try:
        import matplotlib
    except ImportError:
        if os.path.realpath(sys.executable) != os.path.realpath(SYSTEM_PYTHON) and os.access(SYSTEM_PYTHON, os.X_OK):
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
        sys.exit("telpher-bench: plot needs matplotlib: install the package python3-matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    pyplot.rcParams.update({
        "svg.fonttype": "none", "axes.prop_cycle": matplotlib.cycler(color=COLOURS), "axes.grid": True, "axes.axisbelow": True,
        "grid.color": "#e5e5e5", "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11, "font.size": 9,
        "legend.frameon": False, "legend.fontsize": 8})
    return pyplot


class Parser(argparse.ArgumentParser):
    def error(self, message):
        sys.stderr.write(f"telpher-bench: plot: {message}\n{USAGE}")
        sys.exit(2)


def main():
    parser = Parser(add_help=False)
    parser.add_argument("files", nargs="*")
    parser.add_argument("-o", "--out")
    parser.add_argument("-h", "--help", action="store_true")
    args = parser.parse_args()
    if args.help:
        sys.stdout.write(USAGE)
        return
    if not args.files or not args.out:
        parser.error("name one file or more, and one picture")
    try:
        draw, files = choose_kind([load(path) for path in args.files], args.files)
        if args.out == "-":
            if draw is not draw_samples:
                raise BadFile("-o - shows iterations that -G kept; name a picture")
            sys.stdout.reconfigure(errors="replace")  # where the terminal's letters are few
            show_samples(files[0])
            return
        figure = draw(import_pyplot(), files, args.files)
        figure.savefig(args.out, dpi=110)
    except (BadFile, OSError, ValueError) as error:
        sys.exit(f"telpher-bench: {error}")
    except (KeyError, TypeError) as error:
        sys.exit(f"telpher-bench: {args.files[0]}: a result lacks {error}")
    print(f"Plot: {args.out}")


if __name__ == "__main__":
    main()
