# SPDX-License-Identifier: MIT
"""The session of one target from one vantage: a generator of calls, resumed with the readings of each.

A target has up to two chains, so that at most two connections to it are open at once: one holds handshakes half-open
for a minute, the other asks everything else meanwhile. Within a chain one call follows the other, and each answer (a
redirect, no TLS, a refused port, a lost packet) decides the next call. A chain decides from its own answers only, and
no two chains make the same kind of call: so their order in time does not matter, and a stored answer can be fed back
exactly like a fresh one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from configtron.fingerprint.load_balancing import hints, lacking
from configtron.fingerprint.next_trials import next_trials
from configtron.model.nouns import Observation, Target
from configtron.probe.page import redirected
from configtron.probe.profiles import (
    AGAIN,
    AGAIN_MOST,
    ANYWHERE,
    APART,
    BRINGS_COOKIE,
    FURTHER,
    HELD,
    STAMPED,
    STAMPED_AFTER,
    Further,
    Params,
    ProbePlan,
    Row,
    plan,
)

Readings = tuple[Observation, ...]


class Page(NamedTuple):
    """Where the page is: in clear, with the cookie it wants; over TLS, if that is where it leads."""

    target: Target
    cookie: str = ""
    shut: bool = False
    secure: Target | None = None
    secure_cookie: str = ""


class Call(NamedTuple):
    """One connection to make: which probe, with which parameters, to whom."""

    probe: str
    params: Params
    target: Target

    @property
    def held(self) -> bool:
        """Return whether it keeps a handshake half-open."""
        return self.probe in HELD


class NameLookup(NamedTuple):
    """A name met on the way (a redirect) that has to be resolved, and checked, before any call."""

    host: str


class ParallelStep(NamedTuple):
    """Another chain of the same target, to be begun beside this one. Resumed with None."""

    chain: TargetSession


class Answer(NamedTuple):
    """Addresses of a name, or the reason why there are none ("dns:nxdomain", "blocked", ...); names that it stands for
    (CNAME)."""

    addresses: tuple[str, ...]
    reason: str = ""
    aliases: tuple[str, ...] = ()


TargetSession = Generator[Call | NameLookup | ParallelStep, Readings | Answer | None, None]
Asking = Generator[Call | NameLookup | ParallelStep, Readings | Answer | None, Readings]
Gathering = Generator[Call | NameLookup | ParallelStep, Readings | Answer | None, list[Observation]]

# How often a user's packets are sent: so many equal answers are grade B, and one lost packet is seen as one.
CRAFTED_RUNS = 2
# More redirects than this are a loop or a maze (RFC 9110 15.4 leaves the limit to the client).
REDIRECTS_MAX = 2
# Reasons after which a port is not asked again: no answer, or a refusal.
SHUT = ("no-synack", "refused")
# Proofs of a bound in which the page ended: a longer answer might show more. Silence after our ACK
# is such an end if two runs heard it, for a server that closes late; of one run a lost packet may be the cause.
SHORT, SHORT_IF_TWICE = ("response-ended", "exact-fit"), "unverified"
# Readings beside the answer proper: every host has them.
ASIDE = ("address", "provider")


def target_session(target: Target, tests: frozenset[str], profile: str, crafted: str = "") -> TargetSession:
    """Yield the calls of a target from a vantage. `target` has an address; `tests` are keys of `TESTS`; with `crafted`
    (the `packets` of `probe/craft.py`) nothing but these packets is sent.
    """
    if crafted:
        yield from _each([("craft", (("packets", crafted),))] * CRAFTED_RUNS, Page(target))
        return
    rows = plan(profile, tests)
    seen: list[Observation] = []
    places: dict[str, Page] = {}
    page = Page(target, shut=True)
    if target.port != 443 and rows.clear_wanted:
        page = yield from _find_page(target)
    if not page.shut:
        if rows.held:
            yield ParallelStep(_held(rows, page))
        seen += yield from _clear(rows.clear, page)
        places |= {probe: page for probe, _ in rows.clear}
    secure = Page(replace(target, port=443 if target.port == 80 else target.port))
    for n, row in enumerate(rows.secure):
        found = yield from _ask(row, secure.target)
        if n == 0 and _reason(found, "http_version") in SHUT:
            yield from _settle(rows, places, seen)
            return
        seen += found
        places.setdefault(row[0], secure)
        if n == 0 and page.shut:
            # The transport is probed only where a server listens.
            if rows.held:
                yield ParallelStep(_held(rows, secure))
            seen += yield from _each([row for row in rows.clear if row[0] in ANYWHERE], secure)
    if page.shut or page.secure is not None or not any(o.knob == "icw" and o.grade == "C" for o in seen):
        there = Page(page.secure, page.secure_cookie) if page.secure is not None else secure
        seen += yield from _each(rows.window, there)
        places |= {probe: there for probe, _ in rows.window}
    yield from _settle(rows, places, seen)


def name_of(target: Target) -> str:
    """Return a target's name within a run: its host, with port and path where they are not the usual ones."""
    port = "" if target.port == 80 else f":{target.port}"
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host + port + (target.path if target.path != "/" else "")


