#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Content that servers need of each other: how many bytes pass, and where.

migrate: telpher-bench increments a buffer on two servers in turn; their own stream is fast.

         client --- 1 Gbit/s, 150 us each way --- 10.77.0.2:7717 server
                                                  10.77.0.2:7719 server
                                                  127.0.0.1, between the two servers

    The bytes on the client's link do not depend on the buffer's size; with TELPHER_PEER=off they do, and 1 MiB takes
    longer.

sized: over the same link, of a buffer of 4 MiB whose size buffer says 64 KiB, no more pass.

chain: with 25 ms each way, 200 kernels that alternate between the servers cost a few round trips, not one for each kernel.

gather, halo, ring: the program peer_bytes and its servers share a network namespace; the bytes of its loopback interface
    are little more than the content that some server needed of another: rows of a product, one row of each neighbour of a
    stencil, a buffer that visits all servers.

edges: likewise, on a server whose content has copies on a second one: two rows of a large buffer pass, not all between.

ring N starts N servers: it also prints the memory of each server and the time until the client has found all.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
SMALL, LARGE = 4, 1 << 20
SIZED, MEANT = 4 << 20, 64 << 10  # bytes of a buffer, and of those how many have a meaning
SLACK = 1_500  # [bytes] of a step: acknowledgements of TCP, probes
ROW = 4096  # [bytes] of an exchange of the stencil
EXCHANGE = 1_100  # [bytes] beside them: frames of two kernels, PUSH, PULL, DATA and their ends, headers of TCP and IP; 801 are usual
COMMANDS = {"gather": 40_000, "ring": 40_000, "sized": 40_000, "edges": 40_000}  # [bytes] beside the content; ring: for each server
CHAIN_MS = 1000  # at most, for 200 kernels; through the client 5000 at least
FIRST_PORT = 7720


class Failed(Exception):
    pass


def run_link(args, side_a, side_b, seconds, delay="150us"):
    done = subprocess.run(
        [args.link, "run", "--delay", delay, "--rate", "1Gbit", "--wait-port", "7717", "--wait-time", "120s",
         "--b", side_b, "--a", side_a], timeout=seconds, check=False)
    if done.returncode == SKIPPED:
        print("skipped: the kernel does not permit network namespaces or TUN devices here")
        sys.exit(SKIPPED)
    if done.returncode != 0:
        raise Failed(f"the programs over the link ended with {done.returncode}")


def server_line(args, folder, address, port):
    return (f"TELPHER_DRAIN_TIMEOUT=0 TELPHER_COOKIE={folder}/cookie {shlex.quote(args.telpherd)} --socket none --insecure --log error --device 'Portable Computing Language: *' --cookie "
            f"{folder}/cookie --listen {address}:{port} --listen 127.0.0.1:{port} --peer-address 127.0.0.1:{port}")


def client_settings(folder, address, ports):
    return (f"TELPHER_COOKIE={folder}/cookie TELPHER_INSECURE=yes OCL_ICD_VENDORS={folder} TELPHER_LOG=error "
            f"TELPHER_CONNECT_TIMEOUT=60s "
            f"TELPHER_SERVERS={','.join(f'{address}:{port}' for port in ports)}")


# ---- migrate ----

def migrate(args, folder):
    sizes = (SMALL, LARGE)
    servers = " & ".join(server_line(args, folder, "10.77.0.2", port) for port in (7719, 7717)) + " & wait"
    commands = [f"{client_settings(folder, '10.77.0.2', (7717, 7719))} {shlex.quote(args.bench)} migrate --platform Telpher "
                f"--tests loop --no-floor --rounds 1 -i 3 -x 1 -m {size}:{size} --interface link0 --timeout 200 "
                f"--json {folder}/{size}.json" for size in sizes]
    run_link(args, "sleep 1; " + " && ".join(commands), servers, 440)
    rows = {}
    for size in sizes:
        with open(f"{folder}/{size}.json", encoding="utf-8") as file:
            rows.update({(row["target"], row["bytes"]): row for row in json.load(file)["results"]})
    bytes_of = {key: row["interface_bytes"] for key, row in rows.items()}
    if bytes_of["Subject", LARGE] > bytes_of["Subject", SMALL] + SLACK:
        raise Failed("content passes the client's link")
    if bytes_of["Client", LARGE] < 2 * LARGE:
        raise Failed("with TELPHER_PEER=off content passes elsewhere: the measure is wrong")
    if rows["Client", LARGE]["median_us"] < rows["Subject", LARGE]["median_us"]:
        raise Failed("1 MiB is not faster directly")


# ---- sized ----

def sized(args, folder):
    servers = " & ".join(server_line(args, folder, "10.77.0.2", port) for port in (7719, 7717)) + " & wait"
    line = f"{client_settings(folder, '10.77.0.2', (7717, 7719))} {shlex.quote(args.program)} sized 2 </dev/null"
    run_link(args, f"sleep 1; TELPHER_PEER=auto {line} >{folder}/auto && TELPHER_PEER=off {line} >{folder}/off", servers, 440)
    found = {}
    for way in ("auto", "off"):
        with open(f"{folder}/{way}", encoding="utf-8") as file:
            found[way] = [int(word) for word in file.read().split()[1:]]
    (direct, read), (through, read_off) = found["auto"], found["off"]
    print(f"of {SIZED} bytes {MEANT} count: between servers {direct} on the link, through the client {through}; read {read}")
    if direct > COMMANDS["sized"]:
        raise Failed("content with a size buffer passes the client's link")
    for passed, ways in ((through, 2), (read_off, 1), (read, 1)):
        if not ways * MEANT <= passed <= ways * MEANT * 1.2 + COMMANDS["sized"]:
            raise Failed(f"{passed} bytes pass of a buffer whose size says {MEANT}")


