# SPDX-License-Identifier: MIT
"""`configtron tune` rollback, recover, reapply: after an apply."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import rows_to, say, warn
from configtron.cli.tune.options import where_options
from configtron.cli.tune.resolved import lease_options, show_notice
from configtron.model.errors import DONE, NOTHING, BadInput, Mismatch


@click.command()
@where_options
@form_options
@click.option("--last", is_flag=True, help="Undo only what has a lease, as its end does: what was kept stays.")
@click.option("--keep", is_flag=True, help="The opposite: keep what is in force, without a lease.")
def rollback(form: str, output_file: str, last: bool, keep: bool, **_: object) -> None:
    """Put the stack back as it was before the first apply, by every driver here; any number of times.

    State with our marks in the kernel and in no journal is removed too; what other programs added stays and is named.
    With --netns, --interface, --cgroup or --listen only state there; with --driver only that driver's. Exit code 4: a
    driver could not put back all, or the journal cannot be written; the watchdog and every later command try again.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    if last and keep:
        raise BadInput("--last and --keep: one or the other")
    with rows_to(form, output_file) as write:
        options = lease_options()
        done = lease.keep(options) if keep else lease.rollback(options, last=last, on_notice=show_notice)
        found = list(rows.rollback_rows(done))
        write(rows.ROLLBACK_COLUMNS, found)
    say(*rows.follow_lines(done))
    if done.failed:
        raise Mismatch("; ".join(done.failed) + "; see: configtron tune status")
    say(*rows.rollback_lines(done, anything=bool(found)))


@click.command()
@form_options
def recover(form: str, output_file: str) -> int:
    """Undo what was left half done and leases that have ended, and start the watchdogs of leases that lost theirs.

    `apply`, `rollback` and `watch` begin with it; the systemd timer runs it. Exit code 4: something could not be
    undone; `status` shows the reason.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    with rows_to(form, output_file) as write:
        done = lease.recover(lease_options())
        write(rows.RECOVER_COLUMNS, rows.recover_rows(done))
    if not done.ended and not done.left:
        say("nothing to recover")
    warn(*rows.recover_lines(done))
    return NOTHING if done.left else DONE


@click.command()
@form_options
def reapply(form: str, output_file: str) -> int:
    """Give connections that are open already the profile of their client, as new ones get it.

    `served` counts the open connections of clients, `moved` those of them whose client has a profile. An initial window
    is not given twice; knobs that the kernel cannot change later stay (docs/tune.md). Exit code 4: nothing is in force
    here, or no driver of it reaches open connections.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    with rows_to(form, output_file) as write:
        done = lease.reapply(lease_options())
        write(rows.REAPPLY_COLUMNS, rows.reapply_rows(done))
    if not done:
        say(rows.NOTHING_HERE)
    return DONE if any(each.connections is not None for each in done) else NOTHING
