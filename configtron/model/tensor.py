# SPDX-License-Identifier: MIT
"""The PLT-tensor: {network condition x configuration x website} -> page load time.

Question   How long does this site load under this configuration on this network?
Method     A table of medians over repeated loads, by the lab (`learn measure`) or by a formula (the simulator's).
Stop when  looked up; between conditions nothing is interpolated.
Reads as   milliseconds, with noise if a `NoiseFactors` and a generator are handed in.
Fails as   `BadInput` for a file that is none, of another version, or whose columns do not fit one another; a cell that
           was never measured is NaN and is named by `missing`.
Differs    from CT's in that repeats and provenance stay with the medians.
Source     CT section 6 (each page loaded 5 times, median).

The file is a numpy .npz with these columns, and nothing pickled:

    header           text, JSON: format, version, source, provenance, sites, condition names, knobs and their values
    bandwidth_kbps, rtt_ms, loss             (conditions,) float64
    configurations                           (configurations, knobs) int64, positions of values
    median_ms                                (conditions, configurations, sites) float32
    repeats_ms                               (conditions, configurations, sites, repeats) float32, or absent; NaN where
                                             a cell was loaded less often than another, or a load failed
    min_rtt_ms, queue_ms, ...                (conditions,) float64, or absent: rows of `characteristics.py`; NaN unknown
    damage                                   (conditions, configurations, sites) float32, or absent: bytes that
                                             neighbours on the bottleneck lose for each byte of the page, 1 being what
                                             the page itself needs; NaN where there was no neighbour to measure it on
    damage_high                              the same, upper bound of its 95 % interval, or absent
    weight                                   (conditions,) float64, or absent: how often each occurs; any scale
"""

from __future__ import annotations

import json
import tokenize
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, BinaryIO, Protocol
from zipfile import BadZipFile, is_zipfile

import numpy as np
import numpy.typing as npt

from configtron.model.characteristics import BY_NAME
from configtron.model.errors import BadInput
from configtron.model.grid import Grid, setting
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Context, Knob

FORMAT, VERSION = "configtron-plt-tensor", 1
# Columns that every file has.
TENSOR_COLUMNS = ("header", "bandwidth_kbps", "rtt_ms", "loss", "configurations", "median_ms")
# Columns that a file may have besides rows of `characteristics.py`, and a world's sessions. Any other is refused: its
# name may be a known one, misspelt.
OPTIONAL, SESSIONS = ("repeats_ms", "damage", "damage_high", "weight"), "session_"
# What a file that is none, or a damaged one, makes zip, zlib, numpy's own header and JSON raise.
UNREADABLE = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, OSError, RuntimeError, SyntaxError,
    MemoryError, BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip
MAKE = "make one: configtron learn measure"
# Characters of a reason, which may be the file's own, that are shown.
SHOWN = 100

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Single = npt.NDArray[np.float32]


