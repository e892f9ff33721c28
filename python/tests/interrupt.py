# SPDX-License-Identifier: Apache-2.0
"""usage: python3 interrupt.py COMMAND…: Ctrl-C ends all processes of a job.

COMMAND starts the ranks of a job, "telpher launch -n 3 --" for example. Each way of waiting gets SIGINT as a terminal
sends it, to all processes of the group, and then in one rank alone.
"""
import os
import signal
import subprocess
import sys
import time

LIMIT_S = 60


def child(what):
    from telpher.mdr import Array, Channel, Chare, Future, charm, coro

    class Waiter(Chare):
        @coro
        def wait(self):
            print("pid", os.getpid(), flush=True)
            if what == "recv":
                Channel(self, self.thisProxy[self.thisIndex]).recv()
            while what == "compute":
                pass

    def main(_args):
        Array(Waiter, charm.numPes()).wait()
        if what == "future":
            Future().get()

    charm.start(main)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def run(command, what, only_one):
    """Starts a job, interrupts it and waits until all of its processes are gone. @return its exit code"""
    job = subprocess.Popen([*command, sys.executable, __file__, "--child", what], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, start_new_session=True)
    ranks = int(os.environ["RANKS"])
    pids = []
    while len(pids) < ranks:
        line = job.stdout.readline()
        if not line:
            raise AssertionError(f"{what}: the job ended early: {job.stderr.read()}")
        pids += [int(word) for word in line.split() if word.isdigit()]
    time.sleep(0.3)
    if only_one:
        os.kill(pids[-1], signal.SIGINT)
    else:
        os.killpg(job.pid, signal.SIGINT)
    end = time.monotonic() + LIMIT_S
    while any(map(is_alive, pids)) or job.poll() is None:
        if time.monotonic() > end:
            for pid in pids + [job.pid]:
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"{what}: processes of the job go on after SIGINT")
        time.sleep(0.05)
    job.stdout.close()
    job.stderr.close()
    return job.returncode


def main(command):
    for what in "future", "recv", "compute":
        for only_one in False, True:
            if only_one and what == "compute":
                continue  # the others compute for ever: only their launcher can end them
            code = run(command, what, only_one)
            if code == 0:
                raise AssertionError(f"{what}: the job was interrupted and ended with 0")
            print(f"{what}, {'one rank' if only_one else 'all'}: exit code {code}", flush=True)
    print("interrupt: OK")


if sys.argv[1:2] == ["--child"]:
    child(sys.argv[2])
else:
    main(sys.argv[1:])
