#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""telpher top: the sessions of servers as they run.

Each server is a control socket of telpherd (src/daemon/broker/admin/admin.h has the form of its answer). Rates and
device shares are differences of two answers over the time between them, by the server's own clock."""
import argparse
import curses
import json
import os
import pwd
import socket
import sys
import time

SYSTEM_SOCKET = "/run/telpher/telpherd.sock.control"
WAIT_S = 5
ANSWER_MAX = 4 << 20  # [bytes]
TEXTS = ("session", "state", "seconds", "owner", "host", "program")
COUNTERS = ("device_ns", "launches", "waits", "written", "read")
GAUGES = ("depth", "memory", "host_memory", "weight")
# Heading, key, width, text of a value; a heading's first letters are those of top and htop where they have one.
COLUMNS = (
    ("SESSION", "session", 8, str), ("USER", "user", -14, str), ("HOST", "host", -16, str),
    ("PROGRAM", "program", -16, str), ("STATE", "state", -9, str), ("AGE", "seconds", 8, lambda v: age(v)),
    ("WGT", "weight", 4, str), ("DEV%", "device_percent", 6, lambda v: f"{v:.1f}"),
    ("KERN/S", "kernels_per_s", 8, lambda v: f"{v:.0f}"), ("WAIT/S", "waits_per_s", 7, lambda v: f"{v:.0f}"),
    ("QUEUE", "depth", 6, str), ("MEM", "memory", 7, lambda v: size(v)), ("STAGE", "host_memory", 7, lambda v: size(v)),
    ("IN/S", "written_per_s", 7, lambda v: size(v)), ("OUT/S", "read_per_s", 7, lambda v: size(v)))
SORTS = {"p": "device_percent", "m": "memory", "t": "seconds", "n": "session", "u": "user", "d": "depth"}
HELP = "P share  M memory  T age  N number  U user  D queue   up/down, k: end session   q: quit"


class Failed(Exception):
    pass


def size(value):
    for unit in ("", "K", "M", "G", "T"):
        if value < 1000:
            return f"{value:.0f}{unit}" if value >= 10 or unit == "" else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.0f}P"


def age(seconds):
    if seconds < 3600:
        return f"{seconds // 60}:{seconds % 60:02}"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"


def default_socket():
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = f"{runtime}/telpher" if runtime.startswith("/") else f"/tmp/telpher-{os.geteuid()}"
    own = f"{folder}/telpherd.sock.control"
    return own if os.geteuid() != 0 and os.path.exists(own) else SYSTEM_SOCKET


def request(path, line):
    """Lines of the answer between the first and the last."""
    data = b""
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(WAIT_S)
            s.connect(path)
            s.sendall(line.encode() + b"\n")
            while len(data) <= ANSWER_MAX and (more := s.recv(65536)):
                data += more
    except OSError as error:
        raise Failed(f"cannot ask telpherd at {path}: {error.strerror or error}; start telpherd with --control PATH and "
                     "give the same --control PATH here") from None
    text = data.decode("utf-8", "replace")
    lines = ["".join(c if c.isprintable() or c == "\t" else "?" for c in line) for line in text.split("\n")]
    if lines[0] != "ok":
        raise Failed(f"{path}: {lines[0].removeprefix('error ') or 'telpherd does not answer'}")
    if lines[-2:] != ["end", ""]:
        raise Failed(f"{path}: the answer is not whole")
    return lines[1:-2]


def parse(path, lines):
    """A server's clock [ns], its devices and its sessions."""
    try:
        word, clock, devices = lines[0].split("\t")
        if word != "server":
            raise ValueError
        sessions = []
        for line in lines[1:]:
            fields = line.split("\t")
            row = dict(zip(TEXTS + COUNTERS + GAUGES, fields, strict=True))
            sessions.append({key: row[key] if key in ("state", "owner", "host", "program") else int(row[key])
                             for key in row})
        return int(clock), int(devices), sessions
    except (ValueError, IndexError):
        raise Failed(f"{path}: telpherd sent a line that is not of this version of telpher top") from None


def user_of(owner):
    try:
        return pwd.getpwuid(int(owner.removeprefix("user "))).pw_name if owner.startswith("user ") else owner
    except (KeyError, ValueError, OverflowError):
        return owner


class Server:
    def __init__(self, path):
        self.path, self.clock, self.before, self.error = path, 0, {}, None
        self.devices, self.sessions = 0, []

    def look(self):
        """Asks again. Sessions get rates since the last time."""
        try:
            clock, self.devices, sessions = parse(self.path, request(self.path, "figures 1"))
            self.error = None
        except Failed as error:
            self.sessions, self.error = [], str(error)
            return
        passed = max(1, clock - self.clock) / 1e9
        for row in sessions:
            old = self.before.get(row["session"], row)
            rate = {key: max(0, row[key] - old[key]) / passed for key in COUNTERS}
            row.update(server=self.path, user=user_of(row["owner"]), device_percent=rate["device_ns"] / 1e7,
                       kernels_per_s=rate["launches"], waits_per_s=rate["waits"], written_per_s=rate["written"],
                       read_per_s=rate["read"])
        self.clock, self.sessions = clock, sessions
        self.before = {row["session"]: row for row in sessions}


