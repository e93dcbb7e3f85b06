# SPDX-License-Identifier: MIT
"""Write the connections of a capture as JSON Lines: one object each, formatted column by column.

Method     Each member of the objects is formatted for many connections at a time. Its text begins with a comma, and is
           "" for a connection without the member. Adjacent members that are the same for all connections are joined
           once. Observations and names of TLS are formatted once for all connections of a kind; their frames are
           then filled in (`ConnectionReports.template`).
Differs    from `form`, which returns the object of one connection, in speed only. The text is its canonical JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from configtron.fingerprint.passive.columns import FILE_SHIFT, FRAME_MASK, Column, network_text
from configtron.fingerprint.passive.connection_report import (
    IN_SECONDS,
    ConnectionReport,
    ConnectionReports,
    address,
    none_if_nan,
    numbers_of,
)
from configtron.fingerprint.passive.later_flights import LaterFlight
from configtron.fingerprint.passive.limits import LIMITS, Limit, limit_of, limits_of
from configtron.fingerprint.passive.readings import BYTES, CLOCKS, FLIGHT, Hellos
from configtron.fingerprint.passive.summary import SIDE, SIDES
from configtron.model.nouns import Observation
from configtron.model.records import Json, canonical, observation_form
from configtron.report.connection_rows import NOT_SHOWN, Cells, joined, one_if_same, texts_by_kind

SCHEMA = "configtron.connection/1"
HANDSHAKE_NUMBERS = ("rtt", "rtt_server", "rtt_client", "syns", "synacks")
HANDSHAKE_FLAGS = ("sack", "stamps")
NUMBERS = (int, float)
# Marks of a template, in JSON: no frame is negative, nor are a flight's bytes.
MARKS = re.compile(rf'"evidence":\[(-[-,\d]+)\]|"bytes":{BYTES}\b')


def form(connection: ConnectionReport, files: list[str]) -> dict[str, Json]:
    """Return a connection as a JSON object."""
    numbers = connection.numbers
    handshake = {name: json_number(numbers[name]) for name in HANDSHAKE_NUMBERS}
    agreed: dict[str, Json] = {name: None if numbers[name] is None else bool(numbers[name]) for name in HANDSHAKE_FLAGS}
    return _without_none(
        {
            "schema": SCHEMA,
            "file": files[connection.file],
            "frame": connection.frame,
            "started_at": round(connection.started_ns / 1e9, 9) or None,
            "duration": None if connection.duration_s is None else round(connection.duration_s, 9),
            "clock": connection.clock or None,
            "out_of_order": json_number(numbers["out_of_order"] or None),
            "packets": json_number(numbers["packets"]),
            "copies": json_number(numbers["copies"] or None),
            "ended": connection.ending,
            "captured_at": connection.place or None,
            "merged": connection.merged or None,
            "network": connection.network or None,
            "incomplete": connection.incomplete or None,
            "frag_needed": json_number(numbers["frag_needed"] or None),
            "frag_needed_mtu": json_number(numbers["frag_needed_mtu"]),
            "limits": _limits(connection.limits, connection.file, files),
            "options_cut": bool(numbers["options_cut"]) or None,
            "handshake": _without_none({**handshake, **agreed}),
            **{side: _side(connection, side) for side in SIDES},
            "tls": _tls(connection.hellos),
            "windows": _windows(connection.windows, connection.file, files),
            "observations": _readings(connection.observations, connection.file, files),
        }
    )


def json_rows(reports: ConnectionReports, files: list[str]) -> Iterator[str]:
    """Yield the line of each connection. files: the captures' names, by the number that a report has."""
    own, read = (reports.columns["frame"] >> FILE_SHIFT).tolist(), reports.template
    for rows, texts in texts_by_kind(reports, lambda row: (*read(row), own[row], files), _names_and_verdicts):
        yield from joined("", _members(reports, rows, files, texts), len(texts))


def json_number(value: float | None) -> Json:
    """Return a number for JSON: an integer if it is whole, else rounded to 9 digits."""
    return None if value is None else int(value) if float(value).is_integer() else round(value, 9)


# --- one connection ---------------------------------------------------------------------------------------------------


def _side(connection: ConnectionReport, side: str) -> Json:
    end = connection.client if side == "client" else connection.server
    numbers = {name: json_number(connection.numbers[f"{side}_{name}"]) for name in SIDE if name not in NOT_SHOWN}
    goodput, lost = connection.goodput_kbps[side], connection.loss[side]
    derived = {
        "goodput_kbps": None if goodput is None else round(goodput, 3),
        "loss": None if lost is None else round(lost, 6),
    }
    return _without_none({"address": address(end), "port": end.port, **numbers, **derived})


