# SPDX-License-Identifier: MIT
"""Access logs of nginx, Apache and HAProxy: one line, one answered request.

Question   Which client requested which page, when, for how long, and from which referring page?
Method     The combined format (with or without a virtual host before it), then fields: KEY=VALUE in any order (`KEYS`),
           or one bare number, the time that the request took. A number with a point is nginx's $request_time, seconds;
           a whole one is Apache's %D (microseconds) or %T (seconds), and which of them must be stated (`bare`). nginx
           dates a line when the answer ended, Apache and HAProxy when the request began. HAProxy's HTTP log has
           timers (Ta, else Tt, is the request's) and may have captured Host, Referer and User-Agent, in that order.
Reads as   a `Hit`: begin and end in seconds since the epoch. `fine`: both are known to a millisecond, not to a second.
Fails as   None and a counted reason for a line that is good and no load (no request in it, aborted); `BadInput` for a
           line of no such format.
Differs    from `fingerprint/device.py`, which reads the same lines for the User-Agent alone.
Source     nginx ngx_http_log_module, $request_time, $msec, $tcpinfo_rtt; Apache mod_log_config; HAProxy configuration
           manual 8.2.3 (HTTP log format), 8.4 (timing events)
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from configtron.fingerprint.features import plain
from configtron.model.errors import BadInput

QUOTED = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
REST = r'((?: "[^"\\]*(?:\\.[^"\\]*)*")*)((?: \S+)*)\s*$'
# [vhost[:port] ]client identity user [time] "request" status size "referer" "agent" ["more"] [fields]
PLAIN = re.compile(rf"([0-9a-fA-F.:]+) \S+ [^\[]*\[([^\]]*)\] {QUOTED} (\d{{3}}) \S+ {QUOTED} {QUOTED}{REST}")
HOSTED = re.compile(rf"(\S+) {PLAIN.pattern}")
# ...: client:port [time] frontend backend/server timers status size - - flags conns queues {captured} "request"
HAPROXY = re.compile(
    r"(?:.*?: )?([0-9a-fA-F.:]+):\d+ \[([^\]]*)\] \S+ \S+/\S+ ([-+/\d]+) (-?\d+) \+?\d+ \S+ \S+ (\S{4}) \S+ \S+"
    r'(?: \{([^}]*)\})?(?: \{[^}]*\})? "([^"]*)'
)
TIME = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.(\d{3}))?(?: ([+-])(\d\d)(\d\d))?$")
MONTHS = {name: at for at, name in enumerate(
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)}  # fmt: skip
# Fields after the combined format, and the values that a log writes into them; "-" stands for none.
KEYS = {
    "request_time": "nginx $request_time: seconds", "request_us": "Apache %D: microseconds",
    "msec": "nginx $msec: the end, seconds since the epoch", "begin_ms": "Apache %{msec}t: the beginning, ms",
    "host": "nginx $host, Apache %V", "dest": "the header Sec-Fetch-Dest",
    "tcpinfo_rtt": "nginx $tcpinfo_rtt: microseconds", "tcpinfo_rttvar": "nginx $tcpinfo_rttvar: microseconds",
    "profile": "name of a profile of `configtron tune`, or KNOB=VALUE;KNOB=VALUE", "propensity": "of that profile",
}  # fmt: skip
# A whole bare number -> seconds.
BARE = {"nginx": 1.0, "apache-us": 1e-6, "apache-s": 1.0}
# Addresses and times that are remembered: servers log the same few again and again.
REMEMBERED = 50_000


class Hit(NamedTuple):
    """One answered request. begin_s, end_s: since the epoch; fields: those of `KEYS` that were logged."""

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
    fields: dict[str, str]


class Parser:
    """Lines to hits. `bare`: the unit of a whole bare number (a key of BARE); `offset_s`: of local time without a
    zone."""

    def __init__(self, bare: str, offset_s: Callable[[int], float]) -> None:
        self._bare, self._offset_s = bare, offset_s
        self._addresses: dict[str, str] = {}
        self._times: dict[str, float] = {}

    def combined(self, line: str) -> Hit | str:
        """Read a line of nginx or Apache; return a hit, or why it is none. Errors: `BadInput`."""
        address, host, (time, request, status, referer, agent, _, rest) = self._combined(line)
        words = request.split(" ")
        if len(words) != 3:
            return "no request in it"
        dated_s = self._times.get(time)
        begin_s, end_s, fine, fields = self._span(self.seconds(time) if dated_s is None else dated_s, rest)
        return Hit(address, "" if agent == "-" else agent, fields.get("host", host), words[0], words[1],
                   "" if referer == "-" else referer, int(status), begin_s, end_s, fine, fields)  # fmt: skip

    def request(self, line: str) -> Hit:
        """Read the line of a beacon's request, which counts however long it took. Errors: `BadInput`."""
        address, host, (time, request, status, _, agent, _, _) = self._combined(line)
        words, end_s = request.split(" "), self.seconds(time)
        path = words[1] if len(words) == 3 else ""
        return Hit(address, "" if agent == "-" else agent, host, words[0], path, "", int(status), end_s, end_s,
                   False, {})  # fmt: skip

    def _combined(self, line: str) -> tuple[str, str, Sequence[str]]:
        """Return address, virtual host, and the fields from the date on. Errors: `BadInput`."""
        found = PLAIN.match(line)
        if found:
            text, *others = found.groups()
            if address := self._addresses.get(text) or self._address(text):
                return address, "", others
        # a host of hexadecimal letters alone passes for an address until it is read
        hosted = HOSTED.match(line)
        if hosted and (address := self._address(hosted[2])):
            return address, hosted[1].rpartition(":")[0] or hosted[1], hosted.groups()[2:]
        raise BadInput("no line of an access log (combined format)")

    def haproxy(self, line: str) -> Hit | str:
        """Read a line of HAProxy's HTTP log; return a hit, or why it is none. Errors: `BadInput`."""
        found = HAPROXY.match(line)
        address = self._address(found[1]) if found else ""
        if found is None or not address:
            raise BadInput("no line of HAProxy's HTTP log")
        _, time, timers, status, flags, captured, request = found.groups()
        words, took = request.split(" "), timers.rpartition("/")[2]
        if flags[:2] != "--" or took.startswith("-") or int(status) < 0:
            return "aborted"
        if took.startswith("+") or len(words) < 2:
            return "logged before its end"
        begin_s = self.seconds(time)
        host, referer, agent = _captured(captured)
        return Hit(address, agent, host, words[0], words[1], referer, int(status), begin_s,
                   begin_s + int(took) / 1e3, True, {})  # fmt: skip

    def _span(self, dated_s: float, rest: str) -> tuple[float, float, bool, dict[str, str]]:
        """Begin, end, whether they are known to a millisecond, and the fields that a line ends with."""
        words = rest.split()
        pairs = [word.partition("=") for word in words]
        fields = {key: value.strip('"') for key, equals, value in pairs if equals and value and value != "-"}
        if "request_us" in fields:
            seconds, ends = _number("request_us", fields) / 1e6, False
        elif "request_time" in fields:
            seconds, ends = _number("request_time", fields), True
        else:
            seconds, ends = self._bare_seconds(words), self._bare in ("", "nginx")
        if "msec" in fields:
            end_s = _number("msec", fields)
            return end_s - seconds, end_s, True, fields
        if "begin_ms" in fields:
            begin_s = _number("begin_ms", fields) / 1e3
            return begin_s, begin_s + seconds, True, fields
        began_s = dated_s - seconds if ends else dated_s
        return began_s, dated_s if ends else dated_s + seconds, False, fields

    def _bare_seconds(self, words: Sequence[str]) -> float:
        """Return how long a request took by a number that stands for itself. Errors: `BadInput`."""
        word = next((word for word in words if word.replace(".", "", 1).isdigit()), None)
        if word is None:
            raise BadInput("how long the request took is not in it; log nginx's $request_time or Apache's %D")
        if "." not in word and not self._bare:
            raise BadInput(f"{word} is microseconds (--from apache-us), seconds (apache-s), or nginx's (nginx)?")
        return float(word) * (1.0 if "." in word else BARE[self._bare])

    def _address(self, text: str) -> str:
        """As text without variants; "" if it is none."""
        known = self._addresses.get(text)
        if known is None:
            if len(self._addresses) >= REMEMBERED:
                self._addresses.clear()
            try:
                known = plain(ip_address(text).packed)
            except ValueError:
                known = ""
            self._addresses[text] = known
        return known

    def seconds(self, text: str) -> float:
        """Return a log's date as seconds since the epoch. Errors: `BadInput`."""
        known = self._times.get(text)
        if known is None:
            if len(self._times) >= REMEMBERED:
                self._times.clear()
            known = self._times[text] = self._read(text)
        return known

    def _read(self, text: str) -> float:
        found = TIME.match(text)
        if found is None or found[2] not in MONTHS:
            raise BadInput(f"no date: [{text[:60]}]")
        day, year, hour, minute, second = (int(found[at]) for at in (1, 3, 4, 5, 6))
        local = calendar.timegm((year, MONTHS[found[2]], day, hour, minute, second))
        if found[8]:
            offset = (int(found[9]) * 3600 + int(found[10]) * 60) * (1 if found[8] == "+" else -1)
        else:
            offset = int(self._offset_s(local))
        return local - offset + int(found[7] or 0) / 1e3


def _number(key: str, fields: dict[str, str]) -> float:
    try:
        value = float(fields[key])
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e18:
        raise BadInput(f"{key}: {fields[key][:60]!r} is no number")
    return value


def _captured(text: str | None) -> tuple[str, str, str]:
    """Return Host, Referer and User-Agent that HAProxy captured, if it captured three."""
    words = (text or "").split("|")
    return (words[0], words[1], words[2]) if len(words) == 3 else ("", "", "")
