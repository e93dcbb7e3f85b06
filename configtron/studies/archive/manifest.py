# SPDX-License-Identifier: MIT
"""Runs of a study of flows: which there are, which are chosen, and the manifest by which one is made again.

Question   What must be written down, so that a run can be made again bit for bit, and so that it shows that it was?
Method     A run is one trial of one boot. All trials of a boot share its clock, and how many are ordered moves it by
           nanoseconds, so a run is made again with its whole boot: the study, its seed and the run's name make all of
           it. The manifest has these with the trial's orders, the software, the figures, and a hash of the packets.
Reads as   `StudyRun`; `manifest` gives JSON, the same bytes for the same run; `command` makes it again.
Fails as   a part that is not complete has no runs; one that was run without `--archive` has runs without packets. In
           another folder or by other sources the same schemes may have other packets; the manifest names the sources.
Differs    from Pantheon: its archives name the commit and the log of each run and leave chance to the internet.
Source     Pantheon (Yan and others 2018), section 3.1
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from configtron import __version__
from configtron.lab.testbed import measure
from configtron.model.errors import BadInput
from configtron.model.records import Json, canonical
from configtron.model.samples import Pairs
from configtron.studies.flows.flows import (
    GUEST,
    LOGGING_GUEST,
    Trial,
    TrialOutcome,
    orders_of,
    outcomes_of,
    outcomes_text,
)
from configtron.studies.flows.logged import log_path
from configtron.studies.guests.part_boot import ORDERS_FILE
from configtron.studies.guests.parts import Part, kept
from configtron.studies.registry.kinds import Arguments

# What a line of the manifest's fields calls itself; raised when a field changes its meaning.
SCHEMA = "configtron.run/1"
PACKETS, MANIFEST = "packets.csv.gz", "manifest.json"
# Where a run is made again: folders that the study of a database does not use.
AGAIN = "again"
# The way on where a run's packets are damaged or gone.
ANEW = "remove its folder and run again with --archive"


@dataclass(frozen=True)
class StudyRun:
    """One run. number: of its trial in the boot; seed: the study's; packets: the file, or None where none were kept."""

    study: str
    part: str
    number: int
    seed: int
    smoke: bool
    trial: Trial
    outcome: TrialOutcome
    software: Pairs
    packets: Path | None

    @property
    def scheme(self) -> str:
        """The scheme of its flows."""
        return scheme_of(self.trial)

    @property
    def path(self) -> str:
        """The name of its condition."""
        return self.trial.condition.name

    @property
    def name(self) -> str:
        """What `--only` calls it, and its folder in the site."""
        return f"{self.part}/{self.scheme}"


def scheme_of(trial: Trial) -> str:
    """Return the schemes of a trial's flows, each once; competing flows do not count."""
    return "+".join(dict.fromkeys(flow.scheme for flow in trial.flows if not flow.rival))


def chosen(parts: Mapping[str, Sequence[Trial]], only: str) -> dict[str, list[Trial]]:
    """Return the parts that have runs of these names, each whole. Errors: `BadInput` when there is none."""
    found = {
        part: list(trials) for part, trials in parts.items() if any(is_chosen(part, trial, only) for trial in trials)
    }
    if not found:
        example = next(f"{part}/{scheme_of(trials[0])}" for part, trials in parts.items())
        raise BadInput(f"--only {only}: the study has no run of that name; one is {example}")
    return found


def is_chosen(part: str, trial: Trial, only: str) -> bool:
    """Whether a run is one of those that a pattern names."""
    return not only or fnmatchcase(f"{part}/{scheme_of(trial)}", only)


def runs(arguments: Arguments, study: str, parts: Mapping[str, Sequence[Trial]]) -> list[StudyRun]:
    """Return the chosen runs that are complete in the study's folder, in the study's order. Errors: `BadInput`."""
    found: list[StudyRun] = []
    for part, trials in chosen(parts, arguments.only).items():
        if text := kept(arguments, Part(part, GUEST, orders_of(trials), LOGGING_GUEST, lists=True)):
            found += _of_part(arguments, study, part, trials, outcomes_of(text))
    return found


def _of_part(
    arguments: Arguments, study: str, part: str, trials: Sequence[Trial], outcomes: Sequence[TrialOutcome]
) -> list[StudyRun]:
    folder = arguments.folder / part
    software = measure.software_of(folder / measure.SOFTWARE)
    logged = json.loads((folder / ORDERS_FILE).read_text())["module"] == LOGGING_GUEST
    return [
        StudyRun(study, part, number, arguments.seed, arguments.smoke, trial, outcome, software,
                 log_path(folder, number) if logged and not outcome.reason else None)
        for number, (trial, outcome) in enumerate(zip(trials, outcomes, strict=True))
        if is_chosen(part, trial, arguments.only)
    ]  # fmt: skip


def command(run: StudyRun) -> str:
    """Return the command that makes the run, and its folder of a site, again."""
    return again(run.study, run.seed, run.smoke, run.name, run.packets is not None)


def again(study: str, seed: int, smoke: bool, only: str, packets: bool) -> str:
    """Return the command that makes runs again, in a folder of their own: there nothing is complete yet."""
    words = ["configtron", "replay", "study", study, *(["--smoke"] if smoke else []), "--seed", str(seed)]
    words += ["--only", only] if only else []
    words += ["--archive"] if packets else []
    return shlex.join([*words, "--folder", AGAIN, "--site", f"{AGAIN}-site"])


def manifest(run: StudyRun) -> str:
    """Return the run's manifest, JSON with a line a field; the same run gives the same bytes. Errors: `BadInput`."""
    orders = orders_of([run.trial])
    form: dict[str, Json] = {
        "schema": SCHEMA,
        "study": run.study,
        "run": run.name,
        "path": run.path,
        "scheme": run.scheme,
        "flows": len(run.trial.flows),
        "seed": run.seed,
        "trial_seed": run.trial.seed,
        "version": __version__,
        "software": dict(run.software),
        "orders": json.loads(orders)[0],
        "orders_sha256": _sha256(orders.encode()),
        "trials_before": run.number,
        "figures": json.loads(outcomes_text([run.outcome])),
        "command": command(run),
        "files": {PACKETS: _file(read(run.packets))} if run.packets else {},
    }
    lines = [f"{canonical(name)}: {canonical(value)}" for name, value in form.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(path: Path) -> bytes:
    """Return the bytes of a run's packets. Errors: `BadInput`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; {ANEW}") from error


def _file(data: bytes) -> Json:
    return {"bytes": len(data), "sha256": _sha256(data)}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
