# SPDX-License-Identifier: MIT
"""Claim: no second holds more SYNs than the rate allows, over all vantages together, seen where they arrive.

    python -m benchmarks.rate [RATE...] [--jobs N]      as root; worker processes, one by default

The program probes a town of which a tenth is dark (no host answers there, so that SYNs are repeated) from three
vantages at once. A socket in the *server's* namespace records the kernel's time of each SYN that arrives. Printed: the
fullest window of one second, the mean rate while the run was at it, and what the window may hold.
"""

from __future__ import annotations

import argparse
import socket
import struct
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

from benchmarks.town import Town, command, dark, lit, town
from configtron.linux.netns import inside

RATES = (50, 200, 1000)
VANTAGES = 3
# Seconds' worth of connections at each rate; more would only be more of the same.
SECONDS = 20
# A tenth of the targets answer nothing.
DARK_EACH = 10
_SO_TIMESTAMPNS, _ETH_P_ALL = 35, 3
_RECEIVE_BYTES = 1 << 22


def arrivals(standing: Town, ready: Event, over: Event) -> list[float]:
    """Times (s, the kernel's) of all SYNs that arrive in the town, until `over`."""
    with inside(standing.netns):
        ear = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
    ear.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    ear.settimeout(0.2)
    times = []
    ready.set()
    while not over.is_set():
        try:
            packet, ancillary, _, source = ear.recvmsg(128, socket.CMSG_SPACE(16))
        except TimeoutError:
            continue
        if source[2] == socket.PACKET_OUTGOING or len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != 6:
            continue
        at = (packet[0] & 15) * 4
        if packet[at + 13] & 0x12 == 0x02 and packet[16:18] == b"\xc6\x13":
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            times.append(seconds + nanoseconds / 1e9)
    return times


def fullest(times: Sequence[float]) -> int:
    """Arrivals in the fullest half-open window of one second."""
    return max((bisect_left(times, at + 1) - n for n, at in enumerate(times)), default=0)


def measured(rate: int, jobs: int) -> list[float]:
    """When the SYNs of a run at that rate arrived."""
    # A target that answers gets five connections from `quick`'s icw and http tests, from each vantage.
    count = max(rate * SECONDS // (5 * VANTAGES), 10)
    addresses = [dark(n) if n % DARK_EACH == 0 else lit(n) for n in range(count)]
    with town(VANTAGES) as standing, tempfile.TemporaryDirectory(prefix="rate-") as name:
        ready, over, found = Event(), Event(), []
        listener = Thread(target=lambda: found.extend(arrivals(standing, ready, over)))
        listener.start()
        ready.wait()
        words = ["--profile", "quick", "--tests", "icw,http", "-r", str(rate), "-o", "/dev/null", "-c", "5000"]
        words += ["--jobs", str(jobs)]
        try:
            subprocess.run(command(Path(name), standing, addresses, *words), check=False)
        finally:
            over.set()
            listener.join()
        return sorted(found)


def main(rates: Sequence[int], jobs: int = 1) -> int:
    """A row a rate; 1 if a window held more than the rate and one per cent."""
    print(f"{'rate':>6} {'SYNs':>7} {'fullest second':>15} {'allowed':>8} {'mean rate':>10}")
    holds = True
    for rate in rates:
        times = measured(rate, jobs)
        # The mean over the busy part: the end waits for the last hosts' answers.
        busy = times[: len(times) // 2]
        mean = (len(busy) - 1) / (busy[-1] - busy[0]) if len(busy) > 1 else 0.0
        print(f"{rate:6} {len(times):7} {fullest(times):15} {rate * 1.01:8.1f} {mean:10.1f}", flush=True)
        holds = holds and 0 < fullest(times) <= rate * 1.01
    return 0 if holds else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rates", nargs="*", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    sys.exit(main(given.rates or RATES, given.jobs))
