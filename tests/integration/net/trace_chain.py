#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No command waits for the answer to the one before it.

Runs trace_chain over a link of 150 us each way at 1 Gbit/s, and again with 25 ms each way, and reads the
trace of the frames of its client. Asserts, of every chain of 100 kernels and a blocking 4-byte read, and
of every such read alone:

  * all its frames left before anything came that one of them could depend on;
  * the answer acknowledges the READ, so that READ caused it: one causal round trip;
  * a LAUNCH has at most 128 bytes, each after the first is a LAUNCH_AGAIN with the argument that changed, and
    has at most 24, but for a longer header after something was received;
  * 500 kernels and a read fit into TCP's first flight, of 10 segments, and a single segment answers them,
    counted at the link;
  * where a round trip is long compared with everything else, the time is that of one.

Times over the short link are printed, beside the round trip of plain TCP over it and the time on the native
driver. With --bench they are all there is, and compared with the goal of 1.3 round trips and the native work.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

KERNELS, FLIGHT_KERNELS = 100, 500
LAUNCH_MAX, AGAIN_MAX, LONGER_HEADER = 128, 24, 20
FIRST_SEGMENTS = 10
FIRST_FLIGHT = FIRST_SEGMENTS * 1448
SERVER_PORT = "7717"
SKIPPED = 77
# Messages that tell nothing of commands: nobody can wait for them.
SILENT = {"ack"}


class Failed(Exception):
    pass


def load_frames(path):
    """Frames in the order in which they were put into the stream or taken out of it."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    if trace["otherData"]["dropped"]:
        raise Failed(f"the trace lost {trace['otherData']['dropped']} records")
    frames = []
    for record in trace["traceEvents"]:
        if record.get("cat") == "frame":
            way, what = record["name"].split(" ", 1)
            frames.append({"sent": way == "send", "what": what, **record["args"]})
    return frames


def round_trips(frames):
    """Length of the longest chain of causes in a part of a trace, in round trips.

    What was received may depend on every frame sent that it acknowledges; what was sent may depend on
    everything received before."""
    sent, depth = [], 0
    for frame in frames:
        if frame["sent"]:
            sent.append((frame["seq"], depth))
        elif frame["what"] not in SILENT:
            causes = [d for seq, d in sent if seq <= frame["ack"]]
            if causes:
                depth = max(depth, 1 + max(causes))
    return depth


def split_rounds(frames):
    """Parts that end with the answer to a READ and begin behind the answer before it."""
    rounds, begin, wanted = [], 0, None
    for number, frame in enumerate(frames):
        if frame["sent"] and frame["what"] == "read":
            wanted = frame["event"]
        elif not frame["sent"] and frame["what"] == "done" and frame["event"] == wanted:
            rounds.append(frames[begin:number + 1])
            begin, wanted = number + 1, None
    return rounds


def check_round(frames):
    """@return number of kernels in it"""
    launches = [f for f in frames if f["sent"] and f["what"] in ("launch", "launch_again")]
    answers = [f for f in frames if not f["sent"] and f["what"] not in SILENT]
    read = [f for f in frames if f["sent"] and f["what"] == "read"]
    if len(read) != 1:
        raise Failed(f"{len(read)} READs in a round")
    for launch in launches:
        most = AGAIN_MAX + (LONGER_HEADER if launch is frames[0] else 0)
        if launch["what"] != "launch_again" or launch["len"] > most:
            raise Failed(f"a {launch['what']} has {launch['len']} bytes")
    if any(f["sent"] and f["what"] == "kernel_arg" for f in frames):
        raise Failed("an argument has a frame of its own")
    if len(launches) == FLIGHT_KERNELS and (sent := sum(f["len"] for f in frames if f["sent"])) > FIRST_FLIGHT:
        raise Failed(f"{FLIGHT_KERNELS} kernels take {sent} bytes")
    if len(answers) != 1:
        raise Failed(f"answers in a round: {[a['what'] for a in answers]}")
    if answers[0]["ack"] < read[0]["seq"]:
        raise Failed("the answer came without the READ")
    for frame in launches + read:
        if frame["ack"] >= answers[0]["seq"]:
            raise Failed(f"a {frame['what']} left after the answer")
    if round_trips(frames) != 1:
        raise Failed(f"{round_trips(frames)} round trips")
    return len(launches)


def check_trace(path, rounds):
    frames = load_frames(path)
    # The program warms up first; its set-up is in the first part, which may depend on answers.
    kernels = [check_round(part) for part in split_rounds(frames)[1:]]
    if min(kernels.count(count) for count in (0, KERNELS, FLIGHT_KERNELS)) < rounds:
        raise Failed(f"the trace has {kernels.count(KERNELS)} chains and {kernels.count(0)} reads")
    longest = max(f["len"] for f in frames if f["sent"] and f["what"] == "launch")
    if longest > LAUNCH_MAX:
        raise Failed(f"a LAUNCH has {longest} bytes")
    print(f"{kernels.count(KERNELS)} chains of {KERNELS} kernels and a read, {kernels.count(0)} reads alone: "
          f"one causal round trip each; longest LAUNCH {longest} bytes")


def load_segments(path):
    """Segments with payload of the server's port as (when sent, direction), without those sent again."""
    seen, segments = set(), []
    with open(path, encoding="utf-8") as file:
        for line in file:
            sent, _, way, port_a, port_b, payload, _, seq, _ = line.split()
            if port_b == SERVER_PORT and payload != "0" and (port_a, way, seq) not in seen:
                seen.add((port_a, way, seq))
                segments.append((int(sent), way))
    return segments


