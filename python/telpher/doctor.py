# SPDX-License-Identifier: Apache-2.0
"""python3 -m telpher.doctor: says what works on this machine, and what to do about the rest."""
import importlib.util
import os
import platform
import subprocess
import sys

import telpher
from telpher import command

_PING = """
import telpher
with telpher.Context() as job:
    channel, back = job.channel(1 - job.rank), bytearray(8)
    channel.send(b"12345678").wait(20)
    channel.recv(back).wait(20)
    assert bytes(back) == b"12345678"
    if job.rank == 0:
        print(job.transport(1))
    job.barrier()
"""


def say(what, result):
    print(f"{what + ':':<22} {result}")


def memory(kind):
    """Whether memory of a kind can be used."""
    try:
        with telpher.Context() as job:
            there, back = job.alloc(4096, kind), bytearray(4096)
            there.copy_from(b"x" * 4096)
            there.copy_to(back)
            there.free()
        return "ok" if bytes(back) == b"x" * 4096 else "WRONG DATA"
    except telpher.Error as wrong:
        return f"no: {wrong}"


def two_processes():
    path = command.find()
    if path is None:
        return "not tried: no command `telpher`; install Telpher or use the wheel"
    run = subprocess.run([path, "launch", "-n", "2", "--", sys.executable, "-c", _PING], capture_output=True,
                         text=True, timeout=60, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    if run.returncode == 0:
        return f"ok, by {run.stdout.split()[0]}"
    return f"FAILED: {run.stderr.strip() or run.stdout.strip()}"


def package(name, purpose):
    return "found" if importlib.util.find_spec(name) else f"not found: pip install {name}, {purpose}"


def opencl():
    addresses = telpher.servers()
    if not addresses:
        return "TELPHER_SERVERS is not set: telpher.devices(\"HOST\") asks one server"
    try:
        return ", ".join(f"{d.name} ({d.server})" for d in telpher.devices()) or "no devices"
    except telpher.Error as wrong:
        return f"no: {wrong}"


def main():
    say("telpher", f"{telpher.__version__}, Python {platform.python_version()}, {platform.machine()}")
    for kind in ("host", "opencl", "cuda"):
        say(f"{kind} memory", memory(kind))
    result = two_processes()
    say("two processes", result)
    say("greenlet", package("greenlet", "for methods that wait with get() and recv()"))
    say("numpy", package("numpy", "for reductions of arrays by min and max"))
    say("OpenCL servers", opencl())
    return 0 if result.startswith(("ok", "not tried")) else 1


if __name__ == "__main__":
    sys.exit(main())
