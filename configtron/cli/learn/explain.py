# SPDX-License-Identifier: MIT
"""`configtron learn explain`."""

from __future__ import annotations

import click

from configtron.cli.learn.options import policy_option
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import DONE


@click.command(short_help="Say which profile a client gets, and why.")
@click.argument("who", metavar="PREFIX|ADDRESS|CONTEXT")
@policy_option
@click.option("--site", default="", metavar="SITE", help="For this website; else for any other than those known.")
@form_options
def explain(who: str, name: str, site: str, form: str, output_file: str) -> int:
    """Say which profile a client gets, and why: its class, what it may get and what was seen of that, which knob helps.

    A PREFIX stands for its latest 50 outcomes in the log that the policy learns from: medians of bandwidth and round
    trip, mean loss. An ADDRESS, or a prefix that no outcome is of, stands for the longest prefix that outcomes are of
    and that contains it, however that is spelt; the answer names it.
    A CONTEXT is written bandwidth_kbps=5000,rtt_ms=80,loss=0.01 (site=, prefix=, device= and what else docs/fields.md
    lists of an outcome, too). Nothing is drawn or
    learned to answer. A choice is named by its knobs' values; which is whose is in JSON (`settings`). `loads` are those
    of this class and site. `excess` is expected page load time over Default's, a share; of a knob: what putting it back
    to its default would cost. Exit code 2: no outcome is of such a prefix, or a site that the policy does not know:
    leave the site out, since all of those are decided for alike.
    """
    from configtron.cli.display import EventLines
    from configtron.service.learning import explaining
    from configtron.service.learning.rows import EXPLANATION_COLUMNS, explanation_rows

    found = explaining.explain(explaining.ExplainOptions(settings().db, who, name, site), EventLines())
    write_rows(form, output_file, EXPLANATION_COLUMNS, explanation_rows(who, found), LEARNING)
    return DONE
