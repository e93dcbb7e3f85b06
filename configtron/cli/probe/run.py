# SPDX-License-Identifier: MIT
"""`configtron probe run`: options in, one run, its report out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.advanced import LongCommand
from configtron.cli.completing import lists
from configtron.cli.options import check_alone, typed
from configtron.cli.output import event_lines, progress_bar, say, warn
from configtron.cli.probe.names import check_fields
from configtron.cli.probe.run_flags import ADVANCED, run_options
from configtron.cli.settings import settings
from configtron.linux.signals import terminated
from configtron.model.errors import DONE, BadInput
from configtron.report.files import opened

if TYPE_CHECKING:
    from configtron.report.progress import CampaignCounts
    from configtron.service.campaign import ProbeOptions
    from configtron.service.progress import Event

# What a resumed run takes from today's command line; all else it keeps as it was begun (service/campaign/running.py).
TODAYS = {
    "resume", "output_file", "form", "fields", "fail_on", "metadata_file", "status_updates_file", "save_pcap",
    "max_runtime_s", "opt_out_files", "cluster", "words", "dry_run",
}  # fmt: skip


@click.command(cls=LongCommand, advanced=ADVANCED)
@click.argument("words", metavar="[TARGET|@LIST|BLOCK|URL]...", nargs=-1, shell_complete=lists)
@run_options
def run(**given: Any) -> int:
    """Probe targets, and store verdicts and packets.

    A TARGET is a name, an address, a block (192.0.2.0/28) or a URL, with or without a port. @LIST, or its name
    alone, is a bundled list (`configtron probe lists`). --input-file reads targets from a file.

    \b
        configtron probe 127.0.0.1 --allow 127.0.0.1
        configtron probe alexa-top1k --lab --seed 1
        configtron probe -i sites.csv -f jsonl -o sites.jsonl
    """
    options = options_of(**given)
    from configtron.model.records import canonical
    from configtron.service import campaign

    campaign.parse_conditions(options.fail_on)
    if options.dry_run:
        with opened(options.output_file) as out:
            total = campaign.planned_targets(options, lambda form: out.write(canonical(form) + "\n"), event_lines())
        click.echo(total.text, err=True)
        return DONE
    with terminated():
        with progress_bar(_counts_of, options.status_updates_file) as display:
            done = campaign.run(options, settings().db, progress=display, argv=sys.argv[1:])
        written = campaign.write_run(options, done, settings().db, color=settings().color)
        for text, even_quiet in written.lines:
            (warn if even_quiet else say)(text)
        return written.exit_code


def _counts_of(event: Event) -> tuple[CampaignCounts, bool] | None:
    from configtron.service.campaign import RunProgress

    return (event.counts(), event.last) if isinstance(event, RunProgress) else None


def options_of(
    only4: bool, only6: bool, paper_compat: bool, resume: int | None, sites: int | None, backend: str | None, form: str,
    **fields: Any,
) -> ProbeOptions:  # fmt: skip
    """Return the options of the run that the command line asks for. Errors: `BadInput` for a contradiction."""
    from configtron.service.campaign.run_options import ProbeOptions, live_rates

    fields |= live_rates(fields)
    check_fields(form, fields["fields"])
    if paper_compat:
        if fields["profile"] != "paper" and "profile" in typed():
            raise BadInput("--paper-compat is a profile of its own; leave out --profile")
        fields["profile"] = "paper"
    versions = (4, 6) if only4 and only6 else (6,) if only6 else (4,)
    counts: dict[str, Any] = {"resume": resume or 0, "sites": sites or 0}
    options = ProbeOptions(**fields, format=form, versions=versions, **counts, backend=backend or "")
    if not (options.words or options.input_files or options.resume):
        raise BadInput("no targets; name some, or a list such as alexa-top1k, or --input-file FILE")
    if options.resume:
        # Refuse options beside --resume that would have no effect: a resumed run keeps its own.
        if options.words:
            raise BadInput("--resume goes on with the run's own targets; name no others beside it")
        check_alone(TODAYS, "--resume goes on with the run's own options", ", or begin a new run")
        if options.dry_run:
            raise BadInput("--dry-run shows what a new run would probe; leave --resume out")
    return options
