# SPDX-License-Identifier: MIT
"""Beacons -> page loads: those of our script, of boomerang and of web-vitals; a body in, one `PageLoad` or a reason.

Question   What did the browser measure of this page load?
Method     Our script sends JSON with "v": 1 (`beacon.js`); a body that is exactly what the script writes is decoded at
           once, any other field by field: both read the same. boomerang sends a query string or a form; `ct` is the
           token, added by BOOMR.addVar. web-vitals' metric is JSON: LCP by its value, TTFB by the navigation's own
           entry, which brings the token in its serverTiming.
Stop when  one body is one load; nothing is kept.
Reads as   times in ms from the start of the navigation; None where the browser conceals one (0).
           Dropped: other timers, resources, errors and the sender's own variables, since the join needs none.
Fails as   "unreadable", "other-metric", or a reason of `load_fault`.
Differs    from `configtron/intake/imports/beacons.py`, which reads files of beacons without token and connection.
Source     W3C Navigation Timing 2, Server Timing, Page Visibility 2; boomerang 1.815 (plugins RT, NavigationTiming);
           web-vitals 6 (Metric, navigationType)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl

from msgspec import DecodeError, Meta, Struct
from msgspec import field as form_field
from msgspec.json import Decoder

from configtron.intake.imports.beacons import SPA_LOAD

# A load longer than this is a laptop that slept (ms).
LONGEST_MS = 600_000.0
# Characters of a token, an id, a protocol's name: what servers and our script make has fewer.
LONGEST_TOKEN, LONGEST_WORD = 64, 40
# Parameters of a boomerang beacon: it has some 100.
MOST_PARAMETERS = 400
NAVIGATIONS = {"0": "navigate", "1": "reload", "2": "back_forward"}
PLT, LCP = "plt", "lcp"


class PageLoad(NamedTuple):
    """One page load as its browser reports it, times in ms since the navigation began.

    identity    of this load, by the sender; "" if it sends none
    token       of the Server-Timing header; "" if none
    value_ms    the outcome: the load event's end, or LCP; None: not loaded yet
    left        the visitor left, or hid the page, before it had loaded
    hidden_ms   when the page first was in the background; None: visible all along
    origin_ms   activation of a prerendered page; 0: none
    at_ns       when the beacon came, CLOCK_BOOTTIME
    device, site  by the request's head
    """

    identity: str
    token: str
    value_ms: float | None
    connect_start_ms: float | None = None
    connect_end_ms: float | None = None
    request_ms: float | None = None
    response_ms: float | None = None
    hidden_ms: float | None = None
    origin_ms: float = 0.0
    navigation: str = "navigate"
    discarded: bool = False
    restored: bool = False
    left: bool = False
    protocol: str = ""
    at_ns: int = 0
    device: str = ""
    site: str = ""


Word = Annotated[str, Meta(max_length=LONGEST_WORD)]
Time = float | None


class ScriptForm(Struct, forbid_unknown_fields=True):
    """What `beacon.js` writes, and nothing else."""

    v: Literal[1]
    id: Word
    t: Annotated[str, Meta(max_length=LONGEST_TOKEN)]
    w: Literal["load", "hide"]
    nt: Word
    cs: Time = None
    ce: Time = None
    qs: Time = None
    ps: Time = None
    le: Time = None
    lcp: Time = None
    activation: Time = form_field(name="as", default=None)
    hh: Time = None
    dw: Literal[0, 1] = 0
    pc: Literal[0, 1] = 0
    np: Word = ""


_SCRIPT = Decoder(ScriptForm)


class Unreadable(Exception):
    """A body that is no beacon; the text is a reason of `reasons.BEACONS`."""


def page_load(body: bytes, query: str = "", metric: str = PLT) -> PageLoad | str:
    """Return the load that a request's body, or its query, reports; or why it is none (`reasons.BEACONS`)."""
    try:
        if body[:1] == b"{":
            found = _of_script(body, metric)
            if found is not None:
                return found
            return _of_json(json.loads(body), metric)
        text = body.decode("ascii") if body else query
        return _of_boomerang(dict(parse_qsl(text, max_num_fields=MOST_PARAMETERS)), metric)
    except Unreadable as why:
        return str(why)
    except (ValueError, RecursionError, TypeError):
        return "unreadable"


def _of_script(body: bytes, metric: str) -> PageLoad | None:
    """Return the load of a body that our script wrote; None where another reader has to decide."""
    try:
        form = _SCRIPT.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    words = form.id + form.t + form.nt + form.np
    if not (words.isascii() and words.isprintable()):
        return None
    return PageLoad(
        form.id, form.t, (form.le if metric == PLT else form.lcp) or None, form.cs or None, form.ce or None,
        form.qs or None, form.ps or None, form.hh, form.activation or 0.0, form.nt, form.dw == 1, form.pc == 1,
        form.w == "hide", form.np,
    )  # fmt: skip


def _of_json(given: Any, metric: str) -> PageLoad:
    if given.get("v") == 1:
        return _ours(given, metric)
    if "name" in given and "value" in given:
        return _of_vitals(given, metric)
    return _of_boomerang({key: value for key, value in given.items() if not isinstance(value, dict | list)}, metric)


