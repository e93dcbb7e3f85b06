# SPDX-License-Identifier: MIT
"""`configtron learn explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.learn.options import policy_option, rounded, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from configtron.db.outcomes import Learner, Outcomes
    from configtron.learner.explain import Explanation
    from configtron.model.nouns import Context
    from configtron.model.records import Json

EXPLANATION_COLUMNS = ("kind", "what", "arm", "share", "loads", "excess", "about")
# Latest outcomes of a prefix that its present network is read from.
RECENT = 50
# Sites that are named where one is wanted.
FEW = 12
# Characters of one that is not known.
SHOWN = 60


@click.command(short_help="Say which profile a client gets, and why.")
@click.argument("who", metavar="PREFIX|ADDRESS|CONTEXT")
@policy_option
@click.option("--site", default="", metavar="SITE", help="For this website; else for any other than those known.")
@form_options
def explain(who: str, name: str, site: str, form: str, output_file: str) -> int:
    """Say which profile a client gets, and why: its class, what it may get and what was seen of that, which knob helps.

    A PREFIX stands for its latest 50 outcomes in the log that the policy learns from: medians of bandwidth and round
    trip, mean loss. An ADDRESS, or a prefix that no outcome is of, stands for the longest prefix that outcomes are of
    and that contains it, however that is spelt; it is said which.
    A CONTEXT is written bandwidth_kbps=5000,rtt_ms=80,loss=0.01 (site=, prefix=, device= and what else docs/fields.md
    lists of an outcome, too). Nothing is drawn or
    learned to answer. A choice is named by its knobs' values; which is whose is in JSON (`settings`). `loads` are those
    of this class and site. `excess` is expected page load time over Default's, a share; of a knob: what putting it back
    to its default would cost. Exit code 2: no outcome is of such a prefix, or a site that the policy does not know:
    leave the site out, since all of those are decided for alike.
    """
    from configtron.cli.learn.options import revived, saved
    from configtron.db.outcomes import Outcomes
    from configtron.learner.explain import explain as explained

    with Outcomes(settings().db) as store:
        found = saved(store, name)
        context = _context(store, who, site, found.log)
    _known(context.site, found)
    write(form, output_file, EXPLANATION_COLUMNS, _rows(found, who, context, explained(revived(found), context)))
    return DONE


def _known(site: str, found: Learner) -> None:
    """Errors: `BadInput` for a site that the policy was made without: it would be answered as any other, unsaid."""
    from configtron.learner.saved import recipe_of

    sites = recipe_of(found.recipe).sites
    if site and site not in sites:
        more = f" and {len(sites) - FEW} more" if len(sites) > FEW else ""
        there = f"there is: {', '.join(sites[:FEW])}{more}" if sites else "it tells no sites apart"
        raise BadInput(f"{found.name} knows no site {site[:SHOWN]!r}; {there}; leave it out for any other")


def _context(store: Outcomes, who: str, site: str, log: int) -> Context:
    from configtron.learner.rulebook import present
    from configtron.learner.told import context_of

    if "=" in who:
        words = _words(who)
        if site and words.get("site", site) != site:
            two = f"{words['site'][:SHOWN]!r} in the context, --site {site[:SHOWN]!r}"
            raise BadInput(f"two sites: {two}; leave one out")
        return context_of({"site": site, **words} if site else words)
    logged = store.of_prefixes((who,), RECENT, log)
    if logged is None:
        logged = store.of_prefixes(_around(store, who, log), RECENT, log)
    assert logged is not None, "a prefix that outcomes are of"
    return present(logged.contexts, site)


def _words(who: str) -> dict[str, str]:
    """A context's features as written. Errors: `BadInput` for one that is there twice: which is meant?"""
    pairs = [word.partition("=")[::2] for word in who.split(",")]
    words = dict(pairs)
    if len(words) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise BadInput(f"{twice[:SHOWN]!r} is in the context twice; leave one out")
    return words


def _around(store: Outcomes, who: str, log: int) -> tuple[str, ...]:
    """The longest prefix of a log's outcomes around an address, in every spelling. Errors: `BadInput` if none is."""
    from configtron.learner.prefixes import longest, network_of

    network = network_of(who)
    instead = "name another, or write a context: bandwidth_kbps=5000,rtt_ms=80,loss=0.01"
    of = f"outcomes of log {log}, which the policy learns from," if log else "outcomes"
    if network is None:
        one = f"no outcome of log {log}, which the policy learns from," if log else "no outcome"
        raise BadInput(f"{one} is of prefix {who[:SHOWN]!r}, and that is no address; {instead}")
    prefixes = store.prefixes(log)
    if found := longest(network, prefixes):
        return found
    raise BadInput(f"{who[:SHOWN]} is in none of the {len(prefixes)} prefixes that {of} are of; {instead}")


def _shown(value: float | str | None) -> Json:
    return value if isinstance(value, str) else rounded(value)


def _rows(learner: Learner, who: str, context: Context, found: Explanation) -> Iterator[dict[str, Json]]:
    from configtron.learner.saved import features_in

    seen: dict[str, Json] = {key: _shown(getattr(context, key)) for key in features_in(learner.recipe)}
    words = ", ".join(f"{key} {value}" for key, value in seen.items() if value not in (None, ""))
    next_ = f"; next is {found.runner_up} at {found.runner_up_distance:.3g}" if found.runner_up_distance else ""
    near = f"; {found.distance:.3g} from its centre{next_}" if found.distance is not None else ""
    about = (found.reason or words) + ("" if found.reason else near)
    if "=" not in who and who != context.prefix:
        about = f"{who} is in {context.prefix}: {about}"
    head: dict[str, Json] = {"kind": "class", "name": learner.name, "policy": learner.policy, "prefix": context.prefix}
    head |= {"what": found.class_id or "-", "loads": found.loads}
    yield head | {"site": context.site, "seen": seen, "distance": rounded(found.distance), "next": found.runner_up,
                  "next_distance": rounded(found.runner_up_distance), "about": about}  # fmt: skip
    for choice in found.choices:
        settings_: dict[str, Json] = {knob: value for knob, value in choice.profile.settings}  # type: ignore[misc]
        yield {"kind": "choice", "what": choice.profile.name, "arm": choice.arm, "share": rounded(choice.share),
               "loads": choice.loads, "excess": rounded(choice.excess), "settings": settings_}  # fmt: skip
    yield from _safety(learner, found.class_id)
    for effect in found.effects:
        setting, default = str(effect.setting), str(effect.default)
        yield {"kind": "knob", "what": f"{effect.knob}={setting}", "excess": rounded(effect.excess),
               "about": f"put back to {default}"}  # fmt: skip


def _safety(learner: Learner, class_id: str) -> Iterator[dict[str, Json]]:
    """What its budget has come to, and which configurations are dropped, where it keeps one."""
    from configtron.learner.saved import recipe_of, safety_in

    safety = safety_in(learner.state, recipe_of(learner.recipe))
    if safety is None:
        return
    about = f"of a budget of {safety.budget:g}; {safety.unproven:.3g} of sessions get what is not proven"
    yield {"kind": "budget", "what": "spent", "excess": rounded(safety.spent), "about": about}
    for name in safety.dropped:
        yield {"kind": "dropped", "what": name, "about": "several times slower than Default"}
