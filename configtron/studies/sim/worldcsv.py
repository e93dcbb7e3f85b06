# SPDX-License-Identifier: MIT
"""A world as plain text: a row a page load, that any script can write without our code.

Question   Which tensor does a user's plain table of loads describe?
Method     A row is one load: network, site, the value of each knob, page load time. Rows of one cell are its
           repeats; the cell's median is theirs. A column that is none of the named ones is a knob.
Stop when  the rows end, or one cannot be a load.
Reads as   a PLT-tensor with repeats; a cell that has no row, or rows without a time only, has no median.
Fails as   `BadInput` by line: the error, the accepted form.
Differs    CT has no files of users.
Source     RFC 4180 (CSV); docs/studies.md, which is the format's definition.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TextIO

import numpy as np
import numpy.typing as npt

from configtron.model.characteristics import BY_NAME
from configtron.model.errors import BadInput
from configtron.model.grid import NAME, Grid, setting
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.tensor import Tensor, knob_of
from configtron.studies.sim.brought import MOST_S, NUMBERS, csv_rows, network, number, quoted
from configtron.studies.sim.sessions import Sessions

CONDITION, SITE, PLT = "condition", "site", "plt_ms"
NEEDED = (*NUMBERS, SITE, PLT)
# Every condition x configuration x site is a number in memory, whether it was measured or not: a gigabyte at most.
MOST_CELLS = 100_000_000
# Bandwidth, round trip, loss; then the further characteristics of a condition.
Numbers = tuple[float, ...]
Settings = tuple[Value, ...]


def cells(text: str, name: str = "world") -> Tensor:
    """Return the tensor of a CSV of loads. Errors: `BadInput`, by line."""
    columns, rows = csv_rows(text, name)
    if absent := [column for column in NEEDED if column not in columns]:
        raise BadInput(
            f"{name}: the header lacks {', '.join(absent)}; a world's CSV has {', '.join(NEEDED)}, a column a knob, and"
            f" perhaps {CONDITION}"
        )
    further = tuple(column for column in columns if column in BY_NAME)
    knobs = tuple(column for column in columns if column and column not in (*NEEDED, CONDITION, *further))
    if strange := [knob for knob in knobs if not NAME.fullmatch(knob)]:
        raise BadInput(f"{name}: a column is called {quoted(strange[0])}; a knob's name has no spaces in it")
    if not knobs:
        raise BadInput(f"{name}: no column is a knob; name what was set, as in initcwnd, tcp_congestion_control")
    conditions: dict[str, Numbers] = {}
    sites: dict[str, int] = {}
    chosen: dict[Settings, int] = {}
    loads: dict[tuple[int, int, int], list[float]] = {}
    places: dict[str, int] = {}
    for where, row in rows:
        known = (number(row, name, where, BY_NAME[name].most) if row[name].strip() else -1.0 for name in further)
        numbers = (*network(row, where), *known)
        condition = row.get(CONDITION) or "{:g} kbit/s, {:g} ms, loss {:g}".format(*numbers[:3])
        if conditions.setdefault(condition, numbers) != numbers:
            raise BadInput(f"{where}: {CONDITION} {quoted(condition)} had other numbers before; give each a name")
        if not row[SITE].strip() or not row[SITE].isprintable() or not condition.isprintable():
            raise BadInput(f"{where}: {SITE} {quoted(row[SITE])}: a printable name is wanted")
        settings = tuple(_value(knob, row[knob].strip(), where) for knob in knobs)
        at = (
            places.setdefault(condition, len(places)),
            chosen.setdefault(settings, len(chosen)),
            sites.setdefault(row[SITE], len(sites)),
        )
        times = loads.setdefault(at, [])
        if row[PLT].strip():
            times.append(_ms(row, where))
    if not loads:
        raise BadInput(f"{name}: there is no load in it")
    made = _tensor(name, conditions, knobs, tuple(chosen), tuple(sites), loads)
    table = np.array(list(conditions.values()))[:, len(NUMBERS) :]
    # A number is never negative: -1 stood for an unknown one, which is equal to itself.
    known_of = np.where(table < 0, np.nan, table).T
    return replace(made, characteristics=dict(zip(further, known_of, strict=True)))


def _ms(row: Mapping[str, str], where: str) -> float:
    ms = number(row, PLT, where, MOST_S * 1000.0)
    if ms <= 0:
        raise BadInput(f"{where}: {PLT} must be above 0, or empty where the load failed, not {quoted(row[PLT])}")
    return ms


def _value(knob: str, word: str, where: str) -> Value:
    """Return the value of a knob: as the knob has it if we know it, else a number or a name."""
    if knob in KNOBS:
        try:
            return setting(knob, word)
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None
    for kind in (int, float):
        try:
            value = kind(word)
        except ValueError:
            continue
        if abs(value) <= 2**63:  # infinity and NaN are not
            return value
    if not word or not word.isprintable():
        raise BadInput(f"{where}: {knob} is {quoted(word)}; write its value, Default's where it was not set")
    return word


def _tensor(
    name: str,
    conditions: Mapping[str, Numbers],
    names: Sequence[str],
    chosen: Sequence[Settings],
    sites: tuple[str, ...],
    loads: Mapping[tuple[int, int, int], list[float]],
) -> Tensor:
    most = max(1, max(map(len, loads.values())))
    shape = (len(conditions), len(chosen), len(sites), most)
    if np.prod(shape, dtype=np.float64) > MOST_CELLS:
        raise BadInput(f"{name}: {' x '.join(map(str, shape))} loads are too many; cut it into several worlds")
    values = [tuple(dict.fromkeys(row[at] for row in chosen)) for at in range(len(names))]
    mixed = [len({isinstance(one, str) for one in found}) > 1 for found in values]
    if strange := [knob for knob, both in zip(names, mixed, strict=True) if both]:
        raise BadInput(f"{name}: {strange[0]} is a number in some rows and a name in others")
    knobs = tuple(knob_of(knob, found) for knob, found in zip(names, values, strict=True))
    grid = Grid(knobs, tuple(tuple(v.index(s) for v, s in zip(values, row, strict=True)) for row in chosen))
    _with_default(grid, name)
    repeats = np.full(shape, np.nan, dtype=np.float32)
    for at, times in loads.items():
        repeats[at][: len(times)] = times
    empty: npt.NDArray[np.bool_] = np.asarray(np.isnan(repeats).all(axis=-1))
    filled = np.where(empty[..., None], np.float32(1.0), repeats)
    median = np.where(empty, np.nan, np.nanmedian(filled, axis=-1)).astype(np.float32)
    kbps, rtt_ms, loss = np.array(list(conditions.values())).T[: len(NUMBERS)]
    source = (("file", name),)
    kept = repeats if most > 1 else None
    return Tensor(grid, sites, tuple(conditions), kbps, rtt_ms, loss, median, "elsewhere", source, kept)


def _with_default(grid: Grid, name: str) -> None:
    """Errors: `BadInput` where no configuration is Default."""
    if not grid.has(Profile("default")):
        wanted = ", ".join(f"{knob.name}={knob.default}" for knob in grid.knobs)
        raise BadInput(
            f"{name}: no row is Default's ({wanted}), with which all is compared; measure it, or leave a knob out that"
            " never changes"
        )


def write_cells(tensor: Tensor, out: TextIO) -> None:
    """A tensor as CSV, a row a load; one row with the median where there are no repeats, none where there is neither.

    Default's configuration comes first, so that a program that reads it takes unknown knobs' defaults from it.
    """
    table = csv.writer(out, lineterminator="\n")
    knobs = [knob.name for knob in tensor.grid.knobs]
    table.writerow((CONDITION, *NUMBERS, *tensor.characteristics, SITE, *knobs, PLT))
    order = sorted(range(len(tensor.grid)), key=lambda at: (at != tensor.grid.default, at))
    for at, name in enumerate(tensor.names):
        columns = (tensor.bandwidth_kbps, tensor.rtt_ms, tensor.loss, *tensor.characteristics.values())
        numbers = ["" if np.isnan(column[at]) else _short(column[at]) for column in columns]
        for configuration in order:
            settings = dict(tensor.grid.profiles[configuration].settings)
            for site, page in enumerate(tensor.sites):
                for ms in _times(tensor, at, configuration, site):
                    table.writerow((name, *numbers, page, *(settings[knob] for knob in knobs), _short(ms)))


def _times(tensor: Tensor, condition: int, configuration: int, site: int) -> Iterator[float]:
    at = (condition, configuration, site)
    if np.isnan(tensor.median_ms[at]):
        return
    times = [] if tensor.repeats_ms is None else [ms for ms in tensor.repeats_ms[at].tolist() if not np.isnan(ms)]
    yield from times or [float(tensor.median_ms[at])]


def _short(number: float) -> str:
    return f"{number:.9g}"


def write_sessions(sessions: Sessions, tensor: Tensor, out: TextIO) -> None:
    """Write sessions as the CSV that `replay sessions --source` reads: the contexts that a policy gets, and the true
    conditions."""
    table = csv.writer(out, lineterminator="\n")
    after = [f"{number}_after" for number in NUMBERS]
    table.writerow(("at_s", "prefix", SITE, *NUMBERS, "change_s", *after, CONDITION, "condition_after"))
    for at in range(len(sessions)):
        seen = sessions.seen.row(at)
        numbers = (seen.bandwidth_kbps, seen.rtt_ms, seen.loss)
        row: list[object] = [f"{sessions.at_s[at]:.6f}", seen.prefix, seen.site]
        row += ["" if one is None else _short(one) for one in numbers]
        start, then = int(sessions.condition[at]), int(sessions.after[at])
        if np.isfinite(sessions.change_s[at]):
            later = (tensor.bandwidth_kbps[then], tensor.rtt_ms[then], tensor.loss[then])
            row += [f"{sessions.change_s[at]:.6f}", *map(_short, later)]
        else:
            row += ["", "", "", ""]
        table.writerow((*row, tensor.names[start], tensor.names[then]))
