# SPDX-License-Identifier: MIT
"""Results of a replay: a table of probes, JSON Lines, CSV, and JUnit for CI servers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO, cast
from xml.sax.saxutils import escape, quoteattr

from configtron.model.records import Json, canonical
from configtron.report.csv_columns import REPLAY_COLUMNS
from configtron.report.folding import Sheet
from configtron.report.rows import emit

# The same bytes; other bytes; the script does not say what was recorded; nothing to compare with; no packets of it.
SAME, DIFFERS, DIVERGED, UNTOLD, MISSING = "same", "differs", "diverged", "untold", "missing"
# Of a JSON line; described by `replayed.schema.json`.
SCHEMA = "configtron.replayed/1"
STATUSES = (SAME, DIFFERS, DIVERGED, UNTOLD, MISSING)
WRONG = (DIFFERS, DIVERGED, MISSING)
# What merged verdicts are listed under, beside the names of probes.
RECORD = "(record)"
# What connections of an adopted capture are listed under.
CONNECTION = "(connection)"


class ReplayDifference(NamedTuple):
    """One field by its path, as it was recorded and as the replay has it; "" where there is none."""

    name: str
    recorded: str
    replayed: str


class Played(NamedTuple):
    """One probe (or one merged record) of a file, played again; `message` says how a script diverged."""

    file: str
    trace: str
    probe: str
    status: str
    differences: tuple[ReplayDifference, ...] = ()
    message: str = ""


def compared(
    file: str, trace: str, probe: str, recorded: str, replayed: str, only: Sequence[str] = (), *, known: bool = False
) -> Played:
    """Compare what was recorded of a probe with what its replay gives; `only`, `known`: see `differences`."""
    if not recorded:
        return Played(file, trace, probe, UNTOLD)
    found = () if recorded == replayed else differences(recorded, replayed, only, known=known)
    same = recorded == replayed or not (found or not (only or known))
    return Played(file, trace, probe, SAME if same else DIFFERS, found)


def differences(
    recorded: str, replayed: str, only: Sequence[str] = (), *, known: bool = False
) -> tuple[ReplayDifference, ...]:
    """Return the differences of two JSON objects, by path: `client.mss`; of a reading by its parameter: `icw.value`.

    only    compare these paths, or ends of paths (`mss`: of both sides), and what is in them; (): all
    known   compare what `recorded` has, and numbers by value: 10 is 10.0
    """
    import json

    found = _unlike("", _flat(json.loads(recorded)), _flat(json.loads(replayed)), known)
    heads = [f"{name}." for name in only]
    return tuple(one for one in found if not only or any(_overlap(f"{one.name}.", head) for head in heads))


def _overlap(path: str, other: str) -> bool:
    return f".{other}" in f".{path}" or other.startswith(path)


def _unlike(path: str, before: Json, after: Json, known: bool) -> Iterator[ReplayDifference]:
    """Yield what differs, an object that both have by its members; None: there is none."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before if known else before.keys() | after.keys()):
            yield from _unlike(f"{path}.{name}" if path else name, before.get(name), after.get(name), known)
        return
    texts = ["" if value is None else canonical(value) for value in (before, after)]
    if texts[0] != texts[1] and not (known and before == after):
        yield ReplayDifference(path, *texts)


def _flat(form: dict[str, Json]) -> dict[str, Json]:
    found = {name: value for name, value in form.items() if name != "observations"}
    readings = form.get("observations", [])
    if isinstance(readings, dict):
        return found | readings
    count: Counter[str] = Counter()
    for reading in cast(list[dict[str, Json]], readings):
        knob = str(reading.get("knob"))
        count[knob] += 1
        found[knob if count[knob] == 1 else f"{knob}.{count[knob]}"] = reading
    return found


def tally(played: Iterable[Played]) -> dict[str, Counter[str]]:
    """Return how many of each probe ended how."""
    found: dict[str, Counter[str]] = {}
    for one in played:
        found.setdefault(one.probe, Counter())[one.status] += 1
    return found


