# SPDX-License-Identifier: MIT
"""The maker of maps from predicted ends of connections: `--policy initial` of the manager and of `learn serve --local`.

Question   From which initial windows is each client's drawn, with which chances?
Method     Before each epoch the models learn the latest connections anew: naive Bayes the window (PredMean Low, High,
           Round), the hierarchy of lower bounds a quarter's quantile, which Careful Resume takes half of. The round
           trip is the median of the prefix. Prefixes share few classes (`window_classes.py`); a client without a listed
           prefix gets the class of most prefixes in the band of its handshake's round trip, each with the same votes.
           A prefix that opens many connections weighs no more than some fifty (`teaching.prefix_shares`). A prefix
           keeps its class while that is near what is predicted (`PathClass.stays`). The strategies' shares are the
           operator's, the same in each class, so that chances are known and no outcome moves them.
Stop when  never.
Reads as   a `FleetMap` once an epoch, else None. Fewer than `LEAST_LEARNED` connections: a map without classes.
Fails as   a class without a strategy that is barred, which `left_out` names
Differs    from `LoopMapMaker`, which learns from page loads which profile is best. Its class is by what a page load is
           like; here it is by the path's window.
Source     Applied Learning Networks (ALN); RFC 9959
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from configtron.learner.closed_loop import Moved
from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.censored_hierarchy import WindowModel
from configtron.learner.initial.end_states import EndStates, places
from configtron.learner.initial.initial_strategies import FIXED_WINDOW, windows_of
from configtron.learner.initial.naive_bayes import inputs_of, learned_from
from configtron.learner.initial.quantisation import MAX_CWND, target_bins
from configtron.learner.initial.rounded_mean import LOW, bin_of
from configtron.learner.initial.teaching import prefix_shares, weights_of
from configtron.learner.loop_maker import OTHER_MAKER, coming_epoch, is_made
from configtron.learner.map_making import MapOptions, PrefixClass, assembled, bands_of, free_name, listed
from configtron.learner.state import OtherVersion, decode, encode
from configtron.learner.window_classes import (
    PathClass,
    Permitted,
    checked_shares,
    cut_class,
    joined_classes,
    mix_of,
    path_classes,
    permitted,
)
from configtron.model.errors import BadInput
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile

# The name of the policy.
INITIAL = "initial"
# Connections that are learned at most, the latest; fewer than so many say nothing of a path.
MOST_LEARNED, LEAST_LEARNED = 60_000, 20
# Connections of one prefix among them, at most.
MOST_OF_ONE = 500
# Connections of a prefix from which on it is listed: fewer have the class of their network and band.
LEAST_OF_PREFIX = 5
# Share of connections whose path carries less than the saved window (`WindowModel`).
SAVED_QUANTILE = 0.25


class PredictedPaths(NamedTuple):
    """What is predicted, (n,) each: prefixes, connections, round trips, (n, strategies) windows, saved windows."""

    prefixes: list[str]
    connections: Codes
    rtt_ms: Floats
    windows: Codes
    saved: Codes


def teaching(every: EndStates) -> EndStates:
    """Return the connections with a window that classifiers learn."""
    return every[every.teaches & ~np.isnan(every.max_cwnd)]


def predicted_paths(every: EndStates, at_s: float) -> PredictedPaths:
    """Return what connections predict for each prefix of those that teach, at a time, s since 1970.

    Windows to resume are learned from all connections: jumps that went badly count as well as those that went well.
    """
    some = teaching(every)
    names, place, count = np.unique(some.prefix, return_inverse=True, return_counts=True)
    prefixes = [str(name) for name in names.tolist()]
    rtt_ms = _medians(some.min_rtt_ms, place, len(names))
    asked = replace(places(prefixes, [at_s] * len(prefixes)), min_rtt_ms=rtt_ms)
    weights = prefix_shares(some, weights_of(some))
    model = learned_from(some, target_bins(some, MAX_CWND.name), len(MAX_CWND.values), weights)
    shares, long = model.predict(inputs_of(asked)), every[every.is_long & ~np.isnan(every.max_cwnd)]
    return PredictedPaths(prefixes, count.astype(np.int64), rtt_ms, windows_of(shares), _saved(long, asked, shares))


def _medians(values: Floats, place: Codes, count: int) -> Floats:
    order = np.lexsort((values, place))
    begins = np.searchsorted(place[order], np.arange(count + 1))
    found: Floats = values[order][(begins[:-1] + begins[1:] - 1) // 2]
    return found


def _saved(every: EndStates, asked: EndStates, shares: Floats) -> Codes:
    """Return (n,) windows to resume: the bin's lower edge of the quantile; of lower bounds alone, of the mean."""
    try:
        windows = WindowModel(every).quantiles(asked, (SAVED_QUANTILE,))[:, 0]
    except BadInput:
        windows = MAX_CWND.of_bins(bin_of(shares, LOW))
    edges = np.array((1.0, *MAX_CWND.edges))
    found: Codes = edges[np.searchsorted(edges, np.maximum(windows, 1.0), side="right") - 1].astype(np.int64)
    return found


