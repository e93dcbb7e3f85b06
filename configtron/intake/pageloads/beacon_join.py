# SPDX-License-Identifier: MIT
"""Beacons joined to requests by token: page loads with what their client was given, as rows.

Question   Which page load, measured by the browser, had which arm, and may it teach?
Method     A beacon's token names one request, which `RequestJoin` joined to its connection. The connection disproves
           what cannot be: a load faster than its round trips (two of a fresh connection, one where the socket was
           opened ahead of the page or reused), a load that ended after its beacon had arrived. A load is repeated once
           (at `visibilitychange`), with the same id and the same times.
Stop when  a beacon waited `EARLY_NS` for its log line; a row settles `SETTLE_NS` after its first beacon: by then the
           page's second beacon and, of short connections, the kernel's last figures have come; a token expires after
           `TOKEN_NS`. Tables are bounded; what gives way is counted.
Reads as   `OutcomeRow`, one for each token at most.
Fails as   a reason of `reasons.BEACONS` or `reasons.JOINS`, counted; a row with `teaches=False` and a reason of
           `reasons.UNTAUGHT`.
Differs    from the browser's own clock: only differences of its times are used; the row's date is the server's.
Source     Navigation Timing 2; RFC 9293 (a fresh connection's first answer takes two round trips)
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable

from configtron.intake.pageloads.beacon_formats import LONGEST_MS, PageLoad, load_fault
from configtron.intake.pageloads.influence_caps import InfluenceCaps
from configtron.intake.pageloads.log_lines import TOKEN
from configtron.intake.pageloads.plan_book import DrawnArm
from configtron.intake.pageloads.recent import RecentNames
from configtron.intake.pageloads.request_join import EndedConnection, JoinedRequest
from configtron.model.fleet import OutcomeRow

# The log line comes when the answer ends, through a local socket; the beacon after the page has loaded.
EARLY_NS, SETTLE_NS = 5_000_000_000, 10_000_000_000
# The longest load, and a minute for its beacon.
TOKEN_NS = round(LONGEST_MS * 1e6) + 60_000_000_000
# Bytes each: 780, 500, 180, 200: some 80 MB if all are full. Five hundred pages a second whose beacon never comes fill
# the first in two minutes, which then is a token's life.
MOST_TOKENS, MOST_EARLY, MOST_GONE, MOST_CONNECTIONS = 60_000, 20_000, 100_000, 50_000
# Two pages of one connection are this far apart at least (ns).
APART_NS = 200_000_000
# A request that begins so much after its handshake came on a socket that was opened ahead: three round trips are a
# handshake of TLS 1.2 and the request, the rest is the server's accept and the browser's own work.
AHEAD_ROUND_TRIPS, AHEAD_NS = 3, 50_000_000
# What a load may take beyond what the server's clock saw between request and beacon: the ways' jitter.
JITTER_MS = 250.0
# Time before the server saw the connection (redirects, names, prompts, SYNs that were lost): no record confirms it.
UNVERIFIED_MS = 5_000.0
# Begins the reason of a used token that has a row; the identity of the load follows.
ROW_OF = "row of "
# Of a connection that is still open.
NO_END = EndedConnection(0)
# Times of two beacons of one load differ by their rounding.
SAME_MS = 1.0


class _Page:
    """A token's page: its request, the load that was reported of it, and from then on its connection."""

    __slots__ = ("request", "reported", "settles_ns", "connection")

    def __init__(self, request: JoinedRequest) -> None:
        self.request = request
        self.reported: PageLoad | None = None
        self.connection: _Connection | None = None
        self.settles_ns = 0


class _Connection:
    """What is remembered of a connection: begins of its reported pages, and its end."""

    __slots__ = ("begins", "end")

    def __init__(self) -> None:
        self.begins: tuple[int, ...] = ()
        self.end: EndedConnection | None = None


