# SPDX-License-Identifier: MIT
"""A world as a file: page load times of cells, and perhaps sessions, arrivals and noise.

Question   How can policies be simulated on a user's own measurements?
Method     A PLT-tensor's file with more columns and one more key in its header, or a CSV of loads (`worldcsv.py`).
           Missing parts are drawn: sessions by `Arrivals`, noise from repeated loads where cells have five, else by the
           defaults of `Noise`.
Stop when  read.
Reads as   `Brought`: a tensor without gaps, sessions or None, arrivals, noise, and the parts left out.
Fails as   `BadInput` in one line: the file, the error, the accepted form.
Differs    CT has no files of users.
Source     docs/studies.md, which is the format's definition.

A cell without a page load time was refused or failed where it was measured. It cannot be deployed there, so a session
that gets such a configuration loads as under Default, for every policy. Where Default itself has none, nothing can be
compared: the condition is left out, and with it its sessions.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, BinaryIO
from zipfile import is_zipfile

import numpy as np

from configtron.learner.columns import Codes, Contexts
from configtron.model.characteristics import BY_NAME
from configtron.model.errors import BadInput
from configtron.model.tensor import SESSIONS, UNREADABLE, Tensor, columns_of
from configtron.model.tensor import read as read_tensor
from configtron.studies.sim.brought import MOST_S
from configtron.studies.sim.noise import Noise, Pooled
from configtron.studies.sim.sessions import USUAL, Arrivals, Sessions
from configtron.studies.sim.worldcsv import cells

FORMAT, VERSION = "configtron-world", 1
# Prefixes that sessions are drawn from: their shares are one column. And the least rate, that of `--rate`.
MOST_PREFIXES, LEAST_PER_S = 1_000_000, 0.001
# The header's key, and the fields under it.
KEY, WORDS = "world", ("format", "version", "arrivals", "noise", "prefixes")
# Columns of sessions; all of them or none.
SESSION = (
    "session_at_s", "session_condition", "session_change_s", "session_after", "session_site", "session_prefix",
    "session_bandwidth_kbps", "session_rtt_ms", "session_loss",
)  # fmt: skip
# Further characteristics of a session's network that a policy may get: rows of `characteristics.py`.
FURTHER = tuple(f"session_{name}" for name in BY_NAME)
# The papers' five: of fewer loads, too many are their cell's median themselves, which understates the noise.
LEAST_LOADS = 5
LOGNORMAL, REPEATS, NO_SPREAD = "lognormal", "repeats", "none"
SEE = "docs/studies.md has the format"


@dataclass(frozen=True, slots=True, eq=False)
class Brought:
    """A world from a file. missing: number of cells that load as under Default; left_out: conditions and sessions."""

    tensor: Tensor
    sessions: Sessions | None
    arrivals: Arrivals
    noise: Noise
    missing: int = 0
    left_out: tuple[int, int] = (0, 0)


def read(file: BinaryIO, name: str = "world") -> Brought:
    """Return a world from an open file, either form. Errors: `BadInput`."""
    if is_zipfile(file):
        tensor = read_tensor(file, name)
        file.seek(0)
        extra = _extra(file, name)
        try:
            return _brought(tensor, extra, name)
        except UNREADABLE as error:
            raise BadInput(f"{name}: the world's columns cannot be read ({str(error)[:100]}); {SEE}") from error
    file.seek(0)
    try:
        text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: neither .npz nor UTF-8 text (byte {error.start + 1}); {SEE}") from error
    return filled(Brought(cells(text, name), None, USUAL, Noise()), name)


def _extra(file: BinaryIO, name: str) -> dict[str, Any]:
    """Return columns beside the tensor's, and the header's key."""
    try:
        with np.load(file, allow_pickle=False) as columns:
            found: dict[str, Any] = {key: columns[key] for key in columns.files if key.startswith(SESSIONS)}
            found[KEY] = json.loads(str(columns["header"])).get(KEY, {})
    except UNREADABLE as error:
        raise BadInput(f"{name}: the world's columns cannot be read ({str(error)[:100]}); {SEE}") from error
    return found


def _brought(tensor: Tensor, extra: dict[str, Any], name: str) -> Brought:
    about = extra.pop(KEY)
    if not isinstance(about, dict):
        raise BadInput(f"{name}: the header's {KEY!r} is no object; {SEE}")
    if about and (about.get("format") != FORMAT or about.get("version") != VERSION):
        found = f"{about.get('format')} {about.get('version')}"
        raise BadInput(f"{name}: expected {FORMAT} {VERSION}, this is {found[:100]}; {SEE}")
    if strange := [word for word in about if word not in WORDS]:
        raise BadInput(f"{name}: the header's {KEY!r} has no {strange[0][:40]!r}; it has: {', '.join(WORDS)}")
    arrivals = Arrivals(**_numbers(about.get("arrivals", {}), Arrivals, name))
    if not 1 <= arrivals.prefixes <= MOST_PREFIXES:
        raise BadInput(f"{name}: arrivals need prefixes of at least 1 and at most {MOST_PREFIXES}")
    if arrivals.per_s < LEAST_PER_S or arrivals.change_share > 1:
        raise BadInput(f"{name}: arrivals need per_s of at least {LEAST_PER_S} and a change_share up to 1")
    noise = _noise(about.get("noise", {}), tensor, name)
    sessions = _sessions(tensor, extra, about.get("prefixes", []), name) if extra else None
    return filled(Brought(tensor, sessions, arrivals, noise), name, spread=not about.get("noise"))


def _numbers(given: Any, kind: type, name: str) -> dict[str, Any]:
    """Return a dataclass's numbers as a header has them. Errors: `BadInput` for an unknown name or a number below 0."""
    is_whole = {field.name: field.type in (int, "int") for field in fields(kind)}
    if not isinstance(given, dict):
        raise BadInput(f"{name}: {kind.__name__.lower()} is no object; {SEE}")
    for key, value in given.items():
        if key not in is_whole:
            raise BadInput(f"{name}: {kind.__name__.lower()} has no {key[:40]!r}; it has: {', '.join(is_whole)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not np.isfinite(value) or value < 0:
            raise BadInput(f"{name}: {key} must be a number of at least 0, not {str(value)[:40]!r}")
    return {key: int(value) if is_whole[key] else float(value) for key, value in given.items()}


def _noise(given: Any, tensor: Tensor, name: str) -> Noise:
    if not isinstance(given, dict):
        raise BadInput(f"{name}: noise is no object; {SEE}")
    kind = given.get("kind", LOGNORMAL)
    if kind == REPEATS:
        if tensor.repeats_ms is None:
            raise BadInput(f"{name}: noise of kind {REPEATS!r} needs the column repeats_ms, which is absent; {SEE}")
        return pooled(tensor)
    if kind not in (LOGNORMAL, NO_SPREAD):
        raise BadInput(f"{name}: no noise is called {str(kind)[:40]!r}; there is: {LOGNORMAL}, {REPEATS}, {NO_SPREAD}")
    if kind == NO_SPREAD:
        return Noise(sigma_ln=0.0, tail_share=0.0)
    found = Noise(**_numbers({key: value for key, value in given.items() if key != "kind"}, Noise, name))
    if found.tail_alpha <= 0 or found.tail_share > 1:
        raise BadInput(f"{name}: noise needs a tail_alpha above 0 and a tail_share up to 1")
    return found


def pooled(tensor: Tensor) -> Pooled:
    """Return each load's ratio to its cell's median, all cells together; cells loaded once have no ratio."""
    assert tensor.repeats_ms is not None
    often = (~np.isnan(tensor.repeats_ms)).sum(axis=-1, keepdims=True) > 1
    ratios = np.where(often, tensor.repeats_ms / tensor.median_ms[..., None], np.nan).ravel()
    known = np.sort(ratios[~np.isnan(ratios)]).astype(np.float64)
    return Pooled(ratios=known if len(known) else np.ones(1))


def _sessions(tensor: Tensor, given: dict[str, Any], prefixes: Any, name: str) -> Sessions:
    if absent := [column for column in SESSION if column not in given]:
        raise BadInput(f"{name}: sessions lack {', '.join(absent)}; give all columns of sessions or none")
    if strange := sorted(given.keys() - {*SESSION, *FURTHER}):
        raise BadInput(f"{name}: no column of sessions is called {strange[0][:40]!r}; {SEE}")
    if any(column.ndim != 1 or column.dtype.kind not in "iuf" for column in given.values()):
        raise BadInput(f"{name}: a column of sessions is not one-dimensional, or not of numbers")
    lengths = {len(column) for column in given.values()}
    if len(lengths) > 1:
        raise BadInput(f"{name}: sessions' columns have {' and '.join(map(str, sorted(lengths)))} rows")
    if lengths == {0}:
        raise BadInput(f"{name}: the columns of sessions are empty; leave them out to have sessions drawn")
    if not isinstance(prefixes, list) or not all(isinstance(one, str) and one.isprintable() for one in prefixes):
        raise BadInput(f"{name}: the header's prefixes are no list of names")
    columns = [given[column].astype(np.float64) for column in SESSION]
    bounds = {1: len(tensor.names), 3: len(tensor.names), 4: len(tensor.sites), 5: len(prefixes)}
    for at, end in bounds.items():
        if ((columns[at] < 0) | (columns[at] >= end) | (columns[at] % 1 != 0)).any():
            raise BadInput(f"{name}: {SESSION[at]} has a position outside its axis of {end}")
    if not ((columns[0] >= 0) & (columns[0] <= MOST_S)).all():
        raise BadInput(f"{name}: session_at_s must be seconds since the world began, from 0 to a year")
    if (columns[2] < 0).any() or np.isnan(columns[2]).any():
        raise BadInput(f"{name}: session_change_s must be at least 0, infinite where nothing changes")
    kbps, rtt_ms, loss = columns[6:]
    if any((column < 0).any() or np.isinf(column).any() for column in columns[6:]) or (loss > 1).any():
        raise BadInput(f"{name}: a session's network is negative or infinite, or its loss above 1; unknown is NaN")
    further = {column[len("session_") :]: given[column].astype(np.float64) for column in FURTHER if column in given}
    if any((column < 0).any() or np.isinf(column).any() for column in further.values()):
        raise BadInput(f"{name}: a session's characteristic is negative or infinite; unknown is NaN")
    codes = {at: columns[at].astype(np.int64) for at in bounds}
    contexts = Contexts(kbps, rtt_ms, loss, codes[4], tensor.sites, codes[5], tuple(prefixes), numbers=further)
    return Sessions(columns[0], codes[1], columns[2], codes[3], contexts)


def filled(world: Brought, name: str, *, spread: bool = True) -> Brought:
    """Return the world without gaps. spread: with the noise of its repeats, as it states none. Errors: `BadInput`."""
    tensor = world.tensor
    default = tensor.median_ms[:, tensor.grid.default]
    usable = ~np.isnan(default).any(axis=1) & ~np.isnan(tensor.bandwidth_kbps + tensor.rtt_ms + tensor.loss)
    if not usable.any() or len(tensor.grid) < 2:
        raise BadInput(
            f"{name}: a world needs two configurations, and a condition with a bandwidth, a round trip and a loss"
            f" in which Default has a page load time at every site; {SEE}"
        )
    if spread and tensor.repeats_ms is not None:
        loads = (~np.isnan(tensor.repeats_ms)).sum(axis=-1)
        if np.median(loads[loads > 0]) >= LEAST_LOADS:
            world = replace(world, noise=pooled(tensor))
    kept = np.flatnonzero(usable)
    left = tensor.of(kept)
    gaps = np.isnan(left.median_ms)
    median = np.where(gaps, left.median_ms[:, [tensor.grid.default]], left.median_ms)
    sessions, lost = _kept(world.sessions, kept, len(usable), name)
    out = (len(usable) - len(kept), lost)
    return replace(
        world, tensor=replace(left, median_ms=median), sessions=sessions, missing=int(gaps.sum()), left_out=out
    )


def _kept(sessions: Sessions | None, kept: Codes, before: int, name: str) -> tuple[Sessions | None, int]:
    """Return sessions on remaining conditions only, and how many were dropped."""
    if sessions is None:
        return None, 0
    now = np.full(before, -1, dtype=np.int64)
    now[kept] = np.arange(len(kept))
    start, after = now[sessions.condition], now[sessions.after]
    rows = np.flatnonzero((start >= 0) & (after >= 0))
    if not len(rows):
        raise BadInput(f"{name}: no session is on a condition in which Default was measured at every site")
    found = Sessions(sessions.at_s[rows], start[rows], sessions.change_s[rows], after[rows], sessions.seen[rows])
    return found, len(sessions) - len(rows)


def first(sessions: Sessions, n: int) -> Sessions:
    """Return the first n sessions."""
    rows = slice(n)
    columns = (sessions.at_s[rows], sessions.condition[rows], sessions.change_s[rows], sessions.after[rows])
    return Sessions(*columns, sessions.seen[rows])


def header(world: Brought) -> dict[str, Any]:
    """Return the fields under the header's key."""
    noise: dict[str, Any] = {"kind": REPEATS}
    if not isinstance(world.noise, Pooled):
        noise = {"kind": LOGNORMAL, **asdict(world.noise)}
    prefixes = [] if world.sessions is None else list(world.sessions.seen.prefixes)
    found = {"format": FORMAT, "version": VERSION, "noise": noise, "prefixes": prefixes}
    return found | {"arrivals": asdict(world.arrivals)}


def write(world: Brought, file: BinaryIO) -> None:
    """The world's .npz file; equal worlds are equal bytes."""
    columns = columns_of(world.tensor, **{KEY: header(world)})
    if world.sessions is not None:
        one, seen = world.sessions, world.sessions.seen
        numbers = (seen.bandwidth_kbps, seen.rtt_ms, seen.loss)
        values = (one.at_s, one.condition, one.change_s, one.after, seen.site, seen.prefix, *numbers)
        columns |= dict(zip(SESSION, values, strict=True))
        columns |= {f"session_{name}": column for name, column in seen.numbers.items()}
    np.savez_compressed(file, **columns)
