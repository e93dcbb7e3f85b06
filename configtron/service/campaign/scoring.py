# SPDX-License-Identifier: MIT
"""Score a lab run: compare its verdicts with the truth of its internet, which the run's folder keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from configtron.db.store import Run, Store
from configtron.lab.internet.sites import BASELINE, Internet
from configtron.lab.internet.truth import from_json, oracle
from configtron.model.errors import BadInput
from configtron.model.nouns import Observation
from configtron.report.allowed_verdict import Judged
from configtron.report.constants import THIS_RUN, beside_constants
from configtron.report.plant_scores import PlantScore, planted
from configtron.report.score import Score
from configtron.report.target_results import found_in
from configtron.service.campaign.runs import SUMMARY, disk_text, find_run, run_folder, vantages_of_run

# The reason where there is no verdict at all.
NOT_PROBED = "not-probed"
# Measured only where the answer in clear shows no window (CLEAR, exact): elsewhere it counts as not asked, and where
# the answer shows none and it was not measured all the same, as missing.
WHERE_NEEDED, CLEAR = ("icw_tls", "cwnd_at_request"), "icw"
# Knob -> the profiles that make connections enough to answer it. A verdict of another profile is judged all the same;
# its reason TOO_FEW is not.
ANSWERED_BY, TOO_FEW = {"load_balancing": ("full",)}, "unclear:few-connections"


@dataclass(frozen=True, slots=True)
class LabScore:
    """A lab run's score: by prober (`THIS_RUN` and the constant ones), and of the differences between regions; and what
    its packets take on the disk, in words."""

    run: Run
    probers: dict[str, Score]
    differences: list[PlantScore]
    on_disk: str

    @property
    def score(self) -> Score:
        """Return the score of the run itself."""
        return self.probers[THIS_RUN]

    @property
    def nothing(self) -> str:
        """Return that the run gave no value, and what to do; "" if it gave one."""
        then = f"configtron probe show {self.run.id}, or go on: configtron probe --resume {self.run.id}"
        return "" if self.score.given[1] else f"run {self.run.id} has no value that can be scored; its reasons: {then}"


def score_run(store: Store, number: int | None = None) -> LabScore:
    """Score lab run `number`; None: the newest one. Errors: `BadInput` for a run without truth."""
    run = newest_of_the_lab(store) if number is None else find_run(store, number)
    on_disk = disk_text(run_folder(store, run.id), run.id)
    return LabScore(run, beside_constants(list(judged(store, run))), regional(store, run), on_disk)


def is_of_the_lab(run: Run) -> bool:
    """Return whether a run was begun with --lab."""
    return bool(json.loads(run.config).get("options", {}).get("lab"))


def newest_of_the_lab(store: Store) -> Run:
    """Return the newest lab run. Errors: `BadInput` without one."""
    found = [run for run in store.runs() if is_of_the_lab(run)]
    if not found:
        raise BadInput(f"{store.path}: holds no lab run; `configtron probe LIST --lab` makes one")
    return found[-1]


def _internet(store: Store, run: Run) -> Internet:
    path = run_folder(store, run.id) / "truth.json"
    if not is_of_the_lab(run):
        raise BadInput(f"run {run.id}: no lab run, so the truth is unknown; `configtron probe LIST --lab` makes one")
    try:
        return from_json(path.read_text())
    except OSError as error:
        raise BadInput(f"run {run.id}: its truth is gone: {path}: {error.strerror}") from error


def regional(store: Store, run: Run) -> list[PlantScore]:
    """Return the differences between regions that were found and those that were planted; none without a baseline."""
    internet = _internet(store, run)
    if BASELINE not in vantages_of_run(run):
        return []
    return planted(found_in(store.results(run.id)), internet.plants, SUMMARY, BASELINE)


def is_asked(verdict: Observation, profile: str) -> bool:
    """Whether that profile makes enough connections to answer; True for everything that it answers all the same."""
    return verdict.reason not in (TOO_FEW, NOT_PROBED) or profile in ANSWERED_BY.get(verdict.knob, (profile,))


def judged(store: Store, run: Run) -> Iterator[Judged]:
    """Yield every parameter that the run measured, for every site from every vantage, with its truth."""
    internet = _internet(store, run)
    known = {site.host for site in internet.sites}
    found = [item for item in found_in(store.results(run.id)) if item.site in known]
    asked = {knob for item in found for knob in item.verdicts}
    profile = str(json.loads(run.config).get("options", {}).get("profile", ""))
    for item in found:
        silence = Observation("", reason=item.reason or NOT_PROBED)
        trouble = internet.server(item.vantage, item.site).impairment
        for knob, expectation in oracle(internet, item.vantage, item.site).items():
            if knob not in asked:
                continue
            verdict = item.verdicts.get(knob) or replace(silence, knob=knob)
            needless = knob in WHERE_NEEDED and knob not in item.verdicts and shows_window(item.verdicts.get(CLEAR))
            is_due = is_asked(verdict, profile) and not needless
            yield Judged(item.vantage, item.site, knob, verdict, expectation, trouble, is_due)


def shows_window(clear: Observation | None) -> bool:
    """Return whether the verdict in clear is an exact window, so that TLS need not be asked."""
    return clear is not None and clear.grade in ("A", "B", "C")
