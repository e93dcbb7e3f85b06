# SPDX-License-Identifier: MIT
"""The study `aln`: initial windows learned from the end states of earlier connections, in guests.

Question   Do classifiers find the end state of a connection from its client's place and time, and what do initial
           windows made of their predictions gain and harm?
Method     A world of clients (`clients_world.py`) sends transfers through the lab's kernel under Null; their close
           records teach the classifiers. Exact hits are of later transfers than those learned from. Further transfers,
           a quarter of them from prefixes that Null never saw, run under each strategy, over the same path with the
           same seed. The judges read seconds and packets of the guest; they know nothing of the models.
Stop when  all transfers of the plan have run.
Reads as   `AlnResults`, and the claims of `aln_claims.py`
Fails as   a transfer that ended with a reason counts for no strategy; a failed part is missing by name.
Differs    from ALN: no Web100 (close records instead, and MaxRTT and packets in of `struct tcp_info`); the place is the
           prefix and its network, not latitude and longitude; windows are initial windows; the month is one.
           Competing flows are not in this study.
Source     Applied Learning Networks (ALN)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.initial.end_states import EndStates, checked, places
from configtron.learner.initial.hit_ratios import HitRatio, hit_ratios, parted
from configtron.learner.initial.initial_strategies import PRED_LOW, STRATEGIES, WindowClass, classes_of
from configtron.learner.initial.naive_bayes import inputs_of, learned_from
from configtron.learner.initial.quantisation import MAX_CWND, TARGETS, target_bins
from configtron.model.errors import BadInput
from configtron.studies.initial_states import aln_claims
from configtron.studies.initial_states.aln_claims import AlnResults
from configtron.studies.initial_states.aln_figures import aln_figures
from configtron.studies.initial_states.clients_world import CALM_S, Transfer, paths, transfers
from configtron.studies.initial_states.daemon_cost import daemon_costs
from configtron.studies.initial_states.live_strategies import (
    BANDS,
    LiveTransfers,
    in_band,
    live_rows,
    live_transfers,
    orders_of,
)
from configtron.studies.initial_states.strategy_values import off_policy
from configtron.studies.initial_states.stress import PENALTY, estimated, stressed, with_interval
from configtron.studies.initial_states.transfer_orders import DoneTransfers, end_states_of, performed_transfers
from configtron.studies.initial_states.window_quantiles import QuantileRow, quantile_rows
from configtron.studies.output.results import Evaluated
from configtron.studies.registry.kinds import Arguments, ClaimsStudy

LEARNED_SHARE = 0.75


@dataclass(frozen=True)
class AlnPlan:
    """networks of `prefixes` prefixes each, of which Null sees `LEARNED_SHARE`; transfers of Null, and under every
    strategy."""

    networks: int
    prefixes: int
    null: int
    live: int


FULL = AlnPlan(networks=16, prefixes=8, null=4800, live=1200)
SMOKE = AlnPlan(networks=4, prefixes=4, null=64, live=10)


def run(arguments: Arguments) -> Evaluated:
    """The study. Errors: `Missing`; `BadInput` where too few transfers ended."""
    plan = SMOKE if arguments.smoke else FULL
    rng = np.random.default_rng(arguments.seed)
    world = paths(plan.networks, plan.prefixes, rng)
    known = [one for at, one in enumerate(world) if at % plan.prefixes < LEARNED_SHARE * plan.prefixes]
    asked = transfers(known, plan.null, 0, rng)
    done = performed_transfers(arguments, "null", asked)
    states = _states(done, asked)
    fresh = transfers(world, plan.live, plan.null, rng)
    live_asked = windows_for(states, fresh)
    live_done = performed_transfers(arguments, "live", orders_of(live_asked))
    live = live_transfers(live_asked, live_done.pairs)
    # Only those that sent more than the default window count, as in the paper.
    long = live.some(np.flatnonzero(live.packets[:, 0] > 10))
    null = end_states_of([pair for pair in live_done.pairs if not pair[0].window])
    found = results_of_aln(states, long, null, {one.prefix for one in known}, arguments.seed)
    missing = "; ".join(words for words in (done.missing, live_done.missing) if words)
    return Evaluated(
        "aln", "Initial windows from earlier connections", "Applied Learning Networks", _method(plan, states, live),
        aln_claims.tables(found), aln_claims.plots(found), aln_claims.facts(found), DIFFERS,
        (("seed", str(arguments.seed)), ("prefixes", str(len(world))), ("transfers", str(plan.null + plan.live))),
        missing,
    )  # fmt: skip


DIFFERS = (
    "ALN's clients and tables of bins are not published: a world of the lab is drawn from its bands. The place is the "
    "prefix and its network; windows are initial windows, in force before the first byte. Strategies are compared "
    "on the same transfers, not on different ones. No flow competes."
)


def _method(plan: AlnPlan, states: EndStates, live: LiveTransfers) -> str:
    return (
        f"{plan.null} transfers under Null, of which {int(states.is_long.sum())} sent more than 10 packets and count; "
        f"{len(live.transfers)} under each of {len(STRATEGIES)} strategies, those of more than 10 packets count. "
        "Classifiers learned the earlier half for hits, all of Null for windows. Intervals are of 95 %."
    )


def _states(done: DoneTransfers, asked: list[Transfer]) -> EndStates:
    if not done.pairs:
        raise BadInput(f"no transfer ended: {done.missing}")
    return checked(end_states_of(done.pairs), asked[-1].at_s + CALM_S)[0]


def windows_for(states: EndStates, fresh: list[Transfer]) -> list[tuple[Transfer, WindowClass]]:
    """Return each transfer with the windows that naive Bayes, which learned Null's, gives its place and time."""
    some = states[states.is_long]
    model = learned_from(some, target_bins(some, MAX_CWND.name), len(MAX_CWND.values))
    shares = model.predict(inputs_of(_places(fresh)))
    names = [str(at) for at in range(len(fresh))]
    classes = classes_of(names, shares)
    return [(transfer, classes[name]) for transfer, name in zip(fresh, names, strict=True)]


