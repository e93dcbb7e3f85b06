# SPDX-License-Identifier: MIT
"""The study `alnrivals`: initial windows by rule, by rivals, alone and beside a competing flow, in guests.

Question   What do initial windows of a learned rule gain and harm, beside constants, memories of prefixes, Linux's own
           memory and pacing, over the papers' bands of paths?
Method     The world of the study `aln`: round trips 10 to 600 ms, 1 to 100 Mbit/s, buffers of 0.25 to 2 times rate by
           round trip, web-like sizes, evenings that are slower. Transfers under Null teach; others, a quarter of them
           from prefixes that Null never saw, run under every rival (`rival_windows.py`) over the same path with the
           same seed, and some of them beside a cubic flow too. Beside a flow one run shows little of harm, so that
           Null and the rule run several times each (`repeated_trials.py`). The judges read seconds and packets of the
           guest; they know nothing of the models.
Stop when  all trials of the plan have run.
Reads as   `RivalResults`, and the claims of `rival_claims.py`
Fails as   a transfer with a trial that ended with a reason counts for no rival; a failed part is missing by name.
Differs    the rule and its constants were found on worlds of the seeds 1, 101, 102, 301, 304 and 305: judge it by
           others. Its windows are paced by the socket and retreat by cubic's own rule, where RFC 9959 has one. Beside a
           flow models are asked by the round trip without a queue.
Source     RFC 9959; Riptide (CoNEXT 2016); Applied Learning Networks (ALN)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.initial.end_states import DEFAULT_WINDOW, SEGMENT_BYTES, EndStates, checked, places
from configtron.model.errors import BadInput
from configtron.studies.initial_states import rival_claims
from configtron.studies.initial_states.clients_world import CALM_S, Transfer, paths, transfers
from configtron.studies.initial_states.live_strategies import BANDS
from configtron.studies.initial_states.repeated_trials import (
    PHASES,
    REPEATED_ARMS,
    clear_differences,
    compared_phases,
    repeated_trials,
)
from configtron.studies.initial_states.rival_claims import ALONE, BESIDE, REPEATED, RivalResults
from configtron.studies.initial_states.rival_rows import (
    ComparedTransfers,
    RivalRow,
    compared_transfers,
    rival_rows,
    within,
)
from configtron.studies.initial_states.rival_windows import ARMS, rival_windows, trials_of
from configtron.studies.initial_states.transfer_orders import end_states_of, performed_transfers
from configtron.studies.initial_states.trials import RivalTrial, TrialResult, performed_trials
from configtron.studies.initial_states.window_quantiles import quantile_rows
from configtron.studies.output.results import Evaluated
from configtron.studies.registry.kinds import Arguments, ClaimsStudy

LEARNED_SHARE = 0.75
# Mbit/s; shares of rate times round trip.
RATES, BUFFERS = ((1.0, 5.0), (5.0, 20.0), (20.0, 101.0)), ((0.25, 0.5), (0.5, 1.0), (1.0, 2.01))


@dataclass(frozen=True)
class RivalPlan:
    """networks of `prefixes` prefixes each; transfers of Null that teach, under every rival alone, and beside; under
    Null and the rule beside a flow, at several phases."""

    networks: int
    prefixes: int
    null: int
    alone: int
    beside: int
    repeated: int


SMALL = RivalPlan(networks=16, prefixes=8, null=1800, alone=300, beside=50, repeated=80)
WHOLE = RivalPlan(networks=16, prefixes=8, null=4800, alone=1200, beside=80, repeated=240)
SMOKE = RivalPlan(networks=4, prefixes=4, null=64, alone=8, beside=2, repeated=2)


def run_plan(arguments: Arguments, name: str, plan: RivalPlan) -> Evaluated:
    """Run a plan. Errors: `Missing`; `BadInput` where too few transfers ended."""
    plan = SMOKE if arguments.smoke else plan
    rng = np.random.default_rng(arguments.seed)
    world = paths(plan.networks, plan.prefixes, rng)
    known = [one for at, one in enumerate(world) if at % plan.prefixes < LEARNED_SHARE * plan.prefixes]
    asked = transfers(known, plan.null, 0, rng)
    done = performed_transfers(arguments, "null", asked)
    if not done.pairs:
        raise BadInput(f"no transfer ended: {done.missing}")
    states = checked(end_states_of(done.pairs), asked[-1].at_s + CALM_S)[0]
    states = states[states.teaches]
    fresh = transfers(world, plan.alone, plan.null, rng)
    long = [one for one in fresh if one.size > DEFAULT_WINDOW * SEGMENT_BYTES]
    windows = rival_windows(states, clients_of(long))
    some = slice(plan.beside)
    alone, first = _compared(arguments, ALONE, trials_of(long, windows, states, competing=False))
    pairs, second = performed_trials(arguments, "repeated", repeated_trials(long, windows, states, plan.repeated))
    beside, third = _compared(arguments, "beside", trials_of(long[some], windows[some], states, competing=True))
    ruled = len({one.transfer.seed for one, _ in pairs})
    found = results_of_rivals(states, alone, beside, fresh, {one.prefix for one in known}, arguments.seed, pairs)
    return Evaluated(
        name, "Initial windows by a learned rule and by its rivals", "Applied Learning Networks; RFC 9959",
        f"{plan.null} transfers under Null teach; {len(alone.transfers)} long ones under each of {len(ARMS)} rivals "
        f"alone, {len(beside.transfers)} beside a cubic flow; {ruled} beside one under Null and it, {PHASES} times "
        "each. Intervals are of 95 %. Seeds looked at while the rule was made: 1, 101, 102, 301, 304, 305.",
        rival_claims.tables(found), [], rival_claims.facts(found), DIFFERS,
        (("seed", str(arguments.seed)), ("prefixes", str(len(world))), ("transfers", str(plan.null + plan.alone))),
        "; ".join(words for words in (done.missing, first, second, third) if words),
    )  # fmt: skip


DIFFERS = (
    "Riptide averages live connections' windows, here ended ones'. Rapid Start triples, which no socket of Linux does. "
    "tcp_metrics knows one earlier transfer over the same path, with its ssthresh, which Linux leaves out by default."
)


def _compared(arguments: Arguments, name: str, trials: Sequence[RivalTrial]) -> tuple[ComparedTransfers, str]:
    pairs, missing = performed_trials(arguments, name, trials)
    return compared_transfers(trials, pairs), missing


def clients_of(fresh: Sequence[Transfer]) -> EndStates:
    """Return what is known when a transfer begins: its place, its time, the round trip of its handshake."""
    found = places([one.prefix for one in fresh], [one.at_s for one in fresh])
    return replace(found, min_rtt_ms=np.array([one.rtt_ms for one in fresh]))


def results_of_rivals(
    states: EndStates, alone: ComparedTransfers, beside: ComparedTransfers, fresh: Sequence[Transfer], known: set[str],
    seed: int, repeated: Sequence[tuple[RivalTrial, TrialResult]] = (),
) -> RivalResults:  # fmt: skip
    """Return all figures.

    fresh      all transfers that were asked about
    repeated   `repeated_trials` beside a flow, with their results

    Errors: `BadInput` for none that ended alone.
    """
    if not alone.transfers:
        raise BadInput("no long transfer ended under every rival")
    rng = np.random.default_rng([seed, 2])
    parts = {ALONE: alone, BESIDE: beside} | _parts_of(alone)
    unseen = np.array([one.prefix not in known for one in alone.transfers])
    rows: dict[str, list[RivalRow]] = {name: rival_rows(part, rng) for name, part in parts.items() if part.transfers}
    phases = compared_phases(repeated)
    if phases.transfers:
        rows[REPEATED] = rival_rows(phases, rng, REPEATED_ARMS)
    strangers = np.array([one.prefix not in known for one in fresh])
    return RivalResults(
        rows, rival_rows(alone.some(np.flatnonzero(unseen)), rng) if unseen.any() else [],
        quantile_rows(states, clients_of(fresh), np.array([one.capacity for one in fresh]), strangers),
        clear_differences(repeated) if phases.transfers else {},
    )  # fmt: skip


def _parts_of(alone: ComparedTransfers) -> dict[str, ComparedTransfers]:
    """Return the transfers by bands of round trip, rate and buffer."""
    every = alone.transfers
    trips = np.array([one.rtt_ms for one in every])
    rates = np.array([one.rate_kbit / 1e3 for one in every])
    buffers = np.array([one.queue_bytes * 8.0 / (one.rate_kbit * one.rtt_ms) for one in every])
    found = {f"{span[0]:.0f}-{span[1]:.0f} ms": within(alone, trips, span) for span in BANDS}
    found |= {f"{span[0]:.0f}-{span[1]:.0f} Mbit/s": within(alone, rates, span) for span in RATES}
    return found | {f"buffer {span[0]:.2g}-{span[1]:.2g}": within(alone, buffers, span) for span in BUFFERS}


def run(arguments: Arguments) -> Evaluated:
    """The small plan. Errors: those of `run_plan`."""
    return run_plan(arguments, "alnrivals", SMALL)


STUDY = ClaimsStudy(
    "alnrivals",
    "Applied Learning Networks; RFC 9959",
    "initial windows by a learned rule beside its rivals: gain, harm, what a competing flow loses",
    "half an hour",
    run,
)
