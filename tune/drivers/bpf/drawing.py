# SPDX-License-Identifier: MIT
"""The maps of drawing.h: two halves of a plan and its mixes, the word that turns, the lease.

A half is written while it is idle, and only after every program that began before the last turn has ended
(`wait_for_programs`), so that no connection sees half of a plan. `which` carries what the programs read and, beside it,
which half is loaded and waits: another process may load than the one that turns.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from configtron.linux.libbpf import Map, wait_for_programs
from configtron.model.draw import ARMS, BANDS, Mix, Plan, PlanState
from configtron.model.errors import BadInput
from configtron.tune.drivers.bpf import layout

PLAN, MIX, _TURN, _WORD, _NUMBER = map(struct.Struct, ("=3Q2I4I4I", "=8H8H", "=4IQ", "=Q", "=I"))
_ZERO = _NUMBER.pack(0)
_MAPS = ("plans", "mixes", "which", "not_after")
# Key and epoch are a plan's first bytes.
_EPOCH_ENDS = 24
_NO_MIXES = bytes(MIX.size * layout.MOST_PROFILES)


class Turn(NamedTuple):
    """struct turn: the half in force (1, 2; 0 none), whether connections are recorded; which half waits, its lease."""

    half: int = 0
    records: int = 0
    loaded: int = 0
    filling: int = 0
    lease_ns: int = 0


class Halves:
    """Open for the length of a block."""

    def __init__(self, folder: Path) -> None:
        self._maps = {name: Map.pinned(folder / name) for name in _MAPS}

    def __enter__(self) -> Halves:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._maps.values():
            opened.close()

    def load(self, plan: Plan, mixes: Mapping[str, Mix], numbers: Mapping[str, int]) -> None:
        """Fill the idle half. `numbers`: of profiles by name. Errors: `BadInput`."""
        wanted = plan_bytes(plan, numbers), mixes_bytes(mixes, numbers)
        now = self.turn_now()
        if now.half:
            there = self._half(now.half)
            if there[0][:_EPOCH_ENDS] == wanted[0][:_EPOCH_ENDS] and there != wanted:
                why = "mixes, bands and the control group change only together with the epoch"
                raise BadInput(f"epoch {plan.epoch} is in force with other mixes: {why}")
        idle = 3 - now.half if now.half else 1
        self._put_turn(now._replace(loaded=0))
        wait_for_programs()
        self._put_half(idle, *wanted)
        self._put_turn(now._replace(loaded=idle, lease_ns=plan.not_after))

    def turn(self, records: bool) -> None:
        """Put the loaded half in force; a lease that is longer stays. Errors: `BadInput`."""
        now = self.turn_now()
        if not now.loaded:
            raise BadInput("no plan is loaded; load one before the turn")
        lease_ns = max(now.lease_ns, self.not_after()) if now.half else now.lease_ns
        self.renew(lease_ns)
        self._put_turn(Turn(now.loaded, int(records)))

    def renew(self, until_ns: int) -> None:
        _renew(self._maps["not_after"], until_ns)

    def drop(self) -> None:
        """No plan in force, none loaded, no half left."""
        self._put_turn(Turn())
        wait_for_programs()
        for half in (1, 2):
            self._put_half(half, bytes(PLAN.size), _NO_MIXES)
        self.renew(0)

    def turn_now(self) -> Turn:
        return Turn(*_TURN.unpack(self._maps["which"].get(_ZERO) or bytes(_TURN.size)))

    def not_after(self) -> int:
        """Return the end of the lease, ns of CLOCK_BOOTTIME."""
        return int(_WORD.unpack(self._maps["not_after"].get(_ZERO) or bytes(_WORD.size))[0])

    def state(self) -> PlanState | None:
        """Return the plan in force in short; None where none is."""
        now = self.turn_now()
        if not now.half:
            return None
        plan, mixes = self._half(now.half)
        _, _, epoch, held, *_ = PLAN.unpack(plan)
        classes = sum(bool(mix[ARMS]) for mix in MIX.iter_unpack(mixes))
        return PlanState(epoch, self.not_after(), held, classes, bool(now.loaded))

    def used(self) -> frozenset[int]:
        """Return the numbers of the profiles that a half, in force or loaded, needs."""
        now, found = self.turn_now(), {0}
        for half in {now.half, now.loaded} - {0}:
            plan, mixes = self._half(half)
            held_profile, *words = PLAN.unpack(plan)[4:]
            found.update((held_profile, *words[BANDS:]))
            for number, mix in enumerate(MIX.iter_unpack(mixes)):
                if mix[ARMS]:
                    found.update((number, *mix[ARMS:]))
        return frozenset(found) - {0}

    def _half(self, half: int) -> tuple[bytes, bytes]:
        plan = self._maps["plans"].get(_NUMBER.pack(half - 1)) or bytes(PLAN.size)
        _, both = self._maps["mixes"].all()
        return plan, both[(half - 1) * len(_NO_MIXES) : half * len(_NO_MIXES)]

    def _put_half(self, half: int, plan: bytes, mixes: bytes) -> None:
        first = (half - 1) * layout.MOST_PROFILES
        keys = b"".join(map(_NUMBER.pack, range(first, first + layout.MOST_PROFILES)))
        self._maps["mixes"].put_all(keys, mixes)
        self._maps["plans"].put(_NUMBER.pack(half - 1), plan)

    def _put_turn(self, turn: Turn) -> None:
        self._maps["which"].put(_ZERO, _TURN.pack(*turn))


def used(folder: Path) -> frozenset[int]:
    """Return the numbers of the profiles that a plan needs, of one in force or loaded."""
    if not (folder / "which").exists():  # no program was attached yet
        return frozenset()
    with Halves(folder) as halves:
        return halves.used()


def renew(folder: Path, until_ns: int) -> None:
    """Set the end of the lease, opening no other map. Errors: `FileNotFoundError`."""
    with closing(Map.pinned(folder / "not_after")) as lease:
        _renew(lease, until_ns)


def _renew(lease: Map, until_ns: int) -> None:
    lease.put(_ZERO, _WORD.pack(until_ns))


def plan_bytes(plan: Plan, numbers: Mapping[str, int]) -> bytes:
    """Return a plan as struct plan has it. Errors: `BadInput` for the name of no profile."""
    held = _number(plan.held_profile, numbers) if plan.held_profile else 0
    ends = [end for end, _ in plan.bands]
    classes = [_number(name, numbers) for _, name in plan.bands]
    unused = [0] * (BANDS - len(ends))
    words = (plan.key.first, plan.key.second, plan.epoch, plan.holdback, held)
    return PLAN.pack(*words, *ends, *unused, *classes, *unused)


def mixes_bytes(mixes: Mapping[str, Mix], numbers: Mapping[str, int]) -> bytes:
    """Return every class's mix by number. Errors: `BadInput` for the name of no profile."""
    rows = [bytes(MIX.size)] * layout.MOST_PROFILES
    for name, mix in mixes.items():
        arms = [_number(profile, numbers) for profile in mix.profiles]
        rows[_number(name, numbers)] = MIX.pack(*mix.upto, *arms, *[0] * (ARMS - len(arms)))
    return b"".join(rows)


def _number(name: str, numbers: Mapping[str, int]) -> int:
    if name not in numbers:
        raise BadInput(f"no profile is called {name!r} (there is: {', '.join(sorted(numbers)) or 'none'})")
    return numbers[name]
