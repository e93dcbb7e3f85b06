# SPDX-License-Identifier: MIT
"""A lab run's verdicts beside the truth of its internet. The truth lies in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from configtron.cli.probe.runs import SUMMARY, run_folder, vantages_of_run
from configtron.db.store import Run, Store
from configtron.lab.sites import BASELINE, Internet
from configtron.lab.truth import from_json, oracle
from configtron.model.errors import BadInput
from configtron.model.nouns import Observation
from configtron.report.allowed import Judged
from configtron.report.found import found_in
from configtron.report.planted import PlantScore, planted

# What stands for a verdict where there is none at all.
NOT_PROBED = "not-probed"
# Asked only where the answer in clear shows no window (CLEAR, exact): elsewhere it counts as not asked, and where the
# answer shows none and nothing was asked all the same, as missing.
WHERE_NEEDED, CLEAR = ("icw_tls", "cwnd_at_request"), "icw"
# Knob -> the profiles that make connections enough to answer it. What another says of it all the same is judged; that
# it has too few of them is not.
ANSWERED_BY, TOO_FEW = {"load_balancing": ("full",)}, "unclear:few-connections"


def is_of_the_lab(run: Run) -> bool:
    """Whether a run was begun with --lab."""
    return bool(json.loads(run.config).get("options", {}).get("lab"))


def newest_of_the_lab(store: Store) -> Run:
    """The newest lab run."""
    found = [run for run in store.runs() if is_of_the_lab(run)]
    if not found:
        raise BadInput(f"{store.path}: holds no lab run; `configtron probe LIST --lab` makes one")
    return found[-1]


def _internet(store: Store, run: Run) -> Internet:
    path = run_folder(store, run.id) / "truth.json"
    if not is_of_the_lab(run):
        raise BadInput(f"run {run.id}: no lab run, so nobody knows the truth; `configtron probe LIST --lab` makes one")
    try:
        return from_json(path.read_text())
    except OSError as error:
        raise BadInput(f"run {run.id}: its truth is gone: {path}: {error.strerror}") from error


def regional(store: Store, run: Run) -> list[PlantScore]:
    """The differences between regions that were found, beside those that were planted; none without a baseline."""
    internet = _internet(store, run)
    if BASELINE not in vantages_of_run(run):
        return []
    return planted(found_in(store.results(run.id)), internet.plants, SUMMARY, BASELINE)


def is_asked(verdict: Observation, profile: str) -> bool:
    """Whether that profile asks enough to answer; of what it answers all the same, always."""
    return verdict.reason not in (TOO_FEW, NOT_PROBED) or profile in ANSWERED_BY.get(verdict.knob, (profile,))


def judged(store: Store, run: Run) -> Iterator[Judged]:
    """Every parameter that the run asked about, for every site from every vantage, with its truth."""
    internet = _internet(store, run)
    known = {site.host for site in internet.sites}
    found = [item for item in found_in(store.results(run.id)) if item.site in known]
    asked = {knob for item in found for knob in item.verdicts}
    profile = str(json.loads(run.config).get("options", {}).get("profile", ""))
    for item in found:
        silence = Observation("", reason=item.reason or NOT_PROBED)
        trouble = internet.server(item.vantage, item.site).trouble
        for knob, expectation in oracle(internet, item.vantage, item.site).items():
            if knob not in asked:
                continue
            verdict = item.verdicts.get(knob) or replace(silence, knob=knob)
            needless = knob in WHERE_NEEDED and knob not in item.verdicts and shows_window(item.verdicts.get(CLEAR))
            is_due = is_asked(verdict, profile) and not needless
            yield Judged(item.vantage, item.site, knob, verdict, expectation, trouble, is_due)


def shows_window(clear: Observation | None) -> bool:
    """Whether the verdict in clear is an exact window, so that TLS need not be asked."""
    return clear is not None and clear.grade in ("A", "B", "C")
