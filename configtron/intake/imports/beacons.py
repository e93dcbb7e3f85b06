# SPDX-License-Identifier: MIT
"""Browsers' reports of their own page loads: boomerang's beacons, web-vitals, HTTP archives.

Question   How long did the visitor wait, as the visitor's own browser measured it?
Method     `found` looks for beacons in the whole line: in objects, in lists, and in texts of any field that are JSON, a
           form or a request's query. The server wrote the fields around a beacon. Only they can name the profile that
           the client had: a visitor's own word for it is ignored.
           boomerang: `t_done`; not from beacons of single requests (http.initiator), of pages that the visitor left
           early (rt.abld), or without `t_done`. web-vitals: the chosen metric, the last value of each id, and only of
           pages that came over the network (navigationType navigate or reload). HAR: onLoad of each page whose
           document (the first entry after redirects) a server answered over the network with 200 or 304.
Reads as   the fields of an outcome, as in JSON Lines of outcomes; the date is the end of the load. Dropped: entries of
           an archive other than documents, and sizes, since onLoad covers the whole page.
Fails as   no outcome and a counted reason; `BadInput` for a line that is no such beacon.
Differs    from access logs: the time includes the connection setup and the way of the last bytes to the client.
Source     boomerang, RT and BW plugins (t_done, u, rt.end, bw in bytes per second, lat); web-vitals Metric interface
           (an id has the page's clock in ms); HTTP Archive format 1.2 (pageTimings), and the fields with "_" of
           Chromium, Firefox, Safari and chrome-har
"""

from __future__ import annotations

import json
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from configtron.intake.imports.reading import Reading
from configtron.intake.imports.views import GOOD_PAGE
from configtron.intake.outcome_formats import number_from
from configtron.intake.pageloads.recent import RecentNames
from configtron.model.errors import BadInput

Form = dict[str, Any]
Mark = Callable[[Mapping[str, Any]], bool]
# Keys of fields that a beacon itself lacks and its server adds; the first that is there counts.
CLIENT = ("address", "ip", "client", "remote_addr", "client_ip", "remote_ip")
AGENT = ("user_agent", "userAgent", "ua", "http_user_agent")
PAGE = ("u", "url", "page", "href", "location", "http_referer", "referer")
DATE = ("measured_at", "rt.end", "timestamp", "time", "ts", "date", "received_at", "msec", "time_iso8601", "@timestamp")
# Fields that only the server may name, around a beacon; the mark of a beacon that named one itself.
ARM, UNTOLD = ("profile", "propensity"), "untold"
IDENTITY = ("id", "page_id", "pageId")
# web-vitals' name of a metric -> ours; CLS is missing, since it is no time.
VITALS = {"LCP": "lcp", "FCP": "fcp", "TTFB": "ttfb", "INP": "inp"}
# Navigation types of a page that came over the network; those of bfcache, prerender and restore did not.
NAVIGATIONS = ("navigate", "reload", "")
# The most web-vitals beacons that wait for a newer value of their id; the fewest boomerang pages that are remembered.
WAITING = 20_000
# Names of web-vitals' metrics; and its ids, which begin with the page's clock.
NAMES, CLOCK = {*VITALS, "CLS", "FID"}, re.compile(r"v\d+-(\d{13})-\d+")
# boomerang's initiator of a page load over the network in a single-page application; other initiators mean no page.
SPA_LOAD = "spa_hard"
# boomerang's field of its plugin BW -> our feature, and the feature's units in one unit of the field.
PLUGIN = (("bw", "bandwidth_kbps", 8e-3), ("lat", "rtt_ms", 1.0))
# boomerang's field -> its values for a load that nobody waited for, or that did not come over the network.
UNWAITED = {"vis.st": ("hidden", "prerender"), "nt_nav_type": ("2",)}
# The most containers around a beacon: the log line, the request in it, its body, a form in that, a list, an object.
NESTED = 6
REDIRECTS = (301, 302, 303, 307, 308)
# Fields of an archive's entry, its response or its cache that show that the answer did not come over the network.
STORED = {"beforeRequest", "fromCache", "fromDiskCache", "fromPrefetchCache", "fromServiceWorker",
          "fetchedViaServiceWorker", "servedFromCache", "wasFulfilled"}  # fmt: skip