def _places(fresh: list[Transfer]) -> EndStates:
    """Return rows that have a place, a time and the round trip of a handshake alone."""
    found = places([one.prefix for one in fresh], [one.at_s for one in fresh])
    return replace(found, min_rtt_ms=np.array([one.rtt_ms for one in fresh]))


def results_of_aln(states: EndStates, live: LiveTransfers, null: EndStates, known: set[str], seed: int) -> AlnResults:
    """Return all figures. states: Null's that were learned from; null: of the live transfers under Null. `BadInput`."""
    if not live.transfers:
        raise BadInput("no long transfer ended under every strategy")
    rng = np.random.default_rng([seed, 1])
    order = {at_s: at for at, at_s in enumerate(null.at_s.tolist())}
    null = null[[order[transfer.at_s] for transfer in live.transfers]]
    windows = np.array([one.windows for one in live.classes])
    estimates = [
        with_interval(strategy, penalty, estimated(null, windows, penalty)[:, at], null.prefix, rng)
        for penalty in (0.0, PENALTY) for at, strategy in enumerate(STRATEGIES)
    ]  # fmt: skip
    measured = dict(zip(STRATEGIES, live.speed_ups.mean(axis=0).tolist(), strict=True))
    unseen = np.flatnonzero([transfer.prefix not in known for transfer in live.transfers])
    bands = {band: part for band in BANDS if (part := in_band(live, band)).transfers}
    low = windows[:, STRATEGIES.index(PRED_LOW)]
    shares = stressed(null, rng)
    return AlnResults(
        _hits(states, seed), estimates, measured, shares, live_rows(live, rng),
        {band: live_rows(part, rng) for band, part in bands.items()},
        live_rows(live.some(unseen), rng) if len(unseen) else [],
        off_policy(live, seed), float((low / null.max_cwnd - 1.0).mean()), _path_windows(states, live, known),
        aln_figures(null, live, shares, daemon_costs(states[states.is_long], seed), np.random.default_rng([seed, 3])),
    )  # fmt: skip


def _path_windows(states: EndStates, live: LiveTransfers, known: set[str]) -> list[QuantileRow]:
    """Return what models know of the windows that the paths of the live transfers hold: the world's own."""
    asked = list(live.transfers)
    unseen = np.array([one.prefix not in known for one in asked])
    return quantile_rows(states, _places(asked), np.array([one.capacity for one in asked]), unseen)


def _hits(states: EndStates, seed: int) -> list[HitRatio]:
    earlier, later = parted(states)
    return [row for target in TARGETS for row in hit_ratios(earlier, later, target, seed)]


STUDY = ClaimsStudy(
    "aln",
    "Applied Learning Networks",
    "exact hits of end states, estimated and measured gains of predicted initial windows",
    "five minutes",
    run,
)
