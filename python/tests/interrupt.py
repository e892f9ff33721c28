# SPDX-License-Identifier: Apache-2.0
"""usage: python3 interrupt.py COMMAND…: Ctrl-C ends all processes of a job.

COMMAND starts the ranks of a job, "telpher launch -n 3 --" for example. Each way of waiting gets SIGINT as a terminal
sends it, to all processes of the group, and then in one rank alone. The job ends with a code other than 0. MPICH's
launcher answers its own SIGINT with 0 at times: there each rank says by a file that it raised KeyboardInterrupt.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S = 60


def child(what, folder):
    from telpher.mdr import Array, Channel, Chare, Future, charm, coro

    class Waiter(Chare):
        @coro
        def wait(self):
            with open(os.path.join(folder, str(os.getpid())), "x", encoding="ascii"):
                pass  # this process is ready
            if what == "recv":
                Channel(self, self.thisProxy[self.thisIndex]).recv()
            while what == "compute":
                pass
            if what == "move":
                self.hop()

        def hop(self):
            if not hasattr(self, "out"):
                self.out = Channel(self, self.thisProxy[(self.thisIndex[0] + 1) % charm.numPes()])
            self.out.send(bytearray(20_000))
            self.thisProxy[self.thisIndex].hop()
            self.migrate((charm.myPe() + 1) % charm.numPes())

        def migrated(self):
            pass

    def main(_args):
        Array(Waiter, charm.numPes()).wait()
        if what in ("future", "move"):
            Future().get()

    try:
        charm.start(main)
    except KeyboardInterrupt:
        with open(os.path.join(folder, f"{os.getpid()}.interrupted"), "x", encoding="ascii"):
            pass
        raise


def is_hydra(command):
    return os.path.realpath(shutil.which(command[0])).endswith(("/mpiexec.hydra", "/mpiexec.mpich"))


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids_of_ranks(job, folder, output):
    """Waits until all ranks have made their files."""
    end = time.monotonic() + LIMIT_S
    while len(os.listdir(folder)) < int(os.environ["RANKS"]):
        if job.poll() is not None or time.monotonic() > end:
            output.seek(0)
            os.killpg(job.pid, signal.SIGKILL)
            raise AssertionError(f"{len(os.listdir(folder))} ranks began, the job's code is {job.poll()}: {output.read()}")
        time.sleep(0.02)
    time.sleep(0.3)
    return [int(name) for name in os.listdir(folder)]


def run(command, what, only_one):
    """Starts a job, interrupts it and waits until all of its processes are gone. @return the job's exit code"""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        job = subprocess.Popen([*command, sys.executable, __file__, "--child", what, folder], stdout=output,
                               stderr=subprocess.STDOUT, start_new_session=True)
        pids = pids_of_ranks(job, folder, output)
        code = interrupt(job, pids, what, only_one)
        names = os.listdir(folder)
        if code == 0 and not (is_hydra(command) and all(f"{pid}.interrupted" in names for pid in pids)):
            output.seek(0)
            raise AssertionError(f"{what}: the job was interrupted and ended with 0: {output.read()}")
        return code


def interrupt(job, pids, what, only_one):
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
    return job.returncode


def main(command):
    for what in "future", "recv", "compute", "move":
        for only_one in False, True:
            if only_one and what == "compute":
                continue  # the others compute for ever: only their launcher can end them
            code = run(command, what, only_one)
            print(f"{what}, {'one rank' if only_one else 'all'}: exit code {code}", flush=True)
    print("interrupt: OK")


if sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:4])
else:
    main(sys.argv[1:])
