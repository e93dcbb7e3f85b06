# SPDX-License-Identifier: MIT
"""Contexts and decisions as numpy columns: one object each would cost more than the learning.

Names (sites, prefixes, devices) are codes into a vocabulary that travels with the column; -1 is unknown. Numbers that
are unknown are NaN. Row i of a column holds exactly the value of the i-th `Context` or `Decision`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from configtron.model.characteristics import BY_NAME, NAMES
from configtron.model.nearest import LEAST_KBPS, LEAST_RTT_MS, LOSS_FLOOR
from configtron.model.nouns import Axis, Context
from configtron.model.tensor import Tensor

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# Why a profile was chosen; a column of decisions carries the position in this tuple, so rows are only ever added.
ARMS = (
    "default", "static", "lhc", "gp", "epsilon", "tree", "greedy", "thompson", "brute", "best", "offline", "reuse",
    "optimal", "squarecb", "linucb",
)  # fmt: skip
# Features without a column of their own.
FURTHER = tuple(name for name in (*BY_NAME, *NAMES) if name != "device")
FURTHER_OF = attrgetter(*FURTHER)
# The values of a context without any of them.
NOTHING_FURTHER = FURTHER_OF(Context())
ARM = {name: code for code, name in enumerate(ARMS)}


def _no_codes() -> Codes:
    return np.zeros(0, dtype=np.int64)


# Codes (n,) into a vocabulary.
Named = tuple[Codes, tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Contexts:
    """n contexts.

    bandwidth_kbps, rtt_ms, loss   (n,)
    site, prefix, device           codes (n,), the latter two may be empty
    numbers                        further characteristics (`characteristics.py`) by name, (n,) each; absent: unknown
    names                          asn, region, browser by name: codes (n,) and their vocabulary; absent: unknown
    """

    bandwidth_kbps: Floats
    rtt_ms: Floats
    loss: Floats
    site: Codes
    sites: tuple[str, ...]
    prefix: Codes = field(default_factory=_no_codes)
    prefixes: tuple[str, ...] = ()
    device: Codes = field(default_factory=_no_codes)
    devices: tuple[str, ...] = ()
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    names: Mapping[str, Named] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.bandwidth_kbps)

    def __getitem__(self, rows: slice | Codes) -> Contexts:
        """Those rows, with the same vocabularies."""
        prefix, device = (column[rows] if len(column) else column for column in (self.prefix, self.device))
        numbers = (self.bandwidth_kbps[rows], self.rtt_ms[rows], self.loss[rows])
        further = {name: column[rows] for name, column in self.numbers.items()}
        names = {name: (codes[rows], words) for name, (codes, words) in self.names.items()}
        return Contexts(
            *numbers, self.site[rows], self.sites, prefix, self.prefixes, device, self.devices, further, names
        )

    def number(self, name: str) -> Floats:
        """Return (n,) a characteristic, or bandwidth_kbps, rtt_ms, loss; NaN where it is unknown."""
        if name not in BY_NAME:
            found: Floats = getattr(self, name)
            return found
        return self.numbers.get(name, np.full(len(self), np.nan))

    def named(self, name: str) -> Named:
        """asn, region, device or browser: codes (n,), -1 where it is unknown, and their vocabulary."""
        if name == "device" and len(self.device):
            return self.device, self.devices
        return self.names.get(name, (np.full(len(self), -1, dtype=np.int64), ()))

    def further(self) -> list[dict[str, Any]]:
        """Return n dictionaries of the known values beyond the columns that have a field of their own."""
        found: list[dict[str, Any]] = [{} for _ in range(len(self))]
        for name, column in self.numbers.items():
            for at in np.flatnonzero(~np.isnan(column)):
                found[at][name] = float(column[at])
        for name, (codes, words) in self.names.items():
            for at in np.flatnonzero(codes >= 0):
                found[at][name] = int(words[codes[at]]) if name == "asn" else words[codes[at]]
        return found

    def row(self, i: int) -> Context:
        """Return the i-th context."""
        more = self[i : i + 1].further()[0] if self.numbers or self.names else {}
        kbps, rtt, loss = (float(column[i]) for column in (self.bandwidth_kbps, self.rtt_ms, self.loss))
        return Context(
            bandwidth_kbps=None if np.isnan(kbps) else kbps,
            rtt_ms=None if np.isnan(rtt) else rtt,
            loss=None if np.isnan(loss) else loss,
            site=_name(self.site, self.sites, i),
            prefix=_name(self.prefix, self.prefixes, i),
            device=_name(self.device, self.devices, i),
            **more,
        )

    def axis(self, axis: Axis) -> Floats:
        """Return (n,) coordinates along an axis (`nearest.coordinate`); NaN where they are unknown."""
        name, values = axis
        if name in BY_NAME:
            found: Floats = np.log(self.number(name) + BY_NAME[name].floor)
            return found
        (codes, words), coded = self.named(name), dict(values)
        return np.array([*(coded.get(word, np.nan) for word in words), np.nan])[codes]

    def points(self) -> Floats:
        """Return (n, 3): where classes see them (`nearest.point`); NaN where a feature is unknown."""
        kbps, rtt = np.maximum(self.bandwidth_kbps, LEAST_KBPS), np.maximum(self.rtt_ms, LEAST_RTT_MS)
        return np.stack((np.log(kbps), np.log(rtt), np.log(self.loss + LOSS_FLOOR)), axis=1)


def _name(codes: Codes, names: tuple[str, ...], i: int) -> str:
    return names[codes[i]] if len(codes) and codes[i] >= 0 else ""


def contexts_of(contexts: Sequence[Context], sites: tuple[str, ...] | None = None) -> Contexts:
    """Return contexts as columns; sites outside the given vocabulary are unknown; without one the contexts' sites make
    it."""
    site, sites = _codes([context.site for context in contexts], sites)
    prefix, prefixes = _codes([context.prefix for context in contexts], None)
    device, devices = _codes([context.device for context in contexts], None)
    kbps, rtt, loss = (
        np.array([np.nan if value is None else value for value in column], dtype=np.float64)
        for column in (
            [context.bandwidth_kbps for context in contexts],
            [context.rtt_ms for context in contexts],
            [context.loss for context in contexts],
        )
    )
    numbers, names = _further(contexts)
    return Contexts(kbps, rtt, loss, site, sites, prefix, prefixes, device, devices, numbers, names)


def with_further(contexts: Contexts, further: Sequence[Mapping[str, Any]]) -> Contexts:
    """Return the same contexts with the values from `Contexts.further`; names of no characteristic are ignored."""
    some = {name for row in further for name in row}
    if not some:
        return contexts
    numbers = {
        name: np.array([row.get(name, np.nan) for row in further], dtype=np.float64) for name in BY_NAME if name in some
    }
    names = {
        name: _codes([str(row.get(name, "")) for row in further], None)
        for name in NAMES if name in some and name != "device"
    }  # fmt: skip
    return replace(contexts, numbers=numbers, names=names)


def _further(contexts: Sequence[Context]) -> tuple[dict[str, Floats], dict[str, Named]]:
    """Return numbers and names by name that have no field of their own, those that any context has."""
    rows = [FURTHER_OF(context) for context in contexts]
    if all(row == NOTHING_FURTHER for row in rows):
        return {}, {}
    columns = dict(zip(FURTHER, zip(*rows, strict=True), strict=True))
    some = {name for name, column in columns.items() if column.count(None) + column.count("") < len(column)}
    numbers = {
        name: np.array([np.nan if value is None else value for value in columns[name]], dtype=np.float64)
        for name in BY_NAME if name in some
    }  # fmt: skip
    names = {
        name: _codes(["" if value is None else str(value) for value in columns[name]], None)
        for name in NAMES if name in some
    }  # fmt: skip
    return numbers, names


def _codes(names: Sequence[str], vocabulary: tuple[str, ...] | None) -> tuple[Codes, tuple[str, ...]]:
    words = tuple(dict.fromkeys(name for name in names if name)) if vocabulary is None else vocabulary
    position = {word: code for code, word in enumerate(words)}
    return np.array([position.get(name, -1) for name in names], dtype=np.int64), words


def conditions_of(tensor: Tensor) -> Contexts:
    """Return a tensor's conditions as contexts, one each, in their order, of no site."""
    numbers = (tensor.bandwidth_kbps, tensor.rtt_ms, tensor.loss)
    none = np.zeros(len(tensor.names), dtype=np.int64)
    return Contexts(*numbers, none, (), numbers=tensor.characteristics)


def site_codes(contexts: Contexts, sites: tuple[str, ...]) -> Codes:
    """Return (n,) sites in another vocabulary; unknown ones all are the last code, `len(sites)`."""
    if contexts.sites == sites:
        return np.where(contexts.site < 0, len(sites), contexts.site)
    position = {site: code for code, site in enumerate(sites)}
    codes = [position.get(site, len(sites)) for site in contexts.sites]
    return np.array([*codes, len(sites)], dtype=np.int64)[contexts.site]


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """n decisions. Every column is (n,).

    row            the table's row that decided: class and site, or another division of clients by the policy
    network        position of the network class in the policy's `class_ids`; -1 where there is none
    configuration  row of the policy's grid
    arm            position in ARMS
    propensity     probability of that configuration, given the context, when it was drawn
    expected_ms    the policy's expectation; NaN where it has none
    """

    row: Codes
    network: Codes
    configuration: Codes
    arm: Codes
    propensity: Floats
    expected_ms: Floats

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: slice | Codes) -> Decisions:
        codes = (self.row[rows], self.network[rows], self.configuration[rows], self.arm[rows])
        return Decisions(*codes, self.propensity[rows], self.expected_ms[rows])
