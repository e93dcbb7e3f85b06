# SPDX-License-Identifier: MIT
"""The inputs of `learn import`: files as numbered lines, stored contexts, the configurations that were in force."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast, runtime_checkable
from zoneinfo import ZoneInfo

from configtron.intake.imports.reading import LINE_BYTES, Reading, numbered
from configtron.model.bounds import check_choice, check_number, check_texts
from configtron.model.choices import OUTCOME_SOURCES
from configtron.model.errors import BadInput
from configtron.service.learning.learners import notice
from configtron.service.progress import Progress

if TYPE_CHECKING:
    from configtron.fingerprint.features import Sighting
    from configtron.intake.imports.inforce import InForce
    from configtron.intake.imports.joining import Contexted
    from configtron.model.nouns import Context, Outcome, Profile

Lines = Iterator[tuple[int, str]]
GZIP = b"\x1f\x8b"
# Lines by which a file's form is recognised: the first of a rotated log may be torn.
HEAD_LINES = 20
# An HTTP archive is one object and is read whole. Its beginning, and how much of it is read to see that.
ARCHIVE = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:')
START_BYTES = 4096
ARCHIVE_BYTES = 256 << 20
# Contexts in a transaction.
BATCH = 5_000


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """kind: one of `KINDS`, "" for what the content says; contexts: all, last, a watch's number, a file's name, none;
    window_s: how old a context may be; setting: KNOB=VALUE,... of the whole file; places: MaxMind-format files; gap_s:
    of quiet that ends a page view; strict: end at the first bad line. The others are as in `Wanted`."""

    db: Path
    source: str = "live"
    kind: str = ""
    metric: str = ""
    contexts: str = "all"
    window_s: float = 3600.0
    setting: str = ""
    propensity: float | None = None
    site: str = ""
    client_prefix: str = ""
    timezone: str = "UTC"
    gap_s: float = 10.0
    places: tuple[Path, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        """Check texts, names and ranges. Errors: `BadInput`."""
        from configtron.intake.imports.kinds import KINDS

        check_texts(self)
        check_choice("kind", self.kind, ("", *KINDS))
        check_choice("source", self.source, OUTCOME_SOURCES)
        check_number("window_s", self.window_s, 0)
        check_number("gap_s", self.gap_s, 0)
        if self.propensity is not None:
            check_number("propensity", self.propensity, 0, 1, beside=", or None where it is not known")


def opened(file: BinaryIO, name: str, kind: str, *, strict: bool) -> tuple[Lines, Reading, str]:
    """Return a file's lines, what is counted of them, and its kind. Errors: `BadInput` for a file of no known form."""
    from configtron.intake.imports.kinds import HAR, kind_of

    reading = Reading(name, strict)
    stream = _unpacked(file)
    if kind == HAR or (not kind and ARCHIVE.match(_start(stream))):
        return iter([(1, _whole(stream))]), reading, HAR
    raw = _raw(stream, reading)
    if kind:
        return numbered(raw, reading), reading, kind
    head = list(islice(raw, HEAD_LINES))
    if not head:
        return iter(()), reading, "outcomes"
    texts = [line.decode(errors="replace").removeprefix("\ufeff") for line in head if line.strip()]
    # an unknown form is read as outcomes, and refused as such
    return numbered(chain(head, raw), reading), reading, kind_of(texts) or "outcomes"


@runtime_checkable
class _Peekable(Protocol):
    """A stream whose first bytes can be read without taking them."""

    def peek(self, size: int, /) -> bytes: ...


def _start(stream: BinaryIO) -> bytes:
    """Return the first bytes of a file, not taken from it; "" of one that is torn."""
    try:
        return bytes(stream.peek(START_BYTES)[:START_BYTES]) if isinstance(stream, _Peekable) else b""
    except (EOFError, OSError, zlib.error):
        return b""


