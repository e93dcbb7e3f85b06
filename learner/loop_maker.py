# SPDX-License-Identifier: MIT
"""The maker of a fleet's maps that learns: any policy of the product behind `MapMaker` (service/fleet).

Question   Which map is to be in force from now on?
Method     `closed_loop.LoopLearner` makes one map for each epoch, `LEAD_S` before it begins: late enough to know the
           outcomes of the epoch that ends, and early enough for agents to have it at the turn. What the fleet may not
           use is taken from the policy's choices before it learns.
Stop when  never.
Reads as   a `FleetMap` once an epoch, else None: the current one stays.
Fails as   the errors of `LoopLearner`.
Differs    from CT, which re-assigns at any time: mixes that change within an epoch move a third of the clients.
Source     CT section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from configtron.learner.closed_loop import LoopLearner, LoopOptions, Moved
from configtron.learner.state import OtherVersion, decode, encode
from configtron.model.errors import BadInput
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile

# s before an epoch begins in which its map is made; a quarter of an epoch, where that is less.
LEAD_S = 10.0
OTHER_MAKER = ("the database holds no state of a learner of this version: its manager had a map from a file (--map), or"
               " it is damaged; to learn from its outcomes anew: --fresh")  # fmt: skip


def coming_epoch(now_ns: int, epoch_s: int) -> int:
    """Return the epoch that begins within `LEAD_S`, or has begun."""
    return int((now_ns / 1e9 + min(LEAD_S, epoch_s / 4)) // epoch_s)


def is_made(epoch: int, latest: int) -> bool:
    """Return whether an epoch's map was made; where the clock was set back by more than an epoch, it was not."""
    return latest - 1 <= epoch <= latest


class LoopMapMaker:
    """moved: prefixes whose class is another one in the latest map, since `moved` was last emptied: their open
    connections are to be moved."""

    def __init__(self, options: LoopOptions, key: bytes):
        self.learner = LoopLearner(options, 0, key)
        self.moved: list[Moved] = []
        self._epoch = -1

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Learn from rows."""
        self.learner.take(rows)

    def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
        """Return the map of the epoch that begins within `LEAD_S`, or has begun, once. Where the clock was set back by
        more than an epoch, epochs count anew from there."""
        epoch = coming_epoch(now_ns, self.learner.options.map.epoch_s)
        if is_made(epoch, self._epoch):
            return None
        self.learner.bar(barred)
        made, moved = self.learner.turn(now_ns)
        self.moved += moved
        self._epoch = epoch
        return made

    def note(self, published: FleetMap, fresh: bool) -> None:
        """Learn by the map as it was published. fresh: in place of the one that was made last; else it follows one that
        rows may still be of."""
        maps = self.learner.maps_
        if fresh and maps:
            maps.pop()
        maps.append(published)
        self.learner.key = published.key

    def learned(self) -> str:
        """Return what was learned so far, in words."""
        left = sum(self.learner.left_out_.values())
        why = ", ".join(f"{n} {name}" for name, n in self.learner.left_out_.most_common(3))
        needed = "" if self.learner.policy else f" of the {self.learner.options.begin_with} that the first classes need"
        return f"outcomes learned: {self.learner.outcomes_}{needed}{f', {left} left out: {why}' if left else ''}"

    def save(self) -> str:
        """Return all that was learned, as text, and the key of the draw."""
        return encode({"maker": self._epoch, "learner": self.learner.save()})

    def restore(self, text: str) -> None:
        """Take over what `save` wrote. Errors: `BadInput` for another maker's text."""
        try:
            state = decode(text)
            self._epoch = int(state["maker"])
            self.learner.restore(state["learner"])
        except OtherVersion as error:
            raise BadInput(f"what was learned is {error.what}; to learn from the outcomes anew: --fresh") from error
        except (BadInput, ValueError, LookupError, TypeError, AttributeError) as error:
            raise BadInput(OTHER_MAKER) from error
