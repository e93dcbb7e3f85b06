# SPDX-License-Identifier: MIT
"""Roll-outs of a manager's maps: what the learner makes reaches clients by stages, and a trip takes it back.

Question   Which mixes are to be in force now, and for which share of clients?
Method     `rollout.py` decides; this carries it out. One version is in force, another at most is on its way. At each
           turn of the epoch the learner's latest mixes are a candidate, once no version is on its way: they are judged
           on the loads of the version in force (`shadow_value.py`), and what these cannot show goes on to the canary
           after `SHADOW_TURNS` turns. From then on the stage is read every few seconds from the stored rows of its own
           maps, and of held-back clients. A gate widens it; a trip publishes the version before under another key of
           the draw, so that agents change within a lease. Which class a prefix is of, and the bands, are always the
           latest map's.
Stop when  never.
Reads as   an `Order`, the map to be published, and why; `facts`, to be stored with that map.
Fails as   a candidate that differs from the version in force by less than `LEAST_APART` of clients, or is near
           one that was taken back (`AS_RETURNED`), is not tried.
Differs    ConfigTron puts each map in force at once, for all clients.
Source     `rollout.py`
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from configtron.db.fleet_facts import damaged
from configtron.learner.chance import seeded
from configtron.learner.map_making import MapOptions
from configtron.learner.rollout import (
    ENDED,
    WHY,
    Rollout,
    RolloutBegun,
    RolloutPlan,
    RolloutRecalled,
    ShadowUnseen,
    advance,
)
from configtron.learner.sequential.switchback import SwitchPlan, dark
from configtron.learner.shadow_value import shadow_value
from configtron.learner.stage_looks import stage_look
from configtron.learner.staged_mixes import NOTHING_STAGED, StagedVersion, apart, staged_map, version_of
from configtron.learner.state import decode, encode, keep
from configtron.model.bounds import check_number
from configtron.model.errors import BadInput
from configtron.model.fleet import WHOLE, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.records import canonical

log = logging.getLogger("configtron.fleet")

# Facts of the manager's database; the report reads the first and the last.
ROLLOUT, STAGES, DARK = "rollout", "stages", "dark"
# First number of the seeds of which arm stands for the rest.
STAGED = 47
# Turns of the epoch after which a version leaves the shadow though no log shows its value.
SHADOW_TURNS = 3
# Share of clients that must get other settings than now, for a candidate to be worth a roll-out, and other ones than
# by a version that was taken back; how many of those are remembered.
LEAST_APART, AS_RETURNED, MOST_RETURNED = 0.02, 0.1, 8
# s between two readings of a stage, and rows that lengthen that by a second; rows of a stage that are read, the latest.
LOOK_S, ROWS_A_SECOND, MOST_ROWS = 5.0, 2_000, 100_000
# Stretches of a stage's maps that are remembered: a new one begins where a class's arms are other ones.
MOST_MAPS = 1_000
# Points of presence that have an alarm of their own.
MOST_PLACES = 8
BLOCK_S, BLOCKS_A_DAY = 3600, 24


@dataclass(frozen=True, slots=True)
class StageOptions:
    """How maps reach clients.

    clients     units (client and epoch) of either arm, by which a stage has passed or is over
    dark_hours  of each day, drawn by chance, in which all clients have Default; 0: none
    stages      False: each map is for all clients at once
    """

    clients: int = 10_000
    dark_hours: int = 0
    stages: bool = True

    def __post_init__(self) -> None:
        """Check ranges. Errors: `BadInput`."""
        check_number("stage-clients", self.clients, 100, 10_000_000, whole=True)
        check_number("dark-hours", self.dark_hours, 0, BLOCKS_A_DAY // 2, whole=True)

    def plan(self) -> RolloutPlan:
        """Return what a roll-out is judged by."""
        return RolloutPlan(clients=self.clients)

    def made(self, key: bytes, note: Callable[[FleetMap, bool], None], maps: MapOptions) -> Stages | None:
        """Return what carries them out; None: nothing is staged. key: at most 64 bytes, which draw the dark hours; note
        gets each map as it is published, and whether it is of a new epoch; maps: how these are made.

        Errors: `BadInput` for maps without a holdback, or with epochs that do not divide an hour."""
        if self.stages and maps.holdback <= 0.0:
            raise BadInput("without a control group no stage can be judged: --holdback above 0, or --no-stages")
        if self.dark_hours and BLOCK_S % maps.epoch_s:
            raise BadInput(f"dark hours need an epoch that divides {BLOCK_S} s, which {maps.epoch_s} s does not")
        if not self.stages and not self.dark_hours:
            return None
        switch = SwitchPlan(BLOCK_S, BLOCKS_A_DAY, self.dark_hours) if self.dark_hours else None
        return Stages(self.plan() if self.stages else None, switch, key, note)


@keep
@dataclass(frozen=True, slots=True)
class StageState:
    """What must survive a kill, but for the roll-out itself.

    base, candidate  the version for clients outside of the share, and the one on its way; None: none is
    before, kept     the version before base, and base's own roll-out, which is watched on; None: base is Default
    returned         versions that were taken back or rejected, the latest last
    maps             (term, first and last version, class -> first arm of the candidate) of the maps of this stage
    position         number of the last row before this stage
    waited           turns that a candidate has been in the shadow
    dark             the current map is a dark hour's
    """

    base: StagedVersion = NOTHING_STAGED
    candidate: StagedVersion | None = None
    before: StagedVersion = NOTHING_STAGED
    kept: Rollout | None = None
    returned: tuple[StagedVersion, ...] = ()
    maps: tuple[tuple[int, int, int, dict[str, int]], ...] = ()
    position: int = 0
    waited: int = 0
    dark: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A map to be published, and why; at_once: agents are not to wait for the epoch's end; dark: for all clients
    Default, in the maps of no stage."""

    map: FleetMap
    why: str
    first: Mapping[str, int] = field(default_factory=dict)
    at_once: bool = False
    dark: bool = False


