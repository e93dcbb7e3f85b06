# SPDX-License-Identifier: MIT
"""Null and the rule, each begun at several times beside a competing flow: harm beyond what chance makes.

Question   Which transfers does the rule make worse beside a flow, where Null itself takes over 5 % longer in a sixth of
           all transfers if it begins a third of a round trip later?
Method     A transfer runs at `PHASES` phases of the competing flow (`RivalTrial.phase`) under Null, the rule, and Null
           once more. Its time under each is the mean of its phases. The rule makes it worse where its mean is
           over 5 % longer than Null's; Null once more, judged alike, shows what chance makes: a guest's clock and
           random numbers go on from trial to trial, so that no two runs meet the same queue. Only transfers to which
           the rule gives a window run: all others are Null's. Means of so few runs leave much to chance; clearly worse
           is a transfer of which even the quickest run takes over 5 % longer than Null's slowest (of two equal arms one
           in twenty would be so without the 5 %), clearly better the reverse.
Reads as   `ComparedTransfers` with the columns of `REPEATED_ARMS`, for `rival_rows`: mean seconds; sums of all else.
           `ClearDifference` by arm
Fails as   a transfer of which a phase failed is left out
Differs    from one run each, where a queue that is full by chance counts as harm
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes
from configtron.learner.initial.end_states import DEFAULT_WINDOW, EndStates
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.live_strategies import HARMED
from configtron.studies.initial_states.rival_rows import ComparedTransfers
from configtron.studies.initial_states.rival_windows import ARMS, NULL, RULE, saved_ms
from configtron.studies.initial_states.trials import RivalTrial, TrialResult

AGAIN = "null-again"
REPEATED_ARMS = NULL, AGAIN, RULE
# Phases of each arm.
PHASES = 3


def repeated_trials(fresh: Sequence[Transfer], windows: Codes, states: EndStates, most: int) -> list[RivalTrial]:
    """Return the trials of the first `most` transfers to which the rule gives a window. windows: (n, arms)."""
    saved, found = saved_ms(states, fresh), list[RivalTrial]()
    ruled = [pair for pair in zip(fresh, windows[:, ARMS.index(RULE)].tolist(), strict=True) if pair[1]]
    for transfer, window in ruled[:most]:
        null = RivalTrial(transfer, NULL, competing=True)
        rule = RivalTrial(transfer._replace(window=window), RULE, True, 0, True, saved[transfer.prefix])
        for one in (null, null._replace(arm=AGAIN), rule):
            found += [one._replace(phase=phase) for phase in range(PHASES)]
    return found


class ClearDifference(NamedTuple):
    """How many transfers of how many are clearly worse, and clearly better, under an arm than under Null."""

    worse: int
    better: int
    transfers: int


def compared_phases(pairs: Sequence[tuple[RivalTrial, TrialResult]]) -> ComparedTransfers:
    """Return the long transfers of which every phase ended under every arm."""
    transfers = {trial.transfer.seed: trial.transfer._replace(window=0) for trial, _ in pairs}
    by = _by_transfer(pairs)
    rows = [[_sums(of[arm]) for arm in REPEATED_ARMS] for of in by.values()]
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), len(REPEATED_ARMS), 5)
    return ComparedTransfers([transfers[seed] for seed in by], *(columns[:, :, at] for at in range(5)))


def clear_differences(pairs: Sequence[tuple[RivalTrial, TrialResult]]) -> dict[str, ClearDifference]:
    """Return by arm, the rule and Null once more, how many of these transfers clearly differ from Null's."""
    by, found = _by_transfer(pairs), dict[str, ClearDifference]()
    for arm in (RULE, AGAIN):
        pairs_of = [(_seconds(of[NULL]), _seconds(of[arm])) for of in by.values()]
        worse = sum(max(null) * (1 + HARMED) < min(own) for null, own in pairs_of)
        better = sum(max(own) * (1 + HARMED) < min(null) for null, own in pairs_of)
        found[arm] = ClearDifference(worse, better, len(pairs_of))
    return found


def _by_transfer(pairs: Sequence[tuple[RivalTrial, TrialResult]]) -> dict[int, dict[str, list[TrialResult]]]:
    """Return seed -> arm -> results, of long transfers of which every phase ended under every arm."""
    by: dict[int, dict[str, list[TrialResult]]] = {}
    for trial, result in pairs:
        by.setdefault(trial.transfer.seed, {}).setdefault(trial.arm, []).append(result)
    whole = {seed: of for seed, of in by.items() if all(len(of.get(arm, ())) == PHASES for arm in REPEATED_ARMS)}
    return {seed: of for seed, of in whole.items() if of[NULL][0].found.packets_out > DEFAULT_WINDOW}


def _seconds(results: Sequence[TrialResult]) -> list[float]:
    return [one.found.seconds for one in results]


def _sums(results: Sequence[TrialResult]) -> tuple[float, ...]:
    found = [one.found for one in results]
    return (sum(one.seconds for one in found) / len(found), sum(one.early for one in found),
            sum(one.packets_out for one in found), sum(one.competing_bytes for one in results),
            sum(one.early_out for one in found))  # fmt: skip
