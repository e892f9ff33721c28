#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""telpher cluster: a telpherd on each node of an allocation for as long as one program runs.

The launcher (srun, mpirun, ssh) starts an agent on each node. The agent reads the job's key from its standard
input, starts telpherd, and prints where it listens. When its standard input ends, it ends telpherd: so nothing
is left when the program, the launcher or this command dies. mpirun gives standard input to its first process
only: then the key is in an environment variable, and the agents end with the launcher's daemon on their node.
"""
import argparse
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BIN = os.path.dirname(os.path.realpath(__file__))
TELPHERD = os.path.join(BIN, "telpherd")
READY = "telpher-cluster-ready"
KEY = "_TELPHER_CLUSTER_KEY"
PR_SET_PDEATHSIG = 1


def fail(text, code=1):
    print(f"telpher cluster: {text}", file=sys.stderr)
    sys.exit(code)


# ---- on each node ----

def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def start_daemon(folder, key, options):
    """A telpherd with TLS on a free port, once it listens."""
    path = os.path.join(folder, "key")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"cluster {key}\n")
    for _attempt in range(3):  # another program may have taken the port meanwhile
        port = free_port()
        daemon = subprocess.Popen([TELPHERD, "--listen", f"tls://0.0.0.0:{port}", "--socket", "none", "--tls-psk",
                                   path, "--drain-timeout", "0", *options], stdin=subprocess.DEVNULL, stdout=sys.stderr,
                                  preexec_fn=die_with_parent)
        while daemon.poll() is None and not accepts(port):
            time.sleep(0.02)
        if daemon.poll() is None:
            break
    return daemon, port


def agent(options):
    """Runs a daemon until standard input, or the parent process, ends. @return its exit code"""
    key = os.environ.pop(KEY, None)
    by_parent = key is not None
    if by_parent:
        die_with_parent()
    else:
        key = sys.stdin.readline().strip()
    if len(key) != 64:
        fail("an agent gets its key from `telpher cluster run`", 2)
    with tempfile.TemporaryDirectory(prefix="telpher-cluster-") as folder:
        name = os.environ.pop("_TELPHER_CLUSTER_NODE", None) or socket.gethostname()
        daemon, port = start_daemon(folder, key, options)
        if daemon.poll() is None:
            sys.stdout.write(f"{READY} {name} {port}\n")  # in one write: launchers join the output of nodes
            sys.stdout.flush()
        signal.signal(signal.SIGTERM, lambda *_: daemon.terminate())
        if not by_parent:
            threading.Thread(target=end_with_input, args=(daemon,), daemon=True).start()
        return daemon.wait()


def end_with_input(daemon):
    while sys.stdin.readline():
        pass
    daemon.terminate()


# ---- where the program runs ----

def agent_line(options):
    return [sys.executable, os.path.realpath(__file__), "agent", *options]


def hosts_of_file(path):
    """Hosts of a file: one a line, `host slots=4` and `host:4` as MPIs write them; each once."""
    hosts = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            word = line.split("#")[0].split()
            if word and word[0].split(":")[0] not in hosts:
                hosts.append(word[0].split(":")[0])
    return hosts


def by_srun(args):
    count = args.nodes or int(os.environ.get("SLURM_JOB_NUM_NODES", "0"))
    if not count:
        fail("srun needs an allocation (salloc, sbatch), or --nodes N")
    return [["srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--overlap", "--input=all",
             "--kill-on-bad-exit=0"]], count


def by_mpirun(args):
    """One agent on each host, by Open MPI's or MPICH's mpirun."""
    hosts = args.hosts
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    if "Open MPI" in version or "OpenRTE" in version or "PRRTE" in version:
        line = ["mpirun", "-x", KEY, "--map-by", "node", "--oversubscribe"]
        line += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    else:
        line = ["mpirun", "-genvlist", f"{KEY},_TELPHER_CLUSTER_NODE,PATH,HOME", "-ppn", "1"]
    count = args.nodes or len(hosts) or 1
    return [line + ["-np", str(count)] + (["--host", ",".join(hosts)] if hosts else [])], count


def by_ssh(args):
    if not args.hosts:
        fail("ssh needs --hosts A,B or --hostfile FILE")
    return [["ssh", "-o", "BatchMode=yes", host, "env", f"_TELPHER_CLUSTER_NODE={host}"] for host in args.hosts], \
        len(args.hosts)


def by_local(args):
    """Several daemons on this machine, to try a program."""
    count = args.nodes or 1
    return [["env", "_TELPHER_CLUSTER_NODE=127.0.0.1"]] * count, count


LAUNCHERS = {"srun": by_srun, "mpirun": by_mpirun, "ssh": by_ssh, "local": by_local}


def choose(args):
    """The launcher's name: Slurm in an allocation, ssh with hosts."""
    if args.launcher:
        return args.launcher
    if os.environ.get("SLURM_JOB_ID") and shutil.which("srun"):
        return "srun"
    if args.hosts:
        return "ssh"
    fail("no Slurm allocation here: name hosts by --hosts or --hostfile, or choose --launcher", 2)


