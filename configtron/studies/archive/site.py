# SPDX-License-Identifier: MIT
"""Write an archive: a folder a run with its manifest, its packets and its page; a page a path; the list of all runs.

SITE/index.html   SITE/paths/PATH.html   SITE/runs/PART/SCHEME/{index.html,manifest.json,packets.csv.gz}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from configtron.model.errors import BadInput
from configtron.studies.archive import pages
from configtron.studies.archive.manifest import MANIFEST, PACKETS, StudyRun, chosen, manifest, read, runs
from configtron.studies.flows.flows import Trial
from configtron.studies.flows.packet_log import BYTES_A_PACKET
from configtron.studies.registry.kinds import Arguments

# Of a full packet, which estimates are made with; bytes of a megabyte.
PACKET_BYTES, MB = 1500, 1e6


def estimate(arguments: Arguments, parts: Mapping[str, Sequence[Trial]]) -> str:
    """Return how large the packets of these runs become if each fills its path: an upper bound but for what is lost."""
    sizes = [
        BYTES_A_PACKET * trial.condition.down.rate_kbit * 1e3 / 8 / PACKET_BYTES * trial.duration_s
        for trials in chosen(parts, arguments.only).values()
        for trial in trials
        if trial.condition.down.rate_kbit
    ]
    if not sizes:
        return "packets: no path has a rate to estimate their size from"
    return f"packets: about {sum(sizes) / MB:.1f} MB, {sum(sizes) / len(sizes) / MB:.2f} MB a run, {len(sizes)} runs"


def write(arguments: Arguments, folder: Path, study: str, parts: Mapping[str, Sequence[Trial]]) -> int:
    """Write the site of the runs that are complete; return how many. Errors: `BadInput`."""
    found = runs(arguments, study, parts)
    if not found:
        raise BadInput("--site: no run is complete, so there is nothing to show")
    try:
        for run in found:
            _write_run(folder / "runs" / run.name, run)
        (folder / "paths").mkdir(parents=True, exist_ok=True)
        for path in dict.fromkeys(run.path for run in found):
            mine = [run for run in found if run.path == path]
            (folder / "paths" / f"{pages.slug(path)}.html").write_text(pages.path_page(path, mine))
        (folder / "index.html").write_text(pages.index_page(study, found))
    except OSError as error:
        raise BadInput(f"{error.filename or folder}: {error.strerror}; name a folder that can be written") from error
    return len(found)


def _write_run(folder: Path, run: StudyRun) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).write_text(manifest(run))
    if run.packets:
        (folder / PACKETS).write_bytes(read(run.packets))
    (folder / "index.html").write_text(pages.run_page(run))
