# SPDX-License-Identifier: MIT
"""Requests of an access log -> page views, as the server saw them.

Question   How long did a page take, of which the server logged nothing but its requests?
Method     A view begins with a client's request for a page (by Sec-Fetch-Dest where it is logged, else a path that ends
           like no object) and takes in its requests for objects whose Referer is the page or an object of it; without a
           Referer, those that follow. An object that begins after `gap_s` of quiet is none of its load. A client is an
           address and a User-Agent.
Stop when  quiet for `gap_s`; a client has `OPEN_VIEWS` at most, and `CLIENTS` clients are remembered.
Reads as   from the page's request to the end of its last object's answer, as logged. That is less than the visitor
           waits: connecting, and the way of the last answer after the server handed it to its kernel, are not in it.
           So it is a metric of its own, never mixed with page load times of browsers.
Fails as   a counted reason: one request only (what was shown came from a cache), a page that failed, a program.
Differs    from browsers' beacons (`beacons.py`), which tell what the visitor waited; prefer those.
Source     Cooley, Mobasher, Srivastava 1999 (page views from logs by Referer and time)
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from urllib.parse import urlsplit

from configtron.learner.imports.accesslog import Hit

# What objects' paths end with.
OBJECTS = frozenset(
    "css js mjs png jpg jpeg gif webp avif svg ico bmp woff woff2 ttf otf eot mp4 webm mp3 wasm map json txt"
    " xml".split()
)
GOOD_PAGE = (200, 304)
# Views of one client that may be under way at once, objects of a view whose children are looked for, and clients.
OPEN_VIEWS, URLS, CLIENTS = 8, 500, 100_000


class View:
    """A page view: its page's request, when its last answer ended, how many requests it took."""

    __slots__ = ("page", "end_s", "requests", "urls")

    def __init__(self, page: Hit) -> None:
        self.page, self.end_s, self.requests = page, page.end_s, 1
        self.urls = {_bare(page.path)}

    def take(self, hit: Hit) -> None:
        """An object of it."""
        self.end_s = max(self.end_s, hit.end_s)
        self.requests += 1
        if len(self.urls) < URLS:
            self.urls.add(_bare(hit.path))


class _Client:
    """Views under way, and objects whose page's answer has not ended."""

    __slots__ = ("views", "early", "last_s")

    def __init__(self) -> None:
        self.views: list[View] = []
        self.early: list[Hit] = []
        self.last_s = 0.0


class Views:
    """Takes hits as they ended, hands out views that are over. `left`: where what is no view is counted."""

    def __init__(self, left: Counter[str], gap_s: float) -> None:
        self._left, self._gap_s = left, gap_s
        self._clients: OrderedDict[tuple[str, str], _Client] = OrderedDict()
        self._now_s = 0.0

    def take(self, hit: Hit) -> Iterator[View]:
        """One more answered request; views that are over by its time."""
        self._now_s = max(self._now_s, hit.end_s)
        who = (hit.address, hit.agent)
        client = self._clients.get(who)
        if client is None:
            client = self._clients[who] = _Client()
        self._clients.move_to_end(who)
        client.last_s = max(client.last_s, hit.end_s)
        if client.views:
            yield from self._over(client)
        if is_page(hit):
            self._page(client, hit)
        elif not self._object(client, hit):
            client.early = [*client.early[-OPEN_VIEWS * 4 :], hit]
        yield from self._lapsed()

    def rest(self) -> Iterator[View]:
        """Those that are under way when the log ends."""
        for client in self._clients.values():
            self._left["objects of no page"] += len(client.early)
            yield from client.views
        self._clients.clear()

    def _page(self, client: _Client, hit: Hit) -> None:
        if hit.status not in GOOD_PAGE:
            self._left["page failed or led elsewhere"] += 1
            return
        client.views = [*client.views[-OPEN_VIEWS:], View(hit)]
        early, client.early = client.early, []
        for one in sorted(early, key=lambda one: one.begin_s):
            if not self._object(client, one):
                self._left["objects of no page"] += 1

    def _object(self, client: _Client, hit: Hit) -> bool:
        asked_by = _bare(urlsplit(hit.referer).path or "/") if hit.referer else ""
        for view in reversed(client.views):
            fits = view.page.begin_s <= hit.begin_s <= view.end_s + self._gap_s
            if fits and (not asked_by or asked_by in view.urls):
                view.take(hit)
                return True
        return False

    def _over(self, client: _Client) -> Iterator[View]:
        limit_s = self._now_s - self._gap_s
        if any(view.end_s < limit_s for view in client.views):
            # what takes longer than the quiet is logged when it ended: wait as long again for it
            over = [view for view in client.views if view.end_s < limit_s - self._gap_s]
            client.views = [view for view in client.views if view.end_s >= limit_s - self._gap_s]
            yield from over

    def _lapsed(self) -> Iterator[View]:
        while self._clients:
            who, client = next(iter(self._clients.items()))
            if client.last_s >= self._now_s - 2 * self._gap_s and len(self._clients) <= CLIENTS:
                return
            del self._clients[who]
            self._left["objects of no page"] += len(client.early)
            yield from client.views


def is_page(hit: Hit) -> bool:
    """Whether a request is for a page, not for something on it."""
    if dest := hit.fields.get("dest"):
        return dest == "document"
    name = _bare(hit.path).rpartition("/")[2]
    return "." not in name or name.rpartition(".")[2].lower() not in OBJECTS


def _bare(path: str) -> str:
    """A path without query and fragment."""
    return path.partition("?")[0].partition("#")[0]
