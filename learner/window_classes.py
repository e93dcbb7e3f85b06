# SPDX-License-Identifier: MIT
"""Predicted windows of prefixes as few classes, each with a mix of strategies whose chances are known.

Question   Which few classes hold what is predicted for a hundred thousand prefixes, and what does each draw from?
Method     A path's window is quantised as it was learned (`quantisation.MAX_CWND`), its round trip to rungs a factor of
           two apart, downwards: Careful Resume takes a saved round trip for this path's from half of it to ten times,
           so a rung below stays within. Prefixes with the same row share a class. Beyond `MOST_CLASSES` the classes of
           the fewest prefixes join the nearest of the others, by the logarithms of window and round trip, that has no
           larger window in any strategy; where there is none, the untouched stack's.
           Null is the first arm, so it has the weight of whatever may not be drawn. Windows are cut to the largest that
           operators, guard and drivers permit, and left out below the smallest; so is a strategy of which nothing is
           permitted.
Stop when  each prefix has a class and each class a mix.
Reads as   `PathClass`: name, profiles and mix. A profile's name has its strategy (`strategy_of`), and so have rows of
           connections.
Fails as   a class in which nothing but Null is permitted has Null alone.
Differs    from `initial_strategies.WindowClass`, which is the paper's: there is a strategy more, and fewer classes.
Source     Applied Learning Networks (ALN), strategies; RFC 9959, section 3.2 (when a saved path is the same)
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.end_states import DEFAULT_WINDOW, OTHER
from configtron.learner.initial.initial_strategies import FIXED, MOST_INITIAL, NULL, PRED_LOW, STRATEGIES
from configtron.model.bounds import check_number
from configtron.model.draw import Mix
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile

RESUME = "resume"
DRAWN = (*STRATEGIES, RESUME)
# Half of the connections show what the untouched stack does, as everything is learned from them.
SHARES = {NULL: 0.5, **dict.fromkeys(DRAWN[1:], 0.1)}
# Classes of a map: with six profiles each, and as many of a version beside them, far below a kernel's 1024.
MOST_CLASSES = 48
# ms, a factor of two apart; a shorter round trip gains nothing by a larger window.
RTT_RUNGS_MS = (1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
# Segments of a saved window: a jump is half of it, and one that is no larger than the default window is none.
LEAST_RESUMED, MOST_RESUMED = 2 * DEFAULT_WINDOW + 1, 5120
# Segments that must be permitted, or more, for a strategy to be used at all: a cut to less would slow clients down.
WORTH_INITIAL, WORTH_RESUMED = DEFAULT_WINDOW, 40
# A little more than the factor between neighbouring bins' windows: predictions move by a bin with each hour's
# connections, and a class that the version in force lacks has Default until it has passed the stages.
NEAR_WINDOWS = 1.5

Barred = Callable[[Profile], str]


def strategy_of(profile: str) -> str:
    """Return the strategy of a profile by its name: "" for none, `OTHER` for one that is no strategy's."""
    if not profile or profile == "default":
        return ""
    return next((one for one in DRAWN if profile == one or profile.startswith(f"{one}-")), OTHER)