def _held(rows: ProbePlan, page: Page) -> TargetSession:
    """Yield the chain of handshakes held half-open."""
    seen = yield from _each(rows.held, page)
    yield from _more(rows, {probe: page for probe, _ in rows.held}, seen)


def _clear(rows: Iterable[Row], page: Page) -> Gathering:
    seen: list[Observation] = []
    repeated = 0
    plain: list[Observation] = []
    longer: list[Observation] = []
    for probe, params in rows:
        lengthen = probe == "icw" and _is_short(plain, longer)
        if lengthen:
            params = tuple(sorted((*params, ("longer", True))))
        found = yield from _ask((probe, params), page.target, page.cookie)
        repeated += _reason(found, "data_rto") == "synack-repeated"
        (longer if lengthen else plain).extend(o for o in found if o.knob == "icw")
        seen += found
    if repeated >= STAMPED_AFTER:
        seen += yield from _each(STAMPED, page)
    return seen


def _is_short(plain: Sequence[Observation], longer: Sequence[Observation]) -> bool:
    """Return whether the page ends within the window, and no longer path has met an answer that is shorter still."""
    proofs = [o.detail("proof") for o in plain if o.grade == "L"]
    if not any(proof in SHORT for proof in proofs) and proofs.count(SHORT_IF_TWICE) < 2:
        return False
    return _most_bytes(longer) >= _most_bytes(plain) if any(o.value is not None for o in longer) else True


def _most_bytes(windows: Sequence[Observation]) -> int:
    return max((size for o in windows if isinstance(size := o.detail("bytes"), int)), default=0)


def _each(rows: Iterable[Row], page: Page) -> Gathering:
    seen: list[Observation] = []
    for row in rows:
        seen += yield from _ask(row, page.target, page.cookie)
    return seen


def _settle(rows: ProbePlan, places: dict[str, Page], seen: list[Observation]) -> TargetSession:
    """Trials beyond the plan: for grades, then for the question who answers."""
    yield from _more(rows, places, seen)
    yield from _apart(rows, places, seen)


def _more(rows: ProbePlan, places: dict[str, Page], seen: list[Observation]) -> TargetSession:
    """Trials beyond the plan, as long as one could raise a grade and the profile has any left.

    Only of probes that were asked in this chain, each at its place.
    """
    made: Counter[Further] = Counter()
    for _ in range(rows.more):
        unsettled = (f for f in FURTHER if f.rows[0][0] in places and next_trials(o for o in seen if o.knob in f.knobs))
        further = min(unsettled, key=lambda f: made[f], default=None)
        if further is None:
            return
        row = further.rows[made[further] % len(further.rows)]
        made[further] += 1
        seen += yield from _each((row,), places[row[0]])


def _apart(rows: ProbePlan, places: dict[str, Page], seen: list[Observation]) -> TargetSession:
    """Trials that distinguish one server from two, as long as too few connections do and the profile has any left."""
    made: Counter[str] = Counter()
    for n in range(rows.apart_if_hinted):
        if n >= rows.apart and not hints(seen):
            return
        asked = [knob for knob in lacking(seen) if knob in APART and APART[knob][0][0] in places]
        if not asked:
            return
        knob = min(asked, key=lambda knob: made[knob])
        row = APART[knob][made[knob] % len(APART[knob])]
        made[knob] += 1
        seen += yield from _each((row,), places[row[0]])


def _ask(row: Row, target: Target, cookie: str = "") -> Asking:
    """One row of the plan, asked again where a lost packet may be why nothing was read."""
    probe, params = row
    if cookie and probe in BRINGS_COOKIE:
        params = tuple(sorted((*params, ("cookie", cookie))))
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
    """Return whether nothing was read at all, for reasons that a lost packet can give."""
    read = [o for o in found if o.knob not in ASIDE]
    return bool(read) and all(o.reason in AGAIN for o in read)


def _find_page(target: Target) -> Generator[Call | NameLookup | ParallelStep, Readings | Answer | None, Page]:
    """GET the path in clear; follow redirects, with the cookies that they set, until they lead to TLS."""
    page = Page(target)
    for _ in range(REDIRECTS_MAX + 1):
        found = yield from _ask(("http_version", (("way", "clear"),)), page.target, page.cookie)
        if _reason(found, "http_clear") in SHUT:
            return page._replace(shut=True)
        step = redirected(page.target, page.cookie, found)
        if step is None:
            return page
        there = page.target
        if step.host != there.host:
            answer = yield NameLookup(step.host)
            assert isinstance(answer, Answer)
            if not answer.addresses:
                return page
            there = replace(there, host=step.host, address=answer.addresses[0])
        there = replace(there, path=step.path)
        if step.secure:
            return page._replace(secure=replace(there, port=443), secure_cookie=step.cookie)
        page = Page(there, step.cookie)
    return page


def _reason(found: Readings, knob: str) -> str:
    return next((o.reason or "" for o in found if o.knob == knob), "")
