# SPDX-License-Identifier: MIT
"""What the kernel module costs: a look-up of a client by the number of prefixes, and the records of a connection.

    python -m benchmarks.kmod_costs lookup [--sizes 10000,100000,1000000]
    python -m benchmarks.kmod_costs records [--readers 1,2,4,16]

lookup    Claim: 41, 80 and 358 ns at ten thousand, a hundred thousand and a million prefixes of one length, as the
          prototype had. kmod/configtron_bench.c fills the same table with the same code, times 4096 look-ups of random
          clients that are all inside, and subtracts the time of an empty loop.
records   Is the one lock for all readers' rings a limit, so that each processor should have rings of its own?
          kmod/configtron_bench_records.c fills records of a socket by the module's own code and pushes them to readers'
          rings, which are emptied in between. A connection has two records. Processors fill them side by side, and push
          them under the lock: all of them together push at most 1 / (2 x push time) connections a second. Exit code 1
          where a record was lost.

Each figure is the shortest of two hundred pieces, which no neighbour has slowed down. The kernel is the lab's in real
time, since in virtual time nothing lasts; it has one processor, so the lock's figure is an upper bound. For comparison:
a module that does nothing costs 0 ns, and without a reader the module reads one word and fills nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import tempfile
from collections.abc import Iterator
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
READERS = (1, 2, 4, 16)
# As in configtron_bench.c and configtron_bench_records.c: pieces, look-ups in a piece, pushes in a piece.
PIECES, LOOKUPS, PUSHES = 200, 4096, 256
# finit_module(2), delete_module(2) of x86_64.
_FINIT, _DELETE = 313, 176


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


def lookup_ns(module: str, ipv6: bool, lengths: int, count: int) -> float:
    """Inside the guest: return the nanoseconds of one look-up."""
    words = f"prefixes={count} pieces={PIECES} lengths={lengths} ipv6={int(ipv6)}"
    given = parameters(module, words, "lookup_ps", "hits")
    assert given["hits"] == PIECES * LOOKUPS, f"{PIECES * LOOKUPS - given['hits']} look-ups found nothing"
    return given["lookup_ps"] / 1000


def lookups(module: str, sizes: list[int]) -> Iterator[dict[str, object]]:
    """Inside the guest: yield a row for each table and size."""
    for ipv6, lengths in TABLES:
        for count in sizes:
            ns = lookup_ns(module, ipv6, lengths, count)
            yield {"family": "IPv6" if ipv6 else "IPv4", "lengths": lengths, "prefixes": count, "lookup ns": ns}


def records(module: str, readers: list[int]) -> Iterator[dict[str, object]]:
    """Inside the guest: yield a row for each number of readers."""
    for number in readers:
        found = parameters(module, f"readers={number} pieces={PIECES}", "fill_ps", "push_ps", "pushed")
        push_ns = found["push_ps"] / 1000
        yield {"readers": number, "fill both ns": found["fill_ps"] / 1000, "push one ns": push_ns,
               "a second": 1e9 / (2 * push_ns), "lost": number * PIECES * PUSHES - found["pushed"]}  # fmt: skip


KINDS = {"lookup": (lookups, "configtron_bench"), "records": (records, "configtron_bench_records")}


def in_guest(kind: str, numbers: str) -> list[dict[str, float | str]]:
    """Boot the lab's kernel in real time and measure there with the module of this kind; return its rows."""
    module = module_for_guest(say, variables=("CONFIGTRON_BENCH=1",)).with_name(f"{KINDS[kind][1]}.ko")
    command = (sys.executable, "-m", "benchmarks.kmod_costs", kind, "--inside", str(module), "--sizes", numbers)
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


def main() -> int:
    """Measure and print; 1 if a record was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--sizes", "--readers", dest="sizes")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    numbers = given.sizes or ",".join(map(str, SIZES if given.kind == "lookup" else READERS))
    if given.inside:
        for line in KINDS[given.kind][0](given.inside, [int(number) for number in numbers.split(",")]):
            print(json.dumps(line), flush=True)
        return 0
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; least of {PIECES} pieces")
    rows = in_guest(given.kind, numbers)
    print(" ".join(f"{column:>12}" for column in rows[0]))
    for row in rows:
        print(" ".join(f"{value:>12,.0f}" if isinstance(value, float) else f"{value:>12}" for value in row.values()))
    return int(any(row.get("lost") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
