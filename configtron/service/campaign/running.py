# SPDX-License-Identifier: MIT
"""Begin or resume a run: lay it out, probe, store.

A run owns a folder beside the database, named by its number: a folder a shard (`results.jsonl`, a pcapng a vantage),
and for a lab run the truth. The folder is written first and the database from it, so a resumed run finds in the
folder what the database may have missed. A resumed run skips the sessions that have ended, by
`probe/wire/journal.py`.
"""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from configtron.db.store import Store
from configtron.fleet.transport.dask_client import SchedulerLost, check_certificates
from configtron.model.errors import BadInput, cannot_write
from configtron.probe.wire.journal import batches, journal
from configtron.probe.wire.shard import Shard, perform
from configtron.service.campaign import lab_run
from configtron.service.campaign.cluster import perform_cluster
from configtron.service.campaign.inputs import calls_each
from configtron.service.campaign.layout import RunLayout, layout_of, load_layout, save_layout
from configtron.service.campaign.opt_out import OptOut
from configtron.service.campaign.run_config import host_facts, options_of, run_config
from configtron.service.campaign.run_identity import check_resumable
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.runs import find_run, locked, run_folder
from configtron.service.campaign.tally import ResultBatches, RunTally
from configtron.service.campaign.workers import ResultStore, WorkersKilled, perform_together
from configtron.service.progress import Cancelled, Event, Progress, never, unheard

LOG = logging.getLogger("configtron.probe")
DONE, INTERRUPTED, FAILED = "done", "interrupted", "failed"
NO_CONTACT = "no --contact: requests will not say who asks; name a URL before you probe servers of other people"


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run that has ended: its number in the database, its status, the folder of its packets."""

    number: int
    status: str
    folder: Path

    @property
    def cancelled(self) -> bool:
        """Return whether the run was ended before all targets were probed; `resume` goes on with it."""
        return self.status == INTERRUPTED


def run(
    options: ProbeOptions,
    db: Path,
    *,
    progress: Progress = unheard,
    cancelled: Cancelled = never,
    argv: Sequence[str] = (),
) -> RunResult:
    """Begin a run, or resume run number `options.resume`, and probe its targets.

    `progress` gets a `RunProgress` whenever the counts change, and notices. `cancelled` is asked after every batch of
    results; a cancelled run, or one interrupted by KeyboardInterrupt, keeps what it has measured. `argv` is kept as
    the command line that asked for the run. Errors: `BadInput`, `Refused` (the run is being run), `Missing`.
    """
    if options.cluster:
        # before the database is made
        check_certificates(options.cluster)
    with Store(db) as store:
        make = _resumed if options.resume else _begun
        return make(options, store, progress, cancelled, argv)


@contextmanager
def planned(options: ProbeOptions, progress: Progress = unheard) -> Iterator[RunLayout]:
    """Make the layout of a run that is not begun; nothing is sent or stored. Errors: `BadInput`."""
    with layout_of(_resolved(options, progress), Path(tempfile.gettempdir())) as layout:
        yield layout


def _notice(progress: Progress, text: str) -> None:
    progress(Event(0, 0, text))


def _resolved(options: ProbeOptions, progress: Progress) -> ProbeOptions:
    """Return the options with the lab's backend chosen."""
    if options.lab:
        return lab_run.resolved(options, progress)
    if not options.contact and not _here_only(options):
        _notice(progress, NO_CONTACT)
    return options


# Addresses of this host alone, as a target may be written: with a port, as a URL, as a block.
LOOPBACK = re.compile(r"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)(?:[:/].*)?")


def _here_only(options: ProbeOptions) -> bool:
    """Return whether all targets are named on the command line and are addresses of this host."""
    return bool(options.words) and not options.input_files and all(map(LOOPBACK.fullmatch, options.words))


def _begun(
    options: ProbeOptions, store: Store, progress: Progress, cancelled: Cancelled, argv: Sequence[str]
) -> RunResult:
    options = _resolved(options, progress)
    with layout_of(options, store.path.resolve().parent) as layout:
        _check_outputs(options)
        number = store.begin_run(run_config(options, layout.vantages, **host_facts(argv)))
        folder = run_folder(store, number)
        if folder.exists() and any(folder.iterdir()):
            store.finish_run(number, FAILED)
            raise BadInput(f"{folder}: holds packets of a run that this database does not know; move it away")
        save_layout(layout, folder)
    return _perform(options, store, number, layout.shards, layout.size, progress, cancelled)


