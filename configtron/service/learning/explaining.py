# SPDX-License-Identifier: MIT
"""`learn explain`: which profile a client gets, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from configtron.db.outcomes import Learner, Outcomes
from configtron.intake.outcome_formats import context_of
from configtron.learner.explain import Explanation
from configtron.learner.explain import explain as explained
from configtron.learner.prefixes import longest, network_of
from configtron.learner.rulebook import present
from configtron.learner.saved import Safety, features_in, recipe_of, safety_in
from configtron.model.bounds import check_texts
from configtron.model.errors import BadInput
from configtron.model.nouns import Context
from configtron.service.learning.learners import restored_policy, saved
from configtron.service.progress import Progress, unheard

# Latest outcomes of a prefix that its present network is read from.
RECENT = 50
# Sites that are named where one is wanted.
FEW = 12
# Characters of one that is not known.
SHOWN = 60


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """who: a prefix, an address, or a context as NAME=VALUE,...; name: of the policy, "" for the one saved last."""

    db: Path
    who: str
    name: str = ""
    site: str = ""

    def __post_init__(self) -> None:
        """Check texts. Errors: `BadInput`."""
        check_texts(self)


@dataclass(frozen=True, slots=True)
class Explained:
    """A policy's choices for a client. features: names of those that its classes live over; safety: the budget that it
    keeps, None for none."""

    name: str
    policy: str
    context: Context
    found: Explanation
    features: tuple[str, ...]
    safety: Safety | None


def explain(options: ExplainOptions, progress: Progress = unheard) -> Explained:
    """Return what a client gets, and why. Errors: `BadInput` for a prefix of no outcome, or an unknown site."""
    with Outcomes(options.db) as store:
        found = saved(store, options.name, progress)
        context = _context(store, options.who, options.site, found.log)
    _known(context.site, found)
    because = explained(restored_policy(found), context)
    safety = safety_in(found.state, recipe_of(found.recipe))
    return Explained(found.name, found.policy, context, because, features_in(found.recipe), safety)


def _known(site: str, found: Learner) -> None:
    """Errors: `BadInput` for a site that the policy was made without: it would be answered as any other, unsaid."""
    sites = recipe_of(found.recipe).sites
    if site and site not in sites:
        more = f" and {len(sites) - FEW} more" if len(sites) > FEW else ""
        there = f"there is: {', '.join(sites[:FEW])}{more}" if sites else "it distinguishes no sites"
        raise BadInput(f"{found.name} knows no site {site[:SHOWN]!r}; {there}; leave it out for any other")


def _context(store: Outcomes, who: str, site: str, log: int) -> Context:
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
    """Return a context's features as written. Errors: `BadInput` for one that is there twice: which is meant?"""
    pairs = [word.partition("=")[::2] for word in who.split(",")]
    words = dict(pairs)
    if len(words) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise BadInput(f"{twice[:SHOWN]!r} is in the context twice; leave one out")
    return words


def _around(store: Outcomes, who: str, log: int) -> tuple[str, ...]:
    """The longest prefix of a log's outcomes around an address, in every spelling. Errors: `BadInput` if none is."""
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
