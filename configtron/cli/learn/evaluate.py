# SPDX-License-Identifier: MIT
"""`configtron learn evaluate`."""

from __future__ import annotations

import click

from configtron.cli.completing import learned
from configtron.cli.learn.options import last_option, log_option
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import DONE

# Estimators, of which `dr` and `dr_ln` are printed unless others are asked for.
ESTIMATORS, USUAL = ("dr", "dr_ln", "ips", "snips"), ("dr", "dr_ln")


@click.command(short_help="Say what a policy would have made of outcomes.")
@click.option(
    "--policy",
    "candidates",
    multiple=True,
    metavar="POLICY",
    shell_complete=learned,
    help="Which, several times: of `learn status`, default, or KNOB=VALUE,...  [default: the one saved last]",
)
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    type=click.Choice(ESTIMATORS),
    help="Which, several times.  [default: dr and dr_ln]",
)
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
    from configtron.cli.display import EventLines
    from configtron.service.learning import evaluating
    from configtron.service.learning.rows import VALUE_COLUMNS, value_rows

    options = evaluating.EvaluateOptions(settings().db, candidates, log, last)
    found = evaluating.evaluate(options, EventLines())
    write_rows(form, output_file, VALUE_COLUMNS, value_rows(found, tuple(dict.fromkeys(estimators or USUAL))), LEARNING)
    return DONE
