# SPDX-License-Identifier: MIT
"""`configtron learn export`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from configtron.cli.learn.options import damage_options, last_option, log_option, policy_option, rounded, say, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options, guard_options
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from configtron.cli.learn.gains import Tested
    from configtron.cli.learn.reach import Held
    from configtron.learner.columns import Codes
    from configtron.learner.export import Export
    from configtron.learner.handed import Handed
    from configtron.learner.judged import Loss, Share
    from configtron.learner.logged import Logged
    from configtron.learner.policy import TablePolicy
    from configtron.learner.reached import Mask
    from configtron.learner.rulebook import Rulebook
    from configtron.model.grid import Grid
    from configtron.model.nouns import Profile
    from configtron.model.records import Json

RULE_COLUMNS = ("kind", "class", "site", "prefix", "profile", "share", "median", "p95", "mean", "when")
KINDS = ("loss", "power", "held-back", "profile", "class", "prefix", "cell", "tree")
# Gains of which it is said how many more outcomes would show them.
GAINS = (0.02, 0.05, 0.1)


@click.command(short_help="Write a policy as rules, and what it costs to do so.")
@policy_option
@log_option
@last_option
@click.option("--only", type=click.Choice(KINDS), multiple=True, metavar="KIND",
              help=f"Print rows of this kind only; several times: {', '.join(KINDS)}.")
@click.option("--leaf", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Clients in a leaf of the tree, at least.")  # fmt: skip
@click.option("--to-tune", is_flag=True, help="Store profiles and prefixes as wanted: see `configtron tune plan`.")
@click.option("--unjudged", is_flag=True, help="With --to-tune: export what the policy prefers, proven to gain or not.")
@guard_options
@damage_options
@form_options
def export(name: str, log: int, last: int, only: tuple[str, ...], leaf: int, to_tune: bool, unjudged: bool,
           damage: str, damage_from: BinaryIO | None, form: str, output_file: str, **_: object) -> int:  # fmt: skip
    """Write a policy as rules, and the loss of each kind of rules against the policy itself.

    \b
    cell     class and site -> profile: what an agent looks up
    tree     a decision tree in words: what an operator reads
    class    class -> profile over all its sites; prefix: the same for each prefix: what a stack can hold
    profile  what the profiles of those are, knob by knob
    loss     excess over the policy itself, as shares of page load time: median, 95th percentile and mean over clients
    power    which gain over Default this log would show (`smallest`: with a chance of 80 %, for the median profile)
    held-back  which classes keep Default, and which prefixes what they had, with the reason (docs/reasons.md)

    Rules are made on the earlier half of the clients. Their loss is judged by the outcomes of the later half, not by
    what the policy believes; where the log cannot tell, a reason stands in place of the numbers. Only the rules are
    held out: the policy itself may have learned from the later half, too.

    The loss `tune` is that of profiles as a driver of `configtron tune` can set them: knobs that the driver does not
    reach by prefix stay at their default, and are named. It is the driver that `tune` would take here; where none is
    here, the one that reaches most. Left out are values beyond the operator's bounds, and profiles that the guard calls
    unfair: by --bound and --allow-unfair, as `configtron tune` takes them, and by its section of the settings file.

    A class gets a profile only where it is proven to be faster than Default: the lower bound of its gain is above 0.
    All other classes keep Default. The bounds hold for all profiles and classes together, and for all tests of a
    growing log together (an error of 5 %): the log is tested again when it has grown by a quarter; until then the
    verdict stands. The test needs propensities. With --to-tune these profiles, and their prefixes, are printed and
    stored as wanted (`configtron tune profile list`); nothing is put in force: `configtron tune plan` shows what would
    change. Prefixes that have a profile of an earlier export get their new one, or none. A profile or prefix that a
    human set stays, and so do the clients within that prefix.

    If the policy was made with a bound on damage to neighbours (`learn run --damage`), the rules for cells, classes and
    prefixes keep to it; the tree, which merges classes, does not. --damage sets another bound, --damage-from takes
    another tensor's measurements.

    With --unjudged what the policy prefers is exported without a test. A policy with a model over all cells and no
    warm start prefers no value of a knob that was loaded less than 100 times: it would be a guess. With any other
    policy, a class that has no load of its preferred profile gets the fastest one that its clients did load, else
    Default; the row `tune` counts these classes.

    Exit code 0 also where nothing is proven. 2: no outcomes, no such policy, a log of other configurations than the
    policy's (with --to-tune), or --damage without a tensor that measured it.
    """
    from configtron.cli.learn.gains import tested
    from configtron.cli.learn.options import revived, saved
    from configtron.cli.learn.reach import by_prefix
    from configtron.db.outcomes import Outcomes
    from configtron.learner.classpolicy import ClassPolicy
    from configtron.learner.handed import handed
    from configtron.learner.reached import LEAST_LOADS, unreached

    if unjudged and not to_tune:
        raise BadInput("--unjudged changes what --to-tune exports: give --to-tune with it, or leave it out")
    with Outcomes(settings().db) as store:
        found = saved(store, name)
        logged = store.last(last, log or found.log)
        if logged is None:
            raise BadInput("no clients to write rules for: the log has no outcomes")
        policy = revived(found)
        _priced(policy, damage, damage_from)
        held = by_prefix(policy.grid)
        told, why = _told(logged, policy.grid)
        if to_tune and why and not unjudged:
            raise BadInput(f"{why}; nothing is handed over: learn from this log, or give --unjudged")
        among = _among(policy, held, warm=bool(found.warm))
        if to_tune and not unjudged and found.outcomes < LEAST_LOADS:
            raise BadInput(f"{found.name} has learned from {found.outcomes} outcomes, too few to test profiles; "
                           f"go on: configtron learn run --policy {found.name}")  # fmt: skip
        test = None
        if isinstance(policy, ClassPolicy) and not unjudged and not why:
            test = tested(store, found, policy, log or found.log, logged, among)
    proven = None if test is None else test.given
    made = handed(policy, logged.contexts, told, logged.plt_ms, among, least_leaf=leaf, unjudged=why, proven=proven)
    book = made.tune if to_tune else made.book
    out = unreached(policy.grid, held.takes)
    unset = f"; without {', '.join(out)}" if out else ""
    without = f" ({held.name}{unset}{_kept(made.tune)})"
    rows = [*_losses(made, without), *_tested(test, made.tune), *_of_book(book), *_of_rules(made.by_site)]
    if to_tune:
        # first: who reads the rows may stop reading, and what was asked for is done even so
        unknown = made.losses["tune"]
        untested = "; unjudged" + (f": {unknown}" if isinstance(unknown, str) else "") if unjudged else ""
        rows += _wanted(settings().db, book, without + untested)
    write(form, output_file, RULE_COLUMNS, [row for row in rows if not only or row["kind"] in only])
    return DONE


def _priced(policy: TablePolicy, damage: str, damage_from: BinaryIO | None) -> None:
    """Another bound on damage than the policy was made with, or by another tensor. Errors: `BadInput`."""
    from dataclasses import replace

    from configtron.cli.learn.options import damage_of
    from configtron.learner.damage import bound_of
    from configtron.model.tensor import read

    if damage_from is not None:
        found = damage_of(damage, read(damage_from, damage_from.name), policy.grid)
        policy.bound = found
        policy.served_ = policy.served_
    elif damage and policy.bound is not None:
        bound = bound_of(damage)
        policy.bound = None if bound is None else replace(policy.bound, bound=bound)
        policy.served_ = policy.served_
    elif damage:
        damage_of(damage, None, policy.grid)


def _among(policy: TablePolicy, held: Held, *, warm: bool) -> Mask:
    """(configurations,) those that `configtron tune` takes here, and that are more than a guess."""
    from configtron.cli.learn.reach import allowed
    from configtron.learner.linearpolicy import LinearPolicy
    from configtron.learner.reached import met, reached

    among = reached(policy.grid, held.takes) & allowed(policy.grid, policy.bound).allowed
    if isinstance(policy, LinearPolicy) and not warm:
        among &= met(policy.grid, policy.tally_.count.sum(axis=0))
    return among


def _told(logged: Logged, grid: Grid) -> tuple[Codes, str]:
    """The log's configurations, or why they are none of the policy's: rules can be written for its clients even so."""
    try:
        return logged.on(grid).configuration, ""
    except BadInput as error:
        return logged.decisions.configuration * 0, f"the log is of other configurations ({error})"


# What each loss is of.
OF = {
    "cell": "of the cell rules",
    "tree": "of the tree rules",
    "class": "of the class rules, all knobs",
    "tune": "of what tune's driver reaches by prefix",
}


def _losses(made: Handed, without: str) -> Iterator[dict[str, Json]]:
    for of, found in made.losses.items():
        words = OF[of] + (without if of == "tune" else "")
        row: dict[str, Json] = {"kind": "loss", "of": of, "made_on": made.made_on}
        if of == "tune":
            row |= {"instead": made.tune.instead, "unseen": made.tune.unseen}
        yield row | (_unknown(found, words) if isinstance(found, str) else _known(found, words))


def _kept(tune: Rulebook) -> str:
    """Which classes have something else for want of loads, in words."""
    if not tune.instead + tune.unseen:
        return ""
    alone = f"{tune.instead + tune.unseen} of {len(tune.classes)} classes have loaded nothing of what they would get"
    return f"; {alone}: {tune.instead} get the fastest that they did load, {tune.unseen} keep Default"


def _unknown(why: str, words: str) -> dict[str, Json]:
    return {"median": None, "p95": None, "mean": None, "reason": why, "when": f"{words}: {why}"}


def _known(found: Loss, words: str) -> dict[str, Json]:
    def ends(share: Share) -> Json:
        return [rounded(share.low), rounded(share.high)]

    return {
        "median": rounded(found.median.value), "p95": rounded(found.p95.value), "mean": rounded(found.mean.value),
        "median_interval": ends(found.median), "p95_interval": ends(found.p95), "mean_interval": ends(found.mean),
        "judged_on": found.clients, "loaded": rounded(found.loaded),
        "when": f"{words}; by {found.clients} later outcomes: p95 {_span(found.p95)}, mean {_span(found.mean)}",
    }  # fmt: skip


def _span(share: Share) -> str:
    return f"[{share.low:.3f}, {share.high:.3f}]"


def _of_book(book: Rulebook) -> Iterator[dict[str, Json]]:
    for name, one in sorted(book.profiles.items()):
        yield {"kind": "profile", "profile": name, "settings": _settings(one), "when": _words(one)}
    for class_id, name, share in book.classes:
        yield {"kind": "class", "class": class_id, "profile": name or "untouched", "share": rounded(share)}
    for prefix, name in book.prefixes.items():
        yield {"kind": "prefix", "prefix": prefix, "profile": name}


def _of_rules(rules: Export) -> Iterator[dict[str, Json]]:
    for rule in rules.rules:
        yield {"kind": "cell", "class": rule.class_id, "site": rule.site or "*", "profile": rule.profile.name,
               "share": rounded(rule.weight), "settings": _settings(rule.profile)}  # fmt: skip
    for when, one, share in rules.tree_rules:
        yield {"kind": "tree", "profile": one.name, "share": rounded(share), "when": when, "settings": _settings(one)}


def _settings(one: Profile) -> dict[str, Json]:
    from configtron.model.records import value_form

    return {knob: value_form(value) for knob, value in one.settings}


def _words(one: Profile) -> str:
    from configtron.model.tuning_json import settings_text

    return settings_text(one.settings)


def _tested(test: Tested | None, tune: Rulebook) -> Iterator[dict[str, Json]]:
    """What the log can show, and what is held back."""
    from configtron.learner.gain import HELD_REASONS

    if test is None:
        return
    for power in test.verdict.power:
        more: dict[str, Json] = {f"more_{gain * 100:.0f}": _whole(power.more(gain)) for gain in GAINS}
        smallest, least = (rounded(power.smallest(error)) for error in (power.median_ln, power.least_ln))
        row: dict[str, Json] = {"kind": "power", "of": power.of or "all", "class": power.of, "outcomes": power.loads}
        row |= {"smallest": smallest, "least": least, "tests": test.tests, "error": rounded(test.test.error), **more}
        yield row | {"when": _power_words(power.loads, smallest, more)}
    share = {class_id: part for class_id, _, part in tune.classes}
    for k, why in sorted(test.verdict.held.items()):
        class_id = test.policy.class_ids_[k]
        yield {"kind": "held-back", "class": class_id, "profile": "untouched", "share": rounded(share[class_id]),
               "reason": why, "when": f"{why}: {HELD_REASONS[why]}"}  # fmt: skip
    held = sum(share[test.policy.class_ids_[k]] for k in test.verdict.held)
    of = f"{len(test.verdict.held)} of {len(share)} classes keep Default ({held:.0%} of the clients)"
    say(f"{of}: not proven to gain; the log is tested again {test.next_at} outcomes after test {test.tests}")


def _power_words(loads: int, smallest: Json, more: dict[str, Json]) -> str:
    if smallest is None:
        return f"{loads} outcomes show no gain, however large"
    needed = ", ".join(f"{gain:.0%} {more[f'more_{gain * 100:.0f}']}" for gain in GAINS)
    return f"{loads} outcomes show a gain of {smallest:.1%} with a chance of 80 %; outcomes that lack for {needed}"


def _whole(number: float) -> Json:
    return round(number) if number < float("inf") else None


def _wanted(db: Path, book: Rulebook, without: str) -> list[dict[str, Json]]:
    """Keep them as wanted in place of what an earlier export left; rows of what is left to humans."""
    from configtron.db.tuning import Tuning
    from configtron.tune.rules import canonical

    prefixes = {canonical(prefix): name for prefix, name in book.prefixes.items()}
    with Tuning(db) as wanted:
        left = wanted.hand_over(book.profiles.values(), prefixes)
    count = len(prefixes) - len(left.set) - len(left.inside)
    say(f"{len(book.profiles)} profiles and {count} prefixes are wanted{without}; see: configtron tune plan")
    if left.set or left.inside:
        own = f"{len(left.set)} prefixes that a human set stay as they are"
        say(f"{own}, and {len(left.inside)} within a wider one; see: configtron tune prefix list")
    return [
        {"kind": "held-back", "prefix": prefix, "profile": prefixes[prefix], "reason": "human", "when": f"human: {why}"}
        for many, why in ((left.set, "a human set this prefix"), (left.inside, "a human set a wider prefix around it"))
        for prefix in many
    ]