def _ours(given: Mapping[str, Any], metric: str) -> PageLoad:
    """Return the load of our script's beacon."""
    field = given.get
    return PageLoad(
        _word(field("id", "")), _word(field("t", ""), LONGEST_TOKEN), _mark(field("le" if metric == PLT else "lcp")),
        _mark(field("cs")), _mark(field("ce")), _mark(field("qs")), _mark(field("ps")), _number(field("hh")),
        _number(field("as")) or 0.0, _word(field("nt", "navigate")), field("dw") == 1, field("pc") == 1,
        field("w") == "hide", _word(field("np", "")),
    )  # fmt: skip


def _of_vitals(given: Mapping[str, Any], metric: str) -> PageLoad:
    """Return the load of a metric of web-vitals: LCP by its value, a page load by TTFB's navigation entry."""
    name, way = given["name"], _word(given.get("navigationType", "navigate"))
    if name != ("LCP" if metric == LCP else "TTFB"):
        raise Unreadable("other-metric")
    entry = next(iter(_objects(given.get("entries"))), {})
    token = given.get("ct") or next(
        (one.get("description") for one in _objects(entry.get("serverTiming")) if one.get("name") == "ct"), ""
    )
    return PageLoad(
        _word(given.get("id", "")),
        _word(token, LONGEST_TOKEN),
        _mark(given["value"]) if metric == LCP else _mark(entry.get("loadEventEnd")),
        _mark(entry.get("connectStart")),
        _mark(entry.get("connectEnd")),
        _mark(entry.get("requestStart")),
        _mark(entry.get("responseStart")),
        None,
        _number(entry.get("activationStart")) or 0.0,
        way.replace("-", "_"),
        restored=way == "back-forward-cache",
        discarded=way == "restore",
        protocol=_word(entry.get("nextHopProtocol", "")),
    )


def _objects(given: Any) -> list[dict[str, Any]]:
    """Return the objects of a JSON list; none of another value."""
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _of_boomerang(given: Mapping[str, Any], metric: str) -> PageLoad:
    """Return the load of a boomerang beacon; its nt_ times are since 1970, ms."""
    if given.get("http.initiator") not in (None, "", SPA_LOAD) or not ("t_done" in given or "rt.start" in given):
        raise Unreadable("unreadable")
    if metric != PLT:
        raise Unreadable("other-metric")
    began, done = _number(given.get("nt_nav_st")), _number(given.get("t_done"))

    def since(name: str) -> float | None:
        at = _number(given.get(name))
        return None if not at or began is None else at - began

    left = given.get("rt.abld") not in (None, "") or (done is None and "rt.quit" in given)
    state = given.get("vis.st", "")
    return PageLoad(
        _word(str(given.get("pid", ""))),
        _word(given.get("ct", ""), LONGEST_TOKEN),
        None if left else done,
        since("nt_con_st"),
        since("nt_con_end"),
        since("nt_req_st"),
        since("nt_res_st"),
        0.0 if state == "hidden" else None,
        1.0 if state == "prerender" else since("nt_act_st") or 0.0,
        NAVIGATIONS.get(str(given.get("nt_nav_type", "0")), "navigate"),
        left=left,
        protocol=_word(given.get("nt_protocol", "")),
    )


def _number(value: Any) -> float | None:
    """Return a number of JSON or text; None for none. Errors: `Unreadable`."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unreadable("unreadable")
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError as error:
        raise Unreadable("unreadable") from error


def _mark(value: Any) -> float | None:
    """Return a time that is 0 where it is concealed or not reached."""
    return _number(value) or None


def _word(value: Any, longest: int = LONGEST_WORD) -> str:
    """Return a short printable word. Errors: `Unreadable`."""
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest or not (value.isascii() and value.isprintable()):
        raise Unreadable("unreadable")
    return value


def load_fault(load: PageLoad) -> str:
    """Return why a load is no measurement of a visitor's wait (a key of `reasons.BEACONS`); "" if it is one."""
    if load.restored or load.navigation == "back_forward":
        return "bfcache"
    if load.discarded:
        return "discarded"
    if load.origin_ms > 0 or load.navigation == "prerender":
        return "prerender"
    if not _ordered(load):
        return "clock"
    value, hidden = load.value_ms, load.hidden_ms
    if value is None:
        return "" if load.left and hidden != 0 else "hidden" if load.left else "no-load-end"
    if value > LONGEST_MS:
        return "too-long"
    return "hidden" if hidden is not None and hidden < value else ""


def _ordered(load: PageLoad) -> bool:
    """Return whether the times are finite, not negative, and none is before the one it follows."""
    least = 0.0
    for at in (load.connect_start_ms, load.connect_end_ms, load.request_ms, load.response_ms, load.value_ms):
        if at is not None:
            # false for what is no number, too
            if not least <= at < math.inf:
                return False
            least = at
    return 0.0 <= load.origin_ms < math.inf and (load.hidden_ms is None or 0.0 <= load.hidden_ms < math.inf)