class NoiseFactors(Protocol):
    """The ratio of one page load to the median; the learner's simulator has implementations."""

    def factors(self, n: int, rng: np.random.Generator) -> Floats:
        """Return (n,) factors."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """Shapes as in the file. source: lab, analytic or elsewhere; provenance: how to make it again."""

    grid: Grid
    sites: tuple[str, ...]
    names: tuple[str, ...]
    bandwidth_kbps: Floats
    rtt_ms: Floats
    loss: Floats
    median_ms: Single
    source: str
    provenance: tuple[tuple[str, str], ...] = ()
    repeats_ms: Single | None = None
    characteristics: Mapping[str, Floats] = field(default_factory=dict)
    damage: Single | None = None
    damage_high: Single | None = None
    weight: Floats | None = None

    def __post_init__(self) -> None:
        shape = (len(self.names), len(self.grid), len(self.sites))
        if self.median_ms.shape != shape or {len(c) for c in (self.bandwidth_kbps, self.rtt_ms, self.loss)} != {
            shape[0]
        }:
            raise BadInput(f"tensor: medians are {self.median_ms.shape}, its columns say {shape}")
        if self.repeats_ms is not None and self.repeats_ms.shape[:-1] != shape:
            raise BadInput(f"tensor: repeats are {self.repeats_ms.shape}, its columns say {shape}")
        if (self.median_ms <= 0).any() or np.isinf(self.median_ms).any() or 0 in shape:
            raise BadInput("tensor: a page load time is not positive and finite, or there is none")
        rates = np.stack((self.bandwidth_kbps, self.rtt_ms, self.loss))
        if (rates < 0).any() or np.isinf(rates).any() or (self.loss > 1).any():
            raise BadInput("tensor: a bandwidth or a round trip is negative or infinite, or a loss is no share")
        self._check_optional(shape)

    def _check_optional(self, shape: tuple[int, ...]) -> None:
        """Check the columns that a file may lack. Errors: `BadInput`."""
        for name, column in self.characteristics.items():
            if name not in BY_NAME:
                raise BadInput(f"tensor: no characteristic is called {name!r}; there is: {', '.join(BY_NAME)}")
            if column.shape != shape[:1] or (column < 0).any() or (column > BY_NAME[name].most).any():
                raise BadInput(f"tensor: {name} is no column of {shape[0]} numbers from 0 to {BY_NAME[name].most:g}")
        for name, bytes_lost in (("damage", self.damage), ("damage_high", self.damage_high)):
            if bytes_lost is not None and (bytes_lost.shape != shape or np.isinf(bytes_lost).any()):
                raise BadInput(f"tensor: {name} is {bytes_lost.shape} or infinite, its columns say {shape}")
        weight = self.weight
        if weight is not None and (
            weight.shape != shape[:1] or not (weight >= 0).all() or not 0 < float(weight.sum()) < np.inf
        ):
            raise BadInput(f"tensor: weights are no {shape[0]} numbers of at least 0 with a sum above it")

    @property
    def share(self) -> Floats:
        """Return the share of each condition, (conditions,), summing to 1; all equal where the file has no shares."""
        weight = np.ones(len(self.names)) if self.weight is None else self.weight
        found: Floats = weight / weight.sum()
        return found

    def context(self, condition: int, site: int) -> Context:
        """Return the context of a client of that condition that requests that site."""
        numbers = (self.bandwidth_kbps[condition], self.rtt_ms[condition], self.loss[condition])
        kbps, rtt, loss = map(float, numbers)
        known = {name: float(column[condition]) for name, column in self.characteristics.items()}
        further: dict[str, Any] = {name: value for name, value in known.items() if not np.isnan(value)}
        return Context(bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss, site=self.sites[site], **further)

    def lookup(self, condition: Codes, configuration: Codes, site: Codes) -> Floats:
        """Return (n,) median page load times, ms."""
        found: Floats = self.median_ms[condition, configuration, site].astype(np.float64)
        return found

    def load(
        self, condition: Codes, configuration: Codes, site: Codes, noise: NoiseFactors, rng: np.random.Generator
    ) -> Floats:
        """Return (n,) page load times, ms, each with its own noise."""
        return self.lookup(condition, configuration, site) * noise.factors(len(condition), rng)

    @cached_property
    def best(self) -> Codes:
        """Return the fastest configuration, (conditions, sites); ties go to the first."""
        filled = np.where(np.isnan(self.median_ms), np.inf, self.median_ms)
        found: Codes = filled.argmin(axis=1)
        return found

    @cached_property
    def best_ms(self) -> Single:
        """Return the fastest configuration's page load time, ms, (conditions, sites)."""
        found: Single = np.nanmin(self.median_ms, axis=1)
        return found

    def of(self, conditions: Codes) -> Tensor:
        """Return the tensor of these conditions alone."""
        names = tuple(self.names[at] for at in conditions)
        columns = (self.bandwidth_kbps[conditions], self.rtt_ms[conditions], self.loss[conditions])
        repeats, damage, high = (
            None if column is None else column[conditions]
            for column in (self.repeats_ms, self.damage, self.damage_high)
        )
        weight = None if self.weight is None else self.weight[conditions]
        further = {name: column[conditions] for name, column in self.characteristics.items()}
        median, about = self.median_ms[conditions], (self.source, self.provenance)
        return Tensor(self.grid, self.sites, names, *columns, median, *about, repeats, further, damage, high, weight)

    def over(self, grid: Grid) -> Tensor:
        """Return the tensor of some of its configurations. Errors: `BadInput` for one that it does not have."""
        at = np.array([self.grid.index(profile) for profile in grid.profiles], dtype=np.int64)
        repeats, damage, high = (
            None if column is None else column[:, at] for column in (self.repeats_ms, self.damage, self.damage_high)
        )
        cells = {"median_ms": self.median_ms[:, at], "repeats_ms": repeats, "damage": damage, "damage_high": high}
        return replace(self, grid=grid, **cells)  # type: ignore[arg-type]

    def rated(self) -> Tensor:
        """Return the tensor without conditions of variable rate (played traces): a learner cannot class a network
        without a known rate. Errors: `BadInput` where none is left."""
        known = ~np.isnan(self.bandwidth_kbps + self.rtt_ms + self.loss)
        if known.all():
            return self
        if not known.any():
            raise BadInput("tensor: no condition has a bandwidth, a round trip and a loss; measure others")
        return self.of(np.flatnonzero(known))

    def missing(self) -> int:
        """Return the cells without a measurement."""
        return int(np.isnan(self.median_ms).sum())


def write(tensor: Tensor, file: BinaryIO) -> None:
    """Return the tensor's file; equal tensors give equal bytes."""
    np.savez_compressed(file, **columns_of(tensor))


