# SPDX-License-Identifier: MIT
"""Targets on disk, in the seed's order: any number of them in the same memory.

Sorted chunk by chunk into files without names, then merged; equal targets meet there, and the second one goes.
"""

from __future__ import annotations

import heapq
import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

from configtron.model.nouns import Target
from configtron.probe.targets import rank

# Targets sorted in memory at once: some 5 MB of them.
CHUNK = 10_000


class Listing(NamedTuple):
    """Facts about the targets of a file, kept so that nothing reads it again.

    sample   one of them: without an address, if any has none
    """

    size: int
    sample: Target | None


def write_listing(targets: Iterable[Target], path: Path, seed: int, *, chunk_size: int = CHUNK) -> Listing:
    """Write targets to a file, one a line, each once, in the order of the seed; sort so many in memory at once."""
    rest, chunks = iter(targets), []
    while chunk := sorted(islice(rest, chunk_size), key=lambda target: rank(target, seed)):
        chunks.append(_spilled(chunk))
    merged = heapq.merge(*(_read(chunk) for chunk in chunks), key=lambda target: rank(target, seed))
    count, sample, before = 0, None, None
    with path.open("w", encoding="utf-8") as file:
        for target in merged:
            if target == before:
                continue
            count, before = count + 1, target
            sample = target if sample is None or sample.address and not target.address else sample
            file.write(_line(target))
    return Listing(count, sample)


def listed(path: Path) -> Iterator[Target]:
    """Yield the targets in a file, as they are wanted."""
    with path.open("rb") as file:
        yield from _read(file)


class ListedParts:
    """A file of targets, in parts of `part_size` targets. A part is read without reading the lines before it."""

    def __init__(self, path: Path, part_size: int) -> None:
        self._path, self.part_size = path, part_size
        self._starts = array("Q", _starts(path, part_size))

    def part(self, number: int) -> list[Target]:
        """Return the targets of a part, which has this number, from 0."""
        with self._path.open("rb") as file:
            file.seek(self._starts[number])
            return list(islice(_read(file), self.part_size))


def _starts(path: Path, part_size: int) -> Iterator[int]:
    at = 0
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if number % part_size == 0:
                yield at
            at += len(line)


def _spilled(targets: Iterable[Target]) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the merge has read it
    for target in targets:
        file.write(_line(target).encode())
    file.seek(0)
    return file


def _read(file: IO[bytes]) -> Iterator[Target]:
    for line in file:
        yield Target(*json.loads(line))


def _line(target: Target) -> str:
    return json.dumps(astuple(target), separators=(",", ":")) + "\n"