def resumed_options(begun: ProbeOptions, options: ProbeOptions, number: int) -> ProbeOptions:
    """Return the options of a resumed run: those it was begun with, but for where results go, when to end and opt-outs.

    Who opted out since then is not probed either: opt-out files of today join the run's own.
    """
    return replace(
        begun,
        resume=number,
        output_file=options.output_file,
        format=options.format,
        fields=options.fields,
        fail_on=options.fail_on,
        metadata_file=options.metadata_file,
        status_updates_file=options.status_updates_file,
        save_pcap=options.save_pcap,
        max_runtime_s=options.max_runtime_s,
        cluster=options.cluster or begun.cluster,
        opt_out_files=tuple(dict.fromkeys((*begun.opt_out_files, *options.opt_out_files))),
    )


def _resumed(
    options: ProbeOptions, store: Store, progress: Progress, cancelled: Cancelled, argv: Sequence[str]
) -> RunResult:
    """Resume a run with the options that it was begun with, but for where results go, when to end and opt-outs."""
    del argv
    found = find_run(store, options.resume)
    check_resumable(found)
    begun = options_of(found.config)
    now = resumed_options(begun, options, found.id)
    folder = run_folder(store, found.id)
    if now.cluster and not options.cluster:
        check_certificates(now.cluster)
    _check_outputs(now)
    shards, size = load_layout(folder, found.id)
    if not shards:
        with layout_of(begun, folder.parent) as layout:
            save_layout(layout, folder)
        shards, size = layout.shards, layout.size
    return _perform(now, store, found.id, shards, size, progress, cancelled)


def _check_outputs(options: ProbeOptions) -> None:
    """Check that every output can be written, before an hour of measuring and not after."""
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
    progress: Progress,
    cancelled: Cancelled,
) -> RunResult:
    folder = run_folder(store, number)
    total = size * len(shards[0].vantages)
    status = FAILED
    with locked(folder, number):
        if options.resume:
            store.resume_run(number)
        tally = RunTally(total, store, number, progress, calls_each(options), cancelled)
        tally.report()
        LOG.info("run %d begins: %d targets times vantages", number, total)
        try:
            if options.lab:
                lab_run.perform_lab(options, shards, folder, tally, progress)
            elif options.cluster:
                perform_cluster(options, shards[0], size, folder, store, number, tally)
            else:
                _perform_here(options, shards, folder, tally, ResultStore(number, store.path))
            status = DONE
        except (WorkersKilled, SchedulerLost) as lost:
            _notice(progress, str(lost))
            status = INTERRUPTED
        except KeyboardInterrupt:
            status = INTERRUPTED
        finally:
            tally.report(last=True)
            store.finish_run(number, status)
            LOG.info("run %d: %s", number, status)
            if status != DONE:
                again = f"configtron probe --resume {number}"
                _notice(progress, f"run {number}: {status}, {tally.done_text}; go on with: {again}")
    if options.save_pcap:
        _copy_evidence(folder, options.save_pcap, shards)
    return RunResult(number, status, folder)


def _perform_here(options: ProbeOptions, shards: list[Shard], folder: Path, tally: RunTally, kept: ResultStore) -> None:
    for shard in shards:
        for batch in batches(journal(folder / shard.name)):
            tally.keep(batch)
    if len(shards) > 1:
        perform_together(options, shards, folder, kept, tally)
    else:
        _perform_alone(options, shards[0], folder, tally)


def _perform_alone(options: ProbeOptions, shard: Shard, folder: Path, tally: RunTally) -> None:
    until = time.monotonic() + options.max_runtime_s if options.max_runtime_s else float("inf")
    opted_out, kept = OptOut(options.opt_out_files), ResultBatches(tally.keep)
    try:
        perform(
            shard,
            folder / shard.name,
            kept.take,
            tally.ended,
            lambda: time.monotonic() < until,
            opted_out.why,
        )
    finally:
        kept.flush()


def _copy_evidence(folder: Path, to: Path, shards: list[Shard]) -> None:
    for shard in shards:
        for file in sorted((folder / shard.name).glob("*.pcapng")):
            (to / shard.name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to / shard.name / file.name)
