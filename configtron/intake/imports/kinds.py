# SPDX-License-Identifier: MIT
"""The kind of a file's lines, by their content; and the outcomes of other programs' lines.

Rules for this file: a kind is found where one of the first lines fits it, or the user names it; nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from configtron.fingerprint.device import browser_of, device_of
from configtron.fingerprint.features import plain_text, prefix_of
from configtron.intake.imports import beacons
from configtron.intake.imports.accesslog import QUOTED, SHOWN, STATED, Hit, Parser, difference, form_of, inside
from configtron.intake.imports.inforce import InForce, profile_of
from configtron.intake.imports.reading import Reading
from configtron.intake.imports.views import GOOD_PAGE, View, Views
from configtron.intake.outcome_formats import (
    LEAST_MS,
    LONGEST,
    MOST_MS,
    MOST_NS,
    context_of,
    csv_rows,
    epoch_ns,
    number_from,
    number_of,
    propensity_of,
    site_of,
    took_of,
)
from configtron.intake.pageloads.proxy_evidence import FEW, LEAST
from configtron.model.errors import BadInput
from configtron.model.nouns import Context, Decision, Outcome, Profile

OUTCOMES, CONTEXTS, HAR, HAPROXY_LOG, BOOMERANG, WEB_VITALS, ACCESS_LOG = (
    "outcomes", "contexts", "har", "haproxy", "boomerang", "web-vitals", "access-log",
)  # fmt: skip
# Kinds of access logs that --from takes; those of `STATED` give the unit of a number that shows none.
LOGS = (*STATED, HAPROXY_LOG, "envoy", "json")
# The metrics of each kind, its default first.
PLT, PAGE, REQUEST = "plt", "page", "request"
METRICS = {
    OUTCOMES: (PLT,), BOOMERANG: (PLT,), HAR: (PLT,), WEB_VITALS: tuple(beacons.VITALS.values()),
    **dict.fromkeys((ACCESS_LOG, *LOGS), (PAGE, REQUEST)),
}  # fmt: skip
# Schemas of lines that `fingerprint` writes.
CONTEXT_SCHEMA, WATCH_SCHEMA = "configtron.context/1", "configtron.watch/1"
# Clients that are remembered, by address and User-Agent: they come again.
REMEMBERED = 20_000
# Fields of what the server's kernel measured, us -> the feature, ms.
OF_KERNEL = (("tcpinfo_rtt", "rtt_ms"), ("tcpinfo_rttvar", "jitter_ms"))
# Beginnings of files that are of no format here, and what helps.
STRANGE = (
    (re.compile("PK\x03\x04"), "a zip archive; import what `unzip -p` writes of it"),
    (re.compile("\ufffd{0,2}\0?(?:[^\0]\0){2}"), "UTF-16; import what `iconv -f UTF-16 -t UTF-8` writes of it"),
    (re.compile(r'[\w."]+(?:[;\t|] *[\w."]+)+$'), "a CSV without commas; write them, and decimal points"),
)
UNDATED = "without a date: the file's last change stands for it"
UNBELIEVED = "of beacons that name their profile or propensity: that is the server's to say, beside a beacon's body"
Lines = Iterable[tuple[int, str]]


@dataclass(frozen=True)
class Wanted:
    """How lines become outcomes.

    gap_s       of quiet that ends a page view
    site        of every outcome; "": as logged
    profiles    by name, for logs that name them
    propensity  of every profile; None where it is not known
    places      ASN and country of an address
    epoch_ns    of the text of a date
    changed_ns  when the file was written last, the date of beacons without one; 0: not known, and these are left out
    """

    source: str
    metric: str
    history: InForce
    profiles: Mapping[str, Profile]
    offset_s: Callable[[int], float]
    epoch_ns: Callable[[str], int]
    profile: Profile | None = None
    propensity: float | None = None
    site: str = ""
    prefix: str = ""
    gap_s: float = 10.0
    places: Callable[[str], tuple[int | None, str]] | None = None
    changed_ns: int = 0


def _keyed(text: str, *keys: str) -> str:
    """Return why a line is no object of JSON that has these keys; "" if it is."""
    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        return "not JSON"
    return "" if isinstance(form, dict) and form.keys() >= {*keys} else f"it has no {' and '.join(keys)}"


def _beaconed(mark: beacons.Mark, text: str) -> str:
    """Return why no beacon is in a line, nor is it the header of a CSV of them; "" if one is."""
    parts = [text] if text[:1] in ("{", "[") else [dict.fromkeys(beacons.header(text), "LCP"), text, *_quoted(text)]
    return "" if any(True for part in parts for _ in beacons.found(part, mark)) else "no beacon in it"


# Kinds that are looked for -> why a line is not of it, "" if it is; the first that fits counts.
CHECKS: dict[str, Callable[[str], str]] = {
    CONTEXTS: lambda text: _keyed(text, "schema"),
    **{kind: partial(_beaconed, mark) for kind, mark in beacons.MARKS.items()},
    OUTCOMES: lambda text: _keyed(text, "plt_ms") and (
        "" if "plt_ms" in text.split(",") else "plt_ms is not in the header, nor in an object"),
    **{kind: partial(difference, form_of(kind)) for kind in (ACCESS_LOG, HAPROXY_LOG, "envoy", "json")},
}  # fmt: skip


def kind_of(lines: Sequence[str], name: str) -> str:
    """Return the kind of a file by its first lines. Errors: `BadInput` where none is of any, with how the first differs
    from each."""
    for line in lines:
        for kind, check in CHECKS.items():
            if not check(line.strip()):
                return kind
    first = lines[0].strip()
    for form, what in STRANGE:
        if form.match(first):
            raise BadInput(f"{name}: {what}")
    tried = "; ".join(f"{kind}: {check(first)}" for kind, check in CHECKS.items())
    what = f"{name}, line 1: {first[:SHOWN]!r} is of no known format"
    raise BadInput(f"{what}; {tried}; see: configtron learn import --help")


def imported(kind: str, lines: Lines, reading: Reading, wanted: Wanted) -> Iterator[Outcome]:
    """Yield the outcomes of a file of other programs' lines. Errors: `BadInput` where its form must be stated."""
    read, maker = _beacons if kind in beacons.MARKS else _hits, _Maker(reading, wanted)
    parser = Parser(kind, wanted.offset_s, wanted.epoch_ns)
    return (made for made in read(kind, lines, parser, maker, wanted) if made is not None)


