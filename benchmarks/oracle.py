# SPDX-License-Identifier: MIT
"""Every connection of captures, read by us and by tshark: how many are equal, and why the others are not.

    python -m benchmarks.oracle FILE...     these captures
    python -m benchmarks.oracle             real programs, recorded now at both ends of difficult paths; needs root

Claim: no difference that none of the rules of docs/fingerprint.md explains; exit code 1 if there is one. Behind it:
what tshark calls the frames that carry old bytes, and what we call them.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.recorded_programs import TROUBLES, recorded
from tests.support.tshark_oracle import Compared, compare

# So many unexplained differences are shown of one capture.
SHOWN = 5


def main(words: list[str]) -> int:
    """Print a line a capture, and the sums."""
    print(f"{'capture':28} {'connections':>11} {'equal':>7} {'explained':>9} {'unexplained':>11}")
    sums: Counter[str] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    for name, found in _files(words) if words else _programs():
        _line(name[-28:], found, sums)
        kinds += found.kinds
    print(f"{'all':28} {sums['all']:11} {sums['equal']:7} {sums['explained']:9} {sums['unexplained']:11}")
    print("rules: " + (", ".join(f"{n[5:]} {c}" for n, c in sorted(sums.items()) if n.startswith("rule ")) or "none"))
    _kinds(kinds)
    return 1 if sums["unexplained"] else 0


def _files(words: list[str]) -> Iterator[tuple[str, Compared]]:
    for word in words:
        yield word, compare(Path(word))


def _programs() -> Iterator[tuple[str, Compared]]:
    for number, (name, trouble) in enumerate(TROUBLES.items()):
        with tempfile.TemporaryDirectory(prefix="ct-oracle-") as folder:
            with recorded(Path(folder), trouble, seed=number) as found:
                ends = dict(found.ends)
            if not number:
                print(f"programs: {', '.join(found.programs)}")
            for end, path in ends.items():
                yield f"{name}, at the {end}", compare(path)


def _line(name: str, found: Compared, sums: Counter[str]) -> None:
    wrong = {one.frame for one in found.unexplained}
    explained = {one.frame for one in found.differences} - wrong
    print(f"{name:28} {found.connections:11} {found.equal:7} {len(explained):9} {len(wrong):11}", flush=True)
    for one in found.unexplained[:SHOWN]:
        print(f"    frame {one.frame}: {one.name}: tshark {one.theirs}, here {one.ours}")
    sums += Counter(all=found.connections, equal=found.equal, explained=len(explained), unexplained=len(wrong))
    sums.update(f"rule {rule}" for _, rule in {(one.frame, one.rule) for one in found.differences if one.rule})


def _kinds(kinds: Counter[tuple[str, str]]) -> None:
    ours = sorted({mine for _, mine in kinds})
    if not ours:
        return
    print(f"{'tshark calls it':26}" + "".join(f"{mine:>10}" for mine in ours))
    for theirs in sorted({theirs for theirs, _ in kinds}):
        print(f"{theirs:26}" + "".join(f"{kinds[theirs, mine]:10}" for mine in ours))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
