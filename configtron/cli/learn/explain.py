# SPDX-License-Identifier: MIT
"""`configtron learn explain`."""

from __future__ import annotations

import click

from configtron.cli.learn.options import policy_option
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, event_lines, write_rows
from configtron.cli.settings import settings


@click.command(short_help="Show which profile a client gets, and why.")
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