def page_loads(text: str, reading: Reading, wanted: Wanted) -> Iterator[Outcome]:
    """Yield the outcomes of an HTTP archive. Errors: `BadInput`."""
    reading.unit, maker = "page", _Maker(reading, wanted)
    for number, form in beacons.archive(text, reading, partial(epoch_ns, "date", of_text=wanted.epoch_ns)):
        if (made := reading.read(number, maker.beacon, form)) is not None:
            yield made


def _parsed(lines: Lines, parser: Parser, reading: Reading) -> Iterator[tuple[int, Hit]]:
    seen: Counter[str] = Counter()
    for number, line in lines:
        hit = reading.read(number, parser.hit, line.strip())
        if isinstance(hit, str):
            reading.left[hit] += 1
        elif hit is not None and device_of(hit.agent) == "program":
            reading.left["by a program (User-Agent)"] += 1
        elif hit is not None:
            if len(seen) <= FEW or hit.address in seen:
                seen[hit.address] += 1
            yield number, hit
    if 0 < len(seen) <= FEW and (all(map(inside, seen)) or (len(seen) == 1 and seen.total() >= LEAST)):
        proxy, one = "this is the log of a server behind a proxy;", "one client, or a proxy; behind a proxy"
        remedy = "write the client there, or X-Forwarded-For as the last field, quoted, without ports"
        who = f"{proxy if all(map(inside, seen)) else one} {remedy}"
        reading.remark = f"all {seen.total()} requests come from {', '.join(seen)}: {who}"


