# SPDX-License-Identifier: MIT
"""Site models from recorded page loads (HTTP Archive files, as browsers' network tools save them).

Question   What would our client and servers have to do to load the page that the file recorded?
Method     Each answered request is a row of the model. Its parent is the initiator that Chrome notes, else what the
           Referer names, else the document. Where in an HTML parent it stands follows from time: how far the parent had
           come when the request began. A request that began after its parent had ended gets the difference as
           `delay_ms`, except in a wave. Requests after a second of quiet begin a new wave; the quiet is its gap.
Reads as   the text of a model (model.py), to be read, corrected and kept.
Fails as   BadInput: no such file, not HAR, no document in it.
Differs    from the recording: bodies are made anew; what was compressed counts as it was sent; redirects, failures and
           data: addresses are left out; a parent too short to name its children is made longer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from configtron.lab.testbed.model import LEAST_BYTES, from_toml
from configtron.lab.testbed.pages import HEAD_BYTES, PARENTS, REFERENCE_BYTES, TAIL_BYTES
from configtron.model.errors import BadInput

# Part of a MIME type -> kind, the first that fits; everything else is fetched like JSON.
KINDS = {
    "html": "html", "css": "style", "javascript": "script", "ecmascript": "script", "font": "font", "image": "image",
}  # fmt: skip
# A page that asked for nothing for so long was complete; what follows is a visitor's or a timer's.
QUIET_MS = 1000.0
# Most delay put down to a script's own work; a longer one has a cause that the recording does not show.
MOST_DELAY_MS = 500.0


@dataclass(slots=True)
class _Entry:
    """One answered request; times in ms since the document was asked for."""

    url: str
    kind: str
    size: int
    begin: float
    answer: float
    end: float
    initiator: str
    parent: int = -1
    wave: int = 0


def read(path: Path, name: str = "") -> str:
    """Return the model of the page that this file recorded; `name` is the file's own when not given."""
    try:
        return model(path.read_text(encoding="utf-8-sig"), name or path.stem)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except (BadInput, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error


def model(text: str, name: str) -> str:
    """Return the model's text."""
    try:
        entries = _entries(json.loads(text)["log"]["entries"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BadInput(f"no HTTP archive: {type(error).__name__} {error}") from error
    if not entries:
        raise BadInput("holds no answered request for a document")
    gaps = _waves(entries)
    _parents(entries)
    _room(entries)
    made = _text(entries, gaps, name)
    from_toml(made)  # a name or host that no page can have is an error here, not when the model is read
    return made


def _entries(rows: Sequence[Mapping[str, Any]]) -> list[_Entry]:
    """Return the answered requests from the document on, by start time."""
    rows = sorted(rows, key=lambda row: datetime.fromisoformat(row["startedDateTime"]))
    made: list[_Entry] = []
    for row in rows:
        entry = _entry(row, datetime.fromisoformat(rows[0]["startedDateTime"]))
        if entry and (made or entry.kind == "html"):
            made.append(entry)
    zero = made[0].begin if made else 0.0
    for entry in made:
        entry.begin, entry.answer, entry.end = entry.begin - zero, entry.answer - zero, entry.end - zero
    return made


def _entry(row: Mapping[str, Any], first: datetime) -> _Entry | None:
    url, answer = str(row["request"]["url"]), row["response"]
    if urlsplit(url).scheme not in ("http", "https") or answer["status"] not in (200, 203, 206):
        return None
    begin = (datetime.fromisoformat(row["startedDateTime"]) - first).total_seconds() * 1000
    took = float(row["time"])
    if not isfinite(took):
        raise ValueError(f"{url}: a time that is no number")
    end = begin + max(0.0, took)
    mime = str(answer["content"].get("mimeType", "")).lower()
    kind = next((kind for word, kind in KINDS.items() if word in mime), "json")
    receive = max(0.0, float(row.get("timings", {}).get("receive", 0)))
    return _Entry(url, kind, _size(answer), begin, end - receive, end, _initiator(row))


def _size(answer: Mapping[str, Any]) -> int:
    """Of the body as it was sent, where the browser noted that; else as it was unpacked."""
    sent = int(answer.get("bodySize", -1))
    if sent <= 0 and "_transferSize" in answer:
        sent = int(answer["_transferSize"]) - max(0, int(answer.get("headersSize", 0)))
    return max(LEAST_BYTES, sent if sent > 0 else int(answer["content"].get("size", 0)))


def _initiator(row: Mapping[str, Any]) -> str:
    """Return the address that made the browser ask, or ""."""
    noted = row.get("_initiator") or {}
    stack = noted.get("stack") or {}
    while stack and not stack.get("callFrames") and stack.get("parent"):
        stack = stack["parent"]
    frames = stack.get("callFrames") or []
    if url := noted.get("url") or (frames[0].get("url") if frames else ""):
        return str(url)
    headers = row["request"].get("headers") or []
    return next((str(h["value"]) for h in headers if str(h["name"]).lower() == "referer"), "")


def _waves(entries: Sequence[_Entry]) -> list[float]:
    """Set each entry's `wave`; return the gap before each wave, ms."""
    gaps: list[float] = []
    done = entries[0].end
    for entry in entries:
        if entry.begin - done > QUIET_MS:
            gaps.append(round(entry.begin - done))
        entry.wave = len(gaps)
        done = max(done, entry.end)
    if gaps:  # a model with waves cannot hold HTML frames: they are fetched like JSON
        for entry in entries[1:]:
            entry.kind = "json" if entry.kind == "html" else entry.kind
    return gaps


def _parents(entries: Sequence[_Entry]) -> None:
    """The latest entry of the initiator's address that may name such a thing; else the document."""
    for i, entry in enumerate(entries[1:], start=1):
        named = [k for k in range(i) if entries[k].url == entry.initiator and _may_name(entries[k], entry)]
        entry.parent = named[-1] if named else 0


def _may_name(parent: _Entry, child: _Entry) -> bool:
    if parent.kind == "style":
        return child.kind in ("image", "font")
    return parent.kind in PARENTS


def _room(entries: Sequence[_Entry]) -> None:
    for i, entry in enumerate(entries):
        count = sum(child.parent == i for child in entries)
        if count:
            entry.size = max(entry.size, HEAD_BYTES + TAIL_BYTES + REFERENCE_BYTES * count)


def _text(entries: Sequence[_Entry], gaps: Sequence[float], name: str) -> str:
    hosts = list(dict.fromkeys(urlsplit(entry.url).hostname or "unknown.example" for entry in entries))
    lines = [f"# Imported from an HTTP archive: {len(entries)} objects.", f"name = {json.dumps(name)}"]
    lines += [f"origins = {json.dumps(hosts)}", *([f"gaps_ms = {json.dumps(list(gaps))}"] if gaps else [])]
    for i in range(len(entries)):
        lines += ["", "[[objects]]", *(f"{key} = {json.dumps(value)}" for key, value in _row(entries, i).items())]
    return "\n".join([*lines, ""])


def _row(entries: Sequence[_Entry], i: int) -> dict[str, str | float]:
    entry = entries[i]
    row: dict[str, str | float] = {"name": _name(i), "kind": entry.kind, "bytes": entry.size}
    row["origin"] = urlsplit(entry.url).hostname or "unknown.example"
    if i:
        parent = entries[entry.parent]
        row |= {"parent": _name(entry.parent)} if entry.parent else {}
        if parent.kind == "html":
            share = (entry.begin - parent.answer) / max(1.0, parent.end - parent.answer)
            row["at"] = round(min(1.0, max(0.0, share)), 3)
        late = entry.begin - parent.end
        if late > 0 and not entry.wave:
            row["delay_ms"] = round(min(late, MOST_DELAY_MS), 1)
    if entry.wave:
        row["wave"] = entry.wave
    return row


def _name(i: int) -> str:
    return f"object{i}" if i else "index"