class WindowMapMaker:
    """known: returns the connections to learn from, in order of their beginning; shares: of strategies, by name.

    moved     empty: windows are of new connections
    left_out  strategy with a share -> why it is in no class of the latest map
    """

    def __init__(self, known: Callable[[], EndStates], options: MapOptions, key: bytes,
                 shares: Mapping[str, float]) -> None:  # fmt: skip
        self._known, self._options, self._key = known, options, key
        self._shares = checked_shares(shares)
        self._epoch, self._learned = -1, 0
        self._former: dict[str, PathClass] = {}
        self.moved: list[Moved] = []
        self.left_out: Mapping[str, str] = {}

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Leave page loads to the roll-out's judgement: they move no share."""

    def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
        """Return the map of the epoch that begins within `LEAD_S`, or has begun, once."""
        epoch = coming_epoch(now_ns, self._options.epoch_s)
        if is_made(epoch, self._epoch):
            return None
        # A database that is locked now is read again with the next call.
        every = self._known()
        self._epoch, self._learned = epoch, len(teaching(every))
        if self._learned < LEAST_LEARNED:
            return assembled(self._options, (0, 0, self._key, now_ns), {}, {}, {}, ())
        paths = predicted_paths(every, (epoch + 0.5) * self._options.epoch_s)
        most = permitted(barred, FIXED_WINDOW)
        self.left_out = {name: why for name, why in most.why.items() if self._shares.get(name)}
        classes = classes_within(paths, most, self._former)
        self._former = dict(zip(paths.prefixes, classes, strict=True))
        return self._map(paths, classes, now_ns)

    def _map(self, paths: PredictedPaths, classes: Sequence[PathClass], now_ns: int) -> FleetMap:
        profiles, mixes = profiles_and_mixes(classes, self._shares, self._options.owned_profiles)
        rows = zip(paths.prefixes, classes, paths.connections.tolist(), paths.rtt_ms.tolist(), strict=True)
        of_prefix = [PrefixClass(prefix, one.name, count, rtt) for prefix, one, count, rtt in rows]
        prefixes = listed(of_prefix, self._options, None)
        least = self._options.least_clients
        bands = bands_of([replace(one, clients=min(one.clients, least)) for one in of_prefix], list(mixes))
        return assembled(self._options, (0, 0, self._key, now_ns), profiles, mixes, prefixes, bands)

    def note(self, published: FleetMap, fresh: bool) -> None:
        """Draw by the published map's key from now on: a rollback has another one."""
        self._key = published.key

    def learned(self) -> str:
        """Return what was learned, in words."""
        out = "".join(f"; without {name}: {why}" for name, why in sorted(self.left_out.items()))
        return f"{self._learned} connections learned{out}"

    def save(self) -> str:
        """Return the epoch and the key: connections are learned anew."""
        return encode({"windows": self._epoch, "key": self._key.hex()})

    def restore(self, text: str) -> None:
        """Take over what `save` wrote. Errors: `BadInput` for another maker's text."""
        try:
            state = decode(text)
            self._epoch, self._key = int(state["windows"]), bytes.fromhex(state["key"])
        except OtherVersion as error:
            raise BadInput(f"what was learned is {error.what}; to begin anew: --fresh") from error
        except (BadInput, ValueError, LookupError, TypeError, AttributeError) as error:
            raise BadInput(OTHER_MAKER) from error


def profiles_and_mixes(
    classes: Collection[PathClass], shares: Mapping[str, float], owned: Collection[str] = ()
) -> tuple[dict[str, Profile], dict[str, tuple[tuple[str, int], ...]]]:
    """Return the profiles and the mixes of classes, both by name. owned: names of profiles that a human has."""
    different = sorted(set(classes), key=lambda one: one.name)
    mixes = {one.name: tuple((free_name(name, owned), parts) for name, parts in mix_of(one, shares))
             for one in different}  # fmt: skip
    used = {name for mix in mixes.values() for name, _ in mix}
    known = {free_name(one.name, owned): one for each in different for one in each.profiles.values()}
    return {name: replace(known[name], name=name) for name in sorted(used)}, mixes


def classes_within(paths: PredictedPaths, most: Permitted, former: Mapping[str, PathClass]) -> list[PathClass]:
    """Return the class of each prefix, within what is permitted. former: of prefixes that keep it while it is near."""
    every = path_classes(paths.windows, paths.saved, paths.rtt_ms)
    pairs = [(former.get(prefix), one) for prefix, one in zip(paths.prefixes, every, strict=True)]
    every = [before if before is not None and before.stays(one) else one for before, one in pairs]
    cut = {one: cut_class(one, most) for one in set(every)}
    return joined_classes([cut[one] for one in every])
