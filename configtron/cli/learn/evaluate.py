# SPDX-License-Identifier: MIT
"""`configtron learn evaluate`."""

from __future__ import annotations

import click

from configtron.cli.learn.options import last_option, log_option, policy_option
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, event_lines, write_rows
from configtron.cli.settings import settings

# Estimators, of which `dr` and `dr_ln` are printed unless others are asked for.
ESTIMATORS, USUAL = ("dr", "dr_ln", "ips", "snips"), ("dr", "dr_ln")


@click.command(short_help="Say what a policy would have made of outcomes.")
@policy_option("candidates", multiple=True,
               help="Which: of `learn status`, default, or KNOB=VALUE,...; repeat.  [default: saved last]")  # fmt: skip
@click.option("--estimator", "estimators", multiple=True, type=click.Choice(ESTIMATORS),
              help="Which; repeat for more.  [default: dr and dr_ln]")  # fmt: skip
@log_option
@last_option
@form_options
def evaluate(
    candidates: tuple[str, ...], estimators: tuple[str, ...], log: int, last: int, form: str, output_file: str
) -> None:
    """Say what mean page load time a candidate would have come to on logged outcomes, before it is let near a client.

    A candidate is a policy that learns (`learn status`), `default`, or one configuration for all clients: KNOB=VALUE,
    several joined by commas. dr is the mean in ms by a model corrected by weights, dr_ln the same of ln(ms); ips and
    snips weigh loads without a model. All have 95 % intervals, clustered by prefix. What the log cannot carry has a
    reason in place of a value or an interval; docs/learn.md lists them. Exit code 2: outcomes without propensities.
    """
    from configtron.service.learning import evaluating
    from configtron.service.learning.rows import VALUE_COLUMNS, value_rows

    options = evaluating.EvaluateOptions(settings().db, candidates, log, last)
    found = evaluating.evaluate(options, event_lines())
    write_rows(form, output_file, VALUE_COLUMNS, value_rows(found, tuple(dict.fromkeys(estimators or USUAL))), LEARNING)