def _hits(_: str, lines: Lines, parser: Parser, maker: _Maker, wanted: Wanted) -> Iterator[Outcome | None]:
    reading = maker.reading
    views = Views(reading.left, wanted.gap_s)
    number = 0
    for number, hit in _parsed(lines, parser, reading):
        if wanted.metric == REQUEST:
            if hit.method == "GET" and hit.status in GOOD_PAGE:
                yield reading.read(number, maker.hit, hit, hit.end_s)
            else:
                reading.left["no GET, or not answered by 200 or 304"] += 1
            continue
        if not hit.fine:
            raise BadInput(
                f"{reading.name}, line {number}: dated to the second, or not by which end it is, which times no"
                " page view; log nginx's msec=$msec or Apache's begin_ms=%{msec}t, or take requests by --metric request"
            )
        if hit.method == "GET":
            yield from (reading.read(number, maker.view, view) for view in views.take(hit))
    yield from (reading.read(number, maker.view, view) for view in views.rest())


def _beacons(kind: str, lines: Lines, parser: Parser, maker: _Maker, wanted: Wanted) -> Iterator[Outcome | None]:
    reading, sender = maker.reading, beacons.Vitals if kind == WEB_VITALS else beacons.Boomerang
    pages = sender(wanted.metric, reading.left)
    for number, given in _given(lines, reading, parser, beacons.MARKS[kind]):
        for own, form in reading.read(number, pages.take, number, given) or ():
            yield reading.read(own, maker.beacon, form)
    yield from (reading.read(own, maker.beacon, form) for own, form in pages.rest())


def _given(lines: Lines, reading: Reading, parser: Parser, mark: beacons.Mark) -> Iterator[tuple[int, beacons.Form]]:
    """Yield what the beacons of each line say, of a CSV by its header's names; count lines without one."""
    numbers = iter(lines)
    at, first = next(numbers, (0, ""))
    if mark(dict.fromkeys(columns := beacons.header(first), "LCP")):
        yield from csv_rows(columns, at, numbers, reading)
        return
    for number, line in chain([(at, first)] if at else [], numbers):
        forms = reading.read(number, _of_line, line, parser, mark)
        reading.left["no beacon"] += forms == []
        yield from ((number, form) for form in forms or ())


def _of_line(line: str, parser: Parser, mark: beacons.Mark) -> list[beacons.Form]:
    """Return the beacons of a line of JSON, of an access log (in its quoted fields), or of a body. Errors: `BadInput`
    for a line of neither."""
    if line.lstrip()[:1] in ("{", "["):
        if beacons.opened(line) is None:
            raise BadInput("not JSON")
        return list(beacons.found(line, mark))
    try:
        hit = parser.hit(line, timed=False)
    except BadInput:
        if forms := list(beacons.found(line, mark)):
            return forms
        raise
    if isinstance(hit, str):
        return []
    arm = {name: hit.fields[name] for name in beacons.ARM if name in hit.fields}
    around = arm | {"address": hit.address, "user_agent": hit.agent, "received_at": hit.end_s, "referer": hit.referer}
    return [form for field in _quoted(line) for form in beacons.found(field, mark, around)]


def _quoted(line: str) -> list[str]:
    """Return the quoted fields of a line of an access log, their quotes unescaped as nginx and Apache escape them."""
    return [field.replace(r"\x22", '"').replace(r"\"", '"') for field in re.findall(QUOTED.format("field"), line)]