# WebPageTest's result codes of a run that loaded its page; in the last, one object failed.
LOADED = (None, 0, 200, 99999)


def is_boomerang(given: Mapping[str, Any]) -> bool:
    """Return whether these are fields of boomerang's beacon."""
    return "t_done" in given or "http.initiator" in given or any(key.startswith("rt.") for key in given)


def is_vital(given: Mapping[str, Any]) -> bool:
    """Return whether these are fields of a metric of web-vitals."""
    return "value" in given and str(given.get("name")) in NAMES


# Kind -> the test whether an object is a beacon of that kind.
MARKS: Mapping[str, Mark] = {"boomerang": is_boomerang, "web-vitals": is_vital}


def header(line: str) -> list[str]:
    """Return the column names of a line if it may be a CSV header; none if it is JSON, a form or a query."""
    return [] if set("={[") & set(line) else [word.strip().strip('"') for word in line.split(",")]


def found(line: Any, is_beacon: Mark, around: Form | None = None, depth: int = NESTED, *, body: bool = False
          ) -> Iterator[Form]:  # fmt: skip
    """Yield the beacons in a line, or in a field of it, each with the fields around it. `body`: the visitor wrote this
    part; that holds for every text in a field."""
    body = body or (around is not None and isinstance(line, str))
    around, given = around or {}, opened(line) if isinstance(line, str) else line
    if isinstance(given, dict) and is_beacon(given):
        yield {**around, **_visitor_fields(given, around)}
    elif isinstance(given, dict | list) and depth:
        inside = list(given.values() if isinstance(given, dict) else given)
        if isinstance(given, dict):
            plain = [one for key, one in given.items() if key not in ARM]
            beside = [one for one in plain if isinstance(one, dict) and not is_beacon(one)]
            pairs = (pair for part in (*beside, given) for pair in part.items())
            fields = {key: one for key, one in pairs if isinstance(one, str | int | float)}
            if isinstance(settings := given.get("profile"), dict):
                fields["profile"] = ";".join(f"{knob}={one}" for knob, one in settings.items())
            around = {**around, **(fields if word(fields, CLIENT) and not body else _visitor_fields(fields, around))}
        for one in inside:
            yield from found(one, is_beacon, around, depth - 1, body=body)


def _visitor_fields(fields: Mapping[str, Any], around: Form) -> Form:
    """Return the fields that a visitor may name: not its profile, nor its address if the server named that."""
    hidden = {*ARM, *(CLIENT if word(around, CLIENT) else ())}
    mark = {UNTOLD: True} if fields.keys() & ARM else {}
    return {key: one for key, one in fields.items() if key not in hidden} | mark


def opened(text: str) -> Any:
    """Return the value of a text of JSON, or the fields of a form or a query; None if JSON is broken."""
    text = text.strip().removeprefix("data=")
    text = text if "=" in text or text[:1] in "{[" else unquote_plus(text)
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None
    head, _, query = text.partition("?")
    return dict(parse_qsl(text if "=" in head else query.partition(" ")[0], keep_blank_values=True))


