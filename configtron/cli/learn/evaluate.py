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


@click.command(short_help="Estimate the page load times of a policy from logged outcomes.")
@policy_option("candidates", multiple=True,
               help="A policy of `learn status`, default, or KNOB=VALUE,...  [default: saved last]")  # fmt: skip
@click.option("--estimator", "estimators", multiple=True, type=click.Choice(ESTIMATORS),
              help="Estimator; repeat for more.  [default: dr and dr_ln]")  # fmt: skip
@log_option
@last_option
@form_options
def evaluate(
    candidates: tuple[str, ...], estimators: tuple[str, ...], log: int, last: int, form: str, output_file: str
) -> None:
    """Estimate the mean page load time that a candidate would have had on logged outcomes, before any client gets it.

    A candidate is a policy that learns (`learn status`), `default`, or one configuration for all clients: KNOB=VALUE,
    several joined by commas. dr is the mean in ms by a model corrected by weights, dr_ln the same of ln(ms); ips and
    snips weigh loads without a model. All have 95 % intervals, clustered by prefix. Where the log has too few data, a
    reason stands in place of a value or an interval; docs/learn.md lists them. Exit code 2: outcomes without
    propensities."""
    from configtron.service.learning import evaluating
    from configtron.service.learning.rows import VALUE_COLUMNS, value_rows

    options = evaluating.EvaluateOptions(settings().db, candidates, log, last)
    found = evaluating.evaluate(options, event_lines())
    write_rows(form, output_file, VALUE_COLUMNS, value_rows(found, tuple(dict.fromkeys(estimators or USUAL))), LEARNING)
