# SPDX-License-Identifier: MIT
"""`learn import`: a file's outcomes become a log of the database, or its contexts become known.

Inputs are files as numbered lines, stored contexts, and the configurations that were in force.
"""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO
from zoneinfo import ZoneInfo

import numpy as np

from configtron.db.outcomes import Outcomes
from configtron.db.store import Store
from configtron.db.tuning import Tuning
from configtron.fingerprint.capture.source import unpacked
from configtron.fingerprint.capture.surroundings import Places
from configtron.fingerprint.features import Sighting
from configtron.intake.imports.contexts import sighting_of
from configtron.intake.imports.inforce import Deployment, InForce, profile_of
from configtron.intake.imports.joining import Contexted, Joined
from configtron.intake.imports.kinds import HAR, METRICS, OUTCOMES, PAGE, Wanted, imported, kind_of, page_loads
from configtron.intake.imports.reading import LINE_BYTES, Reading, is_json, members, numbered
from configtron.intake.outcome_formats import objects, outcomes
from configtron.learner.logged import Logged, logged_of
from configtron.model.bounds import check_choice, check_number, check_texts
from configtron.model.choices import IMPORT_FORMS, OUTCOME_SOURCES
from configtron.model.errors import BadInput
from configtron.model.nouns import Context, Outcome, Profile
from configtron.model.records import canonical
from configtron.model.tuning_json import setting_of
from configtron.model.wording import count_are, count_of
from configtron.service.progress import Progress, notice, unheard

