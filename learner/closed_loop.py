# SPDX-License-Identifier: MIT
"""The closed loop's learner: rows of outcomes in, one map of classes an epoch out.

Question   Which map should agents draw from in the next epoch, by all that they have reported?
Method     Until `begin_with` outcomes have come in, nothing is drawn: every client has Default, and what its network is
           gets known. Then classes are made from these outcomes (`initial_classes.py`), and a policy over them, which
           learns them first. From then on every outcome is learned as it comes; at a turn of the epoch the policy
           updates, and its table becomes the next map (`map_making.py`). Each outcome is learned with the profile and
           the propensity of the map that was published, not with the policy's.
Stop when  never.
Reads as   a `FleetMap`; prefixes that came to another class since the last turn, whose open connections are to be
           moved.
           A kernel that cannot report bandwidth (BPF without the kernel's type information) is no hindrance: where no
           outcome has one, classes are of round trip and loss, all bandwidths counting as alike.
Fails as   rows that do not teach: counted by reason. Without a single outcome of known round trip and loss there are no
           classes, and every client keeps Default.
Differs    from CT in that policy, map and propensities are one saved state: after a kill they fit one another.
Source     CT sections 3 to 5.

No clock and no chance but `seeded`: the caller hands in the time, so a live host and a simulated one run this code.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from configtron.learner.chance import seeded
from configtron.learner.columns import ARM, Decisions
from configtron.learner.driver_support import Mask
from configtron.learner.initial_classes import beginning
from configtron.learner.live_rows import default_of, outcomes_of
from configtron.learner.logged import Logged, logged_of
from configtron.learner.map_making import MapOptions, empty_map, map_of
from configtron.learner.map_text import map_of_text, map_text
from configtron.learner.registry import PREFERRED, row_of
from configtron.learner.rulebook import learned_profile
from configtron.learner.saved import Recipe, recipe_of
from configtron.learner.state import decode, encode, keep
from configtron.learner.table_policy import TablePolicy
from configtron.learner.traffic import Traffic
from configtron.model.bounds import check_number
from configtron.model.errors import BadInput
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.grid import Grid
from configtron.model.nouns import Context, Decision, Outcome, Profile

for kind in (Context, Decision, Outcome, Profile):
    keep(kind)

# Maps that rows may still be of: two hours of epochs of ten minutes.
MOST_MAPS = 12
# A site is distinguished that has at least this share of the first outcomes, and so many of them: clients can name any
# host, each name is a row and a column of the model, and its sums grow by the cube of their number.
SITE_SHARE, SITE_LOADS = 0.01, 5
# Stands for every bandwidth in a fleet whose kernels report none, kbit/s: any one number would do.
ALIKE_KBPS = 10_000.0
# Outcomes that wait for the first that classes can be made from, in multiples of `begin_with`.
MOST_WAITING = 4
# Of a state as text; raised when old texts no longer say enough.
LIVE_VERSION = 1


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """grid: configurations that may be put in force, Default among them, and no others; policy: a row of
    `learn policies`; begin_with: outcomes from which classes are made; classes: their number, None for as few as keep
    members alike; budget: as in `Setting`."""

    grid: Grid
    policy: str = PREFERRED
    map: MapOptions = field(default_factory=MapOptions)
    begin_with: int = 2_000
    classes: int | None = None
    budget: float = 0.01
    features: str = "auto"

    def __post_init__(self) -> None:
        """Check the policy's name and ranges. Errors: `BadInput`."""
        row_of(self.policy)
        check_number("begin_with", self.begin_with, 1, whole=True)
        check_number("budget", self.budget, 0, 1)


@dataclass(frozen=True, slots=True)
class Moved:
    """A prefix that has another class in the new map. outcomes: how many of its own showed that its network changed;
    seconds: from the first of them to the new map. Both 0 where classes changed and its network did not."""

    prefix: str
    before: str
    now: str
    outcomes: int = 0
    seconds: float = 0.0


