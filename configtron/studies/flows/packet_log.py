# SPDX-License-Identifier: MIT
"""The packets of a trial as a compressed file of text: what each flow sent, when, and when it arrived. Pure.

    zcat packets.csv.gz | head -3
    flow,sent_us,late_us,bytes
    0,12,30512,1500
    0,13,,1500

flow     the trial's flows, from 0; each flow's packets in the order they were sent
sent_us  microseconds since the trial's beginning
late_us  of one way; empty for a packet that was lost
bytes    of the packet, IP's header too

Equal packets give equal bytes: the compressed file has no time and no name in its head.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence

import numpy as np

from configtron.lab.testbed.transits import Transits
from configtron.model.errors import BadInput

PACKET_LOG_COLUMNS = "flow,sent_us,late_us,bytes"
# gzip's own default; the next level takes twice as long for a fiftieth less.
LEVEL = 6
US_NS = 1000
# Measured by `configtron replay study pantheon --smoke --archive`: 3.9.
BYTES_A_PACKET = 4.0


def packed(flows: Sequence[Transits], began_ns: int) -> bytes:
    """Return the file of these flows' packets; their times are of the clock of `began_ns`, the trial's beginning."""
    lines = [PACKET_LOG_COLUMNS]
    for number, flow in enumerate(flows):
        sent = ((flow.sent_ns - began_ns) // US_NS).tolist()
        late = ((flow.arrived_ns - flow.sent_ns) // US_NS).tolist()
        words = [str(one) if there else "" for one, there in zip(late, flow.arrived.tolist(), strict=True)]
        rows = zip(sent, words, flow.length.tolist(), strict=True)
        lines += [f"{number},{at},{how},{size}" for at, how, size in rows]
    return gzip.compress(("\n".join(lines) + "\n").encode(), LEVEL, mtime=0)


def unpacked(data: bytes) -> list[Transits]:
    """Return the flows of such a file, in nanoseconds since the trial's beginning. Errors: `BadInput`."""
    try:
        head, *lines = gzip.decompress(data).decode().splitlines()
        if head != PACKET_LOG_COLUMNS:
            raise ValueError(f"its first line is {head[:40]!r}, not {PACKET_LOG_COLUMNS!r}")
        rows = np.array([_numbers(line) for line in lines], np.int64).reshape(-1, 4)
    except (OSError, EOFError, ValueError, OverflowError, zlib.error) as error:
        raise BadInput(f"no log of packets: {error}") from error
    return [_flow(rows[rows[:, 0] == number]) for number in range(int(rows[:, 0].max(initial=-1)) + 1)]


def _numbers(line: str) -> list[int]:
    return [int(word) if word else -1 for word in line.split(",")]


def _flow(rows: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Transits:
    sent, late = rows[:, 1] * US_NS, rows[:, 2] * US_NS
    return Transits(sent, np.where(rows[:, 2] < 0, -1, sent + late), rows[:, 3])
