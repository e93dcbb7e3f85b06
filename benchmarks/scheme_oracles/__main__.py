# SPDX-License-Identifier: MIT
"""Claim: our Copa, LEDBAT and GCC agree with tquic's, libutp's and pion's, on the same inputs and over the same paths.

    python -m benchmarks.scheme_oracles [copa] [ledbat] [gcc] [--write]

Fetches each from its package registry, builds it in ~/.cache/configtron/oracles (cargo, npm and g++, go) and runs it in
virtual time. Prints both. `--write` stores theirs in tests/lab/schemes/oracle_answers.json, with their versions.
An oracle that cannot be had here is skipped, with the reason. Exit code 1 if one does not agree, or none was had.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

from benchmarks.scheme_oracles import copa_oracle, gcc_oracle, ledbat_oracle
from benchmarks.scheme_oracles.fetched import PION, TQUIC, UTP_NATIVE, Unavailable
from configtron.lab.schemes.copa import Copa
from configtron.lab.schemes.ledbat import Ledbat
from tests.support import ROOT
from tests.support.oracle_inputs import (
    AGREE,
    COPA_PATHS,
    LEDBAT_PATHS,
    SEEDS,
    Settled,
    copa_moves,
    growths_agree,
    same_direction,
    same_signals,
    settled,
    two,
    windows_apart,
)

STORE = ROOT / "tests/lab/schemes/oracle_answers.json"


def _paths(paths: Sequence[tuple[float, float, int]], theirs: Sequence[Settled], ours: Sequence[Settled]) -> bool:
    for path, their, our in zip(paths, theirs, ours, strict=True):
        queues = f"queue {their.queueing_ms:.2f} ms, ours {our.queueing_ms:.2f}"
        print(f"  {path[0]:g} Mbit/s, {2e3 * path[1]:g} ms: {queues}; {their.mbit:.3f} Mbit/s, ours {our.mbit:.3f}")
    return all(abs(our.queueing_ms / their.queueing_ms - 1) < AGREE for their, our in zip(theirs, ours, strict=True))


def _pair(theirs: Sequence[Settled], ours: Sequence[Settled]) -> None:
    shares = [", ".join(f"{one.mbit:.2f}" for one in pair) for pair in (theirs, ours)]
    print(f"  two flows, first and late: {shares[0]} Mbit/s, ours {shares[1]}")


def copa() -> tuple[object, bool]:
    """Copa beside tquic's."""
    theirs = copa_oracle.answers()
    ours = copa_moves(theirs["moves"])
    ways, apart = same_direction(theirs["moves"], ours), windows_apart(theirs["moves"], ours)
    print(f"copa and tquic {TQUIC}: {len(ours)} acknowledgements, the window moves the same way at {ways:.1%}, "
          f"windows {apart:.1%} apart in the median")  # fmt: skip
    good = _paths(COPA_PATHS, theirs["settled"], [settled(Copa(), path) for path in COPA_PATHS])
    _pair(theirs["two"], two(Copa(), Copa()))
    print("  with tquic's own default, a standing RTT of a whole round trip:")
    _paths(COPA_PATHS, copa_oracle.answers(whole=True)["settled"], [settled(Copa(), path) for path in COPA_PATHS])
    return theirs, good and ways > 1 - AGREE and apart < AGREE


def ledbat() -> tuple[object, bool]:
    """LEDBAT beside libutp's."""
    theirs = ledbat_oracle.answers()
    agree = growths_agree(theirs["steps"])
    print(f"ledbat and libutp of utp-native {UTP_NATIVE}: {agree:.1%} of {len(theirs['steps'])} steps agree")
    good = _paths(LEDBAT_PATHS, theirs["settled"], [settled(Ledbat(), path) for path in LEDBAT_PATHS])
    _pair(theirs["two"], two(Ledbat(), Ledbat()))
    return theirs, good and agree > 1 - AGREE


def gcc() -> tuple[object, bool]:
    """GCC's detector beside pion's."""
    theirs = gcc_oracle.answers()
    same, every = same_signals(theirs), sum(map(len, theirs))
    print(f"gcc and pion {PION}: {same} of {every} signals agree, seeds {', '.join(map(str, SEEDS))}")
    return theirs, same > (1 - AGREE) * every


ORACLES: dict[str, tuple[Callable[[], tuple[object, bool]], str]] = {
    "copa": (copa, f"crate tquic {TQUIC}, congestion_control/copa.rs"),
    "ledbat": (ledbat, f"libutp in the npm package utp-native {UTP_NATIVE}"),
    "gcc": (gcc, f"Go module github.com/pion/interceptor {PION}, pkg/gcc"),
}


def main() -> int:
    """Print, store if asked, return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[], choices=[[], *ORACLES])
    parser.add_argument("--write", action="store_true")
    wanted = parser.parse_args()
    kept = json.loads(STORE.read_text()) if STORE.exists() else {}
    bad, compared = [], []
    for name in wanted.names or ORACLES:
        judge, origin = ORACLES[name]
        try:
            answers, good = judge()
        except Unavailable as reason:
            print(f"{name}: skipped: {reason}")
            continue
        compared.append(name)
        bad += [] if good else [name]
        kept[name] = {
            "of": origin,
            "made by": f"python -m benchmarks.scheme_oracles {name} --write",
            "answers": answers,
        }
    if wanted.write:
        STORE.write_text(json.dumps(kept, separators=(",", ":")) + "\n")
    print(f"compared: {', '.join(compared) or 'none'}; do not agree: {', '.join(bad) or 'none'}")
    return bool(bad or not compared)


if __name__ == "__main__":
    sys.exit(main())
