# SPDX-License-Identifier: MIT
"""The records of recording.h as `PackedRecords`: many at a time, and clients' addresses cut to prefixes.

Nothing else of a record is looked at but what finds it again: `RecordParser` unpacks those that a log line asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from configtron.linux.ring_buffer import RecordRun
from configtron.model.close_records import ENDS, MAPPED, BadEndings, PackedRecords
from configtron.tune.drivers.bpf.connection_records import BEGINNING, BOTH_CLOSED, ENDING, MOVED, RecordParser

# struct beginning: eight numbers; remote, local_port, remote_port; arm, band; flags; the rest.
_BEGUN = np.dtype([("", "V40"), ("ends", f"V{ENDS.size}"), ("", "V2"), ("flags", "u1"), ("", "V1")])
# struct ending: its own; end_ns; counts, rate and two numbers; segments; retransmits; state, known, error; the rest.
_ENDED = np.dtype([("begun", _BEGUN), ("end_ns", "u8"), ("", "V32"), ("segments", "u4"), ("", "V4"), ("state", "u4"),
                   ("known", "u4"), ("error", "i4"), ("", "V12")])  # fmt: skip
# Where the client's address is in a record; what of it goes: of IPv4 in IPv6, of IPv6.
_REMOTE = 40
_CUT4, _CUT6 = slice(_REMOTE + 15, _REMOTE + 16), slice(_REMOTE + 6, _REMOTE + 16)
# Whether both sides had closed, by TCP's state; the last one stands for larger numbers.
_CLOSES = np.isin(np.arange(max(BOTH_CLOSED) + 2), list(BOTH_CLOSED))
# Records begin at multiples of 8 bytes.
_STEP = 8


def packed(run: RecordRun, parser: RecordParser) -> PackedRecords:
    """Return a run's records; records of another length are not of this program."""
    data = bytearray(run.data)
    opened = _rows(data, run.places.get(BEGINNING.size, ()), _BEGUN)
    closed = _rows(data, run.places.get(ENDING.size, ()), _ENDED)
    begun, end_ns = closed["begun"].copy(), closed["end_ns"].clip(1)
    begun["flags"] &= ~np.uint8(MOVED)
    bad = (closed["known"] != 0) & ((closed["error"] != 0) | ~_CLOSES[closed["state"].clip(0, len(_CLOSES) - 1)])
    # ends begin with their addresses
    ends = np.frombuffer(begun["ends"][bad].tobytes(), np.uint8).reshape(-1, ENDS.size)[:, : len(MAPPED) + 4]
    return PackedRecords(
        opened["ends"].tolist(), _bytes(opened), begun["ends"].tolist(), _bytes(begun), _bytes(closed),
        closed["segments"].tolist(), int(end_ns.max(initial=0)),
        BadEndings(ends.tobytes(), end_ns[bad].tobytes()), parser,
    )  # fmt: skip


def _bytes(rows: NDArray[np.void]) -> list[bytes]:
    """Return each row as bytes."""
    found: list[bytes] = rows.view(f"V{rows.dtype.itemsize}").tolist()
    return found


def _rows(data: bytearray, places: Sequence[int], kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Return the records at those places in a row, their addresses cut."""
    if not places:
        return np.empty(0, kind)
    # A window at each multiple of the step; the records are some of them.
    windows = np.ndarray(((len(data) - kind.itemsize) // _STEP + 1,), kind, data, strides=(_STEP,))
    rows: NDArray[np.void] = windows[np.array(places) // _STEP]
    octets = rows.view(np.uint8).reshape(len(rows), kind.itemsize)
    four = (octets[:, _REMOTE : _REMOTE + len(MAPPED)] == np.frombuffer(MAPPED, np.uint8)).all(axis=1)
    octets[four, _CUT4] = 0
    octets[~four, _CUT6] = 0
    return rows