class Cluster:
    """The agents of a job."""

    def __init__(self, lines, options, key, by_environment):
        self.addresses, self.lock, self.launchers = [], threading.Condition(), []
        self.by_environment = by_environment
        for line in lines:
            launcher = subprocess.Popen(line + agent_line(options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=die_with_parent, start_new_session=True,
                                        env={**os.environ, KEY: key} if self.by_environment else None)
            if not self.by_environment:
                launcher.stdin.write(key + "\n")
                launcher.stdin.flush()
            self.launchers.append(launcher)
            threading.Thread(target=self.read, args=(launcher,), daemon=True).start()

    def read(self, launcher):
        for line in launcher.stdout:
            words = line.split()
            with self.lock:
                if len(words) == 3 and words[0] == READY:
                    self.addresses.append(f"tls://{words[1]}:{words[2]}")
                else:
                    sys.stderr.write(line)
                self.lock.notify()
        with self.lock:
            self.lock.notify()

    def wait(self, count, seconds):
        """Waits until @count daemons answer. @return whether they do"""
        end = time.monotonic() + seconds
        with self.lock:
            while len(self.addresses) < count and time.monotonic() < end:
                if all(launcher.poll() is not None for launcher in self.launchers):
                    break
                self.lock.wait(0.2)
            return len(self.addresses) == count

    def end(self):
        """Ends the agents: their standard input ends, or mpirun does; later by signal."""
        for launcher in self.launchers:
            try:
                launcher.stdin.close()
            except BrokenPipeError:
                pass
            if self.by_environment:
                launcher.terminate()
        for launcher in self.launchers:
            for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
                try:
                    launcher.wait(10)
                    break
                except subprocess.TimeoutExpired:
                    os.killpg(launcher.pid, number)


def run_program(program, servers, key_file):
    """Runs the program with the cluster's servers. @return its exit code"""
    environment = {**os.environ, "TELPHER_SERVERS": ",".join(servers), "TELPHER_TLS_PSK": key_file}
    environment.pop("_TELPHER_CLUSTER_NODE", None)
    child = subprocess.Popen([os.path.join(BIN, "telpher"), "run", "-s", ",".join(servers), "--", *program],
                             env=environment)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: child.send_signal(got))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the program as well
    code = child.wait()
    return code if code >= 0 else 128 - code


def run(args):
    name = choose(args)
    lines, count = LAUNCHERS[name](args)
    key = secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix="telpher-cluster-") as folder:
        key_file = os.path.join(folder, "key")
        with open(os.open(key_file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(f"cluster {key}\n")
        try:
            cluster = Cluster(lines, args.telpherd, key, name == "mpirun")
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}", 127)
        try:
            if not cluster.wait(count, args.wait):
                fail(f"{len(cluster.addresses)} of {count} nodes answer after {args.wait} s"
                     f"{': ' + ', '.join(cluster.addresses) if cluster.addresses else ''}; what the others said is "
                     "above; --wait TIME waits longer")
            return run_program(args.program, sorted(cluster.addresses), key_file)
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        finally:
            cluster.end()


def parse(arguments):
    parser = argparse.ArgumentParser(prog="telpher cluster run", add_help=False,
                                     usage="telpher cluster run [OPTION]... [--] PROGRAM [ARG]...")
    parser.add_argument("--launcher", choices=sorted(LAUNCHERS))
    parser.add_argument("--hosts", type=lambda text: text.split(","), default=[])
    parser.add_argument("--hostfile")
    parser.add_argument("--nodes", "-N", type=int, default=0)
    parser.add_argument("--wait", type=float, default=60)
    parser.add_argument("--telpherd", action="append", default=[])
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args(arguments)
    if args.program[:1] == ["--"]:
        args.program = args.program[1:]
    if not args.program:
        fail("which program? usage: telpher cluster run [OPTION]... [--] PROGRAM [ARG]...", 2)
    if args.hostfile:
        try:
            args.hosts = hosts_of_file(args.hostfile)
        except OSError as error:
            fail(f"{args.hostfile}: {error.strerror}", 2)
    return args


HELP = """usage: telpher cluster run [OPTION]... [--] PROGRAM [ARG]...

Starts a telpherd on each node, with a key made for this job, runs an OpenCL program with all
their devices, and takes everything down again, also when the program or the launcher dies.
In a Slurm allocation the nodes are those of the allocation.

  --launcher NAME  srun, mpirun, ssh, or local: several daemons on this machine
                   (default: srun in an allocation, ssh with hosts)
  --hosts A,B      nodes, for ssh and mpirun
  --hostfile FILE  the same from a file, one a line, slots ignored
  -N, --nodes N    number of nodes, for srun, mpirun and local
  --wait SECONDS   until all answer (default: 60)
  --telpherd OPT   option for each telpherd, as --telpherd=--kernel-timeout=60s;
                   may be given several times
  -h, --help

Telpher is installed at the same place on all nodes. The exit code is the program's; 1 if a
node does not answer, 2 for wrong options.
"""


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["agent"]:
        return agent(arguments[1:])
    if arguments[:1] != ["run"] or arguments[1:2] in (["--help"], ["-h"]):
        asked = arguments[:1] in (["--help"], ["-h"]) or arguments[1:2] in (["--help"], ["-h"])
        (sys.stdout if asked else sys.stderr).write(HELP)
        return 0 if asked else 2
    return run(parse(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main())
