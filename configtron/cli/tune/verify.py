# SPDX-License-Identifier: MIT
"""`configtron tune verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.cli.tune.resolved import lease_options
from configtron.model.errors import CONDITION, DONE, NOTHING

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.lease import VerifyReport

DEVIATION_COLUMNS = ("act", "driver", "scope", "knob", "applied", "found")
# Up to so many prefixes that differ alike, as behind a gateway that changed, are rows of their own; more are one row.
SINGLY = 8


@click.command(short_help="Read everything back and compare it with what was applied.")
@form_options
def verify(form: str, output_file: str) -> int:
    """Read back from the kernel all that is in force, and show where it is not what was applied. Nothing is written.
    A knob that the kernel refuses at single connections is shown too, where the driver sees that.

    By the driver route the kernel is also asked where it would send packets to clients, and how a connection to them
    would begin (one that sends no packet): of all prefixes up to 256, else of 256. A rule, route or gateway of
    another's that leads them elsewhere is a difference; a rule whose condition cannot be asked about (a mark, a port)
    is named.

    Exit code 1: something differs; 4: nothing is in force.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    report = lease.verify(lease_options())
    rows = [*_differences(report), *_answers(report)]
    with opened(output_file) as out:
        write_rows(form, DEVIATION_COLUMNS, [*rows, *_unasked(report)] if form == "jsonl" else rows, out)
    if settings().loudness >= 0:
        for line in _lines(report, len(rows)):
            click.echo(line, err=True)
    return CONDITION if rows else DONE if report.transactions else NOTHING


def _differences(report: VerifyReport) -> Iterator[dict[str, Json]]:
    from configtron.model.records import value_form

    for one in report.differences:
        yield _row(one.transaction, one.driver, one.scope, one.knob, value_form(one.applied), value_form(one.found))


def _answers(report: VerifyReport) -> Iterator[dict[str, Json]]:
    """Yield a row a difference; many that are alike in all but their prefix are one."""
    for act, answers in report.answers:
        alike: dict[tuple[str, str, str], list[str]] = {}
        for one in answers.differences:
            alike.setdefault((one.knob, one.applied, one.found), []).append(one.scope)
        for ends, scopes in alike.items():
            many = len(scopes) > SINGLY
            for scope in [f"{len(scopes)} prefixes, e.g. {scopes[0]}"] if many else scopes:
                yield _row(act.id, act.driver, scope, *ends)


def _row(*cells: Json) -> dict[str, Json]:
    return dict(zip(DEVIATION_COLUMNS, cells, strict=True))


def _unasked(report: VerifyReport) -> Iterator[dict[str, Json]]:
    for act, answers in report.answers:
        for line in answers.unasked:
            yield {"kind": "unasked", "act": act.id, "driver": act.driver, "scope": "", "knob": "", "found": line}


def _lines(report: VerifyReport, differences: int) -> Iterator[str]:
    asked = "".join(f", {f.asked} clients of {f.prefixes} prefixes asked about" for _, f in report.answers)
    result = f"{report.transactions} acts, {report.prefixes} prefixes read back{asked}: {differences} differences"
    yield result if report.transactions else "nothing of ours is in force here"
    for act, answers in report.answers:
        yield from (f"act {act.id} ({act.driver}): {line}" for line in answers.unasked)
