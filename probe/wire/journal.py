# SPDX-License-Identifier: MIT
"""The journal of a shard, read again when the shard resumes: its results, and the sessions that have ended.

    results.jsonl   one `Result` a line, written after the packets that it was read from
    ended           nine bytes a session that has ended: its place in the shard's order, in hex, and a line's end;
                    written after its last result

A kill leaves both whole up to some line; a truncated line is cut off. In memory a session takes a bit; of an
interrupted run, there are only the readings of sessions that had not ended beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from configtron.model.records import Result, result_from_json
from configtron.probe.target_session import Readings

JOURNAL = "results.jsonl"
ENDED = "ended"
MARK_BYTES = 9
# Results handed on at once when a journal is read: one transaction of the database.
BATCH = 1000


def journal(folder: Path) -> Iterator[Result]:
    """Yield the results in a folder; a line that a kill cut short is cut off the file first."""
    path = folder / JOURNAL
    cut_torn_line(path)
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            yield result_from_json(line.decode())


def batches(results: Iterable[Result]) -> Iterator[list[Result]]:
    """Yield results in lists of at most `BATCH`."""
    batch: list[Result] = []
    for result in results:
        batch.append(result)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def cut_torn_line(path: Path) -> None:
    """Cut off the line that a kill cut short."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = file.seek(0, 2)
        while end:
            start = max(end - (1 << 16), 0)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                file.truncate(start + at + 1)
                return
            end = start
        file.truncate(0)


class Ended:
    """Places of the sessions that have ended, a bit each: all below `low`, and some above it."""

    def __init__(self, folder: Path) -> None:
        self.low = 0
        self._bits, self._count = bytearray(), 0
        path = folder / ENDED
        self._file = path.open("a+b", buffering=0)
        self._file.truncate(path.stat().st_size // MARK_BYTES * MARK_BYTES)
        self._file.seek(0)
        while mark := self._file.read(MARK_BYTES):
            self._note(int(mark, 16))

    def __contains__(self, place: int) -> bool:
        byte, bit = divmod(place, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def __len__(self) -> int:
        return self._count

    def add(self, place: int) -> None:
        """That session has ended, and all its results are in the journal."""
        if place not in self:
            self._note(place)
            self._file.write(b"%08x\n" % place)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _note(self, place: int) -> None:
        if place in self:
            return
        byte, bit = divmod(place, 8)
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1 - len(self._bits)))
        self._bits[byte] |= 1 << bit
        self._count += 1
        while self.low in self:
            self.low += 1


def ended(folder: Path) -> int:
    """Return how many sessions have ended: the cheapest thing to watch from outside."""
    path = folder / ENDED
    return path.stat().st_size // MARK_BYTES if path.exists() else 0


class Memory:
    """The state of an interrupted run: readings of sessions that had not ended, and the ends of its evidence files."""

    def __init__(self, folder: Path, unfinished: Callable[[str], bool]) -> None:
        self.readings: dict[str, Readings] = {}
        self.evidence_ends: dict[str, int] = {}
        for result in journal(folder):
            self.evidence_ends[result.evidence_file] = max(
                result.evidence_end, self.evidence_ends.get(result.evidence_file, 0)
            )
            if unfinished(result.trace_id.rpartition("/")[0]):
                self.readings[result.trace_id] = result.observations

    def forget(self, session: str) -> None:
        """That session is over. Others may be named alike as far as it goes: `na/a.example` and `na/a.example/shop`."""
        for trace_id in [known for known in self.readings if known.rpartition("/")[0] == session]:
            del self.readings[trace_id]