def _limits(shares: Sequence[Limit], file: int, files: Sequence[str]) -> Json:
    found: list[Json] = []
    for one in shares:
        found.append({"limit": one.limit, "seconds": round(one.ns / 1e9, 9), "times": one.times, "grade": one.grade,
                      **_placed("frames", one.frames, file, files)})  # fmt: skip
    return found or None


def _placed(name: str, frames: Sequence[int], file: int, files: Sequence[str]) -> dict[str, Json]:
    """Return the numbers of frames; and their files, if one is not in this file. Marks of a template stay."""
    numbers: list[Json] = [frame if frame < 0 else frame & FRAME_MASK for frame in frames]
    other = any(frame >= 0 and frame >> FILE_SHIFT != file for frame in frames)
    return {name: numbers, **({"files": [files[frame >> FILE_SHIFT] for frame in frames]} if other else {})}


def _tls(hellos: Hellos) -> Json:
    asked, answered = hellos
    if asked is None and answered is None:
        return None
    found: dict[str, Json] = {}
    if asked is not None:
        found |= {"server_name": asked.server_name or None, "offered": list(asked.versions),
                  "alpn_offered": list(asked.alpn) or None}  # fmt: skip
    if answered is not None:
        found |= {"version": next(iter(answered.versions), None), "alpn": next(iter(answered.alpn), None)}
    return _without_none(found)


def _readings(observations: Sequence[Observation], file: int, files: Sequence[str]) -> Json:
    found: dict[str, Json] = {}
    for one in observations:
        fields = observation_form(one) | (_placed("evidence", one.evidence, file, files) if one.evidence else {})
        found[one.knob] = {name: value for name, value in fields.items() if name not in ("knob", "trace_id")}
    return found


def _windows(windows: Sequence[LaterFlight], file: int, files: Sequence[str]) -> Json:
    found: list[Json] = []
    for one in windows:
        more: dict[str, Json] = {name: getattr(one, name) for name in ("segments", "grade", "proof", "why")}
        more |= {"file": files[number]} if (number := one.frames[0] >> FILE_SHIFT) != file else {}
        found.append({"at": round(one.at_ns / 1e9, 9), "frame": one.frames[0] & FRAME_MASK, **more})
    return found or None


def _without_none(form: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in form.items() if value is not None}


# --- many connections -------------------------------------------------------------------------------------------------


def _names_and_verdicts(seen: Sequence[Observation], hellos: Hellos, file: int, files: list[str]) -> tuple[str, str]:
    """Return the members of observations and of TLS as texts, the first with `MARKS` as conversions of `%`."""
    text = _member("observations", _readings(seen, file, files))
    if MARKS.search(text):
        text = MARKS.sub(_conversion, text.replace("%", "%%"))
    return text, _member("tls", _tls(hellos))


def _conversion(mark: re.Match[str]) -> str:
    if mark[1] is None:
        return '"bytes":%(bytes)s'
    return f'"evidence":[{",".join(f"%({number})s" for number in mark[1].split(","))}]'


def _filled(reports: ConnectionReports, rows: slice, texts: Iterable[str]) -> Iterator[str]:
    """Yield texts of observations with the frames of each connection."""
    for text, (frames, flight, size) in zip(texts, reports.marks(rows), strict=True):
        marks = {str(-1 - place): frame for place, frame in enumerate(frames)}
        yield text % {**marks, str(FLIGHT): ",".join(map(str, flight)), "bytes": size} if "%(" in text else text