def check_segments(path, texts):
    """Counts the segments of every chain of 500 kernels; the medians, since a connection may be lost in a chain."""
    segments, sent, answers = load_segments(path), [], []
    for line in "".join(texts).splitlines():
        if line.startswith("at "):
            begin, end = map(int, line.split()[1:])
            ways = [way for when, way in segments if begin <= when <= end]
            sent.append(ways.count("a2b"))
            answers.append(ways.count("b2a"))
    most, answer = statistics.median(sent), statistics.median(answers)
    print(f"{len(sent)} chains of {FLIGHT_KERNELS} kernels: {most} segments, their answer {answer}")
    if most > FIRST_SEGMENTS or answer != 1:
        raise Failed("a chain takes more than the first flight, or more than one segment answers it")


def self_test():
    """The measure of round trips, on traces whose answer is known."""
    def frame(sent, what, seq, ack):
        return {"sent": sent, "what": what, "seq": seq, "ack": ack, "len": 1, "event": seq}
    waits = [frame(True, "launch", 1, 0), frame(False, "done", 1, 1),
             frame(True, "read", 2, 1), frame(False, "done", 2, 2)]
    goes = [frame(True, "launch", 1, 0), frame(False, "ack", 1, 1), frame(True, "read", 2, 1),
            frame(False, "done", 2, 2)]
    crossed = [frame(True, "launch", 1, 0), frame(True, "launch", 2, 0), frame(False, "done", 1, 1),
               frame(False, "done", 2, 2)]
    if [round_trips(t) for t in (waits, goes, crossed)] != [2, 1, 1]:
        raise Failed("the measure of round trips is wrong")


def parse_times(text):
    """{"chain": {"median": us, "least": us}, …}"""
    times = {}
    for line in text.splitlines():
        if line.startswith("at "):
            continue
        name, _, median, _, least = line.split()
        times[name] = {"median": float(median), "least": float(least)}
    return times


def run_native(args, rounds):
    done = subprocess.run([args.program, "run", str(rounds)], stdout=subprocess.PIPE, text=True,
                          timeout=60, check=True)
    return parse_times(done.stdout)


def run_linked(args, folder, rounds):
    """@return times over the short link, over the long one; skips where there can be no link"""
    with open(f"{folder}/telpher.icd", "w", encoding="utf-8") as file:
        file.write(args.icd + "\n")
    quoted = {name: shlex.quote(value) for name, value in vars(args).items() if isinstance(value, str)}
    server = (f"{quoted['telpherd']} --socket none --insecure --log error --listen 10.77.0.2 & "
              f"exec {quoted['program']} pong 7718")
    measure = (f"TELPHER_TRACE={folder}/%s.json TELPHER_SERVERS=10.77.0.2 OCL_ICD_VENDORS={folder} "
               f"{quoted['program']} run %d 10.77.0.2 7718 > {folder}/%s.txt")
    client = (measure % ("short", rounds, "short") + f" && {quoted['link']} ctl \"$LINK_CONTROL\" set delay 25ms"
              " && " + measure % ("long", 5, "long"))
    done = subprocess.run(
        [args.link, "run", "--delay", "150us", "--rate", "1Gbit", "--control", f"{folder}/control",
         "--wait-port", SERVER_PORT, "--wait-time", "60s", "--log", f"{folder}/segments", "--b", server, "--a", client],
        timeout=150, check=False)
    if done.returncode == SKIPPED:
        print("skipped: the kernel does not permit network namespaces or TUN devices here")
        sys.exit(SKIPPED)
    if done.returncode != 0:
        raise Failed(f"the programs over the link ended with {done.returncode}")
    texts = [open(f"{folder}/{name}.txt", encoding="utf-8").read() for name in ("short", "long")]
    if not args.bench:
        check_segments(f"{folder}/segments", texts)
    return parse_times(texts[0]), parse_times(texts[1])


def check_long(times):
    """25 ms each way is long compared with everything else, so time counts round trips."""
    for what in ("chain", "read", "idle"):
        ratio = times[what]["least"] / times["ping"]["least"]
        print(f"50 ms round trips, {what}: {ratio:.2f} round trips")
        if what != "idle" and not 0.9 < ratio < 1.9:
            raise Failed(f"{what} takes the time of {ratio:.2f} round trips")


def print_figures(native, linked):
    print(f"# Medians, us. Floor: TCP ping-pong over the same link, {linked['ping']['median']:.1f}")
    print(f"{'':34}{'native':>10}{'remote':>10}{'goal':>10}{'of goal':>9}")
    for what, title, trips in (("chain", f"{KERNELS} kernels, blocking read", 1.3),
                               ("read", "blocking read of 4 bytes", 1.1),
                               ("flight", f"{FLIGHT_KERNELS} kernels, blocking read", 1.5)):
        work, took = native[what]["median"], linked[what]["median"]
        goal = trips * linked["ping"]["median"] + work
        print(f"{title:34}{work:10.1f}{took:10.1f}{goal:10.1f}{took / goal:9.2f}")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("link", "telpherd", "icd", "program"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--bench", action="store_true", help="more rounds, no trace")
    return parser.parse_args()


def main():
    args = parse_args()
    rounds = 200 if args.bench else 20
    self_test()
    native = run_native(args, rounds)
    with tempfile.TemporaryDirectory(prefix="telpher-trace-") as folder:
        short, long = run_linked(args, folder, rounds)
        if not args.bench:
            check_trace(f"{folder}/short.json", rounds)
            check_trace(f"{folder}/long.json", 5)
            check_long(long)
    print_figures(native, short)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        print(f"failed: {failure}")
        sys.exit(1)
