# SPDX-License-Identifier: MIT
"""`configtron learn` explain, evaluate, knobs: questions to a policy."""

from __future__ import annotations

from typing import BinaryIO

import click

from configtron.cli.learn.options import last_option, log_option, policy_option
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, event_lines, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import BadInput


@click.command()
@click.argument("who", metavar="PREFIX|ADDRESS|CONTEXT")
@policy_option()
@click.option("--site", default="", metavar="SITE", help="For this website.  [default: an unknown one]")
@form_options
def explain(who: str, name: str, site: str, form: str, output_file: str) -> None:
    """Show which profile a client gets, and why: its class, the profiles it may get and their results, knobs that help.

    A PREFIX stands for its latest 50 outcomes; an ADDRESS, or a prefix without outcomes, for the longest logged prefix
    that contains it, which the answer names. A CONTEXT is written bandwidth_kbps=5000,rtt_ms=80,loss=0.01
    (docs/fingerprint.md lists more). Nothing is assigned or learned. docs/learn.md explains the columns. Exit code 2:
    no outcome has such a prefix, or the policy does not know the site; leave --site out then, since all unknown
    sites get the same decision.
    """
    from configtron.service.learning import explaining
    from configtron.service.learning.rows import EXPLANATION_COLUMNS, explanation_rows

    found = explaining.explain(explaining.ExplainOptions(settings().db, who, name, site), event_lines())
    write_rows(form, output_file, EXPLANATION_COLUMNS, explanation_rows(who, found), LEARNING)


# Estimators, of which `dr` and `dr_ln` are printed unless others are asked for.
ESTIMATORS, USUAL = ("dr", "dr_ln", "ips", "snips"), ("dr", "dr_ln")


@click.command()
@policy_option("candidates", multiple=True,
               help="A policy of `learn status`, default, or KNOB=VALUE,...  [default: saved last]")  # fmt: skip
@click.option("--estimator", "estimators", multiple=True, type=click.Choice(ESTIMATORS),
              help="Estimator; repeat for more.  [default: dr and dr_ln]")  # fmt: skip
@log_option
@last_option
@form_options
def evaluate(candidates: tuple[str, ...], estimators: tuple[str, ...], log: int, last: int, form: str,
             output_file: str) -> None:  # fmt: skip
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


@click.command()
@policy_option(help="By the outcomes of this policy of `learn status`.  [default: the one saved last]")
@click.option("--tensor", type=click.File("rb"), metavar="FILE", help="By this PLT-tensor.")
@form_options
def knobs(name: str, tensor: BinaryIO | None, form: str, output_file: str) -> None:
    """Show the knobs that are learned about, which of them do nothing and, on a tensor, what is lost without each.

    \b
    knob        its values, the default first, and where it is
                known to have no effect
    dead        no difference beyond noise; an effect above
                5 % would have shown
    unexplored  not tried by this policy: its options exclude
                it, or outcomes proved it dead
    unproven    as dead, but too few outcomes to exclude a
                larger effect
    importance  excess of the best configuration with this
                knob at its default over the best of all

    docs/learn.md explains the columns.
    """
    from configtron.model.tensor import read
    from configtron.service.learning import rows
    from configtron.service.learning.knobs import knobs_of_policy, knobs_of_tensor

    if name and tensor is not None:
        raise BadInput("--policy and --tensor are two answers; ask for one at a time")
    if tensor is not None:
        found = knobs_of_tensor(read(tensor, tensor.name))
    else:
        found = knobs_of_policy(settings().db, name, event_lines())
    write_rows(form, output_file, rows.EFFECT_COLUMNS, [*rows.known_knob_rows(), *rows.effect_rows(found)], LEARNING)
