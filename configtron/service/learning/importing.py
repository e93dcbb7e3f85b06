# SPDX-License-Identifier: MIT
"""`learn import`: a file's outcomes become a log of the database, or its contexts become known."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from configtron.db.outcomes import Outcomes
from configtron.intake.imports.joining import Contexted, Joined
from configtron.intake.imports.reading import Reading
from configtron.learner.logged import Logged, logged_of
from configtron.model.counting import count_of
from configtron.model.errors import BadInput
from configtron.model.nouns import Outcome
from configtron.model.records import canonical
from configtron.service.learning.learners import notice
from configtron.service.learning.sources import ImportOptions, contexted, keep_contexts, opened, read
from configtron.service.progress import Progress, unheard

# Outcomes in a transaction.
BATCH = 20_000


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
        yield from (f"{count} not taken: {why}" for why, count in reading.left.most_common() if count)
        if not self.stored:
            yield from [] if reading.bad else [f"{reading.name}: no {'context' if contexts else 'outcome'} in it"]
            return
        yield from reading.first
        if reading.bad and not contexts:
            yield f"{reading.bad} of {reading.lines} {reading.unit}s are bad and left out; --strict stops at the first"


def import_file(file: BinaryIO, name: str, options: ImportOptions, progress: Progress = unheard) -> Imported:
    """Read outcomes or contexts from a file into the database, a batch a transaction. Errors: `BadInput` for a file of
    no known form, for options that do not fit it, and, where `strict`, at the first bad line; those before it stay."""
    lines, reading, kind = opened(file, name, options.kind, strict=options.strict)
    if kind == "contexts":
        kept, there = keep_contexts(options.db, lines, reading)
        return Imported(reading, kind, kept, there=there)
    outcomes, metric = read(kind, lines, reading, options, progress)
    about = {"file": name} | ({"metric": metric} if metric != "plt" else {})
    about |= {"from": kind} if kind != "outcomes" else {}
    known = contexted(options.db, options.contexts, options.window_s)
    log, kept = _keep(options, canonical({**about}), _batches(outcomes, known), progress)
    joined = known.joined if known is not None and len(known) else None
    return Imported(reading, kind, kept, log, metric, joined=joined)


def _keep(options: ImportOptions, about: str, batches: Iterator[Logged], progress: Progress) -> tuple[int, int]:
    """Keep outcomes, a batch a transaction; return the log's number, and how many. Errors: `BadInput`, with those
    before it kept."""
    log, kept = 0, 0
    with Outcomes(options.db) as store, _uncollected():
        try:
            for logged in batches:
                if log:
                    store.add(log, logged)
                else:
                    log = store.begin_log(options.source, about, logged)
                kept += len(logged)
        except BadInput as error:
            are = "is" if kept == 1 else "are"
            before = f"; {count_of(kept, 'outcome')} before it {are} kept as log {log}" if kept else ""
            raise BadInput(f"{error}{before}") from error
        except KeyboardInterrupt:
            notice(
                progress,
                f"log {log}: {count_of(kept, 'outcome')} {'is' if kept == 1 else 'are'} kept"
                if kept
                else "nothing is kept",
            )
            raise
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
