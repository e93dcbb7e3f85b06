# SPDX-License-Identifier: MIT
"""`configtron tune status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options, where_options
from configtron.cli.tune.resolved import lease_options, place
from configtron.model.errors import DONE

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.lease import StatusReport

IN_FORCE_COLUMNS = (
    "act", "status", "driver", "place", "profiles", "prefixes", "in_force", "held", "lease_left_s", "keeper", "about",
)  # fmt: skip


@click.command(short_help="Show what is in force, by which driver and until when.")
@where_options
@form_options
def status(form: str, output_file: str, **_: object) -> int:
    """Show what is in force and by which driver, how long its lease lasts, which process will undo it (`keeper`, the
    watchdog), and what is frozen.

    A scope that another program changed stays frozen until `unfreeze`, also after a rollback, when nothing of ours is
    in force there: rows with the status `frozen`, after the acts. What the journal says is compared with the kernel:
    `in_force` counts the prefixes that read back as applied, and `about` says what differs (`verify` shows it). What
    stands here by our marks in no journal has the status `unjournaled`. Nothing is written. Exit code 0 also if nothing
    is in force.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    report = lease.status(lease_options())
    with opened(output_file) as out:
        write_rows(form, IN_FORCE_COLUMNS, [*_acts(report), *_unjournaled(report), *_frozen(report)], out)
    if settings().loudness >= 0:
        if not (report.transactions or report.unjournaled):
            click.echo("nothing of ours is in force", err=True)
        if frozen := frozen_text([scope.scope for scope, _ in report.frozen]):
            click.echo(frozen, err=True)
    return DONE


def _acts(report: StatusReport) -> Iterator[dict[str, Json]]:
    from configtron.model.tuning_json import place_text

    for each in report.transactions:
        act = each.transaction
        yield {
            "kind": "act", "act": act.id, "status": act.status, "driver": act.driver, "place": place_text(act.place),
            "space": act.space, "begun_at": act.begun_at, "profiles": len(act.rules.profiles),
            "prefixes": len(act.rules.prefixes), "in_force": each.in_force, "default": act.rules.default,
            "held": act.held, "over": act.over, "lease_left_s": each.lease_left_s, "keeper": each.watchdog,
            "about": hint(each.about),
        }  # fmt: skip


def _unjournaled(report: StatusReport) -> Iterator[dict[str, Json]]:
    from configtron.model.tuning_json import place_text

    for driver, what, owner in report.unjournaled:
        about = f"{what}: {owner or hint('in no journal; configtron tune rollback takes it away')}"
        yield {"kind": "unjournaled", "status": "unjournaled", "driver": driver, "place": place_text(place()),
               "about": about}  # fmt: skip


def _frozen(report: StatusReport) -> Iterator[dict[str, Json]]:
    for frozen, has_transaction in report.frozen:
        about = f"{frozen.scope}: {frozen.was or 'none'} became {frozen.found or 'none'} by another hand"
        if not has_transaction:
            about += "; taken back since"
        yield {
            "kind": "frozen", "status": "frozen", "driver": frozen.driver, "place": frozen.place, "scope": frozen.scope,
            "was": frozen.was, "found": frozen.found, "frozen_at": frozen.frozen_at, "about": about,
        }  # fmt: skip


def frozen_text(scopes: Sequence[str]) -> str:
    """Return how many scopes are frozen and how that ends, in one line; "" if none is."""
    if not scopes:
        return ""
    count = f"{scopes[0]} is" if len(scopes) == 1 else f"{len(scopes)} scopes are"
    which = scopes[0] if len(scopes) == 1 else "SCOPE..., or --all"
    return hint(f"{count} frozen: no plan touches what another program changed, until configtron tune unfreeze {which}")
