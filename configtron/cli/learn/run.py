# SPDX-License-Identifier: MIT
"""`configtron learn run`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click
from click.core import ParameterSource

from configtron.cli.completing import either
from configtron.cli.learn.options import damage_options, log_option, say, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import Finite, form_options, guard_options
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from configtron.db.outcomes import Learner, Outcomes
    from configtron.learner.damage import DamageBound
    from configtron.learner.reached import Mask
    from configtron.model.grid import Grid
    from configtron.model.records import Json

LEARNED_COLUMNS = ("name", "policy", "log", "learned_now", "learned", "updates", "classes", "splits", "agreed", "arms")
# Characters of a strange value that is shown.
SHOWN = 60
# Reasons of refusals that are shown.
REASONS_SHOWN = 3
# What a policy is made of: of one that goes on, none of these can be chosen any more.
MAKING = ("policy", "log", "seed", "classes", "update_every", "engine", "warm", "watch", "evolve", "by_device",
          "features", "damage", "damage_from", "bound", "allow_unfair", "all_configurations",
          "budget")  # fmt: skip


@click.command(short_help="Let a policy learn from the database's outcomes.")
@click.option("--policy", default="", metavar="POLICY", shell_complete=either,
              help="Which: one of `learn status` goes on; one of `learn policies`, or a class package.module:Class,"
                   " is made new.  [default: thompson]")
@click.option("--name", default="", metavar="NAME",
              help="Name of a policy that is made new; --policy takes it from then on.  [default: as --policy]")
@log_option
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of all random numbers.")
@click.option("--classes", default="auto", show_default=True, metavar="K",
              help="Network classes to begin with, at most 400; auto: as few as keep their members alike.")  # fmt: skip
@click.option("--update-every", type=click.IntRange(1), default=500, show_default=True, metavar="N",
              help="Outcomes between two updates; those after the last one wait for the next.")  # fmt: skip
@click.option("--engine", default="grid", show_default=True, metavar="ENGINE",
              help="Search engine of policies that search cells (`learn policies`): grid, gpyopt, gpyopt-classic.")
@click.option("--warm", type=click.File("rb"), metavar="FILE",
              help="An emulated PLT-tensor to start from, for policies that can (`learn policies`).")
@click.option("--watch", is_flag=True,
              help="Decide for a client by what its own outcomes showed since its network changed.")
@click.option("--evolve", is_flag=True,
              help="Split a class where its members come to differ, or to want different configurations.")
@click.option("--by-device", is_flag=True,
              help="As many classes again for each device that has 200 of the first 10 000 outcomes.")
@click.option("--features", type=click.Choice(("auto", "few")), default="auto", show_default=True,
              help="Features of classes beside bandwidth, round trip, loss. auto: those that pass a test; few: none.")
@damage_options
@guard_options
@click.option("--all-configurations", is_flag=True,
              help="Choose also what `configtron tune` would refuse here: for simulations.")
@click.option("--budget", type=Finite(0, 1), default=0.01, show_default=True, metavar="SHARE",
              help="What exploration may cost, as a share of Default's mean page load time (`learn policies`).")
@click.option("--outcomes", "most", type=click.IntRange(1), metavar="N", help="Learn from at most N more now.")
@click.option("--fresh", is_flag=True, help="Delete what the policy learned and decided, and start it anew.")
@form_options
def run(name: str, policy: str, most: int | None, fresh: bool, form: str, output_file: str,
        **making: object) -> int:  # fmt: skip
    """Let a policy learn from the database's outcomes, in order of arrival; whoever decided them.

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

    `agreed` is the share of decisions in which policy and logger agree. A website that was not in the log when the
    policy was made is modelled with all other such websites; a profile that was not asks for --fresh.
    """
    from configtron.cli.learn import lessons
    from configtron.db.outcomes import Outcomes
    from configtron.learner import PREFERRED

    ctx, called = click.get_current_context(), name or policy or PREFERRED
    with Outcomes(settings().db) as store:
        found = store.learner(called)
        kind = _kind(store, found, name, policy, str(making["engine"]))
        if found is None or fresh:
            found = lessons.begin(store, called, kind, fresh=fresh, **_how(kind, making))
            _say_refused(found)
        else:
            given = [one for one in MAKING if ctx.get_parameter_source(one) is ParameterSource.COMMANDLINE]
            _same(found, policy, given)
            if (log := int(str(making["log"]))) < 0:
                found = store.bind_learner(found, log)
        try:
            taken = lessons.learn(store, found, most)
        except KeyboardInterrupt:
            kept = store.learner(called)
            done = kept.outcomes if kept else 0
            say(f"{called}: {done} outcomes are learned and saved; go on with: configtron learn run --policy {called}")
            raise
        if not taken.outcomes:
            say(f"{called}: nothing new to learn from; `configtron learn status` shows what there is")
        if taken.latencies:
            say(f"{called}: {len(taken.latencies)} times a client came to another class; after a change of network, "
                f"with the {sorted(taken.latencies)[len(taken.latencies) // 2] + 1}. outcome at the median")
        if taken.unexplored:
            say(f"{called}: goes without {', '.join(taken.unexplored)} where proven to do nothing; "
                f"see: configtron learn knobs --policy {called}")
        if taken.outcomes and taken.suggested == 0:
            say(f"{called}: its engine was never asked: the log does not try what a search begins with; "
                "log outcomes of a policy that tries everything (mab_nc, brute_nc)")
        write(form, output_file, LEARNED_COLUMNS, [_row(called, taken)])
    return DONE


def _kind(store: Outcomes, found: Learner | None, name: str, policy: str, engine: str) -> str:
    """What of `learn policies` the one that is meant is, or will be made as. What is misspelt is said first, whatever
    else is wanting. Errors: `BadInput`."""
    from configtron.cli.importable import importable
    from configtron.learner import ENGINES, POLICIES, PREFERRED, row_of
    from configtron.learner.imported import is_imported

    if engine not in ENGINES:
        raise BadInput(f"no engine is called {engine!r}; there is: {', '.join(ENGINES)}")
    if found is not None and (not policy or policy == found.name):
        return found.policy
    kind = policy or PREFERRED
    importable([kind])
    if is_imported(kind):
        row_of(kind)
    elif kind not in POLICIES:
        if store.learner(kind) is not None:
            raise BadInput(f"{kind} is there already and goes on under its own name; leave --name out")
        others = (one.name for one in store.learners() if one.name not in POLICIES)
        there = ", ".join([*POLICIES, "package.module:Class", *others])
        raise BadInput(f"no policy is called {kind!r}; there is: {there}")
    if "=" in name:
        raise BadInput(f"--name {name!r}: what has a \"=\" is KNOB=VALUE to `learn evaluate --policy`; choose another")
    if name != kind and name in POLICIES:
        raise BadInput(f"--name {name!r} already means something to --policy; choose another")
    return kind


def _same(found: Learner, policy: str, given: list[str]) -> None:
    given = [one for one in given if one != "policy" or policy not in (found.policy, found.name)]
    if not given:
        return
    wanted = ", ".join(f"--{one.replace('_', '-')}" for one in given)
    raise BadInput(f"{found.name} ({found.policy}) goes on as it was made, without {wanted}; or start it anew: --fresh")


def _how(policy: str, making: dict[str, object]) -> dict[str, Any]:
    """What `lessons.begin` is told. Errors: `BadInput`, before anything is forgotten."""
    _idle(policy)
    warm, classes = making["warm"], str(making["classes"])
    k = None if classes == "auto" else _number_of_classes(classes)
    numbers = {key: int(str(making[key])) for key in ("log", "seed", "update_every")}
    data = _data(warm)
    flags: dict[str, Any] = {key: bool(making[key]) for key in ("evolve", "by_device")}
    flags |= {"features": str(making["features"]), "watched": bool(making["watch"])}
    flags |= {"damage": str(making["damage"]), "damage_from": _data(making["damage_from"])}
    budget = float(str(making["budget"]))
    made = {"engine": str(making["engine"]), "k": k, "warm": data, "budget": budget, **flags, **numbers}
    return made | {"allowed": None if making["all_configurations"] else _allowed}


def _allowed(grid: Grid, damage: DamageBound | None) -> Mask:
    """(configurations,) what `configtron tune` takes here, or measurements show to be fair."""
    from configtron.cli.learn.reach import allowed

    return allowed(grid, damage).allowed


def _say_refused(found: Learner) -> None:
    """How many configurations are not chosen, and why."""
    from configtron.cli.learn.reach import allowed
    from configtron.learner.saved import recipe_of

    recipe = recipe_of(found.recipe)
    if recipe.allowed is not None and len(recipe.allowed) < len(recipe.grid):
        why = "; ".join(allowed(recipe.grid, recipe.damage).why[:REASONS_SHOWN])
        refused = f"{len(recipe.grid) - len(recipe.allowed)} of {len(recipe.grid)} configurations are not chosen"
        say(f"{refused}, `configtron tune` would refuse them: {why}")


def _number_of_classes(text: str) -> int:
    from configtron.cli.learn.lessons import MOST_CLASSES, OFFLINE
    from configtron.learner.classpolicy import PART_MEMBERS

    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit() and digits):
        raise BadInput(f"--classes {text[:SHOWN]!r}: a number from 1 to {MOST_CLASSES}, or auto")
    # Python reads no number of thousands of digits.
    if len(digits) > len(str(MOST_CLASSES)) or int(digits) > MOST_CLASSES:
        why = f"they are made from the first {OFFLINE} outcomes, of which each is to have {PART_MEMBERS}"
        raise BadInput(f"--classes {text[:SHOWN]}: at most {MOST_CLASSES}: {why}")
    return int(digits)


def _idle(policy: str) -> None:
    """Nothing that would make no difference is said. Errors: `BadInput`."""
    from configtron.learner import POLICIES, untaken
    from configtron.learner.imported import is_imported

    ctx = click.get_current_context()
    for what in ("warm", "engine", "evolve", "by-device", "budget"):
        if ctx.get_parameter_source(what.replace("-", "_")) is ParameterSource.COMMANDLINE:
            if (policy in POLICIES or is_imported(policy)) and (why := untaken([policy], what)):
                raise BadInput(why)


def _data(file: object) -> bytes | None:
    """A file's bytes, of one that was named."""
    return None if file is None else cast("BinaryIO", file).read()


def _row(name: str, taken: object) -> dict[str, Json]:
    from configtron.cli.learn.lessons import Taken
    from configtron.cli.learn.options import rounded

    assert isinstance(taken, Taken)
    arms: Counter[str] = taken.arms
    total = max(sum(arms.values()), 1)
    return {
        "name": name, "policy": taken.policy, "log": max(taken.log, 0), "learned_now": taken.outcomes,
        "learned": taken.learned, "updates": taken.updates, "classes": taken.classes, "splits": taken.splits,
        "agreed": rounded(taken.agreed / total) if taken.outcomes else None,
        "unexplored": list(taken.unexplored), "reclassified": len(taken.latencies),
        "latency": sorted(taken.latencies)[len(taken.latencies) // 2] if taken.latencies else None,
        "arms": {arm: rounded(count / total) for arm, count in sorted(arms.items())},
    }  # fmt: skip