class Boomerang:
    """boomerang's beacons of page loads; of each page the first: boomerang sends another when the visitor leaves."""

    def __init__(self, _: str, left: Counter[str]) -> None:
        self._left, self._pages = left, RecentNames(2 * WAITING)

    def take(self, number: int, given: Mapping[str, Any]) -> list[tuple[int, Form]]:
        """Return the outcome of the beacon of line `number`, if it is one. Errors: `BadInput`."""
        page = f"{word(given, ('pid',))} {word(given, ('rt.tstart',))}"
        if given.get("http.initiator") not in (None, "", SPA_LOAD):
            self._left["of a request, not of a page (http.initiator)"] += 1
        elif given.get("rt.abld") not in (None, "") or given.get("t_done") in (None, ""):
            self._left["left before it had loaded (no t_done, or rt.abld)"] += 1
        elif unwaited := next((name for name, states in UNWAITED.items() if str(given.get(name)) in states), ""):
            self._left[f"hidden, prerendered or by back and forward ({unwaited})"] += 1
        elif self._pages.get(page):
            self._left["of a page load that is taken already (pid)"] += 1
        else:
            numbers = {name: number_from(key, given[key]) * scale for key, name, scale in PLUGIN
                       if given.get(key) not in (None, "")}  # fmt: skip
            if given.get("pid"):
                self._pages.put(page, "taken")
            return [(number, made(given, given["t_done"]) | {"numbers": numbers})]
        return []

    def rest(self) -> list[tuple[int, Form]]:
        """Return nothing: no beacon waits."""
        return []


class Vitals:
    """web-vitals beacons of one metric; of each id the last value."""

    def __init__(self, metric: str, left: Counter[str]) -> None:
        self._metric, self._left = metric, left
        self._waiting: OrderedDict[str, tuple[int, Form]] = OrderedDict()
        self._nameless = count()

    def take(self, number: int, given: Mapping[str, Any]) -> list[tuple[int, Form]]:
        """Take the beacon of line `number`; return (line, outcome) of a beacon that waits no longer for a newer value.
        Errors: `BadInput`."""
        name, way = str(given.get("name", "")), word(given, ("navigationType", "navigation_type"))
        if VITALS.get(name) != self._metric:
            self._left[f"{name[:20] or 'no name'}, not the metric {self._metric}"] += 1
            return []
        if way not in NAVIGATIONS:
            self._left[f"not from a network (navigationType {way[:20]})"] += 1
            return []
        if given.get("value") is None:
            raise BadInput("value is missing")
        key = word(given, IDENTITY) or f"none {next(self._nameless)}"
        self._waiting.pop(key, None)
        form, clock = made(given, given["value"]), CLOCK.match(key)
        form["measured_at"] = form["measured_at"] or (clock[1] if clock else "")
        self._waiting[key] = number, form
        return [self._waiting.popitem(last=False)[1]] if len(self._waiting) > WAITING else []

    def rest(self) -> list[tuple[int, Form]]:
        """Return (line, outcome) of all beacons that still wait."""
        return list(self._waiting.values())


def archive(text: str, reading: Reading, epoch_ns: Callable[[Any], int]) -> Iterator[tuple[int, Form]]:
    """Yield (number from 1, outcome) of each page load of an HTTP archive. A page that cannot be read is refused
    (`Reading.refuse`). `epoch_ns`: the epoch of a date. Errors: `BadInput` for a file that is no archive."""
    try:
        log = json.loads(text)["log"]
        pages, entries = log.get("pages") or [], log["entries"]
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{reading.name}: no HTTP archive, for it is not JSON ({error}); export it anew") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{reading.name}: no HTTP archive: it has no log.entries; export it anew") from error
    if not isinstance(pages, list) or not isinstance(entries, list):
        raise BadInput(f"{reading.name}: no HTTP archive: log.pages and log.entries are lists; export it anew")
    if not pages:
        reading.remark = "an archive without pages shows no page load; browsers' developer tools write pages"
    browser = log.get("browser")
    agent = str(browser.get("name", "")) if isinstance(browser, dict) else ""
    ids = Counter(str(page.get("id")) for page in pages if isinstance(page, dict))
    for number, page in enumerate(pages, start=1):
        reading.lines += 1
        try:
            form = _read_page(page, entries, agent, epoch_ns)
            if ids[str(page["id"])] > 1:
                form = "a page whose id another page of the file has"
        except BadInput as error:
            reading.refuse(number, error)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
            reading.refuse(number, "a field of the page, or of its first entry, is missing or of the wrong kind")
        else:
            if isinstance(form, str):
                reading.left[form] += 1
            else:
                yield number, form


