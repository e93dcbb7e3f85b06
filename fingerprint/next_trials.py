# SPDX-License-Identifier: MIT
"""Next trials: probes whose next trial could raise a verdict's grade.

Question   The planned trials are in. Which parameters are not known yet (A or B), and could be, if one more were made?
Method     Merge, and look at each verdict: a single reading, a disagreement, a bound that was not the page's end, or
           silence that one lost packet explains.
Stop when  The grade is A or B; nothing more can come (the page ended, the server refused); or a parameter was read
           `TRIALS_MAX` times: trials that still disagree are a finding too.
Reads as   Names of probes, each once, the cheap ones first. Which row of the plan a probe's next trial takes is the
           campaign's business.
Fails as   (): nothing is worth asking again.
Differs    from a fixed number of trials: without loss most targets need no third.
Source     `docs/fingerprint.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.verdict import PASSING
from configtron.fingerprint.window_proofs import BETTERED
from configtron.model.knobs import MEASURED
from configtron.model.nouns import Observation

KNOWN = ("A", "B")
# Twice the three that grade A asks for: after so many, loss alone seldom keeps any two apart.
TRIALS_MAX = 6
# Probes that hold a connection for long, the longest last; all others take a round trip or two.
HOLDING = ("icw", "icw_tls", "rto")
NAMES = frozenset(knob.name for knob in MEASURED)


def next_trials(trials: Iterable[Observation]) -> tuple[str, ...]:
    """Return probes worth another trial, given all readings of one target from one vantage so far."""
    verdicts = merge_all(trials)
    probes = {_probe(v.trials) for knob, v in verdicts.items() if knob in NAMES and _could_rise(v)}
    return tuple(sorted(probes - {""}, key=_cost))


def _could_rise(verdict: Observation) -> bool:
    if verdict.grade in KNOWN or len(verdict.trials) >= TRIALS_MAX:
        return False
    if verdict.grade == "L":
        return "seen" in dict(verdict.details) or verdict.detail("proof") in BETTERED
    return verdict.grade == "C" or verdict.reason in PASSING


def _probe(trials: Sequence[Observation]) -> str:
    """Return the cheapest probe that these were read from; a trace's id is "vantage/host/probe.trial"."""
    names = {trial.trace_id.rpartition("/")[2].partition(".")[0] for trial in trials}
    return min(names - {""}, key=_cost, default="")


def _cost(probe: str) -> tuple[int, str]:
    return (HOLDING.index(probe) + 1 if probe in HOLDING else 0), probe
