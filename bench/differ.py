#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two results of telpher-bench; `telpher-bench compare A B` runs this script."""
import argparse
import json
import random
import statistics
import sys

USAGE = """Usage: telpher-bench compare A.json B.json [OPTION]...
Says what became slower from A to B: rows that are in both, with the ratio B / A and its interval of
95 %. A row is worse or better if the interval leaves out 1 and the ratio is outside the tolerance.
Files: of -f json (several runs after one another make it more certain), or of --json.
Exit status: 0, 1 if a row is worse, 2 if the files cannot be compared.

  --tolerance PERCENT  differences that do not count (5)
  --all                print rows that did not change, too
  -f, --format FORMAT  text or json (text)
  -h, --help           this text
"""
KEYS = ("test", "figure", "target", "pattern", "runtime", "way", "mpi", "device", "ranks", "send", "recv", "buffers", "window", "bytes", "unit")
RESAMPLES = 1000


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(message)


def fail(message):
    sys.stderr.write(f"telpher-bench compare: {message}\n`telpher-bench compare --help` shows how it is used\n")
    sys.exit(2)


def rows_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: {getattr(error, 'strerror', error)}")
    rows = []
    for part in [text, *text.splitlines()]:
        try:
            rows.append(json.loads(part))
        except ValueError:
            continue
        if part is text:
            break
    if rows and isinstance(rows[0], dict) and isinstance(rows[0].get("results"), list):
        rows = rows[0]["results"]
    return [row for row in rows if isinstance(row, dict) and not any(isinstance(row.get(k), (list, dict)) for k in KEYS)]


def is_figure(value):
    return isinstance(value, (int, float)) and 0 < value < float("inf")


class Series:
    """All that a file says of one row: medians of its runs, or one with its interval."""

    def __init__(self):
        self.values, self.low, self.high = [], None, None

    def add(self, row, value):
        rounds = row.get("rounds")
        self.values += [v for v in rounds if is_figure(v)] if isinstance(rounds, list) and any(map(is_figure, rounds)) else [value]
        self.low, self.high = (row[end] if is_figure(row.get(end)) else value for end in ("low", "high"))


def read(path):
    found = {}
    for row in rows_of(path):
        name = next((n for n in ("median", "median_us", "median_mb_per_s") if is_figure(row.get(n))), None)
        if name is None:
            continue
        unit = row.get("unit") or ("us" if name == "median_us" else "MB/s")
        key = tuple((k, unit if k == "unit" else row[k]) for k in KEYS if k in row or k == "unit")
        found.setdefault(key, Series()).add(row, row[name])
    if not found:
        fail(f"{path}: no figures of telpher-bench in it")
    return found


def interval(a, b):
    """Of the ratio of the medians: from runs by resampling, else from both rows' own intervals."""
    if len(a.values) >= 4 and len(b.values) >= 4:
        chance = random.Random(1)
        ratios = sorted(statistics.median(chance.choices(b.values, k=len(b.values))) /
                        statistics.median(chance.choices(a.values, k=len(a.values))) for _ in range(RESAMPLES))
        return ratios[RESAMPLES // 40], ratios[-RESAMPLES // 40 - 1]
    return (min(b.low, *b.values) / max(a.high, *a.values), max(b.high, *b.values) / min(a.low, *a.values))


def judge(key, a, b, tolerance):
    ratio = statistics.median(b.values) / statistics.median(a.values)
    low, high = interval(a, b)
    slower = ratio if dict(key)["unit"] == "us" else 1 / ratio
    sure = (low > 1 or high < 1) and abs(ratio - 1) > tolerance / 100
    return {"ratio": round(ratio, 4), "low": round(low, 4), "high": round(high, 4),
            "verdict": "same" if not sure else "worse" if slower > 1 else "better"}


def show(key, result, as_json):
    if as_json:
        print(json.dumps({**dict(key), **result}))
        return
    text = " ".join(str(value) for name, value in key if name not in ("test", "unit"))
    print(f"{result['verdict']:<7} {result['ratio']:7.3f}  {result['low']:7.3f} to {result['high']:7.3f}  {text}")


def main():
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--tolerance", type=float, default=5)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("-f", "--format", choices=["text", "json"], default="text")
    parser.add_argument("-h", "--help", action="store_true")
    args = parser.parse_args()
    if args.help:
        sys.stdout.write(USAGE)
        return
    if len(args.files) != 2 or not args.tolerance >= 0:
        fail("name two files, and a tolerance from 0 on")
    old, new = (read(path) for path in args.files)
    both = [key for key in old if key in new]
    if not both:
        fail("the files have no row in common")
    results = {key: judge(key, old[key], new[key], args.tolerance) for key in both}
    if args.format == "text":
        print("#       B / A   95 %")
    for key, result in results.items():
        if args.all or args.format == "json" or result["verdict"] != "same":
            show(key, result, args.format == "json")
    worse = sum(result["verdict"] == "worse" for result in results.values())
    better = sum(result["verdict"] == "better" for result in results.values())
    if args.format == "text":
        print(f"# {worse} worse, {better} better, {len(both) - worse - better} same; {len(old) + len(new) - 2 * len(both)} in one file alone")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