def _read_page(page: Any, entries: list[Any], agent: str, dated: Callable[[Any], int]) -> Form | str:
    """Return the outcome of a page of an archive, or the reason why it is no load over the network."""
    took = page.get("pageTimings", {}).get("onLoad")
    if took is None or took <= 0:
        return "a page without onLoad"
    if page.get("_result") not in LOADED:
        return f"a page that failed (result {str(page['_result'])[:20]})"
    mine = [one for one in entries if isinstance(one, dict) and one.get("pageref") == page["id"]
            and one["response"]["status"] not in REDIRECTS]  # fmt: skip
    if not mine:
        return "a page without an entry of its document"
    documents = [one for one in mine if str(one.get("_resourceType")).lower() == "document"]
    document = min(documents or mine, key=lambda one: str(one.get("startedDateTime", "")))
    url = document["request"]["url"]
    sent = {str(one["name"]).lower(): str(one["value"]) for one in document["request"].get("headers", [])}
    frames = Counter(map(_frame_key, documents))
    if frames[_frame_key(document)] > 1:
        return "a page of several documents"
    if why := _why_not_network(document, url, str(page.get("title", ""))):
        return why
    if "prerender" in sent.get("sec-purpose", ""):
        return "a page that was prerendered (Sec-Purpose)"
    ended = dated(page["startedDateTime"]) + round(took * 1e6)
    return {"plt_ms": took, "measured_at": ended, "site": site_of(url), "agent": sent.get("user-agent", agent),
            "address": ""}  # fmt: skip


def _frame_key(entry: Mapping[str, Any]) -> str:
    """Return a key of the frame that a document belongs to; Playwright and chrome-har name frames differently."""
    return str(entry.get("_frameref") or entry.get("_initiator_type") or entry["request"]["url"])


def _why_not_network(document: Mapping[str, Any], url: str, title: str) -> str:
    """Return the reason why a page's document did not come over the network; "" if it did."""
    answer = document["response"]
    scheme = (title if title.startswith("chrome-error:") else url).partition(":")[0]
    every = {**document, **answer, **(document.get("cache") or {})}
    shown = {key.lstrip("_"): one for key, one in every.items() if one not in (None, "") and one is not False}
    if scheme not in ("http", "https"):
        return f"no page of a network ({scheme[:20]}:)"
    if (error := shown.get("error") or shown.get("failureText")) or answer["status"] <= 0:
        return f"a page that failed ({str(error or 'no answer')[:60]})"
    if answer["status"] not in GOOD_PAGE:
        return f"a page answered by {int(answer['status'])}"
    # a size of 0: no byte came over the network; -1 means unknown
    kept = answer["status"] == 200 and shown.get("afterRequest")  # Firefox marks an answer from its cache so
    if kept or shown.keys() & STORED or 0 in (shown.get("transferSize"), shown.get("headersSize")) or (
            "Network" not in shown.get("fetchType", "Network")):  # fmt: skip
        return "a page from a cache or a service worker"
    if (kind := str(shown.get("resourceType", "document")).lower()) != "document":
        return f"a page whose first entry is no document ({kind[:20]})"
    return ""


def made(given: Mapping[str, Any], took: Any) -> Form:
    """Return an outcome's fields from a beacon and the fields around it."""
    return {"plt_ms": took, "address": word(given, CLIENT), "agent": word(given, AGENT),
            "site": site_of(word(given, PAGE)), "measured_at": word(given, DATE),
            **{name: word(given, (name,)) for name in (*ARM, UNTOLD)}}  # fmt: skip


def site_of(url: str) -> str:
    """Return the host and path of a URL, which identify a page; without the query."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or ''}{parts.path or '/'}" if url else ""
    except ValueError as error:
        raise BadInput(f"{url[:60]!r} is no address of a page") from error


def word(given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the value of the first of these keys that has one, as text; "" if none has."""
    return next((str(given[name]) for name in names if given.get(name) not in (None, "")), "")