def _members(
    reports: ConnectionReports, rows: slice, files: list[str], texts: Sequence[tuple[str, str]]
) -> Iterator[Cells]:
    """Yield the parts of these connections' objects: their members, sorted by name. texts: observations and TLS."""
    numbers = {name: column[rows] for name, column in reports.columns.items()}
    frame = numbers["frame"]
    own = (frame >> FILE_SHIFT).tolist()
    in_file = [_member("file", name) for name in files]
    yield [f'{{"captured_at":"{place}",' if place else "{" for place in reports.places[rows].tolist()]
    yield from _side_parts(reports, rows, numbers, 0)
    yield _by_value("clock", numbers["clock"].tolist(), lambda clock: CLOCKS[clock] or None)
    yield _by_value("copies", numbers_of("copies", numbers["copies"]), lambda count: count or None)
    yield _numbers("duration", none_if_nan(reports.durations[rows]))
    yield _by_value("ended", reports.endings[rows].tolist(), str)
    yield one_if_same([in_file[number] for number in own])
    yield _by_value("frag_needed", numbers["frag_needed"].tolist(), lambda count: count or None)
    yield _column("frag_needed_mtu", "frag_needed_mtu", numbers)
    yield [f',"frame":{number}' for number in (frame & FRAME_MASK).tolist()]
    flags = {name: _by_value(name, numbers_of(name, numbers[name]), bool) for name in HANDSHAKE_FLAGS}
    agreed = flags | {name: _column(name, name, numbers) for name in HANDSHAKE_NUMBERS}
    yield [f',"handshake":{{{text[1:]}}}' for text in joined("", (agreed[name] for name in sorted(agreed)), len(texts))]
    yield _member("incomplete", reports.incomplete or None)
    if len(files) > 1:
        yield [_member("limits", _limits(*each, files)) for each in zip(limits_of(numbers, limit_of), own, strict=True)]
    else:
        yield [f',"limits":[{",".join(some)}]' if some else "" for some in limits_of(numbers, _limit_text)]
    yield _by_value("merged", reports.merged[rows].tolist(), lambda flag: flag or None)
    yield _by_value("network", reports.networks[rows].tolist(), lambda net: network_text(net) or None)
    yield list(_filled(reports, rows, (observations for observations, _ in texts)))
    yield _by_value("options_cut", numbers_of("options_cut", numbers["options_cut"]), lambda flag: bool(flag) or None)
    yield _by_value("out_of_order", numbers["out_of_order"].tolist(), lambda count: count or None)
    yield _column("packets", "packets", numbers)
    yield f"{_member('schema', SCHEMA)},"
    yield from _side_parts(reports, rows, numbers, 1)
    yield _numbers("started_at", [at or None for at in (numbers["started"] / 1e9).tolist()])
    yield [tls for _, tls in texts]
    later = zip(reports.windows(rows), own, strict=True)
    yield one_if_same([_member("windows", _windows(*one, files)) for one in later])
    yield "}"


def _side_parts(reports: ConnectionReports, rows: slice, numbers: dict[str, Column], at: int) -> Iterator[Cells]:
    """Yield the parts of one side's member: its own, sorted by name. at: 0, the client; 1, the server."""
    side, ends = SIDES[at], [pair[at] for pair in reports.ends[rows]]
    # An address has no character that JSON would escape, and its name comes first.
    yield [f'"{side}":{{"address":"{address(end)}"' for end in ends]
    for name in sorted({*SIDE, "port", "goodput_kbps", "loss"} - {*NOT_SHOWN}):
        if name == "port":
            yield [f',"port":{end.port}' for end in ends]
        elif name == "goodput_kbps":
            yield _by_value(name, none_if_nan(reports.goodput_kbps[side][rows]), lambda kbps: round(kbps, 3))
        elif name == "loss":
            yield _by_value(name, none_if_nan(reports.loss[side][rows]), lambda share: round(share, 6))
        else:
            yield _column(name, f"{side}_{name}", numbers)
    yield "}"


def _limit_text(number: int, ns: int, times: int, grade: str, one: int, other: int) -> str:
    """Return an item of `_limits` of a single file."""
    first, last = min(one, other), max(one, other)
    frames = f"{first},{last}" if 0 < first < last else last or ""
    return (
        f'{{"frames":[{frames}],"grade":"{grade}","limit":"{LIMITS[number]}","seconds":{ns / 1e9!r},"times":{times}}}'
    )


def _member(name: str, value: Json) -> str:
    """Return a member with the comma before it; "" for None."""
    # JSON writes numbers as Python does, and a name has no character that it would escape.
    return (
        "" if value is None else f',"{name}":{value!r}' if type(value) in NUMBERS else f',"{name}":{canonical(value)}'
    )


def _by_value(name: str, values: Sequence[Any], of: Callable[[Any], Json]) -> Cells:
    """Return the member of each value, formatted once for each distinct one; "" where the value, or what `of` makes of
    it, is None."""
    texts = {value: "" if value is None else _member(name, of(value)) for value in set(values)}
    return next(iter(texts.values())) if len(texts) == 1 else [texts[value] for value in values]


def _column(name: str, key: str, columns: dict[str, Column]) -> Cells:
    """Return the members of a column's numbers: one text if all are the same."""
    column = columns[key]
    same = bool((column == column[0]).all())
    values = numbers_of(key, column[:1] if same else column)
    if key in IN_SECONDS:
        values = [None if one is None else int(one) if float(one).is_integer() else one for one in values]
    texts = _numbers(name, values)
    return texts[0] if same else texts


def _numbers(name: str, values: Sequence[float | None]) -> list[str]:
    """Return the member of each number; "" for None. A time of whole nanoseconds has no digit to round."""
    return ["" if one is None else f',"{name}":{one!r}' for one in values]
