#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Content that two servers need of each other does not touch the client's link.

         client --- 1 Gbit/s, 150 us each way --- 10.77.0.2:7717 server
                                                  10.77.0.2:7719 server
                                                  127.0.0.1, between the two servers

Runs peer_bytes, which increments a buffer on both servers in turn, over that link: directly, and with
TELPHER_PEER=off. Of a buffer of 4 MiB whose size buffer says 64 KiB, no more pass. Asserts that directly the bytes on
the link do not depend on the buffer's size, that through the client they do, and that 1 MiB is faster directly.
Prints the times beside the link's round trip. Then, with 25 ms each way, a chain of kernels that alternate between
the servers costs a few round trips, not one for each kernel.
"""
import argparse
import shlex
import subprocess
import sys
import tempfile

SKIPPED = 77
ROUNDS = 20
SIZES = (4, 65536, 1 << 20)
SLACK = 40_000  # [bytes] in 20 rounds: acknowledgements of TCP, probes
SIZED, MEANT = 4 << 20, 64 << 10  # bytes of a buffer, and of those how many have a meaning
FASTER = 5  # at least, for 1 MiB; 20 on a quiet machine

CHAIN_MS = 1000  # at most, for 200 kernels; through the client 5000 at least


class Failed(Exception):
    pass


def parse(path):
    """{size: (bytes on the link, median us), "sized": (bytes between servers, bytes read), "chain": (0, us)}"""
    with open(path, encoding="utf-8") as file:
        return {int(size) if size.isdigit() else size: (int(count), float(other))
                for size, count, other in map(str.split, file)}


def run(args, folder, delay, arguments, modes):
    """{mode of TELPHER_PEER: what parse() says}"""
    with open(f"{folder}/telpher.icd", "w", encoding="utf-8") as file:
        file.write(args.icd + "\n")
    quoted = {name: shlex.quote(value) for name, value in vars(args).items()}
    one = (f"TELPHER_COOKIE={folder}/cookie%d {quoted['telpherd']} --socket none --insecure --log error --cookie "
           f"{folder}/cookie%d --listen 10.77.0.2:%d --listen 127.0.0.1:%d --peer-address 127.0.0.1:%d")
    servers = " & ".join(one % (i, i, port, port, port) for i, port in enumerate((7719, 7717))) + " & wait"
    program = (f"TELPHER_PEER=%s TELPHER_INSECURE=yes TELPHER_SERVERS=10.77.0.2:7717,10.77.0.2:7719 "
               f"OCL_ICD_VENDORS={folder} {quoted['program']} {arguments} > {folder}/%s.txt")
    client = "sleep 1; " + " && ".join(program % (mode, mode) for mode in modes)
    done = subprocess.run(
        [args.link, "run", "--delay", delay, "--rate", "1Gbit", "--wait-port", "7717", "--wait-time", "60s",
         "--b", servers, "--a", client], timeout=200, check=False)
    if done.returncode == SKIPPED:
        print("skipped: the kernel does not permit network namespaces or TUN devices here")
        sys.exit(SKIPPED)
    if done.returncode != 0:
        raise Failed(f"the programs over the link ended with {done.returncode}")
    return {mode: parse(f"{folder}/{mode}.txt") for mode in modes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("link", "telpherd", "icd", "program"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="telpher-peer-") as folder:
        sizes = " ".join(map(str, SIZES))
        found = run(args, folder, "150us", f"{ROUNDS} {sizes}", ("auto", "off"))
        chain_ms = run(args, folder, "25ms", "chain", ("auto",))["auto"]["chain"][1] / 1000
    direct, through = found["auto"], found["off"]
    print(f"# {ROUNDS} rounds of two increments; link 1 Gbit/s, round trip 300 us")
    for size in SIZES:
        print(f"{size:8} B: direct {direct[size][0]:9} bytes on the link, {direct[size][1]:9.1f} us a round; "
              f"through the client {through[size][0]:9} bytes, {through[size][1]:9.1f} us")
    print(f"chain of 200 kernels on both servers: {chain_ms:.1f} ms; round trip of the client 50 ms")
    large, small = SIZES[-1], SIZES[0]
    if direct[large][0] > direct[small][0] + SLACK:
        raise Failed("content passes the client's link")
    if through[large][0] < 2 * ROUNDS * large:
        raise Failed("with TELPHER_PEER=off content passes elsewhere: the measure is wrong")
    if through[large][1] < FASTER * direct[large][1]:
        raise Failed("1 MiB is not faster directly")
    if chain_ms > CHAIN_MS:
        raise Failed("a chain of events passes the client's link")
    print(f"of {SIZED} bytes {MEANT} count: between servers {direct['sized'][0]} on the link, through the client "
          f"{through['sized'][0]}; read {direct['sized'][1]:.0f}")
    if direct["sized"][0] > SLACK:
        raise Failed("content with a size buffer passes the client's link")
    for passed, ways in ((through["sized"][0], 2), (through["sized"][1], 1), (direct["sized"][1], 1)):
        if not ways * MEANT <= passed <= ways * MEANT * 1.2 + SLACK:
            raise Failed(f"{passed} bytes pass of a buffer whose size says {MEANT}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        print(f"failed: {failure}")
        sys.exit(1)
