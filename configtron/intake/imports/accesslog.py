# SPDX-License-Identifier: MIT
"""Access logs of web servers and proxies, as text or JSON: one line, one answered request.

Question   Which client requested which page, when, for how long, and from which referring page?
Method     `FORMS` describes a text format as a sequence of named parts: the combined format (a virtual host may stand
           before the address, in lighttpd's after it), HAProxy's HTTP log, Envoy's default. After the combined format
           may come KEY=VALUE pairs in any order, quoted words, or one bare number: the duration of the request.
           In JSON the names of the keys, also nested ones, say what a value is (`FIELDS`, `DURATIONS`); in KEY=VALUE
           pairs, too. The unit of a duration is in its key, in its value ("12ms"), or known from the program
           (`PROGRAMS`). A bare number, or a `request_time`, with a decimal point is nginx's, in seconds. For any other
           number the user must state the unit (`STATED`). Of several bare numbers none is taken, since one may be a
           size or a count; if just one has a unit, that one is the duration.
           The key or the program says whether a date is the begin or the end of the request. Of a date in brackets:
           nginx writes the end, Apache the begin. An epoch's magnitude shows its unit (`outcome_formats.EPOCHS`).
           The client is who CF-Connecting-IP or True-Client-IP names, which a log has only behind such a network; else
           the first public address of the address field, else of X-Forwarded-For (without one: X-Real-IP); if none is
           public, the first of X-Forwarded-For. A request in absolute form names its site.
           Dropped: bytes, protocol and upstream, since the duration includes their effects; other headers.
           A prefix or a wrapper by the logger of a container or a system (`LOGGER`, `WRAPPED`) is removed.
Reads as   a `Hit`: begin and end in seconds since the epoch. `fine`: both are exact to a millisecond, else to a second.
Fails as   a counted reason for a valid line that is no load (no request, aborted, or prefetched: Sec-Purpose);
           `BadInput` for a line of another format, with the first part that differs.
Differs    from `fingerprint/device.py`, which reads the same lines for the User-Agent alone.
Source     nginx ngx_http_log_module; Apache mod_log_config; HAProxy configuration manual 8.2.3, 8.4; Envoy access
           logging (default format); Traefik access logs (JSON fields); Caddy's log directive; RFC 9112 3.2 (targets)
"""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from configtron.fingerprint.features import plain_text
from configtron.intake.outcome_formats import unit_ns
from configtron.model.errors import BadInput

QUOTED = r'"(?P<{}>[^"\\]*(?:\\.[^"\\]*)*)"'
REQUEST, REFERER, AGENT, FORWARDED = (QUOTED.format(name) for name in ("request", "referer", "agent", "forwarded"))
DATE = ("the date in brackets", r"\[(?P<begin>[^\]]*)\] ")
# Formats of text: parts of a line, each with its name.
FORMS = {
    "combined": (
        ("the client", r'(?P<address>[^\["]+) '), ("the date in brackets", r"\[(?P<time>[^\]]*)\] "),
        ("the request in quotes", rf"{REQUEST} "), ("the status", r"(?P<status>\d{3}) \S+ "),
        ("the referer in quotes", rf"{REFERER} "), ("the user agent in quotes", AGENT), ("the end", r"(?P<rest>.*)"),
    ),
    "haproxy": (
        ("client:port", r"(?:.*?: )?(?P<address>[0-9a-fA-F.:]+):\d+ "), DATE,
        ("frontend backend/server", r"\S+ \S+/\S+ "), ("the timers", r"(?:[-+\d]+/)*(?P<request_ms>[-+\d]+) "),
        ("status and bytes", r"(?P<status>-?\d+) \+?\d+ \S+ \S+ "), ("the flags", r"(?P<flags>\S{4}) \S+ \S+"),
        ("the request in quotes", r' (?:\{(?P<captured>[^}]*)\} )?(?:\{[^}]*\} )?"(?P<request>[^"]*)'),
    ),
    "envoy": (
        DATE, ("the request in quotes", rf"{REQUEST} "), ("status and flags", r"(?P<status>\d+) (?P<flags>\S+) "),
        ("bytes and duration", r'(?:\S+ \S+ "[^"]*" )?\d+ \d+ (?P<request_ms>\d+) \S+ '),
        ("X-Forwarded-For in quotes", rf"{FORWARDED} "), ("the user agent in quotes", r'"(?P<agent>.*)" '),
        ("request number, authority and upstream in quotes", r'"[^" ]*" "(?P<host>[^" ]*)" "[^" ]*"'),
    ),
}  # fmt: skip
# The request headers that HAProxy captures, in this order; the last is optional.
CAPTURED = ("host", "referer", "agent", "forwarded")
NAMED = {"combined": "an access log (combined format)", "haproxy": "HAProxy's HTTP log", "envoy": "Envoy's log"}
LINES = {form: re.compile("".join(part for _, part in parts)) for form, parts in FORMS.items()}


