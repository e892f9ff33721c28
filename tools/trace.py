#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""telpher trace merge: traces of programs and of their servers as one, on one clock.

A trace names the clock of its machine, and the session of each command stream. Two machines are joined by the frames of
a session that both traces have: a frame is received after it was sent, in both directions, which bounds the difference
of the clocks from both sides. The middle is taken; half the distance is the error, at most."""
import argparse
import json
import os
import sys

PID_STEP = 10_000_000  # above the pids of Linux; viewers take any number
PHASES = set("iBEXCM")


class Bad(Exception):
    pass


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def parse_number(text):
    """Refuses what is too large for a number: it would be written as Infinity, which is not JSON."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        refuse_constant(text)
    return value


def need(condition, what):
    if not condition:
        raise Bad(what)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Trace:
    """One file: its clock, its records, and the frames of each session as {(way, seq): time}."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file, parse_constant=refuse_constant, parse_float=parse_number)
            self.read(data)
        except OSError as error:
            raise Bad(f"{path}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise Bad(f"{path}: not JSON: {error}") from None
        except Bad as error:
            raise Bad(f"{path}: not a trace of Telpher: {error}") from None

    def read(self, data):
        need(isinstance(data, dict) and isinstance(data.get("traceEvents"), list), "it has no traceEvents")
        other = data.get("otherData")
        need(isinstance(other, dict) and isinstance(other.get("clock"), str) and other["clock"]
             and isinstance(other.get("streams"), list), "it names no clock; was it written by an older version?")
        sessions = {}
        for entry in other["streams"]:
            need(isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], int)
                 and isinstance(entry[1], str), "a stream without a session")
            sessions[entry[0]] = entry[1]
        self.clock, self.records = other["clock"], data["traceEvents"]
        self.dropped = other.get("dropped") if is_number(other.get("dropped")) else 0
        self.frames = {}
        for record in self.records:
            self.check(record)
            if record["ph"] == "i" and record.get("cat") == "frame":
                self.note_frame(record, sessions)

    def check(self, record):
        need(isinstance(record, dict) and record.get("ph") in PHASES, "a record of an unknown kind")
        need(isinstance(record.get("pid"), int) and 0 <= record["pid"] < PID_STEP, "a record without a process")
        need(isinstance(record.get("name"), str) and isinstance(record.get("args", {}), dict), "a record without a name")
        if record["ph"] != "M":
            need(is_number(record.get("ts")) and 0 <= record["ts"] < 1e18, "a record without a time")

    def note_frame(self, record, sessions):
        args = record.get("args", {})
        stream, seq = args.get("stream"), args.get("seq")
        if isinstance(stream, int) and isinstance(seq, int) and stream in sessions:
            way = record["name"].split(" ", 1)[0]
            # Keeps the time of the first record: a frame that is sent again after a loss has the same number.
            self.frames.setdefault(sessions[stream], {}).setdefault((way, seq), record["ts"])


def least_delay(sender, receiver):
    """Least time from sending to receiving a frame, by the two clocks; None: no common frame."""
    return min((receiver["recv", seq] - sent for (way, seq), sent in sender.items()
                if way == "send" and ("recv", seq) in receiver), default=None)


def compare(a, b):
    """(clock of b) - (clock of a) [us] and its error, from the session that bounds it best; None: they share none."""
    best = None
    for session in a.frames.keys() & b.frames.keys():
        there, back = least_delay(a.frames[session], b.frames[session]), least_delay(b.frames[session], a.frames[session])
        if there is not None and back is not None and (best is None or there + back < 2 * best[1]):
            best = (there - back) / 2, (there + back) / 2
    return best


def join(traces):
    """Difference of each clock to that of the first trace [us], and the error of it."""
    known = {traces[0].clock: (0.0, 0.0)}
    links = {}
    for a in traces:
        for b in traces:
            found = compare(a, b) if a.clock != b.clock else None
            if found and (a.clock, b.clock) not in links or found and found[1] < links[a.clock, b.clock][1]:
                links[a.clock, b.clock] = found
    while True:
        ways = [(known[a][1] + error, b, known[a][0] + offset) for (a, b), (offset, error) in links.items()
                if a in known and b not in known]
        if not ways:
            break
        error, clock, offset = min(ways)
        known[clock] = offset, error
    for trace in traces:
        need(trace.clock in known, f"{trace.path}: no session of another trace in both directions, and another clock")
    return known


def merge(traces):
    clocks = join(traces)
    numbers = {clock: number for number, clock in enumerate(clocks)}
    pids, records = {}, []
    for trace in traces:
        number, offset = numbers[trace.clock], clocks[trace.clock][0]
        for record in trace.records:
            record = dict(record, pid=pids.setdefault((number, record["pid"]), number * PID_STEP + record["pid"]))
            if record["ph"] != "M":
                record["ts"] = round(record["ts"] - offset, 3)
            elif record["name"] == "process_name" and number > 0:
                record["args"] = {"name": f"{record.get('args', {}).get('name')} (machine {number + 1})"}
            records.append(record)
    records.sort(key=lambda record: (record["ph"] != "M", record.get("ts", 0)))
    return {"displayTimeUnit": "ns", "traceEvents": records, "otherData": {
        "records": len(records), "dropped": sum(trace.dropped for trace in traces),
        "clocks": [{"machine": numbers[clock] + 1, "clock": clock, "offset_us": round(offset, 3),
                    "error_us": round(error, 3)} for clock, (offset, error) in clocks.items()]}}


def main():
    parser = argparse.ArgumentParser(prog="telpher trace", description="Works on files that TELPHER_TRACE made.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("merge", help="join traces of programs and servers onto the first one's clock")
    command.add_argument("-o", "--output", metavar="FILE", help="where it goes; without it, standard output")
    command.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    try:
        merged = merge([Trace(path) for path in options.files])
        text = ",\n".join(json.dumps(record) for record in merged.pop("traceEvents"))
        head, tail = '{"traceEvents":[\n', "\n]," + json.dumps(merged)[1:] + "\n"
        if options.output:
            with open(options.output, "w", encoding="utf-8") as file:
                file.write(head + text + tail)
        else:
            sys.stdout.write(head + text + tail)
        sys.stdout.flush()
    except Bad as error:
        print(f"telpher trace: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:
        print(f"telpher trace: {error}", file=sys.stderr)
        return 1
    for clock in merged["otherData"]["clocks"][1:]:
        print(f"machine {clock['machine']}: clock {clock['offset_us']:.1f} us ahead, to {clock['error_us']:.1f} us",
              file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
