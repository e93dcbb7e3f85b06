# SPDX-License-Identifier: MIT
"""`configtron tune verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import CONDITION, DONE, NOTHING, Missing

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.db.tuning import Tuning
    from configtron.model.records import Json
    from configtron.model.tuning import Answers
    from configtron.tune.journal import Act

DEVIATION_COLUMNS = ("act", "driver", "scope", "knob", "applied", "found")
# Prefixes that differ alike, as behind a gateway that changed, are one row beyond so many.
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
    from configtron.cli.tune.desk import desk
    from configtron.db.glance import glance
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.tune.journal import IN_FORCE

    def look(book: Tuning) -> tuple[int, int, list[dict[str, Json]], list[tuple[Act, Answers]]]:
        here = desk(book)
        acts = [act for act in book.acts(*IN_FORCE) if act.boot == here.boot and act.space in ("", here.space)]
        rows = [row for act in acts for row in _differences(here, act)]
        answers = [(act, found) for act in acts if (found := _asked(here, act)) is not None]
        return len(acts), sum(len(act.rules.prefixes) for act in acts), rows, answers

    acts, prefixes, rows, answers = glance(settings().db, look)
    rows += [row for act, found in answers for row in _answered(act, found)]
    unasked = [(act, line) for act, found in answers for line in found.unasked]
    with opened(output_file) as out:
        write_rows(form, DEVIATION_COLUMNS, [*rows, *map(_unasked_row, unasked)] if form == "jsonl" else rows, out)
    if settings().loudness >= 0:
        asked = "".join(f", {f.asked} clients of {f.prefixes} prefixes asked about" for _, f in answers)
        result = f"{acts} acts, {prefixes} prefixes read back{asked}: {len(rows)} differences"
        click.echo(result if acts else "nothing of ours is in force here", err=True)
        for act, line in unasked:
            click.echo(f"act {act.id} ({act.driver}): {line}", err=True)
    return CONDITION if rows else DONE if acts else NOTHING


def _asked(here: Desk, act: Act) -> Answers | None:
    from configtron.model.protocols import Asker

    driver = here.load(act.driver, act.place)
    return driver.ask(act.rules) if isinstance(driver, Asker) else None


def _answered(act: Act, answers: Answers) -> Iterator[dict[str, Json]]:
    """A row a difference; many that are alike in all but their prefix are one."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in answers.differences:
        alike.setdefault((one.knob, one.applied, one.found), []).append(one.scope)
    for (knob, applied, found), scopes in alike.items():
        many = len(scopes) > SINGLY
        for scope in [f"{len(scopes)} prefixes, e.g. {scopes[0]}"] if many else scopes:
            yield {
                "act": act.id, "driver": act.driver, "scope": scope, "knob": knob, "applied": applied, "found": found,
            }  # fmt: skip


def _unasked_row(unasked: tuple[Act, str]) -> dict[str, Json]:
    act, line = unasked
    return {"kind": "unasked", "act": act.id, "driver": act.driver, "scope": "", "knob": "", "found": line}


def _differences(here: Desk, act: Act) -> Iterator[dict[str, Json]]:
    from configtron.cli.tune.acting import in_force
    from configtron.model.protocols import RefusalCounter
    from configtron.model.records import value_form
    from configtron.tune.plan import advise

    driver = here.load(act.driver, act.place)
    if lack := driver.missing():
        raise Missing(f"act {act.id}: driver {act.driver}: {lack}")
    for wrong in advise(act.driver, act.rules, in_force(driver, [act.rules])):
        yield {
            "act": act.id, "driver": act.driver, "scope": wrong.scope, "knob": wrong.knob,
            "applied": value_form(wrong.was), "found": value_form(wrong.to),
        }  # fmt: skip
    if isinstance(driver, RefusalCounter):
        for knob, (count, why) in driver.refusals().items():
            yield {
                "act": act.id, "driver": act.driver, "scope": "connections", "knob": knob,
                "applied": None, "found": f"refused {count} times: {why}",
            }  # fmt: skip
