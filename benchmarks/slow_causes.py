# SPDX-License-Identifier: MIT
"""Claim: what slowed a connection down is named from its packets, wherever the capture stood.

    python -m benchmarks.slow_causes [FOLDER]     needs the lab; FOLDER keeps the captures, so that only missing ones are made

Real kernels talk in the lab's virtual time over a path with one planted cause, or two (`planted_slowness.py`); each
conversation is captured at the client, in the middle and at the server. A single cause is right if its share is the
largest. Two are right if they are the two largest, and each share is within ten points of the truth: what the programs
slept, or what the sender's kernel accounts (TCP_INFO). Exit code 1: fewer than 95 % of the single causes are right.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.guest_play import play
from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.service.capture import CaptureReading
from tests.support import planted_slowness
from tests.support.planted_slowness import PLACES, PLANTS

LEAST_RIGHT, POINTS, LIMIT_S = 0.95, 0.10, 900
MODULE = "tests.support.planted_slowness"


def read(folder: Path, name: str, place: str) -> ConnectionReport:
    """Return the one connection of a capture."""
    (one,) = CaptureReading([str(folder / f"{name}.{place}.pcap")]).connections(frozenset())
    assert one.clock or sum(part.ns for part in one.limits) == int(one.numbers["ended"] or 0) - one.started_ns
    return one


def truth(found: dict[str, dict[str, float]], cause: str, whole_s: float) -> float | None:
    """Return the share that a cause really had; None where neither program nor kernel states it."""
    seconds = found["slept"].get(cause, found["info"].get(cause) or 0.0)
    return seconds / whole_s if seconds else None


def main(words: Sequence[str]) -> int:
    """Play what is missing, judge all, print."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as own:
        folder = Path(words[0]) if words else Path(own)
        found = played(folder)
        singles = [name for name in PLANTS if len(PLANTS[name].cause) == 1]
        return 1 if single(folder, singles) < LEAST_RIGHT else pairs(folder, found)


def played(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Return what the programs and the kernel said of all conversations, which are played unless the folder has them."""
    told = folder / "all.json"
    found = json.loads(told.read_text()) if told.exists() else {}
    if missing := [name for name in PLANTS if name not in found]:
        folder.mkdir(exist_ok=True)
        real = [name for name in missing if PLANTS[name].real]
        if virtual := [name for name in missing if name not in real]:
            found |= play(folder, MODULE, virtual, columns=100, limit_s=LIMIT_S)
        found |= planted_slowness.play(folder, real)
        told.write_text(json.dumps(found))
    return {name: found[name] for name in PLANTS}


def single(folder: Path, names: Sequence[str]) -> float:
    """Print the confusion matrix of single causes; return the share that is right."""
    seen: Counter[tuple[str, str]] = Counter()
    right, wrong, behind = Counter[str](), list[str](), Counter[str]()
    for name in names:
        for place in PLACES:
            (cause,), shares = PLANTS[name].cause, read(folder, name, place).limits
            first = shares[0].limit
            if place in PLANTS[name].blind:
                behind[f"{name.split('-')[0]}: {first}"] += 1
                continue
            seen[cause, first] += 1
            right[place] += first == cause
            if first != cause:
                parts = ", ".join(f"{s.limit} {s.ns / sum(x.ns for x in shares):.0%}" for s in shares[:4])
                wrong.append(f"    {name} at {place}: {parts}")
    causes, columns = (sorted({pair[n] for pair in seen}) for n in (0, 1))
    print(f"{'planted, named':18}" + "".join(f"{c[:11]:>12}" for c in columns))
    for cause in causes:
        print(f"{cause:18}" + "".join(f"{seen[cause, c] or '.':>12}" for c in columns))
    print("\n".join(wrong))
    total = seen.total()
    share = sum(right.values()) / total
    constant = Counter(cause for cause, _ in seen.elements()).most_common(1)[0]
    print(f"right: {sum(right.values())} of {total} ({share:.1%}); " + ", ".join(f"{p} {right[p]}" for p in PLACES))
    print(f"always {constant[0]}: {constant[1]} of {total} ({constant[1] / total:.1%}); silence: 0")
    print(
        "behind the loss, where no packet shows the cause: " + ", ".join(f"{n} x {what}" for what, n in behind.items())
    )
    return share


def pairs(folder: Path, found: dict[str, dict[str, dict[str, float]]]) -> int:
    """Print how two causes are shared out; always 0: they are reported."""
    good, number = 0, 0
    for name, plant in PLANTS.items():
        for place in PLACES if len(plant.cause) == 2 else ():
            one = read(folder, name, place)
            whole = sum(part.ns for part in one.limits)
            shares = {part.limit: part.ns / whole for part in one.limits}
            true = {cause: truth(found[name], cause, whole / 1e9) for cause in plant.cause}
            near = all(t is None or abs(shares.get(c, 0.0) - t) <= POINTS for c, t in true.items())
            good += (fine := near and {part.limit for part in one.limits[:2]} == set(plant.cause))
            number += 1
            if not fine:
                says = ", ".join(
                    f"{c} {shares.get(c, 0.0):.0%} of {'?' if t is None else f'{t:.0%}'}" for c, t in true.items()
                )
                print(f"    {name} at {place}: {says}; {one.limits[0].limit}, {one.limits[1].limit}")
    print(f"two causes: {good} of {number} right")
    for limit in ("receive-window", "sender"):
        off = [abs(ours - theirs) for ours, theirs in _accounts(folder, found, limit)]
        print(
            f"{limit}, beside the sender's kernel: {len(off)} connections, off by {max(off):.1%} of the duration at most"
        )
    return 0


def _accounts(folder: Path, found: dict[str, dict[str, dict[str, float]]], limit: str) -> Iterator[tuple[float, float]]:
    """Yield (our share, the kernel's) of each conversation whose kernel says that this held its sender back."""
    for name, plant in PLANTS.items():
        if seconds := found[name]["info"].get(limit, 0.0):
            one = read(folder, name, "client" if plant.upload else "server")
            whole = sum(part.ns for part in one.limits)
            yield sum(part.ns for part in one.limits if part.limit == limit) / whole, seconds * 1e9 / whole


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
