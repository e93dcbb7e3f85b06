# SPDX-License-Identifier: MIT
"""`configtron fingerprint` diversity, contexts: what runs and watches stored."""

from __future__ import annotations

from functools import partial

import click

from configtron.cli.completing import measured, runs
from configtron.cli.options import form_of, form_options, page_options
from configtron.cli.output import say
from configtron.cli.probe.names import known_knob, run_number
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING
from configtron.report.files import opened


@click.command()
@click.argument("run", callback=run_number, shell_complete=runs)
@page_options
@click.option("--baseline", metavar="NAME", default="",
              help="The vantage or region to compare with.  [default: the run's first]")  # fmt: skip
@click.option("--knob", "knobs", multiple=True, metavar="KNOB", callback=known_knob, shell_complete=measured,
              help="This parameter instead of those of the paper's Table 2; may be repeated.")  # fmt: skip
def diversity(run: int, form: str | None, output_file: str, baseline: str, knobs: tuple[str, ...]) -> int:
    """Compare a run (a number, or last) between regions: the paper's Table 2.

    For each parameter the values in the baseline region, how many sites are set otherwise elsewhere, of those whose
    setting is known in both (grade A or B), with Wilson's 95 % interval, and an example. The page (-f html) adds plots
    and packets. Exit code 4: the run holds no verdict to compare.
    """
    from configtron.report.comparison import compared
    from configtron.report.diversity_lines import write_comparison
    from configtron.service import campaign
    from configtron.service.campaign.diversity_page import comparison_remark, region_page

    form = form_of(form, output_file)
    with campaign.open_runs(settings().db) as store:
        wanted = campaign.find_run(store, run)
        names = list(campaign.vantages_of_run(wanted))
        here = campaign.baseline_of(wanted, baseline)
        found = compared(campaign.records_of(store, wanted), knobs or campaign.SUMMARY, names, here)
        if remark := comparison_remark(wanted, found):
            say(remark)
        if not found.parameters:
            return NOTHING
        # Before the file is opened: an error must not leave half a page.
        page = region_page(store, wanted, found) if form == "html" else ""
        with opened(output_file) as out:
            if form == "html":
                out.write(page)
            else:
                write_comparison(wanted.id, found, form, out, color=settings().color)
    return DONE


@click.command()
@click.argument("watch", required=False, callback=partial(run_number, what="watch"))
@form_options
def contexts(watch: int | None, form: str, output_file: str) -> int:
    """Show the contexts that `fingerprint live` or `socket` stored.

    WATCH is a number, or last; without it, the watches are listed. Exit code 4: that watch stored nothing.
    """
    from configtron.report.contexts import SightingWriter
    from configtron.report.rows import emit
    from configtron.service import capture

    with capture.open_watches(settings().db) as store, opened(output_file) as out:
        if watch is None:
            rows = capture.watch_rows(store)
            emit(form, capture.WATCHES_COLUMNS, rows, out, schema=capture.WATCHES_SCHEMA, whole=True)
            return DONE
        found = capture.find_watch(store, watch)
        if not found.contexts:
            click.echo(f"configtron: watch {found.id}: stored no context", err=True)
            return NOTHING
        SightingWriter(form, out).write(store.contexts(found))
        return DONE