def write_table(played: Sequence[Played], out: TextIO, *, color: bool) -> None:
    """Everything that is not the same, then a row a probe."""
    for one in played:
        if one.status in WRONG or one.message:
            out.write("\n".join(_lines(one)) + "\n")
    table = Sheet("probe", *STATUSES, right=STATUSES)
    counts = tally(played)
    for probe in sorted(counts):
        table.add_row(probe, *(str(counts[probe][status]) for status in STATUSES))
    if counts:
        table.write(out, color=color)
    out.write(closing(played) + "\n")


def closing(played: Sequence[Played]) -> str:
    """The replay in a sentence."""
    traces = [one for one in played if one.probe not in (RECORD, CONNECTION)]
    words = [f"{_same(traces)} of {len(traces)} probes give the same bytes again"] if traces or not played else []
    for what, kind in (("records", RECORD), ("connections", CONNECTION)):
        if some := [one for one in played if one.probe == kind]:
            words.append(f"{_same(some)} of {len(some)} {what}{' are read the same again' if not words else ''}")
    return ", ".join(words)


def _same(played: Sequence[Played]) -> int:
    return sum(one.status == SAME for one in played)


def _lines(one: Played) -> list[str]:
    lines = [f"{one.file}: {one.trace}: {one.status}"]
    if one.message:
        lines.append(f"  {one.message}")
    for name, recorded, replayed in one.differences:
        lines += [f"  {name}", f"  - {recorded or 'nothing'}", f"  + {replayed or 'nothing'}"]
    return lines


def write(form: str, played: Sequence[Played], out: TextIO, *, color: bool) -> None:
    """Write results in a form: "table", "jsonl" or "csv"."""
    if form == "table":
        write_table(played, out, color=color)
    else:
        rows: Iterable[Mapping[str, Json] | Sequence[Json]] = _rows(played) if form == "csv" else map(_object, played)
        emit(form, REPLAY_COLUMNS, rows, out, schema=SCHEMA)


def _object(one: Played) -> dict[str, Json]:
    form: dict[str, Json] = {"file": one.file, "trace": one.trace, "probe": one.probe, "status": one.status}
    if one.message:
        form["message"] = one.message
    if one.differences:
        form["differences"] = [dict(difference._asdict()) for difference in one.differences]
    return form


def _rows(played: Iterable[Played]) -> Iterator[tuple[str, ...]]:
    """One row a difference, and one for each probe without any."""
    for one in played:
        for difference in one.differences or (ReplayDifference("", "", one.message),):
            yield (one.file, one.trace, one.probe, one.status, *difference)


def write_junit(played: Sequence[Played], out: TextIO) -> None:
    """A suite a file, a case a probe: what CI servers read."""
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n')
    files: dict[str, list[Played]] = {}
    for one in played:
        files.setdefault(one.file, []).append(one)
    for file, cases in files.items():
        failed = sum(case.status in (DIFFERS, MISSING) for case in cases)
        errors, skipped = (sum(case.status == status for case in cases) for status in (DIVERGED, UNTOLD))
        out.write(
            f'<testsuite name={_quoted(file)} tests="{len(cases)}" failures="{failed}" errors="{errors}"'
            f' skipped="{skipped}">\n'
        )
        for case in cases:
            out.write(f"<testcase classname={_quoted(case.probe)} name={_quoted(case.trace)}")
            out.write(_outcome(case))
        out.write("</testsuite>\n")
    out.write("</testsuites>\n")


def _outcome(case: Played) -> str:
    if case.status == SAME:
        return "/>\n"
    if case.status == UNTOLD:
        return "><skipped/></testcase>\n"
    kind = "error" if case.status == DIVERGED else "failure"
    text = escape(_clean("\n".join(_lines(case))))
    return f"><{kind} message={_quoted(case.status)}>{text}</{kind}></testcase>\n"


def _quoted(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    """Without what XML 1.0 cannot carry."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)
