# SPDX-License-Identifier: MIT
"""`configtron probe run`: options in, one run, its report out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.completing import lists
from configtron.cli.output import event_lines, progress_bar
from configtron.cli.probe.run_flags import run_options
from configtron.cli.settings import settings
from configtron.linux.signals import terminated
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from configtron.service.campaign import ProbeOptions
    from configtron.service.progress import Event

# Starts per second outside the lab, unless asked otherwise: a site sees two, its operator's network ten, and the whole
# run stays below what one impatient browser does.
LIVE_RATES = {"rate_per_s": 100.0, "host_rate_per_s": 2.0, "network_rate_per_s": 10.0}
# What a resumed run takes from today's command line; all else it keeps as it was begun (service/campaign/running.py).
TODAYS = {
    "resume", "output_file", "form", "fail_on", "metadata_file", "status_updates_file", "save_pcap", "max_runtime_s",
    "words", "dry_run",
}  # fmt: skip


@click.command(short_help="Probe targets; the command meant when none is named.")
@click.argument("words", metavar="[TARGET|@LIST|BLOCK|URL]...", nargs=-1, shell_complete=lists)
@run_options
def run(**given: Any) -> int:
    """Probe targets and keep verdicts and packets.

    A TARGET is a name, an address, a block (192.0.2.0/28) or a URL, with a port if need be; @LIST, or its name alone,
    is a bundled list (`configtron probe lists`). Without targets, those of --input-file.

    \b
        configtron probe example.com
        configtron probe alexa-top1k --lab --seed 1
        configtron probe -i sites.csv -n 100 -f jsonl -o sites.jsonl
    """
    options = options_of(**given)
    from configtron.cli.probe.run_report import show_run
    from configtron.model.records import canonical
    from configtron.report.files import opened
    from configtron.report.progress import CampaignCounts, Progress
    from configtron.service import campaign

    def counts_of(event: Event) -> tuple[CampaignCounts, bool] | None:
        if not isinstance(event, campaign.RunProgress):
            return None
        return CampaignCounts(event.total, event.done, event.calls, event.failed, event.steps), event.last

    campaign.parse_conditions(options.fail_on)
    if options.dry_run:
        with opened(options.output_file) as out:
            total = campaign.planned_targets(options, lambda form: out.write(canonical(form) + "\n"), event_lines())
        click.echo(total.text, err=True)
        return DONE
    with terminated():
        with progress_bar(Progress, counts_of, options.status_updates_file) as display:
            done = campaign.run(options, settings().db, progress=display, argv=sys.argv[1:])
        return show_run(options, done)


def options_of(
    only4: bool, only6: bool, paper_compat: bool, resume: int | None, sites: int | None, backend: str | None, form: str,
    **fields: Any,
) -> ProbeOptions:  # fmt: skip
    """Return the options of the run that the command line asks for. Errors: `BadInput` for a contradiction."""
    from configtron.service.campaign import ProbeOptions

    for name, default in LIVE_RATES.items():
        if fields[name] is None:
            fields[name] = 0.0 if fields["lab"] else default
    if paper_compat:
        if fields["profile"] != "paper" and _typed("profile"):
            raise BadInput("--paper-compat is a profile of its own; leave out --profile")
        fields["profile"] = "paper"
    versions = (4, 6) if only4 and only6 else (6,) if only6 else (4,)
    counts: dict[str, Any] = {"resume": resume or 0, "sites": sites or 0}
    options = ProbeOptions(**fields, format=form, versions=versions, **counts, backend=backend or "")
    if not (options.words or options.input_files or options.resume):
        raise BadInput("no targets; name some, or a list such as alexa-top1k, or --input-file FILE")
    if options.resume:
        _check_resumed(options)
    return options


def _check_resumed(options: ProbeOptions) -> None:
    """Refuse options beside --resume that would have no effect: a resumed run keeps its own."""
    if options.words:
        raise BadInput("--resume goes on with the run's own targets; name no others beside it")
    for param in click.get_current_context().command.params:
        if param.name not in TODAYS and _typed(str(param.name)):
            option = max(param.opts, key=len)
            raise BadInput(f"--resume goes on with the run's own options; leave {option} out, or begin a new run")
    if options.dry_run:
        raise BadInput("--dry-run shows what a new run would probe; leave --resume out")


def _typed(name: str) -> bool:
    """Return whether an option stands on the command line, and not only in the configuration."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
