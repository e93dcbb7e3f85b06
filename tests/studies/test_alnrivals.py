# SPDX-License-Identifier: MIT
"""The study `alnrivals` on planted results, whose figures are known; its trials in a guest, whose paths are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.learner.initial.end_states import EndStates, of_rows
from configtron.model.errors import BadInput
from configtron.studies import alnrivals
from configtron.studies.initial_states import rival_claims
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.repeated_trials import (
    AGAIN,
    REPEATED_ARMS,
    ClearDifference,
    clear_differences,
    compared_phases,
    repeated_trials,
)
from configtron.studies.initial_states.rival_claims import BAND, BESIDE, REPEATED, rule_of
from configtron.studies.initial_states.rival_rows import ComparedTransfers, compared_transfers, rival_rows
from configtron.studies.initial_states.rival_windows import (
    ARMS,
    AVERAGE,
    CONSTANT,
    LAST,
    METRICS,
    NULL,
    PACED,
    RULE,
    remembered,
    rival_windows,
    trials_of,
)
from configtron.studies.initial_states.transfer_orders import Transferred
from configtron.studies.initial_states.trials import (
    RivalTrial,
    TrialResult,
    performed_trials,
    trial_results_of,
    trial_results_text,
    trials_of_text,
    trials_text,
)
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN
from configtron.studies.registry.kinds import Arguments

DONE = Transferred(0.5, 99.0, 130.0, 40, 60, 70, 2, 1, 0.1, 100_000, early_out=35)


def transfer(at: int, rtt_ms: float = 150.0) -> Transfer:
    return Transfer(f"10.0.{at % 8}.0/24", 1.7e9 + at, 10_000.0, rtt_ms, 180_000, 100_000, at + 1)


def nulls(count: int = 160) -> EndStates:
    """Prefixes 0 to 5, whose paths hold some 60 segments; prefixes 6 and 7 were never seen."""
    rng = np.random.default_rng(1)
    return of_rows([
        {"prefix": f"10.0.{at % 6}.0/24", "at_s": 1.6e9 + 999.0 * at, "min_rtt_ms": 150.0, "packets_out": 150.0,
         "max_cwnd": float(60.0 * np.exp(0.2 * rng.standard_normal()))}
        for at in range(count)
    ])  # fmt: skip


def planted(gain: float, harmed: int, count: int = 200, beside: float = 1.0) -> ComparedTransfers:
    """The rule gains so much but for so many transfers, which take twice as long; all rivals do as Null."""
    null = np.exp(0.5 * np.random.default_rng(1).standard_normal(count))
    seconds = np.tile(null[:, None], (1, len(ARMS)))
    seconds[:, ARMS.index(RULE)] /= gain
    seconds[:harmed, ARMS.index(RULE)] = 2.0 * null[:harmed]
    other = np.full(seconds.shape, 1e6)
    other[:, ARMS.index(RULE)] *= beside
    other[:, ARMS.index("fixed-100")] *= 0.5
    return ComparedTransfers([transfer(at) for at in range(count)], seconds, np.zeros(seconds.shape),
                          np.full(seconds.shape, 50.0), other, np.full(seconds.shape, 25.0))  # fmt: skip


def test_what_is_remembered_of_a_prefix() -> None:
    rows = [{"prefix": "10.0.0.0/24", "max_cwnd": window, "packets_out": 10.0 * at}
            for at, window in enumerate((20.0, 60.0, 20.0), 2)]  # fmt: skip
    # 20; 0.25 x 60 + 0.75 x 20 = 30; 0.25 x 20 + 0.75 x 30 = 27.5
    assert remembered(of_rows(rows)) == {"10.0.0.0/24": (20, 27, 40)}


def test_each_rival_has_its_window() -> None:
    states = nulls()
    asked = alnrivals.clients_of([transfer(0), transfer(7)])
    known, stranger = (dict(zip(ARMS, row, strict=True)) for row in rival_windows(states, asked).tolist())
    assert known[NULL] == stranger[NULL] == known[METRICS] == 0 and known[CONSTANT] == 32 and known[PACED] == 20
    assert known[LAST] == remembered(states)["10.0.0.0/24"][0] and known[AVERAGE] == pytest.approx(60, abs=12)
    # of a prefix never seen memories know nothing; the rule has half of what its network's paths hold
    assert stranger[LAST] == stranger[AVERAGE] == 0 and 15 <= stranger[RULE] <= known[RULE] + 5 <= 35


def test_trials_are_those_that_differ_from_null() -> None:
    states, fresh = nulls(), [transfer(0), transfer(7)]
    trials = trials_of(fresh, rival_windows(states, alnrivals.clients_of(fresh)), states, competing=True)
    assert [one.arm for one in trials if one.transfer.seed == 1] == list(ARMS)
    assert {one.arm for one in trials if one.transfer.seed == 8} == set(ARMS) - {LAST, AVERAGE, METRICS}
    assert [one.warm_bytes for one in trials if one.arm == METRICS] == [150 * 1448]
    assert {one.arm for one in trials if one.paced} == {PACED, RULE} and all(one.competing for one in trials)


def test_only_the_rule_shrinks_by_what_is_saved_of_the_prefix() -> None:
    states, fresh = nulls(), [transfer(0), transfer(7), Transfer("10.9.9.0/24", 1.7e9, 1e4, 150.0, 180_000, 100_000, 9)]
    trials = trials_of(fresh, rival_windows(states, alnrivals.clients_of(fresh)), states, competing=True)
    assert {one.saved_ms for one in trials if one.arm != RULE} == {0.0}
    # of a prefix never seen its network's; nothing is saved of a network never seen
    assert [one.saved_ms for one in trials if one.arm == RULE] == [150.0, 150.0, 0.0]


def test_null_and_the_rule_and_null_once_more_run_at_the_same_phases() -> None:
    states, fresh = nulls(), [transfer(at) for at in range(4)]
    windows = rival_windows(states, alnrivals.clients_of(fresh))
    windows[1, ARMS.index(RULE)] = 0
    trials = repeated_trials(fresh, windows, states, 2)
    assert {one.transfer.seed for one in trials} == {1, 3} and all(one.competing for one in trials)
    phases = {arm: [one.phase for one in trials if one.arm == arm and one.transfer.seed == 1] for arm in REPEATED_ARMS}
    assert phases[NULL] == phases[AGAIN] == phases[RULE] == [0, 1, 2]
    assert trials[1].delay_s == pytest.approx(0.2 + 1.37 * 0.15)
    assert {one.paced for one in trials if one.arm == RULE} == {True}
    assert {one.transfer.window for one in trials if one.arm != RULE} == {0}


@pytest.mark.slow
def test_harm_beside_a_flow_is_of_means_and_stands_beside_what_chance_makes() -> None:
    """One run of three that takes twice as long is harm, one that takes a tenth longer is none."""
    states, fresh = nulls(), [transfer(at) for at in range(4)]
    trials = repeated_trials(fresh, rival_windows(states, alnrivals.clients_of(fresh)), states, 4)
    slower = {(1, RULE): 2.0, (2, RULE): 1.1, (3, AGAIN): 2.0, (4, AGAIN): 2.0}
    pairs = []
    for one in trials:
        factor = slower.get((one.transfer.seed, one.arm), 1.0) if one.phase < 1 else 1.0
        pairs.append((one, TrialResult(DONE._replace(seconds=0.5 * factor, early=int(one.arm == RULE)), 1000)))
    compared = compared_phases(pairs)
    rows = {row.arm: row for row in rival_rows(compared, np.random.default_rng(1), REPEATED_ARMS)}
    assert rows[RULE].harmed == 0.25 and rows[AGAIN].harmed == 0.5 and rows[NULL].harmed == 0
    assert rows[RULE].early == pytest.approx(1 / 70) and rows[RULE].early_rate == pytest.approx(1 / 35)
    assert rows[RULE].loses == 0.0
    assert [one.seed for one in compared_phases(pairs[1:]).transfers] == [2, 3, 4]
    null = planted(1.0, 0)
    found = alnrivals.results_of_rivals(nulls(), null, null, null.transfers, set(), 1, pairs)
    harm = next(fact for fact in rival_claims.facts(found) if REPEATED in fact.claim)
    assert harm.verdict == ABSENT and "25.0%" in harm.ours and "null-again 50.0%" in harm.words
    # one slow run of three is not clear
    clear = next(fact for fact in rival_claims.facts(found) if "every run" in fact.claim)
    assert clear.verdict == PARTLY and clear.ours.startswith("0.0%")


def test_a_clear_difference_is_what_every_run_shows() -> None:
    states, fresh = nulls(), [transfer(at) for at in range(4)]
    trials = repeated_trials(fresh, rival_windows(states, alnrivals.clients_of(fresh)), states, 4)
    factors = {(1, RULE): 1.2, (2, RULE): 1.04, (3, RULE): 0.5}
    pairs = [(one, TrialResult(DONE._replace(seconds=0.5 * factors.get((one.transfer.seed, one.arm), 1.0))))
             for one in trials]  # fmt: skip
    assert clear_differences(pairs) == {RULE: ClearDifference(1, 1, 4), AGAIN: ClearDifference(0, 0, 4)}
    assert clear_differences(pairs[1:])[RULE] == ClearDifference(0, 1, 3)


def test_orders_and_results_survive_their_text() -> None:
    trials = [RivalTrial(transfer(0), RULE, True, 7, True, 99.5, 1.3), RivalTrial(transfer(1), NULL)]
    assert trials_of_text(trials_text(trials)) == trials
    assert trial_results_of(trial_results_text([TrialResult(DONE, 5)])) == [TrialResult(DONE, 5)]
    for text in ("{", "[[1]]", "3"):
        with pytest.raises(BadInput):
            trials_of_text(text)
    with pytest.raises(BadInput):
        trial_results_of("[1]\n")


def test_a_transfer_with_a_failed_trial_counts_for_no_rival() -> None:
    trials = [
        RivalTrial(transfer(at)._replace(window=window), arm)
        for at in (0, 1)
        for window, arm in ((0, NULL), (32, CONSTANT))
    ]
    pairs = [(one, TrialResult(DONE._replace(seconds=1.0 + one.transfer.window))) for one in trials]
    whole = compared_transfers(trials, pairs)
    assert whole.seconds[:, ARMS.index(CONSTANT)].tolist() == [33.0, 33.0] and whole.seconds[0, -1] == 1.0
    assert [one.seed for one in compared_transfers(trials, pairs[:3]).transfers] == [1]


def test_gain_harm_and_the_others_loss_are_of_the_same_transfers() -> None:
    one = rule_of(rival_rows(planted(1.25, 8, beside=0.97), np.random.default_rng(1)))
    assert one.harmed == 0.04 and one.harmed_low < 0.04 < one.harmed_high
    assert one.mean == pytest.approx(0.96 * 1.25 + 0.04 * 0.5) and one.low <= one.mean <= one.high
    assert one.loses == pytest.approx(0.03) and one.better == 0.96


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gain", "harmed", "verdicts"),
    [
        # harmed alone, harmed beside, gain, tails, first flights, unseen, ahead, the other's loss, intervals
        (1.5, 0, [HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, UNKNOWN]),
        (1.1, 9, [PARTLY, PARTLY, ABSENT, ABSENT, ABSENT, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS, UNKNOWN]),
        (0.9, 0, [ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, HOLDS, HOLDS, ABSENT, ABSENT, ABSENT, HOLDS, UNKNOWN]),
    ],
)
def test_verdicts_follow_the_results(gain: float, harmed: int, verdicts: list[str]) -> None:
    compared = planted(gain, harmed)
    bounds = replace(nulls(), bound=np.ones(len(nulls()), dtype=bool))
    found = alnrivals.results_of_rivals(bounds, compared, compared, compared.transfers, {"10.0.0.0/24"}, 1)
    assert [fact.verdict for fact in rival_claims.facts(found)] == verdicts
    assert {BESIDE, BAND, "5-20 Mbit/s", "buffer 0.5-1"} <= set(found.parts)
    for table in rival_claims.tables(found):
        assert len(set(table.columns)) == len(table.columns), "a reader of CSV finds each column by its name"
        assert table.rows and all(len(row) == len(table.columns) for row in table.rows)


def test_no_transfer_is_refused() -> None:
    none = planted(1.0, 0, count=0)
    with pytest.raises(BadInput, match="no long transfer"):
        alnrivals.results_of_rivals(nulls(), none, none, [], set(), 1)


@pytest.mark.root
@pytest.mark.lab
def test_trials_in_a_guest_are_paced_remembered_and_beside_a_flow(tmp_path: Path) -> None:
    """A small queue drops a window of 60 that comes at once, and none that is paced; the other flow pays for it."""
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    path = Transfer("10.0.0.0/24", 1.7e9, 10_000.0, 100.0, 30_000, 150_000, 1)
    trials = [
        RivalTrial(path, NULL), RivalTrial(path._replace(window=60), LAST),
        RivalTrial(path._replace(window=60), RULE, paced=True),
        RivalTrial(path, METRICS, warm_bytes=600_000), RivalTrial(path, NULL, competing=True),
        RivalTrial(path._replace(window=90), RULE, paced=True, saved_ms=50.0),
        RivalTrial(path._replace(window=31), RULE, paced=True), RivalTrial(path._replace(window=90), RULE, paced=True),
    ]  # fmt: skip
    arguments = replace(Arguments(tmp_path), worker="configtron.studies.guests.worker")
    pairs, missing = performed_trials(arguments, "one", trials)
    assert not missing and [trial for trial, _ in pairs] == trials
    null, burst, paced, memory, beside, shrunk, plain, whole = (result for _, result in pairs)
    assert burst.found.early > 0 == paced.found.early and paced.found.seconds < null.found.seconds
    assert null.competing_bytes == 0 < beside.competing_bytes and beside.found.seconds > null.found.seconds
    # a handshake of 100 ms, where 50 are saved, leaves 31 of 90 segments, which are paced for two round trips
    assert whole.found.seconds < shrunk.found.seconds and shrunk.found.early_out < plain.found.early_out
    # what was remembered ends slow start early, and is forgotten after its trial
    assert memory.found.max_cwnd < 0.85 * null.found.max_cwnd
    again, _ = performed_trials(arguments, "two", [trials[3], trials[0]])
    assert again[1][1].found.max_cwnd == pytest.approx(null.found.max_cwnd, rel=0.05)