def checked_shares(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each strategy, summing to 1; strategies without one have none. Errors: `BadInput`."""
    for name, share in shares.items():
        if name not in DRAWN:
            raise BadInput(f"no strategy is called {name!r}; there are: {', '.join(DRAWN)}")
        check_number(f"the share of {name}", share, 0, 1)
    total = sum(shares.values())
    if not total > 0:
        raise BadInput("one strategy at least needs a share above 0")
    return {name: shares.get(name, 0.0) / total for name in DRAWN}


@dataclass(frozen=True, slots=True)
class PathClass:
    """windows: segments of `STRATEGIES`, 0 for the untouched stack; resumed: the saved window, 0 for none, and its
    round trip, ms."""

    windows: tuple[int, ...]
    resumed: int
    rtt_ms: float

    @property
    def name(self) -> str:
        """Return the class's name."""
        low, high, nearest = self.windows[STRATEGIES.index(PRED_LOW) :]
        return f"path-{low}-{high}-{nearest}-{self.resumed}-{self.rtt_ms:g}"

    @property
    def profiles(self) -> dict[str, Profile]:
        """Return strategy -> profile of what this class can draw."""
        found = {NULL: Profile(NULL)}
        for strategy, window in zip(STRATEGIES[1:], self.windows[1:], strict=True):
            if window:
                found[strategy] = Profile(f"{strategy}-{window}", (("initcwnd", window),))
        if self.resumed >= LEAST_RESUMED:
            settings = (("resume_cwnd", self.resumed), ("resume_rtt", self.rtt_ms / 1e3))
            found[RESUME] = Profile(f"{RESUME}-{self.resumed}-{self.rtt_ms:g}", settings)
        return found

    def holds(self, other: PathClass) -> bool:
        """Return whether another class has no larger window than this one, in any strategy."""
        rows = zip(self.windows, other.windows, strict=True)
        return other.resumed <= self.resumed and all(its <= mine for mine, its in rows)

    def stays(self, predicted: PathClass) -> bool:
        """Return whether a prefix keeps this class though another one is predicted now: all windows are within
        `NEAR_WINDOWS` of one another, round trips a rung apart at most."""
        rows = [*zip(self.windows, predicted.windows, strict=True), (self.resumed, predicted.resumed)]
        near = all(bool(mine) == bool(its) and max(mine, its) <= NEAR_WINDOWS * min(mine, its) for mine, its in rows)
        return near and 0.4 <= self.rtt_ms / predicted.rtt_ms <= 2.5

    def apart(self, other: PathClass) -> float:
        """Return how far two classes are apart: e-foldings of windows and round trip."""
        mine, others = (one.windows[-1] or DEFAULT_WINDOW for one in (self, other))
        saved = log((self.resumed + 1) / (other.resumed + 1))
        return abs(log(mine / others)) + abs(saved) + abs(log(self.rtt_ms / other.rtt_ms))


# The class of prefixes that may join no other one.
UNTOUCHED_CLASS = PathClass((0,) * len(STRATEGIES), 0, RTT_RUNGS_MS[0])


def path_classes(windows: Codes, saved: Codes, rtt_ms: Floats) -> list[PathClass]:
    """Return the class of each row: (n, strategies) initial windows, (n,) saved windows, (n,) round trips."""
    rows = zip(windows.tolist(), saved.tolist(), rtt_ms.tolist(), strict=True)
    return [PathClass(tuple(some), window, rung_of(rtt)) for some, window, rtt in rows]


def rung_of(rtt_ms: float) -> float:
    """Return the rung at or below a round trip; the lowest for shorter ones."""
    return RTT_RUNGS_MS[max(bisect_right(RTT_RUNGS_MS, rtt_ms) - 1, 0)]


def joined_classes(classes: Sequence[PathClass], most: int = MOST_CLASSES) -> list[PathClass]:
    """Return the same with at most so many different ones: the rarest are replaced by the nearest of the others that
    has no larger window, or by the untouched stack's class."""
    count = Counter(classes)
    order = sorted(count, key=lambda one: (-count[one], one.name))
    if len(order) <= most:
        return list(classes)
    kept = order[: most - 1]
    instead = {
        one: min((other for other in kept if one.holds(other)), key=lambda other: (one.apart(other), other.name),
                 default=UNTOUCHED_CLASS)
        for one in order[most - 1 :]
    }  # fmt: skip
    return [instead.get(one, one) for one in classes]


class WindowRange(NamedTuple):
    """The least and the most segments that may be used; 0, 0: none may."""

    least: int
    most: int

    def cut(self, window: int) -> int:
        """Return a window cut to the most; 0 where it is below the least, so that it is left out."""
        return min(window, self.most) if window >= self.least else 0


@dataclass(frozen=True, slots=True)
class Permitted:
    """The windows that may be used. why: strategy -> why it is left out."""

    initial: WindowRange
    resumed: WindowRange
    fixed: bool
    why: Mapping[str, str] = field(default_factory=dict)


def permitted(barred: Barred, fixed: int) -> Permitted:
    """Return what operators, guard and drivers permit, by asking for each size from the smallest: the first sizes
    without a gap that reach what is worth using. fixed: segments."""
    why: dict[str, str] = {}

    def found(strategy: str, sizes: range, worth: int, profile: Callable[[int], Profile]) -> WindowRange:
        least = most = 0
        for size in sizes:
            if not barred(profile(size)):
                least, most = least or size, size
            elif most >= worth:
                break
            else:
                least = most = 0
        if most < worth:
            why[strategy] = barred(profile(worth))
            return WindowRange(0, 0)
        return WindowRange(least, most)

    initial = found(PRED_LOW, range(1, MOST_INITIAL + 1), WORTH_INITIAL, lambda size: Profile(
        f"{PRED_LOW}-{size}", (("initcwnd", size),)))  # fmt: skip
    resumed = found(RESUME, range(LEAST_RESUMED, MOST_RESUMED + 1), WORTH_RESUMED, lambda size: PathClass(
        (0,) * len(STRATEGIES), size, 80.0).profiles[RESUME])  # fmt: skip
    if reason := barred(Profile(f"{FIXED}-{fixed}", (("initcwnd", fixed),))):
        why[FIXED] = reason
    return Permitted(initial, resumed, FIXED not in why, why)


def cut_class(one: PathClass, within: Permitted) -> PathClass:
    """Return a class within what is permitted."""
    windows = [0] * len(STRATEGIES)
    for at, strategy in enumerate(STRATEGIES):
        if strategy == FIXED:
            windows[at] = one.windows[at] if within.fixed else 0
        elif strategy != NULL:
            windows[at] = within.initial.cut(one.windows[at])
    return PathClass(tuple(windows), within.resumed.cut(one.resumed), one.rtt_ms)


def mix_of(one: PathClass, shares: Mapping[str, float]) -> tuple[tuple[str, int], ...]:
    """Return a class's arms, Null first; it has the shares of strategies that the class lacks."""
    profiles = one.profiles
    drawn = {name: share for name, share in shares.items() if name in profiles and name != NULL and share > 0}
    rest = max(1.0 - sum(drawn.values()), 0.0)
    arms = [(NULL, rest)] if rest > 0 else []
    mix = Mix.of([(profiles[name].name, share) for name, share in [*arms, *drawn.items()]])
    return tuple(zip(mix.profiles, mix.weights, strict=True))
