# SPDX-License-Identifier: MIT
"""Browsers' reports of their own page loads: boomerang's beacons, web-vitals, HTTP archives.

Question   How long did the visitor wait, by the visitor's own browser?
Method     boomerang: `t_done` of a beacon, in a query string that an access log has, or as JSON; beacons of single
           requests (http.initiator), of pages that were left (rt.quit, rt.abld) or without `t_done` are none.
           web-vitals: the metric asked for, the last value of each id; only of pages that came from a network
           (navigationType navigate or reload). HAR: onLoad of each page.
Reads as   the fields of an outcome, as JSON Lines of outcomes have them; dates are when the load ended.
Fails as   None and a counted reason; `BadInput` for a line that is no such beacon.
Differs    from access logs: connecting and the last answer's way are in it.
Source     boomerang, RT and BW plugins (t_done, u, rt.end, bw in bytes per second, lat); web-vitals Metric interface;
           HTTP Archive format 1.2 (pageTimings)
"""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from configtron.intake.imports.reading import Reading
from configtron.model.errors import BadInput

Form = dict[str, Any]
# Names under which senders put fields that beacons themselves lack.
CLIENT = ("address", "ip", "client", "remote_addr", "client_ip")
AGENT = ("user_agent", "userAgent", "ua")
PAGE = ("u", "url", "page", "href", "location")
DATE = ("rt.end", "timestamp", "time", "ts", "date", "received_at")
# web-vitals' names of times -> metric; CLS is none.
VITALS = {"LCP": "lcp", "FCP": "fcp", "TTFB": "ttfb", "INP": "inp"}
# Of these a page came from a network; bfcache, prerender and restore did not.
NAVIGATIONS = ("navigate", "reload", "")
# Beacons of web-vitals that may still be followed by a newer value of their id.
WAITING = 20_000
# Decimal exponents by which an epoch's unit is known: seconds, ms, us, ns, from 1973 on.
EPOCHS = ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3), (1e20, 1))


def boomerang(given: Mapping[str, Any], left: Counter[str]) -> Form | None:
    """Return a beacon's outcome."""
    if given.get("http.initiator") not in (None, ""):
        left["of a request, not of a page (http.initiator)"] += 1
        return None
    if given.get("rt.abld") not in (None, "") or given.get("t_done") in (None, ""):
        left["left before it had loaded (no t_done, or rt.abld)"] += 1
        return None
    context = {}
    if given.get("bw") not in (None, ""):
        context["bandwidth_kbps"] = float_of("bw", given["bw"]) * 8 / 1e3
    if given.get("lat") not in (None, ""):
        context["rtt_ms"] = float_of("lat", given["lat"])
    return made(given, given["t_done"]) | {"numbers": context}


def boomerang_query(path: str) -> dict[str, str]:
    """Return the parameters of a beacon in a request's path."""
    return dict(parse_qsl(path.partition("?")[2], keep_blank_values=True))


class Vitals:
    """web-vitals beacons of one metric; each id once, by its last value."""

    def __init__(self, metric: str, left: Counter[str]) -> None:
        self._metric, self._left = metric, left
        self._waiting: OrderedDict[str, tuple[int, Form]] = OrderedDict()

    def take(self, number: int, given: Mapping[str, Any]) -> Iterator[tuple[int, Form]]:
        """Take the beacon of line `number`; yield those that no newer value is waited for, each with its own line."""
        name, way = str(given.get("name", "")), str(given.get("navigationType") or "")
        if VITALS.get(name) != self._metric:
            self._left[f"{name[:20] or 'no name'}, not the metric {self._metric}"] += 1
            return
        if way not in NAVIGATIONS:
            self._left[f"not from a network (navigationType {way[:20]})"] += 1
            return
        if given.get("value") is None:
            raise BadInput("value is missing")
        key = str(given.get("id") or f"none {len(self._waiting)} {id(given)}")
        self._waiting.pop(key, None)
        self._waiting[key] = number, made(given, given["value"])
        while len(self._waiting) > WAITING:
            yield self._waiting.popitem(last=False)[1]

    def rest(self) -> Iterator[tuple[int, Form]]:
        """Yield all others, each with its own line."""
        yield from self._waiting.values()
        self._waiting.clear()


