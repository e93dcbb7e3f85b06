# SPDX-License-Identifier: MIT
"""Lines for programs: JSON Lines (the canonical form, `probe.schema.json`) and CSV (one row a verdict)."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from configtron.model.errors import CANNOT_WRITE, cannot_write
from configtron.model.nouns import Observation, Vantage
from configtron.model.records import Result, canonical, result_to_json, target_record, value_form
from configtron.report.csv_columns import PROBE_COLUMNS
from configtron.report.folding import table_lines, width_of
from configtron.report.target_results import TargetResult


@contextmanager
def opened(path: str) -> Iterator[TextIO]:
    """A file to write, or stdout for "-"."""
    if path == "-":
        with _named("standard output"):
            yield sys.stdout
            sys.stdout.flush()
        return
    try:
        file = Path(path).open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise cannot_write(path, error) from error
    with _named(path), file:
        yield file


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Name the file when the disk is full: an error of `write` and `flush` has no name."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in CANNOT_WRITE:
            error.filename = path
        raise


def can_be_written(*files: str | Path | None) -> None:
    """Check, before the work, that results can be written to the file; None and "-" can. A file that is
    not there is made. Errors: `BadInput`."""
    for file in files:
        if file is not None and str(file) != "-":
            try:
                Path(file).open("ab").close()
            except OSError as error:
                raise cannot_write(file, error, "; name a file that can be written") from error


def visible(text: str) -> str:
    """The text with each character that does not print as its number: strangers' words move no cursor, turn no line."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def write_jsonl(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO) -> None:
    """One complete record per target and vantage."""
    for item in found:
        vantage = vantages.get(item.vantage) or Vantage(item.vantage, item.vantage)
        verdicts = list(item.verdicts.values())
        out.write(target_record(item.fingerprint.target, vantage, verdicts, item.evidence) + "\n")


def write_csv(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO) -> None:
    """One row per verdict, under a header; a lower bound is written ">= n", a list as JSON."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(PROBE_COLUMNS)
    for item in found:
        target = item.fingerprint.target
        region = vantages[item.vantage].region if item.vantage in vantages else item.vantage
        about = (target.host, target.address, target.port, target.provider, target.tag, item.vantage, region)
        for knob, verdict in item.verdicts.items():
            writer.writerow((*about, knob, plain_value(verdict), verdict.unit, verdict.grade, verdict.reason or ""))


def plain_value(verdict: Observation) -> str:
    """A verdict's value in one cell: a lower bound as ">= n", a list as JSON, none as nothing."""
    if verdict.value is None:
        return ""
    return canonical(value_form(verdict.value)) if isinstance(verdict.value, tuple) else verdict.text


def write_results(results: Iterable[Result], out: TextIO) -> None:
    """One line per probe call: single readings, as a worker writes them."""
    for result in results:
        out.write(result_to_json(result) + "\n")


def write_list(schema: str, names: Sequence[str], rows: Sequence[Sequence[str | int]], form: str, out: TextIO) -> None:
    """Write rows of the database under names: "jsonl" (of that schema), "csv" or, for people, in columns."""
    if form == "jsonl":
        out.writelines(canonical({"schema": schema, **dict(zip(names, row, strict=True))}) + "\n" for row in rows)
    elif form == "csv":
        csv.writer(out, lineterminator="\n").writerows((names, *rows))
    else:
        lines = [tuple(names), *(tuple(map(str, row)) for row in rows)]
        out.writelines(f"{line}\n" for line in table_lines(lines, width_of(out)))
