# SPDX-License-Identifier: MIT
"""An agent's outcomes until the manager has them: rows in, numbered, encoded, and kept on disk within a bound.

spool = Spool(Path("/var/lib/configtron-agent/spool.db"), "web1")
spool.add(rows)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex

from configtron.db.spool_file import MOVE, SpooledBatch, SpoolFile
from configtron.fleet.messages import MOST_FRAME, MOST_ROWS, EncodedRows, are_readable, encode_rows
from configtron.model.errors import BadInput
from configtron.model.fleet import OutcomeRow

log = logging.getLogger("configtron.fleet")

# Half an hour of a busy site: 300 rows a second, each of some 150 bytes.
MOST_BYTES = 64 << 20
# Bytes of encoded rows that leave room for the frame around them.
BATCH_BYTES = MOST_FRAME - 1024
# Calls of `add` that drop none, until a want of room counts as over: near the bound every other one finds room.
STEADY = 50
# Bytes of a random name for each start of an agent: rows of a restored copy of a spool are no new rows.
BOOT_BYTES = 8


class Spool:
    """Rows that wait. `add` is all that readers of outcomes need.

    boot   of this start; rows are named by (agent, boot, sequence), and sequences begin with 1
    """

    def __init__(self, path: Path, agent: str, *, boot: str = "", most_bytes: int = MOST_BYTES) -> None:
        self.agent, self.boot = agent, boot or token_hex(BOOT_BYTES)
        self._file, self._next = SpoolFile(path, most_bytes), 1
        # How many were dropped before the present want of room; None: there is none.
        self._dropped_at: int | None = None
        # Calls of `add` since the last one that dropped some.
        self._kept = 0
        self._most_bytes = most_bytes

    def add(self, rows: Sequence[OutcomeRow]) -> int:
        """Keep rows, whatever their agent, boot and sequence; return how many were taken.

        Fewer than all: the disk is full; the others are counted in `dropped`. Errors: `BadInput` for a row that no
        manager would take (a text too long, a number that is none); then none of the rows is kept.
        """
        taken, before = 0, self._file.dropped
        for encoded in _batches(rows):
            if not self._file.append(SpooledBatch(self.boot, self._next, encoded.number, encoded.data)):
                self._file.dropped += len(rows) - taken - encoded.number
                break
            self._next += encoded.number
            taken += encoded.number
        self._note(before, taken == len(rows))
        return taken

    def _note(self, before: int, has_room: bool) -> None:
        """Log when outcomes begin to be dropped, and when that is over; `before`: what was dropped before these."""
        drops = self._file.dropped > before
        self._kept = 0 if drops else self._kept + 1
        if drops == (self._dropped_at is not None) or (not drops and self._kept < STEADY):
            return
        if self._dropped_at is not None:
            log.warning("%s: outcomes are kept again; %d were dropped", self._file.path, before - self._dropped_at)
            self._dropped_at = None
            return
        self._dropped_at = before
        if has_room:
            log.error("%s: more outcomes wait than its %d MiB hold: the oldest are dropped, and counted, until the"
                      " manager takes some", self._file.path, self._most_bytes >> 20)  # fmt: skip
        else:
            log.error("%s: no room on the disk: new outcomes are dropped, and counted; make room on its file system",
                      self._file.path)  # fmt: skip

    @property
    def waiting(self) -> int:
        """Return how many rows wait."""
        return self._file.waiting

    @property
    def dropped(self) -> int:
        """Return how many rows were dropped since the file was made."""
        return self._file.dropped

    def oldest(self) -> tuple[str, int, EncodedRows]:
        """Return (boot, first, rows) of the batch to be sent next; no rows: nothing waits."""
        found = self._file.oldest(MOST_ROWS, BATCH_BYTES)
        return (
            (found.boot, found.first, EncodedRows(found.number, found.data)) if found else ("", 1, EncodedRows(0, b""))
        )

    def forget(self, boot: str, through: int) -> None:
        """Delete rows that the manager has."""
        self._file.forget(boot, through)

    def drop_damaged(self, boot: str, through: int) -> int:
        """Drop the batches of a boot that no manager can read, of those that end by a number; return how many rows.

        Errors: `BadInput`.
        """
        return self._file.drop(boot, through, lambda one: not are_readable(EncodedRows(one.number, one.data)))

    def manager(self) -> tuple[tuple[int, str], str]:
        """Return (term, name) and proof of the manager that was obeyed last; (0, ""): none. Errors: `BadInput`."""
        text, (of, _, proof) = self._file.fact("manager"), self._file.fact("proof").partition("\n")
        term, _, name = text.partition(" ")
        if term and not term.isdecimal():
            raise BadInput(f"{self._file.path}: no spool ({term[:20]!r} is no term); {MOVE}")
        return ((int(term), name) if term else (0, "")), (proof if of == text else "")

    def remember_manager(self, term: int, name: str, proof: str) -> None:
        """Keep which manager is obeyed, and what it says of itself. Earlier releases read the first as well."""
        self._file.remember("proof", f"{term} {name}\n{proof}")
        self._file.remember("manager", f"{term} {name}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _batches(rows: Sequence[OutcomeRow]) -> list[EncodedRows]:
    """Return rows in batches that fit one frame each. Errors: `BadInput`."""
    found, waiting = [], [rows[at : at + MOST_ROWS] for at in range(0, len(rows), MOST_ROWS)]
    while waiting:
        part = waiting.pop(0)
        encoded = encode_rows(part)
        if len(encoded.data) > BATCH_BYTES and len(part) > 1:
            waiting[:0] = [part[: len(part) // 2], part[len(part) // 2 :]]
        else:
            found.append(encoded)
    return found
