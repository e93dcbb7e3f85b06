# SPDX-License-Identifier: MIT
"""`configtron probe` lists, regions, resolve, plan, doctor: before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from configtron.cli import completing
from configtron.cli.doctor import show_checks
from configtron.cli.options import FILE, form_options
from configtron.cli.output import event_lines, say
from configtron.cli.param_types import Finite
from configtron.cli.probe.names import test_names
from configtron.model.choices import PROFILES, TESTS
from configtron.report.files import opened


@click.command()
@click.argument("name", required=False, shell_complete=completing.lists)
@form_options
def lists(name: str | None, form: str, output_file: str) -> None:
    """Show the bundled target lists; with NAME, the targets in that list."""
    from configtron.report.rows import emit
    from configtron.service.lists import bundled, hosts_in

    rows: list[tuple[str, ...]]
    if name is None:
        schema, columns, rows = "configtron.lists/1", ["list", "about"], [*bundled().items()]
    else:
        schema, columns, rows = "configtron.targets/1", ["host"], [(host,) for host in hosts_in(name)]
    with opened(output_file) as out:
        if form == "table":
            out.writelines("\t".join(row) + "\n" for row in rows)
        else:
            emit(form, columns, rows, out, schema=schema)


@click.command()
@click.option("--vantages", type=FILE, help="TOML file of vantages.")
@form_options
def regions(vantages: Path | None, form: str, output_file: str) -> None:
    """Show the vantages in a file, checked; without one, the host itself."""
    from configtron.report.vantages import write_vantages
    from configtron.service.campaign import ProbeOptions, vantages_of

    found = vantages_of(ProbeOptions(vantages=vantages))
    with opened(output_file) as out:
        write_vantages(found, form, out)


@click.command()
@click.argument("words", metavar="[TARGET|@LIST]...", nargs=-1)
@click.option("-i", "--input-file", "files", type=FILE, multiple=True,
              help="Targets, one a line, as `probe run` reads.")  # fmt: skip
@click.option("-o", "--output-file", "output", type=FILE, required=True,
              help="Add lines to this file; what it has is not asked for again.")  # fmt: skip
@click.option("--resolver", default="", metavar="ADDRESS[:PORT]", help="Ask this server; else /etc/resolv.conf's.")
@click.option("--at-once", type=click.IntRange(1, 500), default=200, show_default=True, help="Open questions, at most.")
@click.option("-6", "only6", is_flag=True, help="IPv6 addresses in place of IPv4 ones.")
@click.option("-b", "--blocklist-file", "blocked", type=FILE, multiple=True, help="Names never to ask for.")
@click.option("-n", "--max-targets", type=click.IntRange(min=1), metavar="N", help="Look up only the first N.")
def resolve(words: tuple[str, ...], files: tuple[Path, ...], output: Path, resolver: str, at_once: int, only6: bool,
            blocked: tuple[Path, ...], max_targets: int | None) -> int:  # fmt: skip
    """Look up names, many at once, and write what `probe run -i` reads: IP, DOMAIN, TAG, PORT.

    Interrupt it and begin again with the same output file: it asks for what is missing.
    """
    from configtron.service import campaign

    targets = campaign.ProbeOptions(words, files, max_targets=max_targets, versions=(6,) if only6 else (4,),
                                    blocklist_files=blocked)  # fmt: skip
    done = campaign.resolve_targets(campaign.ResolveOptions(targets, output, resolver, at_once), progress=event_lines())
    say(f"{output}: {done.found} with an address, {done.missing} without, {done.known} known before")
    return done.exit_code


@click.command()
@click.option("--top", "targets", type=click.IntRange(min=1), required=True, metavar="N", help="Number of targets.")
@click.option("--vantages", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Number of regions that each target is probed from.")  # fmt: skip
@click.option("--tests", default="", callback=test_names, metavar="T[,T]", help=f"Only these tests: {','.join(TESTS)}.")
@click.option("--profile", type=click.Choice(PROFILES), default="standard", show_default=True,
              help="How many connections to each target.")  # fmt: skip
@click.option("-r", "--rate", "rate_per_s", type=Finite(min=0), default=100.0, show_default=True,
              help="Connections started per second, all together; 0: no limit.")  # fmt: skip
@click.option("-c", "--concurrency", type=click.IntRange(min=1), default=1000, show_default=True,
              help="Targets under way at once.")  # fmt: skip
@form_options
def plan(form: str, output_file: str, **given: Any) -> None:
    """Show packets, bytes, hours and disk of a campaign, by unit costs that were measured in the lab.

    \b
        configtron probe plan --top 1000000 --vantages 20
    """
    from configtron.report.campaign_cost import write_cost
    from configtron.service import campaign

    with opened(output_file) as out:
        write_cost(campaign.campaign_cost(campaign.PlanOptions(**given)), form, out)


@click.command()
@form_options
def doctor(form: str, output_file: str) -> int:
    """Check what probing and the lab need of this host; each red row says what to type next. It changes nothing.
    All of the product: `configtron doctor`. Exit code 1: a check is red.
    """
    from configtron.model.checks import red_first
    from configtron.service.campaign.probe_checks import lab_checks, probe_checks

    return show_checks(red_first([*probe_checks(), *lab_checks()]), form, output_file)