def _header_keys(names: str) -> str:
    """Return the keys of request headers as nginx, other programs and Traefik name them."""
    return " ".join(f"{way}{name}" for name in names.split() for way in ("http_", "", "request_"))


# Field -> its keys in JSON or KEY=VALUE, in lower case; of several keys in a line the first of the row counts.
FIELDS = {field: names.split() for field, names in {
    "address": "client_ip remote_ip clienthost clientaddr remote_addr client_addr clientip remote_address"
               " downstream_remote_address remote_host remote client ip",
    "visitor": _header_keys("cf_connecting_ip true_client_ip"),
    "forwarded": _header_keys("x_forwarded_for x_real_ip") + " xff",
    "host": "host requesthost http_host authority vhost server_name", "method": "method requestmethod request_method",
    "path": "uri requestpath request_uri path url", "request": "request request_line",
    "status": "status downstreamstatus response_code status_code code", "flags": "response_flags termination_state",
    "referer": "http_referer referer request_referer http_referrer referrer",
    "agent": "http_user_agent user_agent request_user_agent useragent agent ua",
    "begin": "begin_ms start_time startutc accept_date", "end": "msec time_iso8601 time_local",
    "time": "@timestamp timestamp time date ts", "dest": "dest http_sec_fetch_dest",
    "purpose": "http_sec_purpose sec_purpose request_sec_purpose purpose http_purpose http_x_purpose http_x_moz",
    **{name: name for name in ("tcpinfo_rtt", "tcpinfo_rttvar", "profile", "propensity")},
}.items()}  # fmt: skip
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
# In place of a unit: seconds if the number has a decimal point, as nginx and Caddy write them; an unknown unit.
POINT, UNKNOWN = 0.0, -1.0
STEMS = "request duration request_time response_time time_taken latency elapsed took".split()
# Key of a request's duration -> its unit in seconds.
DURATIONS = {f"{stem}_{unit}": scale for stem in STEMS for unit, scale in UNITS.items()} | {
    **dict.fromkeys(("request_time", "rt"), POINT), **dict.fromkeys(STEMS[1:2] + STEMS[3:], UNKNOWN)}  # fmt: skip
NAMES = dict.fromkeys(DURATIONS, "took") | {name: field for field, names in FIELDS.items() for name in names}
RANKS = {name: -at for at, name in enumerate(NAMES)}
# Per program: a key that identifies its objects, the beginning of that key's value, the unit of `duration` in seconds,
# the field of its date, the key of its date.
PROGRAMS = (("startutc", "", 1e-9, "begin", "startutc"), ("response_flags", "", 1e-3, "begin", "start_time"),
            ("logger", "http.log.access", POINT, "end", "ts"))  # fmt: skip
# Kinds with which the user states the unit of bare numbers -> that unit in seconds.
STATED = {"nginx": 1.0, "apache-us": 1e-6, "apache-ms": 1e-3, "apache-s": 1.0} | {
    f"json-{name}": scale for name, scale in UNITS.items()}  # fmt: skip
