# SPDX-License-Identifier: MIT
"""Begin or resume a run: lay it out, probe, store.

A run owns a folder beside the database, named by its number: a folder a shard (`results.jsonl`, a pcapng a vantage),
and for a lab run the truth. The folder is written first and the database from it, so a resumed run finds in the
folder what the database may have missed. A resumed run skips the sessions that have ended, by
`probe/wire/journal.py`. One function performs a shard (`probe/wire/shard.py`), in one of four places: this process,
worker processes, guests of the lab, workers of a cluster.
"""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path

from configtron.db.store import Store
from configtron.fleet.transport.dask_client import SchedulerLost, check_certificates
from configtron.model.errors import BadInput, cannot_write
from configtron.probe.wire.journal import batches, journal
from configtron.probe.wire.opt_out import OptOut
from configtron.probe.wire.shard import Shard, perform
from configtron.service.campaign.inputs import calls_each
from configtron.service.campaign.layout import RunLayout, layout_of, load_layout
from configtron.service.campaign.run_config import host_facts, options_of, run_config
from configtron.service.campaign.run_identity import check_resumable
from configtron.service.campaign.run_options import ProbeOptions, resumed_options
from configtron.service.campaign.runs import find_run, locked, run_folder
from configtron.service.campaign.shard_pool import WorkersKilled, perform_by_processes
from configtron.service.campaign.tally import SILENT_S, ResultBatches, RunTally
from configtron.service.progress import Cancelled, Progress, never, notice, unheard

LOG = logging.getLogger("configtron.probe")
DONE, INTERRUPTED, FAILED = "done", "interrupted", "failed"
NO_CONTACT = "no --contact: requests will not say who asks; name a URL before you probe servers of other people"
# Addresses of this host alone, as a target may be written: with a port, as a URL, as a block.
LOOPBACK = re.compile(r"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)(?:[:/].*)?")


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
        if options.resume:
            options, number = _resumed(options, store)
        else:
            options, number = _begun(options, store, progress, argv)
        folder = run_folder(store, number)
        shards, size = load_layout(folder, number)
        with locked(folder, number):
            if options.resume:
                store.resume_run(number)
            total = size * len(shards[0].vantages)
            # A name server of the lab answers as soon as its guest has booted.
            silent_s = inf if options.lab else SILENT_S
            tally = RunTally(total, store, number, progress, calls_each(options), cancelled, silent_s=silent_s)
            tally.report()
            LOG.info("run %d begins: %d targets times vantages", number, total)
            status = FAILED
            try:
                status = _perform(options, shards, size, folder, tally, progress)
            finally:
                tally.report(last=True)
                store.finish_run(number, status)
                LOG.info("run %d: %s", number, status)
                if status != DONE:
                    again = f"configtron probe --resume {number}"
                    notice(progress, f"run {number}: {status}, {tally.done_text}; go on with: {again}")
    if options.save_pcap:
        for shard in shards:
            for file in sorted((folder / shard.name).glob("*.pcapng")):
                (options.save_pcap / shard.name).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, options.save_pcap / shard.name / file.name)
    return RunResult(number, status, folder)


@contextmanager
def planned(options: ProbeOptions, progress: Progress = unheard) -> Iterator[RunLayout]:
    """Make the layout of a run that is not begun; nothing is sent or stored. Errors: `BadInput`."""
    with layout_of(_resolved(options, progress), Path(tempfile.gettempdir())) as layout:
        yield layout


def _resolved(options: ProbeOptions, progress: Progress) -> ProbeOptions:
    """Return the options with the lab's backend chosen."""
    if options.lab:
        from configtron.service.campaign import lab_run

        return lab_run.resolved(options, progress)
    # all targets are named on the command line and are addresses of this host
    is_here = options.words and not options.input_files and all(map(LOOPBACK.fullmatch, options.words))
    if not options.contact and not is_here:
        notice(progress, NO_CONTACT)
    return options


def _begun(options: ProbeOptions, store: Store, progress: Progress, argv: Sequence[str]) -> tuple[ProbeOptions, int]:
    """Begin a run; return its options and its number."""
    options = _resolved(options, progress)
    with layout_of(options, store.path.resolve().parent) as layout:
        _check_outputs(options)
        number = store.begin_run(run_config(options, layout.vantages, **host_facts(argv)))
        folder = run_folder(store, number)
        if folder.exists() and any(folder.iterdir()):
            store.finish_run(number, FAILED)
            raise BadInput(f"{folder}: holds packets of a run that this database does not know; move it away")
        layout.save(folder)
    return options, number


def _resumed(options: ProbeOptions, store: Store) -> tuple[ProbeOptions, int]:
    """Return the options of a run to resume, and its number; its layout is made again if it was killed before."""
    found = find_run(store, options.resume)
    check_resumable(found)
    begun = options_of(found.config)
    now = resumed_options(begun, options, found.id)
    if now.cluster and not options.cluster:
        check_certificates(now.cluster)
    _check_outputs(now)
    folder = run_folder(store, found.id)
    if not load_layout(folder, found.id)[0]:
        with layout_of(begun, folder.parent) as layout:
            layout.save(folder)
    return now, found.id


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
    options: ProbeOptions, shards: list[Shard], size: int, folder: Path, tally: RunTally, progress: Progress
) -> str:
    """Perform the shards; return the run's status."""
    try:
        if options.lab:
            from configtron.service.campaign.lab_run import perform_lab

            perform_lab(options, shards, folder, tally, progress)
        elif options.cluster:
            from configtron.service.campaign.cluster import perform_cluster

            perform_cluster(options, shards[0], size, folder, tally)
        elif len(shards) > 1:
            perform_by_processes(options, shards, folder, tally)
        else:
            _perform_here(options, shards[0], folder / shards[0].name, tally)
        return DONE
    except (WorkersKilled, SchedulerLost) as lost:
        notice(progress, str(lost))
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED


def _perform_here(options: ProbeOptions, shard: Shard, folder: Path, tally: RunTally) -> None:
    for batch in batches(journal(folder)):
        tally.keep(batch)
    until = time.monotonic() + options.max_runtime_s if options.max_runtime_s else inf
    fresh, opted_out = ResultBatches(tally.keep), OptOut(options.opt_out_files)
    try:
        perform(shard, folder, fresh.take, tally.ended, lambda: time.monotonic() < until, opted_out.why)
    finally:
        fresh.flush()
