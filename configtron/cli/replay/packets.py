# SPDX-License-Identifier: MIT
"""`configtron replay packets`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.completing import runs
from configtron.cli.probe.names import run_number
from configtron.cli.settings import hint, settings
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, BadInput

if TYPE_CHECKING:
    from configtron.cli.replay.work import Done, Task
    from configtron.report.replay_results import Played

FORMATS = ("table", "jsonl", "csv")
SUFFIXES = (".pcapng", ".pcapng.gz")
# A line of progress this often, for whoever waits.
TOLD_EVERY_S = 10.0


@click.command(short_help="Play recorded probes again, and compare.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(exists=True, path_type=Path))
@click.option("--run", callback=run_number, shell_complete=runs, metavar="RUN",
              help="A run of the database (a number, or last), against its stored readings.")  # fmt: skip
@click.option("--expect", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Results or records to compare with, instead of those beside each recording.")  # fmt: skip
@click.option("--adopt", is_flag=True,
              help="Take captures of any origin as fixtures: keep what is read of each beside it.")  # fmt: skip
@click.option("--update", is_flag=True, help="Keep what the replay gives as what is expected from now on.")
@click.option("--fail-on-diff", is_flag=True, help="Exit with 1 if anything differs; so it is without, too.")
@click.option("--junit", type=click.Path(dir_okay=False), metavar="FILE", help="Write a JUnit report too.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes.  [default: one a CPU]")
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the answer.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
def packets(
    files: tuple[Path, ...],
    run: int | None,
    expect: Path | None,
    adopt: bool,
    update: bool,
    fail_on_diff: bool,
    junit: str | None,
    jobs: int | None,
    form: str,
    output_file: str,
) -> int:
    """Play recorded probes again: the same scripts and the same readers, on recorded packets; and compare.

    FILE is evidence that `configtron probe` wrote (pcapng, also gz), or a folder of it. What a replay gives is
    compared, byte for byte, with what was kept beside the recording (observation.json, or a run's results.jsonl). What
    differs is shown: the recorded reading after "-", the replayed one after "+". A script that does not say what was
    recorded is an error that shows both packets. Nothing is sent; neither root nor a network is needed.

    Any other capture becomes a fixture by --adopt: its connections, as `configtron fingerprint pcap` reads them, are
    kept beside it (CAPTURE.expected.jsonl), and from then on compared like a recording, alone or in its folder.

    \b
    Exit codes: 0  replayed, and all is the same; with --update: kept
                1  something differs, is missing, or a script diverged
                2  a file cannot be read, or is neither evidence of ours nor adopted
                3  nothing was recorded of some probes that could be compared
                4  no probe in the files; with --adopt: no connection
    """
    from configtron.cli.replay import work
    from configtron.report.lines import can_be_written, opened

    if adopt:
        return _adopt(files, given=run is not None or expect is not None or update or junit is not None)
    can_be_written(junit, output_file)
    tasks = _of_run(run, files, expect, update) if run is not None else _of_files(files, expect, update)
    told = _Teller()
    done = list(work.perform_all(tasks, jobs or len(os.sched_getaffinity(0)), told, keep=update))
    played = [one for each in done for one in each.played]
    for path in _update(done) if update else ():
        told.say(f"kept as what is expected: {path}")
    if not played:
        told.say(hint("no probe to play: recordings are the .pcapng files (also gz) that `configtron probe` writes"))
    with opened(output_file) as out:
        _show(played, form, out)
    if junit:
        from configtron.report.replay_results import write_junit

        with opened(junit) as out:
            write_junit(played, out)
    return _code(played, update=update)


def _of_files(files: tuple[Path, ...], expect: Path | None, update: bool) -> list[Task]:
    from configtron.cli.replay import expected

    if not files:
        raise BadInput("nothing to replay: name recordings, folders of them, or --run RUN")
    found = [path for file in files for path in (_recordings(file) if file.is_dir() else [file])]
    if expect is not None and len(found) != 1:
        raise BadInput(f"--expect {expect}: is for one recording, and here are {len(found)}")
    tasks = [task for path in found for task in _tasks(path, expect)]
    for task in tasks if update else ():
        if task.expect is not None and task.expect.name == expected.JOURNAL:
            raise BadInput(f"{task.expect}: is a run's journal and is not rewritten; name another file by --expect")
    return tasks


def _tasks(path: Path, expect: Path | None) -> list[Task]:
    """A capture may be a recording of ours and adopted too: then it is both."""
    from configtron.cli.replay import adopted, expected
    from configtron.cli.replay.work import Task

    lines = expect if expect is not None and adopted.holds_connections(expect) else None
    if expect is None and adopted.expected_of(path).is_file():
        lines = adopted.expected_of(path)
    kept = expect if lines is None else expected.beside(path) if expect is None else None
    ours = [Task(path, str(path), kept or expected.beside(path))] if kept or lines is None else []
    return ours + ([Task(path, str(path), lines, adopted=True)] if lines is not None else [])


def _recordings(folder: Path) -> list[Path]:
    """Recordings of ours, and captures that were adopted."""
    from configtron.cli.replay import adopted

    ours = {path for path in folder.rglob("*") if path.name.endswith(SUFFIXES)}
    return sorted(ours | set(adopted.adopted_in(folder)))


def _of_run(number: int, files: tuple[Path, ...], expect: Path | None, update: bool) -> list[Task]:
    from configtron.cli.replay.work import Task
    from configtron.service.campaign.runs import find_run, open_runs, run_folder

    if files or update:
        raise BadInput("--run replays what the database holds: it takes neither files nor --update")
    with open_runs(settings().db) as store:
        run = find_run(store, number)
        folder = run_folder(store, run.id)
        names = store.evidence_files(run.id)
        for name in names:
            if not (folder / name).is_file():
                raise BadInput(f"run {run.id}: its packets are gone: {folder / name}")
        return [Task(folder / name, name, expect, store.path, run.id) for name in names]


def _update(done: list[Done]) -> list[Path]:
    """The files written. What was played becomes what is expected; where a script diverged there is nothing to keep."""
    from configtron.cli.replay import expected
    from configtron.report.replay_results import DIVERGED

    written = []
    for each in done:
        if each.played and not any(one.status == DIVERGED for one in each.played):
            path = each.task.expect or each.task.path.with_name(expected.KEPT)
            expected.write(path, each.results, each.records)
            written.append(path)
    return written


def _show(played: list[Played], form: str, out: TextIO) -> None:
    from configtron.report import replay_results

    if form == "jsonl":
        replay_results.write_jsonl(played, out)
    elif form == "csv":
        replay_results.write_csv(played, out)
    else:
        replay_results.write_table(played, out, color=settings().color)


class _Teller:
    """Progress on stderr, now and then."""

    def __init__(self) -> None:
        self.quiet = settings().loudness < 0
        self.began = self.last = time.monotonic()

    def __call__(self, count: int) -> None:
        now = time.monotonic()
        if not self.quiet and now - self.last >= TOLD_EVERY_S:
            self.last = now
            self.say(f"{count} probes, {now - self.began:.0f} s")

    def say(self, text: str) -> None:
        """A line, unless they are not wanted."""
        if not self.quiet:
            print(f"replay: {text}", file=sys.stderr, flush=True)


def _code(played: list[Played], *, update: bool) -> int:
    from configtron.report.replay_results import DIVERGED, UNTOLD, WRONG

    seen = {one.status for one in played}
    if not played:
        return NOTHING
    if DIVERGED in seen or not update and seen & set(WRONG):
        return CONDITION
    return PARTIAL if UNTOLD in seen and not update else DONE


def _adopt(files: tuple[Path, ...], *, given: bool) -> int:
    """Keep what is read of captures beside them."""
    from configtron.cli.replay import adopted

    if given:
        raise BadInput("--adopt takes captures and nothing else: no --run, --expect, --update or --junit")
    found = [path for file in files for path in (adopted.captures_in(file) if file.is_dir() else [file])]
    if not found:
        raise BadInput("nothing to adopt: name captures (pcap, pcapng, also gz or zst), or folders of them")
    told, written = _Teller(), adopted.adopt(found)
    for path, count in written:
        told.say(f"kept as what is expected: {path} ({count} connection{'' if count == 1 else 's'})")
    for path in found:
        if adopted.expected_of(path) not in [one for one, _ in written]:
            told.say(f"{path}: no TCP connection in it, so nothing is expected of it")
    return DONE if written else NOTHING
