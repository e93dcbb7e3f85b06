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
    (table `decision`). Then it learns the outcome. Its state is saved with its decisions, in one transaction: after an
    interruption or a kill, --policy NAME alone resumes, with the same result as an uninterrupted run (options that
    were fixed when it was made are refused, --fresh begins anew, --outcomes counts from there). A policy that has read
    all outcomes goes on with new ones; --name keeps several of a kind side by side.

    With --watch each outcome is taken as a sample of its client's network: the policy decides for a client by the
    medians of its earlier outcomes since the last change that a detector found in its round trips. How often clients
    changed class, and after how many outcomes, is printed (`reclassified`, `latency` in JSON).

    With --classes auto members of a class may differ by 0.25 in ln(ms), beside the noise of single loads. That noise
    is measured where the first 10 000 outcomes repeat a prefix, site and profile; it is printed, or why it is not
    known, and whether even 64 classes, the most that are made, leave members further apart. --evolve splits a class
    when its members come to differ by more, or two halves of it want different configurations; classes keep their
    names.

    The first 10 000 outcomes also decide which further features of a client count (queueing delay, runs of losses,
    window, ...; network, country, device, browser: docs/fields.md): those that decide page load times beyond bandwidth,
    round trip and loss, and beyond chance. Classes use these too, and they are printed. --features few skips the test.

    If --warm or --damage-from has measured what neighbours on the bottleneck lose (docs/tensor.md), a class is served
    no configuration by which they lost more than --damage bytes for each byte of a page, under conditions near that
    class (the page itself takes 1.0). Measurements decide, not the name of a congestion control.

    Configurations that `configtron tune` would refuse here are not chosen; how many and why is printed: they are beyond
    the operator's bounds, or unfair to others' traffic (--bound, --allow-unfair, and `tune`'s section of the settings
    file). Where damage was measured, it decides what is unfair, class by class, in place of these names. Outcomes of
    such configurations are learned all the same. A knob that no driver sets by prefix may be chosen: a router sets the
    HTTP version. --all-configurations chooses among all; the bound on damage stays.

    At 10 000 outcomes, and whenever they have doubled, the policy looks for knobs without effect. A knob is dead where
    an effect of 3 % in the means of any two of class, site and other knobs would have been seen (one in twenty knobs
    with just that effect is called dead all the same). It is not explored from then on: this and later runs print it
    (`unexplored` in JSON), and the policy learns all outcomes once more without it. Effects that need three things
    together may be given up with it.

    --budget bounds what exploration may cost in all, as a share of Default's mean page load time, from the first
    decision on; proven gains are spent on exploration too. Only policies that keep a budget take it. A configuration
    that is several times slower is dropped between updates. `learn status` shows what is spent, and what is dropped.

    Exit code 130: ended by Ctrl-C, SIGTERM or SIGHUP; it says how many outcomes are learned and saved by then.

    `agreed` is the share of decisions in which policy and logger agree. A website that was not in the log when the
    policy was made is modelled with all other such websites; a profile that was not asks for --fresh.
    """
    from configtron.cli.display import EventLines
    from configtron.service.learning import running
    from configtron.service.learning.rows import LEARNED_COLUMNS, learned_row

    with terminated():
        options = running.LearnOptions(settings().db, policy, name, making_of(making), asked_for(), most, fresh)
        taken = running.run(options, EventLines())
        write_rows(form, output_file, LEARNED_COLUMNS, [learned_row(taken)], LEARNING)
    return DONE