class LoopLearner:
    """The state of the loop on the learning side. term: counts the manager's starts; key: 16 bytes of the draw."""

    def __init__(self, options: LoopOptions, term: int, key: bytes):
        if len(key) != 16:
            raise BadInput(f"a key of the draw has 16 bytes, not {len(key)}")
        self.options, self.term, self.key = options, term, key
        self.version_ = 0
        self.recipe_: Recipe | None = None
        self.policy: TablePolicy | None = None
        self.traffic = Traffic()
        self.maps_: deque[FleetMap] = deque(maxlen=MOST_MAPS)
        self.waiting_: list[Outcome] = []
        self.counts_: Counter[tuple[int, str]] = Counter()
        self.outcomes_, self.left_out_ = 0, Counter[str]()
        # No outcome from which classes were made has a bandwidth.
        self.alike_ = False
        # (configurations,) what the whole fleet may have now; asked anew at each turn, not saved.
        self.among: Mask = np.ones(len(options.grid), dtype=np.bool_)

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def take(self, rows: Iterable[OutcomeRow]) -> list[Outcome]:
        """Learn from rows, in their order. Return those that count as outcomes."""
        maps = {(one.term, one.version): one for one in self.maps_}
        grid = None if self.policy is None else self.policy.grid
        if self.alike_:
            rows = [row if row.bandwidth_kbps else row._replace(bandwidth_kbps=ALIKE_KBPS) for row in rows]
        outcomes = outcomes_of(rows, maps, self.traffic, self.counts_, default_of(grid), self.left_out_)
        if outcomes:
            self.outcomes_ += len(outcomes)
            if self.policy is None:
                self.waiting_ += outcomes
                del self.waiting_[: -MOST_WAITING * self.options.begin_with]
            else:
                teach(self.policy, logged_of(outcomes))
        return outcomes

    def _known(self) -> list[Outcome]:
        """Return the outcomes that wait, with a bandwidth where none of them has one; [] where no network is known."""
        contexts = [one.decision.context for one in self.waiting_]
        placed = [one for one in contexts if one.rtt_ms is not None and one.loss is not None]
        if any(one.bandwidth_kbps is not None for one in placed):
            return self.waiting_
        self.alike_ = bool(placed)
        return [_with_bandwidth(one) for one in self.waiting_] if placed else []

    def _begin(self) -> None:
        """Make classes and the policy from the outcomes so far, and teach it these."""
        options, seed = self.options, self.options.map.seed
        if not (known := self._known()):
            return
        loads = Counter(one.decision.context.site for one in known)
        sites = tuple(sorted(one for one, n in loads.items() if one and n >= max(SITE_LOADS, SITE_SHARE * len(known))))
        first = logged_of(known, sites)
        found = beginning(first, options.classes, seeded(seed), grid=options.grid, features=options.features)
        self.recipe_ = Recipe(options.policy, options.grid, sites, found.classes, seed, 0, budget=options.budget)
        self.policy = self.recipe_.make()
        self.waiting_ = []
        teach(self.policy, first)

    # --- maps --------------------------------------------------------------------------------------------------------

    @property
    def map(self) -> FleetMap | None:
        """Return the latest map; None before the first turn."""
        return self.maps_[-1] if self.maps_ else None

    def turn(self, now_ns: int) -> tuple[FleetMap, list[Moved]]:
        """Update, and make the map of the next epoch. Return it, and which prefixes came to another class since the
        last turn."""
        if self.policy is None and len(self.waiting_) >= self.options.begin_with:
            self._begin()
        self.version_ += 1
        place: dict[str, Any] = {"term": self.term, "version": self.version_, "key": self.key, "now_ns": now_ns}
        if self.policy is None:
            made = empty_map(self.options.map, **place)
        else:
            self.policy.choose_among(self.among)
            self.policy.update()
            made = map_of(self.policy, self.traffic, self.options.map, among=self.among, former=self.map, **place)
        moved = [] if self.map is None else list(self._moved(self.map, made.map, now_ns))
        self.maps_.append(made.map)
        epoch = now_ns // (self.options.map.epoch_s * 10**9)
        self.counts_ = Counter({key: n for key, n in self.counts_.items() if abs(key[0] - epoch) < MOST_MAPS})
        return made.map, moved

    def _moved(self, former: FleetMap, now: FleetMap, now_ns: int) -> Iterator[Moved]:
        """Yield the prefixes whose class is another one in the map of now than in the former one."""
        since_ns = former.not_after_ns - round(self.options.map.valid_s * 1e9)
        for prefix, name in now.prefixes.items():
            before = former.prefixes.get(prefix, name)
            if before == name:
                continue
            change = self.traffic.prefixes_[prefix].change
            if change is None or change.seen_ns <= since_ns:
                yield Moved(prefix, before, name)
            else:
                yield Moved(prefix, before, name, change.outcomes, (now_ns - change.since_ns) / 1e9)

    def bar(self, barred: Callable[[Profile], str]) -> None:
        """Draw from now on only profiles for which `barred` has no reason; Default always is one."""
        grid = self.options.grid
        self.among = np.array([not barred(learned_profile(grid, at)) for at in range(len(grid))])
        self.among[grid.default] = True

    # --- state -------------------------------------------------------------------------------------------------------

    def save(self) -> str:
        """Return all that was learned, counted and mapped, and the key of the draw: it is as secret as that."""
        state: dict[str, Any] = {
            "live": LIVE_VERSION,
            "key": self.key.hex(),
            "version": self.version_,
            "recipe": None if self.recipe_ is None else self.recipe_.text(),
            "policy": None if self.policy is None else self.policy.save(),
            "traffic": self.traffic.save(),
            "maps": [map_text(one) for one in self.maps_],
            "waiting": self.waiting_,
            "counts": [(epoch, unit, n) for (epoch, unit), n in self.counts_.items()],
            "outcomes": self.outcomes_,
            "alike": self.alike_,
            "left_out": dict(self.left_out_),
        }
        return encode(state)

    def restore(self, text: str) -> None:
        """Go on where a saved one stood. Errors: `BadInput` for other text."""
        state = decode(text)
        if state.get("live") != LIVE_VERSION:
            raise BadInput(f"this is no state of a closed loop of version {LIVE_VERSION}; start it anew: --fresh")
        self.key = bytes.fromhex(state["key"])
        self.version_, self.outcomes_ = state["version"], state["outcomes"]
        self.alike_ = state.get("alike", False)
        if state["recipe"] is not None:
            self.recipe_ = recipe_of(state["recipe"])
            self.policy = self.recipe_.make()
            self.policy.restore(state["policy"])
        self.traffic.restore(state["traffic"])
        self.maps_ = deque((map_of_text(one, self.key) for one in state["maps"]), maxlen=MOST_MAPS)
        self.waiting_ = state["waiting"]
        self.counts_ = Counter({(epoch, unit): n for epoch, unit, n in state["counts"]})
        self.left_out_ = Counter(state["left_out"])


def _with_bandwidth(outcome: Outcome) -> Outcome:
    context = replace(outcome.decision.context, bandwidth_kbps=ALIKE_KBPS)
    return replace(outcome, decision=replace(outcome.decision, context=context))


def teach(policy: TablePolicy, logged: Logged) -> None:
    """Teach a policy outcomes of decisions that a map made, each by what its client's network is now."""
    drawn = logged.on(policy.grid)
    row, network = policy.where(logged.contexts)
    arm = np.full(len(logged), ARM["default"])
    decisions = Decisions(row, network, drawn.configuration, arm, drawn.propensity, drawn.expected_ms)
    policy.commit(decisions)
    policy.observe_many(logged.contexts, decisions, logged.plt_ms)
