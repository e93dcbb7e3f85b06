# SPDX-License-Identifier: MIT
"""Claim: what slowed a connection down is named from its packets, wherever the capture stood.

    python -m benchmarks.slow_causes [FOLDER [RTT_MS...]]     as root; needs the lab

FOLDER keeps the captures; only missing ones are made. RTT_MS are the round trips, else 10, 60 and 200 ms.

Real kernels talk in the lab's virtual time over a path with one planted cause, or two (`planted_slowness.py`); each
conversation is captured at the client, in the middle and at the server. A single cause is right if its share is the
largest. Two are right if each share is within ten points of the truth (how long the programs slept, or the times in the
sender's TCP_INFO). Without such a truth two are right if they are the two largest. Exit code 1: fewer than 95 % of
the single causes are right.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.guest_play import play
from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.fingerprint.passive.limits import LIMITS
from configtron.service.capture import CaptureReading
from tests.support import planted_slowness
from tests.support.planted_slowness import PLACES, Plant, plants

LEAST_RIGHT, POINTS, LIMIT_S = 0.95, 0.10, 900
RTTS_MS = (10, 60, 200)
# By conversation: seconds, by limit, that programs slept ("slept") and that the sender's kernel states ("info").
Found = dict[str, dict[str, dict[str, float]]]
MODULE = "tests.support.planted_slowness"


def read(folder: Path, name: str, place: str) -> ConnectionReport:
    """Return the one connection of a capture."""
    (one,) = CaptureReading([str(folder / f"{name}.{place}.pcap")]).connections(frozenset())
    assert one.clock or sum(part.ns for part in one.limits) == int(one.numbers["ended"] or 0) - one.started_ns
    return one


def truth(found: dict[str, dict[str, float]], cause: str, whole_s: float) -> float | None:
    """Return the true share of a cause; None where neither program nor kernel states it."""
    seconds = found["slept"].get(cause, found["info"].get(cause) or 0.0)
    return seconds / whole_s if seconds else None


def main(words: Sequence[str]) -> int:
    """Play what is missing, judge all, print."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as own:
        folder = Path(words[0]) if words else Path(own)
        every = dict(plants(*(map(int, words[1:]) if words[1:] else RTTS_MS)))
        found = played(folder, every)
        share = single(folder, {name: plant for name, plant in every.items() if len(plant.cause) == 1})
        pairs(folder, {name: plant for name, plant in every.items() if len(plant.cause) == 2}, found)
        accounts(folder, every, found)
        return 1 if share < LEAST_RIGHT else 0


def played(folder: Path, every: Mapping[str, Plant]) -> Found:
    """Return what programs and kernels state of all conversations; those that the folder lacks are played."""
    statements = folder / "all.json"
    found = json.loads(statements.read_text()) if statements.exists() else {}
    if missing := [name for name in every if name not in found]:
        folder.mkdir(exist_ok=True)
        real = [name for name in missing if every[name].real]
        if virtual := [name for name in missing if name not in real]:
            found |= play(folder, MODULE, virtual, columns=100, limit_s=LIMIT_S)
        found |= planted_slowness.play(folder, real)
        statements.write_text(json.dumps(found))
    return found


def single(folder: Path, every: Mapping[str, Plant]) -> float:
    """Print the confusion matrix of single causes; return the share that is right."""
    seen: Counter[tuple[str, str]] = Counter()
    right, wrong, behind = Counter[str](), list[str](), Counter[str]()
    for name, plant in every.items():
        for place in PLACES:
            (cause,), shares = plant.cause, read(folder, name, place).limits
            first = shares[0].limit
            if place in plant.blind:
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


def pairs(folder: Path, every: Mapping[str, Plant], found: Found) -> None:
    """Print how many pairs of causes are right, and the wrong ones."""
    good = 0
    for name, plant in every.items():
        for place in PLACES:
            one = read(folder, name, place)
            whole = sum(part.ns for part in one.limits)
            shares = {part.limit: part.ns / whole for part in one.limits}
            true = {cause: truth(found[name], cause, whole / 1e9) for cause in plant.cause}
            near = all(abs(shares.get(c, 0.0) - t) <= POINTS for c, t in true.items() if t is not None)
            good += (fine := near and (None not in true.values() or {p.limit for p in one.limits[:2]} == {*true}))
            if not fine:
                says = (f"{c} {shares.get(c, 0.0):.0%} of {'?' if t is None else f'{t:.0%}'}" for c, t in true.items())
                print(f"    {name} at {place}: {', '.join(says)}; {one.limits[0].limit}, {one.limits[1].limit}")
    print(f"two causes: {good} of {len(every) * len(PLACES)} right")


def accounts(folder: Path, every: Mapping[str, Plant], found: Found) -> None:
    """Print how far our shares are from those of the sender's kernel."""
    for limit in ("receive-window", "sender"):
        off = []
        for name, plant in every.items():
            if seconds := found[name]["info"].get(limit, 0.0):
                one = read(folder, name, "client" if plant.upload else "server")
                whole, ours = (sum(p.ns for p in one.limits if p.limit in some) for some in (LIMITS, (limit,)))
                off.append(abs(ours - seconds * 1e9) / whole)
        print(f"{limit} beside the kernel's account: {len(off)}, off by {median(off):.1%} (most {max(off):.1%})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
