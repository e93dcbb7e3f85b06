# SPDX-License-Identifier: MIT
"""Requests of an access log -> page views, as the server saw them.

Question   How long did a page take, of which the server logged nothing but its requests?
Method     A view begins with a client's request for a page (by Sec-Fetch-Dest where it is logged, else a path that ends
           like no object) and takes in its requests for objects whose Referer is the page or an object of it; without a
           Referer, those that follow. An object that begins after `gap_s` of quiet is none of its load, and neither is
           one that the page asks for again after its load was quiet (a poll, a heartbeat). A client is an address and a
           User-Agent. Where time steps back (older files behind newer ones, workers' buffers), the clock does.
Stop when  quiet for `gap_s`; a client has `OPEN_VIEWS` at most, and `CLIENTS` clients are remembered.
Reads as   from the page's request to the end of its last object's answer, as logged. That is less than the visitor
           waits: connecting, and the way of the last answer after the server handed it to its kernel, are not in it.
           So it is a metric of its own, never mixed with page load times of browsers.
Fails as   a counted reason: one request only (the page came from a cache), a page that failed, a program.
Differs    from browsers' beacons (`beacons.py`), which show the visitor's own wait; prefer those.
Source     Cooley, Mobasher, Srivastava 1999 (page views from logs by Referer and time)
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import urlsplit

from configtron.intake.imports.accesslog import Hit

# The endings of objects' paths.
OBJECTS = frozenset(
    "css js mjs png jpg jpeg gif webp avif svg ico bmp woff woff2 ttf otf eot mp4 webm mp3 wasm map json txt"
    " xml".split()
)
GOOD_PAGE = (200, 304)
# Views of one client that may be under way at once, objects of a view whose children are looked for, and clients.
OPEN_VIEWS, URLS, CLIENTS = 8, 500, 100_000
# Objects of one client that may wait for their page's line; addresses of pages that are remembered.
EARLY, REMEMBERED = 32, 20_000
ORPHANS = "objects of no page"


class View:
    """A page view: its page's request, when its last answer ended, how many requests it took, when each of `urls` last
    ended."""

    __slots__ = ("page", "end_s", "requests", "urls")

    def __init__(self, page: Hit) -> None:
        self.page, self.end_s, self.requests = page, page.end_s, 1
        self.urls = {place_of(page.host, page.path): page.end_s}

    def take(self, hit: Hit) -> None:
        """An object of it; a poll is none, from its first request on."""
        place, few = place_of(hit.host, hit.path), len(self.urls) < URLS
        if few and place in self.urls and hit.begin_s > self.end_s:
            self.requests -= self.urls[place] > self.page.end_s
            self.urls[place] = self.page.end_s
            self.end_s = max(self.urls.values())
            return
        self.end_s = max(self.end_s, hit.end_s)
        self.requests += 1
        if few:
            self.urls[place] = max(hit.end_s, self.urls.get(place, 0.0))

    def named(self, referer: str) -> bool:
        """Return whether a Referer is the page or an object of it; hosts count where they are logged."""
        host, path = asked_by(referer)
        return (place_of(host, path) if self.page.host else path) in self.urls


class _Client:
    """Views under way, and objects whose page's answer has not ended."""

    __slots__ = ("views", "early", "last_s")

    def __init__(self) -> None:
        self.views: list[View] = []
        self.early: list[Hit] = []
        self.last_s = 0.0


class Views:
    """Takes hits in the order of their ends, yields views that are over. `left`: counts of hits that are no view."""

    def __init__(self, left: Counter[str], gap_s: float) -> None:
        self._left, self._gap_s = left, gap_s
        self._clients: OrderedDict[tuple[str, str], _Client] = OrderedDict()
        self._now_s = 0.0

    def take(self, hit: Hit) -> list[View]:
        """One more answered request; views that are over by its time."""
        if not self._now_s - 2 * self._gap_s <= hit.end_s <= self._now_s:
            self._now_s = hit.end_s
        who = (hit.address, hit.agent)
        client = self._clients.get(who)
        if client is None:
            client = self._clients[who] = _Client()
        self._clients.move_to_end(who)
        client.last_s = max(client.last_s, hit.end_s)
        over = self._over(client) if client.views else []
        if is_page(hit):
            self._page(client, hit)
        elif not self._object(client, hit):
            client.early.append(hit)
        self._bound(client, over)
        self._lapsed(over)
        return over

    def rest(self) -> Iterator[View]:
        """Yield those that are under way when the log ends."""
        for client in self._clients.values():
            self._left[ORPHANS] += len(client.early)
            yield from client.views
        self._clients.clear()

    def _page(self, client: _Client, hit: Hit) -> None:
        if hit.status not in GOOD_PAGE:
            self._left["page failed or led elsewhere"] += 1
            return
        client.views.append(View(hit))
        early, client.early = client.early, []
        for one in sorted(early, key=lambda one: one.begin_s):
            if not self._object(client, one):
                self._left[ORPHANS] += 1

    def _object(self, client: _Client, hit: Hit) -> bool:
        for view in reversed(client.views):
            fits = view.page.begin_s <= hit.begin_s <= view.end_s + self._gap_s
            if fits and (not hit.referer or view.named(hit.referer)):
                view.take(hit)
                return True
        return False

    def _over(self, client: _Client) -> list[View]:
        # a request longer than the quiet is logged when it ended: wait as long again for it
        limit_s = self._now_s - 2 * self._gap_s
        over = [view for view in client.views if view.end_s < limit_s]
        if over:
            client.views = [view for view in client.views if view.end_s >= limit_s]
        return over

    def _bound(self, client: _Client, over: list[View]) -> None:
        """No more than so many views and objects of a client at once: the oldest are over."""
        if len(client.views) > OPEN_VIEWS:
            over.append(client.views.pop(0))
        if len(client.early) > EARLY:
            self._left[ORPHANS] += 1
            client.early.pop(0)

    def _lapsed(self, over: list[View]) -> None:
        while self._clients:
            who = next(iter(self._clients))
            client = self._clients[who]
            if client.last_s >= self._now_s - 2 * self._gap_s and len(self._clients) <= CLIENTS:
                return
            del self._clients[who]
            self._left[ORPHANS] += len(client.early)
            over += client.views


def is_page(hit: Hit) -> bool:
    """Return whether a request is for a page, not for something on it."""
    if dest := hit.fields.get("dest"):
        return dest == "document"
    name = _bare(hit.path).rpartition("/")[2]
    return "." not in name or name.rpartition(".")[2].lower() not in OBJECTS


@lru_cache(REMEMBERED)
def asked_by(referer: str) -> tuple[str, str]:
    """Return host, without port, and path of a Referer; both "" of one that is no address."""
    try:
        parts = urlsplit(referer)
        return parts.hostname or "", parts.path or "/"
    except ValueError:
        return "", ""


@lru_cache(REMEMBERED)
def place_of(host: str, path: str) -> str:
    """Return the key of a page or object: host, if it is known, and path without query."""
    return f"{host}{_bare(path)}"


def _bare(path: str) -> str:
    """Return a path without query and fragment."""
    return path.partition("?")[0].partition("#")[0]