class Stages:
    """The stages of a manager. plan: None, each version is in force at once; switch: of the dark hours, None: none."""

    def __init__(self, plan: RolloutPlan | None, switch: SwitchPlan | None = None, key: bytes = b"",
                 note: Callable[[FleetMap, bool], None] = lambda fleet_map, fresh: None) -> None:  # fmt: skip
        self._plan, self._switch, self._key, self._note = plan, switch, key, note
        self.rollout: Rollout | None = None
        self.state = StageState()
        self._first: dict[tuple[int, int], dict[str, int]] = {}
        self._latest_first: dict[str, int] | None = None
        self._rows: deque[OutcomeRow] = deque(maxlen=MOST_ROWS)
        self._fresh, self._looked_ns, self._latest = 0, 0, 0

    # What must survive a kill.

    def facts(self) -> dict[str, str]:
        """Return what is to be stored in the transaction of the map."""
        found = {STAGES: encode({"stages": self.state})}
        if self.rollout is not None:
            found[ROLLOUT] = encode({"rollout": self.rollout})
        if self._switch is not None:
            found[DARK] = canonical({**asdict(self._switch), "key": self._key.hex()})
        return found

    def restore(self, facts: Mapping[str, str]) -> int:
        """Take over stored facts; return the number of the last row before this stage: later ones are to be handed to
        `take` again. Errors: `BadInput` for those of another version."""
        if STAGES not in facts:
            return 0
        state, rollout = (_kept(facts, name) for name in (STAGES, ROLLOUT))
        if not isinstance(state, StageState) or not isinstance(rollout, Rollout | None):
            raise damaged(STAGES, "the database")
        self.state, self.rollout = state, rollout
        self._first = {(term, version): first for term, low, high, first in state.maps
                       for version in range(low, high + 1)}  # fmt: skip
        self._latest_first = next(reversed(self._first.values()), None)
        self._latest = state.position
        return state.position

    def take(self, rows: Sequence[OutcomeRow], latest: int) -> None:
        """Take rows in order of arrival, each once; latest: the number of the last of them."""
        self._latest = latest
        alone = self.state.candidate is not None and self.state.kept is None
        for row in rows:
            if (row.term, row.map_version) not in self._first or not row.class_name:
                continue
            if row.held or not alone or self.has(row):
                self._rows.append(row)
                self._fresh += 1

    # Orders.

    def turn(self, made: FleetMap, place: tuple[int, int], now_ns: int, barred: Callable[[Profile], str],
             agents: Sequence[str]) -> Order:  # fmt: skip
        """Return the map of the epoch that begins. made: the learner's; place: (term, version) that it will have."""
        why = ""
        if self._plan is None:
            self._leave(StageState(version_of(made, place)))
        elif made.mixes and (self.rollout is None or self.rollout.stage in {*ENDED, "all"}):
            why = self._candidate(made, place, now_ns, agents, barred)
        epoch_s = made.epoch_s
        begins_s = (now_ns // 1_000_000_000 // epoch_s + 1) * epoch_s
        if self._switch is not None and made.mixes and dark(self._switch, self._key, "", begins_s):
            plain, _ = staged_map(made, NOTHING_STAGED, None, 0.0, seeded(STAGED, place[1]))
            return Order(plain, "dark hour: Default for all", dark=True)
        if not why and self.rollout is not None and self.rollout.share < 1.0 and self.rollout.share:
            why = f"made; {self.rollout.stage} of {'.'.join(map(str, self.rollout.version))}"
        return self._order(made, barred, why or "made", place)

    def look(self, current: FleetMap, place: tuple[int, int], now_ns: int, barred: Callable[[Profile], str],
             refused: int, entries: int) -> Order | None:  # fmt: skip
        """Read the stage, where it is due; return what is to be published in place of the current map."""
        rollout, every_ns = self.rollout, round((LOOK_S + len(self._rows) / ROWS_A_SECOND) * 1e9)
        tried = refused > 0 and entries > 0
        # A clock that is set back must not make the alarm wait.
        if self.state.dark or 0 <= now_ns - self._looked_ns < every_ns or not (self._fresh or tried):
            return None
        self._looked_ns, self._fresh = now_ns, 0
        holdback = current.holdback / WHOLE
        if rollout is not None and rollout.share:
            look = stage_look(rollout, self._rows, _after(rollout, now_ns), holdback=holdback, refused=refused,
                              entries=entries, has=self.has)  # fmt: skip
            self.rollout = after = advance(rollout, look)
            if after.suspended and not rollout.suspended:
                log.warning("version %d.%d: %s: clients of one group are missing (sample ratio p = %.2g), so it goes no"
                            " further until they come; its loads may be failing: configtron learn report; to take it"
                            " back: configtron learn manager rollback", *after.version, after.stage,
                            look.ratio)  # fmt: skip
            if after.stage != rollout.stage:
                return self._changed(current, after, barred, place)
        if self.state.kept is None or (rollout is not None and rollout.stage == "all"):
            return None
        # Claims are made of a version alone: here another one is beside it.
        former = self.state.kept
        look = stage_look(former, self._rows, _after(former, now_ns), holdback=holdback, has=self._had)
        kept = advance(former, replace(look, ratio=0.0))
        if kept.stage not in ENDED:
            return None
        self.rollout = kept
        self.state = replace(self.state, base=self.state.before, candidate=self.state.base, kept=None)
        return self._changed(current, kept, barred, place)

    def recall(self, now_ns: int) -> None:
        """Take back what is on its way: an operator published another map, which is of no stage."""
        if self.rollout is not None and self.rollout.stage not in ENDED:
            self.rollout = advance(self.rollout, RolloutRecalled(_after(self.rollout, now_ns)))
            self._taken_back()
        else:
            self._leave(self.state)

    def publishes(self, new: FleetMap, order: Order) -> None:
        """Note the map of an order, under the number that it is about to be published by."""
        self._note(new, not order.at_once)
        self._latest_first = dict(order.first)
        self.state = replace(self.state, dark=order.dark)
        self._first.pop((new.term, new.version), None)
        self.publishes_again((new.term, new.version))

    def publishes_again(self, place: tuple[int, int]) -> None:
        """Note that the latest map is published under another number, or for the first time."""
        if self._latest_first is None or self.state.dark or place in self._first:
            return
        self._first[place] = self._latest_first
        *earlier, (term, low, high, first) = self.state.maps or ((0, 0, 0, {}),)
        if (term, high + 1, first) == (*place, self._latest_first):
            maps = (*earlier, (term, low, place[1], first))
        else:
            maps = (*self.state.maps, (*place, place[1], self._latest_first))
        self.state = replace(self.state, maps=maps[-MOST_MAPS:])

    def has(self, row: OutcomeRow) -> bool:
        """Return whether a row's client got the version on its way."""
        first = self._first.get((row.term, row.map_version))
        return first is not None and row.arm is not None and row.arm >= first.get(row.class_name, WHOLE)

    def _had(self, row: OutcomeRow) -> bool:
        """Return whether a row's client got the version beside that."""
        return row.arm is not None and not self.has(row)

    @property
    def in_force(self) -> StagedVersion:
        """Return the version that clients outside of the share have."""
        everywhere = self.rollout is not None and self.rollout.stage == "all" and self.state.candidate is not None
        return self.state.candidate if everywhere and self.state.candidate is not None else self.state.base

    def _candidate(self, made: FleetMap, place: tuple[int, int], now_ns: int, agents: Sequence[str],
                   barred: Callable[[Profile], str]) -> str:  # fmt: skip
        """Judge the learner's latest mixes, and let them into the canary if nothing speaks against it."""
        new, now = version_of(made, place).permitted(barred), self.in_force
        known = ((now, LEAST_APART), *((one, AS_RETURNED) for one in self.state.returned))
        if any(apart(new, one, made) < least for one, least in known):
            self.state = replace(self.state, waited=0)
            return ""
        assert self._plan is not None
        places = tuple(sorted(agents)) if 1 < len(agents) <= MOST_PLACES else ()
        draft = Rollout(place, now.place, replace(self._plan, places=places, lease_s=made.lease_s))
        shadow = advance(draft, RolloutBegun(now_ns))
        judged = shadow_value(now_ns + 1, [row for row in self._rows if not row.held], now, new)
        after = advance(shadow, judged)
        if after.stage == "shadow" and self.state.waited + 1 >= SHADOW_TURNS:
            after = advance(after, ShadowUnseen(now_ns + 2))
        if after.stage == "shadow":
            self.state = replace(self.state, waited=self.state.waited + 1)
            return ""
        if after.stage in ENDED:
            log.warning("a version is rejected: %s", _evidence(after))
            self.state = replace(self.state, waited=0, returned=(*self.state.returned, new)[-MOST_RETURNED:])
            return ""
        state = self.state
        if self.rollout is not None and self.rollout.stage == "all":
            state = replace(state, before=state.base, kept=self.rollout)
        self.rollout = after
        self._leave(replace(state, base=now, candidate=new))
        log.info("version %d.%d: canary: %s", *after.version, _evidence(after))
        return f"canary: {WHY[after.evidence[-1].why]}"

    def _changed(self, current: FleetMap, after: Rollout, barred: Callable[[Profile], str], place: tuple[int, int]
                 ) -> Order:  # fmt: skip
        why = f"{after.stage}: {WHY[after.evidence[-1].why]}"
        if after.stage in ENDED:
            log.warning("version %d.%d is taken back: %s", *after.version, _evidence(after))
            self._taken_back()
        else:
            log.info("version %d.%d: %s: %s", *after.version, after.stage, _evidence(after))
            self._leave(self.state)
        return replace(self._order(current, barred, why, place), at_once=after.stage in ENDED)

    def _taken_back(self) -> None:
        gone = () if self.state.candidate is None else (self.state.candidate,)
        returned = (*self.state.returned, *gone)[-MOST_RETURNED:]
        self._leave(replace(self.state, candidate=None, returned=returned))

    def _leave(self, state: StageState) -> None:
        """Begin a stage, with rows from now on."""
        self.state = replace(state, maps=(), position=self._latest, waited=0)
        self._first.clear()
        self._latest_first = None
        self._rows.clear()
        self._fresh = 0

    def _order(self, made: FleetMap, barred: Callable[[Profile], str], why: str, place: tuple[int, int]) -> Order:
        state, share = self.state, self.rollout.share if self.rollout is not None else 0.0
        new = None if state.candidate is None else state.candidate.permitted(barred)
        staged, first = staged_map(made, state.base.permitted(barred), new, share, seeded(STAGED, place[1]))
        return Order(staged, why, first)


def _after(rollout: Rollout, now_ns: int) -> int:
    """Return the time of an event that comes after all others, though the clock was set back since."""
    return max(now_ns, rollout.seen_ns + 1)


def is_staged(facts: Mapping[str, str]) -> bool:
    """Return whether maps reach clients by stages. Errors: `BadInput` for facts of another version."""
    state = _kept(facts, STAGES)
    if state is not None and not isinstance(state, StageState):
        raise damaged(STAGES, "the database")
    # Without stages there may be dark hours: then each version is in force at once, without a roll-out.
    return state is not None and (ROLLOUT in facts or state.base == NOTHING_STAGED)


def switch_plan(text: str) -> tuple[SwitchPlan, bytes]:
    """Return the dark hours of a stored fact, and the key that draws them. Errors: `BadInput`."""
    try:
        form = json.loads(text)
        key = bytes.fromhex(form.pop("key"))
        return SwitchPlan(**form), key
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise damaged(DARK, "the database") from error


def _kept(facts: Mapping[str, str], name: str) -> object:
    """Return what a fact holds; None: there is none. Errors: `BadInput`."""
    if name not in facts:
        return None
    try:
        return decode(facts[name]).get(name)
    except BadInput as error:
        raise damaged(name, "the database") from error


def _evidence(rollout: Rollout) -> str:
    """Return the latest row of evidence as words."""
    row = rollout.evidence[-1]
    of = " ".join(part for part in (row.goal, row.place) if part)
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in row.numbers if not name.endswith("loads"))
    return f"{of}{': ' if of else ''}{WHY[row.why]}{f' ({numbers})' if numbers else ''}"