def collect(servers, key):
    rows = [row for server in servers for row in server.sessions]
    rows.sort(key=lambda row: row[key], reverse=key not in ("session", "user"))
    return rows


def cell(text, width):
    text = text if len(text) <= abs(width) else text[:abs(width) - 1] + "+"
    return text.ljust(-width) if width < 0 else text.rjust(width)


def table_line(row=None):
    return " ".join(cell(show(row[key]) if row else heading, width) for heading, key, width, show in COLUMNS)


def plural(count, noun):
    return f"{count} {noun}{'' if count == 1 else 's'}"


def server_line(server):
    if server.error:
        return server.error
    share = sum(row["device_percent"] for row in server.sessions)
    return (f"{server.path}: {plural(server.devices, 'device')}, {plural(len(server.sessions), 'session')}, "
            f"device time {share:.0f} %, memory {size(sum(row['memory'] for row in server.sessions))}")


class Screen:
    def __init__(self, servers, key, interval):
        self.servers, self.key, self.interval = servers, key, interval
        self.chosen, self.note = 0, HELP

    def put(self, window, line, text, attribute=curses.A_NORMAL):
        height, width = window.getmaxyx()
        if line < height:
            window.addnstr(line, 0, text.ljust(width), width - 1, attribute)

    def draw(self, window, rows):
        window.erase()
        for line, server in enumerate(self.servers):
            self.put(window, line, server_line(server))
        top = len(self.servers)
        self.put(window, top, self.note)
        self.put(window, top + 1, table_line(), curses.A_REVERSE)
        first = max(0, self.chosen - max(1, window.getmaxyx()[0] - top - 2) + 1)
        for line, row in enumerate(rows[first:]):
            self.put(window, top + 2 + line, table_line(row),
                     curses.A_BOLD if first + line == self.chosen else curses.A_NORMAL)
        window.refresh()

    def end_session(self, window, row):
        self.note = f"end session {row['session']} ({row['program']}) of {row['user']}? y/n"
        self.draw(window, collect(self.servers, self.key))
        window.timeout(-1)
        self.note = HELP
        if window.getch() == ord("y"):
            try:
                request(row["server"], f"kill {row['session']}")
                self.note = f"ended session {row['session']}"
            except Failed as error:
                self.note = str(error)

    def run(self, window):
        try:
            curses.curs_set(0)
        except curses.error:
            pass  # the terminal cannot
        due = 0
        while True:
            if time.monotonic() >= due:
                for server in self.servers:
                    server.look()
                due = time.monotonic() + self.interval
            rows = collect(self.servers, self.key)
            self.chosen = max(0, min(self.chosen, len(rows) - 1))
            self.draw(window, rows)
            window.timeout(max(1, int((due - time.monotonic()) * 1000)))
            pressed = window.getch()
            letter = chr(pressed).lower() if 0 < pressed < 256 else ""
            if letter == "q":
                return
            if letter in SORTS:
                self.key = SORTS[letter]
            elif letter == "k" and rows:
                self.end_session(window, rows[self.chosen])
            self.chosen += (pressed == curses.KEY_DOWN) - (pressed == curses.KEY_UP)


def print_once(servers, key, interval, as_json):
    for server in servers:
        server.look()
    time.sleep(interval)
    for server in servers:
        server.look()
    rows = collect(servers, key)
    if as_json:
        print(json.dumps([{"server": s.path, "devices": s.devices, "error": s.error,
                           "sessions": [row for row in rows if row["server"] == s.path]} for s in servers], indent=1))
    else:
        table = [table_line(), *map(table_line, rows)] if any(not s.error for s in servers) else []
        print("\n".join([*map(server_line, servers), *table]))
    return 1 if any(server.error for server in servers) else 0


def main():
    parser = argparse.ArgumentParser(prog="telpher top", description="Shows the sessions of servers as they run.")
    parser.add_argument("-c", "--control", action="append", metavar="PATH",
                        help="control socket of a daemon; may be given several times")
    parser.add_argument("-d", "--delay", type=float, default=1.0, metavar="SECONDS", help="time between two refreshes (1)")
    parser.add_argument("-s", "--sort", choices=sorted(SORTS.values()), default="device_percent")
    parser.add_argument("--once", action="store_true", help="print a table of one interval")
    parser.add_argument("-j", "--json", action="store_true", help="print an array of servers of one interval")
    options = parser.parse_args()
    if not 0.05 <= options.delay <= 30:  # executors count device time for 60 s
        parser.error("--delay: from 0.05 to 30 seconds")
    servers = [Server(path) for path in options.control or [default_socket()]]
    if options.once or options.json:
        return print_once(servers, options.sort, options.delay, options.json)
    if not sys.stdout.isatty():
        parser.error("the output is not a terminal: use --once or --json")
    curses.wrapper(Screen(servers, options.sort, options.delay).run)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
