# SPDX-License-Identifier: MIT
"""`configtron replay packets`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.completing import runs
from configtron.cli.options import form_options
from configtron.cli.output import say
from configtron.cli.param_types import NamedPath
from configtron.cli.probe.names import run_number
from configtron.cli.settings import settings
from configtron.model.errors import BadInput
from configtron.model.packages import missing
from configtron.report.files import can_be_written, opened


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...", type=NamedPath(exists=True, path_type=Path))
@click.option("--run", callback=run_number, shell_complete=runs, metavar="RUN",
              help="A run of the database (a number, or last), against its stored readings.")  # fmt: skip
@click.option("--expect", type=NamedPath(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Results or records to compare with, instead of those beside each recording.")  # fmt: skip
@click.option("--adopt", is_flag=True,
              help="Take captures of any origin as fixtures: keep what is read of each beside it.")  # fmt: skip
@click.option("--only", metavar="NAMES",
              help="Compare these alone, separated by commas: parameters, fields, paths (icw,client.mss).")  # fmt: skip
@click.option("--update", is_flag=True, help="Store the results of the replay as the expected ones.")
@click.option("--fail-on-diff", is_flag=True, help="Exit with 1 if anything differs: the default.")
@click.option("--junit", type=NamedPath(dir_okay=False), metavar="FILE", help="Write a JUnit report too.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes.  [default: one a CPU]")
@form_options
def packets(files: tuple[Path, ...], run: int | None, expect: Path | None, adopt: bool, only: str | None, update: bool,
            fail_on_diff: bool, junit: str | None, jobs: int | None, form: str, output_file: str) -> int:  # fmt: skip
    """Replay recorded probes: the same scripts and the same readers, on recorded packets; and compare.

    FILE is evidence that `configtron probe` wrote (pcapng, also gz), or a folder of it. The result of a
    replay is compared, byte for byte, with the one beside the recording; differences are shown field by field,
    recorded after "-", replayed after "+". Nothing is sent; neither root nor a network is needed. --adopt makes
    fixtures of other captures (docs/fingerprint.md).

    Exit codes: 1, something differs, is missing, or a script diverged; 2, a file cannot be read, or is neither evidence
    nor adopted; 3, some probes or captures have no expected result, or --adopt cannot read some; 4, no probe in
    the files, or with --adopt no connection.
    """
    from configtron.report import replay_results as results
    from configtron.service import replay

    if adopt:
        if run is not None or expect is not None or only is not None or update or junit is not None:
            raise BadInput("--adopt takes captures and nothing else: no --run, --expect, --only, --update or --junit")
        lines, code = replay.adopt_in(files, missing)
        say(*(f"replay: {line}" for line in lines))
        return code
    can_be_written(junit, output_file)
    names = tuple(name.strip() for name in (only or "").split(",") if name.strip())
    if only is not None and not names:
        raise BadInput("--only: no field is named; write --only icw,rwin")
    options = replay.PacketOptions(files, run, expect, update, jobs or 0, names)
    found = replay.replay_packets(options, settings().db, progress=replay.PlayLines(say), lacks=missing)
    say(*(f"replay: kept as what is expected: {path}" for path in found.updated))
    if not found.played:
        say("replay: no probe to play: recordings are the .pcapng files (also gz) that `configtron probe` writes")
    with opened(output_file) as out:
        results.write(form, found.played, out, color=settings().color)
    if junit:
        with opened(junit) as out:
            results.write_junit(found.played, out)
    return found.exit_code(update=update)
