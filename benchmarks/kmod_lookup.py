# SPDX-License-Identifier: MIT
"""What a look-up of a client costs in the kernel module, by the number of prefixes, and by how many lengths are in use.

Claim: 41, 80 and 358 ns at ten thousand, a hundred thousand and a million prefixes of one length, as the prototype had.

A module of its own (kmod/configtron_bench.c) fills the same table with the same code, times 4096 look-ups of random
clients that are all inside, and takes away what the loop costs without them; of two hundred such pieces the least is
reported, which no neighbour has slowed down. The kernel is the lab's in real time: in virtual time nothing lasts.

    python -m benchmarks.kmod_lookup [--sizes 10000,100000,1000000]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path

from configtron.lab.uml.backend import say
from configtron.lab.uml.enclosure import GuestJob, enclose
from configtron.lab.uml.kernel import ensure_kernel, ensure_programs
from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import uml_arguments
from tests.support import ROOT

SIZES = (10_000, 100_000, 1_000_000)
# (IPv6, lengths in use): one length as an allocation table has it, eight as a routing table.
TABLES = ((False, 1), (False, 8), (True, 1))
# A million prefixes with their buckets take 70 MB; twice while the table grows.
MEMORY_MB = 1024
# As in configtron_bench.c: pieces, and look-ups of one.
PIECES, PIECE = 200, 4096
# finit_module(2), delete_module(2) of x86_64.
_FINIT, _DELETE = 313, 176
NAME = "configtron_bench"


def parameters(module: str, words: str, *wanted: str) -> dict[str, int]:
    """Inside the guest: load a module, which measures as it is loaded, and return what it found."""
    libc, name = ctypes.CDLL(None, use_errno=True), Path(module).stem
    file = os.open(module, os.O_RDONLY)
    if libc.syscall(_FINIT, file, words.encode(), 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), module)
    os.close(file)
    given = {each: int(Path(f"/sys/module/{name}/parameters/{each}").read_text()) for each in wanted}
    libc.syscall(_DELETE, name.encode(), 0)
    return given


def measured(module: str, six: bool, lengths: int, count: int) -> float:
    """Inside the guest: nanoseconds of one look-up."""
    words = f"prefixes={count} pieces={PIECES} lengths={lengths} ipv6={int(six)}"
    given = parameters(module, words, "lookup_ps", "hits")
    assert given["hits"] == PIECES * PIECE, f"{PIECES * PIECE - given['hits']} look-ups found nothing"
    return given["lookup_ps"] / 1000


def inside(module: str, sizes: list[int]) -> None:
    """Inside the guest: a line of JSON for each table and size."""
    for six, lengths in TABLES:
        for count in sizes:
            lookup_ns = measured(module, six, lengths, count)
            row = {"family": "IPv6" if six else "IPv4", "lengths": lengths, "prefixes": count, "lookup ns": lookup_ns}
            print(json.dumps(row), flush=True)


def in_guest(program: str, name: str, *words: str) -> list[dict[str, float | str]]:
    """Boot the lab's kernel in real time and run a program's `--inside` there with a module; its lines of JSON."""
    module = module_for_guest(say, variables=("CONFIGTRON_BENCH=1",)).with_name(f"{name}.ko")
    command = (sys.executable, "-m", program, "--inside", str(module), *words)
    with tempfile.TemporaryDirectory(prefix="configtron-") as folder:
        core = min(os.sched_getaffinity(0))
        job = GuestJob(command, Path(folder), 1, core, MEMORY_MB, (("PYTHONPATH", str(ROOT)),), 600)
        arguments = uml_arguments(job, ensure_kernel(say), ensure_programs() / "init", "none", [])
        running = enclose(job, arguments, ())
        code = running.wait()
        output = running.console.read_text()
    if code:
        sys.exit(f"the guest ended with {code}:\n{output}\n{running.last_words()}")
    return [json.loads(line) for line in output.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside, [int(size) for size in given.sizes.split(",")])
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; least of {PIECES} pieces")
    columns = ("family", "lengths", "prefixes", "lookup ns")
    print(" ".join(f"{column:>10}" for column in columns))
    for row in in_guest("benchmarks.kmod_lookup", NAME, "--sizes", given.sizes):
        print(" ".join(f"{row[c]:>10.0f}" if isinstance(row[c], float) else f"{row[c]:>10}" for c in columns))


if __name__ == "__main__":
    main()