# Texts that mean "no value"; the port after an address; the beginning of a request target in absolute form.
NONE, PORT, ABSOLUTE = ("", "-"), r":\d+", re.compile("[a-z]+://", re.IGNORECASE)
# Prefixes of Kubernetes (CRI), syslog (RFC 3164, 5424), journalctl and docker compose; objects of JSON around a line.
LOGGER = re.compile(
    r"(?:<\d+>)?(?:1? ?\d{4}-\S+T\S+|\w{3} [ \d]\d [\d:]{8}) "
    r"(?:std(?:out|err) [FP] |(?:\S+ )?[^\s:]+: |\S+ \S+ \S+ \S+ (?:-|\[[^\]]*\]) )|\S+ +\| "
)
WRAPPED = re.compile(r'\{.*?"(log|MESSAGE|message|line|textPayload)" ?: ?"')
# Apache writes a byte that is not ASCII as \xHH, even in JSON.
HEXADECIMAL = re.compile(r"(?<!\\)((?:\\\\)*)\\x")
CAPITAL = re.compile("(?<=[a-z])(?=[A-Z])")
TOOK = re.compile(r"([-+]?)(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(ns|us|ms|s)?")
WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+')
TIME = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.(\d{3}))?(?: ([+-])(\d\d)(\d\d))?$")
MONTHS = {name: at for at, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
# Networks that no visitor from the internet has: RFC 1918, 4193, 6598, loopback and link-local.
NETWORKS = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 fc00::/7 fe80::/10 ::1"
INSIDE = [ip_network(text) for text in NETWORKS.split()]
# Cache sizes for clients and hosts, and for dates: servers log the same few again and again.
REMEMBERED, DATES = 50_000, 1000
# Characters of a line that an error message shows.
SHOWN = 40


class Hit(NamedTuple):
    """One answered request. begin_s, end_s: since the epoch; fields: those of `FIELDS` that were logged."""

    address: str
    agent: str
    host: str
    method: str
    path: str
    referer: str
    status: int
    begin_s: float
    end_s: float
    fine: bool
    fields: Mapping[str, str]


class Parser:
    """Turns lines of one `kind` into hits. `offset_s`: the UTC offset of a local time without a zone; `epoch_ns`: the
    epoch of an ISO 8601 date."""

    def __init__(self, kind: str, offset_s: Callable[[int], float], epoch_ns: Callable[[str], int]) -> None:
        self._form, self._apache = form_of(kind), kind.startswith("apache")
        self._stated, self._offset_s, self._epoch_ns = STATED.get(kind, UNKNOWN), offset_s, epoch_ns
        self._dated, self._fine = lru_cache(DATES)(self._read), False

    def hit(self, line: str, *, timed: bool = True) -> Hit | str:
        """Return the request of a line, or the reason why it has none; if not `timed`, the duration may be missing.
        Errors: `BadInput`."""
        line = unwrapped(line)
        given, took, unit = _parse_object(line) if self._form == "json" else _parse_text(self._form, line)
        request = given.get("request", "")
        words = request.split(" ") if " " in request else [given.get("method", ""), given.get("path", request)]
        if not 2 <= len(words) <= 3 or not all(words):
            return "no request in it"
        address, beside = client_of(given.get("visitor") or given.get("address", ""), given.get("forwarded", ""))
        host, path = _target(words[0], words[1], given.get("host", beside))
        status = given.get("status", "")
        sign, seconds = self._seconds(took, unit) if timed else ("", 0.0)
        if sign == "-" or not status.isdigit() or status == "0" or given.get("flags", "")[:2].strip("-"):
            return "aborted"
        if sign or given.get("purpose", "").startswith("pre"):
            return "logged before its end" if sign else "fetched ahead of a visit"
        begin, end = given.get("begin"), given.get("end")
        dated_s, fine = self._instant(begin or end or given.get("time", ""))
        begins = begin or not end and (self._apache or unit > 0 or took.endswith("s"))
        # some programs rewrite JSON and drop ".000": after one date with milliseconds, whole seconds are exact too
        self._fine = self._form == "json" and (self._fine or fine)
        begin_s, end_s = (dated_s, dated_s + seconds) if begins else (dated_s - seconds, dated_s)
        return Hit(address, given.get("agent", ""), host, words[0], path, given.get("referer", ""), int(status),
                   begin_s, end_s, bool(begin or end) and (fine or self._fine), given)  # fmt: skip

    def _seconds(self, took: str, unit: float) -> tuple[str, float]:
        """Return the sign and the absolute value (s) of a duration. Errors: `BadInput`."""
        found = TOOK.fullmatch(took.replace("µ", "u"))
        if found is None:
            why = f"{took[:60]!r} is no time that a request took"
            if not took:
                why = "how long the request took is not in it; log nginx's $request_time or Apache's %D"
                why += ", under a name with its unit (request_time, duration_us, request_ms)" * (self._form == "json")
            elif " " in took and self._form == "combined":
                why = f"several numbers without names ({took[:60]}); write request_time=$request_time"
            raise BadInput(why)
        sign, number, own = found.groups()
        # programs that rewrite JSON turn 0.000 into 0
        in_seconds = unit == POINT and ("." in number or (number == "0" and self._form == "json"))
        scale = UNITS[own] if own else unit if unit > 0 else 1.0 if in_seconds else self._stated
        if scale == UNKNOWN:
            units = "microseconds (--from apache-us), milliseconds (apache-ms), seconds (apache-s), or nginx's (nginx)?"
            json_units = "in which unit? --from json-s, -ms, -us, -ns"
            raise BadInput(f"{number} is {json_units if self._form == 'json' else units}")
        return sign, float(number) * scale

    def _instant(self, text: str) -> tuple[float, bool]:
        """Return a date (s since the epoch), and whether it has fractions of a second. Errors: `BadInput`."""
        if not text.replace(".", "", 1).isdigit():
            return self._dated(text)
        number = float(text)
        unit = unit_ns(number)
        return number * unit / 1e9, "." in text or unit < 10**9

    def _read(self, text: str) -> tuple[float, bool]:
        found = TIME.match(text)
        if found is None or found[2] not in MONTHS:
            return self._epoch_ns(text) / 1e9, "." in text
        day, year, hour, minute, second = (int(found[at]) for at in (1, 3, 4, 5, 6))
        local = calendar.timegm((year, MONTHS[found[2]], day, hour, minute, second))
        if found[8]:
            offset = (int(found[9]) * 3600 + int(found[10]) * 60) * (1 if found[8] == "+" else -1)
        else:
            offset = int(self._offset_s(local))
        return local - offset + int(found[7] or 0) / 1e3, bool(found[7])


def form_of(kind: str) -> str:
    """Return the format of a kind's lines: one of `FORMS`, or json."""
    return "json" if kind.startswith("json") else kind if kind in FORMS else "combined"


def unwrapped(line: str) -> str:
    """Return a line without what the logger of a container or a system put before or around it."""
    line = line[found.end() :] if (found := LOGGER.match(line)) else line
    try:
        form = json.loads(line) if (found := WRAPPED.match(line)) else {}
        return str(form[found[1]]).strip() if found and not form.keys() & {*FIELDS["status"]} else line
    except (ValueError, KeyError, RecursionError):
        return line


def difference(form: str, line: str) -> str:
    """Return where a line differs from a format; "" if it matches."""
    line = unwrapped(line)
    if form == "json":
        try:
            _parse_object(line)
        except BadInput as error:
            return str(error)
        return ""
    parts = FORMS[form]
    found = (re.match("".join(part for _, part in parts[:count]), line) for count in range(len(parts), -1, -1))
    count, end = next((len(parts) - at, one.end()) for at, one in enumerate(found) if one)
    return "" if count == len(parts) else f"{parts[count][0]} is expected at character {end + 1}"


def _parse_text(form: str, line: str) -> tuple[dict[str, str], str, float]:
    """Return (values by the fields of `FIELDS`, duration as text, its unit) of a line of text. Errors: `BadInput`."""
    found = LINES[form].match(line)
    if found is None:
        raise BadInput(f"no line of {NAMED[form]}: {difference(form, line)}")
    given = {name: text for name, text in found.groupdict().items() if text and text != "-"}
    if form != "combined":
        captured = given.pop("captured", "").split("|")
        if len(captured) in (3, 4):
            if " " in captured[0]:
                raise BadInput(f"{captured[0][:SHOWN]!r} is no Host; capture Host, Referer, User-Agent in this order")
            given |= {name: text for name, text in zip(CAPTURED, captured, strict=False) if text}
        return given, given["request_ms"], UNITS["ms"]
    rest = given.pop("rest", "")
    words = WORD.findall(rest) if '"' in rest else rest.split()
    pairs = (word.partition("=") for word in words)
    more, took, unit = _by_field({key.lower(): text.strip('"') for key, equals, text in pairs if equals})
    # an address with a port may be an upstream's, so it is not X-Forwarded-For
    quoted = (word.strip('"') for word in reversed(words) if word[0] == '"' and addresses(word.strip('"')))
    given = {"forwarded": next(quoted, ""), **more, **given}
    bare = list(filter(TOOK.fullmatch, words))
    return given, took or " ".join([word for word in bare if word[-1] == "s"] or bare), unit if took else POINT


def _parse_object(line: str) -> tuple[dict[str, str], str, float]:
    """Return (values by the fields of `FIELDS`, duration as text, its unit) of a JSON object. Errors: `BadInput`."""
    try:
        form = json.loads(HEXADECIMAL.sub(r"\1\\u00", line), parse_float=str, parse_int=str)
        flat = dict(_flattened("", form)) if isinstance(form, dict) else None
    except (ValueError, RecursionError) as error:
        raise BadInput("not JSON") from error
    if flat is None:
        raise BadInput("not an object")
    given, took, unit = _by_field(flat)
    for names in ("status",), ("address", "forwarded", "visitor"), ("request", "path"), ("begin", "end", "time"):
        if not any(NAMES.get(key) in names for key in flat):
            raise BadInput(f"it has no {names[0]} under a known name ({', '.join(FIELDS[names[0]])})")
    for key, begins, scale, field, date in PROGRAMS:
        if key in flat and flat[key].startswith(begins) and "duration" in flat:
            return given | ({field: flat[date]} if date in flat else {}), flat["duration"], scale
    return given, took, unit


def _flattened(parent: str, form: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, value) of an object and those nested in it: headers as nginx names them, of a list the first item;
    durationMs as duration_ms."""
    for key, value in form.items():
        name = key.lower().replace("-", "_")
        name = name if name in NAMES else CAPITAL.sub("_", key).lower().replace("-", "_")
        if isinstance(value, dict):
            yield from _flattened(name, value)
        elif value is not None:
            above = "http_" if parent == "headers" else "" if parent in ("", "request") else f"{parent}_"
            yield f"{above}{name}", str(value[0] if isinstance(value, list) and value else value)


def _by_field(flat: Mapping[str, str]) -> tuple[dict[str, str], str, float]:
    """Return (values by the fields of `FIELDS`, duration as text, its unit); of several keys of a field, the first in
    its row counts."""
    names = sorted(flat.keys() & NAMES.keys(), key=RANKS.__getitem__)
    keys = {NAMES[name]: name for name in names if flat[name] not in NONE}
    took = keys.pop("took", "")
    return {field: flat[name] for field, name in keys.items()}, flat.get(took, ""), DURATIONS.get(took, UNKNOWN)


def addresses(text: str, port: str = "") -> list[str]:
    """Return the IP addresses of a comma-separated list in canonical form; `port`: pattern that may follow one."""
    words = (re.sub(rf"(?<=[]\d]){port}$", "", word.strip()).strip("[]") for word in text.split(","))
    return [found for word in words if (found := plain_text(word))]


@lru_cache(REMEMBERED)
def inside(address: str) -> bool:
    """Return whether an address is in `INSIDE`: no visitor from the internet has it."""
    return any(ip_address(address) in network for network in INSIDE)


@lru_cache(REMEMBERED)
def client_of(text: str, forwarded: str) -> tuple[str, str]:
    """Return (client, virtual host beside it) from the address field and X-Forwarded-For. Errors: `BadInput`."""
    first, second, *_ = *re.sub(", +", ",", text).split(" "), ""
    remote, host = addresses(first, PORT if "," in first else ""), second
    if not remote and "," not in first:
        remote, host = addresses(second), first
    if not remote:
        remote, host = addresses(first, PORT), second
    listed = addresses(forwarded, PORT)
    public = (address for address in remote + listed if not inside(address))
    client = next(public, "") or next(iter(listed or remote), "")
    if not client:
        raise BadInput(f"no address of a client: {text[:SHOWN]!r}")
    return client, "" if host == "-" else host


def _target(method: str, target: str, host: str) -> tuple[str, str]:
    """Return the host name without its port, and the path, of a request target. Errors: `BadInput`."""
    authority, path = (target, "") if method == "CONNECT" else (host, target)
    if ABSOLUTE.match(target):
        authority, slash, path = target.partition("://")[2].partition("/")
        path = slash + path or "/"
    return name_of(authority), path


@lru_cache(REMEMBERED)
def name_of(authority: str) -> str:
    """Return a host's name in lower case, without port and brackets. Errors: `BadInput`."""
    try:
        return urlsplit(f"//{authority}").hostname or ""
    except ValueError as error:
        raise BadInput(f"{authority[:SHOWN]!r} is no host") from error