class _Maker:
    """Outcomes of requests and beacons, with who the client is and which configuration it had."""

    def __init__(self, reading: Reading, wanted: Wanted) -> None:
        self.reading, self._wanted = reading, wanted
        self._client = lru_cache(REMEMBERED)(self._seen)

    def view(self, view: View) -> Outcome | None:
        """Return the outcome of a page view; None for one counted as left out. Errors: `BadInput`."""
        if view.requests >= 2:
            return self.hit(view.page, view.end_s)
        self.reading.left["page views of one request"] += 1
        return None

    def hit(self, hit: Hit, end_s: float) -> Outcome | None:
        """Return the outcome of a request, or of the page view that began with it; None for a line counted as left
        out. Errors: `BadInput`."""
        took_ms, fields = round((end_s - hit.begin_s) * 1e3, 3), hit.fields
        if not LEAST_MS <= took_ms <= MOST_MS:
            self.reading.left["shorter than the log can tell" if took_ms < LEAST_MS else "longer than a day"] += 1
            return None
        begin, end = round(hit.begin_s * 1e6) * 1000, round(end_s * 1e6) * 1000
        if not 0 <= begin <= end <= MOST_NS:
            raise BadInput("its date is not from 1970 to 2262; is msec, or begin_ms, in the unit of its name?")
        numbers = {name: number_of(name, number_from(field, fields[field]) / 1e3)
                   for field, name in OF_KERNEL if field in fields}  # fmt: skip
        site = f"{hit.host}{hit.path.partition('?')[0]}"[:LONGEST]
        return self._outcome(fields, hit.address, hit.agent, site, begin, end, took_ms, numbers)

    def beacon(self, form: beacons.Form) -> Outcome | None:
        """Return the outcome of a beacon; None for one counted as left out. Errors: `BadInput`."""
        wanted, remarks = self._wanted, self.reading.remarks
        took_ms, end, dated = took_of(form["plt_ms"], "load time"), wanted.changed_ns, form["measured_at"]
        if dated:
            end = epoch_ns("date", dated, wanted.epoch_ns)
        elif not end:
            self.reading.left["no date"] += 1
            return None
        begin = end - round(took_ms * 1e6) if dated else 0
        numbers = {name: number_of(name, one) for name, one in form.get("numbers", {}).items()}
        made = self._outcome(
            form, plain_text(form["address"]), form["agent"], form["site"], begin, end, took_ms, numbers
        )
        remarks[UNDATED] += made is not None and not dated
        remarks[UNBELIEVED] += made is not None and bool(form.get(beacons.UNTOLD))
        return made

    def _outcome(self, given: Mapping[str, Any], address: str, agent: str, site: str, begin: int, end: int,
                 took_ms: float, numbers: Mapping[str, float]) -> Outcome | None:  # fmt: skip
        """Return an outcome under the profile that the line names, else the one stated for all lines, else the one in
        force; None where that is not known, which is counted. Errors: `BadInput`."""
        wanted, named, chance = self._wanted, given.get("profile"), given.get("propensity")
        profile = wanted.profile or wanted.history.of(address, begin, end)
        if named:
            profile = _named(named, wanted.profiles)
        if isinstance(profile, str):
            self.reading.left[profile] += 1
            return None
        client, number = self._client(address, agent), numbers.get
        context = Context(
            number("bandwidth_kbps"), number("rtt_ms"), None, site_of(wanted.site or site), client.prefix, client.asn,
            client.region, client.device, None, number("jitter_ms"), browser=client.browser,
        )  # fmt: skip
        arm, share = "static" if profile.settings else "default", propensity_of(chance) if chance else wanted.propensity
        return Outcome(Decision(context, "", profile, arm, None, share), took_ms, end, wanted.source)

    def _seen(self, address: str, agent: str) -> Context:
        """Return the client by its address, "" for none, and User-Agent. Errors: `BadInput`."""
        places = self._wanted.places
        asn, region = places(address) if places is not None and address else (None, "")
        prefix = prefix_of(address) if address else self._wanted.prefix
        return context_of({"prefix": prefix, "asn": asn, "region": region, "device": device_of(agent),
                           "browser": browser_of(agent)})  # fmt: skip


def _named(text: str, profiles: Mapping[str, Profile]) -> Profile:
    """Return a profile by name or by its settings, KNOB=VALUE;KNOB=VALUE. Errors: `BadInput`."""
    from configtron.model.tuning_json import setting_of

    if "=" in text:
        return profile_of(tuple(sorted(setting_of(word) for word in text.split(";"))))
    if text == "default":
        return Profile("default")
    if text not in profiles:
        raise BadInput(f"no profile is called {text[:60]!r}; `configtron tune profile list` shows them")
    return profile_of(profiles[text].settings)
