# SPDX-License-Identifier: MIT
"""`configtron learn evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from configtron.cli.completing import learned
from configtron.cli.learn.options import last_option, log_option, rounded, saved, say, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from configtron.db.outcomes import Outcomes
    from configtron.learner.logged import Logged
    from configtron.learner.policy import TablePolicy
    from configtron.learner.value import Estimate
    from configtron.model.records import Json

BRING = "bring some: configtron learn import, configtron replay sessions --log"
# Estimators, of which `dr` and `dr_ln` are printed unless others are asked for.
ESTIMATORS, USUAL = ("dr", "dr_ln", "ips", "snips"), ("dr", "dr_ln")
# Characters of a candidate that are shown of it.
SHOWN = 60
VALUE_COLUMNS = (
    "candidate", "estimator", "ms", "low_ms", "high_ms", "sessions", "effective", "unlogged", "learned_from_these",
    "reason",
)  # fmt: skip


@click.command(short_help="Say what a policy would have made of outcomes.")
@click.option("--policy", "candidates", multiple=True, metavar="POLICY", shell_complete=learned,
              help="Which, several times: of `learn status`, default, or KNOB=VALUE,...  [default: the one saved last]")
@click.option("--estimator", "estimators", multiple=True, type=click.Choice(ESTIMATORS),
              help="Which, several times.  [default: dr and dr_ln]")
@log_option
@last_option
@form_options
def evaluate(
    candidates: tuple[str, ...], estimators: tuple[str, ...], log: int, last: int, form: str, output_file: str
) -> int:
    """Say what mean page load time a candidate would have come to on logged outcomes, before it is let near a client.

    A candidate is a policy that learns (`learn status`), `default`, or one configuration for everybody: KNOB=VALUE,
    several joined by commas. Each estimator has a 95 % interval, clustered by prefix: dr, the mean in ms by a model
    corrected by weights; dr_ln, the same of ln(ms), a typical load that no tail of slow ones moves; ips and snips,
    which weigh loads without a model. `effective` is how many sessions the weights amount to; `unlogged` the share of
    the candidate's choices that the log never made: there dr rests on its model alone. All are judged by the same
    outcomes: those that came after any that one of them learned from. If there are none, all outcomes are taken, and
    who learned from them has no interval (log:learned-from): its value, if there is one, may be off either way, by
    any amount.

    Where a log cannot carry a value or an interval, a reason stands in its place: log:never-tried, log:partly-tried
    (log some sessions with a policy that tries the candidate's choices too), log:few-effective, log:below-zero (log
    more of them), log:heavy-tail (too heavy for a mean: read dr_ln), log:weights-above-one (the candidate knew these
    outcomes, or their propensities are wrong), log:learned-from (log new ones). log:propensity-depends-on-context: the
    logger looked at contexts and its propensities do not know it; dr is by propensities fitted to the log, ips and
    snips have no interval. Exit code 2: outcomes without propensities.
    """
    from configtron.db.outcomes import Outcomes

    rows: list[dict[str, Json]] = []
    with Outcomes(settings().db) as store:
        logged = store.last(last, log)
        if logged is None:
            raise BadInput(f"no outcomes to judge by; {BRING}")
        made = {name: _candidate(store, name, log) for name in candidates or (saved(store, "").name,)}
    # All by the same outcomes, so that they can be compared: those that none of them has learned from.
    position = max(position for _, position in made.values())
    later = logged[int((logged.number <= position).sum()) :]
    for name, (candidate, own) in made.items():
        used = later if len(later) else logged
        rows += _judged(name, candidate, used, estimators or USUAL, seen=own > 0 and not len(later))
    write(form, output_file, VALUE_COLUMNS, rows)
    return DONE


def _judged(
    name: str, candidate: TablePolicy, used: Logged, estimators: tuple[str, ...], *, seen: bool
) -> list[dict[str, Json]]:
    from configtron.learner.value import value

    if seen:
        say(f"{name}: has learned from all of these outcomes, so they cannot judge it; log new ones")
    found = value(candidate, used.contexts, used.judging(candidate.grid), used.plt_ms, learned_from=seen)
    rows = [(which, getattr(found, which)) for which in ("logged", *dict.fromkeys(estimators))]
    return [_row(name, which, one, len(used), found.effective, found.unlogged, seen) for which, one in rows]


def _row(name: str, estimator: str, one: Estimate, sessions: int, effective: float, unlogged: float, seen: bool
         ) -> dict[str, Json]:  # fmt: skip
    row: dict[str, Json] = {"candidate": name, "estimator": estimator, "ms": rounded(one.ms)}
    row |= {"low_ms": rounded(one.low_ms), "high_ms": rounded(one.high_ms), "sessions": sessions}
    row |= {"reason": one.reason}
    if estimator == "logged":
        return row
    return row | {"effective": rounded(effective), "unlogged": rounded(unlogged), "learned_from_these": seen}


def _candidate(store: Outcomes, name: str, log: int) -> tuple[TablePolicy, int]:
    """The policy, and the last outcome it learned from."""
    import numpy as np

    from configtron.cli.learn.options import revived
    from configtron.learner.baselines.default import Static
    from configtron.learner.logged import grid_of
    from configtron.model.nouns import Profile
    from configtron.model.tuning_json import setting_of

    if name == "default" or "=" in name:
        settings_ = () if name == "default" else tuple(setting_of(word) for word in name.split(","))
        if len(dict(settings_)) < len(settings_):
            raise BadInput(f"{name[:SHOWN]!r} sets a knob twice")
        asked = Profile(name, settings_)
        grid = grid_of((*store.profiles(log), asked))
        return Static(grid, np.random.default_rng(0), grid.index(asked)), 0
    found = saved(store, name)
    return revived(found), found.position

