"""The story of one target from one vantage: a generator that yields calls and is resumed with what was read from each.

A target has up to two strands, so that at most two connections to it are open at once: one holds handshakes half-open
for a minute, the other asks everything else meanwhile. Within a strand one call follows the other, and what an answer
teaches (a redirect, no TLS, a refused port, a lost packet) decides what is asked next. A strand decides from its own
answers only, and no two strands make the same kind of call: so their order in time does not matter, and a stored
answer can be fed back exactly like a fresh one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from configtron.errors import BadInput
from configtron.fingerprint.wants import wants
from configtron.nouns import Observation, Target
from configtron.probe.profiles import (
    AGAIN,
    AGAIN_MOST,
    FURTHER,
    HELD,
    STAMPED,
    STAMPED_AFTER,
    WORTH_MORE,
    Params,
    Plan,
    Row,
    plan,
)
from configtron.probe.targets import hostname

Readings = tuple[Observation, ...]


class Call(NamedTuple):
    """One connection to make: which probe, with which parameters, to whom."""

    probe: str
    params: Params
    target: Target

    @property
    def held(self) -> bool:
        """Whether it keeps a handshake half-open."""
        return self.probe in HELD


class Lookup(NamedTuple):
    """A name met on the way (a redirect) that has to be resolved, and checked, before anybody is asked."""

    host: str


class Beside(NamedTuple):
    """Another strand of the same target, to be begun beside this one. Resumed with None."""

    strand: Journey


class Answer(NamedTuple):
    """Addresses of a name, or the reason why there are none ("dns:nxdomain", "blocked", ...)."""

    addresses: tuple[str, ...]
    reason: str = ""


Journey = Generator[Call | Lookup | Beside, Readings | Answer | None, None]
Asking = Generator[Call | Lookup | Beside, Readings | Answer | None, Readings]
Gathering = Generator[Call | Lookup | Beside, Readings | Answer | None, list[Observation]]

# More redirects than this are a loop or a maze (RFC 9110 15.4 leaves the limit to the client).
REDIRECTS_MAX = 2
# Reasons after which a port is not asked again: nobody answers, or somebody says no.
SHUT = ("no-synack", "refused")
# Readings beside the answer proper: what they hold is known of every host.
ASIDE = ("address", "provider")


def journey(target: Target, tests: frozenset[str], profile: str) -> Journey:
    """The story of one target from one vantage. `target` has an address; `tests` are keys of `TESTS`."""
    rows = plan(profile, tests)
    seen: list[Observation] = []
    places: dict[str, Target] = {}
    if target.port != 443 and rows.clear_wanted:
        page, shut = yield from _find_page(target)
        if not shut:
            if rows.held:
                yield Beside(_held(rows, page))
            seen += yield from _clear(rows.clear, page)
            places |= {probe: page for probe, _ in rows.clear}
    secure = replace(target, port=443 if target.port == 80 else target.port)
    for n, row in enumerate(rows.secure):
        found = yield from _ask(row, secure)
        if n == 0 and _reason(found, "http_version") in SHUT:
            break
        seen += found
        places.setdefault(row[0], secure)
    yield from _more(rows, places, seen)


def name_of(target: Target) -> str:
    """What a target is called within a run: its host, with port and path where they are not the usual ones."""
    port = "" if target.port == 80 else f":{target.port}"
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host + port + (target.path if target.path != "/" else "")


def _held(rows: Plan, page: Target) -> Journey:
    """The strand of handshakes held half-open."""
    seen = yield from _each(rows.held, page)
    yield from _more(rows, {probe: page for probe, _ in rows.held}, seen)


def _clear(rows: Iterable[Row], page: Target) -> Gathering:
    seen: list[Observation] = []
    repeated = 0
    for row in rows:
        found = yield from _ask(row, page)
        repeated += _reason(found, "data_rto") == "synack-repeated"
        seen += found
    if repeated >= STAMPED_AFTER:
        seen += yield from _each(STAMPED, page)
    return seen


def _each(rows: Iterable[Row], target: Target) -> Gathering:
    seen: list[Observation] = []
    for row in rows:
        seen += yield from _ask(row, target)
    return seen


def _more(rows: Plan, places: dict[str, Target], seen: list[Observation]) -> Journey:
    """Trials beyond the plan, as long as one could raise a grade and the profile has any left.

    Only of probes that were asked in this strand, each at its place.
    """
    made: dict[str, int] = {}
    for _ in range(rows.more):
        asked = wants(o for o in seen if o.knob in WORTH_MORE)
        probe = next((p for p in asked if p in places and p in FURTHER), "")
        if not probe:
            return
        turn = made[probe] = made.get(probe, 0) + 1
        further = FURTHER[probe]
        seen += yield from _ask(further[(turn - 1) % len(further)], places[probe])


def _ask(row: Row, target: Target) -> Asking:
    """One row of the plan, asked again where a lost packet may be why nothing was read."""
    probe, params = row
    for _ in range(AGAIN_MOST):
        found = yield from _call(probe, params, target)
        if not _lost(found):
            return found
    return (yield from _call(probe, params, target))


def _call(probe: str, params: Params, target: Target) -> Asking:
    found = yield Call(probe, params, target)
    assert found is not None and not isinstance(found, Answer)
    return found


def _lost(found: Readings) -> bool:
    """Whether nothing was read at all, for reasons that a lost packet can give."""
    told = [o for o in found if o.knob not in ASIDE]
    return bool(told) and all(o.reason in AGAIN for o in told)


def _find_page(target: Target) -> Generator[Call | Lookup | Beside, Readings | Answer | None, tuple[Target, bool]]:
    """GET the path in clear; follow up to two redirects that stay in clear.

    Returns (where the page is, whether the port is shut).
    """
    for _ in range(REDIRECTS_MAX + 1):
        found = yield from _ask(("http_version", (("way", "clear"),)), target)
        if _reason(found, "http_clear") in SHUT:
            return target, True
        host, path = _redirected(target, found)
        if not path:
            return target, False
        if host != target.host:
            answer = yield Lookup(host)
            assert isinstance(answer, Answer)
            if not answer.addresses:
                return target, False
            target = replace(target, host=host, address=answer.addresses[0])
        target = replace(target, path=path)
    return target, False


def _redirected(target: Target, found: Readings) -> tuple[str, str]:
    """(host, path) that an answer points to, if it is a redirect that stays on this port in clear; else ("", "")."""
    seen = next((o for o in found if o.knob == "http_clear"), None)
    status, location = (seen.detail("status", 0), seen.detail("location", "")) if seen else (0, "")
    if status not in (301, 302, 303, 307, 308) or not isinstance(location, str) or not location:
        return "", ""
    try:
        parts = urlsplit(urljoin(f"http://{target.host}{target.path}", location))
        port, host = parts.port or 80, parts.hostname or ""
    except ValueError:
        return "", ""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme != "http" or port != target.port or (host, path) == (target.host, target.path):
        return "", ""
    try:
        return hostname(host), path if path.isascii() and path.isprintable() and " " not in path else ""
    except BadInput:
        return "", ""


def _reason(found: Readings, knob: str) -> str:
    return next((o.reason or "" for o in found if o.knob == knob), "")