# A date of an access log.
LOGGED = "%d/%b/%Y:%H:%M:%S %z"
# Outcomes in a transaction, and contexts.
BATCH, CONTEXTS_BATCH = 20_000, 5_000
Lines = Iterator[tuple[int, str]]
# Bytes that are unpacked at once.
BUFFER_BYTES = 1 << 17
# A date so far ahead of this machine's clock is none: zones are less than a day apart.
AHEAD_NS = 86_400 * 10**9
# Lines by which a file's form is recognised: the first of a rotated log may be torn.
HEAD_LINES = 20
# An HTTP archive or an array is read whole, as it is one value. Their beginnings, and how much is read to see those.
ARCHIVE = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{')
ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
START_BYTES = 4096
WHOLE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Imported:
    """reading: what became of the file's lines; kind: of the file; log, metric: of the new log, 0 and "" for none;
    kept: outcomes, or contexts; there: contexts that were stored before; joined: outcomes to contexts, None for none.
    """

    reading: Reading
    kind: str
    kept: int
    log: int = 0
    metric: str = ""
    there: int = 0
    joined: Joined | None = None

    @property
    def stored(self) -> int:
        """Return how many outcomes, or contexts, of the file are in the database."""
        return self.kept + self.there

    @property
    def refused(self) -> str:
        """Return why nothing was stored, where all lines are bad; else ""."""
        reading = self.reading
        if self.stored or not reading.bad:
            return ""
        alone = self.kind == "contexts" or reading.bad == 1
        return f"{reading.first[0]}{'' if alone else f'; {reading.bad} such {reading.unit}s, and no outcome'}"

    def lines(self) -> Iterator[str]:
        """Yield what was stored, what was left out and why, for people."""
        reading, contexts = self.reading, self.kind == "contexts"
        if contexts and self.stored:
            again = f"; {self.there} were kept already" if self.there else ""
            joins = "`configtron learn import` joins outcomes to them by prefix and time"
            yield f"{self.kept} contexts are kept{again}; {joins}"
        elif self.kept:
            of_metric = f" of metric {self.metric}" if self.metric != "plt" else ""
            yield f"log {self.log}: {count_of(self.kept, 'outcome')}{of_metric}"
            yield from [str(self.joined)] if self.joined is not None else []
        yield from [reading.remark] if reading.remark else []
        yield from (f"{count} not taken: {why}" for why, count in reading.left.most_common() if count)
        if not self.stored:
            yield from [] if reading.bad else [f"{reading.name}: no {'context' if contexts else 'outcome'} in it"]
            return
        yield from (f"{count_of(count, 'outcome')} {remark}" for remark, count in reading.remarks.items() if count)
        yield from reading.first
        if reading.bad and not contexts:
            yield f"{reading.bad} of {reading.lines} {reading.unit}s are bad and left out; --strict stops at the first"


def import_file(file: BinaryIO, name: str, options: ImportOptions, progress: Progress = unheard) -> Imported:
    """Read outcomes or contexts from a file into the database, a batch a transaction. Errors: `BadInput` for a file of
    no known form, for options that do not fit it, and, where `strict`, at the first bad line; those before it stay."""
    try:
        changed_ns = os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        changed_ns = 0
    with unpacked(file, name) as source:
        lines, reading, kind = opened(BufferedReader(source, BUFFER_BYTES), name, options.kind, strict=options.strict)
        if kind == "contexts":
            kept, there = keep_contexts(options.db, lines, reading)
            return Imported(reading, kind, kept, there=there)
        outcomes, metric = read(kind, lines, reading, options, progress, changed_ns)
        about = {"file": name} | ({"metric": metric} if metric != "plt" else {})
        about |= {"from": kind} if kind != "outcomes" else {}
        known = contexted(options.db, options.contexts, options.window_s)
        log, kept = _keep(options, about, _batches(outcomes, known), reading, progress)
    joined = known.joined if known is not None and len(known) else None
    return Imported(reading, kind, kept, log, metric, joined=joined)


def _keep(options: ImportOptions, about: dict[str, str], batches: Iterator[Logged], reading: Reading,
          progress: Progress) -> tuple[int, int]:  # fmt: skip
    """Keep outcomes, a batch a transaction; return the log's number, and how many. Errors: `BadInput`, with those
    before it kept."""
    log, kept, timed, quick = 0, 0, 0, 0
    with Outcomes(options.db) as store, _uncollected():
        try:
            for logged in batches:
                if log:
                    store.add(log, logged)
                else:
                    log = store.begin_log(options.source, canonical({**about}), logged)
                kept += len(logged)
                timed += int(np.count_nonzero(logged.contexts.rtt_ms > 0))
                quick += int(np.count_nonzero(logged.plt_ms < logged.contexts.rtt_ms))
        except BadInput as error:
            are = "is" if kept == 1 else "are"
            before = f"; {count_of(kept, 'outcome')} before it {are} kept as log {log}" if kept else ""
            raise BadInput(f"{error}{before}") from error
        except KeyboardInterrupt:
            notice(progress, f"log {log}: {count_are(kept, 'outcome')} kept" if kept else "nothing is kept")
            raise
        earlier, again = store.again(log) if log else (0, 0)
        again = min(again, kept)  # an earlier log may have equal outcomes
    if 2 * quick > timed and "metric" not in about:
        reading.remarks[f"quicker than a round trip, of {timed}: is plt_ms in seconds? It is read as ms"] = quick
    if 2 * again >= kept > 0:
        reading.remarks[f"of the same times are in log {earlier}; each counts twice, but by --log N of one"] = again
    return log, kept


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for cyclic garbage until the block ends: outcomes make none, and it takes an eighth of an import."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _batches(outcomes: Iterator[Outcome], known: Contexted | None) -> Iterator[Logged]:
    """Outcomes, so many at once; a line that cannot be read raises `BadInput` when those before it were handed out."""
    ended = False
    while not ended:
        batch: list[Outcome] = []
        wrong = None
        try:
            for outcome in islice(outcomes, BATCH):
                batch.append(outcome)  # one by one: those before a line that cannot be read stay
        except BadInput as error:
            wrong = error
        if batch:
            logged = logged_of(batch)
            yield known.fill(logged) if known is not None and len(known) else logged
        if wrong is not None:
            raise wrong
        ended = not batch


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """kind: one of `IMPORT_FORMS`, "" for what the content says; contexts: all, last, a watch's number, a file's name,
    none; window_s: how old a context may be; setting: KNOB=VALUE,... of the whole file; places: MaxMind-format files;
    gap_s: of quiet that ends a page view; strict: end at the first bad line. The others are as in `Wanted`."""

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
        check_texts(self)
        check_choice("kind", self.kind, ("", *IMPORT_FORMS))
        check_choice("source", self.source, OUTCOME_SOURCES)
        check_number("window_s", self.window_s, 0)
        check_number("gap_s", self.gap_s, 0)
        check_number("propensity", self.propensity, 0, 1, beside=", or None where it is not known", absent=True)


def opened(stream: BufferedReader, name: str, kind: str, *, strict: bool) -> tuple[Lines, Reading, str]:
    """Return a file's lines, what is counted of them, and its kind. Errors: `BadInput` for a file of no known form."""
    reading = Reading(name, strict, last_ns=time.time_ns() + AHEAD_NS)
    start = _start(stream)
    if kind == HAR or (not kind and ARCHIVE.match(start)):
        return iter([(1, _whole(stream))]), reading, HAR
    raw = _raw(stream, reading)
    if ARRAY.match(start):
        first = next(raw, b"")
        alone = not is_json(first) or not _start(stream)
        raw = members(_whole(stream, first), reading) if alone else chain([first], raw)
    if kind:
        return _lines(raw, reading, kind)
    head = list(islice(raw, HEAD_LINES))
    if not head:
        if reading.bad:
            raise BadInput(reading.first[0])
        return iter(()), reading, "outcomes"
    texts = [line.decode(errors="replace").removeprefix("\ufeff") for line in head if line.strip()]
    return _lines(chain(head, raw), reading, kind_of(texts, name) if texts else "outcomes")


def _lines(raw: Iterable[bytes], reading: Reading, kind: str) -> tuple[Lines, Reading, str]:
    return numbered(raw, reading, "replace" if PAGE in METRICS.get(kind, ()) else "strict"), reading, kind


def _start(stream: BufferedReader) -> bytes:
    """Return the first bytes of a file, not taken from it; "" of one that is torn."""
    try:
        return stream.peek(START_BYTES)[:START_BYTES]
    except (EOFError, OSError):
        return b""


def _raw(stream: BufferedReader, reading: Reading) -> Iterator[bytes]:
    """Yield lines, those that are too long cut to one byte more than allowed; packed ones say if the file is torn."""
    try:
        while line := stream.readline(LINE_BYTES + 1):
            yield line
            while len(line) > LINE_BYTES and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES + 1)
    except (EOFError, OSError) as error:
        reading.refuse(reading.lines + 1, f"the file is torn here ({error})")


