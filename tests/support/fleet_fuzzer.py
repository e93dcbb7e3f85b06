# SPDX-License-Identifier: MIT
"""Hostile frames of one enrolled agent at a manager's core, its database real, and a good agent beside it.

    python -m tests.support.fleet_fuzzer FRAMES [SEED]

What must hold: nothing raises, the manager goes on, what is stored is finite, memory stays, and of the hostile agent
some lines a minute are logged. The same seed makes the same frames.
"""

from __future__ import annotations

import logging
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import msgpack
from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.fleet.manager_proof import proof_of
from configtron.fleet.messages import (
    PROTOCOL,
    AgentHello,
    Beat,
    FromAgent,
    MapResult,
    SpanForm,
    Want,
    batch_frame,
    encode_rows,
    frame,
    from_manager,
)
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from tests.support.fleet_rows import BEGUN_NS, fleet_rows
from tests.support.fuzzer import changed
from tests.support.running_fleet import MAP

KEY, STRANGER = SigningKey(b"k" * 32), SigningKey(b"o" * 32)
NUMBERS = (0, 1, -1, 2**31, 2**62, 2**63, 2**64 - 1, 0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf"))
WORDS: tuple[Any, ...] = (
    *NUMBERS,
    None,
    True,
    "",
    "b2",
    "x\nERROR fake",
    "\x1b[2J",
    "\0",
    "e" * 300,
    b"",
    b"x" * 300,
    [],
    [[]] * 9,
    {},
)
# Frames a second, as the clock of the fuzzer has it.
RATE = 40


class FuzzReport(NamedTuple):
    """Frames sent, those that were refused, rows stored, lines logged, s of processor, growth of memory (KiB)."""

    frames: int
    refused: int
    rows: int
    lines: int
    seconds: float
    grown_kib: int


def seeds() -> list[bytes]:
    """Return one frame of each kind, with and without a signature."""
    spans = (SpanForm("initcwnd", 1.0, 30.0, ("a",)),)
    rows = [row._replace(rtt_ms=20.0) for row in fleet_rows(1, 2)]
    proofs = ("", "ab", proof_of("evil", 9, STRANGER), proof_of("evil", 2, KEY))
    hellos = [AgentHello("b", "0", seen_term=9, seen="evil", reaches=spans, bounds=spans, proof=one) for one in proofs]
    plain = 4 * [AgentHello("b", "0", driver="route", reaches=spans, bounds=spans, clock_ns=BEGUN_NS)]
    others: list[FromAgent] = [
        *hellos,
        *plain,
        Beat(1, 1, 3, 4, BEGUN_NS, "x"),
        Want(1, 1),
        MapResult(1, 1, b"d", 3, (("a", "b"),), 1, "", 0.5),
    ]
    return [*map(frame, others), *4 * [batch_frame("b", 1, encode_rows(rows))]]


def hostile(chance: random.Random) -> Iterator[bytes]:
    """Yield frames: bytes that were changed, fields that were replaced, and nonsense."""
    kept = seeds()
    while True:
        data = chance.choice(kept)
        how = chance.randrange(8)
        if how < 4:
            form = msgpack.decode(data[1:])
            place: Any = form
            while isinstance(place[at := chance.randrange(len(place))], list) and place[at] and chance.random() < 0.8:
                place = place[at]
            fresh = chance.randrange(1 << 30)
            alike = [word for word in (*WORDS, fresh, f"{fresh:x}") if type(word) is type(place[at])]
            place[at] = chance.choice((alike[-1:], alike, WORDS, WORDS)[how] or WORDS)
            yield bytes((PROTOCOL,)) + msgpack.encode(form)
        else:
            yield changed(data, chance.choice(kept), chance) if how < 7 else chance.randbytes(chance.randrange(99))


class _Count(logging.Handler):
    lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line of the log."""
        assert record.getMessage().isprintable()
        self.lines += 1


def fuzz_frames(frames: int, seed: int) -> FuzzReport:
    """Send so many. Errors: `AssertionError` for what must hold; any that the manager raises."""
    log, count = logging.getLogger("configtron.fleet"), _Count()
    log.addHandler(count)
    begun, grown, most = time.process_time(), 0, 0
    with tempfile.TemporaryDirectory() as folder, FleetStore(Path(folder) / "m.db") as store:
        store.enroll("evil", "key")
        store.enroll("good", "good")
        core = ManagerCore(store, FixedMapMaker(MAP), KEY, "m", BEGUN_NS)
        for at, data in zip(range(frames), hostile(random.Random(seed)), strict=False):
            now, now_ns = at / RATE, BEGUN_NS + at * 10**9 // RATE
            core.receive(b"e", "key", data, now, now_ns)
            if at % RATE == 0:
                core.tick(now, now_ns)
                (welcome,) = core.receive(b"g", "good", frame(Beat(clock_ns=now_ns)), now, now_ns)
                assert from_manager(welcome.data).manager == "m" and not core.stopped
            if at == frames // 5:
                grown = most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        stored, rows = store.latest_rows(frames)
        numbers = [one for row in rows for one in (*row, *dict(row.more).values()) if isinstance(one, float)]
        assert all(map(isfinite, numbers)), "a number that is not finite is stored"
        refused = core.session.lines["evil"].refused
        core.close()
    log.removeHandler(count)
    return FuzzReport(frames, refused, stored, count.lines, time.process_time() - begun, most - grown)


if __name__ == "__main__":
    print(fuzz_frames(int(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 1))