# ---- chain ----

def chain(args, folder):
    servers = " & ".join(server_line(args, folder, "10.77.0.2", port) for port in (7719, 7717)) + " & wait"
    run_link(args, f"sleep 1; {client_settings(folder, '10.77.0.2', (7717, 7719))} {shlex.quote(args.program)} chain 2 "
             f"</dev/null >{folder}/out", servers, 440, delay="25ms")
    with open(f"{folder}/out", encoding="utf-8") as file:
        took = float(file.read().split()[1])
    print(f"chain of 200 kernels on both servers: {took:.1f} ms; round trip of the client 50 ms")
    if took > CHAIN_MS:
        raise Failed("a chain of events passes the client's link")


# ---- parts of buffers ----

def memory_of(pid):
    """[KiB] that a process has to itself; 0: it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))
    except OSError:
        return 0


def median(values):
    return sorted(values)[len(values) // 2]


def executors_of(pid):
    """Children of a server, which serve a session each."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return file.read().split()


def start_servers(args, folder, ports):
    """In this namespace; gives the processes and the time until all answer."""
    begin = time.monotonic()
    lines = ["exec env " + server_line(args, folder, "127.0.0.1", port).replace(f" --listen 127.0.0.1:{port}", "", 1)
             for port in ports]
    servers = [subprocess.Popen(line, shell=True) for line in lines]
    for port in ports:
        for _ in range(300):
            if subprocess.run([args.telpher, "ping", "-q", "-c", "1", f"127.0.0.1:{port}"], check=False, timeout=60,
                              env={**os.environ, "TELPHER_COOKIE": f"{folder}/cookie", "TELPHER_INSECURE": "yes"},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        else:
            raise Failed(f"telpherd does not answer at port {port}")
    return servers, time.monotonic() - begin


def parts(args, folder):
    """Within the namespace of a link: servers and program on one loopback interface."""
    count = {"ring": args.servers, "edges": 2}.get(args.what, 4)
    ports = range(FIRST_PORT, FIRST_PORT + count)
    trace = f"TELPHER_TRACE={folder}/trace.json" if args.what == "ring" else ""
    copies = "TELPHER_KEEP_COPIES=yes" if args.what == "edges" else ""
    servers, started = start_servers(args, folder, ports)
    try:
        begin = time.monotonic()
        program = subprocess.Popen(
            f"{client_settings(folder, '127.0.0.1', ports)} {trace} {copies} exec {shlex.quote(args.program)} {args.what} {count}",
            shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        output = program.stdout.readline()  # it waits now
        whole = time.monotonic() - begin
        memory = [median([memory_of(server.pid) for server in servers]), median([sum(map(memory_of, executors_of(server.pid))) for server in servers])]
        program.communicate(timeout=300)
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(20)
    if program.returncode != 0:
        raise Failed(f"{args.what} ended with {program.returncode}")
    name, passed, content, *times = output.split()
    passed, content = int(passed), int(content)
    print(f"{name}: {passed} bytes on the interface for {content} of content")
    if times:
        print(f"{count} servers: started in {started:.1f} s, {memory[0]} KiB each and {memory[1]} KiB for the session; "
              f"program {whole:.1f} s, first ring {times[0]} ms, second {times[1]} ms")
    if trace:
        with open(f"{folder}/trace.json", encoding="utf-8") as file:
            arranged = file.read().count('"peer by tcp"')
        if arranged != count:
            raise Failed(f"the trace has {arranged} streams of a ring of {count}")
    commands = content // ROW * EXCHANGE if name == "halo" else COMMANDS[name] * (count if name == "ring" else 1)
    packets = 0 if name in ("halo", "gather") else content // 20  # large content is cut in many
    if not content <= passed <= content + packets + commands:
        raise Failed(f"{passed} bytes passed for {content} of content")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["migrate", "sized", "chain", "gather", "halo", "ring", "edges"])
    parser.add_argument("--servers", type=int, default=6, help="of a ring (6)")
    parser.add_argument("--inside", metavar="FOLDER", help=argparse.SUPPRESS)
    for name in ("link", "telpherd", "telpher", "icd", "program", "bench"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    if args.inside:
        parts(args, args.inside)
        return
    with tempfile.TemporaryDirectory(prefix="telpher-peer-") as folder:
        with open(f"{folder}/telpher.icd", "w", encoding="utf-8") as file:
            file.write(args.icd + "\n")
        if args.what == "migrate":
            migrate(args, folder)
        elif args.what in ("sized", "chain"):
            {"sized": sized, "chain": chain}[args.what](args, folder)
        else: # the link's other side only has to listen
            again = " ".join(map(shlex.quote, [sys.executable, *sys.argv, "--inside", folder]))
            listen = "import socket, time; s = socket.create_server((\"10.77.0.2\", 7717)); time.sleep(1000)"
            run_link(args, again, f"exec {sys.executable} -c {shlex.quote(listen)}", 440)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        print(f"failed: {failure}")
        sys.exit(1)
