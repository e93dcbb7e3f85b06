# SPDX-License-Identifier: MIT
"""`probe run`, put together: what to ask, where it is kept, who does it, what is shown.

A run owns a folder beside the database, named by its number: a folder a shard (`results.jsonl`, a pcapng a vantage),
and for a lab run the truth. The folder is written first, the database from it, so that a resumed run finds in the
folder whatever the database may have missed.
"""

from __future__ import annotations

import logging
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from configtron.cli.probe import fail_on, plan
from configtron.cli.probe.dryrun import dry_run
from configtron.cli.probe.kept import keep, kept, laid_out
from configtron.cli.probe.options import ProbeOptions
from configtron.cli.probe.optout import OptOut
from configtron.cli.probe.outcome import show
from configtron.cli.probe.runs import find, held, run_folder
from configtron.cli.probe.tally import Tally
from configtron.cli.settings import Settings, hint, settings
from configtron.cli.terminated import terminated
from configtron.db.store import Store
from configtron.model.errors import INTERRUPTED, BadInput, cannot_write
from configtron.model.records import canonical
from configtron.probe.wire.shard import Shard
from configtron.report.lines import opened
from configtron.report.progress import Progress

LOG = logging.getLogger("configtron.probe")


def run(options: ProbeOptions, store: Store) -> int:
    """Do what was asked; the exit code."""
    with terminated():
        return _resume(options, store) if options.resume else _begin(options, store)


def dry(options: ProbeOptions) -> int:
    """Show what would be done, where the answer is asked for; write nothing else, not even a database."""
    fail_on.parsed(options.fail_on)
    options = _settled(options)
    with laid_out(options, Path(tempfile.gettempdir())) as laid, opened(options.output_file) as out:
        return dry_run(laid, out)


def _settled(options: ProbeOptions) -> ProbeOptions:
    if options.lab:
        from configtron.cli.probe import lab

        return lab.settled(options, _say)
    if not options.contact:
        _say("no --contact: requests will not say who asks; name a URL before you probe servers of other people")
    return options


def _begin(options: ProbeOptions, store: Store) -> int:
    rules = fail_on.parsed(options.fail_on)
    options = _settled(options)
    with laid_out(options, store.path.resolve().parent) as laid:
        _check_outputs(options)
        number = store.begin_run(plan.run_config(options, laid.vantages, **_here()))
        folder = run_folder(store, number)
        if folder.exists() and any(folder.iterdir()):
            store.finish_run(number, "failed")
            raise BadInput(f"{folder}: holds packets of a run that this database does not know; move it away")
        keep(laid, folder)
    return _perform(options, store, number, laid.shards, laid.size, rules)


def _say(text: str) -> None:
    """One line for people, unless they asked for quiet."""
    if settings().loudness >= 0:
        print(text, file=sys.stderr, flush=True)


def _resume(options: ProbeOptions, store: Store) -> int:
    """Go on with a run as it was begun: its options, not today's, but for where the results go."""
    found = find(store, options.resume)
    options = replace(options, resume=found.id)
    begun = plan.options_of(found.config)
    shown = replace(
        begun,
        resume=options.resume,
        output_file=options.output_file,
        format=options.format,
        fail_on=options.fail_on,
        metadata_file=options.metadata_file,
        status_updates_file=options.status_updates_file,
        save_pcap=options.save_pcap,
        max_runtime_s=options.max_runtime_s,
    )
    folder = run_folder(store, options.resume)
    _check_outputs(shown)
    shards, size = kept(folder, options.resume)
    if not shards:
        with laid_out(begun, folder.parent) as laid:
            keep(laid, folder)
        shards, size = laid.shards, laid.size
    return _perform(shown, store, options.resume, shards, size, fail_on.parsed(options.fail_on))


def _check_outputs(options: ProbeOptions) -> None:
    """Everything that will be written can be: better said before an hour of measuring than after."""
    files = [options.metadata_file, None if options.output_file == "-" else Path(options.output_file)]
    for path in [path for path in files if path is not None]:
        try:
            path.open("a").close()
        except OSError as error:
            raise cannot_write(path, error) from error
    if options.save_pcap:
        try:
            options.save_pcap.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(options.save_pcap, error) from error


def _perform(
    options: ProbeOptions,
    store: Store,
    number: int,
    shards: list[Shard],
    size: int,
    rules: tuple[fail_on.Rule, ...],
) -> int:
    given = settings()
    folder = run_folder(store, number)
    total = size * len(shards[0].vantages)
    status = "failed"
    with ExitStack() as stack:
        stack.enter_context(held(folder, number))
        if options.resume:
            store.resume_run(number)
        progress = stack.enter_context(_progress(options, given, f"run {number}", stack))
        tally = Tally(total, store, number, progress, plan.calls_each(options))
        LOG.info("run %d begins: %d targets times vantages", number, total)
        try:
            if options.lab:
                from configtron.cli.probe import lab

                lab.perform(options, shards, folder, tally, progress.say)
            else:
                _perform_here(options, shards, folder, tally)
            status = "done"
        except KeyboardInterrupt:
            status = "interrupted"
        finally:
            tally.last()
            store.finish_run(number, status)
            LOG.info("run %d: %s", number, status)
            if status != "done":
                progress.say(hint(f"run {number}: {status}; go on with: configtron probe --resume {number}"))
    if options.save_pcap:
        _copy_evidence(folder, options.save_pcap, shards)
    code = show(options, given, store, number, rules)
    return INTERRUPTED if status == "interrupted" else code


def _perform_here(options: ProbeOptions, shards: list[Shard], folder: Path, tally: Tally) -> None:
    from configtron.probe.wire.journal import batches, journal
    from configtron.probe.wire.shard import perform

    until = time.monotonic() + options.max_runtime_s if options.max_runtime_s else float("inf")
    opted_out = OptOut(options.opt_out_files)
    for shard in shards:
        for batch in batches(journal(folder / shard.name)):
            tally.keep(batch)
        perform(
            shard,
            folder / shard.name,
            lambda results: tally.keep(list(results)),
            tally.ended,
            lambda: time.monotonic() < until,
            opted_out.why,
        )


def _here() -> dict[str, str]:
    """What else a reader of the results will want to know about where they come from."""
    return {
        "argv": canonical(list(sys.argv[1:])),
        "host": platform.node(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _copy_evidence(folder: Path, to: Path, shards: list[Shard]) -> None:
    for shard in shards:
        for file in sorted((folder / shard.name).glob("*.pcapng")):
            (to / shard.name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to / shard.name / file.name)


@contextmanager
def _progress(options: ProbeOptions, held: Settings, what: str, stack: ExitStack) -> Iterator[Progress]:
    status: TextIO | None = None
    if options.status_updates_file and str(options.status_updates_file) == "-":
        status = sys.stderr
    elif options.status_updates_file:
        try:
            status = stack.enter_context(options.status_updates_file.open("w"))
        except OSError as error:
            raise cannot_write(options.status_updates_file, error) from error
    with Progress(what, sys.stderr, quiet=held.loudness < 0, color=held.color, status=status) as progress:
        yield progress