def archive(text: str, reading: Reading, epoch_ns: Any) -> Iterator[tuple[int, Form]]:
    """Yield the page loads of an HTTP archive, with each page's number from 1; a page that is none is refused
    (`Reading.refuse`). `epoch_ns`: of a date as ISO 8601. Errors: `BadInput` for a file that is no archive."""
    try:
        log = json.loads(text)["log"]
        pages, entries = log["pages"], log.get("entries", [])
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{reading.name}: no HTTP archive, for it is not JSON ({error}); export it anew") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{reading.name}: no HTTP archive: it has no log.pages; export it anew") from error
    if not isinstance(pages, list) or not isinstance(entries, list):
        raise BadInput(f"{reading.name}: no HTTP archive: log.pages and log.entries are lists; export it anew")
    browser = log.get("browser")
    agent = str(browser.get("name", "")) if isinstance(browser, dict) else ""
    for number, page in enumerate(pages, start=1):
        reading.lines += 1
        try:
            form = _archived(page, entries, agent, epoch_ns)
        except BadInput as error:
            reading.refuse(number, error)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
            reading.refuse(number, "a field of the page, or of its first entry, is missing or of the wrong kind")
        else:
            if form is not None:
                yield number, form
            else:
                reading.left["a page without onLoad"] += 1


def _archived(page: Any, entries: list[Any], agent: str, epoch_ns: Any) -> Form | None:
    """Return a page of an archive; None of one that has not loaded."""
    took = page.get("pageTimings", {}).get("onLoad")
    if took is None or took <= 0:
        return None
    mine = (one for one in entries if isinstance(one, dict) and one.get("pageref") == page["id"])
    first = next(mine, None)
    url = first["request"]["url"] if first else page.get("title", "")
    sent = first["request"].get("headers", []) if first else []
    browser = next((str(one["value"]) for one in sent if str(one["name"]).lower() == "user-agent"), agent)
    ended = epoch_ns(page["startedDateTime"]) + round(took * 1e6)
    return {"plt_ms": took, "measured_at": ended, "site": site_of(url), "agent": browser, "address": ""}


def made(given: Mapping[str, Any], took: Any) -> Form:
    """Return an outcome's fields from a beacon and the fields around it."""
    form: Form = {"plt_ms": took, "address": word(given, CLIENT), "agent": word(given, AGENT),
                  "site": site_of(word(given, PAGE)), "measured_at": date_of(given)}  # fmt: skip
    context = given.get("context")
    if isinstance(context, dict):
        form["context"] = context
    for name in ("prefix", "profile", "propensity"):
        if given.get(name) not in (None, ""):
            form[name] = given[name]
    return form


def date_of(given: Mapping[str, Any]) -> Any:
    """Return nanoseconds since the epoch of a number in any unit, the text of a date as it is, None for none."""
    if given.get("measured_at") is not None:
        return given["measured_at"]
    found = next((given[name] for name in DATE if given.get(name) not in (None, "")), None)
    if found is None:
        return None
    try:
        number = float(found)
    except (TypeError, ValueError):
        return found
    if number != number or number in (float("inf"), float("-inf")):
        return found
    exact = int(number) if number == int(number) else number
    return next((round(exact * unit) for most, unit in EPOCHS if 0 <= number < most), found)


def site_of(url: str) -> str:
    """Return host and path of an address, without query: pages differ in these."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or ''}{parts.path or '/'}" if url else ""
    except ValueError as error:
        raise BadInput(f"{url[:60]!r} is no address of a page") from error


def word(given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of these that is there."""
    return next((str(given[name]) for name in names if given.get(name) not in (None, "")), "")


def float_of(name: str, value: Any) -> float:
    """Return a finite number. Errors: `BadInput`."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{name}: {str(value)[:60]!r} is no number")
    return number
