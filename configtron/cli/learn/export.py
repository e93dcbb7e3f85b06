"""`configtron learn export`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.learn.options import last_option, log_option, name_option, rounded, say, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.errors import DONE, BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from configtron.learner.export import Export, Loss
    from configtron.learner.rulebook import Rulebook
    from configtron.nouns import Profile
    from configtron.records import Json

COLUMNS = ("kind", "class", "site", "prefix", "profile", "share", "median", "p95", "mean", "when")
KINDS = ("loss", "profile", "class", "prefix", "cell", "tree")


@click.command(short_help="Write a policy as rules, and what it costs to do so.")
@name_option
@log_option
@last_option
@click.option("--only", type=click.Choice(KINDS), multiple=True, help="Rows of this kind only; several times.")
@click.option("--leaf", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Clients in a leaf of the tree, at least.")  # fmt: skip
@click.option("--to-tune", is_flag=True, help="Keep profiles and prefixes as wanted: see `configtron tune plan`.")
@form_options
def export(name: str, log: int, last: int, only: tuple[str, ...], leaf: int, to_tune: bool, form: str,
           output_file: str) -> int:  # fmt: skip
    """Write a policy as rules, over the latest clients, and the loss of each kind of rules against the policy itself.

    \b
    cell     class and site -> profile: what an agent looks up
    tree     a decision tree in words: what an operator reads
    class    class -> profile over all its sites, and prefix -> profile: what `configtron tune` can put in force
    loss     expected excess over the policy itself, as shares of page load time, over those clients

    With --to-tune, profiles and prefixes become what is wanted (`configtron tune profile list`), nothing is put in
    force: `configtron tune plan` says what would change, and which knobs no driver here reaches. Prefixes that have a
    profile of this kind from before get their new one, or none. The untouched stack needs no profile.
    """
    from configtron.cli.learn.options import revived, saved
    from configtron.db.outcomes import Outcomes
    from configtron.learner.export import export as exported
    from configtron.learner.rulebook import rulebook

    with Outcomes(settings().db) as store:
        found = saved(store, name)
        logged = store.last(last, log or found.log)
        if logged is None:
            raise BadInput("no clients to write rules for: the log has no outcomes")
    policy = revived(found)
    book, rules = rulebook(policy, logged.contexts), exported(policy, logged.contexts, least_leaf=leaf)
    rows = [*_losses(rules, book), *_of_book(book), *_of_rules(rules)]
    write(form, output_file, COLUMNS, [row for row in rows if not only or row["kind"] in only])
    if to_tune:
        _wanted(settings().db, book)
    return DONE


def _losses(rules: Export, book: Rulebook) -> Iterator[dict[str, Json]]:
    for of, found in (("cell", rules.rules_loss), ("tree", rules.tree_loss), ("class", book.loss)):
        yield {"kind": "loss", "of": of, "when": f"of the {of} rules", **_shares(found)}


def _shares(found: Loss) -> dict[str, Json]:
    return {"median": rounded(found.median), "p95": rounded(found.p95), "mean": rounded(found.mean)}


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
    from configtron.records import value_form

    return {knob: value_form(value) for knob, value in one.settings}


def _words(one: Profile) -> str:
    from configtron.tune.text import settings_text

    return settings_text(one.settings)


def _wanted(db: Path, book: Rulebook) -> None:
    """Keep them as wanted; what an earlier export left and nobody has any more goes."""
    from configtron.db.tuning import Tuning
    from configtron.tune.rules import canonical

    prefixes = {canonical(prefix): name for prefix, name in book.prefixes.items()}
    with Tuning(db) as wanted:
        before = wanted.wanted()
        stale = [prefix for prefix, name in before.prefixes.items() if _ours(name) and prefix not in prefixes]
        wanted.set_profiles(book.profiles.values())
        wanted.drop_prefixes(stale)
        wanted.set_prefixes(prefixes)
        for name in before.profiles:
            if _ours(name) and name not in book.profiles and name != before.default:
                wanted.drop_profile(name)
    say(f"{len(book.profiles)} profiles and {len(prefixes)} prefixes are wanted; see: configtron tune plan")


def _ours(name: str) -> bool:
    return name.startswith("learned")
