# SPDX-License-Identifier: MIT
"""`configtron learn run`."""

from __future__ import annotations

from typing import Any

import click

from configtron.cli.completing import either
from configtron.cli.learn.making import asked_for, making_of, making_options
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, write_rows
from configtron.cli.settings import settings
from configtron.cli.signals import terminated
from configtron.model.errors import DONE


@click.command(short_help="Let a policy learn from the database's outcomes.")
@click.option(
    "--policy",
    default="",
    metavar="POLICY",
    shell_complete=either,
    help="Which: one of `learn status` goes on; one of `learn policies`, or a class package.module:Class,"
    " is made new.  [default: thompson]",
)
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="Name of a policy that is made new; --policy takes it from then on.  [default: as --policy]",
)
@making_options
@click.option("--outcomes", "most", type=click.IntRange(1), metavar="N", help="Learn from at most N more now.")
@click.option("--fresh", is_flag=True, help="Delete what the policy learned and decided, and start it anew.")
@form_options
def run(name: str, policy: str, most: int | None, fresh: bool, form: str, output_file: str, **making: Any) -> int:
    """Let a policy learn from the database's outcomes, in order of arrival, whatever policy decided them.

    For each outcome's client the policy first makes its own decision; profile, arm, class and propensity are stored
    (table `decision`). Then it learns the outcome. State and decisions are saved in one transaction: after a kill,
    --policy NAME alone resumes, with the same result as an uninterrupted run (options that were fixed when it was made
    are refused, --fresh starts anew). A policy that has read all outcomes goes on with new ones; --name stores several
    of a kind.

    --watch takes each outcome as a sample of its client's network: the policy decides by the medians of the client's
    outcomes since the last change that a detector found in its round trips. How often clients changed class, and after
    how many outcomes, is printed (`reclassified`, `latency` in JSON).

    --classes auto lets members of a class differ by 0.25 in ln(ms), beside the noise of single loads. The noise is
    measured where the first 10 000 outcomes repeat a prefix, site and profile; a line reports it, and whether even 64
    classes, the most that are made, leave members further apart. --evolve splits a class when its members differ by
    more, or two halves of it want different configurations; classes keep their names.

    The first 10 000 outcomes also select further features of clients (docs/fields.md): those that decide page load
    times beyond bandwidth, round trip, loss and chance. Classes use these too; --features few skips the test.

    If --warm or --damage-from has measured what neighbours on the bottleneck lose (docs/tensor.md), a class is served
    no configuration by which they lost more than --damage bytes for each byte of a page, under conditions near that
    class (the page itself takes 1.0).

    Configurations that `configtron tune` would refuse here are not chosen; their number and the reasons are printed:
    beyond the operator's bounds, or unfair to other traffic (--bound, --allow-unfair, and `tune`'s section of the
    settings file). Where damage was measured, it replaces the list of unfair names, class by class. Outcomes of such
    configurations are learned all the same. --all-configurations chooses among all; the bound on damage stays.

    At 10 000 outcomes, and at each doubling, the policy looks for knobs without effect. A knob is dead where an effect
    of 3 % in the means of any two of class, site and other knobs would have been seen (one in twenty knobs with just
    that effect is called dead). It is not explored any more: runs print it (`unexplored` in JSON), and the policy
    learns all outcomes once more without it. Effects that need three things together may be lost with it.

    --budget bounds the cost of exploration, as a share of Default's mean page load time; proven gains are spent on
    exploration too. Only policies with a budget take it. A configuration that is several times slower is dropped
    between updates. `learn status` shows both.

    `agreed` is the share of decisions in which policy and logger agree. A website that was not in the log when the
    policy was made is modelled with all other such websites; a profile that was not asks for --fresh. Exit code 130:
    ended by Ctrl-C, SIGTERM or SIGHUP; a line reports how many outcomes are saved.
    """
    from configtron.cli.display import EventLines
    from configtron.service.learning import running
    from configtron.service.learning.rows import LEARNED_COLUMNS, learned_row

    with terminated():
        options = running.LearnOptions(settings().db, policy, name, making_of(making), asked_for(), most, fresh)
        taken = running.run(options, EventLines())
        write_rows(form, output_file, LEARNED_COLUMNS, [learned_row(taken)], LEARNING)
    return DONE