class BeaconJoin:
    """Takes requests and beacons in any order, hands out rows.

    token   whether a token is of the server's form, or signed by it
    apart_ns, most_early  two pages of a connection begin further apart; so many beacons wait for their requests
    site_of host -> the site that it counts as
    counts  beacons by reason; "accepted" those that became rows, "again" that another
            beacon of the same load was counted
    """

    def __init__(
        self, agent: str, boot: str, caps: InfluenceCaps | None = None,
        token: Callable[[str], bool] = lambda token: TOKEN.fullmatch(token) is not None,
        sequence: int = 0, apart_ns: int = APART_NS, most_early: int = MOST_EARLY, settle_ns: int = SETTLE_NS,
        site_of: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        self.counts: Counter[str] = Counter()
        self._apart_ns, self._most_early = apart_ns, most_early
        self.agent, self.boot, self.sequence = agent, boot, sequence
        self.caps = caps or InfluenceCaps()
        self._token, self._wall_ns, self.settle_ns, self._site_of = token, 0, settle_ns, site_of
        self._pages: OrderedDict[str, _Page] = OrderedDict()
        self._early: OrderedDict[str, PageLoad] = OrderedDict()
        self._gone = RecentNames(MOST_GONE)
        self._connections: OrderedDict[int, _Connection] = OrderedDict()
        self._settling: deque[_Page] = deque()

    def __len__(self) -> int:
        """Return how many tokens, beacons and connections are remembered."""
        return len(self._pages) + len(self._early) + len(self._gone) + len(self._connections)

    def waiting(self) -> int:
        """Return how many beacons have no result yet: their log line has not come, or their row has not settled."""
        return len(self._early) + sum(page.reported is not None for page in self._settling)

    def requests(self, joined: Iterable[JoinedRequest]) -> None:
        """Take requests; a beacon that came before its request is joined now."""
        pages, early = self._pages, self._early
        for request in joined:
            if self._gone.get(request.token):
                continue
            if len(pages) >= MOST_TOKENS:
                self._forget(next(iter(pages)), "expired-token")
            pages[request.token] = page = _Page(request)
            reported = early.pop(request.token, None)
            if reported is not None:
                self._reported(page, reported)

    def ended(self, connections: Iterable[EndedConnection]) -> None:
        """Take the kernel's last figures of connections."""
        for ended in connections:
            self._connection(ended.connection).end = ended

    def beacon(self, load: PageLoad, at_ns: int, device: str = "", site: str = "") -> str:
        """Take a beacon that came at `at_ns`; return why it is refused, "" if it is not refused yet."""
        reason = self._beacon(load._replace(at_ns=at_ns, device=device, site=site))
        if reason:
            self.counts[reason] += 1
        return reason

    def _beacon(self, load: PageLoad) -> str:
        token = load.token
        # what costs least first: a flood has no token that a server issued
        if not token:
            return "no-token"
        page = self._pages.get(token)
        if page is not None:
            fault = load_fault(load)
            if fault:
                self._withdraw(page, load)
            return fault or self._reported(page, load, counted=False)
        if gone := self._gone.get(token):
            return self._after(gone, load)
        if not self._token(token):
            return "forged-token"
        if fault := load_fault(load):
            return fault
        if token in self._early:
            return self._merge_early(token, load)
        if len(self._early) >= self._most_early:
            # An honest beacon's line comes soon: the one that waits for longest gives way, most likely a forged one.
            self._early.popitem(last=False)
            self.counts["overflow"] += 1
        self._early[token] = load
        return ""

    def _after(self, gone: str, load: PageLoad) -> str:
        """Return why a beacon of a used token is refused; "" if it repeats the load of the row."""
        if gone == ROW_OF + load.identity:
            self.counts["again"] += 1
            return ""
        return "used-token" if gone.startswith(ROW_OF) else gone

    def _withdraw(self, page: _Page, load: PageLoad) -> None:
        """Take back that a load was left: the same page loaded later, unmeasurably."""
        before = page.reported
        if before and before.left and before.identity == load.identity:
            page.reported = None
            self.counts["again"] += 1
            self._forget(page.request.token, "used-token")

    def _merge_early(self, token: str, load: PageLoad) -> str:
        """Take a second beacon of a token whose line has not come."""
        before = self._early[token]
        if before.identity != load.identity:
            return "used-token"
        if not _same(before, load):
            if not before.left or load.value_ms is None:
                return "changed-body"
            self._early[token] = load
        self.counts["again"] += 1
        return ""

    def _reported(self, page: _Page, load: PageLoad, counted: bool = True) -> str:
        """Join a beacon to its page; return the reason of a rejection, which `counted` counts."""
        reason = self._fault(page, load)
        drawn = page.request.drawn
        self.caps.seen(drawn.prefix, drawn.unit, reason, load.at_ns)
        if reason and counted:
            self.counts[reason] += 1
        return reason

    def _fault(self, page: _Page, load: PageLoad) -> str:
        """Return why a beacon is not its page's load; "" where it is kept, or is the same again."""
        before = page.reported
        if before is None:
            fault = self._impossible(page, load)
            if fault:
                self._forget(page.request.token, "used-token")
                return fault
            page.reported, page.settles_ns = load, load.at_ns + self.settle_ns
            self._settling.append(page)
            return ""
        if load.identity != before.identity:
            return "used-token"
        if before.left and load.value_ms is not None:
            fault = self._slow_or_fast(page, load)
            if not fault:
                page.reported = load
                self.counts["again"] += 1
            return fault
        if load.left or _same(load, before):
            self.counts["again"] += 1
            return ""
        return "changed-body"

    def _impossible(self, page: _Page, load: PageLoad) -> str:
        request = page.request
        connection = page.connection = self._connection(request.connection)
        fault = self._slow_or_fast(page, load)
        if fault:
            return fault
        begins = connection.begins
        if begins and any(abs(request.begin_ns - begin) < self._apart_ns for begin in begins):
            return "too-often"
        # pages of one connection are seconds apart: the last few are enough
        connection.begins = (*begins[-7:], request.begin_ns)
        return ""

    def _slow_or_fast(self, page: _Page, load: PageLoad) -> str:
        """Return why the connection and the server's clock disprove a load's time; "" if they do not."""
        request = page.request
        value_ms = load.value_ms
        if value_ms is None:
            return ""
        end = page.connection.end if page.connection else None
        rtt_us = request.rtt_us
        if end and end.min_rtt_us:
            rtt_us = min(rtt_us, end.min_rtt_us) if rtt_us else end.min_rtt_us
        round_trips = 2 if request.first and not _ahead(request) else 1
        if value_ms * 1e3 < round_trips * rtt_us:
            return "impossible-fast"
        seen_ms = (load.at_ns - request.begin_ns) / 1e6
        before_ms = UNVERIFIED_MS if load.request_ms is None else load.request_ms
        return "impossible-slow" if value_ms - before_ms > seen_ms + JITTER_MS else ""

    def advance(self, now_ns: int, wall_ns: int) -> list[OutcomeRow]:
        """Return the rows that settled; refuse beacons that waited in vain, forget what is old.

        now_ns, wall_ns   the same moment by CLOCK_BOOTTIME and by the wall clock, which dates rows
        """
        rows, self._wall_ns = [], wall_ns - now_ns
        settling = self._settling
        while settling and settling[0].settles_ns <= now_ns:
            page = settling.popleft()
            row = self._settled(page)
            if row is not None:
                rows.append(row)
        self._refuse_early(now_ns)
        least_ns = now_ns - TOKEN_NS
        pages = self._pages
        while pages:
            token = next(iter(pages))
            if pages[token].request.end_ns > least_ns:
                break
            self._forget(token, "expired-token")
        return rows

    def _refuse_early(self, now_ns: int) -> None:
        """Refuse beacons whose log line has not come."""
        early = self._early
        while early:
            token = next(iter(early))
            if early[token].at_ns > now_ns - EARLY_NS:
                return
            del early[token]
            self.counts["unknown-token"] += 1

    def _settled(self, page: _Page) -> OutcomeRow | None:
        """Return the row of a page whose beacons have come."""
        request, load = page.request, page.reported
        if load is None:
            return None
        self._forget(request.token, ROW_OF + load.identity)
        end = page.connection.end if page.connection else None
        # the least round trip of the whole connection may disprove what its handshake's did not
        if end is not None and (fault := self._slow_or_fast(page, load)):
            self.counts[fault] += 1
            self.caps.seen(request.drawn.prefix, request.drawn.unit, fault, load.at_ns)
            return None
        self.counts["accepted"] += 1
        return self._row(request, load, end or NO_END)

    def _row(self, request: JoinedRequest, load: PageLoad, end: EndedConnection) -> OutcomeRow:
        drawn, at_ns = request.drawn, load.at_ns
        if load.value_ms is not None:
            # the load's end by the server's clock: from the request on, the browser's differences
            at_ns = min(at_ns, request.begin_ns + round((load.value_ms - (load.request_ms or 0.0)) * 1e6))
        why_not = "moved" if end.moved else self._doubt(request, load, at_ns)
        rtt_us = request.rtt_us
        if end.min_rtt_us and (end.min_rtt_us < rtt_us or not rtt_us):
            rtt_us = end.min_rtt_us
        return self.row(
            drawn, at_ns, request.host or load.site, load.value_ms, "abandoned" if load.value_ms is None else "",
            why_not, load.device, load.protocol, rtt_us / 1e3 or None, end.bandwidth_kbps, end.loss,
        )  # fmt: skip

    def row(
        self, drawn: DrawnArm, at_ns: int, site: str, value_ms: float | None, failure: str, why_not: str,
        device: str = "", protocol: str = "", rtt_ms: float | None = None, bandwidth_kbps: float | None = None,
        loss: float | None = None, weight: float = 1.0,
    ) -> OutcomeRow:  # fmt: skip
        """Return a row with the next sequence number."""
        self.sequence += 1
        return OutcomeRow(
            self.agent, self.boot, self.sequence, at_ns + self._wall_ns, self._site_of(site), drawn.prefix, drawn.unit,
            value_ms, drawn.term, drawn.map_version, drawn.epoch, drawn.class_name, drawn.arm, drawn.profile,
            drawn.propensity, drawn.held, failure, not why_not, why_not, device, protocol, rtt_ms, bandwidth_kbps, loss,
            {"weight": weight} if weight != 1.0 else {},
        )  # fmt: skip

    def _doubt(self, request: JoinedRequest, load: PageLoad, at_ns: int) -> str:
        """Return why a load does not teach; "" if it does."""
        drawn = request.drawn
        if drawn.doubt:
            return drawn.doubt
        if request.first is None:
            return "unknown-reuse"
        if not request.first:
            return "reused-connection"
        # the server saw how long the connection was open before the request; the browser's figure does not count
        open_ms = 0.0 if load.connect_start_ms is None else request.idle_ns / 1e6
        if load.request_ms is not None and load.request_ms - open_ms > UNVERIFIED_MS:
            return "unverified-time"
        return self.caps.doubt(drawn.prefix, drawn.unit, at_ns)

    def _connection(self, number: int) -> _Connection:
        found = self._connections.get(number)
        if found is None:
            if len(self._connections) >= MOST_CONNECTIONS:
                self._connections.popitem(last=False)
            found = self._connections[number] = _Connection()
        return found

    def _forget(self, token: str, reason: str) -> None:
        """Take a token out of use, and remember why."""
        self._pages.pop(token, None)
        self._gone.put(token, reason)


def _ahead(request: JoinedRequest) -> bool:
    """Return whether the socket was opened ahead of the page (preconnect)."""
    return request.idle_ns > AHEAD_ROUND_TRIPS * request.rtt_us * 1000 + AHEAD_NS


def _same(one: PageLoad, other: PageLoad) -> bool:
    """Return whether two beacons report the same load with the same times."""
    if one.identity != other.identity or (one.value_ms is None) != (other.value_ms is None):
        return False
    return abs((one.value_ms or 0.0) - (other.value_ms or 0.0)) <= SAME_MS