def read(
    kind: str, lines: Lines, reading: Reading, given: ImportOptions, progress: Progress, changed_ns: int = 0
) -> tuple[Iterator[Outcome], str]:
    """Return the outcomes of a file, which was written last at changed_ns, and their metric. Errors: `BadInput` for
    options that do not fit it."""
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
                    Places(given.places).of if given.places else None, changed_ns)  # fmt: skip
    if kind == HAR:
        return page_loads(next(lines)[1], reading, wanted), metric
    return imported(kind, lines, reading, wanted), metric


def _whole(stream: BufferedReader, first: bytes = b"") -> str:
    """Return the text of a file after the bytes that were taken from it. Errors: `BadInput`."""
    try:
        data = first + stream.read(WHOLE_BYTES + 1)
        if len(data) > WHOLE_BYTES:
            raise BadInput(f"an archive, or array, of more than {WHOLE_BYTES >> 20} MiB; import it in parts")
        return data.decode("utf-8-sig")
    except (EOFError, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"an archive, or array, that cannot be read: {error}") from error


def _profile(text: str) -> Profile | None:
    if not text:
        return None
    return profile_of(() if text == "default" else tuple(sorted(setting_of(word) for word in text.split(","))))


def _history(db: Path, fixed: Profile | None, progress: Progress) -> InForce:
    """Return what `configtron tune` had in force, by its journal in the same database."""
    if fixed is not None or not db.is_file():
        return InForce([])
    with Tuning(db) as kept:
        history, since = kept.history()
    if not history and not since:
        untouched = "all are taken as the untouched stack (--profile)"
        notice(progress, f"this database keeps no configuration that was in force: {untouched}")
    return InForce([Deployment(*one) for one in history], since)


def _profiles(db: Path) -> dict[str, Profile]:
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
    """Of a date as ISO 8601, or as access logs have it; without a zone it is UTC. Errors: `BadInput`."""
    try:
        found = datetime.strptime(text, LOGGED) if "/" in text else datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInput(f"{text[:60]!r} is no date") from error
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def contexted(db: Path, which: str, window_s: float) -> Contexted | None:
    """Return the contexts that outcomes are joined to; None for none. Errors: `BadInput`."""
    if which == "none" or (which == "all" and not db.is_file()):
        return None
    if which in ("all", "last") or which.isdecimal():
        return Contexted(_kept(db, which), window_s)
    path = Path(which)
    if not path.is_file():
        raise BadInput(f"--contexts {which!r}: no such file; or all, last, a watch's number, none")
    reading = Reading(which, strict=True)
    with path.open("rb") as file, unpacked(file, which) as source:
        seen = sightings(numbered(_raw(BufferedReader(source, BUFFER_BYTES), reading), reading), reading)
        return Contexted(((one.at_ns, one.context) for one in seen), window_s)


def _kept(db: Path, which: str) -> Iterator[tuple[int, Context]]:
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
    for number, form in objects(lines, reading):
        if (seen := reading.read(number, sighting_of, form)) is not None:
            yield seen


def keep_contexts(db: Path, lines: Lines, reading: Reading) -> tuple[int, int]:
    """Keep contexts as a watch of their own, but those that are there; return how many of either."""
    seen, kept, there = sightings(lines, reading), 0, 0
    with Store(db) as store:
        watches: dict[str, int] = {}
        while batch := list(islice(seen, CONTEXTS_BATCH)):
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
