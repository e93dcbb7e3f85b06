# SPDX-License-Identifier: MIT
"""Captures of any origin as fixtures: the connections that `fingerprint pcap` reads are kept beside each capture.

    CAPTURE.expected.jsonl   one line for each connection, as `configtron fingerprint pcap -f jsonl` writes it
                             (configtron.connection/1), with the capture's name alone in `file`

A later replay compares the connections with that file: the fields that it has, so that a field of a later release is
no difference. A connection is identified by the addresses and ports of its two ends, and among several between the same
ends by its number. In a folder with such files a capture without one is reported too, since its file may be lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from configtron.fingerprint.capture.source import LOOK, opened
from configtron.model.bounds import check_text
from configtron.model.errors import DONE, NOTHING, PARTIAL, USAGE, BadInput
from configtron.model.records import Json, canonical
from configtron.report import replay_results as results
from configtron.report.replay_results import CONNECTION, Played
from configtron.service.capture.reading import CutCapture, Lacks, connection_forms
from configtron.service.replay.capture_contexts import is_capture

SUFFIX = ".expected.jsonl"
# Names of captures: what else is in such a file is refused by its name.
NAMED = re.compile(r"\.(pcapng|p?cap)(\.(gz|bz2|xz|zst|lz4))?$")
SCHEMA = "configtron.connection/1"
LOST = "expected file without its capture: "
Form = dict[str, Json]


def expected_of(capture: Path) -> Path:
    """Return the path of the file with the connections that are expected of a capture."""
    return capture.with_name(capture.name + SUFFIX)


def holds_connections(path: Path) -> bool:
    """Return whether a file has expected connections: its first line names the schema."""
    try:
        with path.open(encoding="utf-8") as file:
            first = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.get("schema") == SCHEMA


def captures_in(folder: Path) -> list[Path]:
    """Return all files of a folder that begin as captures do or are named as such, also compressed."""
    check_text("folder", folder)
    return sorted(path for path in folder.rglob("*") if path.is_file() and (NAMED.search(path.name) or _begins(path)))


def _begins(path: Path) -> bool:
    head = bytearray(LOOK)
    if path.is_file():
        with opened(str(path)) as source:
            source.fill(memoryview(head))
    return is_capture(bytes(head))


def adopted_in(folder: Path) -> set[Path]:
    """Return all captures of a folder that files of expected connections name, lost ones too, and those beside them."""
    found = {path.with_name(path.name.removesuffix(SUFFIX)) for path in folder.rglob(f"*{SUFFIX}")}
    return found | {path for place in {path.parent for path in found} for path in place.iterdir() if _begins(path)}


def read(path: Path) -> list[str]:
    """Return the expected connections as canonical JSON lines. Errors: `BadInput`, with the file and the line."""
    found, number = list[str](), 1
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                form = json.loads(line)
                if not isinstance(form, dict) or form.get("schema") != SCHEMA:
                    raise BadInput(f"{path}: line {number} is no {SCHEMA}; delete the file, run --adopt again")
                found.append(canonical({**form, "file": Path(str(form.get("file"))).name}))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "msg", error)
        raise BadInput(f"{path}: line {number} is no {SCHEMA}: {why}; delete the file, run --adopt again") from error
    return found


def readings(capture: Path, lacks: Lacks = str, *, whole: bool = False) -> list[str]:
    """Return the connections of a capture as they are read now, as JSON lines. Errors: `BadInput`, `Missing`."""
    return [canonical({**form, "file": capture.name}) for form in connection_forms(str(capture), lacks, whole=whole)]


def compared(name: str, expect: Path, after: Iterable[str], only: Sequence[str] = ()) -> tuple[Played, ...]:
    """Compare each connection that is expected (in `expect`) or read now (`after`).

    name   the capture's
    only   compare these fields; (): all that are expected
    """
    if not expect.is_file():
        why = f"capture without its expected file: {expect}; --adopt writes it"
        return (Played(name, Path(name).name, CONNECTION, results.UNTOLD, message=why),)
    wanted, found = _named(read(expect)), _named(after)
    return tuple(_one(name, one, wanted.get(one, ""), found.get(one, ""), only) for one in wanted | found)


def _one(name: str, one: str, before: str, after: str, only: Sequence[str]) -> Played:
    if not after:
        why = "expected, and not in the capture as it is read now"
        return Played(name, one, CONNECTION, results.MISSING, message=why)
    if not before:
        fresh = results.ReplayDifference("connection", "", after)
        return Played(name, one, CONNECTION, results.DIFFERS, (fresh,))
    return results.compared(name, one, CONNECTION, before, after, only, known=True)


def _named(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    count: dict[str, int] = {}
    for line in lines:
        form = json.loads(line)
        ends = "-".join(_end(cast(Form, form.get(side) or {})) for side in ("client", "server"))
        count[ends] = count.get(ends, 0) + 1
        found[ends if count[ends] == 1 else f"{ends}#{count[ends]}"] = line
    return found


def _end(side: Form) -> str:
    return f"{side.get('address')}:{side.get('port')}"


def adopt(captures: Sequence[Path], lacks: Lacks = str) -> list[tuple[Path, Path, int]]:
    """Write the connections of each capture beside it; return each capture, that file, how many connections it has.

    One that has such a file is passed over. Errors: `BadInput`.
    """
    check_text("captures", list(captures))
    written = []
    for capture in captures:
        if expected_of(capture).exists():
            continue
        lines = readings(capture, lacks, whole=True)
        try:
            expected_of(capture).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{expected_of(capture)}: {error.strerror}") from error
        written.append((capture, expected_of(capture), len(lines)))
    return written


def adopt_in(files: Sequence[Path], lacks: Lacks = str) -> tuple[list[str], int]:
    """Adopt captures, and those in folders; return a line about each, and the exit code: one that is cut is 3; one that
    cannot be read leaves the others as they are (3), or alone (2); no connection is 4.

    Errors: `BadInput` where there is no capture, `Missing`.
    """
    check_text("files", list(files))
    found = [path for file in files for path in (captures_in(file) if file.is_dir() else [file])]
    if not found:
        raise BadInput("nothing to adopt: name captures (pcap, pcapng, also compressed), or folders of them")
    written, bad, is_cut = list[tuple[Path, Path, int]](), list[str](), False
    for path in found:
        try:
            written += adopt((path,), lacks)
        except BadInput as error:
            bad.append(f"not adopted: {error}")
            is_cut |= isinstance(error, CutCapture)
    lines = [
        f"kept as what is expected: {path} ({count} connection{'s' * (count > 1)})" if count
        else f"{one}: no TCP connection in it, so none is expected of it"
        for one, path, count in sorted(written, key=lambda one: not one[2])
    ]  # fmt: skip
    old = len(found) - len(written) - len(bad)
    left = [f"left as they are: {old} adopted before; without --adopt they are compared, --update renews"] * bool(old)
    some = old or is_cut or any(count for *_, count in written)
    code = (PARTIAL if bad else DONE) if some else USAGE if bad else NOTHING
    return lines + left + bad, code