def columns_of(tensor: Tensor, **more: Any) -> dict[str, Any]:
    """Return the columns of the tensor's file; more: further keys of its header."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "source": tensor.source,
        "provenance": dict(tensor.provenance),
        "sites": tensor.sites,
        "conditions": tensor.names,
        "knobs": [{"name": knob.name, "values": knob.values} for knob in tensor.grid.knobs],
        **more,
    }
    columns: dict[str, Any] = {
        "header": np.array(json.dumps(header, sort_keys=True)),
        "bandwidth_kbps": tensor.bandwidth_kbps,
        "rtt_ms": tensor.rtt_ms,
        "loss": tensor.loss,
        "configurations": tensor.grid.positions,
        "median_ms": tensor.median_ms,
    }
    optional = {name: getattr(tensor, name) for name in OPTIONAL} | dict(tensor.characteristics)
    return columns | {name: column for name, column in sorted(optional.items()) if column is not None}


def read(file: BinaryIO, name: str = "tensor") -> Tensor:
    """Return a tensor from its file; errors call it `name`. Errors: `BadInput`."""
    try:
        if not is_zipfile(file):
            raise BadInput(f"{name}: no PLT-tensor (no .npz file); {MAKE}")
        file.seek(0)
        with np.load(file, allow_pickle=False) as columns:
            if absent := [column for column in TENSOR_COLUMNS if column not in columns]:
                raise BadInput(f"{name}: no PLT-tensor, it lacks {', '.join(absent)}; {MAKE}")
            known = (*TENSOR_COLUMNS, *OPTIONAL, *BY_NAME)
            if strange := [one for one in columns.files if one not in known and not one.startswith(SESSIONS)]:
                raise BadInput(f"{name}: no column is called {strange[0][:SHOWN]!r}; there is: {', '.join(known[1:])}")
            return _once(name, _tensor(name, {column: columns[column] for column in columns.files}))
    except UNREADABLE as error:
        # What numpy advises, to unpickle it all the same, is what a stranger's file must not have.
        why = "a column is neither numbers nor text" if "pickle" in str(error) else str(error)[:SHOWN] or "damaged"
        raise BadInput(f"{name}: no PLT-tensor ({why}); {MAKE}") from error


def _once(name: str, tensor: Tensor) -> Tensor:
    """Return a file's tensor. Each site and configuration has one column: of two, no rule says which one to read.
    Errors: `BadInput`."""
    profiles = tensor.grid.profiles
    for what, shown, column in (("site", tensor.sites, tensor.sites),
                                ("configuration", [one.name for one in profiles],
                                 [one.settings for one in profiles])):  # fmt: skip
        if len(set(column)) < len(column):
            twice = next(word for at, word in enumerate(shown) if column[at] in column[:at])
            raise BadInput(f"{name}: {what} {twice!r} has two columns; leave one out")
    return tensor


def _tensor(name: str, columns: dict[str, Any]) -> Tensor:
    header = json.loads(str(columns["header"]))
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        found = f"{header.get('format')} {header.get('version')}"
        raise BadInput(f"{name}: {FORMAT} {VERSION} is wanted, this is {found[:SHOWN]}")
    knobs = tuple(knob_of(_words([row["name"]])[0], tuple(row["values"])) for row in header["knobs"])
    if len({knob.name for knob in knobs}) < len(knobs):
        raise BadInput(f"{name}: a knob is there twice")
    positions = columns["configurations"]
    if (positions < 0).any() or (positions >= [len(knob.values) for knob in knobs]).any():
        raise BadInput(f"{name}: a configuration has a value outside its knob's list")
    with np.errstate(over="ignore"):  # what becomes infinite is refused as such
        median_ms = columns["median_ms"].astype(np.float32)
        repeats_ms, damage, high = (
            columns[name].astype(np.float32) if name in columns else None
            for name in ("repeats_ms", "damage", "damage_high")
        )
    return Tensor(
        Grid(knobs, tuple(tuple(map(int, row)) for row in positions)),
        _words(header["sites"]),
        _words(header["conditions"]),
        columns["bandwidth_kbps"].astype(np.float64),
        columns["rtt_ms"].astype(np.float64),
        columns["loss"].astype(np.float64),
        median_ms,
        _words([header["source"]])[0],
        tuple(sorted(header["provenance"].items())),
        repeats_ms,
        {name: columns[name].astype(np.float64) for name in BY_NAME if name in columns},
        damage,
        high,
        columns["weight"].astype(np.float64) if "weight" in columns else None,
    )


def _words(given: list[Any]) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(word, str) and word.isprintable() for word in given):
        raise ValueError("a name is no text")
    return tuple(given)


def knob_of(name: str, values: tuple[Any, ...]) -> Knob:
    """Return the knob a file names: a known one has its unit and default, another has its first value as default."""
    known = KNOBS.get(name)
    if known is not None:
        values = tuple(setting(name, value) for value in values)
    elif not all(isinstance(value, int | float | str) for value in values):
        raise ValueError(f"a value of {name} is neither number nor text")
    default = known.default if known is not None and known.default in values else values[0]
    return Knob(name, known.layer if known else "", known.unit if known else "", default, values)