def _unpacked(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if _start(file)[:2] == GZIP else file


def _raw(stream: BinaryIO, reading: Reading) -> Iterator[bytes]:
    """Yield lines, those that are too long cut to one byte more than allowed; packed ones say if the file is torn."""
    try:
        while line := stream.readline(LINE_BYTES + 1):
            yield line
            while len(line) > LINE_BYTES and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        reading.refuse(reading.lines + 1, f"the file is torn here ({error})")


def read(
    kind: str, lines: Lines, reading: Reading, given: ImportOptions, progress: Progress
) -> tuple[Iterator[Outcome], str]:
    """Return the outcomes of a file, and their metric. Errors: `BadInput` for options that do not fit it."""
    from configtron.fingerprint.capture.surroundings import Places
    from configtron.intake.imports.kinds import HAR, METRICS, OUTCOMES, Wanted, imported, page_loads
    from configtron.intake.outcome_formats import outcomes

    metrics = METRICS[kind]
    metric = given.metric or metrics[0]
    if metric not in metrics:
        raise BadInput(f"--metric {metric!r}: {kind} measures {', '.join(metrics)}")
    if kind == OUTCOMES:
        return outcomes(lines, given.source, reading), metric
    fixed = _profile(given.setting)
    history = _history(given.db, fixed, progress)
    wanted = Wanted(given.source, metric, history, _profiles(given.db), _offset(given.timezone), _epoch_ns, fixed,
                    given.propensity, given.site, given.client_prefix, given.gap_s,
                    Places(given.places).of if given.places else None)  # fmt: skip
    if kind == HAR:
        return page_loads(next(lines)[1], reading, wanted), metric
    return imported(kind, lines, reading, wanted), metric


def _whole(stream: BinaryIO) -> str:
    try:
        data = stream.read(ARCHIVE_BYTES + 1)
        if len(data) > ARCHIVE_BYTES:
            raise BadInput(f"an HTTP archive of more than {ARCHIVE_BYTES >> 20} MiB; import it in parts")
        return data.decode("utf-8-sig")
    except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        raise BadInput(f"an HTTP archive that cannot be read: {error}") from error


def _profile(text: str) -> Profile | None:
    from configtron.intake.imports.inforce import profile_of
    from configtron.model.tuning_json import setting_of

    if not text:
        return None
    return profile_of(() if text == "default" else tuple(sorted(setting_of(word) for word in text.split(","))))


def _history(db: Path, fixed: Profile | None, progress: Progress) -> InForce:
    """Return what `configtron tune` had in force, by its journal in the same database."""
    from configtron.db.tuning import Tuning
    from configtron.intake.imports.inforce import Deployment, InForce

    if fixed is not None or not db.is_file():
        return InForce([])
    with Tuning(db) as kept:
        history, since = kept.history()
    if not history and not since:
        untouched = "all are taken as the untouched stack (--profile)"
        notice(progress, f"this database keeps no configuration that was in force: {untouched}")
    return InForce([Deployment(*one) for one in history], since)


def _profiles(db: Path) -> dict[str, Profile]:
    from configtron.db.tuning import Tuning

    if not db.is_file():
        return {}
    with Tuning(db) as kept:
        return dict(kept.wanted().profiles)


class _offset:
    """Seconds that a zone's clocks are ahead of UTC, by what they show."""

    def __init__(self, zone: str) -> None:
        try:
            self._zone = ZoneInfo(zone)
        except (ValueError, OSError, KeyError) as error:
            raise BadInput(f"--timezone {zone!r}: no zone of that name; e.g. Europe/Berlin") from error

    def __call__(self, local_s: int) -> float:
        shown = datetime.fromtimestamp(local_s, UTC).replace(tzinfo=self._zone)
        offset = shown.utcoffset()
        return offset.total_seconds() if offset is not None else 0.0


def _epoch_ns(text: str) -> int:
    """Of a date as ISO 8601; without a zone it is UTC. Errors: `BadInput`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInput(f"{text[:60]!r} is no date") from error
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def contexted(db: Path, which: str, window_s: float) -> Contexted | None:
    """Return the contexts that outcomes are joined to; None for none. Errors: `BadInput`."""
    from configtron.intake.imports.joining import Contexted

    if which == "none" or (which == "all" and not db.is_file()):
        return None
    if which in ("all", "last") or which.isdecimal():
        return Contexted(_kept(db, which), window_s)
    path = Path(which)
    if not path.is_file():
        raise BadInput(f"--contexts {which!r}: no such file; or all, last, a watch's number, none")
    reading = Reading(which, strict=True)
    with path.open("rb") as file:
        seen = sightings(numbered(_raw(_unpacked(file), reading), reading), reading)
        return Contexted(((one.at_ns, one.context) for one in seen), window_s)


def _kept(db: Path, which: str) -> Iterator[tuple[int, Context]]:
    from configtron.db.store import Store

    with Store(db) as store:
        watches = store.watches()
        chosen = watches[-1:] if which == "last" else [one for one in watches if which in ("all", str(one.id))]
        if not chosen and which != "all":
            raise BadInput(f"watch {which}: not in {db}; `configtron fingerprint contexts` lists them")
        for watch in chosen:
            for seen in store.contexts(watch):
                yield seen.at_ns, seen.context


def sightings(lines: Iterable[tuple[int, str]], reading: Reading) -> Iterator[Sighting]:
    """Yield the sightings of JSON Lines that `fingerprint live`, `socket` or `contexts` wrote."""
    from configtron.intake.imports.contexts import sighting_of
    from configtron.intake.outcome_formats import objects

    for number, form in objects(lines, reading):
        try:
            seen = sighting_of(form)
        except BadInput as error:
            reading.refuse(number, error)
            continue
        if seen is not None:
            yield seen


def keep_contexts(db: Path, lines: Lines, reading: Reading) -> tuple[int, int]:
    """Keep contexts as a watch of their own, but those that are there; return how many of either."""
    from configtron.db.store import Store
    from configtron.model.records import canonical

    seen, kept, there = sightings(lines, reading), 0, 0
    with Store(db) as store:
        watches: dict[str, int] = {}
        while batch := list(islice(seen, BATCH)):
            new = [one for one in batch if not store.has_context(one)]
            there += len(batch) - len(new)
            for source in sorted({one.source for one in new}):
                mine = [one for one in new if one.source == source]
                if source not in watches:
                    watches[source] = store.begin_watch(source, canonical({"file": reading.name}))
                store.record_contexts(watches[source], mine)
                kept += len(mine)
        for watch in watches.values():
            store.finish_watch(watch, "done", "{}")
    return kept, there
