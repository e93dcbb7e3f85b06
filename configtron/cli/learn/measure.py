# SPDX-License-Identifier: MIT
"""`configtron learn measure`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.model.errors import BadInput

# The names of `lab/testbed/studies.py`, written down here so that --help imports nothing.
STUDIES = ("hotcloud", "configtron", "smoke", "realism", "visits")
SERVERS = ("nginx", "apache")
FORMATS = ("table", "jsonl", "csv")


def _looks(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in value.split(",")) if value else ()
    except ValueError:
        raise click.BadParameter(f"{value!r}: numbers of loads, as in 6,12,24", ctx, param) from None


@click.command(short_help="Fill the PLT-tensor with page loads in the lab.")
@click.option("--study", type=click.Choice(STUDIES), help="What to measure.")
@click.option("--smoke", is_flag=True, help="The same as --study smoke.")
@click.option(
    "--condition",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Instead of the study's networks; repeat for more. As in hotcloud:1/150/2.5, pantheon:3,"
    " emulated:5/20/1/100 (Mbit/s, ms one way, % lost, packets of queue).",
)
@click.option("--site", "sites", multiple=True, metavar="SITE", help="Instead of the study's sites; repeat for more.")
@click.option(
    "--looks",
    default="",
    metavar="N,N,...",
    callback=_looks,
    help="After how many loads of a cell it is asked whether its median is known; the last number is the end."
    "  [default: the study's]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**48 - 1),
    default=None,
    help="The same seed gives the same loads, bit for bit.  [default: 1]",
)
@click.option("--server", type=click.Choice(SERVERS), default=None, help="Who serves the pages.  [default: nginx]")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Guests at once.  [default: one a CPU]")
@click.option("--dask", metavar="ADDRESS", help="Measure on the workers of this Dask scheduler, as in tcp://host:8786.")
@click.option("--resume", type=int, metavar="NUMBER", help="Go on with a measurement; -1 is the last one.")
@click.option("--fail-on-unknown", is_flag=True, help="Exit with 1 if a median is not known as well as it should be.")
@click.option(
    "--tensor",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the tensor here too; one always lies in the measurement's folder.",
)
@click.option(
    "--status-updates-file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="How far it is as JSON lines; - is stderr.",
)
@click.option(
    "-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="Form of the answer."
)
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
def measure(
    study: str | None,
    smoke: bool,
    conditions: tuple[str, ...],
    sites: tuple[str, ...],
    looks: tuple[int, ...],
    seed: int | None,
    server: str | None,
    jobs: int | None,
    dask: str | None,
    resume: int | None,
    fail_on_unknown: bool,
    tensor: Path | None,
    status_updates_file: Path | None,
    form: str,
    output_file: str,
) -> int:
    """Fill the PLT-tensor {network condition x configuration x website} with page loads in the lab.

    Each condition is a shard: one boot of a guest whose kernel, servers and client are real and whose time is virtual.
    Whatever is set in it is read back; a configuration that is not as asked is not measured, and says why. A cell is
    loaded 6 times, then 12, then 24, until the 95 % interval of its median is within a tenth of it; if it never is, the
    cell is flagged wide-interval. Fewer than six loads have no such interval: few-loads. The same seed gives the same
    bytes.

    Ctrl-C and SIGTERM end the shards that are under way, and keep the others. Killed by kill -9, a measurement leaves
    its guests to finish theirs, which loses none; --resume waits for them and goes on. A guest that is killed loses
    its shard, a machine that fails one a job. --study smoke is 576 cells, each loaded once: for a first look, and for
    tests.

    \b
    Exit codes: 0    measured; with --fail-on-unknown: and every median is known
                1    --fail-on-unknown, and some median is not
                2    no such name, a file that cannot be written, a database that cannot be used
                3    some cells have no median: configurations refused, loads failed, shards failed
                4    no cell has one
                5    not root, or a program or kernel feature is missing
                130  interrupted; what is whole is kept
    """
    from configtron.cli.learn.filling import begin, go_on
    from configtron.cli.learn.outcome import Wanted

    if smoke and study not in (None, "smoke"):
        raise BadInput("--smoke is a study of its own; leave --study out")
    name = "smoke" if smoke else study
    wanted = Wanted(jobs, dask or "", fail_on_unknown, tensor, status_updates_file, form, output_file)
    if resume is not None:
        if name or conditions or sites or looks or seed is not None or server:
            raise BadInput("--resume goes on as it was begun: leave out whatever says what to measure, and the seed")
        return go_on(resume, wanted)
    if name is None:
        raise BadInput(f"nothing to measure: name a study by --study {'|'.join(STUDIES)}, or --smoke")
    return begin(name, conditions, sites, looks, 1 if seed is None else seed, server or SERVERS[0], wanted)
