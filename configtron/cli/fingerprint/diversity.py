# SPDX-License-Identifier: MIT
"""`configtron fingerprint diversity`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from configtron.cli.completing import runs
from configtron.cli.probe.names import known_knob, run_number
from configtron.cli.settings import hint, settings
from configtron.model.errors import DONE, NOTHING, BadInput

if TYPE_CHECKING:
    from configtron.db.store import Run, Store
    from configtron.report.comparison import RegionComparison

FORMATS = ("table", "jsonl", "csv", "html")


@click.command(short_help="Compare a run between regions: Table 2.")
@click.argument("run", callback=run_number, shell_complete=runs)
@click.option("-f", "--format", "form", type=click.Choice(FORMATS),
              help="Form of the answer.  [default: html if the output file is *.html, else table]")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
@click.option("--baseline", metavar="NAME", default="",
              help="The vantage or region to compare with.  [default: the run's first]")  # fmt: skip
@click.option("--knob", "knobs", multiple=True, metavar="KNOB", callback=known_knob,
              help="This parameter instead of those of the paper's Table 2; may be repeated.")  # fmt: skip
def diversity(run: int, form: str | None, output_file: str, baseline: str, knobs: tuple[str, ...]) -> int:
    """Compare a run (a number, or last) between regions: the paper's Table 2.

    For each parameter the values in the baseline region, how many sites are set otherwise elsewhere, of those whose
    setting is known in both (grade A or B), with Wilson's 95 % interval, and an example. Sites at whose address unlike
    servers answer stand apart. The page (-f html) adds plots, providers and the packets behind the examples; it is one
    file that loads nothing. Exit code 4: the run holds no verdict to compare.
    """
    from configtron.report.comparison import compared
    from configtron.service import campaign

    with campaign.open_runs(settings().db) as store:
        kept = campaign.find_run(store, run)
        names = list(campaign.vantages_of_run(kept))
        here = _baseline(kept, baseline)
        found = compared(campaign.records_of(store, kept), knobs or campaign.SUMMARY, names, here)
        _remark(kept, found)
        if not found.parameters:
            return NOTHING
        _write(store, kept, found, form or ("html" if output_file.lower().endswith(".html") else "table"), output_file)
    return DONE


def _baseline(run: Run, name: str) -> str:
    """The vantage of that name, or the first in the region of that name."""
    from configtron.service.campaign.runs import vantages_of_run

    vantages = vantages_of_run(run)
    if not vantages:
        raise BadInput(f"run {run.id}: names no vantage, so it cannot be compared; `configtron probe` makes a new run")
    if not name or name in vantages:
        return name or next(iter(vantages))
    for vantage in vantages.values():
        if vantage.region.casefold() == name.casefold():
            return vantage.name
    known = ", ".join(f"{v.name} ({v.region})" if v.region else v.name for v in vantages.values())
    raise BadInput(f"run {run.id}: no vantage {name!r}; --baseline takes one of {known}")


def _remark(run: Run, found: RegionComparison) -> None:
    """What a reader must know beside the figures, on standard error."""
    if settings().loudness < 0:
        return
    if not found.parameters:
        click.echo(hint(f"run {run.id}: {run.status}, no verdict to compare; see `configtron probe show {run.id}`"),
                   err=True)  # fmt: skip
    elif len(found.vantages) < 2:
        click.echo(hint(f"run {run.id}: seen from {found.baseline} alone, so there is nothing to compare with; "
                        "`configtron probe --vantages FILE` looks from several regions"), err=True)  # fmt: skip
    elif run.status != "done":
        click.echo(f"run {run.id}: {run.status}; these are the figures so far", err=True)


def _write(store: Store, run: Run, found: RegionComparison, form: str, output_file: str) -> None:
    from configtron.report import diversity_lines
    from configtron.report.lines import opened

    # Before the file is opened: what fails shall not leave half a page.
    made = _page(store, run, found) if form == "html" else ""
    with opened(output_file) as out:
        if form == "jsonl":
            diversity_lines.write_jsonl(run.id, found, out)
        elif form == "csv":
            diversity_lines.write_csv(found, out)
        elif form == "html":
            out.write(made)
        else:
            from configtron.report import tables

            console = tables.console(out, color=settings().color)
            console.print(tables.summary([parameter.row for parameter in found.parameters]))
            if len(found.vantages) > 2:
                console.print(tables.by_region(found.parameters))


def _page(store: Store, run: Run, found: RegionComparison) -> str:
    from configtron.report.page.diversity import page, to_draw
    from configtron.report.page.words import RunFacts
    from configtron.report.target_results import found_in
    from configtron.service.campaign.runs import run_folder, vantages_of_run
    from configtron.service.capture import proofs_of

    differences = to_draw(found)
    sites = {difference.target for difference in differences}
    items = found_in(result for result in store.results(run.id) if result.site in sites) if sites else ()
    proofs = proofs_of(differences, found.baseline, items, Path(run_folder(store, run.id)))
    regions = {vantage.name: vantage.region for vantage in vantages_of_run(run).values()}
    return page(RunFacts(run.id, run.begun_at, run.status, run.version, regions), found, proofs)
